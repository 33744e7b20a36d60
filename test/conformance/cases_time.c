/* cases_time.c - what every store answers when time passes. */
#include "../support/world.h"

static void lease__is_long_until_somebody_renews_and_short_afterwards(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 2);
    assert_int_equal(allocate(&world, "CA1")->allocate.call.expires_at_ms, world_now(&world) + 4 * HOUR);
    allocate(&world, "CA2");
    assert_int_equal(renew(&world, "CA2")->renew.expires_at_ms, world_now(&world) + LEASE);
    world_advance(&world, LEASE - 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    world_advance(&world, 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_string_equal(world.result.sweep.ended.calls[0].call_sid, "CA2");
    assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_EXPIRED);
    assert_int_equal(world.told, 1);
    assert_int_equal(renew(&world, "CA2")->renew.unknown.count, 1);
    world_advance(&world, 4 * HOUR - LEASE);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(world.told, 2);
    assert_int_equal(tier(&world, "standard")->by_state[POD_AVAILABLE], 2);
    world_release(&world);
}

static void lease__that_ran_out_leaves_the_slot_to_its_call_until_the_sweep(void **state)
{
    struct world world;
    uint64_t allocated_at_ms;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocated_at_ms = allocate(&world, "CA1")->allocate.call.allocated_at_ms;
    world_advance(&world, 4 * HOUR);
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1"}})->outcome,
        OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_existing);
    assert_string_equal(world.result.allocate.call.pod, "voice-agent-0");
    assert_int_equal(world.told, 0);
    assert_int_equal(world.result.allocate.call.allocated_at_ms, allocated_at_ms);
    /* It has the lease of a fresh call. */
    assert_int_equal(world.result.allocate.call.expires_at_ms, world_now(&world) + 4 * HOUR);
    world_advance(&world, 4 * HOUR - 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    world_advance(&world, 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(world.told, 1);
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(call_count(&world), 0);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void lease__that_ran_out_can_still_be_released(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    world_advance(&world, 4 * HOUR);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(world.told, 0);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void lease__connect_timeout_bounds_a_call_that_nobody_renews(void **state)
{
    struct world world;

    world_init_with(&world, *state, "{\"standard\":1}", 16 * MINUTE);
    add_pods(&world, 2);
    allocate(&world, "CA1");
    world_advance(&world, 2 * MINUTE);
    allocate(&world, "CA2");
    renew(&world, "CA2");
    world_advance(&world, 14 * MINUTE);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_string_equal(world.result.sweep.ended.calls[0].call_sid, "CA1");
    world_release(&world);
}

static void drain__keeps_the_call_gives_no_new_one_and_ends_by_itself(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}", 1);
    allocate(&world, "CA1");
    assert_int_equal(drain(&world, "nobody", 0)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(drain(&world, "voice-agent-0", 0)->drain.calls_left, 1);
    assert_true(world.result.drain.until_ms == world_now(&world) + 6 * MINUTE);
    assert_true(pod(&world, "voice-agent-0")->draining_until_ms == world_now(&world) + 6 * MINUTE);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(world.result.allocate.refusal->steps[0].by_state[POD_DRAINING], 1);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    world_advance(&world, 6 * MINUTE - 1);
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world_advance(&world, 1);
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    assert_int_equal(tier(&world, "s")->calls, 1);
    assert_int_equal(tier(&world, "s")->free, 2);
    world_release(&world);
}

static void drain__repeated_is_renewed(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    drain(&world, POD0, MINUTE);
    world_advance(&world, MINUTE / 2);
    drain(&world, POD0, MINUTE);
    world_advance(&world, MINUTE / 2);
    sweep(&world);
    assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
    world_advance(&world, MINUTE / 2);
    sweep(&world);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    world_release(&world);
}

static void drain__says_how_many_calls_are_left(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}", 1);
    assert_int_equal(drain(&world, POD0, 0)->drain.calls_left, 0);
    undrain(&world, POD0);
    allocate_many(&world, 3);
    assert_int_equal(drain(&world, POD0, 0)->drain.calls_left, 3);
    release(&world, "CA1");
    assert_int_equal(drain(&world, POD0, DRAIN_WITHOUT_END)->drain.calls_left, 2);
    world_release(&world);
}

static void drain__without_an_end_lasts_until_undrained(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_true(drain(&world, POD0, DRAIN_WITHOUT_END)->drain.until_ms == DRAIN_WITHOUT_END);
    for (int i = 0; i < 3; i++) {
        world_advance(&world, 24 * HOUR);
        assert_int_equal(sweep(&world)->sweep.recovered, 0);
        assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
        assert_true(pod(&world, POD0)->draining_until_ms == DRAIN_WITHOUT_END);
        assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_NO_PODS);
    }
    undrain(&world, POD0);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_true(pod(&world, POD0)->draining_until_ms == 0);
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void drain__the_last_one_counts_with_or_without_an_end(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    drain(&world, POD0, MINUTE);
    drain(&world, POD0, DRAIN_WITHOUT_END);
    world_advance(&world, HOUR);
    sweep(&world);
    assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
    assert_true(drain(&world, POD0, MINUTE)->drain.until_ms == world_now(&world) + MINUTE);
    world_advance(&world, MINUTE);
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    world_release(&world);
}

/* Putting a pod aside for a while must not bring back a pod that somebody drained without an end. */
static void drain__without_an_end_is_not_cut_short_by_a_move(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":2}", 1);
    allocate(&world, "CA1");
    drain(&world, POD0, DRAIN_WITHOUT_END);
    assert_int_equal(move(&world, "CA1", POD0, MINUTE)->outcome, OUTCOME_NO_PODS);
    assert_true(pod(&world, POD0)->draining_until_ms == DRAIN_WITHOUT_END);
    world_release(&world);
}

/* The pod of a source that shows it no more leaves, although nobody has undrained it. */
static void drain__without_an_end_does_not_keep_a_pod_that_is_gone(void **state)
{
    struct world world;

    world_init(&world, *state, ONE_TIER);
    register_pod(&world, "box-1");
    add_pods(&world, 1);
    drain(&world, "box-1", DRAIN_WITHOUT_END);
    drain(&world, POD0, DRAIN_WITHOUT_END);
    world_advance(&world, 90000);
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    assert_int_equal(remove_pod(&world, POD0)->outcome, OUTCOME_OK);
    assert_false(pod_exists(&world, "box-1"));
    assert_false(pod_exists(&world, POD0));
    see(&world, seen_of(POD0));
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    world_release(&world);
}

static void heartbeat__the_last_one_is_shown_and_a_registration_is_none(void **state)
{
    struct world world;
    uint64_t heard_at_ms;

    world_init(&world, *state, ONE_TIER);
    register_pod(&world, "box-1");
    add_pods(&world, 1);
    assert_true(pod(&world, "box-1")->last_heartbeat_ms == 0);
    assert_true(pod(&world, POD0)->last_heartbeat_ms == 0);
    heartbeat(&world, POD0, NULL);
    heartbeat(&world, "box-1", NULL);
    heard_at_ms = world_now(&world);
    world_advance(&world, MINUTE);
    register_pod(&world, "box-1");
    assert_true(pod(&world, "box-1")->last_heartbeat_ms == heard_at_ms);
    world_advance(&world, HOUR); /* silent for so long that a sweep has looked at it */
    sweep(&world);
    assert_false(pod(&world, POD0)->is_heartbeating);
    assert_true(pod(&world, POD0)->last_heartbeat_ms == heard_at_ms);
    lose_calls_of(&world, POD0);
    assert_true(pod(&world, POD0)->last_heartbeat_ms == 0);
    world_release(&world);
}

static void readiness__lost_does_not_forget_a_drain(void **state)
{
    struct world world;
    struct pod_seen blip = seen_of("voice-agent-0");

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    drain(&world, "voice-agent-0", MINUTE);
    blip.is_ready = false;
    see(&world, blip);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    blip.is_ready = true;
    see(&world, blip);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    blip.is_ready = false;
    see(&world, blip);
    world_advance(&world, MINUTE);
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    assert_false(pod_exists(&world, "voice-agent-0"));
    world_release(&world);
}

static void terminating__finishes_its_call_and_stays_until_it_is_gone(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    seen.is_terminating = true;
    drain(&world, "voice-agent-0", HOUR);
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 0);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    assert_true(pod(&world, "voice-agent-0")->draining_until_ms == DRAIN_WITHOUT_END);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    world_advance(&world, 24 * HOUR);
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world_release(&world);
}

