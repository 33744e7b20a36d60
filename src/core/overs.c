/*
 * overs.c - a bounded list of calls that were ended on purpose, with a map to look them up.
 */
#include "core/overs.h"

#include <stdlib.h>

void overs_init(struct overs *overs)
{
    map_init(&overs->by_call);
    list_init(&overs->by_age);
}

static void over_free(struct overs *overs, struct over *over)
{
    map_remove(&overs->by_call, &over->node);
    list_remove(&over->by_age);
    free(over);
}

static struct over *overs_oldest(const struct overs *overs)
{
    return LIST_ENTRY(overs->by_age.next, struct over, by_age);
}

void overs_release(struct overs *overs)
{
    while (!list_is_empty(&overs->by_age))
        over_free(overs, overs_oldest(overs));
    map_release(&overs->by_call);
}

static struct over *over_find(const struct overs *overs, const char *call_sid)
{
    struct map_node *node = map_get(&overs->by_call, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct over, node) : NULL;
}

/* Time goes on, and the list is in its order: what is too old stands at the front. */
static void overs_forget_old(struct overs *overs, uint64_t now_ms)
{
    while (!list_is_empty(&overs->by_age) && overs_oldest(overs)->at_ms + ENDED_KEEP_MS <= now_ms)
        over_free(overs, overs_oldest(overs));
}

int overs_add(struct overs *overs, const char *call_sid, enum call_over why, uint64_t at_ms)
{
    size_t len = strlen(call_sid);
    struct over *over;

    if (map_reserve(&overs->by_call))
        return -ENOMEM;
    over = malloc(sizeof(*over) + len + 1);
    if (!over)
        return -ENOMEM;
    overs_remove(overs, call_sid);
    overs_forget_old(overs, at_ms);
    if (overs->by_call.count >= OVERS_MAX)
        over_free(overs, overs_oldest(overs));
    *over = (struct over){.at_ms = at_ms, .why = why};
    memcpy(over->call_sid, call_sid, len + 1);
    list_append(&overs->by_age, &over->by_age);
    map_put(&overs->by_call, &over->node, over->call_sid, len);
    return 0;
}

bool overs_has(struct overs *overs, const char *call_sid, uint64_t now_ms)
{
    overs_forget_old(overs, now_ms);
    return over_find(overs, call_sid) != NULL;
}

void overs_remove(struct overs *overs, const char *call_sid)
{
    struct over *over = over_find(overs, call_sid);

    if (over)
        over_free(overs, over);
}
