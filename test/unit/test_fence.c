/* test_fence.c - the number of a leader that a Lease has elected, with a link, a timer and a clock that the
 * test owns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/log_file.h"
#include "base/clock.h"
#include "store/redis/fence.h"

enum { PATIENCE_MS = 2000, LOOK_MS = 100 };

static struct world {
    uv_loop_t loop;
    struct redis_fence *fence;
    uint64_t now_ms;
    uv_timer_cb timer_cb; /* NULL: it is not running */
    uv_timer_t *timer;
    uint64_t timer_at_ms;
    bool is_down; /* the link */
    unsigned calls;
    char mine[32]; /* what the last call had to say */
    redis_reply_fn done;
    void *done_arg;
    char seen[32]; /* the leader that the last call of the other script told of */
    unsigned sees;
    redis_reply_fn seen_done;
    void *seen_arg;
    unsigned changes;
    unsigned stopped;
    FILE *log;
} world;

uint64_t __wrap_clock_elapsed_ms(void);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_stop(uv_timer_t *timer);
int __wrap_redis_link_call(struct redis_link *link, const struct redis_script *script, const char *key,
                           const struct slice *args, size_t count, redis_reply_fn done, void *arg);

uint64_t __wrap_clock_elapsed_ms(void)
{
    return world.now_ms;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    assert_int_equal(repeat, 0);
    world.timer = timer;
    world.timer_cb = cb;
    world.timer_at_ms = world.now_ms + timeout;
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *timer UNUSED)
{
    world.timer_cb = NULL;
    return 0;
}

int __wrap_redis_link_call(struct redis_link *link UNUSED, const struct redis_script *script, const char *key,
                           const struct slice *args, size_t count, redis_reply_fn done, void *arg)
{
    assert_int_equal(count, 6);
    if (script == redis_script("leader")) {
        assert_null(world.seen_done); /* one at a time */
        assert_true(slice_equals(args[4], "15000") && slice_equals(args[5], "see"));
        if (world.is_down)
            return -ENOTCONN;
        world.sees++;
        snprintf(world.seen, sizeof(world.seen), "%.*s", (int)args[3].len, args[3].data);
        world.seen_done = done;
        world.seen_arg = arg;
        return 0;
    }
    assert_ptr_equal(script, redis_script("claim_fence"));
    assert_string_equal(key, "voice:leader:fence");
    assert_true(slice_equals(args[4], "router-0") && slice_equals(args[5], "15000"));
    assert_null(world.done); /* one at a time */
    if (world.is_down)
        return -ENOTCONN;
    world.calls++;
    snprintf(world.mine, sizeof(world.mine), "%.*s", (int)args[3].len, args[3].data);
    world.done = done;
    world.done_arg = arg;
    return 0;
}

static void advance(uint64_t ms)
{
    uint64_t end_ms = world.now_ms + ms;

    while (world.timer_cb && world.timer_at_ms <= end_ms) {
        uv_timer_cb cb = world.timer_cb;

        world.now_ms = world.timer_at_ms;
        world.timer_cb = NULL;
        cb(world.timer);
    }
    world.now_ms = end_ms;
}

static void answer(int err, const redisReply *reply)
{
    redis_reply_fn done = world.done;

    assert_true(done);
    world.done = NULL;
    done(world.done_arg, err, reply);
}

static void answer_number(const char *text)
{
    char copy[32];
    redisReply reply = {.type = REDIS_REPLY_STRING, .str = copy};

    snprintf(copy, sizeof(copy), "%s", text);
    reply.len = strlen(copy);
    answer(0, &reply);
}

static void on_change(void *arg)
{
    assert_ptr_equal(arg, &world);
    assert_true(redis_fence_number(world.fence));
    world.changes++;
}

static void on_stopped(void *arg)
{
    assert_ptr_equal(arg, &world);
    world.stopped++;
}

static void expect(uint64_t number, unsigned changes)
{
    assert_int_equal(redis_fence_number(world.fence), number);
    assert_int_equal(world.changes, changes);
}

static unsigned warnings(void)
{
    return log_file_count(world.log, "has no fence number");
}

