/* cases_absent.c - what every store answers: pods that start anew, and pods that their source does not show.
 */
#include "../support/world.h"

#define SHARED "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}"

/* The time of the call, in whole seconds, as every store compares it. */
static uint64_t second_of(struct world *world, const char *sid)
{
    uint64_t at_ms = call_of(world, sid)->allocated_at_ms;

    return at_ms - at_ms % 1000;
}

static struct result *restart(struct world *world, const char *name, const char *uid, uint64_t started_at_ms)
{
    struct pod_seen seen = seen_of(name);

    seen.incarnation = uid;
    seen.started_at_ms = started_at_ms;
    return see(world, seen);
}

static struct result *sync_pods(struct world *world, const struct pod_seen *pods, size_t count,
                                bool spares_calls)
{
    return run(world, &(struct command){.type = COMMAND_SYNC,
                                        .sync = {.source = POD_SOURCE_KUBERNETES,
                                                 .pods = pods,
                                                 .count = count,
                                                 .spares_calls = spares_calls}});
}

static void restart__ends_the_calls_before_the_start_and_no_younger_one(void **state)
{
    struct world world;
    uint64_t at_ms;
    uint64_t lease_ms;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    at_ms = second_of(&world, "CA1");
    lease_ms = call_of(&world, "CA1")->expires_at_ms;
    assert_int_equal(restart(&world, POD0, "uid-2", at_ms + RESTART_SKEW_MS - 1)->pod_seen.ended.count, 0);
    assert_string_equal(pod(&world, POD0)->incarnation, "uid-2");
    assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
    assert_true(call_of(&world, "CA1")->expires_at_ms == lease_ms);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(restart(&world, POD0, "uid-3", at_ms + RESTART_SKEW_MS)->pod_seen.ended.count, 1);
    assert_int_equal(world.result.pod_seen.ended.calls[0].why, CALL_END_RESTARTED);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_int_equal(world.told, 1);
    world_release(&world);
}

static void restart__at_an_unknown_time_ends_all_calls(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    world_advance(&world, MINUTE);
    allocate(&world, "CA2");
    assert_int_equal(restart(&world, POD0, "uid-2", 0)->pod_seen.ended.count, 2);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

static void restart__of_a_shared_pod_is_judged_call_by_call(void **state)
{
    struct world world;
    uint64_t at_ms;

    world_init_pods(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    world_advance(&world, MINUTE);
    allocate(&world, "CA2");
    allocate(&world, "CA3");
    at_ms = second_of(&world, "CA2");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(restart(&world, POD0, "uid-2", at_ms)->pod_seen.ended.count, 1);
    assert_string_equal(world.result.pod_seen.ended.calls[0].call_sid, "CA1");
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_int_equal(tier(&world, "s")->calls, 2);
    assert_int_equal(tier(&world, "s")->free, 1);
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA5")->outcome, OUTCOME_NO_PODS);
    assert_true(allocate(&world, "CA2")->allocate.was_existing);
    world_release(&world);
}

static void restart__counts_from_the_last_move_of_the_call(void **state)
{
    struct world world;
    uint64_t at_ms;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    at_ms = second_of(&world, "CA1");
    see(&world, seen_of(POD1));
    world_advance(&world, HOUR);
    assert_true(move(&world, "CA1", POD0, 0)->move.was_moved);
    assert_int_equal(restart(&world, POD1, "uid-2", at_ms + HOUR - MINUTE)->pod_seen.ended.count, 0);
    assert_int_equal(call_of(&world, "CA1")->allocated_at_ms / 1000, at_ms / 1000);
    assert_int_equal(restart(&world, POD1, "uid-3", at_ms + HOUR + MINUTE)->pod_seen.ended.count, 1);
    world_release(&world);
}

static void restart__counts_from_the_adoption_of_the_call(void **state)
{
    struct world world;
    uint64_t at_ms;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    at_ms = second_of(&world, "CA1");
    world_advance(&world, HOUR);
    lose_calls_of(&world, POD0);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.adopted.count, 1);
    assert_int_equal(restart(&world, POD0, "uid-2", at_ms + HOUR - MINUTE)->pod_seen.ended.count, 0);
    assert_int_equal(restart(&world, POD0, "uid-3", at_ms + HOUR + MINUTE)->pod_seen.ended.count, 1);
    world_release(&world);
}

static void restart__of_a_pod_that_is_not_ready_leaves_it_to_its_younger_call(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    seen.is_ready = false;
    seen.incarnation = "uid-2";
    seen.started_at_ms = second_of(&world, "CA1") - MINUTE;
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 0);
    assert_int_equal(pod(&world, POD0)->state, POD_SUSPENDED);
    seen.incarnation = "uid-3";
    seen.started_at_ms += 2 * MINUTE;
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 1);
    assert_false(pod_exists(&world, POD0));
    world_release(&world);
}

