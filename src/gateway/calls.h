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
 * be closed. If the call can move, the store is asked where it is first: it may have another pod, or
 * wait for one. A call whose end this router sees is ended at once (calls_finish). Inside the module
 * only.
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
    /* It has no pod any more, and waits for one. */
    void (*on_waiting)(void *arg, struct held_call *call, const struct waiting_call *waiting);
    void *arg; /* of all of them */
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

/* Is it on this pod, as far as this router knows? */
bool calls_is_on(const struct held_call *call, const char *pod);

/* Must its connections be closed, and none be opened? */
bool calls_is_finished(const struct held_call *call);
/* Because another call has the slot that it had, and nobody has ended it? */
bool calls_is_displaced(const struct held_call *call);

/*
 * The connection is open: renews the lease, now and from now on. At most once for each hold. `can_move`: it
 * can go on with another pod, as long as it is the call's only one.
 */
void calls_opened(struct held_call *call, bool can_move);

/* Its open connection has another pod. */
void calls_reopened(struct held_call *call);

/* Open connections of the call, here. */
unsigned calls_open(const struct held_call *call);

/*
 * For the header of the next handshake with a pod: how often the call has come back to a pod, with this time,
 * as far as this router knows; 0: it has never been connected. Counts after calls_found.
 */
unsigned calls_resumed(const struct held_call *call);

/* The connection that is about to be opened had a pod before, when calls_resumed was `resumed` afterwards. */
void calls_recall(struct held_call *call, unsigned resumed);

/* It came out of the line for this connection: if that is never opened, it is released all the same. */
void calls_own(struct held_call *call);

/* A connection that has closed, or was never opened. A call that never had an open one is not released. */
struct call_drop {
    bool was_open;   /* calls_opened has run, */
    bool could_move; /* with this */
    bool waits;      /* the call has no pod any more: it waits for one, and is not released */
    bool comes_back; /* it has departed, and is not released */
};
void calls_drop(struct held_call *call, struct call_drop how);

/*
 * Its end was seen on its connection: releases it at once, and again until the store has answered. The
 * connection may stay for a moment; on_finished does not run.
 */
void calls_finish(struct held_call *call, const char *reason);

/* Something happened to the call: the store is asked, later. */
void calls_changed(struct calls *calls, const char *call_sid);

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
