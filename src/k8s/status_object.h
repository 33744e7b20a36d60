/*
 * status_object.h - the Status object with which the API server refuses: as the body of an answer or in an
 * ERROR event.
 */
#ifndef K8S_STATUS_H
#define K8S_STATUS_H

#include <cjson/cJSON.h>

#include "base/base.h"

enum {
    K8S_STATUS_REASON_MAX = 63,
    K8S_STATUS_MESSAGE_MAX = 511,
    K8S_STATUS_KIND_MAX = 63,
    K8S_STATUS_NAME_MAX = 253,
};

struct k8s_status {
    int code;                                 /* as HTTP's; 0: it does not say */
    char reason[K8S_STATUS_REASON_MAX + 1];   /* "Expired"; longer ones are cut */
    char message[K8S_STATUS_MESSAGE_MAX + 1]; /* a sentence for the log; longer ones are cut */
    char kind[K8S_STATUS_KIND_MAX + 1];       /* of the object that it is about: "pods"; "": none */
    char name[K8S_STATUS_NAME_MAX + 1];       /* of that object */
    uint64_t retry_after_ms;                  /* 0: it does not ask for it */
};

/* Never fails: what is not a Status gives an empty one. */
void k8s_status_read(const cJSON *object, struct k8s_status *ret_status);
void k8s_status_parse(struct slice text, struct k8s_status *ret_status);

#endif
