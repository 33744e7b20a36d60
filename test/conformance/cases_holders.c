/*
 * cases_holders.c - what every store answers to those who keep a waiting call in line, streams and requests,
 * and what becomes of it when they leave, or when the pod goes that it was granted.
 */
#include "../support/world.h"

#define OTHER "router-2"

static void keep__answers_what_has_become_of_each_call(void **state)
{
    struct world world;
    uint64_t now_ms;

    world_init_busy(&world, *state);
    now_ms = world_now(&world);
    assert_int_equal(keep_waiting(&world, "CA1", 0, 0)->keep.count, 1);
    assert_int_equal(world.result.keep.calls[0].answer, KEEP_GRANTED);
    assert_int_equal(keep_waiting(&world, "CA2", 0, 0)->keep.calls[0].answer, KEEP_UNKNOWN);
    wait_for(&world, "CA2", "");
    world_advance(&world, 5000);
    assert_int_equal(keep_waiting(&world, "CA2", 0, 0)->keep.calls[0].answer, KEEP_WAITING);
    assert_string_equal(world.result.keep.calls[0].call.holder, CARRIER);
    assert_int_equal(world.result.keep.calls[0].call.since_ms, now_ms);
    assert_int_equal(world.result.keep.calls[0].call.until_ms, now_ms + WAIT_MAX);
    assert_int_equal(waiting_of(&world, "CA2")->heard_at_ms, now_ms + 5000);
    release(&world, "CA2");
    assert_int_equal(keep_waiting(&world, "CA2", now_ms, now_ms + WAIT_MAX)->keep.calls[0].answer,
                     KEEP_ENDED);
    assert_int_equal(keep_waiting(&world, "CA3", now_ms - 5000, now_ms)->keep.calls[0].answer,
                     KEEP_TIMED_OUT);
    assert_int_equal(keep_waiting(&world, "CA3", now_ms, now_ms + WAIT_MAX)->keep.calls[0].answer,
                     KEEP_TIMED_OUT);
    world_release(&world);
}

static void keep__past_the_time_ends_the_wait(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    for (int i = 0; i < WAIT_MAX / 10000 - 1; i++) {
        world_advance(&world, 10000);
        assert_int_equal(keep_waiting(&world, "CA2", 0, 0)->keep.calls[0].answer, KEEP_WAITING);
    }
    world_advance(&world, 10000);
    assert_int_equal(keep_waiting(&world, "CA2", 0, 0)->keep.calls[0].answer, KEEP_TIMED_OUT);
    assert_string_equal(world.result.keep.calls[0].call.call_sid, "CA2");
    assert_true(world.result.keep.calls[0].ended_now);
    assert_int_equal(waiting_count(&world), 0);
    world_release(&world);
}

static void keep__rebuilds_a_line_that_was_lost_in_its_order(void **state)
{
    struct world world;
    uint64_t now_ms;

    world_init_busy(&world, *state);
    now_ms = world_now(&world);
    wait_for(&world, "CA2", "");
    assert_int_equal(keep_waiting(&world, "CA4", now_ms - 9000, now_ms + 9000)->keep.calls[0].answer,
                     KEEP_REJOINED);
    assert_int_equal(keep_waiting(&world, "CA3", now_ms - 5000, now_ms + 5000)->keep.calls[0].answer,
                     KEEP_REJOINED);
    assert_int_equal(waiting_of(&world, "CA4")->position, 1);
    assert_int_equal(waiting_of(&world, "CA4")->until_ms, now_ms + 9000);
    assert_int_equal(waiting_of(&world, "CA3")->position, 2);
    assert_int_equal(waiting_of(&world, "CA2")->position, 3);
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA4"), CALL_IS_GRANTED);
    world_release(&world);
}

static void keep__is_served_at_once_and_outside_the_caps(void **state)
{
    struct world world;
    char sid[16];
    uint64_t now_ms;

    world_init_waiting(&world, *state, ONE_TIER, 1);
    now_ms = world_now(&world);
    assert_int_equal(keep_waiting(&world, "CA1", now_ms - 1000, now_ms + 1000)->keep.calls[0].answer,
                     KEEP_REJOINED);
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_GRANTED);
    for (int i = 0; i < WAITING_MAX; i++) {
        snprintf(sid, sizeof(sid), "CB%d", i);
        wait_for(&world, sid, "");
    }
    assert_int_equal(keep_waiting(&world, "CC1", now_ms, now_ms + 1000)->keep.calls[0].answer, KEEP_REJOINED);
    assert_int_equal(waiting_count(&world), WAITING_MAX + 1);
    world_release(&world);
}