static void heartbeat__silence_removes_only_pods_that_registered_themselves(void **state)
{
    struct world world;

    world_init(&world, *state, "{\"standard\":1}");
    register_pod(&world, "box-1");
    allocate(&world, "CA1");
    add_pods(&world, 1);
    world_advance(&world, MINUTE);
    heartbeat(&world, "box-1", "CA1");
    world_advance(&world, 90000 - 1);
    assert_int_equal(sweep(&world)->sweep.gone.count, 0);
    world_advance(&world, 1);
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_POD_GONE);
    assert_int_equal(world.told, 1);
    assert_true(pod_exists(&world, "voice-agent-0"));
    assert_int_equal(heartbeat(&world, "box-1", NULL)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void heartbeat__ends_what_two_in_a_row_leave_out_unless_it_is_young(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    for (int i = 0; i < 3; i++)
        assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    world_advance(&world, 30000);
    heartbeat(&world, "voice-agent-0", "CA1");
    world_advance(&world, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    heartbeat(&world, "voice-agent-0", "CA1");
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 1);
    assert_int_equal(world.result.heartbeat.ended.calls[0].why, CALL_END_UNMENTIONED);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

enum { MANY_CALLS = 700 }; /* more than the Redis store puts into one script */

/* All of many calls but the one at `left_out`; what they are called is remembered in `names`. */
static struct result *heartbeat_of_many(struct world *world, char names[][16], size_t left_out)
{
    const char *sids[MANY_CALLS];
    size_t count = 0;

    for (size_t i = 0; i < MANY_CALLS; i++) {
        snprintf(names[i], 16, "CA%zu", i);
        if (i != left_out)
            sids[count++] = names[i];
    }
    return run(world,
               &(struct command){.type = COMMAND_HEARTBEAT,
                                 .heartbeat = {.pod = "voice-agent-0", .call_sids = sids, .count = count}});
}

static void heartbeat__of_many_calls_is_one_word(void **state)
{
    /* In the first part of several, at a border, and in the last. */
    static const size_t left_out[] = {0, 249, 250, 600};
    struct world world;
    char names[MANY_CALLS][16];

    world_init_pods(&world, *state, "{\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":699}}",
                    1);
    heartbeat_of_many(&world, names, SIZE_MAX);
    assert_int_equal(world.result.heartbeat.adopted.count, 699);
    assert_string_equal(world.result.heartbeat.adopted.names[698], "CA698");
    assert_int_equal(world.result.heartbeat.conflicts.count, 1);
    assert_string_equal(world.result.heartbeat.conflicts.names[0], "CA699");
    world_advance(&world, MINUTE);
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++) {
        heartbeat_of_many(&world, names, left_out[i]);
        assert_int_equal(world.result.heartbeat.ended.count, 0);
        heartbeat_of_many(&world, names, left_out[i]);
        assert_int_equal(world.result.heartbeat.ended.count, 1);
        assert_string_equal(world.result.heartbeat.ended.calls[0].call_sid, names[left_out[i]]);
        heartbeat_of_many(&world, names, SIZE_MAX);
        assert_int_equal(world.result.heartbeat.adopted.count, 1);
        assert_int_equal(call_count(&world), 699);
        world_advance(&world, MINUTE);
    }
    world_release(&world);
}

