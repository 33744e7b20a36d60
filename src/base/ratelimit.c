/*
 * ratelimit.c - counts events in an interval, and decides whether one more is allowed.
 */
#include "base/ratelimit.h"

bool ratelimit_passes(struct ratelimit *limit, size_t burst, uint64_t interval_ms, uint64_t now_ms)
{
    if (limit->begun_ms == 0 || now_ms - limit->begun_ms >= interval_ms) {
        limit->begun_ms = max_u64(now_ms, 1);
        limit->passed = 0;
    }
    if (limit->passed >= burst)
        return false;
    limit->passed++;
    return true;
}
