/*
 * cases_rescue.c - what every store does with carried calls whose pod breaks, with calls whose stream is cut,
 * and with requests that resume a call.
 */
#include "../support/world.h"

/* CA1 is on POD0, and its carrier can connect it to another pod. */
static void init_carried(struct world *world, struct world_kind *kind)
{
    world_init_waiting(world, kind, "{\"standard\":2}", 1);
    allocate(world, "CA1");
    hold(world, "CA1");
    carry_movable(world, "CA1", POD0);
}

static struct result *move_away(struct world *world, const char *sid, const char *from, bool spares_pod)
{
    return run(world, &(struct command){.type = COMMAND_MOVE_CALL,
                                        .move = {.call_sid = sid,
                                                 .from_pod = from,
                                                 .aside_ms = MINUTE,
                                                 .spares_pod = spares_pod,
                                                 .carrier = CARRIER}});
}

static struct pod_seen restarted(const char *name)
{
    struct pod_seen seen = seen_of(name);

    seen.incarnation = "uid-2";
    return seen;
}

static void gone__pod_gives_its_carried_call_to_another_pod(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;
    uint64_t allocated_at_ms;

    init_carried(&world, *state);
    world_on_changed(&world, note_told, told);
    allocated_at_ms = world_now(&world);
    see(&world, seen_of(POD1));
    world_advance(&world, 10000);
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    assert_int_equal(world.told, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_int_equal(world.result.call.call.allocated_at_ms / 1000, allocated_at_ms / 1000);
    assert_string_equal(world.result.call.call.provider, "twilio");
    wait_until_told(&world, told, "CA1 ");
    run(&world, &(struct command){.type = COMMAND_STORY, .call = {"CA1"}});
    assert_int_equal(world.result.story.past_count, 1);
    assert_int_equal(world.result.story.past[0].how, PAST_MOVED);
    world_release(&world);
}

static void gone__pod_sends_its_carried_call_to_the_front_of_the_line(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;
    uint64_t allocated_at_ms;

    init_carried(&world, *state);
    world_on_changed(&world, note_told, told);
    allocated_at_ms = world_now(&world);
    world_advance(&world, 10000);
    wait_for(&world, "CA2", "");
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    wait_until_told(&world, told, "CA1 ");
    assert_true(waiting_of(&world, "CA1")->is_rescued);
    assert_int_equal(world.result.call.waiting.position, 1);
    assert_int_equal(world.result.call.waiting.since_ms / 1000, allocated_at_ms / 1000);
    assert_int_equal(world.result.call.waiting.until_ms, world_now(&world) + WAIT_MAX);
    assert_string_equal(world.result.call.waiting.holder, CARRIER);
    assert_int_equal(waiting_of(&world, "CA2")->position, 2);
    see(&world, seen_of(POD1));
    wait_until_told(&world, told, "CA1 CA1 ");
    assert_int_equal(call_of(&world, "CA1")->allocated_at_ms / 1000, allocated_at_ms / 1000);
    assert_true(world.result.call.call.activity.was_renewed);
    assert_true(world.result.call.call.activity.is_granted);
    assert_int_equal(world.result.call.call.expires_at_ms, world_now(&world) + WAIT_TAKE_MS);
    assert_true(hold(&world, "CA1")->hold.was_taken);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK); /* it has just been rescued: it is kept */
    assert_true(world.result.release.is_kept);
    world_release(&world);
}

