/*
 * redis.h - the store that any number of routers share: each operation is one script and one round
 * trip.
 *
 * The rules are those of core, written a second time as scripts (scripts/redis/); the conformance
 * suite keeps the two equal. Time is the server's. Bulk work goes in bounded batches.
 */
#ifndef STORE_REDIS_REDIS_H
#define STORE_REDIS_REDIS_H

#include <uv.h>

#include "core/core.h"
#include "store/redis/link.h"
#include "store/store.h"

struct redis_settings {
    struct redis_link_settings link; /* its on_change is the store's own */
    const char *key_prefix;          /* copied */
    struct core_settings core;
    uint64_t call_info_ttl_ms;
    uint64_t tier_refresh_ms;
    uint64_t mailbox_look_ms; /* for tests: so seldom are notes read, and only then; 0: as they should be */
    const char *tier_config;  /* seeds the tiers of an empty store; NULL: the defaults. Must be valid. */
};

/*
 * Does not wait for Redis: until it is there, commands are refused with -ENOTCONN and the store is
 * not ready. Fails with -ENOMEM or -EINVAL (tier_config does not parse).
 */
int redis_open(uv_loop_t *loop, const struct redis_settings *settings, struct store **ret_store) MUST_CHECK;

/*
 * What only the leader does (SYNC, SWEEP, REBALANCE, and pods that others than themselves speak of)
 * asks `may_lead` before each of its steps, and is given up with -ECANCELED if that says no: a
 * process that slept must not go on where it was. Should it sleep right after it was asked, the
 * scripts themselves compare *ret_fence, the leader's number (leader_lock.h, fence.h), with the one
 * that is stored; 0: there is none to compare. `may_lead` NULL: it always may.
 */
typedef bool (*redis_guard_fn)(void *arg, uint64_t *ret_fence);
void redis_store_set_guard(struct store *store, redis_guard_fn may_lead, void *arg);

/* The link, for what else is kept in Redis (the leader's lock, events). Borrowed. */
struct redis_link *redis_store_link(struct store *store);

#endif
