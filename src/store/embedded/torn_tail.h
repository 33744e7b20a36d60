/*
 * torn_tail.h - what is cut off the end of a log is kept aside.
 *
 * A tail that a crash has torn was acknowledged to nobody. But whether it was a crash is a
 * conclusion, and a conclusion should not be the end of bytes that somebody may want to look at.
 */
#ifndef STORE_EMBEDDED_TORN_TAIL_H
#define STORE_EMBEDDED_TORN_TAIL_H

#include "store/embedded/directory.h"

enum { TORN_TAIL_MAX = 16 * 1024 * 1024 };

/*
 * Copies what the first of `segments` holds from `offset` on, and all that the later ones hold, up
 * to TORN_TAIL_MAX, into one file that replaces any earlier one. Best effort: `name` is empty if it
 * did not work or if there was nothing to keep.
 */
void torn_tail_keep(const struct directory *dir, const uint64_t *segments, size_t count, uint64_t offset,
                    char name[DIRECTORY_NAME_MAX]);

#endif
