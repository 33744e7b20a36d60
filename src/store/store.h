/*
 * store.h - where the state lives. The one interface; who is behind it, its users do not know.
 *
 * Everything here runs on the loop thread. Asynchronous, as everywhere: a starter that returns 0
 * runs its callback exactly once, later, never inside the call; a negative errno means that it
 * never will.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <uv.h>

#include "core/command.h"
#include "store/event.h"

struct store; /* opaque; the first member of every store's own struct */

/*
 * `err` 0: `result` is the answer, valid until the arena given with the command is released.
 *
 * `err` < 0: the store could not answer (which does not mean "absent"); result is NULL. -EIO,
 * -ENOSPC: it cannot make changes durable now. -ENOTCONN, -ETIMEDOUT: out of reach. -ECANCELED: the
 * store is closing. A command that fails may nevertheless have been carried out, as after any lost
 * answer; asking again is safe.
 */
typedef void (*store_done_fn)(void *arg, int err, const struct result *result);

/*
 * Carries out `command`. `command` itself is copied, what it points to and `arena` are borrowed
 * until the callback has run. -ENOSPC, -EIO, -ENOTCONN, -EBUSY (too many waiting): refused at once,
 * nothing happens.
 */
int store_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                  void *arg) MUST_CHECK;

/*
 * Every call that ends without being released is told to `fn`, once, by the process that noticed.
 * For the log and the metrics: it runs while a command is being carried out and must not use the
 * store.
 */
void store_on_ended(struct store *store, call_ended_fn fn, void *arg);

/*
 * A call that this process carries (COMMAND_HOLD, COMMAND_RENEW with a carrier) was ended on
 * purpose: its connections have nothing to stand for any more. A store of one process tells it
 * while a command is carried out: `fn` must not use the store then. A store that several processes
 * share tells it a little later, also when the call was lost, and the call may have begun anew
 * meanwhile: the next renewal says what is true. If the store was out of reach it may not be told
 * at all.
 */
void store_on_finished(struct store *store, call_finished_fn fn, void *arg);

/*
 * Something happened to a call that this process holds (COMMAND_KEEP, COMMAND_ALLOCATE with a holder)
 * or carries: it was granted a pod, moved to another one, or its wait has ended. The next keep, hold or
 * renewal says what is true. Told as store_on_finished is: `fn` must not use the store.
 */
void store_on_changed(struct store *store, call_changed_fn fn, void *arg);

/*
 * The store can be asked again after it was out of reach, or was emptied: it may have lost what it
 * was told last. What `fn` asks for is asked before everything else that waits. Never inside a call
 * of this header.
 */
typedef void (*store_back_fn)(void *arg);
void store_on_back(struct store *store, store_back_fn fn, void *arg);

/*
 * From here on what the commands of this process do is published, for every process on the same
 * store to see. `replica` names this process in letters, digits and . _ - only; copied. Without it
 * nothing is published nor told. Before store_on_ended.
 */
int store_start_events(struct store *store, uv_loop_t *loop, const char *replica) MUST_CHECK;

/*
 * What no command does, such as a change of leaders. Copies the event; it is sent a little later,
 * together with others. Nobody's work depends on it: what cannot be sent or is too much is dropped
 * and counted.
 */
void store_publish(struct store *store, const struct event *event);

/*
 * Events of all processes, our own included, in the order in which they came; borrowed for the
 * call. NULL and 0: from here on none is missed, which is not known before, nor while the store is
 * out of reach.
 */
typedef void (*store_event_fn)(void *arg, const struct event_text *events, size_t count);

/*
 * Tells `fn`, from now on, never inside a call of this header; NULL: nobody any more, which costs
 * least.
 */
void store_on_event(struct store *store, store_event_fn fn, void *arg);

/*
 * Why a store did not answer, in words for a log, from the `err` of store_done_fn or store_execute.
 */
const char *store_error_text(int err);

struct store_health {
    bool is_ready;      /* would an allocation be answered now? */
    const char *name;   /* "embedded" or "redis" */
    const char *detail; /* why it is not ready; "" if it is */
    bool is_shared;     /* may other processes use the same state? */
};

void store_health(const struct store *store, struct store_health *ret_health);

