/*
 * backoff.c - computes the wait after a failure, and limits a server's Retry-After.
 */
#include "k8s/backoff.h"

uint64_t k8s_backoff_next(struct k8s_backoff *backoff, uint64_t now_ms, uint64_t at_least_ms, uint32_t random)
{
    uint64_t wait_ms;

    /* Quiet is counted from the end of the wait: waiting is not working. */
    if (backoff->step_ms == 0 || now_ms >= backoff->until_ms + K8S_BACKOFF_QUIET_MS)
        backoff->step_ms = K8S_BACKOFF_MIN_MS;
    wait_ms = max_u64(backoff->step_ms + backoff->step_ms * random / UINT32_MAX, at_least_ms);
    backoff->step_ms = min_u64(backoff->step_ms * 2, K8S_BACKOFF_MAX_MS);
    backoff->until_ms = now_ms + wait_ms;
    return wait_ms;
}

uint64_t k8s_retry_after_ms(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return (uint64_t)(seconds < K8S_RETRY_AFTER_MAX_S ? seconds : K8S_RETRY_AFTER_MAX_S) * 1000;
}
