/* test_core.c - what core answers, case by case. The simulator looks for what nobody thought of. */
#include "../support/core_fixture.h"

static void pods__five_fill_the_default_tiers_and_carry_seven_calls(void **state UNUSED)
{
    struct world world;
    char sid[16];

    world_init(&world, NULL);
    add_pods(&world, 5);
    assert_int_equal(tier(&world, "gold")->assigned, 1);
    assert_int_equal(tier(&world, "basic")->assigned, 1);
    assert_int_equal(tier(&world, "standard")->assigned, 3);
    for (int i = 0; i < 7; i++) {
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(allocate(&world, sid)->outcome, OUTCOME_OK);
    }
    assert_int_equal(allocate(&world, "CA7")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(world.result.allocate.refusal->count, 3);
    assert_string_equal(world.result.allocate.refusal->steps[2].pool, "pool:basic");
    assert_int_equal(world.result.allocate.refusal->steps[1].by_state[POD_BUSY], 3);
    assert_int_equal(tier(&world, "basic")->calls, 3);
    assert_int_equal(tier(&world, "basic")->free, 0);
    world_release(&world);
}

static void allocate__same_call_gets_the_same_pod(void **state UNUSED)
{
    struct world world;
    const char *first;

    world_init(&world, NULL);
    add_pods(&world, 3);
    first = allocate_for(&world, "CA1", "acme")->allocate.call.pod;
    assert_false(world.result.allocate.was_existing);
    assert_string_equal(allocate_for(&world, "CA1", "other")->allocate.call.pod, first);
    assert_true(world.result.allocate.was_existing);
    assert_string_equal(world.result.allocate.call.merchant_id, "acme");
    world_release(&world);
}

static void allocate__refuses_names_that_are_none(void **state UNUSED)
{
    struct world world;
    char long_sid[CALL_SID_MAX + 2];

    world_init(&world, NULL);
    add_pods(&world, 1);
    memset(long_sid, 'x', sizeof(long_sid));
    long_sid[CALL_SID_MAX + 1] = '\0';
    assert_int_equal(allocate(&world, "")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, long_sid)->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, "a b")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, "a\nb")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate_for(&world, "CA1", "a/b")->outcome, OUTCOME_INVALID);
    assert_int_equal(core_call_count(world.core), 0);
    long_sid[CALL_SID_MAX] = '\0';
    assert_int_equal(allocate(&world, long_sid)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void shared__least_loaded_pod_is_taken(void **state UNUSED)
{
    struct world world;
    char first[POD_NAME_MAX + 1];

    world_init(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":2}}");
    add_pods(&world, 2);
    snprintf(first, sizeof(first), "%s", allocate(&world, "CA1")->allocate.call.pod);
    assert_string_not_equal(allocate(&world, "CA2")->allocate.call.pod, first);
    allocate(&world, "CA3");
    allocate(&world, "CA4");
    assert_int_equal(pod(&world, "voice-agent-0")->calls.count, 2);
    assert_int_equal(pod(&world, "voice-agent-1")->calls.count, 2);
    world_release(&world);
}

static void release__unknown_or_repeated_is_not_found_and_frees_nothing(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    allocate(&world, "CA1");
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.released_to, "pool:standard");
    /* The pod now belongs to another call: a late second release of the first must not touch it. */
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(allocate(&world, "CA3")->outcome, OUTCOME_NO_PODS);
    world_release(&world);
}

static void lease__is_long_until_somebody_renews_and_short_afterwards(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 2);
    assert_int_equal(allocate(&world, "CA1")->allocate.call.expires_at_ms, world.now_ms + 4 * HOUR);
    allocate(&world, "CA2");
    assert_int_equal(renew(&world, "CA2")->renew.expires_at_ms, world.now_ms + 15 * MINUTE);
    world.now_ms += 15 * MINUTE - 1;
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    world.now_ms += 1;
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_string_equal(world.result.sweep.ended.calls[0].call_sid, "CA2");
    assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_EXPIRED);
    assert_int_equal(renew(&world, "CA2")->renew.unknown.count, 1);
    world.now_ms += 4 * HOUR;
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(tier(&world, "standard")->by_state[POD_AVAILABLE], 2);
    world_release(&world);
}

