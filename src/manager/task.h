/*
 * task.h - one piece of background work: runs now and then, in steps that each ask the store one thing.
 *
 * A run that fails is tried again from its beginning, after a pause that doubles up to the task's interval
 * and is never quite the same, so that many replicas do not come back at once. Inside the room only.
 */
#ifndef MANAGER_TASK_H
#define MANAGER_TASK_H

#include <uv.h>

#include "metrics/metrics.h"
#include "store/store.h"

enum {
    TASK_BACKOFF_MIN_MS = 500,
    TASK_STEPS_MAX = 10000, /* of one run; what is left then waits for the next run */
    TASK_ARENA_MAX = 64 * 1024 * 1024,
};

/* Fills the first command of a run. What it points to must stay until the run is over. */
typedef void (*task_begin_fn)(void *arg, struct command *ret_command);

/* Takes the answer to `command`. True: go on with *command, which it may have changed. */
typedef bool (*task_step_fn)(void *arg, const struct result *result, struct command *command);

struct task {
    /* Set by the owner before task_init. */
    const char *name;
    uint64_t interval_ms;
    task_begin_fn begin;
    task_step_fn step;
    void *arg;
    struct store *store;
    struct metrics_series *failures_total;
    struct metrics_family *store_durations; /* labelled with the command */

    uv_timer_t timer;
    struct arena arena; /* emptied after each step */
    struct command command;
    uint64_t asked_ns;
    unsigned steps;
    unsigned failures; /* in a row */
    bool is_waiting;   /* for the store */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

void task_init(struct task *task, uv_loop_t *loop);

/* The first run begins after `delay_ms`; 0: now. */
void task_start(struct task *task, uint64_t delay_ms);

/* Waits for an answer that is under way, then calls `stopped`, later; afterwards the task is released. */
void task_stop(struct task *task, void (*stopped)(void *arg), void *arg);

/* How long to wait after that many failures in a row; `random` makes it less by up to a half. */
uint64_t task_backoff_ms(unsigned failures, uint64_t interval_ms, uint32_t random);

#endif
