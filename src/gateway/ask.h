/*
 * ask.h - sends one command to the store and measures the time of its answer. Inside the module
 * only.
 */
#ifndef GATEWAY_ASK_H
#define GATEWAY_ASK_H

#include "metrics/metrics.h"
#include "store/store.h"

struct asker {
    struct store *store;
    struct metrics_family *durations; /* labelled with the command */
};

struct ask {
    unsigned magic;
    const struct asker *asker;
    enum command_type type;
    uint64_t asked_ns;
    store_done_fn done;
    void *arg;
};

/* 0, or -ENOMEM. */
int asker_init(struct asker *asker, struct store *store, struct metrics *metrics) MUST_CHECK;

/* As store_execute. `ask` must stay until `done` runs. */
int ask_store(const struct asker *asker, struct ask *ask, const struct command *command, struct arena *arena,
              store_done_fn done, void *arg) MUST_CHECK;

#endif