static void lease__that_ran_out_leaves_the_slot_to_its_call_until_the_sweep(void **state UNUSED)
{
    struct world world;
    uint64_t allocated_at_ms;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    allocated_at_ms = world.now_ms;
    world.now_ms += 4 * HOUR;
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1"}})->outcome,
        OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_existing);
    assert_int_equal(world.result.allocate.call.allocated_at_ms, allocated_at_ms);
    assert_int_equal(world.result.allocate.call.expires_at_ms, world.now_ms + 4 * HOUR);
    world.now_ms += 4 * HOUR;
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void lease__that_ran_out_can_still_be_released(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    world.now_ms += 4 * HOUR;
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void silence__is_forgiven_when_nobody_could_be_heard(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen = {.pod = {.name = "box-1", .address = "", .source = POD_SOURCE_API, .is_ready = true},
                     .is_registration = true},
    };

    world_init(&world, "{\"standard\":1}");
    run(&world, &command);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world.now_ms += HOUR;
    core_listens_again(world.core, world.now_ms);
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    assert_int_equal(heartbeat(&world, "box-1", "CA1")->heartbeat.renewed.count, 1);
    world.now_ms += HOUR;
    core_listens_again(world.core, world.now_ms);
    world.now_ms += 90000 - 1;
    assert_int_equal(sweep(&world)->sweep.gone.count, 0);
    assert_int_equal(renew(&world, "CA1")->renew.renewed.count, 1);
    world.now_ms += 1;
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    world_release(&world);
}

static void count_ended(void *arg, const struct ended_call *call)
{
    int *counts = arg;

    assert_string_equal(call->merchant_id, "acme");
    counts[call->why]++;
}

static void ended__every_lost_call_is_told_once_and_with_its_reason(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");
    int counts[4] = {0};

    world_init(&world, "{\"standard\":1}");
    core_on_ended(world.core, count_ended, counts);
    add_pods(&world, 1);
    allocate_for(&world, "CA1", "acme");
    release(&world, "CA1");
    allocate_for(&world, "CA1", "acme");
    world.now_ms += 4 * HOUR;
    renew(&world, "CA1"); /* whoever speaks of it keeps it, and then nothing has ended */
    world.now_ms += 4 * HOUR;
    allocate_for(&world, "CA1", "acme");
    assert_int_equal(counts[CALL_END_EXPIRED], 0);
    world.now_ms += 4 * HOUR;
    sweep(&world);
    assert_int_equal(counts[CALL_END_EXPIRED], 1);
    allocate_for(&world, "CA1", "acme");
    world.now_ms += MINUTE;
    heartbeat(&world, "voice-agent-0", NULL);
    heartbeat(&world, "voice-agent-0", NULL);
    assert_int_equal(counts[CALL_END_UNMENTIONED], 1);
    allocate_for(&world, "CA1", "acme");
    seen.incarnation = "uid-2";
    see(&world, seen);
    assert_int_equal(counts[CALL_END_RESTARTED], 1);
    allocate_for(&world, "CA1", "acme");
    run(&world, &(struct command){.type = COMMAND_POD_GONE,
                                  .pod_gone = {.pod = "voice-agent-0", .source = POD_SOURCE_KUBERNETES}});
    assert_int_equal(counts[CALL_END_POD_GONE], 1);
    world_release(&world);
}

static void lease__connect_timeout_bounds_a_call_that_nobody_renews(void **state UNUSED)
{
    struct world world;

    world_init_with(&world, "{\"standard\":1}", MINUTE);
    add_pods(&world, 2);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    renew(&world, "CA2");
    world.now_ms += MINUTE;
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_string_equal(world.result.sweep.ended.calls[0].call_sid, "CA1");
    world_release(&world);
}

static void drain__keeps_the_call_gives_no_new_one_and_ends_by_itself(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    assert_int_equal(drain(&world, "nobody", 0)->outcome, OUTCOME_NOT_FOUND);
    assert_true(drain(&world, "voice-agent-0", 0)->drain.has_active_call);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(world.result.allocate.refusal->steps[0].by_state[POD_DRAINING], 1);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    world.now_ms += 6 * MINUTE - 1;
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world.now_ms += 1;
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    assert_int_equal(tier(&world, "s")->calls, 1);
    assert_int_equal(tier(&world, "s")->free, 2);
    world_release(&world);
}

static void drain__repeated_is_renewed(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    drain(&world, "voice-agent-0", MINUTE);
    world.now_ms += 30000;
    drain(&world, "voice-agent-0", MINUTE);
    world.now_ms += 30000;
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world.now_ms += 30000;
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void drain__released_call_does_not_make_the_pod_available(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    drain(&world, "voice-agent-0", 0);
    assert_true(release(&world, "CA1")->release.was_draining);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = "voice-agent-0"}})->outcome,
        OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = "nobody"}})->outcome,
        OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void readiness__lost_with_a_call_suspends_and_without_one_leaves(void **state UNUSED)
{
    struct world world;
    struct pod_seen blip = seen_of("voice-agent-0");
    struct pod_seen idle_blip = seen_of("voice-agent-1");

    world_init(&world, "{\"standard\":2}");
    add_pods(&world, 2);
    while (strcmp(allocate(&world, "CA1")->allocate.call.pod, "voice-agent-0") != 0)
        release(&world, "CA1");
    blip.is_ready = false;
    idle_blip.is_ready = false;
    assert_int_equal(see(&world, blip)->pod_seen.ended.count, 0);
    see(&world, idle_blip);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_SUSPENDED);
    assert_false(pod_exists(&world, "voice-agent-1"));
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    blip.is_ready = true;
    see(&world, blip);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_BUSY);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void readiness__suspended_pod_leaves_with_its_last_call(void **state UNUSED)
{
    struct world world;
    struct pod_seen blip = seen_of("voice-agent-0");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    blip.is_ready = false;
    see(&world, blip);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.released_to, "");
    assert_false(pod_exists(&world, "voice-agent-0"));
    world_release(&world);
}

