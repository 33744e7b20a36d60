/*
 * calls.h - the calls with connections: renews their leases, and releases them after the last one
 * has closed.
 *
 * However many connections a call has, it counts once. Before the first is opened the store is told
 * that this router carries the call (COMMAND_HOLD), so that nobody releases it meanwhile. When the
 * last one has closed the call gets some time to come back. It is released then, unless another
 * router carries it too, or somebody has renewed its lease meanwhile, as an agent does that says
 * that it still has it: that one ends it. What the store cannot answer is tried again until the
 * lease has ended the call.
 *
 * A call that the store has lost is adopted again by the next renewal, which names its pod. A call
 * that was ended on purpose, or whose slot another call has by now, is over: its connections are to
 * be closed. Inside the module only.
 */
#ifndef GATEWAY_CALLS_H
#define GATEWAY_CALLS_H

#include "gateway/ask.h"

struct calls;     /* opaque: see calls.c */
struct held_call; /* opaque: a call with connections, open or being opened */

struct calls_settings {
    uint64_t lease_ttl_ms;
    uint64_t release_grace_ms;
    const char *carrier; /* this router, among those that share the store; borrowed */
    /* The call is over: its connections stand for nothing any more. What is opened afterwards may be told
     * anew. */
    void (*on_finished)(void *arg, struct held_call *call);
    /* It is on this pod now: its connections to others stand for nothing any more. */
    void (*on_moved)(void *arg, struct held_call *call, const char *pod);
    void *on_finished_arg; /* of both */
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

/* The command that tells the store; valid as long as the call is held. And it is on its way. */
struct command calls_hold_command(struct held_call *call);
void calls_hold_asked(struct held_call *call);

/* The store knows that we carry it, and has said where the call is and whose. */
void calls_found(struct held_call *call, const struct call_info *info, bool was_connected);

/* It was moved to another pod. */
void calls_moved(struct held_call *call, const char *pod);

/* Its connections, open, being opened or being closed. */
size_t calls_connections(const struct held_call *call);

/* Must its connections be closed, and none be opened? */
bool calls_is_finished(const struct held_call *call);

/* The connection is open: renews the lease, now and from now on. At most once for each hold. */
void calls_opened(struct held_call *call);

/* The connection has closed, or was never opened. A call that never had an open one is not released. */
void calls_drop(struct held_call *call, bool was_open);

/* The store says that the call was ended on purpose, just now. */
void calls_ended(struct calls *calls, const char *call_sid);

/* The same some time ago: it may have begun anew meanwhile. The store is asked. */
void calls_may_have_ended(struct calls *calls, const char *call_sid);

/* Nobody has ended the call on purpose, but the store has given it up: renews it at once, later. */
void calls_lost(struct calls *calls, const char *call_sid);

/* The store was out of reach, and may have lost what it was told last: renews everything at once. */
void calls_renew_now(struct calls *calls);

/* What is dropped from now on is not released: the router cuts its connections, and they may come back. */
void calls_leave(struct calls *calls);

/*
 * After calls_leave: releases at once what waits for it, and when all are gone calls `stopped`, later; the
 * calls are freed then.
 */
void calls_stop(struct calls *calls, void (*stopped)(void *arg), void *arg);

#endif
