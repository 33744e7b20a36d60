/* redis_server.c - starts a redis-server with a clock that the test owns, and stops it. */
#include "redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_TRIES = 1000 }; /* of 10 ms */

static int is_there(const char *program)
{
    const char *path = getenv("PATH");
    char copy[4096];
    char file[4200];

    snprintf(copy, sizeof(copy), "%s", path ? path : "");
    for (char *rest = copy, *dir; (dir = strsep(&rest, ":"));) {
        snprintf(file, sizeof(file), "%s/%s", dir, program);
        if (access(file, X_OK) == 0)
            return 1;
    }
    return 0;
}

static int clock_make(struct redis_server *server, uint64_t now_ms)
{
    int fd = open(server->clock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *page;

    if (fd < 0 || pwrite(fd, &now_ms, sizeof(now_ms), 0) != (ssize_t)sizeof(now_ms))
        return -errno;
    page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return -errno;
    server->clock_ms = page;
    return 0;
}

static void run_server(const struct redis_server *server, const char *shim)
{
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies takes its server along */
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    if (shim) {
        setenv("LD_PRELOAD", shim, 1);
        setenv("CLOCK_SHIM_FILE", server->clock_path, 1);
    }
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket, "--save", "",
           "--appendonly", "no", "--dir", server->dir, "--daemonize", "no", "--activerehashing", "no",
           "--jemalloc-bg-thread", "no", (char *)NULL);
    _exit(127);
}

/* Connects once, to see whether it listens. */
static int answers(const struct redis_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->socket);
    ok = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

int redis_server_start(struct redis_server *server, const char *shim, uint64_t now_ms)
{
    int rc = 0;

    memset(server, 0, sizeof(*server));
    if (!is_there("redis-server"))
        return -ENOENT;
    snprintf(server->dir, sizeof(server->dir), "/tmp/redis-test-XXXXXX");
    if (!mkdtemp(server->dir))
        return -errno;
    snprintf(server->socket, sizeof(server->socket), "%s/redis.sock", server->dir);
    snprintf(server->clock_path, sizeof(server->clock_path), "%s/clock", server->dir);
    if (shim)
        rc = clock_make(server, now_ms);
    if (rc)
        return rc;
    server->pid = fork();
    if (server->pid < 0)
        return -errno;
    if (server->pid == 0)
        run_server(server, shim);
    for (int i = 0; i < START_TRIES; i++) {
        if (answers(server))
            return 0;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            redis_server_stop(server);
            return -ECHILD;
        }
        usleep(10000);
    }
    redis_server_stop(server);
    return -ETIMEDOUT;
}

void redis_server_stop(struct redis_server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
    if (server->clock_ms)
        munmap((void *)(uintptr_t)server->clock_ms, sizeof(uint64_t));
    server->clock_ms = NULL;
    unlink(server->socket);
    unlink(server->clock_path);
    rmdir(server->dir);
}