static void gone__a_moved_call_is_young_on_its_new_pod(void **state)
{
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    world_advance(&world, 60000);
    hold(&world, "CA1");
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    world_advance(&world, 1000);
    heartbeat(&world, POD1, NULL); /* it has not reached the pod yet */
    world_advance(&world, 5000);
    assert_int_equal(heartbeat(&world, POD1, NULL)->heartbeat.ended.count, 0);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void gone__a_rescued_call_that_was_granted_a_pod_is_young_there(void **state)
{
    struct world world;

    init_carried(&world, *state);
    world_advance(&world, 60000);
    hold(&world, "CA1");
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    assert_true(waiting_of(&world, "CA1")->is_rescued);
    see(&world, seen_of(POD1));
    assert_true(call_of(&world, "CA1")->activity.is_granted);
    world_advance(&world, 1000);
    heartbeat(&world, POD1, NULL);
    world_advance(&world, 5000);
    assert_int_equal(heartbeat(&world, POD1, NULL)->heartbeat.ended.count, 0);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void gone__pod_ends_calls_that_nobody_can_move(void **state)
{
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    carry(&world, "CA1", POD0); /* its carrier cannot move it any more */
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 1);
    assert_int_equal(world.told_of[CALL_END_POD_GONE], 1);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

static void gone__pod_ends_calls_whose_carrier_is_silent(void **state)
{
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    world_advance(&world, CARRIER_TTL_MS + 1000);
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 1);
    world_release(&world);
}

static void gone__pod_ends_a_call_that_may_not_wait(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, ONE_TIER, 1);
    merchant_set(&world, "m", "{\"hold_seconds\":0}");
    allocate_for(&world, "CA1", "m");
    carry_movable(&world, "CA1", POD0);
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 1);
    assert_int_equal(waiting_count(&world), 0);
    world_release(&world);
}

static void restarted__pod_gives_its_calls_away_and_serves_the_line(void **state)
{
    struct world world;

    init_carried(&world, *state);
    world_advance(&world, 5000);
    wait_for(&world, "CA2", "");
    /* The only pod has started anew: the call in front gets it, which is the one that was on it. */
    assert_int_equal(see(&world, restarted(POD0))->pod_seen.ended.count, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_true(world.result.call.call.activity.is_granted);
    assert_int_equal(waiting_of(&world, "CA2")->position, 1);
    world_release(&world);
}

static void silent__pods_give_their_calls_to_one_that_speaks(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"standard\":4}", 0);
    register_pod(&world, "a");
    register_pod(&world, "b");
    register_pod(&world, "d");
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    world_advance(&world, 60000);
    register_pod(&world, "c");
    allocate(&world, "CA3");
    release(&world, "CA3");
    world_advance(&world, 31000);
    carry_movable(&world, "CA1", call_of(&world, "CA1")->pod);
    carry_movable(&world, "CA2", call_of(&world, "CA2")->pod);
    sweep(&world);
    assert_int_equal(world.result.sweep.gone.count, 3);
    assert_int_equal(world.result.sweep.ended.count, 0);
    /* One of them moved, the other waits. */
    assert_int_equal(call_count(&world), 1);
    assert_int_equal(waiting_count(&world), 1);
    for (int i = 1; i <= 2; i++) {
        run(&world, &(struct command){.type = COMMAND_STORY, .call = {i == 1 ? "CA1" : "CA2"}});
        assert_int_equal(world.result.story.past_count, 1); /* neither was on the pod that was silent, too */
    }
    world_release(&world);
}

static void sync__gives_no_call_to_a_pod_that_leaves_with_it(void **state)
{
    struct world world;
    struct pod_seen left[] = {seen_of("voice-agent-2")};

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    run(&world, &(struct command){.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES, left, 1}});
    assert_int_equal(world.result.sync.removed, 2);
    assert_int_equal(world.result.sync.ended.count, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, "voice-agent-2");
    run(&world, &(struct command){.type = COMMAND_STORY, .call = {"CA1"}});
    assert_int_equal(world.result.story.past_count, 1); /* it was never on POD1 */
    world_release(&world);
}

