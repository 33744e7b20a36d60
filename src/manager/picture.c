/*
 * picture.c - a map of the pods of the source, and a list of the changes that the store has not
 * heard.
 */
#include "manager/picture.h"

#include <stdlib.h>

void picture_init(struct picture *picture, enum pod_source source)
{
    *picture = (struct picture){.source = source};
    map_init(&picture->by_name);
    list_init(&picture->pods);
    list_init(&picture->changes);
}

static void picture_forget(struct picture *picture, struct picture_pod *pod)
{
    if (pod->presence == PICTURE_PRESENT)
        picture->count--;
    map_remove(&picture->by_name, &pod->node);
    list_remove(&pod->order);
    list_remove(&pod->change);
    free(pod->address);
    free(pod->incarnation);
    free(pod);
}

void picture_release(struct picture *picture)
{
    LIST_FOR_EACH (link, &picture->pods) {
        picture_forget(picture, LIST_ENTRY(link, struct picture_pod, order));
    }
    map_release(&picture->by_name);
}

static struct picture_pod *picture_get(const struct picture *picture, const char *name)
{
    struct map_node *node = map_get(&picture->by_name, name, strlen(name));

    return node ? CONTAINER_OF(node, struct picture_pod, node) : NULL;
}

struct picture_pod *picture_find(const struct picture *picture, const char *name)
{
    struct picture_pod *pod = picture_get(picture, name);

    return pod && pod->presence == PICTURE_PRESENT ? pod : NULL;
}

static struct picture_pod *picture_add(struct picture *picture, const char *name)
{
    size_t len = strlen(name);
    struct picture_pod *pod;

    if (map_reserve(&picture->by_name))
        return NULL;
    pod = calloc(1, sizeof(*pod) + len + 1);
    if (!pod)
        return NULL;
    memcpy(pod->name, name, len);
    pod->presence = PICTURE_ABSENT; /* until more is known */
    list_init(&pod->change);
    list_append(&picture->pods, &pod->order);
    map_put(&picture->by_name, &pod->node, pod->name, len);
    return pod;
}

/* Both or none of the two texts. */
static int pod_set_texts(struct picture_pod *pod, const struct pod_seen *seen)
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

bool picture_runs(const struct pod_seen *seen)
{
    return seen->started_at_ms || seen->is_ready;
}

static void picture_set_presence(struct picture *picture, struct picture_pod *pod,
                                 enum picture_presence presence)
{
    if (pod->presence == PICTURE_PRESENT)
        picture->count--;
    if (presence == PICTURE_PRESENT)
        picture->count++;
    pod->presence = presence;
}

/* Takes over an observation. The pod's presence is still what it was; a new one is absent. */
static int picture_take(struct picture *picture, const struct pod_seen *seen, struct picture_pod **ret_pod)
{
    struct picture_pod *known = picture_get(picture, seen->name);
    struct picture_pod *pod = known ? known : picture_add(picture, seen->name);

    if (!pod)
        return -ENOMEM;
    if (pod_set_texts(pod, seen)) {
        if (!known)
            picture_forget(picture, pod);
        return -ENOMEM;
    }
    pod->started_at_ms = seen->started_at_ms;
    pod->is_ready = seen->is_ready;
    pod->is_terminating = seen->is_terminating;
    pod->runs = picture_runs(seen);
    pod->is_kept = false;
    *ret_pod = pod;
    return 0;
}

static void picture_note_change(struct picture *picture, struct picture_pod *pod)
{
    if (list_is_empty(&pod->change))
        list_append(&picture->changes, &pod->change);
}

int picture_see(struct picture *picture, const struct pod_seen *seen)
{
    struct picture_pod *pod;

    if (picture_take(picture, seen, &pod))
        return -ENOMEM;
    picture_set_presence(picture, pod, PICTURE_PRESENT);
    pod->listed = picture->list;
    return 0;
}

int picture_see_change(struct picture *picture, const struct pod_seen *seen)
{
    int rc = picture_see(picture, seen);

    if (rc == 0)
        picture_note_change(picture, picture_get(picture, seen->name));
    return rc;
}

int picture_keep(struct picture *picture, const char *name)
{
    const struct pod_seen seen = {.name = name, .address = ""};
    struct picture_pod *pod = picture_find(picture, name);

    if (!pod) {
        if (picture_see(picture, &seen))
            return -ENOMEM;
        pod = picture_get(picture, name);
        pod->is_kept = true;
        list_remove(&pod->change);
    }
    pod->listed = picture->list;
    return 0;
}

