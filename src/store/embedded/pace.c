/*
 * pace.c - lets a long job rest, so that it never has a core for long.
 */
#include "store/embedded/pace.h"

#include <time.h>

enum {
    PACE_WORK_NS = 100 * 1000,
    PACE_REST_NS = 700 * 1000,
};

/* CPU time, not time: while the job waits for the disk it is in nobody's way. */
static uint64_t cpu_ns(void)
{
    struct timespec time;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) < 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void pace_rest(struct pace *pace)
{
    uint64_t now_ns = cpu_ns();

    if (pace->rested_at_ns == 0) {
        pace->rested_at_ns = now_ns;
        return;
    }
    if (now_ns - pace->rested_at_ns < PACE_WORK_NS)
        return;
    nanosleep(&(struct timespec){.tv_nsec = PACE_REST_NS}, NULL);
    pace->rested_at_ns = cpu_ns();
}