static void readiness__lost_does_not_forget_a_drain(void **state UNUSED)
{
    struct world world;
    struct pod_seen blip = seen_of("voice-agent-0");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    drain(&world, "voice-agent-0", MINUTE);
    blip.is_ready = false;
    see(&world, blip);
    blip.is_ready = true;
    see(&world, blip);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    blip.is_ready = false;
    see(&world, blip);
    world.now_ms += MINUTE;
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    assert_false(pod_exists(&world, "voice-agent-0"));
    world_release(&world);
}

static void terminating__finishes_its_call_and_stays_until_it_is_gone(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    seen.is_terminating = true;
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 0);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    world.now_ms += 24 * HOUR;
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world_release(&world);
}

static void incarnation__new_one_ends_the_calls_of_the_old(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate_for(&world, "CA1", "acme");
    seen.incarnation = "uid-2";
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 1);
    assert_int_equal(world.result.pod_seen.ended.calls[0].why, CALL_END_RESTARTED);
    assert_string_equal(world.result.pod_seen.ended.calls[0].merchant_id, "acme");
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void incarnation__restart_of_a_suspended_pod_brings_it_back(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    seen.is_ready = false;
    see(&world, seen);
    seen.is_ready = true;
    seen.incarnation = "uid-2";
    see(&world, seen);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void registration__twice_is_a_restart_unless_the_incarnation_is_the_same(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen = {.pod = {.name = "box-1", .address = "", .source = POD_SOURCE_API, .is_ready = true},
                     .is_registration = true},
    };

    world_init(&world, "{\"standard\":1,\"gold\":0}");
    assert_true(run(&world, &command)->pod_seen.is_new);
    allocate(&world, "CA1");
    assert_int_equal(run(&world, &command)->pod_seen.ended.count, 1);
    command.pod_seen.pod.incarnation = "boot-7";
    run(&world, &command);
    allocate(&world, "CA1");
    assert_int_equal(run(&world, &command)->pod_seen.ended.count, 0);
    command.pod_seen.pod.tier = "nowhere";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    release(&world, "CA1");
    command.pod_seen.pod.tier = "gold";
    assert_string_equal(run(&world, &command)->pod_seen.tier, "gold");
    command.pod_seen.pod.name = "Box_1";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

static void registration__cannot_take_or_remove_a_pod_of_another_source(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen =
            {.pod = {.name = "voice-agent-0", .address = "", .source = POD_SOURCE_API, .is_ready = true},
             .is_registration = true},
    };

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_CONFLICT);
    command = (struct command){.type = COMMAND_POD_GONE,
                               .pod_gone = {.pod = "voice-agent-0", .source = POD_SOURCE_API}};
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(core_call_count(world.core), 1);
    command.pod_gone.source = POD_SOURCE_KUBERNETES;
    assert_int_equal(run(&world, &command)->pod_gone.ended.count, 1);
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void takeover__by_kubernetes_keeps_the_calls(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen =
            {.pod = {.name = "voice-agent-0", .address = "", .source = POD_SOURCE_API, .is_ready = true},
             .is_registration = true},
    };

    world_init(&world, "{\"standard\":1}");
    run(&world, &command);
    allocate(&world, "CA1");
    assert_int_equal(see(&world, seen_of("voice-agent-0"))->pod_seen.ended.count, 0);
    assert_int_equal(pod(&world, "voice-agent-0")->source, POD_SOURCE_KUBERNETES);
    assert_string_equal(pod(&world, "voice-agent-0")->incarnation, "uid-1");
    assert_int_equal(core_call_count(world.core), 1);
    world_release(&world);
}

static void heartbeat__silence_removes_only_pods_that_registered_themselves(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen = {.pod = {.name = "box-1", .address = "", .source = POD_SOURCE_API, .is_ready = true},
                     .is_registration = true},
    };

    world_init(&world, "{\"standard\":1}");
    run(&world, &command);
    allocate(&world, "CA1");
    add_pods(&world, 1);
    world.now_ms += 60000;
    heartbeat(&world, "box-1", "CA1");
    world.now_ms += 89999;
    assert_int_equal(sweep(&world)->sweep.gone.count, 0);
    world.now_ms += 1;
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_POD_GONE);
    assert_true(pod_exists(&world, "voice-agent-0"));
    assert_int_equal(heartbeat(&world, "box-1", NULL)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void heartbeat__adopts_what_was_lost_and_reports_what_does_not_fit(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 2);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA1")->heartbeat.adopted.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA1")->heartbeat.renewed.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA2")->heartbeat.conflicts.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-1", "CA1")->heartbeat.conflicts.count, 1);
    assert_int_equal(core_call_count(world.core), 1);
    assert_string_equal(allocate(&world, "CA3")->allocate.call.pod, "voice-agent-1");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    world_release(&world);
}

