/*
 * cases_line.c - what every store answers about calls that wait for a pod: joining, order, grants, and the
 * ends of waits.
 */
#include "../support/world.h"

#define TWO_TIERS "{\"gold\":1,\"standard\":1}"
#define SHARED "{\"s\":{\"type\":\"shared\",\"max_concurrent\":2,\"target\":1}}"

static void join__a_call_that_finds_no_pod_waits_if_it_may(void **state)
{
    struct world world;
    const struct waiting_call *waiting;

    world_init_busy(&world, *state);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_false(world.result.allocate.is_full);
    assert_int_equal(waiting_count(&world), 0);
    assert_int_equal(wait_for(&world, "CA2", "")->outcome, OUTCOME_WAITING);
    assert_true(world.result.allocate.has_joined);
    waiting = &world.result.allocate.waiting;
    assert_string_equal(waiting->call_sid, "CA2");
    assert_string_equal(waiting->provider, "twilio");
    assert_string_equal(waiting->holder, "");
    assert_int_equal(waiting->since_ms, world_now(&world));
    assert_int_equal(waiting->until_ms, world_now(&world) + WAIT_MAX);
    assert_int_equal(waiting->heard_at_ms, world_now(&world));
    assert_int_equal(waiting->position, 1);
    assert_int_equal(waiting->estimate_ms, 0);
    assert_int_equal(waiting->pool_count, 1);
    assert_string_equal(waiting->pools[0], "pool:standard");
    assert_false(waiting->is_rescued);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(tier(&world, "standard")->waiting, 1);
    assert_int_equal(call_count(&world), 1);
    world_release(&world);
}

static void join__merchants_say_how_long_and_how_many(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    merchant_set(&world, "never", "{\"hold_seconds\":0}");
    merchant_set(&world, "short", "{\"hold_seconds\":20,\"max_waiting\":1,\"priority\":3}");
    assert_int_equal(wait_for(&world, "CA2", "never")->outcome, OUTCOME_NO_PODS);
    assert_false(world.result.allocate.is_full);
    assert_int_equal(wait_for(&world, "CA3", "short")->outcome, OUTCOME_WAITING);
    assert_int_equal(world.result.allocate.waiting.until_ms, world_now(&world) + 20000);
    assert_int_equal(world.result.allocate.waiting.priority, 3);
    assert_int_equal(wait_for(&world, "CA4", "short")->outcome, OUTCOME_NO_PODS);
    assert_true(world.result.allocate.is_full);
    assert_int_equal(wait_for(&world, "CA3", "short")->outcome, OUTCOME_WAITING);
    assert_false(world.result.allocate.has_joined);
    release(&world, "CA3");
    assert_int_equal(wait_for(&world, "CA4", "short")->outcome, OUTCOME_WAITING);
    world_release(&world);
}

static void join__the_line_has_a_limit(void **state)
{
    struct world world;
    char sid[16];

    world_init_busy(&world, *state);
    for (int i = 0; i < WAITING_MAX; i++) {
        snprintf(sid, sizeof(sid), "CB%d", i);
        assert_int_equal(wait_for(&world, sid, "")->outcome, OUTCOME_WAITING);
        assert_int_equal(world.result.allocate.waiting.position, i + 1);
    }
    assert_int_equal(wait_for(&world, "CB9", "")->outcome, OUTCOME_NO_PODS);
    assert_true(world.result.allocate.is_full);
    assert_non_null(world.result.allocate.refusal);
    assert_int_equal(wait_for(&world, "CB0", "")->outcome, OUTCOME_WAITING); /* it stands there already */
    release(&world, "CB3");
    assert_int_equal(wait_for(&world, "CB9", "")->outcome, OUTCOME_WAITING);
    assert_int_equal(world.result.allocate.waiting.position, WAITING_MAX);
    world_release(&world);
}

