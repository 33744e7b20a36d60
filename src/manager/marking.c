#include <stdio.h>

#include "manager/manager_internal.h"

/*
 * Says which pods carry calls, so that Kubernetes takes others first when it scales down. The calls may have
 * been given by any router, so the store is asked, every few seconds.
 */

enum {
    MARKING_INTERVAL_MS = 5000,
    MARKING_SETTLE_MS = 30000, /* a pod that gets a call every so often need not be patched each time */
    MARKING_PER_SECOND = 20,
    MARKING_UNDER_WAY = 4,
};

static int marking_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    manager->marking_round++;
    *ret_command = (struct command){.type = COMMAND_CALLS, .calls = {.limit = PAGE_MAX}};
    return 1;
}

static void marking_tell(struct manager *manager)
{
    LIST_FOR_EACH (link, &manager->picture.pods) {
        const struct picture_pod *pod = LIST_ENTRY(link, struct picture_pod, order);

        if (!pod->is_gone)
            k8s_marks_want(manager->marks, pod->name, pod->busy_in == manager->marking_round);
    }
}

static int marking_step(void *arg, const struct result *result, struct command *command)
{
    struct manager *manager = arg;

    for (size_t i = 0; i < result->calls.count; i++) {
        struct picture_pod *pod = picture_find(&manager->picture, result->calls.calls[i].pod);

        if (pod)
            pod->busy_in = manager->marking_round;
    }
    if (!result->calls.next_cursor || !result->calls.next_cursor[0]) {
        marking_tell(manager);
        return 0;
    }
    snprintf(manager->marking_cursor, sizeof(manager->marking_cursor), "%s", result->calls.next_cursor);
    command->calls.cursor = manager->marking_cursor;
    return 1;
}

int marking_start(struct manager *manager)
{
    const struct k8s_marks_settings settings = {
        .namespace_name = manager->settings.kube.namespace_name,
        .settle_ms = MARKING_SETTLE_MS,
        .per_second_max = MARKING_PER_SECOND,
        .under_way_max = MARKING_UNDER_WAY,
    };
    int rc = k8s_marks_new(manager->loop, &settings, manager->settings.kube.client, &manager->marks);

    if (rc)
        return rc;
    manager->marking.name = "mark";
    manager->marking.interval_ms = MARKING_INTERVAL_MS;
    manager->marking.begin = marking_begin;
    manager->marking.step = marking_step;
    manager->marking.arg = manager;
    manager->marking.store = manager->sync.store;
    task_init(&manager->marking, manager->loop);
    task_start(&manager->marking, MARKING_INTERVAL_MS);
    return 0;
}

unsigned marking_parts(const struct manager *manager)
{
    return manager->marks ? 2 : 0;
}

void marking_stop(struct manager *manager, void (*stopped)(void *arg), void *arg)
{
    if (!manager->marks)
        return;
    task_stop(&manager->marking, stopped, arg);
    k8s_marks_stop(TAKE(manager->marks), stopped, arg);
}