static void move__of_a_carried_call_waits_where_no_pod_is_free(void **state)
{
    struct world world;

    init_carried(&world, *state);
    world_advance(&world, 3000);
    assert_int_equal(move_away(&world, "CA1", POD0, false)->outcome, OUTCOME_WAITING);
    assert_string_equal(world.result.move.waiting.call_sid, "CA1");
    assert_true(world.result.move.waiting.is_rescued);
    assert_int_equal(world.result.move.waiting.since_ms / 1000, (world_now(&world) - 3000) / 1000);
    assert_true(world.result.move.was_moved);
    assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
    assert_int_equal(pod(&world, POD0)->calls.count, 0);
    assert_int_equal(move_away(&world, "CA1", POD0, false)->outcome, OUTCOME_WAITING);
    assert_false(world.result.move.was_moved);
    undrain(&world, POD0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    world_release(&world);
}

static void move__that_spares_the_pod_takes_another_one(void **state)
{
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    assert_int_equal(move_away(&world, "CA1", POD0, true)->outcome, OUTCOME_OK);
    assert_true(world.result.move.was_moved);
    assert_string_equal(world.result.move.call.pod, POD1);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    /* Both are busy now: the slot that becomes free is the first in line's, which is this call. */
    allocate(&world, "CA2");
    assert_int_equal(move_away(&world, "CA1", POD1, true)->outcome, OUTCOME_WAITING);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_true(world.result.call.call.activity.is_granted);
    world_release(&world);
}

static void move__of_a_call_that_may_not_wait_leaves_it_where_it_is(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, ONE_TIER, 1);
    merchant_set(&world, "m", "{\"hold_seconds\":0}");
    allocate_for(&world, "CA1", "m");
    hold(&world, "CA1");
    assert_int_equal(move_away(&world, "CA1", POD0, true)->outcome, OUTCOME_NO_PODS);
    assert_non_null(world.result.move.refusal);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
    assert_int_equal(move_away(&world, "CA1", POD0, false)->outcome, OUTCOME_NO_PODS);
    assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
    world_release(&world);
}

