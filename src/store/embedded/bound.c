/*
 * bound.c - computes the upper limit of log bytes for each command.
 */
#include "store/embedded/bound.h"

#include "core/tiers.h"

enum {
    BOUND_CALL = CALL_SID_MAX + POD_NAME_MAX + POOL_LABEL_MAX + MERCHANT_ID_MAX + PROVIDER_MAX + 32,
    BOUND_CALL_GONE = CALL_SID_MAX + 4,
    BOUND_RENEWED = CALL_SID_MAX + 16,
    BOUND_POD = POD_NAME_MAX + ADDRESS_MAX + INCARNATION_MAX + POOL_LABEL_MAX + 32,
    BOUND_OVER = CALL_SID_MAX + 32,
    BOUND_SMALL = 2 * (BOUND_CALL + BOUND_POD) + BOUND_OVER + BOUND_RENEWED,
    BOUND_POD_CALLS = TIER_CONCURRENT_MAX * BOUND_CALL_GONE,
};

static size_t bound_text(const char *text)
{
    return text ? strlen(text) : 0;
}

/* The tiers are recorded in their long form. The shortest tier, "a":1, is there 6 times as long. */
static size_t bound_tiers(const char *text)
{
    return (size_t)min_u64(8 * bound_text(text), TIER_CONFIG_STORED_MAX);
}

/* Most clusters have names far below the limits, and a sync has as many as there are pods. */
static size_t bound_sync(const struct command *command, const struct core *core)
{
    size_t bound = core_pod_count(core) * BOUND_POD + core_call_count(core) * BOUND_CALL_GONE;

    for (size_t i = 0; i < command->sync.count; i++) {
        const struct pod_seen *pod = &command->sync.pods[i];

        bound += 2 * (bound_text(pod->name) + bound_text(pod->address) + bound_text(pod->incarnation) +
                      POOL_LABEL_MAX + 64);
    }
    return bound;
}

/* A step does as much as its limit at most, and has no more to do than there is. */
static size_t bound_step(size_t limit, size_t pods, size_t calls)
{
    limit = limit ? limit : STEP_LIMIT;
    /* A pod may be changed twice: when its last call ends, and when its own time has come. */
    return BOUND_SMALL + 2 * (size_t)min_u64(limit, pods) * BOUND_POD +
           (size_t)min_u64(limit + TIER_CONCURRENT_MAX, calls) * BOUND_CALL_GONE;
}

size_t bound_effects(const struct command *command, const struct core *core)
{
    switch (command->type) {
    case COMMAND_RENEW:
        /* Renewed, or adopted, or told anew because its provider is known now. */
        return BOUND_SMALL +
               command->renew.count * (BOUND_CALL_GONE + BOUND_CALL + 2 * BOUND_RENEWED + BOUND_POD);
    case COMMAND_HEARTBEAT:
        /* The same. */
        return BOUND_SMALL + BOUND_POD_CALLS +
               command->heartbeat.count * (BOUND_CALL + BOUND_RENEWED + BOUND_POD);
    case COMMAND_POD_SEEN:
    case COMMAND_POD_GONE:
        return BOUND_SMALL + BOUND_POD_CALLS;
    case COMMAND_SYNC:
        return BOUND_SMALL + bound_sync(command, core);
    case COMMAND_SWEEP:
        return bound_step(command->sweep.limit, core_pod_count(core), core_call_count(core));
    case COMMAND_REBALANCE:
        return bound_step(command->rebalance.limit, core_pod_count(core), 0);
    case COMMAND_TIERS_SET:
        return BOUND_SMALL + bound_tiers(command->tiers_set.text) + core_pod_count(core) * BOUND_POD;
    case COMMAND_MERCHANT_SET:
        return BOUND_SMALL + bound_text(command->merchant_set.text);
    default:
        return BOUND_SMALL;
    }
}
