/*
 * tombstones.c - a bounded list of calls that were ended on purpose, with a map to look them up.
 */
#include "core/tombstones.h"

#include <stdlib.h>

void tombstones_init(struct tombstones *tombstones)
{
    map_init(&tombstones->by_call);
    list_init(&tombstones->by_age);
}

static void tombstone_free(struct tombstones *tombstones, struct tombstone *tombstone)
{
    map_remove(&tombstones->by_call, &tombstone->node);
    list_remove(&tombstone->by_age);
    assert(list_is_empty(&tombstones->by_age) == (tombstones->by_call.count == 0));
    free(tombstone);
}

static struct tombstone *tombstones_oldest(const struct tombstones *tombstones)
{
    return LIST_ENTRY(tombstones->by_age.next, struct tombstone, by_age);
}

void tombstones_release(struct tombstones *tombstones)
{
    while (!list_is_empty(&tombstones->by_age))
        tombstone_free(tombstones, tombstones_oldest(tombstones));
    map_release(&tombstones->by_call);
}

static struct tombstone *tombstone_find(const struct tombstones *tombstones, const char *call_sid)
{
    struct map_node *node = map_get(&tombstones->by_call, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct tombstone, node) : NULL;
}

/* Time goes on, and the list is in its order: what is too old stands at the front. */
static void tombstones_forget_old(struct tombstones *tombstones, uint64_t now_ms)
{
    while (!list_is_empty(&tombstones->by_age) &&
           tombstones_oldest(tombstones)->at_ms + ENDED_KEEP_MS <= now_ms)
        tombstone_free(tombstones, tombstones_oldest(tombstones));
}

int tombstones_add(struct tombstones *tombstones, const char *call_sid, enum finish_reason why,
                   uint64_t at_ms)
{
    size_t len = strlen(call_sid);
    struct tombstone *tombstone;

    assert(why < FINISH_REASONS);
    if (map_reserve(&tombstones->by_call))
        return -ENOMEM;
    tombstone = malloc(sizeof(*tombstone) + len + 1);
    if (!tombstone)
        return -ENOMEM;
    tombstones_remove(tombstones, call_sid);
    tombstones_forget_old(tombstones, at_ms);
    if (tombstones->by_call.count >= TOMBSTONES_MAX)
        tombstone_free(tombstones, tombstones_oldest(tombstones));
    *tombstone = (struct tombstone){.at_ms = at_ms, .why = why};
    memcpy(tombstone->call_sid, call_sid, len + 1);
    list_append(&tombstones->by_age, &tombstone->by_age);
    map_put(&tombstones->by_call, &tombstone->node, tombstone->call_sid, len);
    assert(tombstones->by_call.count <= TOMBSTONES_MAX);
    return 0;
}

bool tombstones_find(struct tombstones *tombstones, const char *call_sid, uint64_t now_ms,
                     enum finish_reason *ret_why)
{
    const struct tombstone *tombstone;

    tombstones_forget_old(tombstones, now_ms);
    tombstone = tombstone_find(tombstones, call_sid);
    if (tombstone)
        *ret_why = tombstone->why;
    return tombstone != NULL;
}

bool tombstones_has(struct tombstones *tombstones, const char *call_sid, uint64_t now_ms)
{
    tombstones_forget_old(tombstones, now_ms);
    return tombstone_find(tombstones, call_sid) != NULL;
}

void tombstones_remove(struct tombstones *tombstones, const char *call_sid)
{
    struct tombstone *tombstone = tombstone_find(tombstones, call_sid);

    if (tombstone)
        tombstone_free(tombstones, tombstone);
}
