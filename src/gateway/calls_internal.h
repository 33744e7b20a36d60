/*
 * calls_internal.h - what the files of the calls share: calls.c, call_finish.c, call_renewal.c,
 * call_release.c.
 */
#ifndef GATEWAY_CALLS_INTERNAL_H
#define GATEWAY_CALLS_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "gateway/calls.h"

enum {
    CALLS_MAGIC = 0x63616c73,
    HELD_CALL_MAGIC = 0x68656c64,
};

enum call_phase {
    CALL_HELD,      /* has connections */
    CALL_LOOKING,   /* has none: the store is asked when its lease ends */
    CALL_WAITING,   /* may come back */
    CALL_RELEASING, /* too late */
    CALL_UNHOLDING, /* the store is told that it is not carried here any more; it is not released */
};

struct held_call {
    unsigned magic;
    struct calls *calls;
    struct map_node node;
    struct list link;       /* among those that are open, or those that wait */
    struct list due_link;   /* to be renewed */
    struct list renew_link; /* being renewed */
    enum call_phase phase;
    unsigned holds;
    unsigned open;
    unsigned tries;
    bool was_open;       /* here, or elsewhere before */
    bool is_ours;        /* it is to be released even if it never was open */
    bool is_in_store;    /* the store may know that we carry it */
    bool is_finished;    /* its connections are being closed */
    bool is_displaced;   /* why: it was not where we had it */
    bool may_begin_anew; /* it was over when the store was asked for it: if it is there, it is another one */
    bool has_moved;      /* since the last renewal was sent */
    bool is_unknown;     /* to the store, when it was last asked */
    bool has_come_back;  /* while the store was being asked */
    bool awaits_renewal; /* looking, but not asked for yet */
    bool was_carried;    /* by another router, when we were to release it */
    uint64_t expires_at_ms; /* when its last connection had closed; 0: not known yet */
    uint64_t deadline_ms;   /* uv_now */
    struct ask ask;
    struct arena arena;
    unsigned movable; /* open connections that can go on with another pod */
    unsigned resumed; /* how often the call has come back to a pod */
    struct {
        struct list link; /* there is something to be asked */
        struct ask ask;
        struct arena arena;
        unsigned tries;
        bool is_asking;
        bool wants_end;    /* the store is to end it */
        bool wants_place;  /* the store is to say where it is */
        bool is_forgotten; /* it is gone, but for this */
        const char *reason;
    } errand; /* of call_finish.c: while there are connections, and beside the phase */
    char call_sid[CALL_SID_MAX + 1];
    char pod[POD_NAME_MAX + 1];      /* "": not known yet */
    char provider[PROVIDER_MAX + 1]; /* whose call it is, for a store that has lost it; "": not known */
};

struct calls {
    unsigned magic;
    uv_loop_t *loop;
    struct calls_settings settings;
    const char *carrier;
    const struct asker *asker;
    struct metrics_family *releases;
    struct metrics_family *waits; /* how they ended */
    struct map by_sid;
    struct list open;
    struct list due;
    struct list being_renewed;
    struct list waiting; /* in the order of their deadlines */
    uv_timer_t wait_timer;
    uv_timer_t renew_timer;
    uv_timer_t unknown_timer;
    struct list errands;
    uv_timer_t errand_timer;
    struct ask renew_ask;
    struct arena renew_arena;
    size_t renewing; /* how many calls; 0: the store is not being asked */
    unsigned handles;
    bool is_leaving;
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

/* calls.c */
struct held_call *calls_find(const struct calls *calls, const char *call_sid);
void call_forget(struct held_call *call);
void calls_go_if_stopped(struct calls *calls);
/* Sends a command about the call, with its own arena. As store_execute. */
int call_ask(struct held_call *call, const struct command *command, store_done_fn done) MUST_CHECK;

/* call_renewal.c: asks for all that are due, unless that is under way; and when all are due next. */
void calls_renew_due(struct calls *calls);
void calls_await_renewal(struct calls *calls, uint64_t delay_ms);
/* The call is due. */
void call_make_due(struct held_call *call);
/* It is over: its connections are to be closed. */
void call_set_finished(struct held_call *call, const char *reason);
/* The same, because it is not where it was thought to be. */
void call_set_displaced(struct held_call *call);

/* call_finish.c: asks where the call is. */
void call_ask_place(struct held_call *call);
/* Must the call stay, because the store is being asked? Then it is forgotten after the answer. */
bool call_has_errand(struct held_call *call);
/* No further try: the end comes. */
void calls_end_errands(struct calls *calls);
bool call_can_move(const struct held_call *call);

/* call_release.c: counts and logs it. */
void call_note_release(const struct held_call *call, const struct result *result, const char *reason);

/* call_release.c: the last connection has closed. */
void call_look(struct held_call *call);
void call_go_on_looking(struct held_call *call);
/* It is not ours to end: the store hears that it is not carried here any more. */
bool call_is_not_ours(const struct held_call *call);
void call_unhold(struct held_call *call);
/* Its time to come back is over. */
void call_go_on(struct held_call *call);

#endif
