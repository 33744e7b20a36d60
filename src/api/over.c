/*
 * over.c - a list of the newest finished calls of one provider: a map to look them up, and their
 * order of age.
 */
#include "api/over.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

struct over_call {
    struct map_node node;
    struct list link;
    char call_sid[];
};

struct over {
    struct map by_sid;
    struct list oldest_first;
};

static void over_forget(struct over *over, struct over_call *call)
{
    map_remove(&over->by_sid, &call->node);
    list_remove(&call->link);
    free(call);
}

int over_new(struct over **ret_over)
{
    struct over *over = calloc(1, sizeof(*over));

    if (!over)
        return -ENOMEM;
    map_init(&over->by_sid);
    list_init(&over->oldest_first);
    *ret_over = over;
    return 0;
}

struct over *over_free(struct over *over)
{
    if (!over)
        return NULL;
    while (!list_is_empty(&over->oldest_first))
        over_forget(over, LIST_ENTRY(over->oldest_first.next, struct over_call, link));
    map_release(&over->by_sid);
    free(over);
    return NULL;
}

void over_add(struct over *over, const char *call_sid)
{
    size_t len = strlen(call_sid);
    struct over_call *call;

    if (map_get(&over->by_sid, call_sid, len))
        return;
    if (over->by_sid.count == OVER_MAX)
        over_forget(over, LIST_ENTRY(over->oldest_first.next, struct over_call, link));
    call = map_reserve(&over->by_sid) == 0 ? calloc(1, sizeof(*call) + len + 1) : NULL;
    if (!call)
        return;
    memcpy(call->call_sid, call_sid, len + 1);
    map_put(&over->by_sid, &call->node, call->call_sid, len);
    list_append(&over->oldest_first, &call->link);
}

bool over_has(const struct over *over, const char *call_sid)
{
    return map_get(&over->by_sid, call_sid, strlen(call_sid)) != NULL;
}
