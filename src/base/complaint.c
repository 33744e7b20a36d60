/*
 * complaint.c - counts an event that repeats, and decides when the next log line about it is due.
 */
#include "base/complaint.h"

bool complaint_is_due(struct complaint *complaint, size_t count, uint64_t now_ms, uint64_t every_ms,
                      size_t *ret_count)
{
    complaint->count += count;
    if (complaint->count == 0 || !ratelimit_passes(&complaint->limit, 1, every_ms, now_ms))
        return false;
    *ret_count = complaint->count;
    complaint->count = 0;
    return true;
}
