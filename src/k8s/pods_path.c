/*
 * pods_path.c - builds the request paths for pods, percent-encoded.
 */
#include "k8s/pods_path.h"

#include <stdio.h>

/* A text that ends before K8S_PODS_PATH_MAX, or fails. */
struct path {
    char *text;
    size_t len;
    bool has_query;
    bool failed;
};

static void path_add(struct path *path, const char *text)
{
    size_t len = strlen(text);

    if (path->failed || len >= K8S_PODS_PATH_MAX - path->len) {
        path->failed = true;
        return;
    }
    memcpy(path->text + path->len, text, len + 1);
    path->len += len;
}

static void path_add_encoded(struct path *path, const char *text)
{
    for (; *text; text++) {
        char c = *text, encoded[4] = {c};
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        c == '-' || c == '.' || c == '_' || c == '~';

        if (!is_plain)
            snprintf(encoded, sizeof(encoded), "%%%02X", (unsigned)(unsigned char)c);
        path_add(path, encoded);
    }
}

/* A parameter that is empty is left out. */
static void path_add_parameter(struct path *path, const char *name, const char *value)
{
    if (!value || !value[0])
        return;
    path_add(path, path->has_query ? "&" : "?");
    path->has_query = true;
    path_add(path, name);
    path_add(path, "=");
    path_add_encoded(path, value);
}

static void path_begin(struct path *path, const char *namespace_name)
{
    path_add(path, "/api/v1/namespaces/");
    path_add_encoded(path, namespace_name);
    path_add(path, "/pods");
}

int k8s_pods_path_list(char text[K8S_PODS_PATH_MAX], const char *namespace_name, const char *selector,
                       const char *continue_token, bool is_unlimited)
{
    struct path path = {.text = text};
    char limit[16];

    snprintf(limit, sizeof(limit), "%d", K8S_PODS_PAGE);
    path_begin(&path, namespace_name);
    path_add_parameter(&path, "labelSelector", selector);
    path_add_parameter(&path, "limit", is_unlimited ? NULL : limit);
    path_add_parameter(&path, "continue", continue_token);
    return path.failed ? -EMSGSIZE : 0;
}

int k8s_pods_path_watch(char text[K8S_PODS_PATH_MAX], const char *namespace_name, const char *selector,
                        const char *version, uint32_t timeout_s)
{
    struct path path = {.text = text};
    char timeout[16];

    snprintf(timeout, sizeof(timeout), "%u", (unsigned)timeout_s);
    path_begin(&path, namespace_name);
    path_add_parameter(&path, "watch", "1");
    path_add_parameter(&path, "allowWatchBookmarks", "true");
    path_add_parameter(&path, "timeoutSeconds", timeout);
    path_add_parameter(&path, "resourceVersion", version);
    path_add_parameter(&path, "labelSelector", selector);
    return path.failed ? -EMSGSIZE : 0;
}

int k8s_pods_path_get(char text[K8S_PODS_PATH_MAX], const char *namespace_name, const char *name)
{
    struct path path = {.text = text};

    path_begin(&path, namespace_name);
    path_add(&path, "/");
    path_add_encoded(&path, name);
    return path.failed ? -EMSGSIZE : 0;
}
