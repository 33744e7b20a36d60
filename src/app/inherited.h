/*
 * inherited.h - listening sockets that systemd opened for the router (socket activation).
 *
 * The protocol is that of sd_listen_fds(3): LISTEN_FDS sockets from descriptor 3 on, for the process
 * LISTEN_PID, with the names of LISTEN_FDNAMES: http, https, metrics. A single socket may have any name and
 * is http. Such a socket stays open when the router is restarted: clients that connect meanwhile wait instead
 * of being refused.
 */
#ifndef APP_INHERITED_H
#define APP_INHERITED_H

#include "base/base.h"

enum inherited_name {
    INHERITED_HTTP,
    INHERITED_HTTPS,
    INHERITED_METRICS,
    INHERITED_COUNT,
};

struct inherited {
    int fds[INHERITED_COUNT]; /* -1: none; the listener opens its own */
};

/*
 * Looks at the environment and at the sockets. -EINVAL: they are not what the router can use; `error` says
 * why in one sentence.
 */
int inherited_find(struct inherited *ret_inherited, char *error, size_t error_size) MUST_CHECK;

#endif