/* A stream of the call says its first word. Returns its claim. */
static uint64_t begin_stream(struct world *world, const char *router, const char *sid,
                             enum keep_answer expected)
{
    keep_as(world, router, (struct keep_call){.call = {.call_sid = sid}, .is_first = true});
    assert_int_equal(world->result.keep.calls[0].answer, expected);
    return world->result.keep.calls[0].call.claim;
}

static enum keep_answer keep_stream(struct world *world, const char *router, const char *sid, uint64_t claim)
{
    keep_as(world, router,
            (struct keep_call){.call = {.call_sid = sid, .claim = claim, .since_ms = 1, .until_ms = 1}});
    return world->result.keep.calls[0].answer;
}

/* One pod, which CA1 has, and CA2 has a stream at CARRIER that waits. Returns its claim. */
static uint64_t init_held(struct world *world, struct world_kind *kind)
{
    world_init_busy(world, kind);
    wait_for(world, "CA2", "");
    return begin_stream(world, CARRIER, "CA2", KEEP_WAITING);
}

static void streams__the_newest_has_the_call_wherever_it_is_held(void **state)
{
    struct world world;
    uint64_t older;
    uint64_t newer;

    older = init_held(&world, *state);
    newer = begin_stream(&world, OTHER, "CA2", KEEP_WAITING);
    assert_true(newer > older);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_ELSEWHERE);
    assert_string_equal(waiting_of(&world, "CA2")->holder, OTHER);
    assert_int_equal(hold_as(&world, CARRIER, "CA2", older)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(hold_as(&world, OTHER, "CA2", newer)->outcome, OUTCOME_WAITING);
    assert_int_equal(keep_stream(&world, OTHER, "CA2", newer), KEEP_WAITING);
    older = begin_stream(&world, CARRIER, "CA2", KEEP_WAITING);
    assert_int_equal(keep_stream(&world, OTHER, "CA2", newer), KEEP_ELSEWHERE);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_WAITING);
    assert_string_equal(waiting_of(&world, "CA2")->holder, CARRIER);
    world_release(&world);
}

static void streams__an_older_one_goes_on_if_the_newest_is_silent(void **state)
{
    struct world world;
    uint64_t older;
    uint64_t newer;

    older = init_held(&world, *state);
    newer = begin_stream(&world, OTHER, "CA2", KEEP_WAITING);
    world_advance(&world, WAIT_SILENT_MS - 1000);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_ELSEWHERE);
    world_advance(&world, 1000);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_WAITING);
    assert_true(world.result.keep.calls[0].call.claim > newer);
    assert_int_equal(keep_stream(&world, OTHER, "CA2", newer), KEEP_ELSEWHERE);
    world_release(&world);
}

static void streams__the_newest_has_a_call_of_which_the_store_has_forgotten_that(void **state)
{
    struct world world;
    uint64_t claim;
    uint64_t now_ms;

    claim = init_held(&world, *state);
    now_ms = world_now(&world);
    assert_int_equal(keep_stream(&world, OTHER, "CA2", claim + 500), KEEP_WAITING);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", claim), KEEP_ELSEWHERE);
    /* The whole wait, too. */
    keep_as(&world, OTHER,
            (struct keep_call){
                .call = {.call_sid = "CA3", .since_ms = now_ms, .until_ms = now_ms + 9000, .claim = 7}});
    assert_int_equal(world.result.keep.calls[0].answer, KEEP_REJOINED);
    assert_int_equal(waiting_of(&world, "CA3")->claim, 7);
    assert_int_equal(keep_stream(&world, CARRIER, "CA3", 6), KEEP_ELSEWHERE);
    world_release(&world);
}

