/*
 * history.h - takes the samples of the last hour, for GET /api/v1/history/pools. Internal to the
 * module.
 *
 * The store is asked once per HISTORY_INTERVAL_MS, whether anybody looks or not: whoever opens the
 * dashboard wants to see what was before. Loop thread only.
 */
#ifndef API_HISTORY_H
#define API_HISTORY_H

#include <uv.h>

#include "api/pool_history.h"
#include "store/store.h"

struct history; /* opaque: see history.c */

/* The store is borrowed. `loop` NULL: no samples are taken. */
int history_new(uv_loop_t *loop, struct store *store, struct history **ret_history) MUST_CHECK;

/* After history_stop, and when the store has answered. Accepts NULL; always returns NULL. */
struct history *history_free(struct history *history);

/* Takes no more samples. Must come before the loop ends. */
void history_stop(struct history *history);

/* A call was refused, because no pod was free for it. */
void history_refused(struct history *history);

#endif
