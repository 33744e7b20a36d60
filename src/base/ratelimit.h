/*
 * ratelimit.h - how often something may happen.
 *
 * At most `burst` times in `interval_ms`, counted from the first of them. Zeroed, nothing has happened yet.
 * The times are of whatever clock the owner uses, always the same one.
 */
#ifndef BASE_RATELIMIT_H
#define BASE_RATELIMIT_H

#include "base/base.h"

struct ratelimit {
    uint64_t begun_ms; /* when the interval began; 0: never */
    size_t passed;     /* since then */
};

bool ratelimit_passes(struct ratelimit *limit, size_t burst, uint64_t interval_ms, uint64_t now_ms);

#endif
