/*
 * complaint.h - what may happen any number of times, and is logged now and then with how often it was.
 *
 * Zeroed, nothing has happened yet. The times are of whatever clock the owner uses, always the same one.
 */
#ifndef BASE_COMPLAINT_H
#define BASE_COMPLAINT_H

#include "base/ratelimit.h"

struct complaint {
    size_t count; /* that no line has told of */
    struct ratelimit limit;
};

/* `count` more: is it time for a line about them? Then *ret_count is how many it tells of. */
bool complaint_is_due(struct complaint *complaint, size_t count, uint64_t now_ms, uint64_t every_ms,
                      size_t *ret_count);

#endif