static void join__where_nobody_may_wait_the_call_is_refused_as_ever(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(wait_for(&world, "CA2", "")->outcome, OUTCOME_NO_PODS);
    assert_false(world.result.allocate.is_full);
    assert_non_null(world.result.allocate.refusal);
    /* A merchant may wait all the same. */
    merchant_set(&world, "m", "{\"hold_seconds\":10}");
    assert_int_equal(wait_for(&world, "CA3", "m")->outcome, OUTCOME_NO_PODS); /* HOLD_MAX_CALLS is 0 here */
    assert_true(world.result.allocate.is_full);
    world_release(&world);
}

static void ask__without_waiting_leaves_a_waiting_call_where_it_is(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    world_advance(&world, 5000);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_non_null(world.result.allocate.refusal);
    assert_false(world.result.allocate.has_ended);
    assert_int_equal(waiting_of(&world, "CA2")->heard_at_ms, world_now(&world) - 5000);
    world_release(&world);
}

static void ask__again_keeps_the_place_and_the_first_merchant(void **state)
{
    struct world world;
    uint64_t since_ms;

    world_init_busy(&world, *state);
    merchant_set(&world, "first", "{\"priority\":2}");
    since_ms = world_now(&world);
    wait_for(&world, "CA2", "first");
    world_advance(&world, 5000);
    wait_for(&world, "CA3", "");
    merchant_set(&world, "first", "{\"priority\":0}");
    merchant_set(&world, "other", "{\"priority\":9}");
    assert_int_equal(wait_for(&world, "CA2", "other")->outcome, OUTCOME_WAITING);
    assert_false(world.result.allocate.has_joined);
    assert_string_equal(world.result.allocate.waiting.merchant_id, "first");
    assert_int_equal(world.result.allocate.waiting.priority, 2);
    assert_int_equal(world.result.allocate.waiting.since_ms, since_ms);
    assert_int_equal(world.result.allocate.waiting.heard_at_ms, since_ms + 5000);
    assert_int_equal(world.result.allocate.waiting.position, 1);
    assert_int_equal(wait_for(&world, "CA3", "")->allocate.waiting.position, 2);
    world_release(&world);
}

static void ask__by_another_provider_is_forbidden(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_ALLOCATE,
                                      .allocate = {"CA2", "", "plivo", .is_webhook = true, .waits = true}})
            ->outcome,
        OUTCOME_FORBIDDEN);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_RELEASE,
                                                   .release = {.call_sid = "CA2", .provider = "plivo"}})
                         ->outcome,
                     OUTCOME_FORBIDDEN);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_RELEASE,
                                                   .release = {.call_sid = "CA2", .provider = "twilio"}})
                         ->outcome,
                     OUTCOME_OK);
    world_release(&world);
}

static void grant__a_release_gives_the_pod_to_the_first_in_line(void **state)
{
    struct world world;
    const struct call_info *call;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    world_advance(&world, 1000);
    wait_for(&world, "CA3", "");
    world_advance(&world, 2000);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.released_to, "pool:standard");
    call = call_of(&world, "CA2");
    assert_string_equal(call->pod, POD0);
    assert_string_equal(call->pool, "pool:standard");
    assert_string_equal(call->provider, "twilio");
    assert_int_equal(call->allocated_at_ms / 1000, world_now(&world) / 1000);
    assert_int_equal(call->expires_at_ms, world_now(&world) + WAIT_TAKE_MS);
    assert_true(call->activity.is_granted);
    assert_int_equal(call->activity.state, CALL_IS_GRANTED);
    assert_int_equal(waiting_of(&world, "CA3")->position, 1);
    assert_int_equal(waiting_count(&world), 1);
    /* One that does not wait does not overtake. */
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    world_release(&world);
}

static void grant__is_taken_by_the_next_word(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    world_advance(&world, 3000);
    release(&world, "CA1");
    world_advance(&world, 4000);
    assert_int_equal(wait_for(&world, "CA2", "")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_taken);
    assert_false(world.result.allocate.was_existing);
    assert_int_equal(world.result.allocate.waited_ms, 7000);
    assert_string_equal(world.result.allocate.call.pod, POD0);
    assert_int_equal(world.result.allocate.call.allocated_at_ms / 1000, (world_now(&world) - 4000) / 1000);
    assert_int_equal(world.result.allocate.call.expires_at_ms, world_now(&world) + 4 * HOUR);
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_ALLOCATED);
    assert_true(wait_for(&world, "CA2", "")->allocate.was_existing);
    assert_false(world.result.allocate.was_taken);
    world_release(&world);
}

