/*
 * inherited.c - reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, and checks the sockets that they promise.
 */
#include "app/inherited.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

static const char *const names[INHERITED_COUNT] = {
    [INHERITED_HTTP] = "http",
    [INHERITED_HTTPS] = "https",
    [INHERITED_METRICS] = "metrics",
};

/* The number in a variable; -1: it is not set, or no number. */
static long number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long value;

    if (!text || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    value = strtol(text, &end, 10);
    return errno == 0 && !*end ? value : -1;
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static const char *socket_problem(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN);

    if (fcntl(fd, F_GETFD) < 0)
        return "is not open";
    if (domain != AF_INET && domain != AF_INET6)
        return "is no TCP socket";
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM)
        return "is no TCP socket";
    return socket_option(fd, SO_ACCEPTCONN) == 1 ? NULL : "does not listen";
}

/* The listener with this name; a socket that is alone needs none. INHERITED_COUNT: there is no such listener.
 */
static size_t listener_of(const char *name, size_t len, long count)
{
    size_t i = 0;

    while (i < INHERITED_COUNT && (strlen(names[i]) != len || strncmp(names[i], name, len) != 0))
        i++;
    return i == INHERITED_COUNT && count == 1 ? INHERITED_HTTP : i;
}

static int inherited_add(struct inherited *inherited, int fd, const char *name, size_t len, long count,
                         char *error, size_t error_size)
{
    size_t listener = listener_of(name, len, count);
    const char *problem;

    if (listener == INHERITED_COUNT) {
        snprintf(error, error_size, "LISTEN_FDNAMES: \"%.*s\" is none of http, https, metrics",
                 (int)min_u64(len, 64), name);
        return -EINVAL;
    }
    if (inherited->fds[listener] >= 0) {
        snprintf(error, error_size,
                 "LISTEN_FDNAMES: there are two sockets with the name %s; use one that listens on "
                 "[::], which serves IPv4 as well",
                 names[listener]);
        return -EINVAL;
    }
    problem = socket_problem(fd);
    if (problem) {
        snprintf(error, error_size, "LISTEN_FDS: descriptor %d (%s) %s", fd, names[listener], problem);
        return -EINVAL;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    inherited->fds[listener] = fd;
    return 0;
}

int inherited_find(struct inherited *ret_inherited, char *error, size_t error_size)
{
    struct inherited found = {.fds = {-1, -1, -1}};
    const char *rest = getenv("LISTEN_FDNAMES");
    long count = number_in("LISTEN_FDS");

    *ret_inherited = found;
    /* What is meant for another process is not ours: a program between systemd and the router left it there.
     */
    if (count <= 0 || number_in("LISTEN_PID") != getpid())
        return 0;
    if (count > INHERITED_COUNT) {
        snprintf(error, error_size, "LISTEN_FDS: there are %ld sockets; the router has use for three at most",
                 count);
        return -EINVAL;
    }
    rest = rest ? rest : "";
    for (int i = 0; i < count; i++) {
        size_t len = strcspn(rest, ":");
        int err = inherited_add(&found, FIRST_FD + i, rest, len, count, error, error_size);

        if (err < 0)
            return err;
        rest += len + (rest[len] == ':');
    }
    *ret_inherited = found;
    return 0;
}
