/*
 * annotating.c - finds the pods that carry calls and has them annotated, so that Kubernetes removes
 * other pods first.
 *
 * Any router may have allocated the calls, so the store is asked every few seconds. A call counts
 * if it was there at the look before as well: shorter calls would mark nearly all pods, and
 * Kubernetes could not tell which are busy. If pods are not to be marked, marks of an earlier
 * process are removed.
 */
#include <stdio.h>

#include "manager/manager_internal.h"

enum {
    MARKING_INTERVAL_MS = 5000,
    MARKING_SETTLE_MS = 10000, /* longer than two looks: a new leader knows the lasting calls by then */
    MARKING_PER_SECOND = 20,
    MARKING_UNDER_WAY = 4,
};

static void marking_tell(struct manager *manager)
{
    /* A first list that is in doubt may be of pods that another router has marked. */
    if (manager->full_syncs == 0)
        return;
    LIST_FOR_EACH (link, &manager->known_pods.pods) {
        const struct known_pod *pod = LIST_ENTRY(link, struct known_pod, order);

        if (pod->presence == KNOWN_POD_PRESENT)
            k8s_annotator_want(manager->marks, pod->name,
                               pod->calls.round == manager->marking_round && pod->calls.is_lasting);
    }
}

static int marking_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    manager->marking_round++;
    if (!manager->settings.kube.marks_pods) {
        marking_tell(manager);
        return 0;
    }
    *ret_command = (struct command){.type = COMMAND_CALLS, .calls = {.limit = PAGE_MAX}};
    return 1;
}

/* FNV-1a. Two calls of one bit are taken for one: then a pod is marked a few seconds early. */
static uint64_t marking_bit(const char *call_sid)
{
    uint64_t hash = 14695981039346656037u;

    for (; *call_sid; call_sid++)
        hash = (hash ^ (unsigned char)*call_sid) * 1099511628211u;
    return UINT64_C(1) << (hash >> 58);
}

static void marking_see(struct known_pod_calls *calls, uint64_t round, const char *call_sid)
{
    uint64_t bit = marking_bit(call_sid);

    if (calls->round != round) {
        bool was_just_before = calls->round + 1 == round;

        *calls = (struct known_pod_calls){.round = round, .before = was_just_before ? calls->now : 0};
    }
    calls->now |= bit;
    if (calls->before & bit)
        calls->is_lasting = true;
}

static int marking_step(void *arg, const struct result *result, struct command *command)
{
    struct manager *manager = arg;

    if (!manager->marks)
        return 0; /* stopped while the store was being asked: there is nobody to tell */
    for (size_t i = 0; i < result->calls.count; i++) {
        const struct call_info *call = &result->calls.calls[i];
        struct known_pod *pod = known_pods_find(&manager->known_pods, call->pod);

        if (pod)
            marking_see(&pod->calls, manager->marking_round, call->call_sid);
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
    const struct k8s_annotator_settings settings = {
        .namespace_name = manager->settings.kube.namespace_name,
        .settle_ms = MARKING_SETTLE_MS,
        .per_second_max = MARKING_PER_SECOND,
        .under_way_max = MARKING_UNDER_WAY,
    };
    int err = k8s_annotator_new(manager->loop, &settings, manager->settings.kube.client, &manager->marks);

    if (err < 0)
        return err;
    manager->marking.name = "mark";
    manager->marking.without = "pods with calls may not be protected from scaling down";
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
    k8s_annotator_stop(TAKE(manager->marks), stopped, arg);
}
