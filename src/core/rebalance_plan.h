/*
 * rebalance_plan.h - the rules of rebalancing: which idle pods move to which tier.
 *
 * Both stores use it: core carries out each move at once, the Redis store collects them for a
 * script. The planner sees tiers and pods through functions of its caller. It allocates nothing,
 * does no I/O, and does not log.
 */
#ifndef CORE_REBALANCE_PLAN_H
#define CORE_REBALANCE_PLAN_H

#include "core/tiers.h"

/* The tier of a pod whose tier was removed from the configuration. */
#define REBALANCE_REMOVED_TIER SIZE_MAX

struct rebalance_pod {
    size_t tier;  /* index in tiers->tiers, or REBALANCE_REMOVED_TIER */
    bool is_idle; /* available, and without a call */
    bool is_pinned;
};

/* Tiers are named by their index in tiers->tiers, pods by their index in the order of names. */
struct rebalance_view {
    const struct tier_config *tiers;
    size_t pod_count;
    /* How many pods the tier has, after all moves until now. */
    size_t (*assigned)(const void *arg, size_t tier);
    /* How many it should have: autoscale_pods(). No move changes it, because only idle pods move. */
    size_t (*wanted)(const void *arg, size_t tier);
    struct rebalance_pod (*pod)(const void *arg, size_t index);
    const void *arg;
};

/* The pod belongs to tier `to` from now on: the view shows that at once. */
typedef void (*rebalance_move_fn)(void *arg, size_t index, size_t to);

/*
 * Pods of removed tiers move first, pinned or not. Then each tier with more pods than it wants gives pods
 * that are not pinned to tiers with fewer: the tier that is filled last gives first. No pod moves twice.
 * True: there is more to move than `limit` (0: STEP_LIMIT).
 */
bool rebalance(const struct rebalance_view *view, size_t limit, rebalance_move_fn move, void *arg,
               size_t *ret_moved);

/*
 * The first tier in the order of filling that has fewer pods than it wants. `from` is the position in that
 * order from which it looks, and then the position of the tier. False: there is none.
 */
bool rebalance_find_wanted(const struct rebalance_view *view, size_t *from, size_t *ret_tier);

/* The tier for a pod that belongs to none: the first that wants one, or else the default tier. */
size_t rebalance_tier_for_new_pod(const struct rebalance_view *view);

#endif
