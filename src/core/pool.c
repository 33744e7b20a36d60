/*
 * pool.c - the pools: least loaded pod, and the change to a new tier configuration (the command
 * tiers_set).
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

/* No configuration says how many pods it wants, and how many calls fit on one. */
static void pool_unscale(struct pool *pool)
{
    pool->spec.target = 0;
    pool->spec.max_concurrent = 1;
    pool->spec.buffer = TIER_UNSET;
    pool->spec.min_pods = TIER_UNSET;
    pool->spec.max_pods = TIER_UNSET;
}

int pool_get(struct core *core, const char *name, struct pool **ret_pool)
{
    struct pool *pool = pool_find(core, name);

    if (!pool) {
        int err = map_reserve(&core->pools);

        if (err < 0)
            return err;
        assert(strlen(name) < sizeof(pool->spec.name));
        pool = calloc(1, sizeof(*pool));
        if (!pool)
            return -ENOMEM;
        snprintf(pool->spec.name, sizeof(pool->spec.name), "%s", name);
        pool_label(slice_of(name), pool->label);
        pool->spec.is_merchant = name_is_merchant_pool(name, strlen(name));
        pool_unscale(pool);
        list_init(&pool->in_marked);
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
    assert(pool->refs == 0);
    assert(pool->pod_count == 0);
    assert(pool->call_count == 0 && pool->free_count == 0);
    assert(pool->first_count == 0);
    list_remove(&pool->in_marked);
    places_release(&pool->line);
    map_remove(&core->pools, &pool->node);
    free(pool->by_load);
    free(pool);
}

void pool_ref(struct pool *pool)
{
    pool->refs++;
    assert(pool->refs > 0);
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

size_t core_chain_size(const struct core *core)
{
    size_t size = 0;

    /* Also those that are not configured any more: a call may still stand in their lines. */
    MAP_FOR_EACH (node, &core->pools)
        size += strlen(CONTAINER_OF(node, struct pool, node)->label) + 1;
    return (size_t)min_u64(size, WAITING_POOLS_MAX);
}

uint64_t pool_waiting(const struct pool *pool)
{
    return pool->first_count;
}

struct pod *pool_least_loaded(struct pool *pool)
{
    for (; pool->lowest_load < pool->spec.max_concurrent; pool->lowest_load++) {
        struct list *list = &pool->by_load[pool->lowest_load];
        struct pod *pod = LIST_ENTRY(list->next, struct pod, in_pool);

        if (list_is_empty(list))
            continue;
        assert(pod->pool == pool);
        assert(pod->state == POD_AVAILABLE && pod->load == pool->lowest_load);
        return pod;
    }
    assert(pool->by_state[POD_AVAILABLE] == 0);
    return NULL;
}

/* The memory for a new configuration, allocated before anything is changed. */
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
        int err = pool_get(core, config->tiers[i].name, &plan->pools[i]);

        if (err < 0)
            return err;
        plan->lists[i] = pool_new_lists(config->tiers[i].max_concurrent);
        if (!plan->lists[i])
            return -ENOMEM;
    }
    return 0;
}

/*
 * What is left of a removed pool is a name: its pods count as exclusive until they are given to
 * another one.
 */
static void pool_unconfigure(struct pool *pool)
{
    pool->is_configured = false;
    pool->spec.is_shared = false;
    pool->spec.is_reserved = false;
    pool_unscale(pool);
    pool->lowest_load = 0;
}

int pools_configure(struct core *core, struct tier_config *config)
{
    struct tier_config *old = core->tiers;
    struct pools_plan plan = {0};
    int err = pools_plan(core, config, &plan);

    if (err < 0) {
        pools_plan_release(core, &plan, config->tier_count);
        return err;
    }
    /* All pods leave their lists and counts, because both are about to change their meaning. */
    for (size_t i = 0; i < core->pods.count; i++) {
        pod_unplace(core->pods_by_name[i]);
        core->pods_by_name[i]->tolerated_load = core->pods_by_name[i]->load;
    }
    for (size_t i = 0; old && i < old->tier_count; i++)
        pool_unconfigure(core->tier_pools[i]);
    for (size_t i = 0; i < config->tier_count; i++) {
        struct pool *pool = plan.pools[i];

        assert(pool->call_count == 0 && pool->free_count == 0); /* all pods have left it */
        assert(pool->held_calls == 0 && pool->leaving_count == 0);
        free(pool->by_load);
        pool->by_load = plan.lists[i];
        pool->lowest_load = 0;
        pool->spec = config->tiers[i];
        pool->tier = i;
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

static int parse_asked(const struct command *command, struct tier_config **ret_config, char *error,
                       size_t error_size)
{
    const char *text = command->tiers_set.text;

    if (command->tiers_set.is_seed)
        return tier_config_parse_seed(text, strlen(text), ret_config, error, error_size);
    if (command->tiers_set.change.is_stored)
        return tier_config_parse_stored(text, strlen(text), ret_config, error, error_size);
    return tier_config_parse(text, strlen(text), ret_config, error, error_size);
}

/* The seed is no change: it fills an empty store. */
static int prepare_tiers(struct core *core, const struct command *command, const struct tier_config *config,
                         struct arena *arena, struct result *result, struct change_plan *ret_plan)
{
    if (command->tiers_set.is_seed) {
        *ret_plan = (struct change_plan){0};
        return 0;
    }
    return change_prepare(core, "", &command->tiers_set.change, core->tiers->text, config->text, arena,
                          result, ret_plan);
}

int core_tiers_set(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    const struct command rebalance = {.type = COMMAND_REBALANCE, .rebalance = {.limit = SIZE_MAX}};
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    struct result moved = {0};
    struct change_plan plan;
    char error[256] = "";
    int err = parse_asked(command, &config, error, sizeof(error));

    if (err == -EINVAL)
        return fail_invalid(arena, result, error);
    if (err == 0)
        err = prepare_tiers(core, command, config, arena, result, &plan);
    if (err < 0 || result->outcome != OUTCOME_OK || command->tiers_set.change.is_trial)
        return err;
    err = pools_configure(core, config);
    if (err < 0) {
        change_cancel(core, &plan);
        return err;
    }
    core_report(core, &(struct record){.type = RECORD_TIERS, .tiers = {.text = config->text}});
    (void)TAKE(config);
    change_commit(core, &plan);
    /* Who waits comes before pods that may move. */
    err = line_serve(core);
    if (err < 0)
        return err;
    /* At once: an idle pod must not stay in a pool that is in no chain any more. */
    return core_rebalance(core, &rebalance, arena, &moved);
}
