/* test_base.c - the pieces that every room stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log_limit.h"
#include "base/log_repeat.h"
#include "base/log_text.h"
#include "base/map.h"
#include "base/nearest.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/strbuf.h"

static void json__says_where_it_is_wrong(void **state UNUSED)
{
    static const struct {
        const char *text;
        size_t line, column;
    } rows[] = {
        {"", 1, 1},
        {"nonsense", 1, 1},
        {"{\"a\":1,}", 1, 8},
        {"{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3},
        {"{\"\xc3\xa4\xc3\xb6\": x}", 1, 8},
        {"{} {}", 1, 4},
        {"[1, 2", 1, 6},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t line, column;

        json_find_fault(slice_of(rows[i].text), &line, &column);
        if (line != rows[i].line || column != rows[i].column)
            fail_msg("%s: line %zu, column %zu", rows[i].text, line, column);
    }
}

static void json__is_made_compact_outside_of_its_strings(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1024);
    json_compact(&buf, SLICE("{\n \"a b\" :\t\"x \\\" \\\\\" , \"c\": [ 1 ,2 ]\r\n}\n"));
    assert_string_equal(buf.data, "{\"a b\":\"x \\\" \\\\\",\"c\":[1,2]}");
    strbuf_release(&buf);
}

static void nearest__is_the_name_that_was_probably_meant(void **state UNUSED)
{
    static const char *const names[] = {"type", "target", "max_concurrent", "tier"};

    assert_int_equal(edit_distance("teir", "tier", 2), 1);
    assert_int_equal(edit_distance("ca", "abc", 5), 3);
    assert_int_equal(edit_distance("kitten", "sitting", 5), 3);
    assert_int_equal(edit_distance("kitten", "sitting", 2), 3); /* more than the limit */
    assert_int_equal(edit_distance("TARGET", "target", 2), 0);
    assert_int_equal(edit_distance("", "ab", 2), 2);
    assert_string_equal(nearest_name("targt", names, ARRAY_LEN(names), 2), "target");
    assert_string_equal(nearest_name("teir", names, ARRAY_LEN(names), 2), "tier");
    assert_string_equal(nearest_name("maxConcurrent", names, ARRAY_LEN(names), 2), "max_concurrent");
    assert_null(nearest_name("colour", names, ARRAY_LEN(names), 2));
}

static void slice__a_word_counts_whatever_its_case(void **state UNUSED)
{
    assert_true(slice_is_word(SLICE("UpGrade"), "upgrade"));
    assert_false(slice_is_word(SLICE("upgrade "), "upgrade"));
    assert_false(slice_is_word(SLICE("upgrad\x05"), "upgrade"));
    assert_false(slice_is_word(SLICE("["), "{")); /* only letters have a case */
    assert_true(slice_is_word(SLICE(""), ""));
}

static void slice__lists_are_taken_apart_from_both_ends(void **state UNUSED)
{
    struct slice list = SLICE(" a ,\tb,,c d ,");
    struct slice entry;

    assert_true(slice_take_first(&list, &entry) && slice_equals(entry, "a"));
    assert_true(slice_take_last(&list, &entry) && slice_equals(entry, ""));
    assert_true(slice_take_last(&list, &entry) && slice_equals(entry, "c d"));
    assert_true(slice_take_first(&list, &entry) && slice_equals(entry, "b"));
    assert_true(slice_take_first(&list, &entry) && slice_equals(entry, ""));
    assert_false(slice_take_first(&list, &entry));
    assert_false(slice_take_last(&list, &entry));
}

