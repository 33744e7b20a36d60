/* cases_autoscale.c - what every store answers: how many pods a tier wants, and who joins it. */
#include "core/autoscale.h"

#include "../support/world.h"

static uint64_t desired(struct world *world, const char *name)
{
    return autoscale_of_tier(tier(world, name)).desired_pods;
}

static struct autoscale of_all(struct world *world)
{
    return autoscale_of_all(run(world, &(struct command){.type = COMMAND_STATUS}));
}

static void autoscale__without_members_a_tier_wants_its_target_or_its_calls(void **state)
{
    struct world world;

    world_init(&world, *state, "{\"standard\":2}");
    assert_int_equal(desired(&world, "standard"), 2); /* no pods at all */
    add_pods(&world, 3);
    assert_int_equal(desired(&world, "standard"), 2);
    allocate_many(&world, 3);
    assert_int_equal(desired(&world, "standard"), 3);
    world_release(&world);
}

static void autoscale__buffer_min_and_max_bound_the_number(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":{\"buffer\":2,\"min\":3,\"max\":5}}", 6);
    assert_int_equal(desired(&world, "standard"), 3);
    allocate_many(&world, 2);
    assert_int_equal(desired(&world, "standard"), 4);
    for (int i = 0; i < 4; i++)
        allocate(&world, (const char *[]){"CB0", "CB1", "CB2", "CB3"}[i]);
    assert_int_equal(desired(&world, "standard"), 5);
    assert_int_equal(autoscale_of_tier(tier(&world, "standard")).calls, 6);
    world_release(&world);
}

/* The target is the default of min, and may be above max. */
static void autoscale__max_below_the_target_wins(void **state)
{
    struct world world;

    world_init(&world, *state, "{\"standard\":{\"target\":7,\"max\":2}}");
    assert_int_equal(desired(&world, "standard"), 2);
    world_release(&world);
}

static void autoscale__shared_tier_counts_calls_per_pod(void **state)
{
    struct world world;

    world_init_pods(&world, *state,
                    "{\"basic\":{\"type\":\"shared\",\"max_concurrent\":3,\"buffer\":1,\"min\":0}}", 3);
    assert_int_equal(desired(&world, "basic"), 1);
    allocate_many(&world, 2);
    assert_int_equal(desired(&world, "basic"), 1); /* two calls and one to come */
    allocate_many(&world, 7);
    assert_int_equal(desired(&world, "basic"), 3); /* eight are three pods */
    assert_int_equal(autoscale_of_tier(tier(&world, "basic")).per_pod, 3);
    world_release(&world);
}

/* A pod that drains carries its calls to their end; another one must take the new ones. */
static void autoscale__draining_and_suspended_pods_come_on_top(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, *state, "{\"standard\":{\"buffer\":1,\"min\":0}}", 3);
    allocate_many(&world, 3);
    assert_int_equal(desired(&world, "standard"), 4);
    drain(&world, "voice-agent-1", HOUR);
    assert_int_equal(desired(&world, "standard"), 4); /* two calls, one to come, and the one that drains */
    release(&world, "CA0");
    release(&world, "CA1");
    release(&world, "CA2");
    assert_int_equal(desired(&world, "standard"), 2);
    undrain(&world, "voice-agent-1");
    allocate_many(&world, 3);
    seen.is_ready = false;
    see(&world, seen);
    assert_int_equal(pod(&world, POD0)->state, POD_SUSPENDED);
    assert_int_equal(desired(&world, "standard"), 4);
    world_release(&world);
}

static void autoscale__terminating_pods_do_not_count(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, *state, "{\"standard\":{\"buffer\":1,\"min\":0}}", 2);
    allocate_many(&world, 2);
    seen.is_terminating = true;
    see(&world, seen);
    assert_int_equal(tier(&world, "standard")->leaving, 1);
    assert_int_equal(tier(&world, "standard")->held_calls, 1);
    assert_int_equal(desired(&world, "standard"), 2); /* one call and one to come */
    /* An operator drains it as well: Kubernetes removes it all the same. */
    drain(&world, POD0, HOUR);
    assert_int_equal(desired(&world, "standard"), 2);
    world_release(&world);
}

