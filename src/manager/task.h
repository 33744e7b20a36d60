/*
 * task.h - one background task: runs on a timer, in steps that each send one command to the store.
 *
 * A run that fails is tried again from its beginning, after a pause that doubles up to the task's
 * interval and is never quite the same, so that many replicas do not come back at once. Inside the
 * module only.
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

/*
 * Fills the first command of a run; what it points to must stay until the run is over. 1, 0 if there is
 * nothing to do, or a negative errno: the run has failed.
 */
typedef int (*task_begin_fn)(void *arg, struct command *ret_command);

/*
 * Takes the answer to `command`. 1: go on with *command, which it may have changed; 0: the run is over; a
 * negative errno: it has failed. An answer other than OUTCOME_OK gets here only if the task takes refusals.
 */
typedef int (*task_step_fn)(void *arg, const struct result *result, struct command *command);

struct task {
    unsigned magic; /* set by task_init */
    /* Set by the owner before task_init. */
    const char *name;
    const char *without; /* what it means for calls while it fails */
    uint64_t interval_ms;
    uint64_t backoff_max_ms; /* the longest pause after failures; 0: the interval */
    task_begin_fn begin;
    task_step_fn step;
    bool takes_refusals;
    void *arg;
    struct store *store;
    struct metrics_series *failures_total;
    struct metrics_family *store_durations; /* labelled with the command */

    uv_timer_t timer;
    struct arena arena; /* emptied after each step */
    struct command command;
    uint64_t asked_ns;
    uint64_t delay_ms; /* until the run after this one; begin or step may change it */
    unsigned steps;
    unsigned failures; /* in a row */
    bool is_waiting;   /* for the store */
    bool is_kicked;    /* run again as soon as this run is over */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

void task_init(struct task *task, uv_loop_t *loop);

/* The first run begins after `delay_ms`; 0: now. */
void task_start(struct task *task, uint64_t delay_ms);

/* The next run begins after `delay_ms` at the latest. A task that failed keeps its pause. */
void task_hurry(struct task *task, uint64_t delay_ms);

/* There is something to do: run now, or again after the run under way. A task that failed keeps its pause. */
void task_kick(struct task *task);

/* Waits for an answer that is under way, then calls `stopped`, later; afterwards the task is released. */
void task_stop(struct task *task, void (*stopped)(void *arg), void *arg);

/* How long to wait after that many failures in a row; `random` makes it less by up to a half. */
uint64_t task_backoff_ms(unsigned failures, uint64_t max_ms, uint32_t random);

#endif
