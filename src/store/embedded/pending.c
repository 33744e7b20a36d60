/*
 * pending.c - the pool of commands that wait for their answer.
 */
#include "store/embedded/pending.h"

#include <stdlib.h>

struct pending_chunk {
    struct pending_chunk *next;
    struct pending entries[PENDING_CHUNK];
};

void pending_pool_init(struct pending_pool *pool)
{
    *pool = (struct pending_pool){0};
    list_init(&pool->unused);
}

void pending_pool_release(struct pending_pool *pool)
{
    while (pool->chunks) {
        struct pending_chunk *next = pool->chunks->next;

        free(pool->chunks);
        pool->chunks = next;
    }
    pending_pool_init(pool);
}

static int pending_pool_grow(struct pending_pool *pool)
{
    struct pending_chunk *chunk;

    if (pool->made >= PENDING_MAX)
        return -EBUSY;
    chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return -ENOMEM;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->made += PENDING_CHUNK;
    assert(pool->made <= PENDING_MAX);
    for (size_t i = 0; i < PENDING_CHUNK; i++)
        list_append(&pool->unused, &chunk->entries[i].link);
    return 0;
}

struct pending *pending_get(struct pending_pool *pool)
{
    struct pending *pending;

    if (list_is_empty(&pool->unused) && pending_pool_grow(pool) < 0)
        return NULL;
    pending = LIST_ENTRY(pool->unused.next, struct pending, link);
    list_remove(&pending->link);
    assert(!pending->done);
    return pending;
}

void pending_put(struct pending_pool *pool, struct pending *pending)
{
    assert(list_is_empty(&pending->link));
    pending->done = NULL;
    /* In front: the one used last is the one that is still in the cache. */
    list_append(pool->unused.next, &pending->link);
}
