/*
 * leadership.h - runs the pool manager while this process leads, and only then.
 *
 * A process with a store of its own always leads. Where several share one, a Lease of Kubernetes or a lock in
 * Redis elects the leader; losing it stops the manager, not the process. Either gives the leader a number in
 * Redis (its fence), and the manager runs only with one.
 */
#ifndef APP_LEADERSHIP_H
#define APP_LEADERSHIP_H

#include "api/api.h"
#include "k8s/lease.h"
#include "manager/manager.h"
#include "store/redis/fence.h"
#include "store/redis/leader_lock.h"
#include "store/redis/redis.h"

struct leadership; /* opaque: see lead.c */

/* How the leader is elected. */
enum leadership_election {
    LEADERSHIP_ALWAYS,   /* nobody is asked */
    LEADERSHIP_BY_REDIS, /* the store must be in Redis */
    LEADERSHIP_BY_LEASE, /* likewise, and manager.kube.client must be there */
};

/* What it points to is borrowed and must stay. */
struct leadership_settings {
    struct manager_settings manager;
    enum leadership_election election;
    const char *identity;
    const char *key_prefix; /* of the lock and of the fence in Redis */
    const char *lease_namespace;
    const char *lease_name;
    uint64_t duration_ms;
    uint64_t renew_deadline_ms;
    uint64_t retry_ms;
    bool has_redis; /* the store is in Redis, and its bulk work asks whether we still lead */
};

/* Everything is borrowed. */
int leadership_new(uv_loop_t *loop, const struct leadership_settings *settings, struct store *store,
                   struct metrics *metrics, struct api *api, struct leadership **ret_leadership) MUST_CHECK;

/* Starts to lead, or to ask for it. */
int leadership_start(struct leadership *leadership) MUST_CHECK;

/* How long ago the last full sync of the pods was finished. False: we do not lead, or there was none yet. */
bool leadership_sync_age(const struct leadership *leadership, uint64_t *ret_ms);

/* Stops the manager, gives up the lock, frees the lead, then calls `stopped`. */
void leadership_stop(struct leadership *leadership, void (*stopped)(void *arg), void *arg);

#endif
