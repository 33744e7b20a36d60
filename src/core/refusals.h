/*
 * refusals.h - the last refusals, so that an operator can ask why a call got no pod.
 *
 * Kept in memory only: the last REFUSALS_KEPT of them, each for REFUSAL_KEEP_MS.
 */
#ifndef CORE_REFUSALS_H
#define CORE_REFUSALS_H

#include "base/map.h"
#include "core/command.h"

/* The Redis scripts use these, too: the build reads them from here. */
enum {
    REFUSALS_KEPT = 1024,
    REFUSAL_KEEP_MS = 600 * 1000,
};

struct refusal_entry; /* see refusals.c */

struct refusals {
    struct map by_call;
    struct refusal_entry *ring; /* [REFUSALS_KEPT], made on first use */
    size_t next;
};

void refusals_init(struct refusals *refusals);
void refusals_release(struct refusals *refusals);

/* Keeps a copy in place of the call's last one; does nothing without memory for it. */
void refusals_remember(struct refusals *refusals, const char *call_sid, const struct refusal *refusal);

/*
 * The last refusal of that call, copied into the arena; NULL if none is remembered. 0 or -ENOMEM.
 */
int refusals_find(const struct refusals *refusals, const char *call_sid, uint64_t now_ms, struct arena *arena,
                  const struct refusal **ret_refusal) MUST_CHECK;

#endif
