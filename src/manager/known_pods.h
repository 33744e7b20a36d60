/*
 * known_pods.h - the pods as their source last reported them, and the changes that the store does
 * not know yet.
 *
 * A full sync compares the store with all of it; in between, the changes go to the store one by
 * one, in the order in which they came, each pod once with what is true by then. Inside the module
 * only.
 *
 * A pod that the source does not show any more is absent, which does not mean that it is gone: it
 * may have lost its label. Whether it is gone is found out by asking for it (absent.h).
 */
#ifndef MANAGER_KNOWN_PODS_H
#define MANAGER_KNOWN_PODS_H

#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

/* The calls of a pod as the looks for marks have seen them; see annotating.c. */
struct known_pod_calls {
    uint64_t round;  /* the last one in which it had a call */
    uint64_t now;    /* a bit for each call of that round, by its hash */
    uint64_t before; /* of the round before that */
    bool is_lasting; /* a call of that round was there in the round before */
};

enum known_pod_presence {
    KNOWN_POD_PRESENT,
    /* The others stay only until they have been taken from the changes. */
    KNOWN_POD_ABSENT,  /* the source does not show it any more */
    KNOWN_POD_GONE,    /* it does not exist any more */
    KNOWN_POD_OUTSIDE, /* it exists, but the source does not show it */
};

struct known_pod {
    struct map_node node;
    struct list order;  /* in known_pods.pods */
    struct list change; /* in known_pods.changes while the store has not heard */
    enum known_pod_presence presence;
    char *address;
    char *incarnation; /* NULL: not known */
    uint64_t started_at_ms;
    bool is_ready;
    bool is_terminating;
    bool runs;       /* see known_pods_runs */
    bool is_kept;    /* it was never readable: only its name is known */
    bool hold_back;  /* it heartbeats: should the store lose it, it is to speak before it gets a call */
    uint64_t listed; /* the list that named it last */
    struct known_pod_calls calls;
    char name[];
};

struct known_pods {
    enum pod_source source;
    struct map by_name;
    struct list pods; /* in the order in which they were first told */
    struct list changes;
    size_t count; /* of those that are present */
    uint64_t list;
};

void known_pods_init(struct known_pods *known_pods, enum pod_source source);
void known_pods_release(struct known_pods *known_pods);

/* A whole list: known_pods_list_begin, known_pods_see for each, known_pods_list_end, which forgets all
 * others. */
void known_pods_list_begin(struct known_pods *known_pods);
void known_pods_list_end(struct known_pods *known_pods);

/* Adds the pod, or takes over what is new about it. 0 or -ENOMEM; then nothing has changed. */
int known_pods_see(struct known_pods *known_pods, const struct pod_seen *seen) MUST_CHECK;

/* The same, as a change that the store has to hear of. */
int known_pods_see_change(struct known_pods *known_pods, const struct pod_seen *seen) MUST_CHECK;

/* The pod is in the list but cannot be read: it stays as it is known. 0 or -ENOMEM. */
int known_pods_keep(struct known_pods *known_pods, const char *name) MUST_CHECK;

/* The source does not show the pod any more. A pod that is not present is not changed. */
void known_pods_absent(struct known_pods *known_pods, const char *name);

/* The pod does not exist any more, whether it was present or not. 0 or -ENOMEM. */
int known_pods_gone(struct known_pods *known_pods, const char *name) MUST_CHECK;

/* The pod exists, though the source does not show it. A pod that is present is not changed. 0 or -ENOMEM. */
int known_pods_outside(struct known_pods *known_pods, const struct pod_seen *seen) MUST_CHECK;

/*
 * Does anything run in the pod? What does not run yet has no incarnation for the store: this may be old news,
 * and by now it may run and have calls; when it started will say which ones are its own.
 */
bool known_pods_runs(const struct pod_seen *seen);

/* NULL if it is not present. */
struct known_pod *known_pods_find(const struct known_pods *known_pods, const char *name);

/*
 * All pods that are present, in order, as a sync wants them, copied into the arena. What waits in the changes
 * is contained in it, so they are dropped: the sync takes all others for absent. 0 or -ENOMEM.
 */
int known_pods_copy(struct known_pods *known_pods, struct arena *arena, struct pod_seen **ret_pods,
                    size_t *ret_count) MUST_CHECK;

/*
 * Takes the next change, copied into the arena, as the command that tells the store. 1, 0 if there is none,
 * or -ENOMEM.
 */
int known_pods_take_change(struct known_pods *known_pods, struct arena *arena,
                           struct command *ret_command) MUST_CHECK;

#endif