static void heartbeat__ends_what_two_in_a_row_leave_out_unless_it_is_young(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    for (int i = 0; i < 3; i++)
        assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    world.now_ms += 30000;
    heartbeat(&world, "voice-agent-0", "CA1");
    world.now_ms += 1;
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    heartbeat(&world, "voice-agent-0", "CA1");
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 0);
    assert_int_equal(heartbeat(&world, "voice-agent-0", NULL)->heartbeat.ended.count, 1);
    assert_int_equal(world.result.heartbeat.ended.calls[0].why, CALL_END_UNMENTIONED);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void hold_back__lasts_until_the_first_heartbeat_or_the_ttl(void **state UNUSED)
{
    struct world world;
    struct pod_seen first = seen_of("voice-agent-0");
    struct pod_seen second = seen_of("voice-agent-1");

    world_init(&world, "{\"standard\":1}");
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
    world.now_ms += 90000;
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_string_equal(allocate(&world, "CA9")->allocate.call.pod, "voice-agent-1");
    world_release(&world);
}

static void sync__adds_what_is_missing_and_removes_only_its_own_ghosts(void **state UNUSED)
{
    struct world world;
    struct pod_seen pods[] = {seen_of("voice-agent-1"), seen_of("voice-agent-2"), seen_of("voice-agent-3")};
    struct command command = {.type = COMMAND_SYNC,
                              .sync = {.source = POD_SOURCE_KUBERNETES, .pods = pods, .count = 3}};
    struct pod_seen other = seen_of("box-1");

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 2);
    other.source = POD_SOURCE_STATIC;
    see(&world, other);
    for (int i = 0; i < 3; i++) {
        char sid[16];

        snprintf(sid, sizeof(sid), "CA%d", i);
        allocate(&world, sid);
    }
    pods[2].is_ready = false;
    run(&world, &command);
    assert_int_equal(world.result.sync.added, 1);
    assert_int_equal(world.result.sync.removed, 1);
    assert_int_equal(world.result.sync.changed, 0);
    assert_int_equal(world.result.sync.ended.count, 1);
    assert_string_equal(world.result.sync.ended.calls[0].pod, "voice-agent-0");
    assert_true(pod_exists(&world, "box-1"));
    assert_false(pod_exists(&world, "voice-agent-3"));
    pods[1].name = "not a name";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    assert_true(pod_exists(&world, "voice-agent-2"));
    world_release(&world);
}

static void rebalance__moves_idle_pods_to_where_they_are_wanted(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 5);
    allocate(&world, "CA1");
    drain(&world, "voice-agent-4", 0);
    tiers_set(&world, "{\"standard\":1,\"gold\":4,\"basic\":{\"type\":\"shared\",\"target\":1}}");
    assert_int_equal(tier(&world, "gold")->assigned, 3);
    assert_int_equal(tier(&world, "standard")->assigned, 2);
    assert_int_equal(tier(&world, "standard")->by_state[POD_BUSY], 1);
    assert_int_equal(tier(&world, "standard")->by_state[POD_DRAINING], 1);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_REBALANCE})->rebalance.moved, 0);
    run(&world, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = "voice-agent-4"}});
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_REBALANCE})->rebalance.moved, 1);
    assert_int_equal(tier(&world, "gold")->assigned, 4);
    world_release(&world);
}

static void rebalance__leaves_pinned_pods_and_stops_at_its_limit(void **state UNUSED)
{
    struct world world;
    struct pod_seen pinned = seen_of("voice-agent-9");

    world_init(&world, "{\"standard\":0,\"gold\":0}");
    pinned.tier = "standard";
    add_pods(&world, 3);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    allocate(&world, "CA3");
    see(&world, pinned);
    tiers_set(&world, "{\"standard\":0,\"gold\":9}");
    release(&world, "CA1");
    release(&world, "CA2");
    release(&world, "CA3");
    run(&world, &(struct command){.type = COMMAND_REBALANCE, .rebalance = {.limit = 2}});
    assert_int_equal(world.result.rebalance.moved, 2);
    assert_true(world.result.rebalance.more);
    run(&world, &(struct command){.type = COMMAND_REBALANCE, .rebalance = {.limit = 2}});
    assert_int_equal(world.result.rebalance.moved, 1);
    assert_false(world.result.rebalance.more);
    assert_string_equal(pod(&world, "voice-agent-9")->tier, "standard");
    world_release(&world);
}

