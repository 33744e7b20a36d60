/*
 * arena.h - memory that is freed all at once.
 *
 * A request, or one step of a background task, takes what it needs from its arena and never frees single
 * pieces. An arena has a ceiling: beyond it arena_alloc returns NULL, so that no input can grow it further.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    char *at;
    char *end;
    size_t used;
    size_t max;
};

void arena_init(struct arena *arena, size_t max_bytes);

/* Frees everything. The arena can be used again. */
void arena_release(struct arena *arena);

/* Forgets everything but keeps one chunk for the next use. */
void arena_reset(struct arena *arena);

/* Aligned for any type. NULL when memory or the ceiling is reached. */
void *arena_alloc(struct arena *arena, size_t size) MUST_CHECK;

/* Copies `len` bytes and adds a NUL. NULL as arena_alloc. */
char *arena_copy(struct arena *arena, const char *data, size_t len) MUST_CHECK;
char *arena_strdup(struct arena *arena, const char *text) MUST_CHECK;

#endif