void picture_absent(struct picture *picture, const char *name)
{
    struct picture_pod *pod = picture_find(picture, name);

    if (!pod)
        return;
    picture_set_presence(picture, pod, PICTURE_ABSENT);
    picture_note_change(picture, pod);
}

int picture_gone(struct picture *picture, const char *name)
{
    struct picture_pod *pod = picture_get(picture, name);

    if (!pod)
        pod = picture_add(picture, name);
    if (!pod)
        return -ENOMEM;
    picture_set_presence(picture, pod, PICTURE_GONE);
    picture_note_change(picture, pod);
    return 0;
}

int picture_outside(struct picture *picture, const struct pod_seen *seen)
{
    struct picture_pod *pod;

    if (picture_find(picture, seen->name))
        return 0;
    if (picture_take(picture, seen, &pod))
        return -ENOMEM;
    picture_set_presence(picture, pod, PICTURE_OUTSIDE);
    picture_note_change(picture, pod);
    return 0;
}

void picture_list_begin(struct picture *picture)
{
    picture->list++;
}

void picture_list_end(struct picture *picture)
{
    LIST_FOR_EACH (link, &picture->pods) {
        struct picture_pod *pod = LIST_ENTRY(link, struct picture_pod, order);

        if (pod->listed != picture->list)
            picture_forget(picture, pod);
    }
}

static int pod_copy(const struct picture *picture, const struct picture_pod *pod, struct arena *arena,
                    struct pod_seen *ret_seen)
{
    const char *incarnation = pod->runs ? pod->incarnation : NULL;

    *ret_seen = (struct pod_seen){
        .name = arena_strdup(arena, pod->name),
        .address = arena_strdup(arena, pod->address),
        .incarnation = incarnation ? arena_strdup(arena, incarnation) : NULL,
        .source = picture->source,
        .is_ready = pod->is_ready,
        /* Outside it finishes its calls and gets no new one, as a pod does that terminates. */
        .is_terminating = pod->is_terminating || pod->presence == PICTURE_OUTSIDE,
        .hold_back = pod->hold_back,
        .started_at_ms = pod->started_at_ms,
        .is_kept = pod->is_kept,
    };
    return ret_seen->name && ret_seen->address && (ret_seen->incarnation || !incarnation) ? 0 : -ENOMEM;
}

/* The store is about to hear of it. */
static void picture_told(struct picture *picture, struct picture_pod *pod)
{
    if (pod->presence == PICTURE_PRESENT)
        list_remove(&pod->change);
    else
        picture_forget(picture, pod);
}

int picture_copy(struct picture *picture, struct arena *arena, struct pod_seen **ret_pods, size_t *ret_count)
{
    struct pod_seen *pods = arena_alloc(arena, (picture->count + 1) * sizeof(*pods));
    size_t count = 0;

    if (!pods)
        return -ENOMEM;
    LIST_FOR_EACH (link, &picture->pods) {
        const struct picture_pod *pod = LIST_ENTRY(link, struct picture_pod, order);

        if (pod->presence == PICTURE_PRESENT && pod_copy(picture, pod, arena, &pods[count++]))
            return -ENOMEM;
    }
    LIST_FOR_EACH (link, &picture->changes)
        picture_told(picture, LIST_ENTRY(link, struct picture_pod, change));
    *ret_pods = pods;
    *ret_count = count;
    return 0;
}

int picture_take_change(struct picture *picture, struct arena *arena, struct command *ret_command)
{
    struct picture_pod *pod;

    if (list_is_empty(&picture->changes))
        return 0;
    pod = LIST_ENTRY(picture->changes.next, struct picture_pod, change);
    if (pod->presence == PICTURE_PRESENT || pod->presence == PICTURE_OUTSIDE) {
        *ret_command = (struct command){.type = COMMAND_POD_SEEN};
        if (pod_copy(picture, pod, arena, &ret_command->pod_seen.pod))
            return -ENOMEM;
    } else {
        *ret_command = (struct command){
            .type = COMMAND_POD_GONE,
            .pod_gone = {.pod = arena_strdup(arena, pod->name),
                         .source = picture->source,
                         .is_absent = pod->presence == PICTURE_ABSENT},
        };
        if (!ret_command->pod_gone.pod)
            return -ENOMEM;
    }
    picture_told(picture, pod);
    return 1;
}
