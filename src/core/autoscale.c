/*
 * autoscale.c - the rule of autoscaling: how many pods a tier wants.
 */
#include "core/autoscale.h"

bool tier_is_scaled(const struct tier *tier)
{
    return tier->buffer != TIER_UNSET || tier->min_pods != TIER_UNSET || tier->max_pods != TIER_UNSET;
}

struct tier_scaling tier_scaling(const struct tier *tier)
{
    struct tier_scaling scaling = {
        .buffer = tier->buffer == TIER_UNSET ? 0 : tier->buffer,
        .min_pods = tier->min_pods == TIER_UNSET ? tier->target : tier->min_pods,
        .max_pods = tier->max_pods, /* TIER_UNSET is more than any number of pods */
    };

    if (scaling.min_pods > scaling.max_pods)
        scaling.min_pods = scaling.max_pods; /* the target is above max */
    return scaling;
}

uint64_t autoscale_wanted(const struct tier_scaling *scaling, uint64_t calls, uint64_t waiting,
                          uint32_t per_pod)
{
    uint64_t wanted = (calls + waiting + scaling->buffer + per_pod - 1) / per_pod;

    assert(scaling->min_pods <= scaling->max_pods);
    if (wanted < scaling->min_pods)
        wanted = scaling->min_pods;
    return min_u64(wanted, scaling->max_pods);
}

uint64_t autoscale_pods(const struct tier *tier, uint64_t calls, uint64_t waiting, uint64_t held)
{
    const struct tier_scaling scaling = tier_scaling(tier);

    if (!tier_is_scaled(tier))
        return tier->target;
    return autoscale_wanted(&scaling, calls, waiting, tier->max_concurrent) + held;
}

struct autoscale autoscale_of_tier(const struct tier_status *tier)
{
    uint64_t held = (uint64_t)tier->by_state[POD_DRAINING] + tier->by_state[POD_SUSPENDED];
    struct autoscale scale = {
        .calls = tier->calls - min_u64(tier->calls, tier->held_calls),
        .waiting = tier->waiting,
        .buffer = tier->scaling.buffer,
        .per_pod = tier->max_concurrent,
    };

    /* Kubernetes does not count the terminating ones any more; the surplus ones are not wanted. */
    scale.desired_pods = autoscale_wanted(&tier->scaling, scale.calls, scale.waiting, tier->max_concurrent) +
                         held - min_u64(held, tier->leaving);
    return scale;
}

struct autoscale autoscale_of_all(const struct result *status)
{
    struct autoscale all = {0};

    for (size_t i = 0; i < status->status.tier_count; i++) {
        const struct autoscale scale = autoscale_of_tier(&status->status.tiers[i]);

        all.desired_pods += scale.desired_pods;
        all.calls += scale.calls;
        all.waiting += scale.waiting;
        all.buffer += scale.buffer;
        all.per_pod = i == 0 || all.per_pod == scale.per_pod ? scale.per_pod : 0;
    }
    return all;
}

/* The ordinals with live calls, of the sets of a tier, or of all sets: a set is one workload in any tier. */
static uint64_t floor_of(const struct result *status, const struct tier_status *tier)
{
    uint64_t sum = 0;
    uint32_t highest = 0;

    for (size_t i = 0; i < status->status.set_count; i++) {
        const struct set_status *set = &status->status.sets[i];
        bool is_last =
            i + 1 == status->status.set_count || strcmp(set->name, status->status.sets[i + 1].name) != 0;

        if (!tier || strcmp(set->tier, tier->name) == 0)
            highest = set->floor > highest ? set->floor : highest;
        if (!is_last)
            continue;
        sum += highest;
        highest = 0;
    }
    return sum;
}

struct autoscale autoscale_of(const struct result *status, const struct tier_status *tier)
{
    struct autoscale scale = tier ? autoscale_of_tier(tier) : autoscale_of_all(status);
    uint64_t floor = floor_of(status, tier);

    if (scale.desired_pods < floor)
        scale.desired_pods = floor;
    return scale;
}

static const struct tier_status *find_exactly(const struct result *status, const char *name)
{
    for (size_t i = 0; i < status->status.tier_count; i++) {
        if (strcmp(status->status.tiers[i].name, name) == 0)
            return &status->status.tiers[i];
    }
    return NULL;
}

const struct tier_status *autoscale_find_tier(const struct result *status, const char *name)
{
    const struct tier_status *tier = find_exactly(status, name);
    char pool[POOL_LABEL_MAX + 1];

    if (tier || strlen(name) > MERCHANT_ID_MAX)
        return tier;
    merchant_pool_name(slice_of(name), pool);
    return find_exactly(status, pool);
}