static void streams__the_newest_gets_the_pod_that_an_older_one_was_granted(void **state)
{
    struct world world;
    uint64_t older;
    uint64_t newer;

    older = init_held(&world, *state);
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_GRANTED);
    newer = begin_stream(&world, OTHER, "CA2", KEEP_GRANTED);
    assert_int_equal(hold_as(&world, CARRIER, "CA2", older)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    assert_int_equal(hold_as(&world, OTHER, "CA2", newer)->outcome, OUTCOME_OK);
    assert_true(world.result.hold.was_taken);
    /* Nor when that one has it. */
    assert_int_equal(hold_as(&world, CARRIER, "CA2", older)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", older), KEEP_ELSEWHERE);
    world_release(&world);
}

static void streams__one_that_comes_straight_to_the_pod_is_newer_than_all_that_are_held(void **state)
{
    struct world world;
    uint64_t held;

    held = init_held(&world, *state);
    release(&world, "CA1");
    assert_int_equal(ask(&world, "CA2", 9)->outcome, OUTCOME_OK); /* the provider has asked again, */
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_HOLD, .hold = {"CA2", OTHER, .is_new = true}})->outcome,
        OUTCOME_OK); /* and here is its stream */
    assert_int_equal(hold_as(&world, CARRIER, "CA2", held)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", held), KEEP_ELSEWHERE);
    world_release(&world);
}

static struct result *wait_at(struct world *world, const char *sid, const char *holder, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .waits = true, .holder = holder,
                                                     .attempt = attempt}});
}

static enum keep_answer keep_request(struct world *world, const char *router, const char *sid,
                                     uint64_t attempt)
{
    keep_as(world, router, (struct keep_call){.call = {.call_sid = sid}, .attempt = attempt});
    return world->result.keep.calls[0].answer;
}

static void requests__the_latest_has_the_call_and_no_stream_minds(void **state)
{
    struct world world;
    uint64_t claim;

    world_init_busy(&world, *state);
    assert_int_equal(wait_at(&world, "CA2", CARRIER, 5)->outcome, OUTCOME_WAITING);
    assert_int_equal(keep_request(&world, CARRIER, "CA2", 5), KEEP_WAITING);
    assert_int_equal(wait_at(&world, "CA2", OTHER, 6)->outcome, OUTCOME_WAITING);
    assert_int_equal(keep_request(&world, CARRIER, "CA2", 5), KEEP_ELSEWHERE);
    assert_string_equal(waiting_of(&world, "CA2")->holder, OTHER);
    assert_int_equal(keep_request(&world, OTHER, "CA2", 6), KEEP_WAITING);
    claim = begin_stream(&world, CARRIER, "CA2", KEEP_WAITING);
    assert_int_equal(wait_at(&world, "CA2", OTHER, 7)->outcome, OUTCOME_WAITING);
    assert_int_equal(keep_request(&world, OTHER, "CA2", 7), KEEP_WAITING);
    assert_int_equal(keep_stream(&world, CARRIER, "CA2", claim), KEEP_WAITING);
    world_release(&world);
}

static void keep__of_a_lost_call_whose_time_nobody_knows_begins_it_anew(void **state)
{
    struct world world;
    uint64_t now_ms;

    world_init_busy(&world, *state);
    now_ms = world_now(&world);
    wait_for(&world, "CA2", "");
    assert_int_equal(keep_waiting(&world, "CA3", now_ms - 5000, 0)->keep.calls[0].answer, KEEP_REJOINED);
    assert_int_equal(waiting_of(&world, "CA3")->position, 1);
    assert_int_equal(waiting_of(&world, "CA3")->since_ms, now_ms - 5000);
    assert_int_equal(waiting_of(&world, "CA3")->until_ms, now_ms + WAIT_MAX);
    assert_int_equal(keep_waiting(&world, "CA4", now_ms + 5000, 0)->keep.calls[0].answer, KEEP_REJOINED);
    assert_int_equal(waiting_of(&world, "CA4")->since_ms, now_ms); /* by another clock */
    world_release(&world);
    world_init(&world, *state, ONE_TIER);
    now_ms = world_now(&world);
    assert_int_equal(keep_waiting(&world, "CA3", now_ms, 0)->keep.calls[0].answer, KEEP_REJOINED);
    assert_int_equal(waiting_of(&world, "CA3")->until_ms, now_ms + WAIT_LOST_MS);
    world_release(&world);
}

