/*
 * picture.h - the pods as their source last told them, and what of it the store has not heard yet.
 *
 * A full sync compares the store with all of it; in between, the changes go to the store one by one, in the
 * order in which they came, each pod once with what is true by then. Inside the room only.
 */
#ifndef MANAGER_PICTURE_H
#define MANAGER_PICTURE_H

#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

struct picture_pod {
    struct map_node node;
    struct list order;  /* in picture.pods */
    struct list change; /* in picture.changes while the store has not heard */
    char *address;
    char *incarnation; /* NULL: not known */
    bool is_ready;
    bool is_terminating;
    bool is_gone;     /* stays only until that has been taken from the changes */
    bool hold_back;   /* it heartbeats: should the store lose it, it is to speak before it gets a call */
    uint64_t listed;  /* the list that named it last */
    uint64_t busy_in; /* the last round of looks in which it had a call */
    char name[];
};

struct picture {
    enum pod_source source;
    struct map by_name;
    struct list pods; /* in the order in which they were first told */
    struct list changes;
    size_t count; /* without those that are gone */
    uint64_t list;
};

void picture_init(struct picture *picture, enum pod_source source);
void picture_release(struct picture *picture);

/* A whole list: picture_list_begin, picture_see for each, picture_list_end, which forgets all others. */
void picture_list_begin(struct picture *picture);
void picture_list_end(struct picture *picture);

/* Adds the pod, or takes over what is new about it. 0 or -ENOMEM; then nothing has changed. */
int picture_see(struct picture *picture, const struct pod_seen *seen) MUST_CHECK;

/* The same, as a change that the store has to hear of. */
int picture_see_change(struct picture *picture, const struct pod_seen *seen) MUST_CHECK;

/* The pod is gone, and the store has to hear of it. A pod that is not known is none. */
void picture_gone(struct picture *picture, const char *name);

/* NULL if there is none, or it is gone. */
struct picture_pod *picture_find(const struct picture *picture, const char *name);

/*
 * All pods, in order, as a sync wants them, copied into the arena. What waits in the changes is contained in
 * it, so they are dropped. 0 or -ENOMEM.
 */
int picture_copy(struct picture *picture, struct arena *arena, struct pod_seen **ret_pods,
                 size_t *ret_count) MUST_CHECK;

/*
 * Takes the next change, copied into the arena, as the command that tells the store. 1, 0 if there is none,
 * or -ENOMEM.
 */
int picture_take_change(struct picture *picture, struct arena *arena, struct command *ret_command) MUST_CHECK;

#endif
