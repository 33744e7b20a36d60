/*
 * net.h - the event loop of a simulator, and the buffer that its connections share.
 */
#ifndef TOOLS_NET_H
#define TOOLS_NET_H

#include <uv.h>

enum {
    NET_READ_MAX = 64 * 1024,
    NET_BACKLOG = 1024,
};

/* What all links of a process share. */
struct net {
    uv_loop_t loop;
    char buffer[NET_READ_MAX]; /* whatever is read is used up before the next read */
};

/*
 * Also lets the process open as many files as the system allows. Ends the process where there is no
 * loop.
 */
void net_init(struct net *net);
void net_release(struct net *net);

#endif
