/*
 * overs.h - the calls that were ended on purpose a moment ago: no heartbeat and no renewal brings them back.
 *
 * Each is known for ENDED_KEEP_MS, and at most OVERS_MAX of them: beyond that the oldest are forgotten, and a
 * word of their pods that comes that late can bring them back until their lease ends.
 */
#ifndef CORE_OVERS_H
#define CORE_OVERS_H

#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

enum { OVERS_MAX = 100000 };

struct over {
    struct map_node node;
    struct list by_age;
    uint64_t at_ms;
    enum call_over why;
    char call_sid[];
};

struct overs {
    struct map by_call;
    struct list by_age; /* oldest first */
};

void overs_init(struct overs *overs);
void overs_release(struct overs *overs);

/* Remembers the end in place of an older one of that call. 0 or -ENOMEM, then nothing is changed. */
int overs_add(struct overs *overs, const char *call_sid, enum call_over why, uint64_t at_ms) MUST_CHECK;

/* Is the call known to be over? */
bool overs_has(struct overs *overs, const char *call_sid, uint64_t now_ms);

/* The call has begun anew. Does nothing if no end of it is known. */
void overs_remove(struct overs *overs, const char *call_sid);

#endif