static int setup(void **state UNUSED)
{
    const struct redis_fence_settings settings = {
        .key_prefix = "voice:",
        .identity = "router-0",
        .duration_ms = 15000,
        .patience_ms = PATIENCE_MS,
        .on_change = on_change,
        .on_change_arg = &world,
    };

    memset(&world, 0, sizeof(world));
    world.now_ms = 1000000;
    world.log = log_file_open();
    uv_loop_init(&world.loop);
    assert_int_equal(redis_fence_new(&world.loop, &settings, NULL, &world.fence), 0);
    expect(0, 0);
    return 0;
}

static void answer_seen(void)
{
    redis_reply_fn done = world.seen_done;

    assert_true(done);
    world.seen_done = NULL;
    done(world.seen_arg, -ETIMEDOUT, NULL); /* whatever it says */
}

static int teardown(void **state UNUSED)
{
    unsigned changes = world.changes;

    redis_fence_stop(world.fence, on_stopped, &world);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    if (world.seen_done) {
        assert_int_equal(world.stopped, 0); /* the answer is awaited */
        answer_seen();
        uv_run(&world.loop, UV_RUN_DEFAULT);
    }
    if (world.done) {
        assert_int_equal(world.stopped, 0); /* the answer is awaited */
        answer_number("99");
        uv_run(&world.loop, UV_RUN_DEFAULT);
    }
    assert_int_equal(world.stopped, 1);
    assert_int_equal(world.changes, changes);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    log_file_close(world.log);
    return 0;
}

static void lead(void)
{
    redis_fence_claim(world.fence);
    assert_string_equal(world.mine, "");
    expect(0, 0);
    answer_number("7");
    expect(7, 1);
}

static void claim__the_number_is_told_once_and_confirmed_with_each_write(void **state UNUSED)
{
    lead();
    for (unsigned i = 0; i < 5; i++) {
        advance(PATIENCE_MS);
        redis_fence_claim(world.fence);
        assert_string_equal(world.mine, "7");
        answer_number("7");
    }
    expect(7, 1);
    assert_int_equal(world.calls, 6);
}

static void claim__another_number_replaces_ours(void **state UNUSED)
{
    lead();
    redis_fence_claim(world.fence);
    answer_number("1700000000000");
    expect(1700000000000, 2);
    redis_fence_claim(world.fence);
    assert_string_equal(world.mine, "1700000000000");
}

static void claim__what_fails_leaves_the_number_that_is_there(void **state UNUSED)
{
    lead();
    redis_fence_claim(world.fence);
    answer(-ETIMEDOUT, NULL);
    redis_fence_claim(world.fence);
    answer_number("nonsense");
    redis_fence_claim(world.fence);
    answer(0, &(redisReply){.type = REDIS_REPLY_NIL});
    world.is_down = true;
    redis_fence_claim(world.fence);
    advance(10 * PATIENCE_MS);
    expect(7, 1);
    assert_int_equal(warnings(), 0); /* the link says that Redis is away */
}

static void claim__without_a_number_a_failure_is_said_once(void **state UNUSED)
{
    for (unsigned i = 0; i < 3; i++) {
        redis_fence_claim(world.fence);
        answer(-ETIMEDOUT, NULL);
        assert_null(world.timer_cb); /* only the next write of the Lease brings another claim */
    }
    expect(0, 0);
    assert_int_equal(warnings(), 1);
    lead();
    redis_fence_forget(world.fence);
    redis_fence_claim(world.fence);
    answer(-EIO, NULL);
    assert_int_equal(warnings(), 2);
}

static void claim__waits_for_a_connection(void **state UNUSED)
{
    world.is_down = true;
    redis_fence_claim(world.fence);
    advance(PATIENCE_MS / 2);
    assert_int_equal(world.calls, 0);
    world.is_down = false;
    advance(LOOK_MS);
    assert_int_equal(world.calls, 1);
    answer_number("7");
    expect(7, 1);
    advance(10 * PATIENCE_MS);
    assert_int_equal(world.calls, 1);
    assert_int_equal(warnings(), 0);
}