static void grant__is_taken_by_a_hold_and_by_signs_of_life(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":4,\"target\":1}}", 1);
    allocate_many(&world, 4);
    for (int i = 0; i < 4; i++) {
        char sid[] = "CB0";

        sid[2] = (char)('0' + i);
        wait_held(&world, sid);
    }
    world_advance(&world, 1000);
    for (int i = 0; i < 4; i++) {
        char sid[] = "CA0";

        sid[2] = (char)('0' + i);
        release(&world, sid);
    }
    assert_int_equal(hold(&world, "CB0")->outcome, OUTCOME_OK);
    assert_true(world.result.hold.was_taken);
    assert_int_equal(world.result.hold.waited_ms, 1000);
    assert_int_equal(world.result.hold.call.expires_at_ms, world_now(&world) + LEASE);
    assert_int_equal(renew(&world, "CB1")->renew.renewed.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CB2")->heartbeat.renewed.count, 1);
    assert_int_equal(state_of(&world, "CB0"), CALL_IS_ACTIVE);
    assert_int_equal(state_of(&world, "CB1"), CALL_IS_ACTIVE);
    assert_int_equal(state_of(&world, "CB2"), CALL_IS_ACTIVE);
    assert_int_equal(state_of(&world, "CB3"), CALL_IS_GRANTED);
    assert_false(hold(&world, "CB0")->hold.was_taken);
    world_advance(&world, WAIT_TAKE_MS);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    assert_string_equal(world.result.serve.ended[0].call_sid, "CB3");
    assert_int_equal(world.result.serve.ended[0].how, WAIT_ABANDONED);
    assert_int_equal(world.result.serve.ended[0].waited_ms, 1000 + WAIT_TAKE_MS);
    assert_int_equal(call_count(&world), 3);
    world_release(&world);
}

static void grant__that_is_not_taken_goes_on_to_the_next(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    release(&world, "CA1");
    wait_for(&world, "CA3", "");
    world_advance(&world, 10000);
    wait_for(&world, "CA3", "");
    world_advance(&world, WAIT_TAKE_MS - 10000);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    assert_string_equal(world.result.serve.ended[0].call_sid, "CA2");
    assert_int_equal(world.result.serve.granted, 1);
    assert_int_equal(state_of(&world, "CA3"), CALL_IS_GRANTED);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_STORY, .call = {"CA2"}})->outcome,
                     OUTCOME_OK);
    assert_int_equal(world.result.story.past_count, 1);
    assert_int_equal(world.result.story.past[0].how, PAST_EXPIRED);
    /* Its end is not recorded: it may come back. */
    assert_int_equal(wait_for(&world, "CA2", "")->outcome, OUTCOME_WAITING);
    world_release(&world);
}

static void grant__that_is_released_is_over_for_good(void **state)
{
    struct world world;
    uint64_t now_ms;

    world_init_busy(&world, *state);
    now_ms = world_now(&world);
    wait_for(&world, "CA2", "");
    release(&world, "CA1");
    assert_int_equal(release(&world, "CA2")->outcome, OUTCOME_OK);
    assert_false(world.result.release.was_waiting);
    /* A keep that was under way does not bring it back. */
    assert_int_equal(keep_waiting(&world, "CA2", now_ms, now_ms + WAIT_MAX)->keep.calls[0].answer,
                     KEEP_ENDED);
    assert_int_equal(waiting_count(&world), 0);
    world_release(&world);
}

