/*
 * known_pods.c - a map of the pods of the source, and a list of the changes that the store has not
 * heard.
 */
#include "manager/known_pods.h"

#include <stdlib.h>

void known_pods_init(struct known_pods *known_pods, enum pod_source source)
{
    *known_pods = (struct known_pods){.source = source};
    map_init(&known_pods->by_name);
    list_init(&known_pods->pods);
    list_init(&known_pods->changes);
}

static void known_pods_forget(struct known_pods *known_pods, struct known_pod *pod)
{
    if (pod->presence == KNOWN_POD_PRESENT)
        known_pods->count--;
    map_remove(&known_pods->by_name, &pod->node);
    list_remove(&pod->order);
    list_remove(&pod->change);
    free(pod->address);
    free(pod->incarnation);
    free(pod);
}

void known_pods_release(struct known_pods *known_pods)
{
    LIST_FOR_EACH (link, &known_pods->pods) {
        known_pods_forget(known_pods, LIST_ENTRY(link, struct known_pod, order));
    }
    map_release(&known_pods->by_name);
}

static struct known_pod *known_pods_get(const struct known_pods *known_pods, const char *name)
{
    struct map_node *node = map_get(&known_pods->by_name, name, strlen(name));

    return node ? CONTAINER_OF(node, struct known_pod, node) : NULL;
}

struct known_pod *known_pods_find(const struct known_pods *known_pods, const char *name)
{
    struct known_pod *pod = known_pods_get(known_pods, name);

    return pod && pod->presence == KNOWN_POD_PRESENT ? pod : NULL;
}

static struct known_pod *known_pods_add(struct known_pods *known_pods, const char *name)
{
    size_t len = strlen(name);
    struct known_pod *pod;

    if (map_reserve(&known_pods->by_name))
        return NULL;
    pod = calloc(1, sizeof(*pod) + len + 1);
    if (!pod)
        return NULL;
    memcpy(pod->name, name, len);
    pod->presence = KNOWN_POD_ABSENT; /* until more is known */
    list_init(&pod->change);
    list_append(&known_pods->pods, &pod->order);
    map_put(&known_pods->by_name, &pod->node, pod->name, len);
    return pod;
}

/* Both or none of the two texts. */
static int pod_set_texts(struct known_pod *pod, const struct pod_seen *seen)
{
    char *address = strdup(seen->address);
    char *incarnation = seen->incarnation ? strdup(seen->incarnation) : NULL;

    if (!address || (seen->incarnation && !incarnation)) {
        free(address);
        free(incarnation);
        return -ENOMEM;
    }
    /* It was another one that was heartbeating; this one has no calls that it could tell of. */
    if (pod->incarnation && incarnation && strcmp(pod->incarnation, incarnation) != 0)
        pod->hold_back = false;
    free(pod->address);
    free(pod->incarnation);
    pod->address = address;
    pod->incarnation = incarnation;
    return 0;
}

bool known_pods_runs(const struct pod_seen *seen)
{
    return seen->started_at_ms || seen->is_ready;
}

static void known_pods_set_presence(struct known_pods *known_pods, struct known_pod *pod,
                                    enum known_pod_presence presence)
{
    if (pod->presence == KNOWN_POD_PRESENT)
        known_pods->count--;
    if (presence == KNOWN_POD_PRESENT)
        known_pods->count++;
    pod->presence = presence;
}

/* Takes over an observation. The pod's presence is still what it was; a new one is absent. */
static int known_pods_take(struct known_pods *known_pods, const struct pod_seen *seen,
                           struct known_pod **ret_pod)
{
    struct known_pod *known = known_pods_get(known_pods, seen->name);
    struct known_pod *pod = known ? known : known_pods_add(known_pods, seen->name);

    if (!pod)
        return -ENOMEM;
    if (pod_set_texts(pod, seen)) {
        if (!known)
            known_pods_forget(known_pods, pod);
        return -ENOMEM;
    }
    pod->started_at_ms = seen->started_at_ms;
    pod->is_ready = seen->is_ready;
    pod->is_terminating = seen->is_terminating;
    pod->runs = known_pods_runs(seen);
    pod->is_kept = false;
    *ret_pod = pod;
    return 0;
}

static void known_pods_note_change(struct known_pods *known_pods, struct known_pod *pod)
{
    if (list_is_empty(&pod->change))
        list_append(&known_pods->changes, &pod->change);
}

int known_pods_see(struct known_pods *known_pods, const struct pod_seen *seen)
{
    struct known_pod *pod;

    if (known_pods_take(known_pods, seen, &pod))
        return -ENOMEM;
    known_pods_set_presence(known_pods, pod, KNOWN_POD_PRESENT);
    pod->listed = known_pods->list;
    return 0;
}

int known_pods_see_change(struct known_pods *known_pods, const struct pod_seen *seen)
{
    int err = known_pods_see(known_pods, seen);

    if (err == 0)
        known_pods_note_change(known_pods, known_pods_get(known_pods, seen->name));
    return err;
}

