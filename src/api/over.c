#include "api/over.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "core/names.h"

enum { KEY_MAX = 16 + 1 + CALL_SID_MAX };

struct over_call {
    struct map_node node;
    struct list link;
    char key[]; /* "twilio/CA1" */
};

struct over {
    struct map by_key;
    struct list oldest_first;
};

/* The key's length. */
static size_t make_key(const char *provider, const char *call_sid, char key[KEY_MAX + 1])
{
    int len = snprintf(key, KEY_MAX + 1, "%s/%s", provider, call_sid);

    assert(len > 0 && len <= KEY_MAX); /* names were checked when the request was read */
    return (size_t)len;
}

static void over_forget(struct over *over, struct over_call *call)
{
    map_remove(&over->by_key, &call->node);
    list_remove(&call->link);
    free(call);
}

int over_new(struct over **ret_over)
{
    struct over *over = calloc(1, sizeof(*over));

    if (!over)
        return -ENOMEM;
    map_init(&over->by_key);
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
    map_release(&over->by_key);
    free(over);
    return NULL;
}

void over_add(struct over *over, const char *provider, const char *call_sid)
{
    char key[KEY_MAX + 1];
    size_t len = make_key(provider, call_sid, key);
    struct over_call *call;

    if (map_get(&over->by_key, key, len))
        return;
    if (over->by_key.count == OVER_MAX)
        over_forget(over, LIST_ENTRY(over->oldest_first.next, struct over_call, link));
    call = map_reserve(&over->by_key) == 0 ? calloc(1, sizeof(*call) + len + 1) : NULL;
    if (!call)
        return;
    memcpy(call->key, key, len + 1);
    map_put(&over->by_key, &call->node, call->key, len);
    list_append(&over->oldest_first, &call->link);
}

bool over_has(const struct over *over, const char *provider, const char *call_sid)
{
    char key[KEY_MAX + 1];
    size_t len = make_key(provider, call_sid, key);

    return map_get(&over->by_key, key, len) != NULL;
}
