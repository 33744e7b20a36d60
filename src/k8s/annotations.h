/*
 * annotations.h - the annotations of a pod that carries a call: scaling down takes it last, and autoscalers
 * leave its node alone. Any thread; nothing here logs.
 *
 * Others use these annotations as well, with the same values. So a fourth one, of our own, names those that
 * we have set: only these are ever changed or removed. One that was there before, or that somebody has
 * changed since, is theirs.
 */
#ifndef K8S_ANNOTATIONS_H
#define K8S_ANNOTATIONS_H

#include <cjson/cJSON.h>

#include "base/strbuf.h"

#define K8S_ANNOTATIONS_COST "controller.kubernetes.io/pod-deletion-cost"
#define K8S_ANNOTATIONS_COST_VALUE "1000"
#define K8S_ANNOTATIONS_EVICT "cluster-autoscaler.kubernetes.io/safe-to-evict"
#define K8S_ANNOTATIONS_EVICT_VALUE "false"
#define K8S_ANNOTATIONS_DISRUPT "karpenter.sh/do-not-disrupt"
#define K8S_ANNOTATIONS_DISRUPT_VALUE "true"
#define K8S_ANNOTATIONS_OWNED "smart-router/marks" /* "pod-deletion-cost,safe-to-evict": what we have set */

/* Which of the annotations a pod has; a bit for each. All 0: none. */
struct k8s_annotations {
    uint8_t ours;
    uint8_t others;
    bool is_signed; /* has the annotation of our own, whatever it says */
};

/* `annotations` are those of the pod's metadata: NULL or null if it has none. Anything may be in there. */
void k8s_annotations_read(const cJSON *annotations, struct k8s_annotations *ret_mark);

/* Does a pod with this mark need no change? */
bool k8s_annotations_fits(struct k8s_annotations mark, bool is_busy);

/*
 * The merge patch that makes it fit. It names the uid, so that it is refused (409) where another pod has got
 * the name since.
 */
void k8s_annotations_write_patch(struct strbuf *buf, struct k8s_annotations mark, const char *uid,
                                 bool is_busy);

/* What the mark is after that. */
struct k8s_annotations k8s_annotations_patched(struct k8s_annotations mark, bool is_busy);

#endif
