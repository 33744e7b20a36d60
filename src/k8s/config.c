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

#include "base/strbuf.h"

enum { CONFIG_PATH_MAX = 4096, CONFIG_URL_MAX = 2048, CONFIG_NAMESPACE_MAX = 63 };

int config_fail(char error[K8S_CONFIG_ERROR_MAX], int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error, K8S_CONFIG_ERROR_MAX, format, args);
    va_end(args);
    return rc;
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

static void free_secret(char *secret, size_t len)
{
    if (secret)
        explicit_bzero(secret, len);
    free(secret);
}

static void pem_release(struct k8s_pem *pem)
{
    free(pem->path);
    free_secret(pem->data, pem->len);
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
    free_secret(config->token, config->token ? strlen(config->token) : 0);
    free(config->token_file);
    free(config);
    return NULL;
}

void k8s_config_freep(struct k8s_config **config)
{
    *config = k8s_config_free(*config);
}

/* ---- files ---- */

/* Reads until the end or until the buffer is full; gives the bytes, or a negative errno. */
static ssize_t read_all(int fd, char *data, size_t room)
{
    size_t len = 0;

    while (len < room) {
        ssize_t got = read(fd, data + len, room - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

int config_read_file(const char *path, size_t max, char **ret_data, size_t *ret_len)
{
    char *data = malloc(max + 2);
    ssize_t len = -EIO;
    int rc = 0;
    int fd;

    if (!data)
        return -ENOMEM;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        len = read_all(fd, data, max + 1);
        close(fd);
    } else if (errno > 0) {
        len = -errno;
    }
    if (len < 0)
        rc = (int)len;
    else if (len == 0)
        rc = -ENODATA;
    else if ((size_t)len > max)
        rc = -EMSGSIZE;
    if (rc < 0) {
        free(data);
        return rc;
    }
    data[len] = '\0';
    *ret_data = data;
    *ret_len = (size_t)len;
    return 0;
}

/* Errors of ours said better than strerror would. */
static const char *file_error(int rc)
{
    switch (rc) {
    case -ENODATA:
        return "the file is empty";
    case -EMSGSIZE:
        return "the file is too large";
    case -EINVAL:
        return "this is no token";
    default:
        return strerror(-rc);
    }
}

int config_set_pem_path(struct k8s_pem *pem, const char *path, const char *where,
                        char error[K8S_CONFIG_ERROR_MAX])
{
    char *data = NULL;
    size_t len = 0;
    bool has_pem;
    int rc = config_read_file(path, K8S_CONFIG_FILE_MAX, &data, &len);

    if (rc < 0)
        return config_fail(error, rc, "%s: cannot read %s: %s", where, path, file_error(rc));
    has_pem = strstr(data, "-----BEGIN ") != NULL;
    free_secret(data, len);
    if (!has_pem)
        return config_fail(error, -EINVAL, "%s: %s is not a PEM file", where, path);
    pem->path = strdup(path);
    return pem->path ? 0 : -ENOMEM;
}

/* ---- tokens ---- */

bool config_is_token(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return len > 0 && len <= K8S_TOKEN_MAX;
}

int k8s_token_read(const char *path, char **ret_token)
{
    char *data = NULL, *start, *end;
    size_t len = 0;
    int rc = config_read_file(path, K8S_TOKEN_MAX, &data, &len);

    if (rc < 0)
        return rc == -ENODATA ? -EINVAL : rc;
    start = data + strspn(data, " \t\r\n");
    end = data + len;
    while (end > start && strchr(" \t\r\n", end[-1]))
        end--;
    *end = '\0';
    /* A NUL inside would hide what stands behind it. */
    if (strlen(start) != (size_t)(end - start) || !config_is_token(start)) {
        free_secret(data, len);
        return -EINVAL;
    }
    memmove(data, start, (size_t)(end - start) + 1);
    *ret_token = data;
    return 0;
}

int config_set_token_file(struct k8s_config *config, const char *path, const char *where,
                          char error[K8S_CONFIG_ERROR_MAX])
{
    char *token = NULL;
    int rc = k8s_token_read(path, &token);

    if (rc < 0)
        return config_fail(error, rc, "%s: cannot read a token from %s: %s", where, path, file_error(rc));
    free(config->token);
    config->token = token;
    config->token_file = strdup(path);
    return config->token_file ? 0 : -ENOMEM;
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
    int rc;

    (void)config_fail(error, 0, "no memory");
    if (!config)
        return -ENOMEM;
    rc = config_set_server(config, url, "the API server's address", error);
    if (rc < 0)
        return rc;
    *ret_config = TAKE(config);
    return 0;
}

/* ---- inside a cluster ---- */

/* The namespace is of help only: where none is told, settings say it. */
static int read_namespace(struct k8s_config *config, const char *path)
{
    char *data = NULL;
    size_t len = 0;
    int rc = config_read_file(path, CONFIG_NAMESPACE_MAX + 1, &data, &len);

    if (rc < 0)
        return rc == -ENOMEM ? rc : 0;
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
    int rc;

    rc = join(path, directory, "ca.crt", error);
    if (rc == 0)
        rc = config_set_pem_path(&config->ca, path, "the service account", error);
    if (rc == 0)
        rc = join(path, directory, "token", error);
    if (rc == 0)
        rc = config_set_token_file(config, path, "the service account", error);
    if (rc == 0)
        rc = join(path, directory, "namespace", error);
    return rc < 0 ? rc : read_namespace(config, path);
}

int k8s_config_in_cluster(const char *host, const char *port, const char *directory,
                          struct k8s_config **ret_config, char error[K8S_CONFIG_ERROR_MAX])
{
    CLEANUP(k8s_config_freep) struct k8s_config *config = config_new();
    char url[CONFIG_URL_MAX + 1];
    bool is_ipv6;
    int len, rc;

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
    rc = config_set_server(config, url, "https://KUBERNETES_SERVICE_HOST:KUBERNETES_SERVICE_PORT", error);
    if (rc < 0)
        return rc;
    rc = read_service_account(config, directory, error);
    if (rc < 0)
        return rc;
    *ret_config = TAKE(config);
    return 0;
}
