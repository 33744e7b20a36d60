/*
 * clock_shim.c - gives a server a clock that a test owns: preloaded, it takes the wall-clock time from a
 * file.
 *
 * CLOCK_SHIM_FILE names a file with eight bytes: milliseconds since 1970, in the machine's own order. The
 * test maps the same file and moves the time on. Clocks that only measure how much time has passed stay real.
 * CLOCK_SHIM_OFFSET_FILE names one with seconds that are added to the real time instead: a clock that
 * runs by itself, and jumps when the test says so.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile uint64_t *shared_ms;
static const volatile int64_t *offset_s;
static int (*real_gettime)(clockid_t, struct timespec *);
static FILE *(*real_fopen)(const char *, const char *);

/* dlsym() gives a pointer to an object, by its type; POSIX says that it may be a function. */
static void find_real(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(function, &found, sizeof(found));
}

/* NULL: the variable is not set, or names nothing that can be read. */
static const void *map_file_of(const char *variable)
{
    const char *path = getenv(variable);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const void *page;

    if (fd < 0)
        return NULL;
    page = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return page != MAP_FAILED ? page : NULL;
}

__attribute__((constructor)) static void clock_shim_open(void)
{
    find_real("clock_gettime", &real_gettime);
    shared_ms = map_file_of("CLOCK_SHIM_FILE");
    offset_s = map_file_of("CLOCK_SHIM_OFFSET_FILE");
}

static int really_gettime(clockid_t id, struct timespec *at)
{
    return real_gettime ? real_gettime(id, at) : (int)syscall(SYS_clock_gettime, id, at);
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    if ((!shared_ms && !offset_s) || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return really_gettime(id, at);
    if (shared_ms) {
        at->tv_sec = (time_t)(*shared_ms / 1000);
        at->tv_nsec = (long)(*shared_ms % 1000) * 1000000;
        return 0;
    }
    if (really_gettime(id, at))
        return -1;
    at->tv_sec += (time_t)*offset_s;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    if (shared_ms && strcmp(path, "/dev/urandom") == 0)
        return NULL;
    if (!real_fopen)
        find_real("fopen", &real_fopen);
    return real_fopen(path, mode);
}

pid_t getpid(void)
{
    return shared_ms ? 4242 : (pid_t)syscall(SYS_getpid);
}
