/*
 * ended.h - calls that ended without being released: one line in the log and one count for each, whoever
 * noticed.
 */
#ifndef APP_ENDED_H
#define APP_ENDED_H

#include "metrics/metrics.h"
#include "store/store.h"

struct ended; /* opaque: see ended.c */

/* Listens to `store` from now on; free it after the store. */
int ended_new(struct store *store, struct metrics *metrics, struct ended **ret_ended) MUST_CHECK;

/* Who else wants to know, at the same time; it must not use the store. */
void ended_also_tell(struct ended *ended, call_over_fn fn, void *arg);

/* Accepts NULL; always returns NULL. */
struct ended *ended_free(struct ended *ended);

#endif