static void hold_back__lasts_until_the_first_heartbeat_or_the_ttl(void **state)
{
    struct world world;
    struct pod_seen first = seen_of("voice-agent-0");
    struct pod_seen second = seen_of("voice-agent-1");

    world_init(&world, *state, "{\"standard\":1}");
    first.hold_back = true;
    second.hold_back = true;
    see(&world, first);
    see(&world, second);
    assert_int_equal(allocate(&world, "CA9")->outcome, OUTCOME_NO_PODS);
    heartbeat(&world, "voice-agent-0", "CA1");
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_BUSY);
    assert_int_equal(pod(&world, "voice-agent-1")->state, POD_SUSPENDED);
    see(&world, first); /* seen again: it is not held back a second time */
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_BUSY);
    world_advance(&world, 90000);
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_string_equal(allocate(&world, "CA9")->allocate.call.pod, "voice-agent-1");
    world_release(&world);
}

static void ended__every_lost_call_is_told_once_and_with_its_reason(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate_for(&world, "CA1", "acme");
    release(&world, "CA1");
    allocate_for(&world, "CA1", "acme");
    world_advance(&world, 4 * HOUR);
    renew(&world, "CA1"); /* keeps the call: nothing has ended */
    world_advance(&world, 4 * HOUR);
    allocate_for(&world, "CA1", "acme");
    assert_int_equal(world.told, 0);
    world_advance(&world, 4 * HOUR);
    sweep(&world);
    assert_int_equal(world.told_of[CALL_END_EXPIRED], 1);
    assert_string_equal(world.told_merchant, "acme");
    allocate_for(&world, "CA1", "beta");
    world_advance(&world, MINUTE);
    heartbeat(&world, POD0, NULL);
    heartbeat(&world, POD0, NULL);
    assert_int_equal(world.told_of[CALL_END_UNMENTIONED], 1);
    assert_string_equal(world.told_merchant, "beta");
    allocate_for(&world, "CA1", "acme");
    seen.incarnation = "uid-2";
    see(&world, seen);
    assert_int_equal(world.told_of[CALL_END_RESTARTED], 1);
    assert_string_equal(world.told_merchant, "acme");
    allocate_for(&world, "CA1", "beta");
    remove_pod(&world, POD0);
    assert_int_equal(world.told_of[CALL_END_POD_GONE], 1);
    assert_string_equal(world.told_merchant, "beta");
    assert_int_equal(world.told, 4);
    world_release(&world);
}

