/*
 * backoff.h - the wait after a failure, as client-go does it: 0.8 s, doubling to 30 s, each
 * stretched by up to as much again, and from the start after two minutes without one. Does not look
 * at any clock.
 */
#ifndef K8S_BACKOFF_H
#define K8S_BACKOFF_H

#include "base/base.h"

enum {
    K8S_BACKOFF_MIN_MS = 800,
    K8S_BACKOFF_MAX_MS = 30000,
    K8S_BACKOFF_QUIET_MS = 120000,
    K8S_RETRY_AFTER_MAX_S = 30,
};

/* All zero to begin with. */
struct k8s_backoff {
    uint64_t step_ms;  /* the next one, before it is stretched */
    uint64_t until_ms; /* when the last one ends */
};

/*
 * The wait for a failure at `now_ms`, at least `at_least_ms`, which is what the server asks for. `random` is
 * any number: 0 stretches by nothing, UINT32_MAX to the double.
 */
uint64_t k8s_backoff_next(struct k8s_backoff *backoff, uint64_t now_ms, uint64_t at_least_ms,
                          uint32_t random);

/*
 * What the server asks for by Retry-After, or in the details of a Status, as far as it is honoured: whoever
 * asks for an hour would be without news for an hour.
 */
uint64_t k8s_retry_after_ms(double seconds);

#endif