static void release__of_a_waiting_call_leaves_the_line_for_good(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    world_advance(&world, 2000);
    assert_int_equal(release_as(&world, "CA2", POD0, FINISH_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(leave(&world, "CA2", 0)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(release_as(&world, "CA2", NULL, FINISH_CLOSED)->outcome, OUTCOME_OK);
    assert_true(world.result.release.was_waiting);
    assert_int_equal(world.result.release.waited_ms, 2000);
    assert_string_equal(world.result.release.call.call_sid, "CA2");
    assert_string_equal(world.result.release.call.pod, "");
    assert_string_equal(world.result.release.call.pool, "");
    assert_string_equal(world.result.release.call.provider, "twilio");
    assert_string_equal(world.result.release.released_to, "");
    assert_int_equal(waiting_count(&world), 0);
    assert_int_equal(resume(&world, "CA2", NULL)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(world.result.allocate.why, FINISH_CLOSED);
    assert_int_equal(heartbeat(&world, POD0, "CA2")->heartbeat.finished.count, 1);
    world_release(&world);
}

static struct result *wait_as(struct world *world, const char *sid, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .attempt = attempt, .waits = true}});
}

static void undo__of_the_latest_request_leaves_the_line(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_as(&world, "CA2", 11);
    wait_as(&world, "CA2", 12);
    assert_int_equal(undo(&world, "CA2", 11)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_UNDO, .undo = {"CA2", 12, true}})->outcome,
                     OUTCOME_NOT_FOUND);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(undo(&world, "CA2", 12)->outcome, OUTCOME_OK);
    assert_true(world.result.release.was_waiting);
    assert_int_equal(waiting_count(&world), 0);
    /* Nothing is recorded: the call can be adopted. */
    release(&world, "CA1");
    assert_int_equal(heartbeat(&world, POD0, "CA2")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static void undo__of_a_granted_call_gives_the_pod_to_the_next(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_as(&world, "CA2", 11);
    wait_as(&world, "CA2", 12);
    wait_as(&world, "CA3", 13);
    release(&world, "CA1");
    assert_int_equal(undo(&world, "CA2", 11)->outcome, OUTCOME_NOT_FOUND);
    world_advance(&world, 1000);
    assert_int_equal(undo(&world, "CA2", 12)->outcome, OUTCOME_OK);
    assert_false(world.result.release.was_waiting);
    assert_true(world.result.release.was_granted); /* its wait was abandoned */
    assert_int_equal(world.result.release.waited_ms, 1000);
    assert_int_equal(state_of(&world, "CA3"), CALL_IS_GRANTED);
    release(&world, "CA3");
    assert_true(world.result.release.was_granted);
    assert_int_equal(world.result.release.waited_ms, 1000);
    world_release(&world);
}

static void undo__of_the_request_that_took_a_granted_call_ends_it(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_as(&world, "CA2", 11);
    wait_as(&world, "CA2", 12); /* both were told that it waits */
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    assert_int_equal(wait_as(&world, "CA2", 13)->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_taken);
    assert_int_equal(undo(&world, "CA2", 13)->outcome, OUTCOME_OK);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

/* POD1 becomes free for CA2, the first of two, and goes before CA2 takes it. */
static void init_granted(struct world *world, struct world_kind *kind, uint64_t *ret_since_ms)
{
    world_init_busy(world, kind);
    merchant_set(world, "vip", "{\"priority\":9}");
    wait_for(world, "CA3", "");
    world_advance(world, 1000);
    wait_for(world, "CA2", "vip");
    *ret_since_ms = waiting_of(world, "CA2")->since_ms;
    merchant_set(world, "vip", "{}"); /* a place is fixed when a call joins */
    see(world, seen_of(POD1));
    assert_int_equal(state_of(world, "CA2"), CALL_IS_GRANTED);
    world_advance(world, 1000);
}

static void pod_gone__a_call_that_was_granted_it_waits_again_at_its_place(void **state)
{
    struct world world;
    uint64_t since_ms;

    init_granted(&world, *state, &since_ms);
    assert_int_equal(remove_pod(&world, POD1)->pod_gone.ended.count, 0);
    assert_int_equal(waiting_count(&world), 2);
    assert_int_equal(waiting_of(&world, "CA2")->position, 1);
    assert_int_equal(world.result.call.waiting.since_ms, since_ms);
    assert_int_equal(world.result.call.waiting.until_ms, since_ms + WAIT_MAX);
    assert_int_equal(world.result.call.waiting.heard_at_ms, world_now(&world));
    assert_int_equal(world.result.call.waiting.priority, 9);
    release(&world, "CA1");
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    assert_true(wait_for(&world, "CA2", "vip")->allocate.was_taken);
    assert_int_equal(world.result.allocate.waited_ms, world_now(&world) - since_ms);
    /* From now on it is a call like others. */
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 1);
    assert_int_equal(waiting_count(&world), 1);
    world_release(&world);
}

static void pod_seen__a_restart_gives_the_pod_to_the_first_in_line_again(void **state)
{
    struct pod_seen again = seen_of(POD1);
    struct world world;
    uint64_t since_ms;

    init_granted(&world, *state, &since_ms);
    again.incarnation = "u2";
    assert_int_equal(see(&world, again)->pod_seen.ended.count, 0);
    assert_int_equal(waiting_count(&world), 1);
    assert_int_equal(state_of(&world, "CA2"), CALL_IS_GRANTED);
    assert_int_equal(call_of(&world, "CA2")->expires_at_ms, world_now(&world) + WAIT_TAKE_MS);
    world_release(&world);
}

static void heartbeat__that_adopts_a_waiting_call_takes_it_out_of_the_line(void **state)
{
    struct world world;

    world_init_busy(&world, *state);
    wait_for(&world, "CA2", "");
    see(&world, seen_of(POD1)); /* CA2 gets it */
    wait_for(&world, "CA3", "");
    assert_int_equal(heartbeat(&world, POD1, "CA3")->heartbeat.conflicts.count, 1); /* no room */
    assert_int_equal(waiting_count(&world), 1);
    drain(&world, POD0, MINUTE);
    release(&world, "CA1");
    assert_int_equal(heartbeat(&world, POD0, "CA3")->heartbeat.adopted.count, 1);
    assert_int_equal(waiting_count(&world), 0);
    assert_string_equal(call_of(&world, "CA3")->pod, POD0);
    world_release(&world);
}

const struct world_case cases_holders[] = {
    {"keep__answers_what_has_become_of_each_call", keep__answers_what_has_become_of_each_call},
    {"keep__past_the_time_ends_the_wait", keep__past_the_time_ends_the_wait},
    {"keep__rebuilds_a_line_that_was_lost_in_its_order", keep__rebuilds_a_line_that_was_lost_in_its_order},
    {"keep__is_served_at_once_and_outside_the_caps", keep__is_served_at_once_and_outside_the_caps},
    {"streams__the_newest_has_the_call_wherever_it_is_held",
     streams__the_newest_has_the_call_wherever_it_is_held},
    {"streams__an_older_one_goes_on_if_the_newest_is_silent",
     streams__an_older_one_goes_on_if_the_newest_is_silent},
    {"streams__the_newest_has_a_call_of_which_the_store_has_forgotten_that",
     streams__the_newest_has_a_call_of_which_the_store_has_forgotten_that},
    {"streams__the_newest_gets_the_pod_that_an_older_one_was_granted",
     streams__the_newest_gets_the_pod_that_an_older_one_was_granted},
    {"streams__one_that_comes_straight_to_the_pod_is_newer_than_all_that_are_held",
     streams__one_that_comes_straight_to_the_pod_is_newer_than_all_that_are_held},
    {"requests__the_latest_has_the_call_and_no_stream_minds",
     requests__the_latest_has_the_call_and_no_stream_minds},
    {"keep__of_a_lost_call_whose_time_nobody_knows_begins_it_anew",
     keep__of_a_lost_call_whose_time_nobody_knows_begins_it_anew},
    {"release__of_a_waiting_call_leaves_the_line_for_good",
     release__of_a_waiting_call_leaves_the_line_for_good},
    {"undo__of_the_latest_request_leaves_the_line", undo__of_the_latest_request_leaves_the_line},
    {"undo__of_the_request_that_took_a_granted_call_ends_it",
     undo__of_the_request_that_took_a_granted_call_ends_it},
    {"undo__of_a_granted_call_gives_the_pod_to_the_next", undo__of_a_granted_call_gives_the_pod_to_the_next},
    {"pod_gone__a_call_that_was_granted_it_waits_again_at_its_place",
     pod_gone__a_call_that_was_granted_it_waits_again_at_its_place},
    {"pod_seen__a_restart_gives_the_pod_to_the_first_in_line_again",
     pod_seen__a_restart_gives_the_pod_to_the_first_in_line_again},
    {"heartbeat__that_adopts_a_waiting_call_takes_it_out_of_the_line",
     heartbeat__that_adopts_a_waiting_call_takes_it_out_of_the_line},
    {NULL, NULL},
};