static void clock__formats_known_times(void **state UNUSED)
{
    char text[CLOCK_TEXT_MAX];

    clock_format_seconds(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    clock_format_seconds(UINT64_C(951782400000), text);
    assert_string_equal(text, "2000-02-29T00:00:00Z");
    clock_format_millis(UINT64_C(1770544800123), text);
    assert_string_equal(text, "2026-02-08T10:00:00.123Z");
    clock_format_seconds(UINT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
}

static void heap__gives_nodes_in_order_of_time(void **state UNUSED)
{
    enum { N = 1000 };
    static struct heap_node nodes[N];
    struct heap heap;
    uint64_t last = 0;
    size_t left = 0;

    srand(7);
    heap_init(&heap);
    assert_int_equal(heap_reserve(&heap, N), 0);
    for (size_t i = 0; i < N; i++)
        heap_set(&heap, &nodes[i], (uint64_t)(rand() % 500));
    for (size_t i = 0; i < N; i += 3)
        heap_set(&heap, &nodes[i], (uint64_t)(rand() % 500));
    for (size_t i = 0; i < N; i += 7)
        heap_remove(&heap, &nodes[i]);
    heap_remove(&heap, &nodes[0]); /* twice is harmless */
    for (size_t i = 0; i < N; i++)
        left += i % 7 != 0;
    assert_int_equal(heap.count, left);
    while (heap_first(&heap)) {
        struct heap_node *node = heap_first(&heap);

        assert_true(node->at >= last);
        last = node->at;
        heap_remove(&heap, node);
        left--;
    }
    assert_int_equal(left, 0);
    heap_release(&heap);
}

static bool node_is_lower(const struct heap_node *a, const struct heap_node *b)
{
    return a < b;
}

static void heap__gives_nodes_of_one_moment_in_their_order(void **state UNUSED)
{
    enum { N = 300 };
    static struct heap_node nodes[N];
    struct heap heap;

    srand(11);
    heap_init_ordered(&heap, node_is_lower);
    assert_int_equal(heap_reserve(&heap, N), 0);
    for (size_t i = 0; i < 3 * N; i++)
        heap_set(&heap, &nodes[(size_t)rand() % N], (uint64_t)(rand() % 5));
    while (heap_first(&heap)) {
        struct heap_node *node = heap_first(&heap);
        struct heap_node *next;

        heap_remove(&heap, node);
        next = heap_first(&heap);
        assert_true(!next || node->at < next->at || (node->at == next->at && node < next));
    }
    heap_release(&heap);
}

struct named {
    struct map_node node;
    char name[16];
};

struct number {
    struct map_node node;
    char name[16];
};

/* The most nodes that one look-up in the map may have to pass. */
static size_t longest_chain(const struct map *map)
{
    size_t longest = 0;

    for (size_t i = 0; i < map->bucket_count; i++) {
        size_t len = 0;

        for (const struct map_node *node = map->buckets[i]; node; node = node->next)
            len++;
        longest = max_u64(longest, len);
    }
    return longest;
}

/* Names that all fall into one bucket of the map `known`, as somebody would choose who knew its secret. */
static size_t choose_collisions(struct map *known, struct number *numbers, size_t count)
{
    size_t found = 0;

    assert_int_equal(map_reserve(known), 0);
    for (unsigned i = 0; found < count; i++) {
        struct number *number = &numbers[found];

        snprintf(number->name, sizeof(number->name), "CA%u", i);
        map_put(known, &number->node, number->name, strlen(number->name));
        found += (number->node.hash & 1023) == 0;
        map_remove(known, &number->node);
    }
    return found;
}

static void map__names_that_collide_in_one_do_not_collide_in_another(void **state UNUSED)
{
    static struct number numbers[500];
    struct map known;
    struct map map;

    map_init(&known);
    map_init(&map);
    assert_memory_not_equal(known.secret, map.secret, sizeof(map.secret));
    (void)choose_collisions(&known, numbers, ARRAY_LEN(numbers));
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        assert_int_equal(map_reserve(&map), 0);
        map_put(&map, &numbers[i].node, numbers[i].name, strlen(numbers[i].name));
    }
    assert_in_range(longest_chain(&map), 1, 20);
    map_release(&known);
    map_release(&map);
}

static void map__finds_what_was_put_until_it_is_removed(void **state UNUSED)
{
    enum { N = 5000 };
    struct named *all = calloc(N, sizeof(*all));
    struct map map;
    size_t seen = 0;

    assert_non_null(all);
    map_init(&map);
    assert_null(map_get(&map, "x", 1));
    for (size_t i = 0; i < N; i++) {
        int len = snprintf(all[i].name, sizeof(all[i].name), "name-%zu", i);

        assert_int_equal(map_reserve(&map), 0);
        map_put(&map, &all[i].node, all[i].name, (size_t)len);
    }
    for (size_t i = 0; i < N; i += 2)
        map_remove(&map, &all[i].node);
    for (size_t i = 0; i < N; i++) {
        struct map_node *found = map_get(&map, all[i].name, strlen(all[i].name));

        assert_ptr_equal(found, i % 2 ? &all[i].node : NULL);
    }
    MAP_FOR_EACH (node, &map)
        seen++;
    assert_int_equal(seen, N / 2);
    assert_int_equal(map.count, N / 2);
    map_release(&map);
    free(all);
}

static void arena__stops_at_its_ceiling_and_can_be_used_again(void **state UNUSED)
{
    struct arena arena;
    size_t total = 0;

    arena_init(&arena, 64 * 1024);
    assert_null(arena_alloc(&arena, 64 * 1024 + 1));
    assert_null(arena_alloc(&arena, SIZE_MAX));
    while (arena_alloc(&arena, 1000))
        total += 1000;
    assert_in_range(total, 32 * 1024, 64 * 1024);
    arena_reset(&arena);
    assert_non_null(arena_alloc(&arena, 1000));
    arena_release(&arena);
    assert_string_equal(arena_strdup(&arena, "again"), "again");
    arena_release(&arena);
}

static void strbuf__marks_what_does_not_fit(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 10);
    strbuf_append_str(&buf, "12345");
    strbuf_append_u64(&buf, 67890);
    assert_false(strbuf_failed(&buf));
    assert_string_equal(buf.data, "1234567890");
    strbuf_append_char(&buf, 'x');
    assert_true(strbuf_failed(&buf));
    assert_string_equal(buf.data, "1234567890");
    strbuf_reset(&buf);
    strbuf_printf(&buf, "%s-%d", "a", -5);
    strbuf_append_i64(&buf, -12);
    assert_string_equal(buf.data, "a--5-12");
    strbuf_release(&buf);
}

