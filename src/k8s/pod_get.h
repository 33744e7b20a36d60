/*
 * pod_get.h - asks the API server for one pod by its name, whatever its labels are. Loop thread only; nothing
 * here logs.
 */
#ifndef K8S_POD_GET_H
#define K8S_POD_GET_H

#include "k8s/client.h"
#include "k8s/pod.h"

struct k8s_pod_get; /* one question under way */

struct k8s_pod_get_spec {
    const char *namespace_name; /* strings are borrowed during the call only */
    const char *name;
    const char *agent_container; /* as in k8s_pod_watch_settings */
    uint64_t timeout_ms;
};

/*
 * err 0: the pod, valid until this returns. -ENOENT: there is no pod of that name. Anything else: nothing is
 * known of it, and `error` is a sentence for the log.
 */
typedef void (*k8s_pod_got_fn)(void *arg, int err, const struct k8s_pod *pod, const char *error);

/*
 * `got` runs exactly once, later, unless the question is cancelled; *ret_get is valid until then. -ENOMEM,
 * -EBUSY (too many requests under way): never.
 */
int k8s_pod_get(struct k8s_client *client, const struct k8s_pod_get_spec *spec, k8s_pod_got_fn got, void *arg,
                struct k8s_pod_get **ret_get) MUST_CHECK;

/* `got` does not run after this. */
void k8s_pod_get_cancel(struct k8s_pod_get *get);

#endif