static void release__ends_nothing_that_was_moved_a_moment_ago(void **state)
{
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    move_away(&world, "CA1", POD0, true);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.release.is_kept);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_int_equal(release_as(&world, "CA1", POD0, FINISH_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    world_advance(&world, UNSETTLED_MS);
    carry_movable(&world, "CA1", POD1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_false(world.result.release.is_kept);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

static void release__ends_no_call_that_waits_because_it_lost_its_pod_a_moment_ago(void **state)
{
    struct world world;

    init_carried(&world, *state);
    wait_for(&world, "CA2", "");
    assert_int_equal(move_away(&world, "CA1", POD0, false)->outcome, OUTCOME_WAITING);
    remove_pod(&world, POD0);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.release.is_kept);
    assert_false(world.result.release.was_waiting);
    assert_string_equal(world.result.release.call.pod, "");
    assert_string_equal(world.result.release.call.provider, "twilio");
    assert_int_equal(release_as(&world, "CA1", POD0, FINISH_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_true(waiting_of(&world, "CA1")->is_rescued);
    assert_int_equal(release(&world, "CA2")->outcome, OUTCOME_OK); /* it never had a pod */
    assert_true(world.result.release.was_waiting);
    world_advance(&world, UNSETTLED_MS);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.release.was_waiting);
    assert_false(world.result.release.is_kept);
    world_release(&world);
}

static void release__of_a_webhook_or_the_gateway_ends_a_call_that_has_lost_its_pod(void **state)
{
    struct world world;

    for (int by_webhook = 0; by_webhook <= 1; by_webhook++) {
        const struct command webhook = {.type = COMMAND_RELEASE,
                                        .release = {.call_sid = "CA1", .provider = "twilio"}};

        init_carried(&world, *state);
        remove_pod(&world, POD0);
        if (by_webhook)
            run(&world, &webhook);
        else
            release_as(&world, "CA1", NULL, FINISH_CLOSED);
        assert_true(world.result.release.was_waiting);
        assert_false(world.result.release.is_kept);
        world_release(&world);
    }
}

static void release__with_a_pod_a_webhook_and_the_gateway_end_it_all_the_same(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":9,\"target\":2}}", 2);
    for (int i = 1; i <= 3; i++) {
        char sid[] = "CA0";

        sid[2] = (char)('0' + i);
        allocate(&world, sid);
        hold(&world, sid);
        move_away(&world, sid, call_of(&world, sid)->pod, true);
        assert_true(world.result.move.was_moved);
    }
    assert_int_equal(release_as(&world, "CA1", "voice-agent-*", FINISH_RELEASED)->outcome, OUTCOME_OK);
    assert_false(world.result.release.is_kept);
    run(&world,
        &(struct command){.type = COMMAND_RELEASE, .release = {.call_sid = "CA2", .provider = "twilio"}});
    assert_false(world.result.release.is_kept);
    assert_int_equal(release_as(&world, "CA3", NULL, FINISH_CLOSED)->outcome, OUTCOME_OK);
    assert_false(world.result.release.is_kept);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

static void depart__gives_calls_a_minute_to_come_back(void **state)
{
    const char *const sids[] = {"CA1", "CA2", "CA9"};
    struct world world;

    init_carried(&world, *state);
    see(&world, seen_of(POD1));
    allocate(&world, "CA2"); /* nobody carries it */
    run(&world, &(struct command){.type = COMMAND_DEPART, .depart = {sids, 3, CARRIER}});
    assert_int_equal(world.result.depart.count, 1);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world_now(&world) + RESUME_MS);
    assert_false(world.result.call.call.activity.is_connected);
    assert_int_equal(world.result.call.call.activity.carriers.count, 0);
    assert_int_equal(call_of(&world, "CA2")->expires_at_ms, world_now(&world) + 4 * HOUR);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_existing);
    assert_string_equal(world.result.allocate.call.pod, POD0);
    world_advance(&world, RESUME_MS);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    world_release(&world);
}

/* An agent that was cut off releases its call, and its caller is on the way back. */
static void release__ends_nothing_that_was_cut_or_resumed_a_moment_ago(void **state)
{
    const char *const sids[] = {"CA1"};
    struct world world;

    init_carried(&world, *state);
    run(&world, &(struct command){.type = COMMAND_DEPART, .depart = {sids, 1, CARRIER}});
    assert_int_equal(world.result.depart.count, 1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.release.is_kept);
    world_advance(&world, UNSETTLED_MS / 2);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_OK);
    world_advance(&world, UNSETTLED_MS / 2 - 1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK); /* its stream is not there yet */
    assert_true(world.result.release.is_kept);
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_OK);
    world_advance(&world, UNSETTLED_MS / 2 + 1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_false(world.result.release.is_kept);

    assert_int_equal(resume(&world, "CA2", NULL)->outcome, OUTCOME_OK); /* the store had lost it */
    assert_false(world.result.allocate.was_existing);
    assert_int_equal(release(&world, "CA2")->outcome, OUTCOME_OK);
    assert_true(world.result.release.is_kept);
    assert_int_equal(release_as(&world, "CA2", POD0, FINISH_RELEASED)->outcome, OUTCOME_OK);
    assert_false(world.result.release.is_kept);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

static void release__ends_nothing_that_was_granted_a_pod_after_a_rescue(void **state)
{
    struct world world;

    init_carried(&world, *state);
    remove_pod(&world, POD0);
    see(&world, seen_of(POD1));
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_true(world.result.call.call.activity.is_granted);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.release.is_kept);
    assert_true(hold(&world, "CA1")->hold.was_taken);
    world_release(&world);
}

