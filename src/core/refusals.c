/*
 * refusals.c - a ring of the last refusals, with a map to look them up by call.
 */
#include "core/refusals.h"

#include <stdio.h>
#include <stdlib.h>

struct refusal_entry {
    struct map_node node;
    struct refusal refusal;
    char call_sid[CALL_SID_MAX + 1]; /* "": unused */
};

void refusals_init(struct refusals *refusals)
{
    *refusals = (struct refusals){0};
    map_init(&refusals->by_call);
}

static void refusal_forget(struct refusals *refusals, struct refusal_entry *entry)
{
    if (!entry->call_sid[0])
        return;
    map_remove(&refusals->by_call, &entry->node);
    free(entry->refusal.steps);
    entry->call_sid[0] = '\0';
}

void refusals_release(struct refusals *refusals)
{
    for (size_t i = 0; refusals->ring && i < REFUSALS_KEPT; i++)
        refusal_forget(refusals, &refusals->ring[i]);
    free(refusals->ring);
    refusals->ring = NULL;
    map_release(&refusals->by_call);
}

void refusals_remember(struct refusals *refusals, const char *call_sid, const struct refusal *refusal)
{
    struct map_node *known = map_get(&refusals->by_call, call_sid, strlen(call_sid));
    struct refusal_entry *entry;
    struct refusal_step *steps;
    size_t size = refusal->count * sizeof(*steps);

    assert(call_sid[0] && strlen(call_sid) <= CALL_SID_MAX);
    if (!refusals->ring)
        refusals->ring = calloc(REFUSALS_KEPT, sizeof(*refusals->ring));
    steps = malloc(size ? size : 1);
    if (!refusals->ring || !steps || map_reserve(&refusals->by_call)) {
        free(steps);
        return;
    }
    if (known) {
        entry = CONTAINER_OF(known, struct refusal_entry, node);
    } else {
        entry = &refusals->ring[refusals->next];
        refusals->next = (refusals->next + 1) % REFUSALS_KEPT;
    }
    refusal_forget(refusals, entry);
    memcpy(steps, refusal->steps, size);
    entry->refusal = *refusal;
    entry->refusal.steps = steps;
    snprintf(entry->call_sid, sizeof(entry->call_sid), "%s", call_sid);
    map_put(&refusals->by_call, &entry->node, entry->call_sid, strlen(entry->call_sid));
    assert(refusals->by_call.count <= REFUSALS_KEPT);
}

static int refusal_copy(const struct refusal *refusal, struct arena *arena, const struct refusal **ret_copy)
{
    struct refusal *copy = arena_alloc(arena, sizeof(*copy));
    size_t size = refusal->count * sizeof(*refusal->steps);

    if (!copy)
        return -ENOMEM;
    *copy = *refusal;
    copy->steps = arena_alloc(arena, size ? size : 1);
    if (!copy->steps)
        return -ENOMEM;
    memcpy(copy->steps, refusal->steps, size);
    *ret_copy = copy;
    return 0;
}

int refusals_find(const struct refusals *refusals, const char *call_sid, uint64_t now_ms, struct arena *arena,
                  const struct refusal **ret_refusal)
{
    struct map_node *node = map_get(&refusals->by_call, call_sid, strlen(call_sid));
    const struct refusal *refusal = node ? &CONTAINER_OF(node, struct refusal_entry, node)->refusal : NULL;

    if (!refusal || refusal->at_ms + REFUSAL_KEEP_MS <= now_ms) {
        *ret_refusal = NULL;
        return 0;
    }
    return refusal_copy(refusal, arena, ret_refusal);
}