static void order__priority_is_worth_a_time_of_waiting(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    merchant_set(&world, "vip", "{\"priority\":2}");
    wait_for(&world, "CA2", "");
    world_advance(&world, 2 * AGEING);
    wait_for(&world, "CA3", "");    /* 12 s later, nothing ahead */
    wait_for(&world, "CA0", "vip"); /* the same place as CA2: the names decide */
    assert_int_equal(world.result.allocate.waiting.position, 1);
    world_advance(&world, 1000);
    wait_for(&world, "CA1x", "vip"); /* one second behind CA2 */
    assert_int_equal(world.result.allocate.waiting.position, 3);
    wait_for(&world, "CA2", "");
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA0"), CALL_IS_GRANTED);
    release(&world, "CA0");
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    release(&world, "CA2");
    assert_int_equal(state_of(&world, "CA1x"), CALL_IS_GRANTED);
    release(&world, "CA1x");
    assert_int_equal(state_of(&world, "CA3"), CALL_IS_GRANTED);
    world_release(&world);
}

static void order__each_pool_has_its_own_line(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, TWO_TIERS, 2);
    allocate(&world, "CA1"); /* gold */
    allocate(&world, "CA2"); /* standard */
    merchant_set(&world, "cheap", "{\"tier\":\"standard\"}");
    wait_for(&world, "CB1", "cheap");
    world_advance(&world, 1000);
    wait_for(&world, "CB2", "");
    assert_int_equal(world.result.allocate.waiting.position, 1); /* of gold; it is the second of standard */
    assert_int_equal(world.result.allocate.waiting.pool_count, 2);
    assert_int_equal(tier(&world, "gold")->waiting, 1);
    assert_int_equal(tier(&world, "standard")->waiting, 1);
    release(&world, "CA1");
    assert_string_equal(call_of(&world, "CB2")->pool, "pool:gold");
    assert_int_equal(waiting_of(&world, "CB1")->position, 1);
    release(&world, "CA2");
    assert_string_equal(call_of(&world, "CB1")->pool, "pool:standard");
    assert_int_equal(waiting_count(&world), 0);
    world_release(&world);
}

static void order__a_pod_that_comes_serves_as_many_as_fit(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    wait_for(&world, "CB1", "");
    world_advance(&world, 1000);
    wait_for(&world, "CB2", "");
    world_advance(&world, 1000);
    wait_for(&world, "CB3", "");
    see(&world, seen_of(POD1));
    assert_string_equal(call_of(&world, "CB1")->pod, POD1);
    assert_string_equal(call_of(&world, "CB2")->pod, POD1);
    assert_int_equal(waiting_of(&world, "CB3")->position, 1);
    drain(&world, POD1, MINUTE);
    release(&world, "CB1"); /* on a pod that drains: no slot for anybody */
    assert_int_equal(waiting_count(&world), 1);
    undrain(&world, POD1);
    assert_string_equal(call_of(&world, "CB3")->pod, POD1);
    world_release(&world);
}

static void overdue__is_passed_over_until_it_is_heard(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    world_advance(&world, 10000);
    wait_for(&world, "CA3", "");
    world_advance(&world, WAIT_SILENT_MS - 10000);
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA3"), CALL_IS_GRANTED);
    assert_int_equal(waiting_of(&world, "CA2")->position, 1);
    release(&world, "CA3"); /* nobody but CA2 is there: the pod is free */
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_int_equal(wait_for(&world, "CA2", "")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_taken);
    assert_int_equal(world.result.allocate.waited_ms, WAIT_SILENT_MS);
    world_release(&world);
}

static void overdue__the_first_word_of_a_stream_has_longer(void **state)
{
    struct world world;
    struct command asks = {.type = COMMAND_ALLOCATE,
                           .allocate = {"CA2", "", "twilio", .waits = true, .awaits_stream = true}};

    world_init_busy(&world, *state);
    run(&world, &asks);
    assert_int_equal(world.result.outcome, OUTCOME_WAITING);
    world_advance(&world, WAIT_FIRST_MS - 1000);
    assert_int_equal(serve(&world)->serve.ended_count, 0);
    assert_int_equal(keep_waiting(&world, "CA2", 0, 0)->keep.calls[0].answer, KEEP_WAITING);
    world_advance(&world, WAIT_SILENT_MS);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    asks.allocate.call_sid = "CA3";
    run(&world, &asks);
    world_advance(&world, WAIT_FIRST_MS);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    assert_int_equal(world.result.serve.ended[0].how, WAIT_ABANDONED);
    world_release(&world);
}

