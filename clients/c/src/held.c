/*
 * held.c - the calls that got a pod from this client and are not released yet, as far as it remembers.
 *
 * A hash table whose entries are also in the order of their age: beyond SR_HELD_MAX the oldest is forgotten.
 * All functions are under the lock.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

struct sr_held_call {
    struct sr_held_call *next; /* of the same bucket */
    struct sr_held_call *older, *newer;
    char call_sid[];
};

/* The link that points to the call; the link at the end of its bucket if there is none. */
static struct sr_held_call **held_find(struct sr_held *held, const char *call_sid)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    struct sr_held_call **at;

    for (const char *byte = call_sid; *byte; byte++)
        hash = (hash ^ (unsigned char)*byte) * 16777619U;
    at = &held->buckets[hash % SR_HELD_BUCKETS];
    while (*at && strcmp((*at)->call_sid, call_sid) != 0)
        at = &(*at)->next;
    return at;
}

static void held_unlink(struct sr_held *held, const struct sr_held_call *call)
{
    *(call->older ? &call->older->newer : &held->oldest) = call->newer;
    *(call->newer ? &call->newer->older : &held->newest) = call->older;
}

static void held_append(struct sr_held *held, struct sr_held_call *call)
{
    call->older = held->newest;
    call->newer = NULL;
    *(held->newest ? &held->newest->newer : &held->oldest) = call;
    held->newest = call;
}

bool sr_held_has(struct sr_held *held, const char *call_sid)
{
    return *held_find(held, call_sid) != NULL;
}

void sr_held_add(struct sr_held *held, const char *call_sid)
{
    struct sr_held_call **at = held_find(held, call_sid), *call = *at;

    if (call) {
        held_unlink(held, call);
        held_append(held, call);
        return;
    }
    call = calloc(1, sizeof(*call) + strlen(call_sid) + 1);
    if (!call)
        return;
    memcpy(call->call_sid, call_sid, strlen(call_sid) + 1);
    *at = call;
    held_append(held, call);
    if (++held->count > SR_HELD_MAX)
        sr_held_remove(held, held->oldest->call_sid);
}

void sr_held_remove(struct sr_held *held, const char *call_sid)
{
    struct sr_held_call **at = held_find(held, call_sid), *call = *at;

    if (!call)
        return;
    *at = call->next;
    held_unlink(held, call);
    held->count--;
    free(call);
}

void sr_held_empty(struct sr_held *held)
{
    while (held->oldest)
        sr_held_remove(held, held->oldest->call_sid);
}
