/*
 * pending.h - the commands that wait for their answer.
 */
#ifndef STORE_EMBEDDED_PENDING_H
#define STORE_EMBEDDED_PENDING_H

#include "base/list.h"
#include "store/store.h"

enum {
    PENDING_MAX = 65536, /* commands that wait for their answers at the same time */
    PENDING_CHUNK = 64,  /* made at once */
};

struct pending {
    struct list link;
    enum command_type type;
    int err;
    const struct result *result; /* in the caller's arena */
    store_done_fn done;
    void *arg;
};

struct pending_chunk;

/*
 * The pending entries that are not in use; they are made in chunks and never given back before the
 * end.
 */
struct pending_pool {
    struct list unused;
    struct pending_chunk *chunks;
    size_t made;
};

void pending_pool_init(struct pending_pool *pool);
void pending_pool_release(struct pending_pool *pool);

/* NULL: no memory, or PENDING_MAX are in use. */
struct pending *pending_get(struct pending_pool *pool) MUST_CHECK;
void pending_put(struct pending_pool *pool, struct pending *pending);

#endif
