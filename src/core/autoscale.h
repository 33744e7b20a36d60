/*
 * autoscale.h - how many pods a tier wants: the one rule for metrics, for the API, and for pods that join or
 * are rebalanced.
 *
 * It allocates nothing, does no I/O, and does not log. In Redis a pod joins in a script, which has the
 * same rule once more: scripts/redis/lib/wanted.lua.
 */
#ifndef CORE_AUTOSCALE_H
#define CORE_AUTOSCALE_H

#include "core/command.h"
#include "core/tiers.h"

/* The tier has at least one of `buffer`, `min` and `max`: the wanted number takes the place of its target. */
bool tier_is_scaled(const struct tier *tier);

/* The three members with their defaults: 0, the target (but not above `max`), no limit. */
struct tier_scaling tier_scaling(const struct tier *tier);

/*
 * How many pods must take calls: so many that `calls`, those that wait and the buffer fit on them, within
 * the limits.
 */
uint64_t autoscale_wanted(const struct tier_scaling *scaling, uint64_t calls, uint64_t waiting,
                          uint32_t per_pod);

/*
 * How many pods the tier should have when pods join and are rebalanced: to be compared with all pods that
 * it has. `calls` are on pods that take calls; `held` pods drain or are suspended, and carry no new call.
 */
uint64_t autoscale_pods(const struct tier *tier, uint64_t calls, uint64_t waiting, uint64_t held);

/* Stands for all tiers together in metrics. */
#define AUTOSCALE_ALL "all"

/* What an autoscaler is told of one tier, or of all together. */
struct autoscale {
    uint64_t desired_pods;
    uint64_t calls; /* on pods that take calls */
    uint64_t waiting;
    uint64_t buffer;
    uint64_t per_pod; /* of all tiers together: 0 if they differ */
};

/*
 * `status` is the result of COMMAND_STATUS; NULL is all tiers together. With its sets the number is never
 * below the highest ordinal with a live call: a StatefulSet loses its highest ordinals, whatever they do.
 */
struct autoscale autoscale_of(const struct result *status, const struct tier_status *tier);

/* The same without the sets. */
struct autoscale autoscale_of_tier(const struct tier_status *tier);
struct autoscale autoscale_of_all(const struct result *status);

/* The tier of that name, in either spelling (see tier_config_resolve); NULL: there is none. */
const struct tier_status *autoscale_find_tier(const struct result *status, const char *name);

/* autoscale_sets.c: StatefulSets */

/* A pod as the rules below look at it. */
struct scale_pod {
    const char *name;
    const char *tier;
    enum pod_state state;
    bool has_calls;
    bool is_terminating;
    bool is_surplus;
};

/* Gathers the sets of all pods, in the arena. */
struct set_tally {
    struct arena *arena;
    struct set_status *sets;
    size_t count;
    size_t room;
};

/* Copies the names. 0 or -ENOMEM. */
int set_tally_add(struct set_tally *tally, const struct scale_pod *pod) MUST_CHECK;
/* Puts the sets into the result of COMMAND_STATUS. */
void set_tally_finish(struct set_tally *tally, struct result *status);

/* No ordinal of the set is surplus. */
#define SCALE_KEEPS_ALL UINT64_MAX

/*
 * Ordinals of the set from this one on are not wanted. SCALE_KEEPS_ALL if it cannot be said how many pods of
 * this set are wanted, because other pods serve one of its tiers as well.
 */
uint64_t autoscale_keeps(const struct result *status, struct slice set);

enum scale_action { SCALE_NOTHING, SCALE_DRAIN, SCALE_UNDRAIN };

/* What COMMAND_SCALE does with the pod. While calls wait it drains none. */
enum scale_action autoscale_action(const struct result *status, const struct scale_pod *pod, bool by_set);

#endif
