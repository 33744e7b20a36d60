#include "base/complaint.h"

bool complaint_is_due(struct complaint *complaint, size_t count, uint64_t now_ms, uint64_t every_ms,
                      size_t *ret_count)
{
    complaint->count += count;
    if (complaint->count == 0 || (complaint->told_ms && now_ms - complaint->told_ms < every_ms))
        return false;
    *ret_count = complaint->count;
    complaint->count = 0;
    complaint->told_ms = max_u64(now_ms, 1);
    return true;
}