/* What a store has done since its start; the metrics read it when they are scraped. */
struct store_stats {
    uint64_t commands;
    uint64_t errors; /* commands answered with err < 0, or refused */
    uint64_t writes; /* batches written, or scripts called */
    uint64_t written_bytes;
    uint64_t syncs;
    uint64_t snapshots;
    uint64_t events_dropped;
    uint64_t tier_errors; /* stored tier configurations that were refused */
    uint64_t wipes;       /* times that the store had lost everything */
};

void store_stats(const struct store *store, struct store_stats *ret_stats);

/* A process that shares the store. */
struct store_router {
    const char *name;
    const char *version; /* "": not known; "older": it does not tell */
    uint64_t silent_ms;  /* since its last sign of life */
};

/* For operators who look for a fault: what only a store that several processes share can tell. */
struct store_facts {
    uint64_t clock_ms; /* of the store's server, when it answered */
    const struct store_router *routers;
    size_t router_count;
    bool has_server; /* false: it does not tell, and the members below are unset */
    struct {
        const char *version;
        const char *role;            /* "master" or "slave" */
        const char *eviction_policy; /* "noeviction": nothing is thrown away */
        bool logs_writes;            /* to its disk: append-only file */
        bool fails_to_log;
        bool fails_to_save; /* the last snapshot */
        uint64_t max_memory;
        uint64_t used_memory;
        uint64_t evicted_keys;
        uint64_t replicas;
    } server;
};

/* `err` 0: the facts that were asked for are filled in. */
typedef void (*store_facts_fn)(void *arg, int err);

/*
 * Asks for them, with two requests to the server. Texts are in `arena`, which must stay, as `ret_facts`
 * must. -ENOTSUP: the store is this process's own, and there are none; as store_execute otherwise.
 */
int store_ask_facts(struct store *store, struct arena *arena, struct store_facts *ret_facts,
                    store_facts_fn done, void *arg) MUST_CHECK;

/*
 * Finishes what is pending, makes it durable, and frees the store; then calls `closed`. Commands
 * started before are still answered; none may be started after.
 */
typedef void (*store_closed_fn)(void *arg);
void store_close(struct store *store, store_closed_fn closed, void *arg);

/*
 * The log line of a wait that has ended without a pod: the same one, whichever module ends it (wait_log.c).
 * `reason` is for the operator; STORE_WAITED_TOO_LONG is that of WAIT_TIMED_OUT.
 */
void store_log_wait_ended(const struct ended_wait *wait, const char *reason);
#define STORE_WAITED_TOO_LONG "no pod became free in the time that the call may wait"

/* The same for the answer to a release or an undo, if that has ended a wait (release_ends_wait). */
void store_log_wait_released(const struct result *result, const char *reason);

/* `err` 0: the lines were sent to everybody who listens. -EACCES: that is forbidden here. */
typedef void (*store_published_fn)(void *arg, int err);

/* What a store implements. */
struct store_ops {
    int (*execute)(struct store *store, const struct command *command, struct arena *arena,
                   store_done_fn done, void *arg);
    void (*on_ended)(struct store *store, call_ended_fn fn, void *arg);
    void (*on_finished)(struct store *store, call_finished_fn fn, void *arg);
    void (*on_changed)(struct store *store, call_changed_fn fn, void *arg);
    void (*health)(const struct store *store, struct store_health *ret_health);
    void (*stats)(const struct store *store, struct store_stats *ret_stats);
    void (*close)(struct store *store, store_closed_fn closed, void *arg);
    /*
     * For events, of a store that several processes share; else both are NULL. `publish` sends
     * lines, copied, to all of them. While `listen` wants them, those that come are given to
     * feed_received.
     */
    int (*publish)(struct store *store, struct slice lines, store_published_fn done, void *arg);
    void (*listen)(struct store *store, bool is_wanted);
    /* Of a store that several processes share; else NULL. See store_ask_facts. */
    int (*ask_facts)(struct store *store, struct arena *arena, struct store_facts *ret_facts,
                     store_facts_fn done, void *arg);
};

struct feed; /* see feed.h */

struct store {
    const struct store_ops *ops;
    struct feed *feed; /* NULL: no events */
    store_back_fn on_back;
    void *on_back_arg;
    uint64_t attempts; /* the last one, see COMMAND_UNDO; 0: none yet */
    store_closed_fn closed;
    void *closed_arg;
};

#endif
