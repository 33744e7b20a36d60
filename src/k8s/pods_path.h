/*
 * pods_path.h - the paths of the API server for pods: to list, to watch, to get one.
 */
#ifndef K8S_PODS_PATH_H
#define K8S_PODS_PATH_H

#include "base/base.h"

enum {
    K8S_PODS_PATH_MAX = 16 * 1024,
    K8S_PODS_PAGE = 500, /* pods */
};

/*
 * A page of a list of what is true now. `continue_token`: of the page before; "": the first one. `selector`
 * may be NULL. -EMSGSIZE: it does not fit.
 */
int k8s_pods_path_list(char path[K8S_PODS_PATH_MAX], const char *namespace_name, const char *selector,
                       const char *continue_token, bool is_unlimited) MUST_CHECK;

int k8s_pods_path_watch(char path[K8S_PODS_PATH_MAX], const char *namespace_name, const char *selector,
                        const char *version, uint32_t timeout_s) MUST_CHECK;

/* One pod. */
int k8s_pods_path_get(char path[K8S_PODS_PATH_MAX], const char *namespace_name, const char *name) MUST_CHECK;

#endif