static void claim__does_not_wait_for_a_connection_for_ever(void **state UNUSED)
{
    world.is_down = true;
    redis_fence_claim(world.fence);
    advance(PATIENCE_MS + LOOK_MS);
    assert_int_equal(warnings(), 1);
    world.is_down = false;
    advance(10 * PATIENCE_MS);
    assert_int_equal(world.calls, 0); /* the Lease may be another one's by now */
    lead();
}

static void claim__during_another_one_comes_after_it(void **state UNUSED)
{
    redis_fence_claim(world.fence);
    redis_fence_claim(world.fence);
    redis_fence_claim(world.fence);
    assert_int_equal(world.calls, 1);
    answer_number("7");
    assert_int_equal(world.calls, 2);
    assert_string_equal(world.mine, "7");
    answer_number("7");
    assert_int_equal(world.calls, 2);
    expect(7, 1);
}

static void claim__that_waited_too_long_for_another_ones_answer_is_dropped(void **state UNUSED)
{
    redis_fence_claim(world.fence);
    redis_fence_claim(world.fence);
    advance(PATIENCE_MS);
    answer(-ETIMEDOUT, NULL);
    assert_int_equal(world.calls, 1);
    expect(0, 0);
}

static void see__tells_of_another_leader_each_time(void **state UNUSED)
{
    for (unsigned i = 0; i < 3; i++) {
        redis_fence_see(world.fence, "somebody");
        assert_string_equal(world.seen, "somebody");
        redis_fence_see(world.fence, "somebody"); /* nothing is lost: the next one comes */
        answer_seen();
    }
    assert_int_equal(world.sees, 3);
    world.is_down = true;
    redis_fence_see(world.fence, "somebody");
    world.is_down = false;
    assert_int_equal(world.sees, 3);
    redis_fence_see(world.fence, "somebody");
    assert_int_equal(warnings(), 0);
}

static void see__and_claim_are_both_awaited_at_the_end(void **state UNUSED)
{
    redis_fence_see(world.fence, "somebody");
    redis_fence_claim(world.fence);
}

static void forget__there_is_no_number_and_what_is_under_way_brings_none(void **state UNUSED)
{
    lead();
    redis_fence_claim(world.fence);
    redis_fence_forget(world.fence);
    expect(0, 1);
    answer_number("7");
    expect(0, 1);
    redis_fence_claim(world.fence);
    assert_string_equal(world.mine, ""); /* another time of leading has another number */
}

static void forget__a_claim_of_the_next_time_is_asked_anew(void **state UNUSED)
{
    redis_fence_claim(world.fence);
    redis_fence_forget(world.fence);
    redis_fence_claim(world.fence);
    answer_number("7");
    expect(0, 0);
    assert_int_equal(world.calls, 2);
    answer_number("8");
    expect(8, 1);
}

static void forget__what_waits_for_a_connection_is_not_sent(void **state UNUSED)
{
    world.is_down = true;
    redis_fence_claim(world.fence);
    redis_fence_forget(world.fence);
    world.is_down = false;
    advance(10 * PATIENCE_MS);
    assert_int_equal(world.calls, 0);
    assert_int_equal(warnings(), 0);
}

static void stop__the_answer_under_way_is_awaited_and_not_told(void **state UNUSED)
{
    lead();
    redis_fence_claim(world.fence); /* teardown stops it, and then answers */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(claim__the_number_is_told_once_and_confirmed_with_each_write),
        CASE(claim__another_number_replaces_ours),
        CASE(claim__what_fails_leaves_the_number_that_is_there),
        CASE(claim__without_a_number_a_failure_is_said_once),
        CASE(claim__waits_for_a_connection),
        CASE(claim__does_not_wait_for_a_connection_for_ever),
        CASE(claim__during_another_one_comes_after_it),
        CASE(claim__that_waited_too_long_for_another_ones_answer_is_dropped),
        CASE(see__tells_of_another_leader_each_time),
        CASE(see__and_claim_are_both_awaited_at_the_end),
        CASE(forget__there_is_no_number_and_what_is_under_way_brings_none),
        CASE(forget__a_claim_of_the_next_time_is_asked_anew),
        CASE(forget__what_waits_for_a_connection_is_not_sent),
        CASE(stop__the_answer_under_way_is_awaited_and_not_told),
    };

    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
