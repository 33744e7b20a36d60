/* cases_pods.c - what every store answers: pods, tiers, syncs, rebalancing. */
#include "../support/world.h"

static void readiness__lost_with_a_call_suspends_and_without_one_leaves(void **state)
{
    struct world world;
    struct pod_seen blip = seen_of("voice-agent-0");
    struct pod_seen idle_blip = seen_of("voice-agent-1");

    world_init_pods(&world, *state, "{\"standard\":2}", 2);
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

/* Its only pod has the call CA1 and is not ready. */
static void init_suspended(struct world *world, struct world_kind *kind)
{
    struct pod_seen blip = seen_of(POD0);

    world_init_pods(world, kind, ONE_TIER, 1);
    allocate(world, "CA1");
    blip.is_ready = false;
    see(world, blip);
}

static void readiness__suspended_pod_leaves_with_its_last_call(void **state)
{
    struct world world;

    init_suspended(&world, *state);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.released_to, "");
    assert_false(pod_exists(&world, "voice-agent-0"));
    world_release(&world);
}

static void incarnation__new_one_ends_the_calls_of_the_old(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate_for(&world, "CA1", "acme");
    seen.incarnation = "uid-2";
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 1);
    assert_int_equal(world.result.pod_seen.ended.calls[0].why, CALL_END_RESTARTED);
    assert_string_equal(world.result.pod_seen.ended.calls[0].merchant_id, "acme");
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void incarnation__restart_of_a_suspended_pod_brings_it_back(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of("voice-agent-0");

    init_suspended(&world, *state);
    seen.incarnation = "uid-2";
    see(&world, seen);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void registration__twice_is_a_restart_unless_the_incarnation_is_the_same(void **state)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen = {.pod = {.name = "box-1", .address = "", .source = POD_SOURCE_API, .is_ready = true},
                     .is_registration = true},
    };

    world_init(&world, *state, "{\"standard\":1,\"gold\":0}");
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
    command.pod_seen.pod.name = "calls"; /* in Redis, what is kept of it would be elsewhere already */
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    command.pod_seen.pod.name = "metadata";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    command.pod_seen.pod.name = "metadata-1";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void registration__cannot_take_or_remove_a_pod_of_another_source(void **state)
{
    struct world world;
    struct command command = {.type = COMMAND_POD_GONE,
                              .pod_gone = {.pod = "voice-agent-0", .source = POD_SOURCE_API}};

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    assert_int_equal(register_pod(&world, "voice-agent-0")->outcome, OUTCOME_CONFLICT);
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(call_count(&world), 1);
    command.pod_gone.source = POD_SOURCE_KUBERNETES;
    assert_int_equal(run(&world, &command)->pod_gone.ended.count, 1);
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void takeover__by_kubernetes_keeps_the_calls(void **state)
{
    struct world world;

    world_init(&world, *state, "{\"standard\":1}");
    register_pod(&world, "voice-agent-0");
    allocate(&world, "CA1");
    assert_int_equal(see(&world, seen_of("voice-agent-0"))->pod_seen.ended.count, 0);
    assert_int_equal(pod(&world, "voice-agent-0")->source, POD_SOURCE_KUBERNETES);
    assert_string_equal(pod(&world, "voice-agent-0")->incarnation, "uid-1");
    assert_int_equal(call_count(&world), 1);
    world_release(&world);
}

static void sync__adds_what_is_missing_and_removes_only_its_own_ghosts(void **state)
{
    struct world world;
    struct pod_seen pods[] = {seen_of("voice-agent-1"), seen_of("voice-agent-2"), seen_of("voice-agent-3")};
    struct command command = {.type = COMMAND_SYNC,
                              .sync = {.source = POD_SOURCE_KUBERNETES, .pods = pods, .count = 3}};
    struct pod_seen other = seen_of("box-1");

    world_init_pods(&world, *state, "{\"standard\":1}", 2);
    other.source = POD_SOURCE_STATIC;
    see(&world, other);
    allocate_many(&world, 3);
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

static void rebalance__moves_idle_pods_to_where_they_are_wanted(void **state)
{
    struct world world;
    const char *idle = "voice-agent-4"; /* unless the store has given the call that one */

    world_init_pods(&world, *state, "{\"standard\":1}", 5);
    if (strcmp(allocate(&world, "CA1")->allocate.call.pod, idle) == 0)
        idle = "voice-agent-3";
    drain(&world, idle, 0);
    tiers_set(&world, "{\"standard\":1,\"gold\":4,\"basic\":{\"type\":\"shared\",\"target\":1}}");
    assert_int_equal(tier(&world, "gold")->assigned, 3);
    assert_int_equal(tier(&world, "standard")->assigned, 2);
    assert_int_equal(tier(&world, "standard")->by_state[POD_BUSY], 1);
    assert_int_equal(tier(&world, "standard")->by_state[POD_DRAINING], 1);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_REBALANCE})->rebalance.moved, 0);
    undrain(&world, idle);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_REBALANCE})->rebalance.moved, 1);
    assert_int_equal(tier(&world, "gold")->assigned, 4);
    world_release(&world);
}