static void restart__seen_by_a_sync_is_judged_call_by_call(void **state)
{
    enum { PODS = 30, CALLS = 20 };
    struct world world;
    struct pod_seen pods[PODS];
    char names[PODS][32];
    uint64_t at_ms;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":20,\"target\":1}}", PODS);
    for (int i = 0; i < PODS * CALLS; i++) {
        char sid[16];

        if (i == PODS * CALLS / 2)
            world_advance(&world, MINUTE);
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(allocate(&world, sid)->outcome, OUTCOME_OK);
    }
    at_ms = second_of(&world, "CA599");
    for (int i = 0; i < PODS; i++) {
        snprintf(names[i], sizeof(names[i]), "voice-agent-%d", i);
        pods[i] = seen_of(names[i]);
        pods[i].incarnation = "uid-2";
        pods[i].started_at_ms = at_ms - 2 * MINUTE;
    }
    assert_int_equal(sync_pods(&world, pods, PODS, true)->sync.ended.count, 0);
    assert_int_equal(world.result.sync.changed, PODS);
    for (int i = 0; i < PODS; i++) {
        pods[i].incarnation = "uid-3";
        pods[i].started_at_ms = at_ms - MINUTE / 2;
    }
    assert_int_equal(sync_pods(&world, pods, PODS, true)->sync.ended.count, PODS * CALLS / 2);
    assert_int_equal(call_count(&world), PODS * CALLS / 2);
    assert_int_equal(tier(&world, "s")->calls, PODS * CALLS / 2);
    assert_int_equal(tier(&world, "s")->free, PODS * CALLS / 2);
    world_release(&world);
}

