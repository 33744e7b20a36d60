/*
 * map.h - finds an element by its name: a hash table of nodes that live inside the elements.
 *
 * The hash is keyed with random bytes, so that a client who chooses the names cannot choose the collisions.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/base.h"

struct map_node {
    struct map_node *next;
    uint64_t hash;
    const char *key; /* borrowed: part of the element */
    size_t key_len;
};

struct map {
    struct map_node **buckets;
    size_t bucket_count;
    size_t count;
    uint64_t secret[2];
};

void map_init(struct map *map);

/* Frees the table, not the elements. */
void map_release(struct map *map);

struct map_node *map_get(const struct map *map, const char *key, size_t key_len);

/* Are these `len` bytes the same? */
typedef bool (*map_equals_fn)(const char *a, const char *b, size_t len);

/* As map_get, with a comparison of the caller's: for keys that are secrets. */
struct map_node *map_get_by(const struct map *map, const char *key, size_t key_len, map_equals_fn equals);

/* Makes sure that one more map_put cannot fail. 0 or -ENOMEM. */
int map_reserve(struct map *map) MUST_CHECK;

/* The key must not be in the map yet, and room must be there (map_reserve). Borrows `key`. */
void map_put(struct map *map, struct map_node *node, const char *key, size_t key_len);

void map_remove(struct map *map, struct map_node *node);

/* Walks all nodes in no particular order; the body must not change the map. */
#define MAP_FOR_EACH(node, map)                                                                              \
    for (size_t node##_i_ = 0; node##_i_ < (map)->bucket_count; node##_i_++)                                 \
        for (struct map_node *node = (map)->buckets[node##_i_]; node; node = node->next)

#endif
