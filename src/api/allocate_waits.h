/*
 * allocate_waits.h - requests for a pod that are kept open while their calls wait: POST /api/v1/allocate with
 * wait_ms. Internal to the module.
 *
 * A wait asks the store again when the store says that something happened to its call, and every few seconds,
 * which also keeps the call's place in line. There is one wait for a call at this router: the newer request
 * wins, and the older one is answered. Loop thread only.
 */
#ifndef API_ALLOCATE_WAITS_H
#define API_ALLOCATE_WAITS_H

#include <uv.h>

#include "base/heap.h"
#include "base/map.h"

struct allocate_waits; /* opaque: see allocate_waits.c */

enum {
    ALLOCATE_WAIT_MAX_MS = 20 * 1000, /* wait_ms; longer than that, proxies may give up */
    ALLOCATE_WAIT_RETRY_MS = 1000,    /* when a client should ask again */
};

/* Why a wait is woken. */
enum allocate_wake {
    WAKE_ASK,  /* ask the store again */
    WAKE_LOOK, /* look whether the client is still there */
    WAKE_NOW,  /* answer with what is known, without asking: a newer request waits for the call */
};

/* One request; a member of a larger struct in its arena. */
struct allocate_wait {
    struct map_node node; /* by its call */
    struct heap_node due; /* clock_elapsed_ms; while the store is not being asked */
    uint64_t until_ms;    /* clock_elapsed_ms */
    uint64_t ask_at_ms;   /* the same */
    bool is_added;        /* it is in `node`'s map */
    bool is_told;         /* something happened to the call while the store was being asked */
    bool is_ending;       /* nobody may wait any longer */
    /* Inside a call of this header only in allocate_waits_stop. */
    void (*wake)(struct allocate_wait *wait, enum allocate_wake why);
};

/* `loop` NULL: nobody can wait. */
int allocate_waits_new(uv_loop_t *loop, struct allocate_waits **ret_waits) MUST_CHECK;

/* When nobody waits any more. Accepts NULL. */
struct allocate_waits *allocate_waits_free(struct allocate_waits *waits);

/*
 * Before the store is asked the first time, so that nothing is missed: from now on the wait is told of
 * changes of `call_sid`, which is borrowed. Does nothing if nobody can wait (any longer), or without memory.
 */
void allocate_waits_add(struct allocate_waits *waits, struct allocate_wait *wait, const char *call_sid);

/* The store has said that the call waits. False: it must be answered now. True: `wake` comes. */
bool allocate_waits_sleep(struct allocate_waits *waits, struct allocate_wait *wait) MUST_CHECK;

/* The same after the store could not answer: it is asked again soon. */
bool allocate_waits_retry(struct allocate_waits *waits, struct allocate_wait *wait) MUST_CHECK;

/* After WAKE_LOOK: the client is still there. */
void allocate_waits_sleep_on(struct allocate_waits *waits, struct allocate_wait *wait);

/* Before the request is answered; as often as one likes. */
void allocate_waits_remove(struct allocate_waits *waits, struct allocate_wait *wait);

/* See store_on_changed: may be called while the store works. */
void allocate_waits_call_changed(struct allocate_waits *waits, const char *call_sid);

/* Everybody asks, and may not sleep after that. Whoever wants to go on asks again, and must be allowed to. */
void allocate_waits_send_away(struct allocate_waits *waits);

/* The same, and from now on nobody can wait. Must come before the loop ends. */
void allocate_waits_stop(struct allocate_waits *waits);

#endif