static void absent__pod_without_a_call_leaves(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    assert_int_equal(miss_pod(&world, POD0)->outcome, OUTCOME_OK);
    assert_false(world.result.pod_gone.has_stayed);
    assert_false(pod_exists(&world, POD0));
    assert_int_equal(miss_pod(&world, POD0)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void absent__pod_with_a_call_drains_and_keeps_it(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(miss_pod(&world, POD0)->outcome, OUTCOME_OK);
        assert_true(world.result.pod_gone.has_stayed);
        assert_int_equal(world.result.pod_gone.ended.count, 0);
        assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
        assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
        assert_int_equal(renew(&world, "CA1")->renew.renewed.count, 1);
    }
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_false(miss_pod(&world, POD0)->pod_gone.has_stayed);
    assert_false(pod_exists(&world, POD0));
    assert_int_equal(world.told, 0);
    world_release(&world);
}

static void absent__pod_that_is_seen_again_is_as_before(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SHARED, 1);
    allocate(&world, "CA1");
    assert_true(miss_pod(&world, POD0)->pod_gone.has_stayed);
    assert_int_equal(see(&world, seen_of(POD0))->pod_seen.ended.count, 0);
    assert_false(world.result.pod_seen.is_new);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void absent__pod_that_is_gone_ends_its_calls(void **state)
{
    struct world world;
    struct command gone = {.type = COMMAND_POD_GONE, .pod_gone = {POD0, POD_SOURCE_KUBERNETES}};

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    assert_true(miss_pod(&world, POD0)->pod_gone.has_stayed);
    assert_int_equal(run(&world, &gone)->pod_gone.ended.count, 1);
    assert_int_equal(world.result.pod_gone.ended.calls[0].why, CALL_END_POD_GONE);
    assert_false(world.result.pod_gone.has_stayed);
    assert_false(pod_exists(&world, POD0));
    world_release(&world);
}

static void absent__pod_of_another_source_is_left_alone(void **state)
{
    struct world world;
    struct pod_seen other = seen_of("box-1");

    world_init(&world, *state, "{\"standard\":1}");
    other.source = POD_SOURCE_STATIC;
    see(&world, other);
    allocate(&world, "CA1");
    assert_int_equal(miss_pod(&world, "box-1")->outcome, OUTCOME_CONFLICT);
    assert_int_equal(sync_pods(&world, NULL, 0, true)->sync.absent.count, 0);
    assert_int_equal(pod(&world, "box-1")->state, POD_BUSY);
    world_release(&world);
}

static void sync__spares_the_calls_of_absent_pods_and_names_these(void **state)
{
    struct world world;
    const char *name;

    world_init_pods(&world, *state, "{\"standard\":1}", 3);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sync_pods(&world, NULL, 0, true)->sync.absent.count, 2);
        assert_true(strcmp(world.result.sync.absent.names[0], world.result.sync.absent.names[1]) < 0);
        assert_int_equal(world.result.sync.removed, i == 0);
        assert_int_equal(world.result.sync.ended.count, 0);
    }
    assert_int_equal(tier(&world, "standard")->by_state[POD_DRAINING], 2);
    assert_int_equal(allocate(&world, "CA3")->outcome, OUTCOME_NO_PODS);
    release(&world, "CA1");
    assert_int_equal(sync_pods(&world, NULL, 0, true)->sync.absent.count, 1);
    name = world.result.sync.absent.names[0];
    assert_string_equal(call_of(&world, "CA2")->pod, name);
    assert_int_equal(tier(&world, "standard")->assigned, 1);
    assert_int_equal(sync_pods(&world, NULL, 0, false)->sync.ended.count, 1);
    assert_int_equal(world.result.sync.absent.count, 0);
    assert_int_equal(tier(&world, "standard")->assigned, 0);
    world_release(&world);
}

static void sync__names_absent_pods_however_many_there_are(void **state)
{
    enum { PODS = 60 };
    struct world world;
    struct pod_seen one = seen_of(POD1);

    world_init_pods(&world, *state, "{\"standard\":1}", PODS);
    allocate_many(&world, PODS);
    sync_pods(&world, &one, 1, true);
    assert_int_equal(world.result.sync.absent.count, PODS - 1);
    for (size_t i = 1; i < PODS - 1; i++)
        assert_true(strcmp(world.result.sync.absent.names[i - 1], world.result.sync.absent.names[i]) < 0);
    assert_int_equal(call_count(&world), PODS);
    assert_int_equal(pod(&world, POD1)->state, POD_BUSY);
    assert_int_equal(tier(&world, "standard")->by_state[POD_DRAINING], PODS - 1);
    world_release(&world);
}

