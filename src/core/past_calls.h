/*
 * past_calls.h - the calls that have ended lately, or have left a pod for another one: for the story of
 * a call.
 *
 * Kept in memory only: the last PAST_CALLS_MAX of them, each for PAST_KEEP_MS. A release adds to it, so
 * an entry is one allocation of memory, and there is no index: a query compares all of them.
 */
#ifndef CORE_PAST_CALLS_H
#define CORE_PAST_CALLS_H

#include "core/command.h"

struct past_entry; /* see past_calls.c */

struct past_calls {
    struct past_slot *ring; /* [PAST_CALLS_MAX], made on first use */
    size_t first;           /* the oldest */
    size_t count;
};

void past_calls_init(struct past_calls *past);
void past_calls_release(struct past_calls *past);

/* Keeps a copy, and forgets the oldest one if there are too many; does nothing without memory for it. */
void past_calls_add(struct past_calls *past, const char *call_sid, const struct past_call *call);

/* Forgets those that are too old. */
void past_calls_forget_old(struct past_calls *past, uint64_t now_ms);

/*
 * The last PAST_SHOWN_MAX of that call, oldest first, copied into the arena; NULL if there is none. 0 or
 * -ENOMEM.
 */
int past_calls_find(const struct past_calls *past, const char *call_sid, uint64_t now_ms, struct arena *arena,
                    struct past_call **ret_calls, size_t *ret_count) MUST_CHECK;

/* NULL, or what is wrong. */
const char *past_calls_check(const struct past_calls *past, uint64_t now_ms);

#endif
