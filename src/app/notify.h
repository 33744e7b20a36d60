/*
 * notify.h - tells systemd, or whoever else started the router and listens on NOTIFY_SOCKET, how it is.
 *
 * That is the protocol of sd_notify(3): ready, stopping, a status in words, and the watchdog's pings. The
 * pings come from a timer of the loop: if the loop hangs they stay away, and systemd restarts the router.
 * Without NOTIFY_SOCKET nothing here does anything.
 */
#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

#include <uv.h>

#include "base/base.h"

struct notify {
    int fd; /* -1: nobody listens */
    union {
        struct sockaddr any;
        struct sockaddr_un un;
    } to;
    socklen_t to_len;
    uint64_t watchdog_ms; /* 0: nobody waits for pings */
    uv_timer_t timer;
    bool is_stopping;
};

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. If they are bad, that is logged, and nobody is told
 * anything.
 */
void notify_init(struct notify *notify, uv_loop_t *loop);

/* The router listens, on `port` for the API. The pings begin. */
void notify_ready(struct notify *notify, uint16_t port);

/*
 * The router stops from now on. Until notify_close, a hanging loop aside, systemd is asked again and again
 * for more time: the longest call decides how long it takes, and only the router knows when to cut it.
 */
void notify_stopping(struct notify *notify);

/* While it stops: so many streams are left, and are cut after so many seconds. */
void notify_streams(struct notify *notify, size_t streams, uint64_t cut_after_s);

void notify_close(struct notify *notify);

#endif
