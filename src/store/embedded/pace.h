/*
 * pace.h - lets a long job rest, so that it never has a core for long.
 *
 * A process with one core has to share it between the event loop and its thread pool. The kernel would
 * give a job the core for several milliseconds at a time, and every call would wait as long. So a job that
 * computes for long calls pace_rest() often, and sleeps most of the time.
 *
 * For jobs on the thread pool. Blocks.
 */
#ifndef STORE_EMBEDDED_PACE_H
#define STORE_EMBEDDED_PACE_H

#include "base/base.h"

struct pace {
    uint64_t rested_at_ns; /* CPU time of the thread after its last rest; 0: it has not begun */
};

/* Sleeps if the thread has computed for long enough since its last rest. Cheap. */
void pace_rest(struct pace *pace);

#endif
