/*
 * kube.h - from the settings to a client of the Kubernetes API server.
 */
#ifndef APP_KUBE_H
#define APP_KUBE_H

#include "config/config.h"
#include "k8s/client.h"

/* Where the API server is, as the settings say. Logs what is wrong. 0 or a negative errno. */
int app_find_kube(const struct settings *settings, struct k8s_config **ret_config) MUST_CHECK;

/*
 * The same without a word in the log: `error` says what is wrong, and *ret_variable names the setting that
 * leads there.
 */
int app_read_kube(const struct settings *settings, struct k8s_config **ret_config, const char **ret_variable,
                  char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

#endif
