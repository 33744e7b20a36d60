/*
 * absent.h - the pods that Kubernetes does not show any more although they carry calls: each is asked for by
 * its name, a few at a time. Inside the module only.
 *
 * A pod disappears from a list or a watch when it is deleted, but also when somebody takes its label off; and
 * a new one may have its name already. Only the API server knows, so nobody's call ends before it has said.
 */
#ifndef MANAGER_ABSENT_H
#define MANAGER_ABSENT_H

#include "base/list.h"
#include "base/map.h"
#include "k8s/pod_get.h"

/* As k8s_pod_got_fn. */
typedef void (*absent_found_fn)(void *arg, const char *name, int err, const struct k8s_pod *pod,
                                const char *error);

struct absent {
    /* Set by the owner before absent_init; all of it is borrowed. */
    struct k8s_client *client;
    const char *namespace_name;
    const char *agent_container;
    absent_found_fn found; /* must not ask for others */
    void *arg;

    struct map by_name;
    struct list waiting;
    struct list asked;
    size_t under_way;
};

void absent_init(struct absent *absent);

/* Cuts off what is under way. */
void absent_release(struct absent *absent);

/*
 * `found` runs once: later, or inside the call if the question cannot be sent. A pod that is asked for
 * already is not asked for twice. 0 or -ENOMEM.
 */
int absent_ask(struct absent *absent, const char *name) MUST_CHECK;

/* The pod was seen: what is said of the time before counts no more, and `found` does not run for it. */
void absent_drop(struct absent *absent, const char *name);

#endif
