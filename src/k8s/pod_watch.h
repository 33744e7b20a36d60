/*
 * pod_watch.h - follows the pods of a namespace: list, then watch, as client-go's reflector does, but that
 * every list asks for what is true now, and that it is asked for after whatever was no orderly end of a
 * watch. Loop thread only.
 *
 * The pages of a list are parsed on the thread pool: they are megabytes. What a failure costs is time: the
 * pods that were reported last stay until a whole new list is there. Pods are told, not kept.
 *
 * A pod's name is a DNS subdomain here, up to 253 characters: whoever wants a label checks it.
 */
#ifndef K8S_POD_WATCH_H
#define K8S_POD_WATCH_H

#include "k8s/client.h"
#include "k8s/pod.h"

struct k8s_pod_watch; /* opaque: see pods.c */

struct k8s_pod_watch_settings {
    const char *namespace_name;  /* strings are borrowed and must stay */
    const char *label_selector;  /* NULL or "": all pods */
    const char *agent_container; /* whose restarts count; NULL or "": the first one of each pod's spec */
    uint64_t list_timeout_ms;    /* for each page, and for a watch to open */
    uint64_t stall_ms;           /* longer than the minute between two bookmarks */
    /*
     * The callbacks may call k8s_pod_watch_relist and k8s_pod_watch_stop. What they are given is valid until
     * they return.
     *
     * on_list: all pods there are, each once, in the order of their names; of one that is_unreadable nothing
     * but the name is known, and it stays what it was. on_seen: a pod is new or has changed, or is told again
     * though it has not; it is readable. on_gone: that pod, by its uid, is not shown any more: it is gone, or
     * the selector does not fit it any more; one of the same name may live.
     */
    void (*on_list)(void *arg, const struct k8s_pod *pods, size_t count);
    void (*on_seen)(void *arg, const struct k8s_pod *pod);
    void (*on_gone)(void *arg, const struct k8s_pod *pod);
    /* A failure that is waited out, for the metrics; it has been logged, once for each kind of trouble. */
    void (*on_trouble)(void *arg);
    /* A list or an event has come, also one that only says that the watch lives. NULL: nobody asks. */
    void (*on_heard)(void *arg);
    void *arg;
};

/* Lists at once. The client is borrowed and must stay until `stopped`. */
int k8s_pod_watch_new(uv_loop_t *loop, const struct k8s_pod_watch_settings *settings,
                      struct k8s_client *client, struct k8s_pod_watch **ret_pods) MUST_CHECK;

/*
 * Lists again and tells it by on_list, for the regular full sync: at once, but for two cases. A list that is
 * under way serves. What is waited for after a failure is still waited for, because the server asked for it.
 */
void k8s_pod_watch_relist(struct k8s_pod_watch *pods);

/* No callback but `stopped` runs after this, and that one never inside the call. */
void k8s_pod_watch_stop(struct k8s_pod_watch *pods, void (*stopped)(void *arg), void *arg);

#endif