/* More than one script of Redis moves. */
static void gone__pod_gives_all_of_its_many_calls_away(void **state)
{
    enum { CALLS = 70, WAITING = 10 };
    struct world world;
    char sid[16];

    world_init_line(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":70,\"target\":2}}", 1,
                    CALLS);
    for (int i = 0; i < CALLS; i++) {
        snprintf(sid, sizeof(sid), "CA%02d", i);
        allocate(&world, sid);
        hold(&world, sid);
        carry_movable(&world, sid, POD0);
    }
    see(&world, seen_of(POD1));
    for (int i = 0; i < WAITING; i++) {
        snprintf(sid, sizeof(sid), "CB%02d", i);
        allocate(&world, sid);
        assert_string_equal(call_of(&world, sid)->pod, POD1);
    }
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    assert_int_equal(waiting_count(&world), WAITING);
    for (int i = 0; i < CALLS; i++) {
        snprintf(sid, sizeof(sid), "CA%02d", i);
        if (i < CALLS - WAITING)
            assert_string_equal(call_of(&world, sid)->pod, POD1);
        else
            assert_true(waiting_of(&world, sid)->is_rescued); /* the youngest */
    }
    world_release(&world);
}

static void resume__gets_the_pod_that_the_call_has(void **state)
{
    struct world world;

    init_carried(&world, *state);
    for (int i = 0; i < RESUMES_MAX; i++) {
        assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_OK);
        assert_true(world.result.allocate.was_existing);
        world_advance(&world, 10000);
    }
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_CONFLICT);
    assert_string_equal(world.result.error, REFUSED_RESUME);
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK); /* which resumes nothing */
    world_advance(&world, RESUMES_MS - 10000 * RESUMES_MAX);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_OK);
    world_release(&world);
}

/* Its held stream breaks at once, again and again. */
static void resume__too_often_ends_a_wait(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA0");
    assert_int_equal(wait_for(&world, "CA1", "")->outcome, OUTCOME_WAITING);
    for (int i = 0; i < RESUMES_MAX; i++)
        assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_WAITING);
    assert_int_equal(wait_for(&world, "CA1", "")->outcome, OUTCOME_WAITING); /* which resumes nothing */
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_NO_PODS);
    assert_true(world.result.allocate.has_ended);
    assert_int_equal(world.result.allocate.why, FINISH_TIMED_OUT);
    assert_int_equal(waiting_count(&world), 0);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void resume__is_counted_in_line_and_at_the_pod(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA0");
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_WAITING); /* it was lost, and joins */
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_WAITING);
    release(&world, "CA0");
    hold(&world, "CA1");
    carry_movable(&world, "CA1", POD0);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_OK);
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_CONFLICT);
    remove_pod(&world, POD0); /* it waits again */
    assert_int_equal(resume(&world, "CA1", NULL)->outcome, OUTCOME_NO_PODS);
    assert_true(world.result.allocate.has_ended);
    world_release(&world);
}

