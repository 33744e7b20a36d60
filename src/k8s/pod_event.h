/*
 * pod_event.h - one object of a watch on pods: what happened, and to which pod. Any thread; nothing here
 * logs.
 */
#ifndef K8S_POD_EVENT_H
#define K8S_POD_EVENT_H

#include "k8s/object.h"
#include "k8s/pod.h"
#include "k8s/status_object.h"

enum k8s_pod_event_type {
    K8S_POD_EVENT_SEEN,     /* ADDED and MODIFIED: after a gap one may stand for the other */
    K8S_POD_EVENT_GONE,     /* DELETED */
    K8S_POD_EVENT_BOOKMARK, /* only the version counts */
    K8S_POD_EVENT_ERROR,    /* the watch is over */
    K8S_POD_EVENT_SKIPPED,  /* of a type we do not know, or about what is no pod */
};

struct k8s_pod_event {
    enum k8s_pod_event_type type;
    const char *version;                     /* to watch on from; NULL: as before */
    struct k8s_pod pod;                      /* SEEN, GONE */
    struct k8s_status status;                /* ERROR */
    char skipped_name[K8S_POD_NAME_MAX + 1]; /* SKIPPED: what it calls itself */
};

/*
 * Everything it points to is in the arena. `agent_container`: as in pod.h. -EBADMSG: not an event at all;
 * -ENOMEM.
 */
int k8s_pod_event_parse(struct slice text, const char *agent_container, struct arena *arena,
                        struct k8s_pod_event *ret_event) MUST_CHECK;

#endif