static void autoscale__all_is_the_sum_with_merchant_pools_and_removed_tiers(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1,\"merchant:acme\":{\"target\":1,\"buffer\":1}}", 2);
    assert_int_equal(desired(&world, "merchant:acme"), 1);
    assert_int_equal(of_all(&world).desired_pods, 2);
    allocate_many(&world, 1);
    tiers_set(&world, "{\"gold\":{\"target\":0,\"buffer\":2},\"merchant:acme\":{\"buffer\":1}}");
    /* The pod with the call still belongs to standard, which is gone: it is needed for its call. */
    assert_false(tier(&world, "standard")->is_configured);
    assert_int_equal(desired(&world, "standard"), 1);
    assert_int_equal(of_all(&world).desired_pods, 1 + 2 + 1);
    assert_int_equal(of_all(&world).buffer, 3);
    assert_int_equal(of_all(&world).calls, 1);
    assert_int_equal(of_all(&world).per_pod, 1);
    world_release(&world);
}

static void autoscale__pods_join_the_tier_that_wants_more(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"gold\":{\"buffer\":1,\"max\":3},\"standard\":1}", 1);
    assert_string_equal(pod(&world, POD0)->tier, "gold");
    see(&world, seen_of("b-0"));
    assert_string_equal(pod(&world, "b-0")->tier, "standard");
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK); /* on gold: it wants another one now */
    see(&world, seen_of("b-1"));
    assert_string_equal(pod(&world, "b-1")->tier, "gold");
    see(&world, seen_of("b-2"));
    assert_string_equal(pod(&world, "b-2")->tier, "standard");
    /* A pod that drains is not one that takes calls. */
    drain(&world, "b-1", HOUR);
    see(&world, seen_of("b-3"));
    assert_string_equal(pod(&world, "b-3")->tier, "gold");
    world_release(&world);
}

static void autoscale__rebalancing_follows_the_calls(void **state)
{
    static const char tiers[] = "{\"gold\":{\"buffer\":1,\"min\":0},\"standard\":{\"min\":1}}";
    struct world world;

    world_init_pods(&world, *state, tiers, 3);
    assert_int_equal(tier(&world, "gold")->assigned, 1);
    assert_int_equal(tier(&world, "standard")->assigned, 2);
    allocate(&world, "CA1");
    run(&world, &(struct command){.type = COMMAND_REBALANCE});
    assert_int_equal(world.result.rebalance.moved, 1);
    assert_int_equal(tier(&world, "gold")->assigned, 2);
    run(&world, &(struct command){.type = COMMAND_REBALANCE});
    assert_int_equal(world.result.rebalance.moved, 0);
    world_release(&world);
}

static void autoscale__rebalancing_of_a_shared_tier_counts_full_pods(void **state)
{
    static const char tiers[] =
        "{\"basic\":{\"type\":\"shared\",\"max_concurrent\":2,\"buffer\":2,\"min\":0},"
        "\"overflow\":{\"min\":0}}";
    struct world world;

    world_init(&world, *state, tiers);
    merchant_set(&world, "m", "{\"fallback\":[\"basic\"]}");
    add_pods(&world, 3);
    assert_int_equal(tier(&world, "basic")->assigned, 1);
    allocate_for(&world, "CA1", "m");
    allocate_for(&world, "CA2", "m");
    run(&world, &(struct command){.type = COMMAND_REBALANCE});
    assert_int_equal(tier(&world, "basic")->assigned, 2); /* the first is full, and there is room for two */
    world_release(&world);
}

/* voice-agent-0 and so on are one set. */
#define SET_TIERS "{\"standard\":{\"min\":2,\"buffer\":1}}"

static struct result *scale(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_SCALE, .scale = {.by_set = true}});
}

static struct result *unscale(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_SCALE, .scale = {.by_set = false}});
}

/* As AUTOSCALE_KIND=statefulset asks; NULL: all tiers. */
static uint64_t desired_by_set(struct world *world, const char *name)
{
    const struct command look = {.type = COMMAND_STATUS, .status = {.with_sets = true}};
    const struct result *status = run(world, &look);

    return autoscale_of(status, name ? autoscale_find_tier(status, name) : NULL).desired_pods;
}