/* One script of Redis passes over 2,000 of them, for all lines that it looks at. */
static void overdue__however_many_take_no_pod_of_another_line(void **state)
{
    enum { CALLS = 2001 };
    struct world world;
    char sid[16];

    world_init_line(&world, *state, TWO_TIERS, 2, CALLS);
    merchant_set(&world, "rich", "{\"fallback\":[\"gold\"]}");
    allocate_for(&world, "CA1", "rich");
    for (int i = 0; i < CALLS; i++) {
        snprintf(sid, sizeof(sid), "CB%d", i);
        assert_int_equal(wait_for(&world, sid, "rich")->outcome, OUTCOME_WAITING);
    }
    world_advance(&world, WAIT_SILENT_MS);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.allocate.call.pool, "pool:standard");
    world_release(&world);
}

static void serve__ends_silent_waits_and_those_whose_time_is_over(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    merchant_set(&world, "m", "{\"hold_seconds\":10}");
    wait_for(&world, "CA2", "m");
    wait_for(&world, "CA3", "");
    assert_int_equal(serve(&world)->serve.ended_count, 0);
    world_advance(&world, 10000);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    assert_string_equal(world.result.serve.ended[0].call_sid, "CA2");
    assert_string_equal(world.result.serve.ended[0].merchant_id, "m");
    assert_string_equal(world.result.serve.ended[0].provider, "twilio");
    assert_int_equal(world.result.serve.ended[0].how, WAIT_TIMED_OUT);
    assert_int_equal(world.result.serve.ended[0].waited_ms, 10000);
    world_advance(&world, 5000);
    assert_int_equal(serve(&world)->serve.ended_count, 1);
    assert_string_equal(world.result.serve.ended[0].call_sid, "CA3");
    assert_int_equal(world.result.serve.ended[0].how, WAIT_ABANDONED);
    assert_int_equal(waiting_count(&world), 0);
    /* The end of the first one is recorded, that of the other is not. */
    assert_int_equal(resume(&world, "CA2", NULL)->outcome, OUTCOME_NOT_FOUND);
    assert_true(world.result.allocate.has_ended);
    assert_int_equal(world.result.allocate.why, FINISH_TIMED_OUT);
    assert_int_equal(resume(&world, "CA3", NULL)->outcome, OUTCOME_WAITING);
    world_release(&world);
}

static void serve__stops_at_its_limit(void **state)
{
    struct world world;
    const struct command one = {.type = COMMAND_SERVE, .serve = {.limit = 1}};

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    wait_for(&world, "CA3", "");
    world_advance(&world, WAIT_SILENT_MS);
    assert_int_equal(run(&world, &one)->serve.ended_count, 1);
    assert_true(world.result.serve.more);
    assert_int_equal(run(&world, &one)->serve.ended_count, 1);
    assert_false(world.result.serve.more);
    assert_int_equal(run(&world, &one)->serve.ended_count, 0);
    world_release(&world);
}

static void ask__after_its_time_ends_the_wait(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    merchant_set(&world, "m", "{\"hold_seconds\":10}");
    wait_for(&world, "CA2", "m");
    world_advance(&world, 10000);
    assert_int_equal(wait_for(&world, "CA2", "m")->outcome, OUTCOME_NO_PODS);
    assert_true(world.result.allocate.has_ended);
    assert_int_equal(world.result.allocate.why, FINISH_TIMED_OUT);
    assert_int_equal(world.result.allocate.waited_ms, 10000);
    assert_false(world.result.allocate.is_full);
    assert_int_equal(waiting_count(&world), 0);
    assert_int_equal(keep_waiting(&world, "CA2", 1, 2)->keep.calls[0].answer, KEEP_TIMED_OUT);
    assert_false(world.result.keep.calls[0].ended_now);
    world_release(&world);
}