static const char *escaped(struct strbuf *buf, const char *text)
{
    strbuf_reset(buf);
    json_escape(buf, slice_of(text));
    return buf->data;
}

static void json__escapes_any_bytes(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1000);
    assert_string_equal(escaped(&buf, "a\"\\\n\x01\x7f"), "a\\\"\\\\\\n\\u0001\\u007f");
    assert_string_equal(escaped(&buf, "gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\x9e"),
                        "gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\x9e");
    assert_string_equal(escaped(&buf, "\xff\xc0\x80\xed\xa0\x80z"),
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    assert_string_equal(escaped(&buf, "\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
    strbuf_release(&buf);
}

static void json__writes_commas_where_they_belong(void **state UNUSED)
{
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1000);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_u64(&json, "a", 1);
    json_key(&json, "b");
    json_array_begin(&json);
    json_string(&json, "x");
    json_null(&json);
    json_object_begin(&json);
    json_object_end(&json);
    json_array_end(&json);
    json_put_bool(&json, "c", false);
    json_object_end(&json);
    assert_string_equal(buf.data, "{\"a\":1,\"b\":[\"x\",null,{}],\"c\":false}");
    strbuf_release(&buf);
}

static cJSON *parsed(struct arena *arena, const char *text)
{
    return json_parse(arena, slice_of(text));
}

static void json__parses_one_text_and_nothing_else(void **state UNUSED)
{
    struct arena arena;
    cJSON *root;

    arena_init(&arena, 1024 * 1024);
    root = parsed(&arena, " {\"a\":\"b\",\"A\":1} \n");
    assert_non_null(root);
    assert_string_equal(json_get_string(root, "a"), "b");
    assert_null(json_get_string(root, "A"));
    assert_null(json_get_string(root, "c"));
    assert_null(parsed(&arena, ""));
    assert_null(parsed(&arena, "{} {}"));
    assert_null(parsed(&arena, "{\"a\":"));
    assert_null(parsed(&arena, "{\"a\":\"x\\u0000y\"}"));
    assert_non_null(parsed(&arena, "{\"a\":\"x\\\\u0000y\"}"));
    assert_null(json_parse(&arena, SLICE("{}\0")));
    arena_release(&arena);
}

static void json__is_checked_to_the_letter(void **state UNUSED)
{
    const char *good[] = {"0",       "-0", "10.5e+3", "1E-2",    "\"\"",       "\"\\u00e9\\n\\/\"",     "[]",
                          "[ 1 ,2]", "{}", "true",    " null\n", "{\"a\":{}}", "\"gr\xc3\xbc\xc3\x9f\""};
    const char *bad[] = {"",
                         "01",
                         "1.",
                         "-.5",
                         "+1",
                         ".5",
                         "1e",
                         "\"\t\"",
                         "\"\\x\"",
                         "\"\\u12\"",
                         "\"a",
                         "[1,]",
                         "[,1]",
                         "{\"a\"}",
                         "{a:1}",
                         "{\"a\":1,}",
                         "nul",
                         "tru e",
                         "\xef\xbb\xbf{}",
                         "{}\x02",
                         "\"\xff\"",
                         "[1 2]",
                         "{\"a\":1 \"b\":2}",
                         "NaN",
                         "'a'",
                         "[\"\\u0000\"]",
                         "{}}",
                         "\v{}"};
    char deep[200];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        if (!json_is_valid(slice_of(good[i])))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (json_is_valid(slice_of(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    }
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    assert_true(json_is_valid((struct slice){deep, 128}));
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    assert_false(json_is_valid((struct slice){deep, 130}));
}

struct item {
    int number;
    struct list link;
};

struct item_owner {
    int number;
    struct list list;
};

/* Gives some of them to `take`, and puts the others back in front. Not inlined: nothing is known of the list.
 */
static __attribute__((noinline)) void take_some(struct item_owner *owner, bool (*take)(struct list *link))
{
    struct list batch;
    bool goes_on = true;

    list_init(&batch);
    while (!list_is_empty(&owner->list)) {
        struct list *link = owner->list.next;

        list_remove(link);
        list_append(&batch, link);
    }
    while (goes_on && !list_is_empty(&batch)) {
        struct list *link = batch.next;

        list_remove(link);
        goes_on = take(link);
    }
    while (!list_is_empty(&batch)) {
        struct list *link = batch.prev;

        list_remove(link);
        list_append(owner->list.next, link);
    }
}

static bool take_one(struct list *link UNUSED)
{
    return false;
}

/* Compilers that look at types to find out what cannot overlap have made an endless loop of this. */
static void list__can_be_taken_apart_and_put_back(void **state UNUSED)
{
    struct item_owner owner = {.number = 0};
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    int next = 1;

    list_init(&owner.list);
    for (int i = 0; i < 3; i++)
        list_append(&owner.list, &items[i].link);
    take_some(&owner, take_one);
    LIST_FOR_EACH (link, &owner.list) {
        assert_int_equal(LIST_ENTRY(link, struct item, link)->number, next++);
    }
    assert_int_equal(next, 3);
}

static void list__keeps_order_and_forgives_a_second_remove(void **state UNUSED)
{
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct list list;
    int expect = 0;

    list_init(&list);
    for (int i = 0; i < 3; i++)
        list_append(&list, &items[i].link);
    LIST_FOR_EACH (link, &list) {
        assert_int_equal(LIST_ENTRY(link, struct item, link)->number, expect++);
        list_remove(link);
    }
    assert_true(list_is_empty(&list));
    list_remove(&items[1].link);
    assert_int_equal(expect, 3);
}

static void log_burst__lets_a_burst_pass_in_every_interval(void **state UNUSED)
{
    struct log_burst limit = {0};

    for (uint64_t begin_ms = 0; begin_ms <= 1000; begin_ms += 500) { /* a clock may start with 0 */
        assert_true(log_burst_passes(&limit, 3, 400, begin_ms));
        assert_true(log_burst_passes(&limit, 3, 400, begin_ms + 100));
        assert_true(log_burst_passes(&limit, 3, 400, begin_ms + 399));
        assert_false(log_burst_passes(&limit, 3, 400, begin_ms + 399));
    }
}

static void log_cut__shows_the_beginning_and_the_length(void **state UNUSED)
{
    char buf[LOG_CUT_SIZE];
    char text[9000];

    memset(text, 'x', sizeof(text));
    assert_string_equal(log_cut(buf, (struct slice){NULL, 0}), "");
    assert_string_equal(log_cut(buf, SLICE("/health")), "/health");
    assert_int_equal(strlen(log_cut(buf, (struct slice){text, LOG_CUT_MAX})), LOG_CUT_MAX);
    log_cut(buf, (struct slice){text, LOG_CUT_MAX + 1});
    assert_string_equal(buf + LOG_CUT_MAX, "... (129 bytes)");
    log_cut(buf, (struct slice){text, sizeof(text)});
    assert_memory_equal(buf, text, LOG_CUT_MAX);
    assert_string_equal(buf + LOG_CUT_MAX, "... (9000 bytes)");
}

static void log_limit__counts_what_it_leaves_out_of_each_kind(void **state UNUSED)
{
    uint64_t passed = 0;

    for (int i = 0; i < 1000; i++)
        passed += log_limit_passes(LOG_OF_WEBHOOK, LOG_INFO);
    assert_true(passed >= LOG_LIMIT_BURST && passed < 1000);
    assert_int_equal(passed + log_limit_left_out(LOG_OF_WEBHOOK), 1000);
    assert_int_equal(log_limit_left_out(LOG_OF_GATEWAY), 0);
    assert_true(log_limit_passes(LOG_OF_GATEWAY, LOG_INFO));
    /* What nobody would see is not missing. */
    assert_false(log_limit_passes(LOG_OF_REFUSED, LOG_DEBUG));
    assert_int_equal(log_limit_left_out(LOG_OF_REFUSED), 0);
}

static void log_repeat__is_due_at_once_and_then_now_and_then_with_their_number(void **state UNUSED)
{
    struct log_repeat repeat = {0};
    size_t told = 0;

    assert_false(log_repeat_is_due(&repeat, 0, 0, 100, &told));
    assert_true(log_repeat_is_due(&repeat, 2, 0, 100, &told)); /* a clock may start with 0 */
    assert_int_equal(told, 2);
    assert_false(log_repeat_is_due(&repeat, 1, 100, 100, &told));
    assert_false(log_repeat_is_due(&repeat, 1, 100, 100, &told));
    assert_true(log_repeat_is_due(&repeat, 1, 101, 100, &told));
    assert_int_equal(told, 3);
    assert_false(log_repeat_is_due(&repeat, 0, 500, 100, &told));
    assert_true(log_repeat_is_due(&repeat, 1, 500, 100, NULL));
    assert_false(log_repeat_is_due(&repeat, 1, 501, 100, NULL));
    log_repeat_restart(&repeat);
    assert_true(log_repeat_is_due(&repeat, 1, 502, 100, &told));
    assert_int_equal(told, 1);
}

static void hex__reads_what_it_writes_and_nothing_else(void **state UNUSED)
{
    char text[4];

    hex_write(text, 4, 0x1beef);
    assert_memory_equal(text, "beef", 4);
    for (int byte = 0; byte < 256; byte++) {
        hex_write(text, 2, (uint64_t)byte);
        assert_int_equal(hex_pair(text), byte);
        assert_int_equal(hex_value((char)byte) >= 0,
                         byte != 0 && strchr("0123456789abcdefABCDEF", byte) != NULL);
    }
    assert_int_equal(hex_pair("Fg"), -1);
    assert_int_equal(hex_pair("F"), -1);
    assert_int_equal(hex_pair(""), -1);
}

static void random__spreads_a_time_over_its_second_half(void **state UNUSED)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t ms = random_jitter_ms(1000);

        least = min_u64(least, ms);
        most = max_u64(most, ms);
    }
    assert_in_range(least, 500, 600);
    assert_in_range(most, 900, 1000);
    assert_int_equal(random_jitter_ms(0), 0);
}

static void slice__is_printable_without_spaces_and_control_characters(void **state UNUSED)
{
    assert_true(slice_is_printable(SLICE("")));
    assert_true(slice_is_printable(SLICE("!aZ09~")));
    assert_false(slice_is_printable(SLICE("a b")));
    assert_false(slice_is_printable(SLICE("a\x7f")));
    assert_false(slice_is_printable(SLICE("\xc3\xa4")));
    assert_false(slice_is_printable((struct slice){"a\0", 2}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock__formats_known_times),
        cmocka_unit_test(heap__gives_nodes_in_order_of_time),
        cmocka_unit_test(heap__gives_nodes_of_one_moment_in_their_order),
        cmocka_unit_test(map__finds_what_was_put_until_it_is_removed),
        cmocka_unit_test(map__names_that_collide_in_one_do_not_collide_in_another),
        cmocka_unit_test(arena__stops_at_its_ceiling_and_can_be_used_again),
        cmocka_unit_test(strbuf__marks_what_does_not_fit),
        cmocka_unit_test(json__escapes_any_bytes),
        cmocka_unit_test(json__writes_commas_where_they_belong),
        cmocka_unit_test(json__parses_one_text_and_nothing_else),
        cmocka_unit_test(json__is_checked_to_the_letter),
        cmocka_unit_test(json__says_where_it_is_wrong),
        cmocka_unit_test(json__is_made_compact_outside_of_its_strings),
        cmocka_unit_test(nearest__is_the_name_that_was_probably_meant),
        cmocka_unit_test(slice__a_word_counts_whatever_its_case),
        cmocka_unit_test(slice__lists_are_taken_apart_from_both_ends),
        cmocka_unit_test(list__can_be_taken_apart_and_put_back),
        cmocka_unit_test(list__keeps_order_and_forgives_a_second_remove),
        cmocka_unit_test(log_burst__lets_a_burst_pass_in_every_interval),
        cmocka_unit_test(log_cut__shows_the_beginning_and_the_length),
        cmocka_unit_test(log_limit__counts_what_it_leaves_out_of_each_kind),
        cmocka_unit_test(hex__reads_what_it_writes_and_nothing_else),
        cmocka_unit_test(random__spreads_a_time_over_its_second_half),
        cmocka_unit_test(slice__is_printable_without_spaces_and_control_characters),
        cmocka_unit_test(log_repeat__is_due_at_once_and_then_now_and_then_with_their_number),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
