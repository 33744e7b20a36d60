/*
 * nearest.h - the known name that somebody probably meant, for messages about a misspelt one.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/base.h"

enum { NEAREST_LEN_MAX = 64 }; /* longer texts are near to nothing */

/*
 * The number of letters that must be added, left out, replaced or swapped with their neighbour to make
 * `b` of `a`; upper and lower case are the same. max + 1: more than `max`, or one of them is too long.
 */
size_t edit_distance(const char *a, const char *b, size_t max);

/* The name at the smallest distance from `text`, the first of these; NULL: none is at most `max` away. */
const char *nearest_name(const char *text, const char *const *names, size_t count, size_t max);

/* The distance up to which a text of this length is a likely misspelling: 1 for short ones, else 2. */
size_t nearest_max(const char *text);

#endif
