/*
 * arena.c - a list of chunks; each allocation takes the next bytes of the newest chunk.
 */
#include "base/arena.h"

#include <stdlib.h>

enum {
    ARENA_CHUNK = 4096,
    ARENA_ALIGN = 16,
};

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* of data */
    _Alignas(ARENA_ALIGN) char data[];
};

void arena_init(struct arena *arena, size_t max_bytes)
{
    *arena = (struct arena){.max = max_bytes};
}

static void arena_free_chunks(struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *older = chunk->older;

        free(chunk);
        chunk = older;
    }
}

void arena_release(struct arena *arena)
{
    arena_free_chunks(arena->chunks);
    arena_init(arena, arena->max);
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *first = arena->chunks;

    if (!first)
        return;
    /* The oldest chunk has the ordinary size: keep that one, so that a rare large request leaves nothing. */
    while (first->older) {
        struct arena_chunk *older = first->older;

        free(first);
        first = older;
    }
    arena->chunks = first;
    arena->at = first->data;
    arena->end = first->data + first->size;
    arena->used = first->size;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk;
    size_t chunk_size = ARENA_CHUNK - sizeof(*chunk);
    void *result;

    if (size > arena->max)
        return NULL;
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if ((size_t)(arena->end - arena->at) < size) {
        if (size > chunk_size)
            chunk_size = size;
        if (arena->used + chunk_size > arena->max)
            return NULL;
        chunk = malloc(sizeof(*chunk) + chunk_size);
        if (!chunk)
            return NULL;
        chunk->size = chunk_size;
        arena->used += chunk_size;
        chunk->older = arena->chunks;
        arena->chunks = chunk;
        arena->at = chunk->data;
        arena->end = chunk->data + chunk_size;
    }
    result = arena->at;
    arena->at += size;
    return result;
}

char *arena_copy(struct arena *arena, const char *data, size_t len)
{
    char *copy = arena_alloc(arena, len + 1);

    if (!copy)
        return NULL;
    memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_copy(arena, text, strlen(text));
}