static void tier_removed__its_pods_are_given_back_when_they_are_free(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"gold\":1,\"old\":3,\"standard\":1}");
    add_pods(&world, 5);
    assert_int_equal(tier(&world, "old")->assigned, 3);
    run(&world, &(struct command){.type = COMMAND_MERCHANT_SET,
                                  .merchant_set = {.merchant_id = "m", .text = "{\"tier\":\"old\"}"}});
    assert_string_equal(allocate_for(&world, "CA1", "m")->allocate.call.pool, "pool:old");
    tiers_set(&world, "{\"gold\":1,\"standard\":1}");
    assert_int_equal(tier(&world, "standard")->assigned, 3);
    assert_int_equal(tier(&world, "old")->assigned, 1);
    assert_false(tier(&world, "old")->is_configured);
    assert_true(allocate_for(&world, "CA1", "m")->allocate.was_existing);
    assert_string_equal(release(&world, "CA1")->release.released_to, "pool:standard");
    assert_int_equal(tier(&world, "standard")->assigned, 4);
    world_release(&world);
}

static void tiers__that_shrink_end_no_call_but_give_no_new_one(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}");
    add_pods(&world, 1);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    allocate(&world, "CA3");
    tiers_set(&world, "{\"s\":{\"type\":\"exclusive\",\"target\":1}}");
    assert_int_equal(core_call_count(world.core), 3);
    release(&world, "CA1");
    release(&world, "CA2");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    release(&world, "CA3");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_OK);
    assert_int_equal(tiers_set(&world, "{\"s\":-1}")->outcome, OUTCOME_INVALID);
    assert_int_equal(tier(&world, "s")->target, 1);
    world_release(&world);
}

static void merchants__choose_their_chain(void **state UNUSED)
{
    struct world world;
    const struct {
        const char *id, *text;
    } merchants[] = {{"gold-one", "{\"tier\":\"gold\"}"},
                     {"plain", "{\"tier\":\"standard\"}"},
                     {"vip", "{\"tier\":\"night\"}"},
                     {"own", "{\"pool\":\"9shines\"}"},
                     {"lost", "{\"pool\":\"nobody\",\"fallback\":[\"gold\"]}"}};

    world_init(&world,
               "{\"tiers\":{\"gold\":1,\"standard\":1,\"night\":{\"target\":1,\"reserved\":true},"
               "\"merchant:9shines\":{\"target\":1}},\"default_chain\":[\"gold\",\"standard\",\"night\"]}");
    add_pods(&world, 4);
    for (size_t i = 0; i < ARRAY_LEN(merchants); i++)
        assert_int_equal(run(&world, &(struct command){.type = COMMAND_MERCHANT_SET,
                                                       .merchant_set = {.merchant_id = merchants[i].id,
                                                                        .text = merchants[i].text}})
                             ->outcome,
                         OUTCOME_OK);
    assert_string_equal(allocate_for(&world, "CA1", "own")->allocate.call.pool, "merchant:9shines");
    assert_string_equal(allocate_for(&world, "CA2", "plain")->allocate.call.pool, "pool:standard");
    assert_int_equal(allocate_for(&world, "CA3", "plain")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(allocate_for(&world, "CA4", "unknown")->allocate.call.pool, "pool:gold");
    assert_int_equal(allocate_for(&world, "CA5", "lost")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(world.result.allocate.refusal->steps[0].pool, "merchant:nobody");
    assert_false(world.result.allocate.refusal->steps[0].is_configured);
    assert_int_equal(allocate(&world, "CA6")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(allocate_for(&world, "CA7", "vip")->allocate.call.pool, "pool:night");
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_MERCHANT_SET,
                                      .merchant_set = {.merchant_id = "plain", .text = "{\"tier\":1}"}})
            ->outcome,
        OUTCOME_INVALID);
    run(&world, &(struct command){.type = COMMAND_MERCHANT, .merchant = {.merchant_id = "plain"}});
    assert_string_equal(world.result.merchant.text, "{\"tier\":\"standard\"}");
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_MERCHANT_REMOVE, .merchant = {.merchant_id = "plain"}})
            ->outcome,
        OUTCOME_OK);
    assert_int_equal(
        run(&world, &(struct command){.type = COMMAND_MERCHANT_REMOVE, .merchant = {.merchant_id = "plain"}})
            ->outcome,
        OUTCOME_NOT_FOUND);
    run(&world, &(struct command){.type = COMMAND_MERCHANTS});
    assert_int_equal(world.result.merchants.ids.count, 4);
    assert_string_equal(world.result.merchants.ids.names[0], "gold-one");
    world_release(&world);
}

