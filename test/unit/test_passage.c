/* test_passage.c - one direction of a followed stream: whole messages pass, whatever the reads are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gateway/passage.h"

enum { OUT_MAX = 1 << 20 };

/* What was passed on, and what was seen. */
struct world {
    struct passage passage;
    struct strbuf in;
    struct strbuf out;
    struct strbuf seen;      /* the first letter of each message that was looked at */
    unsigned passes;         /* how often something was passed on */
    char dropped;            /* messages that begin with this are dropped; 0: none */
    char stopped;            /* at such a message nothing is followed any more */
    bool is_blocked;         /* nothing can be passed on */
    bool drops_open_on_pass; /* the first thing that cannot be passed on ends it */
};

static bool world_pass(void *arg, struct slice before, struct slice now)
{
    struct world *world = arg;

    world->passes++;
    if (world->drops_open_on_pass)
        passage_drop_open(&world->passage);
    if (world->is_blocked)
        return false;
    strbuf_append(&world->out, before.data, before.len);
    strbuf_append(&world->out, now.data, now.len);
    return true;
}

static enum passage_verdict world_look(void *arg, const struct passage_unit *unit)
{
    struct world *world = arg;
    struct slice head = unit->step->head;
    char first = head.len > 0 ? head.data[0] : '-';

    strbuf_append_char(&world->seen, first);
    if (first == world->stopped)
        return PASSAGE_STOP;
    return first == world->dropped ? PASSAGE_DROP : PASSAGE_PASS;
}

static void world_init(struct world *world)
{
    *world = (struct world){.dropped = 0};
    passage_init(&world->passage, false, 16);
    strbuf_init(&world->in, NULL, OUT_MAX);
    strbuf_init(&world->out, NULL, OUT_MAX);
    strbuf_init(&world->seen, NULL, OUT_MAX);
}

static void world_release(struct world *world)
{
    passage_release(&world->passage);
    strbuf_release(&world->in);
    strbuf_release(&world->out);
    strbuf_release(&world->seen);
}

static int feed(struct world *world, const char *data, size_t len)
{
    const struct passage_to to = {.pass = world_pass, .look = world_look, .arg = world};
    size_t used;

    return passage_feed(&world->passage, data, len, &to, &used);
}

/* A message of `len` times `letter`, in `fragments` frames. */
static void add(struct strbuf *buf, enum ws_opcode opcode, char letter, size_t len, unsigned fragments)
{
    char *text = malloc(len + 1);

    assert_non_null(text);
    memset(text, letter, len);
    for (unsigned i = 0; i < fragments; i++) {
        size_t from = len * i / fragments, to = len * (i + 1) / fragments;
        struct ws_header header = {
            .opcode = i == 0 ? opcode : WS_CONTINUATION, .is_final = i + 1 == fragments, .len = to - from};
        char head[WS_HEADER_MAX];

        strbuf_append(buf, head, ws_header_write(&header, head));
        strbuf_append(buf, text + from, to - from);
    }
    free(text);
}

static void assert_out(const struct world *world, const struct strbuf *expected)
{
    assert_int_equal(world->out.len, expected->len);
    assert_true(expected->len == 0 || memcmp(world->out.data, expected->data, expected->len) == 0);
}

static void whole_messages__pass_unchanged_in_one_piece(void **state UNUSED)
{
    struct world world;

    world_init(&world);
    add(&world.in, WS_TEXT, 'a', 100, 1);
    add(&world.in, WS_PING, 'p', 5, 1);
    add(&world.in, WS_BINARY, 'b', 70000, 3);
    assert_int_equal(feed(&world, world.in.data, world.in.len), 0);
    assert_out(&world, &world.in);
    assert_int_equal(world.passes, 1);
    world_release(&world);
}

