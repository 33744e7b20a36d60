/*
 * fake_k8s.h - an API client and a clock that a unit test owns: it sees each request and answers it when it
 * likes, and time passes when it says so.
 *
 * Takes the place of k8s/client.c, and by the linker's --wrap that of the clocks, libuv's timers and the
 * random bytes: see test/meson.build. No request is sent, nobody waits.
 */
#ifndef TEST_SUPPORT_FAKE_K8S_H
#define TEST_SUPPORT_FAKE_K8S_H

#include <cjson/cJSON.h>

#include "k8s/client.h"

enum { FAKE_REQUESTS_MAX = 64 };

struct k8s_request {
    enum k8s_method method;
    char *path;
    char *body;
    uint64_t timeout_ms;
    k8s_done_fn done;
    void *arg;
};

struct fake_k8s {
    uv_loop_t loop;
    struct k8s_request *requests[FAKE_REQUESTS_MAX]; /* under way, oldest first */
    size_t count;
    size_t sent;      /* ever */
    size_t cancelled; /* ever */
    int refuse;       /* what k8s_client_send() gives next; 0: it takes the request */
    uint32_t random;  /* what getrandom() gives */
    uint64_t elapsed_ms;
    uint64_t wall_ms;
};

/* The one that is in use: the functions it stands in for have no argument to find it by. */
extern struct fake_k8s fake;

void fake_init(void);

/* Fails if a request is left under way or the loop still has something to do. */
void fake_release(void);

/* The client to hand to whoever needs one. */
struct k8s_client *fake_client(void);

/* Takes the oldest request out and answers it. */
void fake_answer(int status, const char *body);
void fake_answer_later(int status, const char *body, uint64_t retry_after_ms); /* with a Retry-After */
void fake_fail(int err);

/* Answers one that is not the oldest. */
void fake_answer_at(size_t index, int status, const char *body);

/* Lets time pass: timers run in their order. */
void fake_advance(uint64_t ms);

/* Time passes, but nothing runs: as for a process that was stopped. */
void fake_sleep(uint64_t ms);

/* Runs what is due now: callbacks of closed handles, timers of no time at all. */
void fake_turn(void);

#endif
