/*
 * orphans.h - merchants that name a tier or a pool which a change of the tiers removes: their calls skip it.
 *
 * No I/O, no log. Loop thread only.
 */
#ifndef API_ORPHANS_H
#define API_ORPHANS_H

#include "base/arena.h"
#include "core/command.h"

enum {
    ORPHANS_NAMED_MAX = 20,    /* merchants that are named; the rest are counted */
    ORPHANS_LOOKED_MAX = 5000, /* merchants that are looked at */
};

struct orphans; /* opaque: see orphans.c */

/*
 * NULL: no tier and no pool is removed, or there is no memory. The arena is borrowed, and gets the warnings;
 * where it has no room for one, there is none.
 */
struct orphans *orphans_new(const char *old_tiers, const char *new_tiers, struct arena *arena) MUST_CHECK;

/* Looks at a page of merchants. True: the next page is wanted. */
bool orphans_look(struct orphans *orphans, const struct result *page) MUST_CHECK;

/*
 * All warnings, in the arena: for each merchant, then how many more there are; and if `is_complete` is false,
 * that not all merchants were looked at. Frees the orphans.
 */
void orphans_finish(struct orphans *orphans, bool is_complete, struct name_array *ret_warnings);

#endif
