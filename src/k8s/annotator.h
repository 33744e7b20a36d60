/*
 * annotator.h - keeps the pods with calls annotated, and relieves them afterwards (annotations.h says how).
 * Loop thread only.
 *
 * It is told what should be (want) and what is (known), and closes the gap, no faster than it may: pods that
 * got a call and pods that have lost theirs in turn. Nobody depends on it. A pod that is refused is left
 * alone for five minutes; when several are forbidden one after the other the right is missing, and all wait
 * that long.
 */
#ifndef K8S_ANNOTATOR_H
#define K8S_ANNOTATOR_H

#include "k8s/annotations.h"
#include "k8s/client.h"

struct k8s_annotator; /* opaque: see annotator.c */

enum { K8S_ANNOTATOR_PODS_MAX = 65536 }; /* more are not marked */

struct k8s_annotator_settings {
    const char *namespace_name; /* borrowed and must stay */
    uint64_t settle_ms;         /* a pod is relieved when it has had no call for so long */
    unsigned per_second_max;    /* patches; at most 1000 */
    unsigned under_way_max;     /* patches at the same time */
};

/* The client is borrowed and must stay until `stopped`. */
int k8s_annotator_new(uv_loop_t *loop, const struct k8s_annotator_settings *settings,
                      struct k8s_client *client, struct k8s_annotator **ret_annotator) MUST_CHECK;

/*
 * Has the pod a call? To be told again from time to time, also that it has none: a pod that nothing was told
 * of since it is known stays as it is, because not to know of a call is not to know that there is none.
 */
void k8s_annotator_want(struct k8s_annotator *annotator, const char *pod, bool is_busy);

/*
 * What a list or a watch has shown, in their order. No pod is touched before that. A mark of ours that
 * another leader left behind is removed if the pod has no call. With an empty uid only its name could be
 * read: it exists, and what is known of it stays.
 */
void k8s_annotator_known(struct k8s_annotator *annotator, const char *pod, const char *uid,
                         struct k8s_annotations mark);

/* The pod is gone. */
void k8s_annotator_forget(struct k8s_annotator *annotator, const char *pod);

/*
 * Around the k8s_annotator_known() of all pods of a full list: those that were not among them are gone. One
 * that is to be relieved is tried all the same, because it may only have lost its label.
 */
void k8s_annotator_list_begin(struct k8s_annotator *annotator);
void k8s_annotator_list_end(struct k8s_annotator *annotator);

/* Cuts off what is under way, frees the marks, then calls `stopped`. Pods keep the marks they have. */
void k8s_annotator_stop(struct k8s_annotator *annotator, void (*stopped)(void *arg), void *arg);

#endif
