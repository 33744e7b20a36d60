/*
 * lost_calls.h - calls that ended without being released: one line in the log and one count for
 * each.
 */
#ifndef APP_LOST_CALLS_H
#define APP_LOST_CALLS_H

#include "metrics/metrics.h"
#include "store/store.h"

struct lost_calls; /* opaque: see ended.c */

/* The family that it counts in. NULL only without memory. */
struct metrics_family *lost_calls_family(struct metrics *metrics) MUST_CHECK;

/* Listens to `store` from now on; free it after the store. */
int lost_calls_new(struct store *store, struct metrics *metrics,
                   struct lost_calls **ret_lost_calls) MUST_CHECK;

/* Who else wants to know, at the same time; it must not use the store. */
void lost_calls_also_tell(struct lost_calls *lost_calls, call_finished_fn fn, void *arg);

/* Accepts NULL; always returns NULL. */
struct lost_calls *lost_calls_free(struct lost_calls *lost_calls);

#endif
