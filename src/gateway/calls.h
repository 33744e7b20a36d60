/*
 * calls.h - which calls have connections: renews their leases, and releases them after the last has closed.
 *
 * However many connections a call has, it counts once. When the last one has closed the call gets some time
 * to come back. It is released then, unless another router carries it too, or somebody has renewed its lease
 * meanwhile, as an agent does that says that it still has it: that one ends it. What the store cannot answer
 * is tried again until the lease has ended the call. Inside the room only.
 */
#ifndef GATEWAY_CALLS_H
#define GATEWAY_CALLS_H

#include "gateway/ask.h"

struct calls;     /* opaque: see calls.c */
struct held_call; /* opaque: a call with connections, open or being opened */

struct calls_settings {
    uint64_t lease_ttl_ms;
    uint64_t release_grace_ms;
    const char *carrier; /* this router, among those that share the store; "" if none does; borrowed */
};

int calls_new(uv_loop_t *loop, const struct calls_settings *settings, const struct asker *asker,
              struct metrics *metrics, struct calls **ret_calls) MUST_CHECK;

/* What this router knows of a call's connections. */
enum call_contact {
    CALL_NOT_SEEN,  /* it has had none here */
    CALL_LEFT,      /* it has none now: it may come back, or it is being released */
    CALL_CONNECTED, /* it has one, open or being opened */
};
enum call_contact calls_contact(const struct calls *calls, const char *call_sid);

/* Calls with connections, and those that may still come back or are being released. */
size_t calls_count(const struct calls *calls);

/*
 * A connection of the call is about to be opened: keeps the call from being released. 0: *ret_call is to be
 * given back with calls_drop. -EALREADY: its release is under way, it is too late; -ENOMEM.
 */
int calls_hold(struct calls *calls, const char *call_sid, struct held_call **ret_call) MUST_CHECK;

/* The connection is open: renews the lease, now and from now on. At most once for each hold. */
void calls_opened(struct held_call *call);

/* The connection has closed, or was never opened. A call of which none was ever open is not released. */
void calls_drop(struct held_call *call, bool was_open);

/* What is dropped from now on is not released: the router cuts its connections, and they may come back. */
void calls_leave(struct calls *calls);

/*
 * After calls_leave: releases at once what waits for it, and when all are gone calls `stopped`, later; the
 * calls are freed then.
 */
void calls_stop(struct calls *calls, void (*stopped)(void *arg), void *arg);

#endif
