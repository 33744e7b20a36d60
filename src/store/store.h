/*
 * store.h - where the state lives. The one interface; who is behind it, its users do not know.
 *
 * Everything here runs on the loop thread. Asynchronous, as everywhere: a starter that returns 0 runs its
 * callback exactly once, later, never inside the call; a negative errno means that it never will.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "core/command.h"

struct store; /* opaque; the first member of every store's own struct */

/*
 * `err` 0: `result` is the answer, valid until the arena given with the command is released.
 *
 * `err` < 0: the store could not answer (SPEC 2.8: that is not "absent"); result is NULL. -EIO, -ENOSPC: it
 * cannot make changes durable now. -ENOTCONN, -ETIMEDOUT: out of reach. -ECANCELED: the store is closing. A
 * command that fails may nevertheless have been carried out, as after any lost answer; asking again is safe.
 */
typedef void (*store_done_fn)(void *arg, int err, const struct result *result);

/*
 * Carries out `command`. `command` itself is copied, what it points to and `arena` are borrowed until the
 * callback has run. -ENOSPC, -EIO, -ENOTCONN, -EBUSY (too many waiting): refused at once, nothing happens.
 */
int store_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                  void *arg) MUST_CHECK;

/*
 * Every call that ends without being released is told to `fn`, once, by the process that noticed. For the log
 * and the metrics: it runs while a command is being carried out and must not use the store.
 */
void store_on_ended(struct store *store, call_ended_fn fn, void *arg);

struct store_health {
    bool is_ready;      /* would an allocation be answered now? */
    const char *name;   /* "embedded" or "redis" */
    const char *detail; /* why it is not ready; "" if it is */
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
};

void store_stats(const struct store *store, struct store_stats *ret_stats);

/*
 * Finishes what is pending, makes it durable, and frees the store; then calls `closed`. Commands started
 * before are still answered; none may be started after.
 */
typedef void (*store_closed_fn)(void *arg);
void store_close(struct store *store, store_closed_fn closed, void *arg);

/* What a store implements. */
struct store_ops {
    int (*execute)(struct store *store, const struct command *command, struct arena *arena,
                   store_done_fn done, void *arg);
    void (*on_ended)(struct store *store, call_ended_fn fn, void *arg);
    void (*health)(const struct store *store, struct store_health *ret_health);
    void (*stats)(const struct store *store, struct store_stats *ret_stats);
    void (*close)(struct store *store, store_closed_fn closed, void *arg);
};

struct store {
    const struct store_ops *ops;
};

#endif
