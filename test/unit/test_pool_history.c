/*
 * test_pool_history.c - the last hour of the pools: samples, gaps, and what is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "api/pool_history.h"

enum { START_MS = 123456, WALL_MS = 1770000000 };

static struct pool_history *history;
static struct strbuf text;

static int begin(void **state UNUSED)
{
    strbuf_init(&text, NULL, 8 * 1024 * 1024);
    return pool_history_new(START_MS, &history);
}

static int end(void **state UNUSED)
{
    history = pool_history_free(history);
    strbuf_release(&text);
    return 0;
}

static uint64_t slot_ms(uint64_t slot)
{
    return START_MS + slot * HISTORY_INTERVAL_MS + 1000;
}

static void take(uint64_t slot, const char *name, uint64_t calls)
{
    struct tier_status tier = {.name = name, .calls = calls, .free = 10 - calls, .capacity = 10};
    const struct result result = {.status = {.tiers = &tier, .tier_count = 1}};

    pool_history_take(history, slot_ms(slot), &result);
}

static const char *written(uint64_t slot)
{
    struct json_writer json;

    strbuf_reset(&text);
    json_begin(&json, &text);
    json_object_begin(&json);
    pool_history_write(history, slot_ms(slot), WALL_MS * 1000ULL + 1000 + slot * HISTORY_INTERVAL_MS, &json);
    json_object_end(&json);
    assert_false(strbuf_failed(&text));
    assert_true(json_is_valid(strbuf_slice(&text)));
    return text.data;
}

static size_t entries_of(const char *json, const char *key)
{
    const char *at = strstr(json, key);
    size_t count = 1;

    assert_non_null(at);
    for (at = strchr(at, '['); *at != ']'; at++)
        count += *at == ',';
    return count;
}

static void samples__are_shown_with_gaps_where_there_are_none(void **state UNUSED)
{
    take(0, "gold", 1);
    take(1, "gold", 2);
    take(3, "gold", 4);
    pool_history_refused(history, slot_ms(1));
    pool_history_refused(history, slot_ms(1));
    pool_history_refused(history, slot_ms(3));
    assert_string_equal(written(3),
                        "{\"from\":\"2026-02-02T02:40:00Z\",\"interval_seconds\":15,\"refused\":[0,2,0,1],"
                        "\"pools\":{\"gold\":{\"calls\":[1,2,null,4],\"free\":[9,8,null,6],"
                        "\"capacity\":[10,10,null,10]}},\"pools_left_out\":0}");
}

static void samples__of_more_than_an_hour_ago_are_forgotten(void **state UNUSED)
{
    for (uint64_t slot = 0; slot < HISTORY_SLOTS + 10; slot++) {
        take(slot, "gold", slot == 9 ? 7 : 4);
        if (slot == 9)
            pool_history_refused(history, slot_ms(slot));
    }
    written(HISTORY_SLOTS + 9);
    assert_int_equal(entries_of(text.data, "\"calls\""), HISTORY_SLOTS);
    assert_int_equal(entries_of(text.data, "\"refused\""), HISTORY_SLOTS);
    assert_null(strchr(strstr(text.data, "\"calls\""), '7'));
    assert_null(strstr(text.data, "null"));
    assert_non_null(strstr(text.data, "\"from\":\"2026-02-02T02:42:30Z\""));
    assert_int_equal(strspn(strstr(text.data, "\"refused\":[") + strlen("\"refused\":["), "0,"),
                     2 * HISTORY_SLOTS - 1);
}

static void pools__that_are_gone_for_an_hour_are_forgotten(void **state UNUSED)
{
    take(0, "old", 1);
    take(1, "gold", 1);
    assert_non_null(strstr(written(HISTORY_SLOTS - 1), "\"old\""));
    assert_null(strstr(written(HISTORY_SLOTS), "\"old\""));
    take(HISTORY_SLOTS, "gold", 1);
    assert_null(strstr(written(HISTORY_SLOTS), "\"old\""));
    assert_non_null(strstr(text.data, "\"gold\""));
}

static void pools__beyond_the_limit_are_counted(void **state UNUSED)
{
    enum { TIERS = HISTORY_POOLS_MAX + 3 };
    static struct tier_status tiers[TIERS];
    static char names[TIERS][16];
    struct result result = {.status = {.tiers = tiers, .tier_count = TIERS}};

    for (int i = 0; i < TIERS; i++) {
        snprintf(names[i], sizeof(names[i]), "tier-%d", i);
        tiers[i].name = names[i];
    }
    pool_history_take(history, slot_ms(0), &result);
    assert_non_null(strstr(written(0), "\"tier-255\""));
    assert_null(strstr(text.data, "\"tier-256\""));
    assert_non_null(strstr(text.data, "\"pools_left_out\":3"));
    result.status.tier_count = 1;
    pool_history_take(history, slot_ms(1), &result);
    assert_non_null(strstr(written(1), "\"pools_left_out\":0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples__are_shown_with_gaps_where_there_are_none, begin, end),
        cmocka_unit_test_setup_teardown(samples__of_more_than_an_hour_ago_are_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(pools__that_are_gone_for_an_hour_are_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(pools__beyond_the_limit_are_counted, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