static void refusals__are_remembered_up_to_a_limit(void **state UNUSED)
{
    struct world world;
    char sid[16];

    world_init(&world, NULL);
    for (int i = 0; i < 1500; i++) {
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(allocate(&world, sid)->outcome, OUTCOME_NO_PODS);
        arena_reset(&world.arena);
    }
    allocate(&world, "CA1499");
    run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1499"}});
    assert_int_equal(world.result.outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(world.result.call.refusal->count, 3);
    assert_string_equal(world.result.call.refusal->steps[0].pool, "pool:gold");
    run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1"}});
    assert_null(world.result.call.refusal);
    world_release(&world);
}

static void pages__visit_every_pod_and_every_call_once(void **state UNUSED)
{
    struct world world;
    struct command command = {.type = COMMAND_PODS, .pods = {.state = -1, .limit = 7}};
    size_t seen = 0;
    char last[POD_NAME_MAX + 1] = "";
    char sid[16];

    world_init(&world, "{\"standard\":100}");
    add_pods(&world, 50);
    for (int i = 0; i < 30; i++) {
        snprintf(sid, sizeof(sid), "CA%d", i);
        allocate(&world, sid);
    }
    do {
        run(&world, &command);
        assert_int_equal(world.result.pods.total, 50);
        for (size_t i = 0; i < world.result.pods.count; i++) {
            assert_true(strcmp(last, world.result.pods.pods[i].name) < 0);
            snprintf(last, sizeof(last), "%s", world.result.pods.pods[i].name);
        }
        seen += world.result.pods.count;
        command.pods.cursor = world.result.pods.next_cursor;
    } while (command.pods.cursor[0]);
    assert_int_equal(seen, 50);
    command = (struct command){.type = COMMAND_PODS, .pods = {.state = POD_BUSY, .tier = "standard"}};
    assert_int_equal(run(&world, &command)->pods.count, 30);
    assert_int_equal(world.result.pods.total, 30);
    command.pods.tier = "gold";
    assert_int_equal(run(&world, &command)->pods.count, 0);
    command = (struct command){.type = COMMAND_CALLS, .calls = {.limit = 4}};
    seen = 0;
    do {
        run(&world, &command);
        seen += world.result.calls.count;
        command.calls.cursor = world.result.calls.next_cursor;
    } while (command.calls.cursor[0]);
    assert_int_equal(seen, 30);
    command.calls.cursor = "x";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    command.calls.cursor = "99999999999999999999999";
    assert_int_equal(run(&world, &command)->calls.count, 0);
    world_release(&world);
}

static void merchants__come_in_pages_sorted_by_id(void **state UNUSED)
{
    struct command command = {.type = COMMAND_MERCHANTS, .merchants = {.limit = 7}};
    char last[MERCHANT_ID_MAX + 1] = "";
    size_t seen = 0;
    struct world world;

    world_init(&world, NULL);
    for (int i = 0; i < 50; i++) {
        char id[16];

        snprintf(id, sizeof(id), "m%d", i);
        run(&world, &(struct command){.type = COMMAND_MERCHANT_SET,
                                      .merchant_set = {.merchant_id = id, .text = "{}"}});
    }
    do {
        run(&world, &command);
        assert_int_equal(world.result.merchants.total, 50);
        assert_int_equal(world.result.merchants.ids.count, world.result.merchants.texts.count);
        assert_in_range(world.result.merchants.ids.count, 1, 7);
        for (size_t i = 0; i < world.result.merchants.ids.count; i++) {
            assert_true(strcmp(last, world.result.merchants.ids.names[i]) < 0);
            snprintf(last, sizeof(last), "%s", world.result.merchants.ids.names[i]);
        }
        seen += world.result.merchants.ids.count;
        command.merchants.cursor = world.result.merchants.next_cursor;
    } while (command.merchants.cursor[0]);
    assert_int_equal(seen, 50);
    command = (struct command){.type = COMMAND_MERCHANTS};
    assert_int_equal(run(&world, &command)->merchants.ids.count, 50);
    command.merchants.cursor = "z"; /* need not exist */
    assert_int_equal(run(&world, &command)->merchants.ids.count, 0);
    assert_string_equal(world.result.merchants.next_cursor, "");
    world_release(&world);
}

static void merchants__page_ends_early_when_its_texts_are_long(void **state UNUSED)
{
    enum { LONG = MERCHANT_CONFIG_TEXT_MAX, FIT = PAGE_TEXTS_MAX / LONG };
    struct command command = {.type = COMMAND_MERCHANTS};
    char text[LONG + 1];
    struct world world;

    memset(text, ' ', LONG);
    text[0] = '{';
    text[LONG - 1] = '}';
    text[LONG] = '\0';
    world_init(&world, NULL);
    for (int i = 0; i < FIT + 10; i++) {
        char id[16];

        snprintf(id, sizeof(id), "m%d", i);
        assert_int_equal(run(&world, &(struct command){.type = COMMAND_MERCHANT_SET,
                                                       .merchant_set = {.merchant_id = id, .text = text}})
                             ->outcome,
                         OUTCOME_OK);
        arena_reset(&world.arena);
    }
    assert_int_equal(run(&world, &command)->merchants.ids.count, FIT + 1);
    command.merchants.cursor = world.result.merchants.next_cursor;
    assert_int_equal(run(&world, &command)->merchants.ids.count, 9);
    assert_string_equal(world.result.merchants.next_cursor, "");
    world_release(&world);
}

static void pods__page_ends_early_when_it_names_many_calls(void **state UNUSED)
{
    enum { PER_POD = 1000, PODS = PAGE_CALLS_MAX / PER_POD + 2 };
    struct command command = {.type = COMMAND_PODS, .pods = {.state = -1}};
    struct command call = {.type = COMMAND_ALLOCATE, .allocate = {.merchant_id = "", .provider = ""}};
    struct world world;
    char sid[16];

    world_init(&world, "{\"only\":{\"type\":\"shared\",\"target\":100,\"max_concurrent\":1000}}");
    add_pods(&world, PODS);
    call.allocate.call_sid = sid;
    for (int i = 0; i < PODS * PER_POD; i++) {
        /* Without a look at every invariant: there are too many. */
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(core_execute(world.core, &call, world.now_ms, &world.arena, &world.result), 0);
        assert_int_equal(world.result.outcome, OUTCOME_OK);
        arena_reset(&world.arena);
    }
    assert_int_equal(run(&world, &command)->pods.count, PODS - 2);
    assert_int_equal(world.result.pods.pods[0].calls.count, PER_POD);
    assert_int_equal(world.result.pods.total, PODS);
    command.pods.cursor = world.result.pods.next_cursor;
    assert_int_equal(run(&world, &command)->pods.count, 2);
    assert_string_equal(world.result.pods.next_cursor, "");
    world_release(&world);
}

static void every_command_has_a_name(void **state UNUSED)
{
    for (int i = 0; i < COMMAND_TYPES; i++)
        assert_non_null(command_name((enum command_type)i));
    assert_string_equal(command_name(COMMAND_POD_SEEN), "pod_seen");
    assert_string_equal(command_name(COMMAND_TIERS), "tiers");
}

/* An older version may have stored what a PUT would be refused for today. */
static void apply__takes_stored_tiers_as_they_are(void **state UNUSED)
{
    const char *text = "{\"tiers\":{\"gold\":{\"target\":1,\"colour\":\"red\"},\"9shines\":1},"
                       "\"default_chain\":[\"gold\"],\"version\":2}";
    struct world world;

    world_init(&world, NULL);
    assert_int_equal(tiers_set(&world, text)->outcome, OUTCOME_INVALID);
    assert_int_equal(core_apply(world.core, &(struct record){.type = RECORD_TIERS, .tiers = {.text = text}}),
                     0);
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, text);
    assert_int_equal(tier(&world, "merchant:9shines")->target, 1);
    world_release(&world);
}

