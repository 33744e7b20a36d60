/*
 * map.c - a hash table with SipHash-1-3 and chained buckets.
 */
#include "base/map.h"

#include <stdlib.h>

#include "base/random.h"

enum { MAP_BUCKETS_FIRST = 64 };

void map_init(struct map *map)
{
    *map = (struct map){0};
    /*
     * Waits while the machine has just booted and has no randomness yet. Fails only on kernels older than we
     * support; a constant key would merely lose the flooding defence.
     */
    if (!random_bytes_wait(map->secret, sizeof(map->secret)))
        map->secret[0] = (uint64_t)(uintptr_t)map;
}

void map_release(struct map *map)
{
    free(map->buckets);
    map->buckets = NULL;
    map->bucket_count = 0;
    map->count = 0;
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

struct sip_state {
    uint64_t v0, v1, v2, v3;
};

static void sip_round(struct sip_state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 = rotate_left(s->v2, 32);
}

/* SipHash-1-3: strong enough against chosen keys, and short names cost little. */
static uint64_t map_hash(const struct map *map, const char *key, size_t len)
{
    struct sip_state s = {
        map->secret[0] ^ UINT64_C(0x736f6d6570736575),
        map->secret[1] ^ UINT64_C(0x646f72616e646f6d),
        map->secret[0] ^ UINT64_C(0x6c7967656e657261),
        map->secret[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t word;
    size_t at = 0;

    for (; at + 8 <= len; at += 8) {
        memcpy(&word, key + at, 8);
        s.v3 ^= word;
        sip_round(&s);
        s.v0 ^= word;
    }
    word = 0;
    memcpy(&word, key + at, len - at);
    word |= (uint64_t)len << 56;
    s.v3 ^= word;
    sip_round(&s);
    s.v0 ^= word;
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static inline bool equals_at_once(const char *a, const char *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}

/* Inline, so that the comparison of map_get is not a call. */
static inline struct map_node *map_find(const struct map *map, const char *key, size_t key_len,
                                        map_equals_fn equals)
{
    uint64_t hash;

    if (map->count == 0)
        return NULL;
    hash = map_hash(map, key, key_len);
    for (struct map_node *node = map->buckets[hash & (map->bucket_count - 1)]; node; node = node->next) {
        if (node->hash == hash && node->key_len == key_len && equals(node->key, key, key_len))
            return node;
    }
    return NULL;
}

struct map_node *map_get(const struct map *map, const char *key, size_t key_len)
{
    return map_find(map, key, key_len, equals_at_once);
}

struct map_node *map_get_by(const struct map *map, const char *key, size_t key_len, map_equals_fn equals)
{
    return map_find(map, key, key_len, equals);
}

int map_reserve(struct map *map)
{
    size_t bucket_count = map->bucket_count ? map->bucket_count * 2 : MAP_BUCKETS_FIRST;
    struct map_node **buckets;

    if (map->count < map->bucket_count)
        return 0;
    buckets = calloc(bucket_count, sizeof(*buckets));
    if (!buckets)
        return -ENOMEM;
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct map_node *next;

        for (struct map_node *node = map->buckets[i]; node; node = next) {
            struct map_node **bucket = &buckets[node->hash & (bucket_count - 1)];

            next = node->next;
            node->next = *bucket;
            *bucket = node;
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = bucket_count;
    return 0;
}

void map_put(struct map *map, struct map_node *node, const char *key, size_t key_len)
{
    struct map_node **bucket;

    assert(map->count < map->bucket_count);
    node->hash = map_hash(map, key, key_len);
    node->key = key;
    node->key_len = key_len;
    bucket = &map->buckets[node->hash & (map->bucket_count - 1)];
    node->next = *bucket;
    *bucket = node;
    map->count++;
}

void map_remove(struct map *map, struct map_node *node)
{
    struct map_node **at = &map->buckets[node->hash & (map->bucket_count - 1)];

    while (*at != node) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    map->count--;
}