/* A call with that name on that pod. */
static void put_call(struct world *world, const char *sid, const char *pod_name)
{
    assert_int_equal(heartbeat(world, pod_name, sid)->outcome, OUTCOME_OK);
    assert_int_equal(world->result.heartbeat.adopted.count, 1);
}

static void sets__number_stays_above_the_highest_ordinal_with_a_call(void **state)
{
    struct pod_seen seen = seen_of("voice-agent-11");
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 12);
    assert_int_equal(desired_by_set(&world, "standard"), 2);
    put_call(&world, "CA1", "voice-agent-9"); /* in the order of names it is the last one */
    put_call(&world, "CA2", "voice-agent-11");
    assert_int_equal(desired_by_set(&world, "standard"), 12);
    assert_int_equal(desired_by_set(&world, NULL), 12);
    assert_int_equal(desired(&world, "standard"), 3); /* of a Deployment */
    /* Kubernetes removes it already. */
    seen.is_terminating = true;
    see(&world, seen);
    assert_int_equal(desired_by_set(&world, NULL), 10);
    release(&world, "CA1");
    assert_int_equal(desired_by_set(&world, NULL), 2);
    world_release(&world);
}

static void sets__two_sets_are_counted_by_themselves(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 3);
    see(&world, seen_of("other-0"));
    see(&world, seen_of("other-4"));
    see(&world, seen_of("no-ordinal-x"));
    put_call(&world, "CA1", "voice-agent-2");
    put_call(&world, "CA2", "other-4");
    put_call(&world, "CA3", "no-ordinal-x");
    assert_int_equal(desired_by_set(&world, NULL), 3 + 5);
    /* They share a tier: nobody knows which of them is wanted. */
    assert_int_equal(scale(&world)->scale.drained.count, 0);
    world_release(&world);
}

static void sets__surplus_ordinals_drain_and_come_back(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 5);
    assert_int_equal(scale(&world)->scale.drained.count, 3);
    assert_string_equal(world.result.scale.drained.names[0], "voice-agent-2");
    assert_true(pod(&world, "voice-agent-4")->is_surplus);
    assert_int_equal(pod(&world, "voice-agent-4")->state, POD_DRAINING);
    assert_int_equal(tier(&world, "standard")->leaving, 3);
    assert_int_equal(desired_by_set(&world, NULL), 2); /* surplus pods do not come on top */
    assert_int_equal(scale(&world)->scale.drained.count, 0);
    world_advance(&world, 24 * HOUR); /* it does not end by itself */
    allocate_many(&world, 2);
    assert_int_equal(allocate(&world, "CA9")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(scale(&world)->scale.undrained.count, 1);
    assert_string_equal(world.result.scale.undrained.names[0], "voice-agent-2");
    assert_int_equal(allocate(&world, "CA9")->outcome, OUTCOME_OK);
    assert_int_equal(unscale(&world)->scale.undrained.count, 2); /* it is a Deployment now */
    assert_false(pod(&world, "voice-agent-4")->is_surplus);
    assert_int_equal(tier(&world, "standard")->by_state[POD_DRAINING], 0);
    world_release(&world);
}

static void sets__busy_ordinals_drain_and_keep_their_calls(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 5);
    put_call(&world, "CA1", "voice-agent-4");
    scale(&world);
    assert_int_equal(pod(&world, "voice-agent-4")->state, POD_DRAINING);
    assert_true(call_exists(&world, "CA1"));
    assert_int_equal(desired_by_set(&world, NULL), 5);
    assert_true(release(&world, "CA1")->release.was_draining);
    assert_int_equal(desired_by_set(&world, NULL), 2);
    world_release(&world);
}

static void sets__drains_of_others_are_left_alone(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 5);
    drain(&world, POD0, DRAIN_WITHOUT_END);
    drain(&world, "voice-agent-4", DRAIN_WITHOUT_END);
    /* Two are wanted, and two that somebody drained come on top. */
    assert_int_equal(desired_by_set(&world, NULL), 4);
    assert_int_equal(scale(&world)->scale.drained.count, 0);
    assert_false(pod(&world, "voice-agent-4")->is_surplus);
    unscale(&world);
    assert_true(pod(&world, POD0)->is_draining);
    /* A surplus pod that somebody drains is his from then on. */
    undrain(&world, POD0);
    undrain(&world, "voice-agent-4");
    scale(&world);
    assert_true(pod(&world, "voice-agent-4")->is_surplus);
    drain(&world, "voice-agent-4", HOUR);
    assert_false(pod(&world, "voice-agent-4")->is_surplus);
    unscale(&world);
    assert_true(pod(&world, "voice-agent-4")->is_draining);
    world_advance(&world, HOUR);
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-4")->state, POD_AVAILABLE);
    world_release(&world);
}