static void apply__refuses_what_no_log_of_ours_says(void **state UNUSED)
{
    struct world world;
    const struct record bad[] = {
        {.type = RECORD_TIERS, .tiers = {.text = "{"}},
        {.type = RECORD_MERCHANT, .merchant = {.id = "a b", .text = "{}"}},
        {.type = RECORD_MERCHANT_GONE, .merchant = {.id = "nobody"}},
        {.type = RECORD_POD, .pod = {.name = "A", .address = "", .incarnation = "1", .tier = "gold"}},
        {.type = RECORD_POD, .pod = {.name = "a", .address = "", .incarnation = "1", .tier = "go ld"}},
        {.type = RECORD_POD_GONE, .pod = {.name = "nobody"}},
        {.type = RECORD_CALL,
         .call =
             {.call_sid = "CA2", .pod = "nobody", .pool = "pool:gold", .merchant_id = "", .provider = ""}},
        {.type = RECORD_CALL,
         .call = {.call_sid = "CA1",
                  .pod = "voice-agent-0",
                  .pool = "pool:gold",
                  .merchant_id = "",
                  .provider = ""}},
        {.type = RECORD_CALL,
         .call =
             {.call_sid = "CA2", .pod = "voice-agent-0", .pool = "pool:", .merchant_id = "", .provider = ""}},
        {.type = RECORD_CALL_GONE, .call = {.call_sid = "CA2"}},
        {.type = RECORD_POD_GONE, .pod = {.name = "voice-agent-0"}},
        {.type = RECORD_RENEWED, .renewed = {.call_sid = "CA2"}},
        {.type = RECORD_PLACED, .placed = {.call_sid = "CA2", .at_ms = 1}},
        {.type = RECORD_OVER, .over = {.call_sid = "CA1", .why = CALL_OVER_CLOSED, .at_ms = 1}},
        {.type = RECORD_OVER, .over = {.call_sid = "CA2", .why = CALL_OVERS, .at_ms = 1}},
        {.type = RECORD_OVER, .over = {.call_sid = "a b", .why = CALL_OVER_CLOSED, .at_ms = 1}},
        {.type = (enum record_type)99},
    };
    char error[256];

    world_init(&world, NULL);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(core_apply(world.core, &bad[i]), -EBADMSG);
        assert_true(core_check(world.core, error, sizeof(error)));
    }
    assert_int_equal(core_call_count(world.core), 1);
    world_release(&world);
}

