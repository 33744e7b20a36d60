/*
 * breaker.h - the circuit breaker: stops asking a router that does not answer.
 *
 * Closed: everything passes; failures in a row open it. Open: nothing passes until its time is over. Half
 * open: a few requests pass; that many successes close it, one failure opens it again.
 *
 * There is one for each router URL in a process, whoever asks. It lives as long as the process. Any thread
 * may call these functions. They do no I/O and do not log.
 */
#ifndef SR_BREAKER_H
#define SR_BREAKER_H

#include "smartrouter.h"

#include <stdbool.h>
#include <stdint.h>

struct sr_breaker;

struct sr_breaker_limits {
    int failures;    /* in a row, until it opens */
    int64_t open_ms; /* how long it stays open */
    int half_open;   /* successes that close it; so many requests pass while it is half open */
};

/* What admits one request. Its verdict counts only in the state in which it was given. */
struct sr_permit {
    uint64_t generation;
};

enum sr_verdict {
    SR_SUCCESS, /* the router answered */
    SR_FAILURE, /* it did not, or said that it cannot */
    SR_UNKNOWN, /* the request was not sent */
};

enum {
    SR_BREAKERS_MAX = 64 /* URLs that are remembered; those that nobody uses make room */
};

/* NULL: no memory, or SR_BREAKERS_MAX URLs are in use. */
struct sr_breaker *sr_breaker_take(const char *url);
void sr_breaker_give_back(struct sr_breaker *breaker);

/* false: open, or half open and enough requests are on their way. */
bool sr_breaker_admit(struct sr_breaker *breaker, const struct sr_breaker_limits *limits, int64_t now_ms,
                      struct sr_permit *ret_permit);

/* Every permit has one verdict. Returns the state after it. */
enum smartrouter_breaker_state sr_breaker_judge(struct sr_breaker *breaker,
                                                const struct sr_breaker_limits *limits, int64_t now_ms,
                                                struct sr_permit permit, enum sr_verdict verdict);

enum smartrouter_breaker_state sr_breaker_state(struct sr_breaker *breaker,
                                                const struct sr_breaker_limits *limits, int64_t now_ms);

/* How long until it may admit again; 0: now. */
int64_t sr_breaker_wait_ms(struct sr_breaker *breaker, const struct sr_breaker_limits *limits,
                           int64_t now_ms);

/* Closed, as at the start. */
void sr_breaker_reset(struct sr_breaker *breaker);

#endif
