/*
 * test_rebalance.c - the planner that both stores rebalance with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rebalance_plan.h"

enum { PODS = 6 };

/* Two tiers, by name: 0 is gold, 1 is silver. */
struct fleet {
    struct tier_config *tiers;
    struct rebalance_pod pods[PODS];
    size_t moves[PODS]; /* indexes of the pods that moved, in order */
    size_t to[PODS];
    size_t moved;
};

static size_t assigned(const void *arg, size_t tier)
{
    const struct fleet *fleet = arg;
    size_t count = 0;

    for (size_t i = 0; i < PODS; i++)
        count += fleet->pods[i].tier == tier;
    return count;
}

static size_t wanted(const void *arg, size_t tier)
{
    return ((const struct fleet *)arg)->tiers->tiers[tier].target;
}

static struct rebalance_pod pod_at(const void *arg, size_t index)
{
    return ((const struct fleet *)arg)->pods[index];
}

static void move(void *arg, size_t index, size_t to)
{
    struct fleet *fleet = arg;

    assert_true(fleet->moved < PODS);
    fleet->moves[fleet->moved] = index;
    fleet->to[fleet->moved++] = to;
    fleet->pods[index].tier = to;
}

static bool run(struct fleet *fleet, size_t limit)
{
    const struct rebalance_view view = {fleet->tiers, PODS, assigned, wanted, pod_at, fleet};
    size_t moved;
    bool more = rebalance(&view, limit, move, fleet, &moved);

    assert_int_equal(moved, fleet->moved);
    return more;
}

/* All pods idle and in `tier`. */
static void fleet_init(struct fleet *fleet, const char *tiers, size_t tier)
{
    char error[256];

    memset(fleet, 0, sizeof(*fleet));
    assert_int_equal(tier_config_parse(tiers, strlen(tiers), &fleet->tiers, error, sizeof(error)), 0);
    assert_int_equal(fleet->tiers->tier_count, 2);
    assert_string_equal(fleet->tiers->tiers[0].name, "gold");
    for (size_t i = 0; i < PODS; i++)
        fleet->pods[i] = (struct rebalance_pod){.tier = tier, .is_idle = true};
}

#define TIERS(gold, silver)                                                                                  \
    "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":" #gold                                         \
    "},\"silver\":{\"type\":\"exclusive\",\"target\":" #silver "}},\"default_chain\":[\"gold\",\"silver\"]}"

static void rebalance__the_surplus_moves_in_the_order_of_names(void **state)
{
    struct fleet fleet;

    (void)state;
    fleet_init(&fleet, TIERS(4, 2), 0);
    assert_false(run(&fleet, 0));
    assert_int_equal(fleet.moved, 2);
    assert_int_equal(fleet.moves[0], 0);
    assert_int_equal(fleet.moves[1], 1);
    assert_int_equal(fleet.to[0], 1);
    tier_config_free(fleet.tiers);
}

static void rebalance__busy_and_pinned_pods_stay(void **state)
{
    struct fleet fleet;

    (void)state;
    fleet_init(&fleet, TIERS(2, 4), 0);
    fleet.pods[0].is_idle = false;
    fleet.pods[1].is_pinned = true;
    assert_false(run(&fleet, 0));
    assert_int_equal(fleet.moved, 4);
    assert_int_equal(fleet.moves[0], 2);
    tier_config_free(fleet.tiers);
}

static void rebalance__a_removed_tier_gives_all_its_idle_pods_even_pinned_ones(void **state)
{
    struct fleet fleet;

    (void)state;
    fleet_init(&fleet, TIERS(1, 1), REBALANCE_REMOVED_TIER);
    fleet.pods[0].is_pinned = true;
    fleet.pods[5].is_idle = false;
    assert_false(run(&fleet, 0));
    assert_int_equal(fleet.moved, 5);
    assert_int_equal(fleet.to[0], 0);
    assert_int_equal(fleet.to[1], 1);
    assert_int_equal(fleet.to[4], fleet.tiers->default_tier);
    tier_config_free(fleet.tiers);
}

static void rebalance__the_limit_is_reached_only_if_there_is_more(void **state)
{
    struct fleet fleet;

    (void)state;
    fleet_init(&fleet, TIERS(3, 3), 0);
    assert_true(run(&fleet, 2));
    assert_int_equal(fleet.moved, 2);
    fleet.moved = 0;
    assert_false(run(&fleet, 1));
    assert_int_equal(fleet.moved, 1);
    tier_config_free(fleet.tiers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rebalance__the_surplus_moves_in_the_order_of_names),
        cmocka_unit_test(rebalance__busy_and_pinned_pods_stay),
        cmocka_unit_test(rebalance__a_removed_tier_gives_all_its_idle_pods_even_pinned_ones),
        cmocka_unit_test(rebalance__the_limit_is_reached_only_if_there_is_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
