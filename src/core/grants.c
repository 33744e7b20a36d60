/*
 * grants.c - how many calls of each pool were granted lately, minute by minute: for the estimate of a wait.
 *
 * Kept apart from the pools, because a pool may be removed from the configuration and come back.
 */
#include <stdlib.h>

#include "core/state.h"

struct pool_grants {
    struct map_node node;
    uint64_t minute; /* the newest that is counted */
    uint64_t counts[GRANT_MINUTES];
    char label[];
};

static struct pool_grants *grants_find(const struct grants *grants, const char *label)
{
    struct map_node *node = map_get(&grants->by_pool, label, strlen(label));

    return node ? CONTAINER_OF(node, struct pool_grants, node) : NULL;
}

void grants_init(struct grants *grants)
{
    map_init(&grants->by_pool);
}

void grants_release(struct grants *grants)
{
    grants_forget_old(grants, UINT64_MAX);
    assert(grants->by_pool.count == 0);
    map_release(&grants->by_pool);
}

/* The minutes that have passed since the newest one have no grants. */
static void pool_grants_advance(struct pool_grants *pool, uint64_t minute)
{
    if (minute - pool->minute >= GRANT_MINUTES)
        memset(pool->counts, 0, sizeof(pool->counts));
    else
        for (uint64_t i = pool->minute + 1; i <= minute; i++)
            pool->counts[i % GRANT_MINUTES] = 0;
    pool->minute = minute;
}

static struct pool_grants *grants_make(struct grants *grants, const char *label, uint64_t minute)
{
    size_t len = strlen(label);
    struct pool_grants *pool;

    if (map_reserve(&grants->by_pool))
        return NULL;
    pool = calloc(1, sizeof(*pool) + len + 1);
    if (!pool)
        return NULL;
    memcpy(pool->label, label, len + 1);
    pool->minute = minute;
    map_put(&grants->by_pool, &pool->node, pool->label, len);
    return pool;
}

void grants_count(struct grants *grants, const char *label, uint64_t now_ms)
{
    uint64_t minute = now_ms / 60000;
    struct pool_grants *pool = grants_find(grants, label);

    if (!pool)
        pool = grants_make(grants, label, minute);
    if (!pool)
        return;
    pool_grants_advance(pool, minute);
    pool->counts[minute % GRANT_MINUTES]++;
}

uint64_t grants_recent(const struct grants *grants, const char *label, uint64_t now_ms)
{
    const struct pool_grants *pool = grants_find(grants, label);
    uint64_t minute = now_ms / 60000;
    uint64_t count = 0;

    if (!pool)
        return 0;
    for (uint64_t i = 0; i < GRANT_MINUTES; i++) {
        if (i <= pool->minute && pool->minute - i + GRANT_MINUTES > minute)
            count += pool->counts[(pool->minute - i) % GRANT_MINUTES];
    }
    return count;
}

void grants_forget_old(struct grants *grants, uint64_t now_ms)
{
    for (size_t i = 0; i < grants->by_pool.bucket_count; i++) {
        for (struct map_node *node = grants->by_pool.buckets[i], *next; node; node = next) {
            struct pool_grants *pool = CONTAINER_OF(node, struct pool_grants, node);

            next = node->next;
            if (pool->minute + GRANT_MINUTES > now_ms / 60000)
                continue;
            map_remove(&grants->by_pool, node);
            free(pool);
        }
    }
}
