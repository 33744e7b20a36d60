/*
 * rebalance.c - the command rebalance: moves idle pods from pools above their target to pools
 * below theirs.
 *
 * Pools that were removed from the configuration give first. The Redis store has the same rules in
 * store/redis/rebalance.c.
 */
#include "core/state.h"

/* One run of rebalancing: which tier is to be filled next, and how much may still be moved. */
struct rebalance {
    struct core *core;
    struct result *result;
    size_t limit;
    size_t next_fill; /* position in fill_order; all before it have what they want */
};

/* The first tier below its target, or NULL. */
static struct pool *next_to_fill(struct rebalance *run)
{
    const struct tier_config *tiers = run->core->tiers;

    for (; run->next_fill < tiers->tier_count; run->next_fill++) {
        struct pool *pool = run->core->tier_pools[tiers->fill_order[run->next_fill]];

        if (pool->pod_count < pool->spec.target)
            return pool;
    }
    return NULL;
}

static bool is_idle(const struct pod *pod)
{
    return pod->state == POD_AVAILABLE && pod->load == 0;
}

/* Moves the pod, if the limit allows it. False: the limit is reached. */
static bool rebalance_move(struct rebalance *run, struct pod *pod, struct pool *to)
{
    if (run->result->rebalance.moved >= run->limit) {
        run->result->rebalance.more = true;
        return false;
    }
    pod_move(run->core, pod, to);
    run->result->rebalance.moved++;
    return true;
}

/* A pool that was removed gives back all its idle pods. */
static void rebalance_removed(struct rebalance *run)
{
    struct core *core = run->core;

    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (!pod->pool->is_configured && is_idle(pod) && !rebalance_move(run, pod, pool_for_new_pod(core)))
            return;
    }
}

/* Gives away the idle pods of `donor` that it has above its target, to whoever is below its own. */
static void rebalance_from(struct rebalance *run, struct pool *donor)
{
    struct core *core = run->core;

    for (size_t i = 0; i < core->pods.count && donor->pod_count > donor->spec.target; i++) {
        struct pod *pod = core->pods_by_name[i];
        struct pool *to = next_to_fill(run);

        if (!to || run->result->rebalance.more)
            return;
        if (pod->pool == donor && is_idle(pod) && !pod->is_pinned)
            (void)rebalance_move(run, pod, to);
    }
}

int core_rebalance(struct core *core, const struct command *command, struct arena *arena UNUSED,
                   struct result *result)
{
    struct rebalance run = {core, result, command->rebalance.limit ? command->rebalance.limit : STEP_LIMIT,
                            0};
    const struct tier_config *tiers = core->tiers;

    rebalance_removed(&run);
    /* Tiers that are filled last give first. */
    for (size_t i = tiers->tier_count; i > 0; i--)
        rebalance_from(&run, core->tier_pools[tiers->fill_order[i - 1]]);
    return 0;
}