static void time__never_goes_back(void **state UNUSED)
{
    struct world world;

    world_init(&world, "{\"standard\":1}");
    add_pods(&world, 2);
    allocate(&world, "CA1");
    world.now_ms += HOUR;
    allocate(&world, "CA2");
    world.now_ms -= 2 * HOUR;
    assert_int_equal(renew(&world, "CA1")->renew.expires_at_ms, world.now_ms + 2 * HOUR + 15 * MINUTE);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods__five_fill_the_default_tiers_and_carry_seven_calls),
        cmocka_unit_test(allocate__same_call_gets_the_same_pod),
        cmocka_unit_test(allocate__refuses_names_that_are_none),
        cmocka_unit_test(shared__least_loaded_pod_is_taken),
        cmocka_unit_test(release__unknown_or_repeated_is_not_found_and_frees_nothing),
        cmocka_unit_test(lease__is_long_until_somebody_renews_and_short_afterwards),
        cmocka_unit_test(lease__that_ran_out_leaves_the_slot_to_its_call_until_the_sweep),
        cmocka_unit_test(lease__that_ran_out_can_still_be_released),
        cmocka_unit_test(silence__is_forgiven_when_nobody_could_be_heard),
        cmocka_unit_test(ended__every_lost_call_is_told_once_and_with_its_reason),
        cmocka_unit_test(lease__connect_timeout_bounds_a_call_that_nobody_renews),
        cmocka_unit_test(drain__keeps_the_call_gives_no_new_one_and_ends_by_itself),
        cmocka_unit_test(drain__repeated_is_renewed),
        cmocka_unit_test(drain__released_call_does_not_make_the_pod_available),
        cmocka_unit_test(readiness__lost_with_a_call_suspends_and_without_one_leaves),
        cmocka_unit_test(readiness__suspended_pod_leaves_with_its_last_call),
        cmocka_unit_test(readiness__lost_does_not_forget_a_drain),
        cmocka_unit_test(terminating__finishes_its_call_and_stays_until_it_is_gone),
        cmocka_unit_test(incarnation__new_one_ends_the_calls_of_the_old),
        cmocka_unit_test(incarnation__restart_of_a_suspended_pod_brings_it_back),
        cmocka_unit_test(registration__twice_is_a_restart_unless_the_incarnation_is_the_same),
        cmocka_unit_test(registration__cannot_take_or_remove_a_pod_of_another_source),
        cmocka_unit_test(takeover__by_kubernetes_keeps_the_calls),
        cmocka_unit_test(heartbeat__silence_removes_only_pods_that_registered_themselves),
        cmocka_unit_test(heartbeat__adopts_what_was_lost_and_reports_what_does_not_fit),
        cmocka_unit_test(heartbeat__ends_what_two_in_a_row_leave_out_unless_it_is_young),
        cmocka_unit_test(hold_back__lasts_until_the_first_heartbeat_or_the_ttl),
        cmocka_unit_test(sync__adds_what_is_missing_and_removes_only_its_own_ghosts),
        cmocka_unit_test(rebalance__moves_idle_pods_to_where_they_are_wanted),
        cmocka_unit_test(rebalance__leaves_pinned_pods_and_stops_at_its_limit),
        cmocka_unit_test(tier_removed__its_pods_are_given_back_when_they_are_free),
        cmocka_unit_test(tiers__that_shrink_end_no_call_but_give_no_new_one),
        cmocka_unit_test(merchants__choose_their_chain),
        cmocka_unit_test(refusals__are_remembered_up_to_a_limit),
        cmocka_unit_test(pages__visit_every_pod_and_every_call_once),
        cmocka_unit_test(merchants__come_in_pages_sorted_by_id),
        cmocka_unit_test(merchants__page_ends_early_when_its_texts_are_long),
        cmocka_unit_test(pods__page_ends_early_when_it_names_many_calls),
        cmocka_unit_test(every_command_has_a_name),
        cmocka_unit_test(apply__takes_stored_tiers_as_they_are),
        cmocka_unit_test(apply__refuses_what_no_log_of_ours_says),
        cmocka_unit_test(time__never_goes_back),
    };

    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
