/*
 * finished_calls.c - a list of the newest finished calls of one provider: a map to look them up, and their
 * order of age.
 */
#include "api/finished_calls.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

struct finished_calls_call {
    struct map_node node;
    struct list link;
    char call_sid[];
};

struct finished_calls {
    struct map by_sid;
    struct list oldest_first;
};

static void finished_calls_forget(struct finished_calls *finished_calls, struct finished_calls_call *call)
{
    map_remove(&finished_calls->by_sid, &call->node);
    list_remove(&call->link);
    free(call);
}

int finished_calls_new(struct finished_calls **ret_calls)
{
    struct finished_calls *finished_calls = calloc(1, sizeof(*finished_calls));

    if (!finished_calls)
        return -ENOMEM;
    map_init(&finished_calls->by_sid);
    list_init(&finished_calls->oldest_first);
    *ret_calls = finished_calls;
    return 0;
}

struct finished_calls *finished_calls_free(struct finished_calls *finished_calls)
{
    if (!finished_calls)
        return NULL;
    while (!list_is_empty(&finished_calls->oldest_first))
        finished_calls_forget(
            finished_calls, LIST_ENTRY(finished_calls->oldest_first.next, struct finished_calls_call, link));
    map_release(&finished_calls->by_sid);
    free(finished_calls);
    return NULL;
}

void finished_calls_add(struct finished_calls *finished_calls, const char *call_sid)
{
    size_t len = strlen(call_sid);
    struct finished_calls_call *call;

    if (map_get(&finished_calls->by_sid, call_sid, len))
        return;
    if (finished_calls->by_sid.count == FINISHED_CALLS_MAX)
        finished_calls_forget(
            finished_calls, LIST_ENTRY(finished_calls->oldest_first.next, struct finished_calls_call, link));
    call = map_reserve(&finished_calls->by_sid) == 0 ? calloc(1, sizeof(*call) + len + 1) : NULL;
    if (!call)
        return;
    memcpy(call->call_sid, call_sid, len + 1);
    map_put(&finished_calls->by_sid, &call->node, call->call_sid, len);
    list_append(&finished_calls->oldest_first, &call->link);
}

bool finished_calls_has(const struct finished_calls *finished_calls, const char *call_sid)
{
    return map_get(&finished_calls->by_sid, call_sid, strlen(call_sid)) != NULL;
}
