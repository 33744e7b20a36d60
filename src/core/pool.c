/*
 * pool.c - the pools: least loaded pod, pool for a new pod, and the change to a new tier
 * configuration.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/state.h"

static struct pool *pool_of_node(struct map_node *node)
{
    return node ? CONTAINER_OF(node, struct pool, node) : NULL;
}

struct pool *pool_find(const struct core *core, const char *name)
{
    return pool_of_node(map_get(&core->pools, name, strlen(name)));
}

static struct list *pool_new_lists(uint32_t count)
{
    struct list *lists = malloc(count * sizeof(*lists));

    for (uint32_t i = 0; lists && i < count; i++)
        list_init(&lists[i]);
    return lists;
}

int pool_get(struct core *core, const char *name, struct pool **ret_pool)
{
    struct pool *pool = pool_find(core, name);
    bool is_merchant = strncmp(name, MERCHANT_POOL_PREFIX, strlen(MERCHANT_POOL_PREFIX)) == 0;

    if (!pool) {
        int rc = map_reserve(&core->pools);

        if (rc)
            return rc;
        pool = calloc(1, sizeof(*pool));
        if (!pool)
            return -ENOMEM;
        snprintf(pool->spec.name, sizeof(pool->spec.name), "%s", name);
        snprintf(pool->label, sizeof(pool->label), "%s%s", is_merchant ? "" : "pool:", name);
        pool->spec.is_merchant = is_merchant;
        pool->spec.max_concurrent = 1;
        pool->by_load = pool_new_lists(1);
        if (!pool->by_load) {
            free(pool);
            return -ENOMEM;
        }
        map_put(&core->pools, &pool->node, pool->spec.name, strlen(pool->spec.name));
    }
    *ret_pool = pool;
    return 0;
}

int pool_get_by_label(struct core *core, const char *label, struct pool **ret_pool)
{
    return pool_get(core, name_of_pool_label(label), ret_pool);
}

static void pool_free(struct core *core, struct pool *pool)
{
    map_remove(&core->pools, &pool->node);
    free(pool->by_load);
    free(pool);
}

void pool_ref(struct pool *pool)
{
    pool->refs++;
}

void pool_unref(struct core *core, struct pool *pool)
{
    assert(pool->refs > 0);
    pool->refs--;
    if (pool->refs == 0 && !pool->is_configured)
        pool_free(core, pool);
}

void pools_free(struct core *core)
{
    for (size_t i = 0; i < core->pools.bucket_count; i++) {
        while (core->pools.buckets[i])
            pool_free(core, pool_of_node(core->pools.buckets[i]));
    }
    map_release(&core->pools);
    free(core->tier_pools);
}

uint64_t pool_capacity(const struct pool *pool)
{
    return (uint64_t)pool->pod_count * pool->spec.max_concurrent;
}

struct pod *pool_least_loaded(struct pool *pool)
{
    for (; pool->lowest_load < pool->spec.max_concurrent; pool->lowest_load++) {
        struct list *list = &pool->by_load[pool->lowest_load];

        if (!list_is_empty(list))
            return LIST_ENTRY(list->next, struct pod, in_pool);
    }
    return NULL;
}

struct pool *pool_for_new_pod(const struct core *core)
{
    const struct tier_config *tiers = core->tiers;

    for (size_t i = 0; i < tiers->tier_count; i++) {
        struct pool *pool = core->tier_pools[tiers->fill_order[i]];

        if (pool->pod_count < pool->spec.target)
            return pool;
    }
    return core->tier_pools[tiers->default_tier];
}

/* The memory that a new configuration needs, gathered before anything is changed. */
struct pools_plan {
    struct pool **pools; /* parallel to the tiers */
    struct list **lists; /* the new by_load of each pool */
};

static void pools_plan_release(struct core *core, struct pools_plan *plan, size_t count)
{
    for (size_t i = 0; plan->lists && i < count; i++)
        free(plan->lists[i]);
    free(plan->lists);
    for (size_t i = 0; plan->pools && i < count; i++) {
        struct pool *pool = plan->pools[i];

        if (pool && pool->refs == 0 && !pool->is_configured)
            pool_free(core, pool);
    }
    free(plan->pools);
}

static int pools_plan(struct core *core, const struct tier_config *config, struct pools_plan *plan)
{
    size_t count = config->tier_count ? config->tier_count : 1;

    plan->pools = calloc(count, sizeof(struct pool *));
    plan->lists = calloc(count, sizeof(struct list *));
    if (!plan->pools || !plan->lists)
        return -ENOMEM;
    for (size_t i = 0; i < config->tier_count; i++) {
        int rc = pool_get(core, config->tiers[i].name, &plan->pools[i]);

        if (rc)
            return rc;
        plan->lists[i] = pool_new_lists(config->tiers[i].max_concurrent);
        if (!plan->lists[i])
            return -ENOMEM;
    }
    return 0;
}

/* What is left of a removed pool is a name: its pods count as exclusive until they are given to another one.
 */
static void pool_unconfigure(struct pool *pool)
{
    pool->is_configured = false;
    pool->spec.is_shared = false;
    pool->spec.is_reserved = false;
    pool->spec.target = 0;
    pool->spec.max_concurrent = 1;
    pool->lowest_load = 0;
}

int pools_configure(struct core *core, struct tier_config *config)
{
    struct tier_config *old = core->tiers;
    struct pools_plan plan = {0};
    int rc = pools_plan(core, config, &plan);

    if (rc) {
        pools_plan_release(core, &plan, config->tier_count);
        return rc;
    }
    /* All pods leave their lists and counts, because both are about to mean something else. */
    for (size_t i = 0; i < core->pods.count; i++) {
        pod_unplace(core->pods_by_name[i]);
        core->pods_by_name[i]->tolerated_load = core->pods_by_name[i]->load;
    }
    for (size_t i = 0; old && i < old->tier_count; i++)
        pool_unconfigure(core->tier_pools[i]);
    for (size_t i = 0; i < config->tier_count; i++) {
        struct pool *pool = plan.pools[i];

        free(pool->by_load);
        pool->by_load = plan.lists[i];
        pool->lowest_load = 0;
        pool->spec = config->tiers[i];
        pool->is_configured = true;
    }
    for (size_t i = 0; old && i < old->tier_count; i++) {
        struct pool *pool = core->tier_pools[i];

        if (!pool->is_configured && pool->refs == 0)
            pool_free(core, pool);
    }
    free(plan.lists);
    free(core->tier_pools);
    core->tier_pools = plan.pools;
    core->tiers = config;
    tier_config_free(old);
    for (size_t i = 0; i < core->pods.count; i++)
        pod_place(core, core->pods_by_name[i]);
    return 0;
}
