/*
 * waits.h - the calls with a stream here that wait for a pod: keeps their places in line.
 *
 * All of them are kept with one command every WAITS_KEEP_MS, and at once when something has happened to one
 * of them. What the store said about a wait is remembered, so that a line that the store has lost is built
 * again. Nothing is ended because the store cannot be reached. A caller who has hung up leaves the line; one
 * who is merely gone gets some time to come back. Of several streams of a call, here or at other routers, the
 * newest has the wait. Inside the module only.
 */
#ifndef GATEWAY_WAITS_H
#define GATEWAY_WAITS_H

#include "gateway/ask.h"

struct waits; /* opaque: see waits.c */
struct wait;  /* opaque: one call */

enum { WAITS_KEEP_MS = 5000 };

/* What has become of a wait. */
enum wait_news {
    WAIT_HAS_CHANGED,  /* it may have a pod: a hold tells, and takes it */
    WAIT_IS_OVER,      /* its time, and its end is recorded */
    WAIT_HAS_ENDED,    /* its call was ended, or the store has lost it and nothing of it is known */
    WAIT_IS_ELSEWHERE, /* another stream of the same call has it: this one is to go */
};

struct waits_settings {
    const char *carrier; /* this router; borrowed */
    uint64_t release_grace_ms;
    /* `owner` is that of the wait. Not inside a function of this header, but for WAIT_IS_ELSEWHERE. */
    void (*on_news)(void *owner, enum wait_news news);
};

int waits_new(uv_loop_t *loop, const struct waits_settings *settings, const struct asker *asker,
              struct metrics *metrics, struct waits **ret_waits) MUST_CHECK;

/* Those that have a stream. */
size_t waits_count(const struct waits *waits);

/*
 * The call waits, as the store has just said (since_ms 0: it could not say, and if it does not know the call
 * later, this has waited since now). A stream that had it before is told. `is_new`: the store has not heard
 * of the stream `owner`, which begins now. 0: *ret_wait is to be given back with waits_leave; -ENOMEM. Copies
 * `call`.
 */
int waits_join(struct waits *waits, const struct waiting_call *call, void *owner, bool is_new,
               struct wait **ret_wait) MUST_CHECK;

/* What a hold says of the stream that asks: see COMMAND_HOLD. */
struct wait_standing {
    bool is_held;
    bool is_new;
    uint64_t claim;
};
/* That of the owner of the wait. */
struct wait_standing wait_standing(const struct wait *wait);

/* Whose call it seems to be: for a store that has lost it, and has never said so. */
void wait_set_provider(struct wait *wait, const char *provider);

/* The store says it anew. */
void wait_update(struct wait *wait, const struct waiting_call *call);

/* Whoever has asked for it: if the time was over with this very answer, that is logged and counted. */
void waits_note_kept(struct waits *waits, const struct kept_call *kept);

/* Is the time over that it may last? By this machine's clock. */
bool wait_is_over(const struct wait *wait);

/* Keeps it now: the store may have lost it. */
void wait_keep(struct wait *wait);

enum wait_leave {
    WAIT_GOES_ON,   /* the call has a pod, or waits on without us */
    WAIT_HUNG_UP,   /* its caller has ended it: it leaves the line at once */
    WAIT_BROKE_OFF, /* its caller has gone: it leaves the line after the grace, unless it comes back */
};
void waits_leave(struct wait *wait, enum wait_leave how);

/* Something has happened to a call: its owner is told, later, if it has one here. */
void waits_changed(struct waits *waits, const char *call_sid);

/* The store was out of reach, and may have lost what it was told last: keeps everything at once. */
void waits_keep_now(struct waits *waits);

/* Nothing is asked any more. When all answers are there calls `stopped`, later; the waits are freed then. */
void waits_stop(struct waits *waits, void (*stopped)(void *arg), void *arg);

#endif