static void join__not_again_once_the_wait_has_timed_out(void **state)
{
    const struct command serve = {.type = COMMAND_SERVE};
    struct world world;

    world_init_busy(&world, *state);
    merchant_set(&world, "m", "{\"hold_seconds\":10}");
    wait_for(&world, "CA2", "m");
    world_advance(&world, 10000);
    assert_int_equal(run(&world, &serve)->serve.ended_count, 1);
    assert_int_equal(wait_for(&world, "CA2", "m")->outcome, OUTCOME_NO_PODS);
    assert_false(world.result.allocate.has_ended); /* somebody else ended it, and counted that */
    assert_false(world.result.allocate.is_full);
    assert_int_equal(waiting_count(&world), 0);
    release(&world, "CA1");
    assert_int_equal(wait_for(&world, "CA2", "m")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void chain__is_resolved_anew_by_an_ask_and_by_a_keep(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, TWO_TIERS, 2);
    allocate(&world, "CA1");
    merchant_set(&world, "m", "{\"fallback\":[\"gold\"]}");
    wait_for(&world, "CB1", "m");
    assert_int_equal(world.result.allocate.waiting.pool_count, 1);
    merchant_set(&world, "m", "{\"fallback\":[\"standard\"]}"); /* which has a free pod */
    assert_int_equal(waiting_of(&world, "CB1")->pool_count, 1);
    assert_string_equal(waiting_of(&world, "CB1")->pools[0], "pool:gold");
    assert_int_equal(wait_for(&world, "CB1", "")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_taken);
    assert_string_equal(world.result.allocate.call.pool, "pool:standard");
    merchant_set(&world, "m", "{\"fallback\":[\"gold\"]}");
    wait_for(&world, "CB2", "m");
    merchant_set(&world, "m", "{\"fallback\":[\"none\"]}");
    assert_int_equal(keep_waiting(&world, "CB2", 0, 0)->keep.calls[0].answer, KEEP_WAITING);
    assert_int_equal(waiting_of(&world, "CB2")->pool_count, 0);
    assert_int_equal(waiting_of(&world, "CB2")->position, 0);
    release(&world, "CA1");
    assert_int_equal(waiting_count(&world), 1);
    merchant_set(&world, "m", "{\"fallback\":[\"gold\"]}");
    keep_waiting(&world, "CB2", 0, 0);
    assert_string_equal(call_of(&world, "CB2")->pool, "pool:gold");
    world_release(&world);
}

static void tiers__a_change_serves_who_waits(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    wait_for(&world, "CB1", "");
    tiers_set(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}");
    assert_int_equal(state_of(&world, "CB1"), CALL_IS_GRANTED);
    wait_for(&world, "CB2", "");
    /* Its pool is removed: it waits for a pool that nobody configures, until it is kept. */
    tiers_set(&world, ONE_TIER);
    assert_string_equal(waiting_of(&world, "CB2")->pools[0], "pool:s");
    see(&world, seen_of(POD1));
    assert_int_equal(waiting_count(&world), 1);
    keep_waiting(&world, "CB2", 0, 0);
    assert_string_equal(call_of(&world, "CB2")->pod, POD1);
    world_release(&world);
}

static void hold__and_queries_say_that_a_call_waits(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    assert_int_equal(hold(&world, "CA2")->outcome, OUTCOME_WAITING);
    assert_string_equal(world.result.hold.waiting.call_sid, "CA2");
    assert_int_equal(renew(&world, "CA2")->renew.unknown.count, 1);
    run(&world, &(struct command){.type = COMMAND_STORY, .call = {"CA2"}});
    assert_int_equal(world.result.outcome, OUTCOME_OK);
    assert_true(world.result.story.is_waiting);
    assert_false(world.result.story.is_live);
    assert_int_equal(world.result.story.waiting.position, 1);
    world_release(&world);
}

static void waiting__shows_the_line_page_by_page(void **state)
{
    struct world world;
    struct command page = {.type = COMMAND_WAITING, .waiting = {.limit = 2}};

    world_init_busy(&world, *state);
    merchant_set(&world, "vip", "{\"priority\":9}");
    wait_for(&world, "CB1", "");
    wait_for(&world, "CB3", "");
    wait_for(&world, "CB2", "");
    world_advance(&world, 1000);
    wait_for(&world, "CB4", "vip");
    run(&world, &page);
    assert_int_equal(world.result.waiting.count, 2);
    assert_int_equal(world.result.waiting.total, 4);
    assert_int_equal(world.result.waiting.now_ms, world_now(&world));
    assert_string_equal(world.result.waiting.calls[0].call_sid, "CB4");
    assert_string_equal(world.result.waiting.calls[0].merchant_id, "vip");
    assert_int_equal(world.result.waiting.calls[0].position, 1);
    assert_string_equal(world.result.waiting.calls[1].call_sid, "CB1");
    page.waiting.cursor = world.result.waiting.next_cursor;
    release(&world, "CB1"); /* the last of the page before: the next one begins behind it all the same */
    run(&world, &page);
    assert_int_equal(world.result.waiting.count, 2);
    assert_string_equal(world.result.waiting.calls[0].call_sid, "CB2");
    assert_string_equal(world.result.waiting.calls[1].call_sid, "CB3");
    assert_int_equal(world.result.waiting.calls[1].position, 3);
    assert_string_equal(world.result.waiting.next_cursor, "");
    page.waiting.cursor = "nonsense";
    assert_int_equal(run(&world, &page)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

static void estimate__follows_the_grants_of_the_last_ten_minutes(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    assert_int_equal(world.result.allocate.waiting.estimate_ms, 0);
    release(&world, "CA1");
    wait_for(&world, "CA2", "");
    wait_for(&world, "CA3", "");
    assert_int_equal(world.result.allocate.waiting.estimate_ms, WAIT_ESTIMATE_MS);
    wait_for(&world, "CA4", "");
    assert_int_equal(world.result.allocate.waiting.estimate_ms, 2 * WAIT_ESTIMATE_MS);
    release(&world, "CA2");
    assert_int_equal(waiting_of(&world, "CA4")->estimate_ms, WAIT_ESTIMATE_MS / 2);
    /* The minute of both grants is the tenth, and then none of the ten. */
    world_advance(&world, 9 * MINUTE);
    assert_int_equal(waiting_of(&world, "CA4")->estimate_ms, WAIT_ESTIMATE_MS / 2);
    world_advance(&world, MINUTE);
    assert_int_equal(waiting_of(&world, "CA4")->estimate_ms, 0);
    world_release(&world);
}

static void on_changed__is_told_to_the_holder(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init_busy(&world, *state);
    world_on_changed(&world, note_told, told);
    keep_waiting(&world, "CX", 0, 0); /* the process is alive, and may be told */
    wait_held(&world, "CA2");
    wait_for(&world, "CA3", ""); /* nobody's */
    wait_held(&world, "CA4");
    wait_held(&world, "CA5");
    release(&world, "CA1"); /* CA2 is granted */
    wait_until_told(&world, told, "CA2 ");
    hold(&world, "CA2");
    release(&world, "CA2"); /* CA3 is granted */
    release(&world, "CA4");
    wait_until_told(&world, told, "CA2 CA4 ");
    world_advance(&world, WAIT_SILENT_MS);
    serve(&world); /* CA5 has been silent, CA3 was not taken */
    wait_until_told(&world, told, "CA2 CA4 CA5 ");
    world_release(&world);
}

/* More than one script of Redis grants: the rest follows at once, without the leader's next look. */
static void grants__of_one_step_are_not_limited(void **state)
{
    enum { CALLS = 2 * WAIT_GRANTS_MAX + 7 };
    struct world world;
    char sid[16];

    world_init_line(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":200,\"target\":1}}", 0,
                    CALLS);
    for (int i = 0; i < CALLS; i++) {
        snprintf(sid, sizeof(sid), "CB%03d", i);
        assert_int_equal(wait_for(&world, sid, "")->outcome, OUTCOME_WAITING);
    }
    see(&world, seen_of(POD0));
    for (int i = 0; waiting_count(&world) > 0; i++) {
        assert_true(i < CALLS); /* each look lets the store go on */
    }
    for (int i = 0; i < CALLS; i++) {
        snprintf(sid, sizeof(sid), "CB%03d", i);
        assert_string_equal(call_of(&world, sid)->pod, POD0);
    }
    assert_int_equal(call_count(&world), CALLS);
    world_release(&world);
}

const struct world_case cases_line[] = {
    {"join__a_call_that_finds_no_pod_waits_if_it_may", join__a_call_that_finds_no_pod_waits_if_it_may},
    {"join__merchants_say_how_long_and_how_many", join__merchants_say_how_long_and_how_many},
    {"join__the_line_has_a_limit", join__the_line_has_a_limit},
    {"join__where_nobody_may_wait_the_call_is_refused_as_ever",
     join__where_nobody_may_wait_the_call_is_refused_as_ever},
    {"ask__without_waiting_leaves_a_waiting_call_where_it_is",
     ask__without_waiting_leaves_a_waiting_call_where_it_is},
    {"ask__again_keeps_the_place_and_the_first_merchant", ask__again_keeps_the_place_and_the_first_merchant},
    {"ask__by_another_provider_is_forbidden", ask__by_another_provider_is_forbidden},
    {"ask__after_its_time_ends_the_wait", ask__after_its_time_ends_the_wait},
    {"join__not_again_once_the_wait_has_timed_out", join__not_again_once_the_wait_has_timed_out},
    {"grant__a_release_gives_the_pod_to_the_first_in_line",
     grant__a_release_gives_the_pod_to_the_first_in_line},
    {"grant__is_taken_by_the_next_word", grant__is_taken_by_the_next_word},
    {"grant__is_taken_by_a_hold_and_by_signs_of_life", grant__is_taken_by_a_hold_and_by_signs_of_life},
    {"grant__that_is_not_taken_goes_on_to_the_next", grant__that_is_not_taken_goes_on_to_the_next},
    {"grant__that_is_released_is_over_for_good", grant__that_is_released_is_over_for_good},
    {"order__priority_is_worth_a_time_of_waiting", order__priority_is_worth_a_time_of_waiting},
    {"order__each_pool_has_its_own_line", order__each_pool_has_its_own_line},
    {"order__a_pod_that_comes_serves_as_many_as_fit", order__a_pod_that_comes_serves_as_many_as_fit},
    {"overdue__is_passed_over_until_it_is_heard", overdue__is_passed_over_until_it_is_heard},
    {"overdue__the_first_word_of_a_stream_has_longer", overdue__the_first_word_of_a_stream_has_longer},
    {"overdue__however_many_take_no_pod_of_another_line", overdue__however_many_take_no_pod_of_another_line},
    {"serve__ends_silent_waits_and_those_whose_time_is_over",
     serve__ends_silent_waits_and_those_whose_time_is_over},
    {"serve__stops_at_its_limit", serve__stops_at_its_limit},
    {"chain__is_resolved_anew_by_an_ask_and_by_a_keep", chain__is_resolved_anew_by_an_ask_and_by_a_keep},
    {"tiers__a_change_serves_who_waits", tiers__a_change_serves_who_waits},
    {"hold__and_queries_say_that_a_call_waits", hold__and_queries_say_that_a_call_waits},
    {"waiting__shows_the_line_page_by_page", waiting__shows_the_line_page_by_page},
    {"estimate__follows_the_grants_of_the_last_ten_minutes",
     estimate__follows_the_grants_of_the_last_ten_minutes},
    {"on_changed__is_told_to_the_holder", on_changed__is_told_to_the_holder},
    {"grants__of_one_step_are_not_limited", grants__of_one_step_are_not_limited},
    {NULL, NULL},
};
