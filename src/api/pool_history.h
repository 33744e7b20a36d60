/*
 * pool_history.h - the last hour of each pool, as this router saw it. Internal to the module.
 *
 * Time is cut into slots of HISTORY_INTERVAL_MS. Each pool has one sample per slot, or none where
 * the store did not answer. Only so many slots and pools are kept. Does no I/O. Loop thread only.
 */
#ifndef API_POOL_HISTORY_H
#define API_POOL_HISTORY_H

#include "base/json.h"
#include "core/command.h"

struct pool_history; /* opaque: see pool_history.c */

enum {
    HISTORY_INTERVAL_MS = 15 * 1000,
    HISTORY_SLOTS = 240,     /* an hour */
    HISTORY_POOLS_MAX = 256, /* further pools are counted, not kept */
};

/* Times are milliseconds of a clock that never goes back; `now_ms` is when the first slot begins. */
int pool_history_new(uint64_t now_ms, struct pool_history **ret_history) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct pool_history *pool_history_free(struct pool_history *history);

/* The answer of COMMAND_STATUS. Without memory a pool that is new is left out of this slot. */
void pool_history_take(struct pool_history *history, uint64_t now_ms, const struct result *status);

/* A call was refused, because no pod was free for it. */
void pool_history_refused(struct pool_history *history, uint64_t now_ms);

/* Writes the members of the object PoolHistory. `wall_ms` is the time of day at `now_ms`. */
void pool_history_write(const struct pool_history *history, uint64_t now_ms, uint64_t wall_ms,
                        struct json_writer *json);

#endif