int known_pods_keep(struct known_pods *known_pods, const char *name)
{
    const struct pod_seen seen = {.name = name, .address = ""};
    struct known_pod *pod = known_pods_find(known_pods, name);

    if (!pod) {
        if (known_pods_see(known_pods, &seen))
            return -ENOMEM;
        pod = known_pods_get(known_pods, name);
        pod->is_kept = true;
        list_remove(&pod->change);
    }
    pod->listed = known_pods->list;
    return 0;
}

void known_pods_absent(struct known_pods *known_pods, const char *name)
{
    struct known_pod *pod = known_pods_find(known_pods, name);

    if (!pod)
        return;
    known_pods_set_presence(known_pods, pod, KNOWN_POD_ABSENT);
    known_pods_note_change(known_pods, pod);
}

int known_pods_gone(struct known_pods *known_pods, const char *name)
{
    struct known_pod *pod = known_pods_get(known_pods, name);

    if (!pod)
        pod = known_pods_add(known_pods, name);
    if (!pod)
        return -ENOMEM;
    known_pods_set_presence(known_pods, pod, KNOWN_POD_GONE);
    known_pods_note_change(known_pods, pod);
    return 0;
}

int known_pods_outside(struct known_pods *known_pods, const struct pod_seen *seen)
{
    struct known_pod *pod;

    if (known_pods_find(known_pods, seen->name))
        return 0;
    if (known_pods_take(known_pods, seen, &pod))
        return -ENOMEM;
    known_pods_set_presence(known_pods, pod, KNOWN_POD_OUTSIDE);
    known_pods_note_change(known_pods, pod);
    return 0;
}

void known_pods_list_begin(struct known_pods *known_pods)
{
    known_pods->list++;
}

void known_pods_list_end(struct known_pods *known_pods)
{
    LIST_FOR_EACH (link, &known_pods->pods) {
        struct known_pod *pod = LIST_ENTRY(link, struct known_pod, order);

        if (pod->listed != known_pods->list)
            known_pods_forget(known_pods, pod);
    }
}

static int pod_copy(const struct known_pods *known_pods, const struct known_pod *pod, struct arena *arena,
                    struct pod_seen *ret_seen)
{
    const char *incarnation = pod->runs ? pod->incarnation : NULL;

    *ret_seen = (struct pod_seen){
        .name = arena_strdup(arena, pod->name),
        .address = arena_strdup(arena, pod->address),
        .incarnation = incarnation ? arena_strdup(arena, incarnation) : NULL,
        .source = known_pods->source,
        .is_ready = pod->is_ready,
        /* Outside it finishes its calls and gets no new one, as a pod does that terminates. */
        .is_terminating = pod->is_terminating || pod->presence == KNOWN_POD_OUTSIDE,
        .hold_back = pod->hold_back,
        .started_at_ms = pod->started_at_ms,
        .is_kept = pod->is_kept,
    };
    return ret_seen->name && ret_seen->address && (ret_seen->incarnation || !incarnation) ? 0 : -ENOMEM;
}

/* The store is about to hear of it. */
static void known_pods_told(struct known_pods *known_pods, struct known_pod *pod)
{
    if (pod->presence == KNOWN_POD_PRESENT)
        list_remove(&pod->change);
    else
        known_pods_forget(known_pods, pod);
}

int known_pods_copy(struct known_pods *known_pods, struct arena *arena, struct pod_seen **ret_pods,
                    size_t *ret_count)
{
    struct pod_seen *pods = arena_alloc(arena, (known_pods->count + 1) * sizeof(*pods));
    size_t count = 0;

    if (!pods)
        return -ENOMEM;
    LIST_FOR_EACH (link, &known_pods->pods) {
        const struct known_pod *pod = LIST_ENTRY(link, struct known_pod, order);

        if (pod->presence == KNOWN_POD_PRESENT && pod_copy(known_pods, pod, arena, &pods[count++]))
            return -ENOMEM;
    }
    LIST_FOR_EACH (link, &known_pods->changes)
        known_pods_told(known_pods, LIST_ENTRY(link, struct known_pod, change));
    *ret_pods = pods;
    *ret_count = count;
    return 0;
}

int known_pods_take_change(struct known_pods *known_pods, struct arena *arena, struct command *ret_command)
{
    struct known_pod *pod;

    if (list_is_empty(&known_pods->changes))
        return 0;
    pod = LIST_ENTRY(known_pods->changes.next, struct known_pod, change);
    if (pod->presence == KNOWN_POD_PRESENT || pod->presence == KNOWN_POD_OUTSIDE) {
        *ret_command = (struct command){.type = COMMAND_POD_SEEN};
        if (pod_copy(known_pods, pod, arena, &ret_command->pod_seen.pod))
            return -ENOMEM;
    } else {
        *ret_command = (struct command){
            .type = COMMAND_POD_GONE,
            .pod_gone = {.pod = arena_strdup(arena, pod->name),
                         .source = known_pods->source,
                         .is_absent = pod->presence == KNOWN_POD_ABSENT},
        };
        if (!ret_command->pod_gone.pod)
            return -ENOMEM;
    }
    known_pods_told(known_pods, pod);
    return 1;
}
