/*
 * net.c - sets up the process of a simulator and its event loop.
 */
#include "net.h"

#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

void net_init(struct net *net)
{
    struct rlimit files;

    signal(SIGPIPE, SIG_IGN);
    /*
     * Whoever is woken by a frame waits until the waker has sent the others that are due. Where
     * both ends of the calls share a core, they would otherwise take turns for every single frame.
     */
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (uv_loop_init(&net->loop) != 0) {
        fputs("no event loop\n", stderr);
        exit(1);
    }
}

void net_release(struct net *net)
{
    int r = uv_loop_close(&net->loop);

    assert(r == 0);
}
