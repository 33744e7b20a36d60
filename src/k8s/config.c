/*
 * config.c - finds the API server and the credentials: from a URL or a service account, with the
 * checks that a kubeconfig needs as well.
 *
 * Reading a kubeconfig itself is in kubeconfig.c.
 */
#include "k8s/config_internal.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/strbuf.h"

enum { CONFIG_PATH_MAX = 4096, CONFIG_URL_MAX = 2048, CONFIG_NAMESPACE_MAX = 63 };

int config_fail(char error[K8S_CONFIG_ERROR_MAX], int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error, K8S_CONFIG_ERROR_MAX, format, args);
    va_end(args);
    return err;
}

struct k8s_config *config_new(void)
{
    struct k8s_config *config = calloc(1, sizeof(*config));

    if (!config)
        return NULL;
    config->token_fresh_ms = K8S_TOKEN_FRESH_MS;
    config->namespace_name = strdup("");
    return config->namespace_name ? config : k8s_config_free(config);
}

static void pem_release(struct k8s_pem *pem)
{
    free(pem->path);
    config_free_secret(pem->data, pem->len);
}

struct k8s_config *k8s_config_free(struct k8s_config *config)
{
    if (!config)
        return NULL;
    free(config->server);
    free(config->namespace_name);
    free(config->tls_server_name);
    pem_release(&config->ca);
    pem_release(&config->client_certificate);
    pem_release(&config->client_key);
    config_free_secret(config->token, config->token ? strlen(config->token) : 0);
    free(config->token_file);
    free(config);
    return NULL;
}

void k8s_config_freep(struct k8s_config **config)
{
    *config = k8s_config_free(*config);
}

/* ---- the server ---- */

/* Does the URL have this part? */
static bool url_has(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return has;
}

/* NULL, or what is wrong with it. */
static const char *url_problem(const char *text)
{
    CURLU *url;
    const char *problem = NULL;

    if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return "it must begin with https:// or http://";
    if (strlen(text) > CONFIG_URL_MAX)
        return "it is too long";
    url = curl_url();
    if (!url)
        return "no memory";
    if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
        problem = "it is not a URL";
    else if (url_has(url, CURLUPART_USER) || url_has(url, CURLUPART_PASSWORD))
        problem = "it must not contain a user or a password";
    else if (url_has(url, CURLUPART_QUERY) || url_has(url, CURLUPART_FRAGMENT))
        problem = "it must end with its path";
    curl_url_cleanup(url);
    return problem;
}

int config_set_server(struct k8s_config *config, const char *url, const char *where,
                      char error[K8S_CONFIG_ERROR_MAX])
{
    const char *problem = url_problem(url);
    size_t len = strlen(url);

    /* The URL itself is not shown: somebody may have put a password into it. */
    if (problem)
        return config_fail(error, -EINVAL, "%s is not the URL of a server: %s", where, problem);
    while (len > 0 && url[len - 1] == '/')
        len--;
    config->server = strndup(url, len);
    return config->server ? 0 : -ENOMEM;
}

bool config_is_https(const struct k8s_config *config)
{
    return strncmp(config->server, "https:", 6) == 0;
}

int k8s_config_from_url(const char *url, struct k8s_config **ret_config, char error[K8S_CONFIG_ERROR_MAX])
{
    CLEANUP(k8s_config_freep) struct k8s_config *config = config_new();
    int err;

    (void)config_fail(error, 0, "no memory");
    if (!config)
        return -ENOMEM;
    err = config_set_server(config, url, "the API server's address", error);
    if (err < 0)
        return err;
    *ret_config = TAKE(config);
    return 0;
}

/* ---- inside a cluster ---- */

/* The namespace is of help only: where none is told, settings say it. */
static int read_namespace(struct k8s_config *config, const char *path)
{
    char *data = NULL;
    size_t len = 0;
    int err = config_read_file(path, CONFIG_NAMESPACE_MAX + 1, &data, &len);

    if (err < 0)
        return err == -ENOMEM ? err : 0;
    data[strcspn(data, " \t\r\n")] = '\0';
    free(config->namespace_name);
    config->namespace_name = data;
    return 0;
}

static int join(char path[CONFIG_PATH_MAX], const char *directory, const char *name,
                char error[K8S_CONFIG_ERROR_MAX])
{
    if (snprintf(path, CONFIG_PATH_MAX, "%s/%s", directory, name) >= CONFIG_PATH_MAX)
        return config_fail(error, -ENAMETOOLONG, "the path of the service account directory is too long");
    return 0;
}

static int read_service_account(struct k8s_config *config, const char *directory,
                                char error[K8S_CONFIG_ERROR_MAX])
{
    char path[CONFIG_PATH_MAX];
    int err;

    err = join(path, directory, "ca.crt", error);
    if (err == 0)
        err = config_set_pem_path(&config->ca, path, "the service account", error);
    if (err == 0)
        err = join(path, directory, "token", error);
    if (err == 0)
        err = config_set_token_file(config, path, "the service account", error);
    if (err == 0)
        err = join(path, directory, "namespace", error);
    return err < 0 ? err : read_namespace(config, path);
}

int k8s_config_in_cluster(const char *host, const char *port, const char *directory,
                          struct k8s_config **ret_config, char error[K8S_CONFIG_ERROR_MAX])
{
    CLEANUP(k8s_config_freep) struct k8s_config *config = config_new();
    char url[CONFIG_URL_MAX + 1];
    bool is_ipv6;
    int len, err;

    (void)config_fail(error, 0, "no memory");
    if (!config)
        return -ENOMEM;
    if (!host || !*host || !port || !*port)
        return config_fail(error, -EINVAL,
                           "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set");
    is_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
    len = snprintf(url, sizeof(url), "https://%s%s%s:%s", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
    if (len >= (int)sizeof(url))
        return config_fail(error, -EINVAL, "KUBERNETES_SERVICE_HOST is too long");
    err = config_set_server(config, url, "https://KUBERNETES_SERVICE_HOST:KUBERNETES_SERVICE_PORT", error);
    if (err < 0)
        return err;
    err = read_service_account(config, directory, error);
    if (err < 0)
        return err;
    *ret_config = TAKE(config);
    return 0;
}
