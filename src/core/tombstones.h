/*
 * tombstones.h - the calls that were ended on purpose lately: no heartbeat and no renewal restores
 * them.
 *
 * Each is kept for ENDED_KEEP_MS, and TOMBSTONES_MAX of them at most: then the oldest is dropped,
 * and a late heartbeat can restore its call until the lease ends.
 */
#ifndef CORE_TOMBSTONES_H
#define CORE_TOMBSTONES_H

#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

enum { TOMBSTONES_MAX = 100000 };

struct tombstone {
    struct map_node node;
    struct list by_age;
    uint64_t at_ms;
    enum finish_reason why;
    char call_sid[];
};

struct tombstones {
    struct map by_call;
    struct list by_age; /* oldest first */
};

void tombstones_init(struct tombstones *tombstones);
void tombstones_release(struct tombstones *tombstones);

/*
 * Remembers the end in place of an older one of that call. 0 or -ENOMEM, then nothing is changed.
 */
int tombstones_add(struct tombstones *tombstones, const char *call_sid, enum finish_reason why,
                   uint64_t at_ms) MUST_CHECK;

/* Is the call known to be over? */
bool tombstones_has(struct tombstones *tombstones, const char *call_sid, uint64_t now_ms);

/* The same, and how it ended. */
bool tombstones_find(struct tombstones *tombstones, const char *call_sid, uint64_t now_ms,
                     enum finish_reason *ret_why) MUST_CHECK;

/* The call has begun anew. Does nothing if no end of it is known. */
void tombstones_remove(struct tombstones *tombstones, const char *call_sid);

#endif
