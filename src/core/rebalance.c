/*
 * rebalance.c - the command rebalance: moves idle pods from pools that have more than they want
 * to pools that have fewer; and the pool for a new pod.
 *
 * The rules are in rebalance_plan.c. Each move is carried out as soon as it is decided.
 */
#include "core/autoscale.h"
#include "core/rebalance_plan.h"
#include "core/state.h"

static size_t tier_assigned(const void *arg, size_t tier)
{
    const struct core *core = arg;

    assert(core->tier_pools[tier]->is_configured);
    return core->tier_pools[tier]->pod_count;
}

static size_t tier_wanted(const void *arg, size_t tier)
{
    const struct core *core = arg;
    const struct pool *pool = core->tier_pools[tier];

    return autoscale_pods(&pool->spec, pool->call_count - pool->held_calls, pool_waiting(pool),
                          (uint64_t)pool->by_state[POD_DRAINING] + pool->by_state[POD_SUSPENDED]);
}

static struct rebalance_pod pod_at(const void *arg, size_t index)
{
    const struct core *core = arg;
    const struct pod *pod = core->pods_by_name[index];

    return (struct rebalance_pod){
        .tier = pod->pool->is_configured ? pod->pool->tier : REBALANCE_REMOVED_TIER,
        .is_idle = pod->state == POD_AVAILABLE && pod->load == 0,
        .is_pinned = pod->is_pinned,
    };
}

static struct rebalance_view view_of(const struct core *core)
{
    return (struct rebalance_view){
        .tiers = core->tiers,
        .pod_count = core->pods.count,
        .assigned = tier_assigned,
        .wanted = tier_wanted,
        .pod = pod_at,
        .arg = core,
    };
}

struct pool *pool_for_new_pod(const struct core *core)
{
    const struct rebalance_view view = view_of(core);

    return core->tier_pools[rebalance_tier_for_new_pod(&view)];
}

static void move_pod(void *arg, size_t index, size_t to)
{
    struct core *core = arg;

    pod_move(core, core->pods_by_name[index], core->tier_pools[to]);
}

int core_rebalance(struct core *core, const struct command *command, struct arena *arena UNUSED,
                   struct result *result)
{
    const struct rebalance_view view = view_of(core);

    result->rebalance.more =
        rebalance(&view, command->rebalance.limit, move_pod, core, &result->rebalance.moved);
    return 0;
}
