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
    if (!pod->is_gone)
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

    return pod && !pod->is_gone ? pod : NULL;
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
    pod->is_gone = true; /* until it is seen */
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

int picture_see(struct picture *picture, const struct pod_seen *seen)
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
    if (pod->is_gone)
        picture->count++;
    pod->is_gone = false;
    pod->is_ready = seen->is_ready;
    pod->is_terminating = seen->is_terminating;
    pod->listed = picture->list;
    return 0;
}

static void picture_note_change(struct picture *picture, struct picture_pod *pod)
{
    if (list_is_empty(&pod->change))
        list_append(&picture->changes, &pod->change);
}

int picture_see_change(struct picture *picture, const struct pod_seen *seen)
{
    int rc = picture_see(picture, seen);

    if (rc == 0)
        picture_note_change(picture, picture_get(picture, seen->name));
    return rc;
}

void picture_gone(struct picture *picture, const char *name)
{
    struct picture_pod *pod = picture_find(picture, name);

    if (!pod)
        return;
    pod->is_gone = true;
    picture->count--;
    picture_note_change(picture, pod);
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
    *ret_seen = (struct pod_seen){
        .name = arena_strdup(arena, pod->name),
        .address = arena_strdup(arena, pod->address),
        .incarnation = pod->incarnation ? arena_strdup(arena, pod->incarnation) : NULL,
        .source = picture->source,
        .is_ready = pod->is_ready,
        .is_terminating = pod->is_terminating,
        .hold_back = pod->hold_back,
    };
    return ret_seen->name && ret_seen->address && (ret_seen->incarnation || !pod->incarnation) ? 0 : -ENOMEM;
}

int picture_copy(struct picture *picture, struct arena *arena, struct pod_seen **ret_pods, size_t *ret_count)
{
    struct pod_seen *pods = arena_alloc(arena, (picture->count + 1) * sizeof(*pods));
    size_t count = 0;

    if (!pods)
        return -ENOMEM;
    LIST_FOR_EACH (link, &picture->pods) {
        const struct picture_pod *pod = LIST_ENTRY(link, struct picture_pod, order);

        if (!pod->is_gone && pod_copy(picture, pod, arena, &pods[count++]))
            return -ENOMEM;
    }
    LIST_FOR_EACH (link, &picture->changes) {
        struct picture_pod *pod = LIST_ENTRY(link, struct picture_pod, change);

        if (pod->is_gone)
            picture_forget(picture, pod);
        else
            list_remove(&pod->change);
    }
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
    if (!pod->is_gone) {
        *ret_command = (struct command){.type = COMMAND_POD_SEEN};
        if (pod_copy(picture, pod, arena, &ret_command->pod_seen.pod))
            return -ENOMEM;
        list_remove(&pod->change);
        return 1;
    }
    *ret_command = (struct command){
        .type = COMMAND_POD_GONE,
        .pod_gone = {.pod = arena_strdup(arena, pod->name), .source = picture->source},
    };
    if (!ret_command->pod_gone.pod)
        return -ENOMEM;
    picture_forget(picture, pod);
    return 1;
}