static void reads_of_any_size__pass_the_same_bytes(void **state UNUSED)
{
    for (size_t step = 1; step < 400; step += step < 40 ? 1 : 37) {
        struct world world;

        world_init(&world);
        add(&world.in, WS_TEXT, 'a', 300, 2);
        add(&world.in, WS_PONG, 'q', 0, 1);
        add(&world.in, WS_BINARY, 'b', 1, 1);
        add(&world.in, WS_TEXT, 'c', 150, 5);
        for (size_t at = 0; at < world.in.len; at += step)
            assert_int_equal(feed(&world, world.in.data + at, min_u64(step, world.in.len - at)), 0);
        assert_out(&world, &world.in);
        assert_string_equal(world.seen.data, "a--c");
        world_release(&world);
    }
}

static void the_beginning_of_a_message__is_not_passed_on(void **state UNUSED)
{
    struct world world;
    size_t whole;

    world_init(&world);
    add(&world.in, WS_TEXT, 'a', 10, 1);
    whole = world.in.len;
    add(&world.in, WS_TEXT, 'b', 1000, 4);
    assert_int_equal(feed(&world, world.in.data, world.in.len - 1), 0);
    assert_int_equal(world.out.len, whole);
    assert_false(passage_is_torn(&world.passage));
    assert_int_equal(feed(&world, world.in.data + world.in.len - 1, 1), 0);
    assert_out(&world, &world.in);
    world_release(&world);
}

static void dropped_messages__leave_the_others(void **state UNUSED)
{
    for (size_t step = 1; step < 200; step += 7) {
        struct world world;
        struct strbuf expected;

        world_init(&world);
        world.dropped = 'm';
        strbuf_init(&expected, NULL, OUT_MAX);
        for (unsigned i = 0; i < 3; i++) {
            add(&world.in, WS_TEXT, 'm', 40, 1 + i);
            add(&world.in, WS_TEXT, 'a', 50, 2);
            add(&expected, WS_TEXT, 'a', 50, 2);
            add(&world.in, WS_TEXT, 'm', 0, 1); /* empty: it is none of those */
            add(&expected, WS_TEXT, 'm', 0, 1);
            add(&world.in, WS_TEXT, 'm', 3, 1);
        }
        for (size_t at = 0; at < world.in.len; at += step)
            assert_int_equal(feed(&world, world.in.data + at, min_u64(step, world.in.len - at)), 0);
        assert_out(&world, &expected);
        strbuf_release(&expected);
        world_release(&world);
    }
}

static void long_messages__pass_as_they_come_or_are_dropped(void **state UNUSED)
{
    for (int streams = 0; streams < 2; streams++) {
        struct world world;
        struct strbuf after;

        world_init(&world);
        world.passage.streams_large = streams;
        strbuf_init(&after, NULL, OUT_MAX);
        add(&world.in, WS_BINARY, 'b', PASSAGE_TAIL_MAX + 1000, 1);
        assert_int_equal(feed(&world, world.in.data, PASSAGE_TAIL_MAX - 10), 0);
        assert_int_equal(world.out.len, 0);
        assert_int_equal(feed(&world, world.in.data + PASSAGE_TAIL_MAX - 10, 20), 0);
        assert_int_equal(world.out.len, streams ? PASSAGE_TAIL_MAX + 10 : 0);
        assert_int_equal(passage_is_torn(&world.passage), streams);
        add(&after, WS_TEXT, 'a', 10, 1);
        add(&world.in, WS_TEXT, 'a', 10, 1);
        assert_int_equal(
            feed(&world, world.in.data + PASSAGE_TAIL_MAX + 10, world.in.len - PASSAGE_TAIL_MAX - 10), 0);
        assert_out(&world, streams ? &world.in : &after);
        assert_false(passage_is_torn(&world.passage));
        strbuf_release(&after);
        world_release(&world);
    }
}

