/*
 * kube.c - finds the Kubernetes API server: from KUBE_API_URL, a kubeconfig or the pod's service
 * account.
 */
#include "app/kube.h"

#include <stdio.h>

#include "base/log.h"

int app_read_kube(const struct settings *settings, struct k8s_config **ret_config, const char **ret_variable,
                  char error[K8S_CONFIG_ERROR_MAX])
{
    char port[8];

    error[0] = '\0';
    if (settings->kube_api_url[0]) {
        *ret_variable = "KUBE_API_URL";
        return k8s_config_from_url(settings->kube_api_url, ret_config, error);
    }
    if (settings->kubeconfig[0]) {
        *ret_variable = "KUBECONFIG";
        return k8s_config_load(settings->kubeconfig, ret_config, error);
    }
    *ret_variable = "SERVICE_ACCOUNT_DIR";
    snprintf(port, sizeof(port), "%u", settings->kubernetes_service_port);
    return k8s_config_in_cluster(settings->kubernetes_service_host, port, settings->service_account_dir,
                                 ret_config, error);
}

int app_find_kube(const struct settings *settings, struct k8s_config **ret_config)
{
    char error[K8S_CONFIG_ERROR_MAX];
    const char *variable;
    int err = app_read_kube(settings, ret_config, &variable, error);

    if (err < 0) {
        log_error("Kubernetes cannot be used", log_str("error", error[0] ? error : strerror(-err)));
        return err;
    }
    log_info("pods come from Kubernetes", log_str("server", (*ret_config)->server),
             log_str("namespace", settings->namespace_name),
             log_str("selector", settings->pod_label_selector));
    return 0;
}