static void sets__putting_a_surplus_pod_aside_does_not_bring_it_back(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 3);
    put_call(&world, "CA1", "voice-agent-2");
    scale(&world);
    move(&world, "CA1", "voice-agent-2", MINUTE);
    world_advance(&world, HOUR);
    sweep(&world);
    assert_true(pod(&world, "voice-agent-2")->is_surplus);
    world_release(&world);
}

static void sets__a_deleted_surplus_pod_comes_back_without_a_drain(void **state)
{
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 3);
    scale(&world);
    remove_pod(&world, "voice-agent-2");
    see(&world, seen_of("voice-agent-2"));
    assert_int_equal(pod(&world, "voice-agent-2")->state, POD_AVAILABLE);
    world_release(&world);
}

static void sets__one_step_goes_to_its_limit(void **state)
{
    const struct command two = {.type = COMMAND_SCALE, .scale = {.by_set = true, .limit = 2}};
    struct world world;

    world_init_pods(&world, *state, SET_TIERS, 5);
    assert_int_equal(run(&world, &two)->scale.drained.count, 2);
    assert_true(world.result.scale.more);
    assert_int_equal(run(&world, &two)->scale.drained.count, 1);
    assert_false(world.result.scale.more);
    world_release(&world);
}

const struct world_case cases_autoscale[] = {
    {"autoscale__without_members_a_tier_wants_its_target_or_its_calls",
     autoscale__without_members_a_tier_wants_its_target_or_its_calls},
    {"autoscale__buffer_min_and_max_bound_the_number", autoscale__buffer_min_and_max_bound_the_number},
    {"autoscale__max_below_the_target_wins", autoscale__max_below_the_target_wins},
    {"autoscale__shared_tier_counts_calls_per_pod", autoscale__shared_tier_counts_calls_per_pod},
    {"autoscale__draining_and_suspended_pods_come_on_top",
     autoscale__draining_and_suspended_pods_come_on_top},
    {"autoscale__terminating_pods_do_not_count", autoscale__terminating_pods_do_not_count},
    {"autoscale__all_is_the_sum_with_merchant_pools_and_removed_tiers",
     autoscale__all_is_the_sum_with_merchant_pools_and_removed_tiers},
    {"autoscale__pods_join_the_tier_that_wants_more", autoscale__pods_join_the_tier_that_wants_more},
    {"autoscale__rebalancing_follows_the_calls", autoscale__rebalancing_follows_the_calls},
    {"autoscale__rebalancing_of_a_shared_tier_counts_full_pods",
     autoscale__rebalancing_of_a_shared_tier_counts_full_pods},
    {"sets__number_stays_above_the_highest_ordinal_with_a_call",
     sets__number_stays_above_the_highest_ordinal_with_a_call},
    {"sets__two_sets_are_counted_by_themselves", sets__two_sets_are_counted_by_themselves},
    {"sets__surplus_ordinals_drain_and_come_back", sets__surplus_ordinals_drain_and_come_back},
    {"sets__busy_ordinals_drain_and_keep_their_calls", sets__busy_ordinals_drain_and_keep_their_calls},
    {"sets__drains_of_others_are_left_alone", sets__drains_of_others_are_left_alone},
    {"sets__putting_a_surplus_pod_aside_does_not_bring_it_back",
     sets__putting_a_surplus_pod_aside_does_not_bring_it_back},
    {"sets__a_deleted_surplus_pod_comes_back_without_a_drain",
     sets__a_deleted_surplus_pod_comes_back_without_a_drain},
    {"sets__one_step_goes_to_its_limit", sets__one_step_goes_to_its_limit},
    {NULL, NULL},
};
