/*
 * lead.h - runs the pool manager while this process leads, and only then.
 *
 * A process with a store of its own always leads. Where several share one, a Lease of Kubernetes or a lock in
 * Redis elects the leader; losing it stops the manager, not the process. Either gives the leader a number in
 * Redis (its fence), and the manager runs only with one.
 */
#ifndef APP_LEAD_H
#define APP_LEAD_H

#include "api/api.h"
#include "k8s/lease.h"
#include "manager/manager.h"
#include "store/redis/fence.h"
#include "store/redis/leader.h"
#include "store/redis/redis.h"

struct lead; /* opaque: see lead.c */

/* Who says who leads. */
enum lead_election {
    LEAD_ALWAYS,   /* nobody is asked */
    LEAD_BY_REDIS, /* the store must be in Redis */
    LEAD_BY_LEASE, /* likewise, and manager.kube.client must be there */
};

/* What it points to is borrowed and must stay. */
struct lead_settings {
    struct manager_settings manager;
    enum lead_election election;
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
int lead_new(uv_loop_t *loop, const struct lead_settings *settings, struct store *store,
             struct metrics *metrics, struct api *api, struct lead **ret_lead) MUST_CHECK;

/* Starts to lead, or to ask for it. */
int lead_start(struct lead *lead) MUST_CHECK;

/* Stops the manager, gives up the lock, frees the lead, then calls `stopped`. */
void lead_stop(struct lead *lead, void (*stopped)(void *arg), void *arg);

#endif
