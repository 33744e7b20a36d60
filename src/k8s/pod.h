/*
 * pod.h - a pod object of the API server, as far as we need it. Any thread; nothing here logs.
 *
 * Whatever the object holds is checked: a string is of the right kind and length, or the pod is refused.
 */
#ifndef K8S_POD_H
#define K8S_POD_H

#include <cjson/cJSON.h>

#include "base/arena.h"
#include "k8s/annotations.h"

enum {
    K8S_POD_NAME_MAX = 253, /* a DNS subdomain: Kubernetes allows more than a label */
    K8S_POD_UID_MAX = 64,
    K8S_POD_IP_MAX = 45,
    K8S_POD_INCARNATION_MAX = K8S_POD_UID_MAX + 1 + 20, /* uid:restarts */
};

struct k8s_pod {
    const char *name;
    const char *uid;
    const char *ip;         /* "" if it has none yet */
    uint64_t restarts;      /* of the agent's container */
    uint64_t started_at_ms; /* of that container, by its node's clock in whole seconds; 0: it does not run */
    bool is_ready;          /* phase Running, condition Ready, an address, not terminating */
    bool is_terminating;
    bool has_terminated;         /* phase Failed or Succeeded: nothing runs there again */
    bool is_unreadable;          /* in a list: only the name could be read */
    bool lacks_container;        /* its spec has no container of the agent's name: the first one counts */
    struct k8s_annotations mark; /* its annotations of a pod with a call */
};

/*
 * Strings are copied into the arena. `agent_container` is the name of the container whose restarts and start
 * count; NULL or "": the first one of the spec. What other containers do does not matter.
 *
 * -EINVAL: not a pod, or one that cannot be believed; -ENOMEM.
 */
int k8s_pod_parse(const cJSON *object, const char *agent_container, struct arena *arena,
                  struct k8s_pod *ret_pod) MUST_CHECK;

/* The name alone, of a pod that k8s_pod_parse refuses: all else is empty. -EINVAL, -ENOMEM as above. */
int k8s_pod_parse_name(const cJSON *object, struct arena *arena, struct k8s_pod *ret_pod) MUST_CHECK;

/*
 * "uid:restarts": another text means that what ran in the pod is not what ran before, and that the calls it
 * carried are lost.
 */
void k8s_pod_incarnation(const struct k8s_pod *pod, char text[K8S_POD_INCARNATION_MAX + 1]);

#endif
