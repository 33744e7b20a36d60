/*
 * log_repeat.c - counts an event that repeats, and decides when the next log line about it is due.
 */
#include "base/log_repeat.h"

bool log_burst_passes(struct log_burst *burst, size_t max, uint64_t interval_ms, uint64_t now_ms)
{
    if (burst->begun_ms == 0 || now_ms - burst->begun_ms >= interval_ms) {
        burst->begun_ms = max_u64(now_ms, 1);
        burst->passed = 0;
    }
    if (burst->passed >= max)
        return false;
    burst->passed++;
    return true;
}

bool log_repeat_is_due(struct log_repeat *repeat, size_t count, uint64_t now_ms, uint64_t every_ms,
                       size_t *ret_count)
{
    repeat->count += count;
    if (repeat->count == 0 || !log_burst_passes(&repeat->lines, 1, every_ms, now_ms))
        return false;
    if (ret_count)
        *ret_count = repeat->count;
    repeat->count = 0;
    return true;
}

void log_repeat_restart(struct log_repeat *repeat)
{
    *repeat = (struct log_repeat){0};
}