static void sync__leaves_pods_that_are_kept_as_they_are(void **state)
{
    struct world world;
    struct pod_seen pods[] = {
        {.name = POD0, .source = POD_SOURCE_KUBERNETES, .is_kept = true},
        seen_of(POD1),
        {.name = "voice-agent-9", .source = POD_SOURCE_KUBERNETES, .is_ready = true, .is_kept = true},
        {.name = "box-1", .source = POD_SOURCE_KUBERNETES, .is_kept = true},
    };
    struct pod_seen other = seen_of("box-1");

    world_init_pods(&world, *state, "{\"standard\":1}", 2);
    other.source = POD_SOURCE_STATIC;
    see(&world, other);
    allocate_many(&world, 3);
    for (int i = 0; i < 2; i++) {
        sync_pods(&world, pods, ARRAY_LEN(pods), i);
        assert_int_equal(world.result.sync.added + world.result.sync.changed + world.result.sync.removed, 0);
        assert_int_equal(world.result.sync.absent.count, 0);
        assert_int_equal(world.result.sync.ended.count, 0);
        assert_string_equal(pod(&world, POD0)->address, "10.0.0.1:8000");
        assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
        assert_int_equal(pod(&world, "box-1")->source, POD_SOURCE_STATIC);
        assert_false(pod_exists(&world, "voice-agent-9"));
    }
    pods[0].name = "not a name";
    assert_int_equal(sync_pods(&world, pods, ARRAY_LEN(pods), true)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

static void sync__keeps_pods_among_many_that_it_sees(void **state)
{
    enum { PODS = 100 };
    struct world world;
    struct pod_seen pods[PODS];
    char names[PODS][32];

    world_init_pods(&world, *state, "{\"standard\":1}", PODS);
    for (int i = 0; i < PODS; i++) {
        snprintf(names[i], sizeof(names[i]), "voice-agent-%d", i);
        pods[i] = seen_of(names[i]);
        pods[i].address = "10.0.0.2:8000";
        pods[i].is_kept = i % 3 == 0 || (i > 40 && i < 80) || i == PODS - 1;
    }
    sync_pods(&world, pods, PODS, true);
    assert_int_equal(world.result.sync.removed, 0);
    for (int i = 0; i < PODS; i++)
        assert_string_equal(pod(&world, names[i])->address,
                            pods[i].is_kept ? "10.0.0.1:8000" : "10.0.0.2:8000");
    for (int i = 0; i < PODS; i++)
        pods[i].is_kept = true;
    sync_pods(&world, pods, PODS, true);
    assert_int_equal(world.result.sync.changed, 0);
    assert_int_equal(tier(&world, "standard")->assigned, PODS);
    world_release(&world);
}

const struct world_case cases_absent[] = {
    {"restart__ends_the_calls_before_the_start_and_no_younger_one",
     restart__ends_the_calls_before_the_start_and_no_younger_one},
    {"restart__at_an_unknown_time_ends_all_calls", restart__at_an_unknown_time_ends_all_calls},
    {"restart__of_a_shared_pod_is_judged_call_by_call", restart__of_a_shared_pod_is_judged_call_by_call},
    {"restart__counts_from_the_last_move_of_the_call", restart__counts_from_the_last_move_of_the_call},
    {"restart__counts_from_the_adoption_of_the_call", restart__counts_from_the_adoption_of_the_call},
    {"restart__of_a_pod_that_is_not_ready_leaves_it_to_its_younger_call",
     restart__of_a_pod_that_is_not_ready_leaves_it_to_its_younger_call},
    {"restart__seen_by_a_sync_is_judged_call_by_call", restart__seen_by_a_sync_is_judged_call_by_call},
    {"absent__pod_without_a_call_leaves", absent__pod_without_a_call_leaves},
    {"absent__pod_with_a_call_drains_and_keeps_it", absent__pod_with_a_call_drains_and_keeps_it},
    {"absent__pod_that_is_seen_again_is_as_before", absent__pod_that_is_seen_again_is_as_before},
    {"absent__pod_that_is_gone_ends_its_calls", absent__pod_that_is_gone_ends_its_calls},
    {"absent__pod_of_another_source_is_left_alone", absent__pod_of_another_source_is_left_alone},
    {"sync__spares_the_calls_of_absent_pods_and_names_these",
     sync__spares_the_calls_of_absent_pods_and_names_these},
    {"sync__names_absent_pods_however_many_there_are", sync__names_absent_pods_however_many_there_are},
    {"sync__leaves_pods_that_are_kept_as_they_are", sync__leaves_pods_that_are_kept_as_they_are},
    {"sync__keeps_pods_among_many_that_it_sees", sync__keeps_pods_among_many_that_it_sees},
    {NULL, NULL},
};