static uint64_t others(struct world *world, const char *carrier, bool is_leaving)
{
    const struct result *result =
        run(world, &(struct command){.type = COMMAND_PRESENT,
                                     .present = {.carrier = carrier, .is_leaving = is_leaving}});

    assert_int_equal(result->outcome, OUTCOME_OK);
    return result->present.others;
}

static void present__counts_the_others_that_spoke_lately_and_did_not_leave(void **state)
{
    const struct world_kind *kind = *state;
    uint64_t one = kind->type == WORLD_REDIS ? 1 : 0; /* the others have one process */
    struct world world;

    world_init(&world, *state, NULL);
    assert_int_equal(others(&world, "a", false), 0);
    assert_int_equal(others(&world, "a", false), 0);
    assert_int_equal(others(&world, "b", false), one);
    assert_int_equal(others(&world, "a", false), one);
    (void)others(&world, "b", true);
    assert_int_equal(others(&world, "a", false), 0);
    assert_int_equal(others(&world, "c", false), one);
    world_advance(&world, CARRIER_TTL_MS / 2);
    assert_int_equal(others(&world, "a", false), one);
    world_advance(&world, CARRIER_TTL_MS / 2 + 1);
    assert_int_equal(others(&world, "a", false), 0);
    world_advance(&world, 2 * CARRIER_TTL_MS);
    assert_int_equal(others(&world, "c", false), 0);
    world_release(&world);
}

static void present__refuses_names_that_are_none(void **state)
{
    static const char *const names[] = {"", "a,b", "a b", "{a}"};
    struct world world;

    world_init(&world, *state, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(
            run(&world, &(struct command){.type = COMMAND_PRESENT, .present = {.carrier = names[i]}})
                ->outcome,
            OUTCOME_INVALID);
    assert_int_equal(others(&world, "a", false), 0);
    world_release(&world);
}

const struct world_case cases_time[] = {
    {"present__counts_the_others_that_spoke_lately_and_did_not_leave",
     present__counts_the_others_that_spoke_lately_and_did_not_leave},
    {"present__refuses_names_that_are_none", present__refuses_names_that_are_none},
    {"lease__is_long_until_somebody_renews_and_short_afterwards",
     lease__is_long_until_somebody_renews_and_short_afterwards},
    {"lease__that_ran_out_leaves_the_slot_to_its_call_until_the_sweep",
     lease__that_ran_out_leaves_the_slot_to_its_call_until_the_sweep},
    {"lease__that_ran_out_can_still_be_released", lease__that_ran_out_can_still_be_released},
    {"lease__connect_timeout_bounds_a_call_that_nobody_renews",
     lease__connect_timeout_bounds_a_call_that_nobody_renews},
    {"drain__keeps_the_call_gives_no_new_one_and_ends_by_itself",
     drain__keeps_the_call_gives_no_new_one_and_ends_by_itself},
    {"drain__repeated_is_renewed", drain__repeated_is_renewed},
    {"drain__says_how_many_calls_are_left", drain__says_how_many_calls_are_left},
    {"drain__without_an_end_lasts_until_undrained", drain__without_an_end_lasts_until_undrained},
    {"drain__the_last_one_counts_with_or_without_an_end", drain__the_last_one_counts_with_or_without_an_end},
    {"drain__without_an_end_is_not_cut_short_by_a_move", drain__without_an_end_is_not_cut_short_by_a_move},
    {"drain__without_an_end_does_not_keep_a_pod_that_is_gone",
     drain__without_an_end_does_not_keep_a_pod_that_is_gone},
    {"heartbeat__the_last_one_is_shown_and_a_registration_is_none",
     heartbeat__the_last_one_is_shown_and_a_registration_is_none},
    {"readiness__lost_does_not_forget_a_drain", readiness__lost_does_not_forget_a_drain},
    {"terminating__finishes_its_call_and_stays_until_it_is_gone",
     terminating__finishes_its_call_and_stays_until_it_is_gone},
    {"heartbeat__silence_removes_only_pods_that_registered_themselves",
     heartbeat__silence_removes_only_pods_that_registered_themselves},
    {"heartbeat__ends_what_two_in_a_row_leave_out_unless_it_is_young",
     heartbeat__ends_what_two_in_a_row_leave_out_unless_it_is_young},
    {"ended__every_lost_call_is_told_once_and_with_its_reason",
     ended__every_lost_call_is_told_once_and_with_its_reason},
    {"heartbeat__of_many_calls_is_one_word", heartbeat__of_many_calls_is_one_word},
    {"hold_back__lasts_until_the_first_heartbeat_or_the_ttl",
     hold_back__lasts_until_the_first_heartbeat_or_the_ttl},
    {NULL, NULL},
};
