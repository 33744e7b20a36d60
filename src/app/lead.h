/*
 * lead.h - runs the pool manager while this process leads, and only then.
 *
 * A process with a store of its own always leads. Where several share one, a lock elects the leader; losing
 * it stops the manager, not the process.
 */
#ifndef APP_LEAD_H
#define APP_LEAD_H

#include "api/api.h"
#include "manager/manager.h"
#include "store/redis/leader.h"
#include "store/redis/redis.h"

struct lead; /* opaque: see lead.c */

struct lead_settings {
    struct manager_settings manager;       /* what it points to is borrowed and must stay */
    struct redis_leader_settings election; /* its on_change is ours; used only with a link */
};

/* `link` NULL: no election, this process leads. Everything else is borrowed as well. */
int lead_new(uv_loop_t *loop, const struct lead_settings *settings, struct store *store,
             struct redis_link *link, struct metrics *metrics, struct api *api,
             struct lead **ret_lead) MUST_CHECK;

/* Starts to lead, or to ask for it. */
int lead_start(struct lead *lead) MUST_CHECK;

/* Stops the manager, gives up the lock, frees the lead, then calls `stopped`. */
void lead_stop(struct lead *lead, void (*stopped)(void *arg), void *arg);

#endif
