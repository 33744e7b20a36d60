/*
 * redis_server.h - a real redis-server of the test's own, on a socket in a directory of its own.
 */
#ifndef TEST_SUPPORT_REDIS_SERVER_H
#define TEST_SUPPORT_REDIS_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid;
    char dir[64];
    char socket[96];
    char clock_path[96];
    volatile uint64_t *clock_ms; /* the server's time, if it was started with a shim; else NULL */
};

/*
 * Starts it and waits until it answers. `shim`: the path of the clock shim, or NULL for the real time; then
 * the clock starts at `now_ms`. 0; -ENOENT: there is no redis-server; another negative errno.
 */
int redis_server_start(struct redis_server *server, const char *shim, uint64_t now_ms);

/* Ends it and removes its directory. */
void redis_server_stop(struct redis_server *server);

#endif
