/*
 * top_guard.h - runs a full-screen program in a process of its own, and gives the terminal back however that
 * process ends: also after an assertion, a sanitizer's report or kill -9.
 */
#ifndef CLI_TOP_GUARD_H
#define CLI_TOP_GUARD_H

#include <signal.h>

#include "base/base.h"

/* Returns the exit status. */
typedef int (*top_guard_fn)(void *arg);

/*
 * Runs `run` in a child, and returns its exit status. Standard input and output must be a terminal that can
 * show a full screen: otherwise it says so and returns EXIT_USAGE. What the child writes to standard error is
 * held back until the terminal is as it was. SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGWINCH are blocked in the
 * child, which takes them with top_guard_signals().
 */
int top_guard_run(top_guard_fn run, void *arg);

/* The signals that the child takes from a signalfd. */
void top_guard_signals(sigset_t *ret_signals);

#endif
