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

/* Gives away idle pods of `donor`: all of them if it was removed, else those above its target. */
static void rebalance_from(struct rebalance *run, struct pool *donor)
{
    if (run->result->rebalance.more)
        return;
    LIST_FOR_EACH (link, &donor->by_load[0]) {
        struct pod *pod = LIST_ENTRY(link, struct pod, in_pool);
        struct pool *to = next_to_fill(run);
        bool is_last = !donor->is_configured && donor->refs == 1;

        if (donor->is_configured && (!to || donor->pod_count <= donor->spec.target))
            return;
        if (donor->is_configured && pod->is_pinned)
            continue;
        if (run->result->rebalance.moved >= run->limit) {
            run->result->rebalance.more = true;
            return;
        }
        pod_move(run->core, pod, donor->is_configured ? to : pool_for_new_pod(run->core));
        run->result->rebalance.moved++;
        if (is_last)
            return; /* nothing refers to the removed pool any more: it is freed */
    }
}

/* The first pool by name that was removed from the configuration and still has idle pods, or NULL. */
static struct pool *removed_pool_with_idle_pods(struct core *core)
{
    struct pool *first = NULL;

    MAP_FOR_EACH (node, &core->pools) {
        struct pool *pool = CONTAINER_OF(node, struct pool, node);

        if (!pool->is_configured && !list_is_empty(&pool->by_load[0]) &&
            (!first || strcmp(pool->spec.name, first->spec.name) < 0))
            first = pool;
    }
    return first;
}

int core_rebalance(struct core *core, const struct command *command, struct arena *arena UNUSED,
                   struct result *result)
{
    struct rebalance run = {core, result, command->rebalance.limit ? command->rebalance.limit : STEP_LIMIT,
                            0};
    const struct tier_config *tiers = core->tiers;
    struct pool *removed;

    while (!result->rebalance.more && (removed = removed_pool_with_idle_pods(core)))
        rebalance_from(&run, removed);
    /* Tiers that are filled last give first. */
    for (size_t i = tiers->tier_count; i > 0; i--)
        rebalance_from(&run, core->tier_pools[tiers->fill_order[i - 1]]);
    return 0;
}