static void resume__of_a_call_that_has_ended_says_how(void **state)
{
    struct world world;

    init_carried(&world, *state);
    release_as(&world, "CA1", NULL, FINISH_CLOSED);
    assert_int_equal(resume(&world, "CA1", POD0)->outcome, OUTCOME_NOT_FOUND);
    assert_true(world.result.allocate.has_ended);
    assert_int_equal(world.result.allocate.why, FINISH_CLOSED);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

static void resume__of_a_lost_call_prefers_its_old_pod(void **state)
{
    struct world world;

    world_init_waiting(&world, *state, "{\"gold\":1,\"standard\":1}", 2);
    /* POD1 is standard's: another call would get gold's first. */
    assert_string_equal(pod(&world, POD1)->tier, "standard");
    assert_int_equal(resume(&world, "CA1", POD1)->outcome, OUTCOME_OK);
    assert_false(world.result.allocate.was_existing);
    assert_string_equal(world.result.allocate.call.pod, POD1);
    assert_int_equal(resume(&world, "CA2", POD1)->outcome, OUTCOME_OK); /* which is busy */
    assert_string_equal(world.result.allocate.call.pod, POD0);
    release_as(&world, "CA2", POD0, FINISH_RELEASED);
    assert_int_equal(resume(&world, "CA3", "nobody")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.allocate.call.pod, POD0);
    assert_int_equal(resume(&world, "CA4", POD1)->outcome, OUTCOME_WAITING);
    world_release(&world);
}

const struct world_case cases_rescue[] = {
    {"gone__pod_gives_its_carried_call_to_another_pod", gone__pod_gives_its_carried_call_to_another_pod},
    {"gone__pod_sends_its_carried_call_to_the_front_of_the_line",
     gone__pod_sends_its_carried_call_to_the_front_of_the_line},
    {"gone__a_moved_call_is_young_on_its_new_pod", gone__a_moved_call_is_young_on_its_new_pod},
    {"gone__a_rescued_call_that_was_granted_a_pod_is_young_there",
     gone__a_rescued_call_that_was_granted_a_pod_is_young_there},
    {"gone__pod_ends_calls_that_nobody_can_move", gone__pod_ends_calls_that_nobody_can_move},
    {"gone__pod_ends_calls_whose_carrier_is_silent", gone__pod_ends_calls_whose_carrier_is_silent},
    {"gone__pod_ends_a_call_that_may_not_wait", gone__pod_ends_a_call_that_may_not_wait},
    {"restarted__pod_gives_its_calls_away_and_serves_the_line",
     restarted__pod_gives_its_calls_away_and_serves_the_line},
    {"silent__pods_give_their_calls_to_one_that_speaks", silent__pods_give_their_calls_to_one_that_speaks},
    {"sync__gives_no_call_to_a_pod_that_leaves_with_it", sync__gives_no_call_to_a_pod_that_leaves_with_it},
    {"move__of_a_carried_call_waits_where_no_pod_is_free",
     move__of_a_carried_call_waits_where_no_pod_is_free},
    {"move__that_spares_the_pod_takes_another_one", move__that_spares_the_pod_takes_another_one},
    {"move__of_a_call_that_may_not_wait_leaves_it_where_it_is",
     move__of_a_call_that_may_not_wait_leaves_it_where_it_is},
    {"release__ends_nothing_that_was_moved_a_moment_ago", release__ends_nothing_that_was_moved_a_moment_ago},
    {"release__ends_no_call_that_waits_because_it_lost_its_pod_a_moment_ago",
     release__ends_no_call_that_waits_because_it_lost_its_pod_a_moment_ago},
    {"release__of_a_webhook_or_the_gateway_ends_a_call_that_has_lost_its_pod",
     release__of_a_webhook_or_the_gateway_ends_a_call_that_has_lost_its_pod},
    {"release__with_a_pod_a_webhook_and_the_gateway_end_it_all_the_same",
     release__with_a_pod_a_webhook_and_the_gateway_end_it_all_the_same},
    {"depart__gives_calls_a_minute_to_come_back", depart__gives_calls_a_minute_to_come_back},
    {"release__ends_nothing_that_was_cut_or_resumed_a_moment_ago",
     release__ends_nothing_that_was_cut_or_resumed_a_moment_ago},
    {"release__ends_nothing_that_was_granted_a_pod_after_a_rescue",
     release__ends_nothing_that_was_granted_a_pod_after_a_rescue},
    {"gone__pod_gives_all_of_its_many_calls_away", gone__pod_gives_all_of_its_many_calls_away},
    {"resume__gets_the_pod_that_the_call_has", resume__gets_the_pod_that_the_call_has},
    {"resume__too_often_ends_a_wait", resume__too_often_ends_a_wait},
    {"resume__is_counted_in_line_and_at_the_pod", resume__is_counted_in_line_and_at_the_pod},
    {"resume__of_a_call_that_has_ended_says_how", resume__of_a_call_that_has_ended_says_how},
    {"resume__of_a_lost_call_prefers_its_old_pod", resume__of_a_lost_call_prefers_its_old_pod},
    {NULL, NULL},
};