static void rebalance__leaves_pinned_pods_and_stops_at_its_limit(void **state)
{
    struct world world;
    struct pod_seen pinned = seen_of("box-0"); /* the first by name */

    world_init(&world, *state, "{\"standard\":0,\"gold\":0}");
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
    assert_string_equal(pod(&world, "box-0")->tier, "standard");
    world_release(&world);
}

static void tier_removed__its_pods_are_given_back_when_they_are_free(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"gold\":1,\"old\":3,\"standard\":1}", 5);
    assert_int_equal(tier(&world, "old")->assigned, 3);
    merchant_set(&world, "m", "{\"tier\":\"old\"}");
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

static void tiers__that_shrink_end_no_call_but_give_no_new_one(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}", 1);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    allocate(&world, "CA3");
    tiers_set(&world, "{\"s\":{\"type\":\"exclusive\",\"target\":1}}");
    assert_int_equal(call_count(&world), 3);
    release(&world, "CA1");
    release(&world, "CA2");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    release(&world, "CA3");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_OK);
    assert_int_equal(tiers_set(&world, "{\"s\":-1}")->outcome, OUTCOME_INVALID);
    assert_int_equal(tier(&world, "s")->target, 1);
    world_release(&world);
}

const struct world_case cases_pods[] = {
    {"readiness__lost_with_a_call_suspends_and_without_one_leaves",
     readiness__lost_with_a_call_suspends_and_without_one_leaves},
    {"readiness__suspended_pod_leaves_with_its_last_call",
     readiness__suspended_pod_leaves_with_its_last_call},
    {"incarnation__new_one_ends_the_calls_of_the_old", incarnation__new_one_ends_the_calls_of_the_old},
    {"incarnation__restart_of_a_suspended_pod_brings_it_back",
     incarnation__restart_of_a_suspended_pod_brings_it_back},
    {"registration__twice_is_a_restart_unless_the_incarnation_is_the_same",
     registration__twice_is_a_restart_unless_the_incarnation_is_the_same},
    {"registration__cannot_take_or_remove_a_pod_of_another_source",
     registration__cannot_take_or_remove_a_pod_of_another_source},
    {"takeover__by_kubernetes_keeps_the_calls", takeover__by_kubernetes_keeps_the_calls},
    {"sync__adds_what_is_missing_and_removes_only_its_own_ghosts",
     sync__adds_what_is_missing_and_removes_only_its_own_ghosts},
    {"rebalance__moves_idle_pods_to_where_they_are_wanted",
     rebalance__moves_idle_pods_to_where_they_are_wanted},
    {"rebalance__leaves_pinned_pods_and_stops_at_its_limit",
     rebalance__leaves_pinned_pods_and_stops_at_its_limit},
    {"tier_removed__its_pods_are_given_back_when_they_are_free",
     tier_removed__its_pods_are_given_back_when_they_are_free},
    {"tiers__that_shrink_end_no_call_but_give_no_new_one",
     tiers__that_shrink_end_no_call_but_give_no_new_one},
    {NULL, NULL},
};
