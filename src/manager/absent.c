/*
 * absent.c - a queue of pods to ask the API server for, with a few requests at a time.
 */
#include "manager/absent.h"

#include <stdlib.h>

enum {
    ABSENT_UNDER_WAY_MAX =
        4, /* so that a hundred pods that went at once do not take the client from others */
    ABSENT_TIMEOUT_MS = 10000,
};

enum { ABSENT_POD_MAGIC = 0x61627365 };

struct absent_pod {
    unsigned magic;
    struct map_node node;
    struct list link; /* in waiting or asked */
    struct absent *absent;
    struct k8s_pod_get *get; /* under way, or NULL */
    char name[];
};

static void absent_go_on(struct absent *absent);

void absent_init(struct absent *absent)
{
    map_init(&absent->by_name);
    list_init(&absent->waiting);
    list_init(&absent->asked);
    absent->under_way = 0;
}

static void absent_forget(struct absent_pod *pod)
{
    map_remove(&pod->absent->by_name, &pod->node);
    list_remove(&pod->link);
    pod->magic = 0;
    free(pod);
}

static void absent_cut(struct absent_pod *pod)
{
    if (pod->get) {
        k8s_pod_get_cancel(TAKE(pod->get));
        pod->absent->under_way--;
    }
    absent_forget(pod);
}

void absent_release(struct absent *absent)
{
    LIST_FOR_EACH (link, &absent->asked)
        absent_cut(LIST_ENTRY(link, struct absent_pod, link));
    LIST_FOR_EACH (link, &absent->waiting)
        absent_cut(LIST_ENTRY(link, struct absent_pod, link));
    map_release(&absent->by_name);
}

static void absent_got(void *arg, int err, const struct k8s_pod *found, const char *error)
{
    struct absent_pod *pod = arg;
    struct absent *absent = pod->absent;

    MAGIC_CHECK(pod, ABSENT_POD_MAGIC);
    absent->under_way--;
    pod->get = NULL;
    absent->found(absent->arg, pod->name, err, found, error);
    absent_forget(pod);
    absent_go_on(absent);
}

static void absent_go_on(struct absent *absent)
{
    while (absent->under_way < ABSENT_UNDER_WAY_MAX && !list_is_empty(&absent->waiting)) {
        struct absent_pod *pod = LIST_ENTRY(absent->waiting.next, struct absent_pod, link);
        const struct k8s_pod_get_spec spec = {
            .namespace_name = absent->namespace_name,
            .name = pod->name,
            .agent_container = absent->agent_container,
            .timeout_ms = ABSENT_TIMEOUT_MS,
        };
        int err = k8s_pod_get(absent->client, &spec, absent_got, pod, &pod->get);

        if (err < 0) {
            absent->found(absent->arg, pod->name, err, NULL, strerror(-err));
            absent_forget(pod);
            continue;
        }
        list_remove(&pod->link);
        list_append(&absent->asked, &pod->link);
        absent->under_way++;
    }
}

void absent_drop(struct absent *absent, const char *name)
{
    struct map_node *node = map_get(&absent->by_name, name, strlen(name));

    if (!node)
        return;
    absent_cut(CONTAINER_OF(node, struct absent_pod, node));
    absent_go_on(absent);
}

int absent_ask(struct absent *absent, const char *name)
{
    size_t len = strlen(name);
    struct absent_pod *pod;

    if (map_get(&absent->by_name, name, len))
        return 0;
    if (map_reserve(&absent->by_name))
        return -ENOMEM;
    pod = calloc(1, sizeof(*pod) + len + 1);
    if (!pod)
        return -ENOMEM;
    pod->magic = ABSENT_POD_MAGIC;
    pod->absent = absent;
    memcpy(pod->name, name, len + 1);
    list_append(&absent->waiting, &pod->link);
    map_put(&absent->by_name, &pod->node, pod->name, len);
    absent_go_on(absent);
    return 0;
}
