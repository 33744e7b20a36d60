/*
 * kept.c - sessions that an agent keeps for a minute after their stream broke, so that a call that comes back
 * can be continued.
 */
#include <stdlib.h>

#include "agent.h"

struct kept {
    struct list link;
    uint64_t until_ms;
    char call_sid[MEDIA_SID_MAX + 1];
};

static void kept_free(struct agent *agent, struct kept *kept)
{
    list_remove(&kept->link);
    agent->kept_count--;
    free(kept);
}

static struct kept *kept_find(struct agent *agent, const char *call_sid)
{
    LIST_FOR_EACH (link, &agent->kept) {
        struct kept *kept = LIST_ENTRY(link, struct kept, link);

        if (strcmp(kept->call_sid, call_sid) == 0)
            return kept;
    }
    return NULL;
}

/* All are kept for the same time, so the first ones run out first. */
static void kept_trim(struct agent *agent, size_t max)
{
    uint64_t now_ms = uv_now(&agent->fleet->net->loop);

    while (!list_is_empty(&agent->kept)) {
        struct kept *kept = LIST_ENTRY(agent->kept.next, struct kept, link);

        if (kept->until_ms > now_ms && agent->kept_count <= max)
            return;
        kept_free(agent, kept);
    }
}

void kept_add(struct agent *agent, const char *call_sid)
{
    struct kept *kept = kept_find(agent, call_sid);

    if (kept)
        kept_free(agent, kept);
    kept = calloc(1, sizeof(*kept));
    if (!kept)
        return;
    memcpy(kept->call_sid, call_sid, strlen(call_sid) + 1);
    kept->until_ms = uv_now(&agent->fleet->net->loop) + AGENT_KEPT_MS;
    list_append(&agent->kept, &kept->link);
    agent->kept_count++;
    kept_trim(agent, AGENT_KEPT_MAX);
}

bool kept_take(struct agent *agent, const char *call_sid)
{
    struct kept *kept;

    kept_trim(agent, AGENT_KEPT_MAX);
    kept = kept_find(agent, call_sid);
    if (kept)
        kept_free(agent, kept);
    return kept != NULL;
}

void kept_forget(struct agent *agent)
{
    kept_trim(agent, 0);
}