static void an_open_message_that_is_dropped__is_dropped_to_its_end(void **state UNUSED)
{
    struct world world;
    struct strbuf expected;
    size_t half;

    world_init(&world);
    strbuf_init(&expected, NULL, OUT_MAX);
    add(&world.in, WS_TEXT, 'b', 1000, 2);
    half = world.in.len / 3;
    add(&world.in, WS_TEXT, 'a', 10, 1);
    add(&expected, WS_TEXT, 'a', 10, 1);
    assert_int_equal(feed(&world, world.in.data, half), 0);
    passage_drop_open(&world.passage);
    assert_int_equal(feed(&world, world.in.data + half, world.in.len - half), 0);
    assert_out(&world, &expected);
    passage_drop_open(&world.passage); /* nothing is open: nothing is dropped */
    assert_int_equal(feed(&world, expected.data, expected.len), 0);
    assert_int_equal(world.out.len, 2 * expected.len);
    strbuf_release(&expected);
    world_release(&world);
}

static void a_broken_receiver__gets_nothing_of_the_message_that_broke_it(void **state UNUSED)
{
    struct world world;

    world_init(&world);
    add(&world.in, WS_BINARY, 'b', PASSAGE_TAIL_MAX + 5000, 1);
    world.drops_open_on_pass = true;
    world.is_blocked = true;
    assert_int_equal(feed(&world, world.in.data, PASSAGE_TAIL_MAX + 100), 0);
    world.drops_open_on_pass = false;
    world.is_blocked = false;
    assert_int_equal(
        feed(&world, world.in.data + PASSAGE_TAIL_MAX + 100, world.in.len - PASSAGE_TAIL_MAX - 100), 0);
    assert_int_equal(world.out.len, 0);
    assert_false(passage_is_torn(&world.passage));
    world_release(&world);
}

static void a_stop__lets_nothing_more_pass(void **state UNUSED)
{
    struct world world;
    size_t whole;

    world_init(&world);
    world.stopped = 's';
    add(&world.in, WS_TEXT, 'a', 10, 1);
    whole = world.in.len;
    add(&world.in, WS_CLOSE, 's', 2, 1);
    add(&world.in, WS_TEXT, 'a', 10, 1);
    assert_int_equal(feed(&world, world.in.data, world.in.len), 0);
    assert_int_equal(feed(&world, world.in.data, world.in.len), 0);
    assert_int_equal(world.out.len, whole);
    assert_string_equal(world.seen.data, "as");
    world_release(&world);
}

static void what_is_no_frame__is_told_and_what_came_before_it_passed(void **state UNUSED)
{
    const struct passage_to to = {.pass = world_pass, .look = world_look};
    struct passage_to mine = to;
    struct world world;
    size_t used = 0;
    size_t whole;

    world_init(&world);
    mine.arg = &world;
    add(&world.in, WS_TEXT, 'a', 10, 1);
    whole = world.in.len;
    strbuf_append(&world.in, "\xff\xff\xff\xff", 4);
    assert_int_equal(passage_feed(&world.passage, world.in.data, world.in.len, &mine, &used), -EPROTO);
    assert_int_equal(used, whole);
    assert_int_equal(world.out.len, whole);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_messages__pass_unchanged_in_one_piece),
        cmocka_unit_test(reads_of_any_size__pass_the_same_bytes),
        cmocka_unit_test(the_beginning_of_a_message__is_not_passed_on),
        cmocka_unit_test(dropped_messages__leave_the_others),
        cmocka_unit_test(long_messages__pass_as_they_come_or_are_dropped),
        cmocka_unit_test(an_open_message_that_is_dropped__is_dropped_to_its_end),
        cmocka_unit_test(a_broken_receiver__gets_nothing_of_the_message_that_broke_it),
        cmocka_unit_test(a_stop__lets_nothing_more_pass),
        cmocka_unit_test(what_is_no_frame__is_told_and_what_came_before_it_passed),
    };

    return cmocka_run_group_tests_name("passage", tests, NULL, NULL);
}
