/*
 * fence.h - the number in Redis of a leader that a Lease of Kubernetes has elected.
 *
 * The Lease and the store are two places. For a moment two routers may believe that they lead: a
 * Lease that was deleted by hand is made anew by another one before its former holder looks. So
 * whoever has written the Lease claims a number in Redis after that, and each step of a leader
 * carries its number: only the newest one is accepted. Who cannot write the Lease any more never
 * claims again, so the number does not go back and forth. Loop thread only.
 */
#ifndef STORE_REDIS_FENCE_H
#define STORE_REDIS_FENCE_H

#include <uv.h>

#include "store/redis/link.h"

struct redis_fence; /* opaque: see fence.c */

struct redis_fence_settings {
    const char *key_prefix; /* borrowed, must stay */
    const char *identity;   /* who we are, as in the Lease; likewise */
    uint64_t duration_ms;   /* of the Lease */
    uint64_t patience_ms;   /* how long a claim waits for a connection: less than until the next one */
    /* Tells every number that is new to us. Never inside a call. */
    void (*on_change)(void *arg);
    void *on_change_arg;
};

/* The link is borrowed and must stay until `stopped`. */
int redis_fence_new(uv_loop_t *loop, const struct redis_fence_settings *settings, struct redis_link *link,
                    struct redis_fence **ret_fence) MUST_CHECK;

/*
 * To be called after each successful write of the Lease: confirms our number, or takes a new one.
 */
void redis_fence_claim(struct redis_fence *fence);

/*
 * To be called after each look at the Lease that shows somebody else as its holder: if that is not
 * one of our routers, the scripts get to know that another program leads.
 */
void redis_fence_see(struct redis_fence *fence, const char *leader);

/* We do not lead any more: there is no number, and what is under way brings none. */
void redis_fence_forget(struct redis_fence *fence);

/* 0: there is none, and nothing may be done that only a leader does. */
uint64_t redis_fence_number(const struct redis_fence *fence);

/*
 * Waits for what is under way, frees the fence, then calls `stopped`; on_change does not run any
 * more.
 */
void redis_fence_stop(struct redis_fence *fence, void (*stopped)(void *arg), void *arg);

#endif
