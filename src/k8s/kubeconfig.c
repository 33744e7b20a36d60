/*
 * kubeconfig.c - a kubeconfig file: the current context and the cluster and user that it names.
 *
 * The document is small and trusted as much as its owner is; still every field is looked at before it is
 * used, because a mistake in it should cost a sentence and not an afternoon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/strbuf.h"
#include "k8s/base64.h"
#include "k8s/config_internal.h"

enum { KUBECONFIG_PATH_MAX = 4096, KUBECONFIG_NAME_MAX = 512, KUBECONFIG_WHERE_MAX = 256 };

struct kubeconfig {
    const char *path;
    yaml_document_t document;
    char *error; /* K8S_CONFIG_ERROR_MAX bytes */
};

/* A named entry of one of the three lists: its inner map and how to speak of it. */
struct section {
    struct kubeconfig *file;
    const yaml_node_t *map; /* NULL: empty */
    char name[KUBECONFIG_WHERE_MAX];
};

static void freep(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
}

/* ---- the document ---- */

static const yaml_node_t *node_at(struct kubeconfig *file, int index)
{
    return yaml_document_get_node(&file->document, index);
}

static struct slice scalar_of(const yaml_node_t *node)
{
    return (struct slice){(const char *)node->data.scalar.value, node->data.scalar.length};
}

static bool is_null(const yaml_node_t *node)
{
    struct slice text;

    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    text = scalar_of(node);
    return text.len == 0 || slice_equals(text, "~") || slice_equals(text, "null") ||
           slice_equals(text, "Null") || slice_equals(text, "NULL");
}

/* The value of a key; NULL if it is not there, or null. */
static const yaml_node_t *map_get(struct kubeconfig *file, const yaml_node_t *map, const char *key)
{
    const yaml_node_t *name, *value;

    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        name = node_at(file, pair->key);
        value = node_at(file, pair->value);
        if (name && value && name->type == YAML_SCALAR_NODE && slice_equals(scalar_of(name), key))
            return is_null(value) ? NULL : value;
    }
    return NULL;
}

/* The section's field as a copy; NULL if it is absent or empty. */
static int field_text(const struct section *section, const char *key, size_t max, char **ret_text)
{
    const yaml_node_t *node = map_get(section->file, section->map, key);
    struct slice text;

    *ret_text = NULL;
    if (!node)
        return 0;
    if (node->type != YAML_SCALAR_NODE)
        return config_fail(section->file->error, -EINVAL, "%s: %s: %s is not a text", section->file->path,
                           section->name, key);
    text = scalar_of(node);
    if (text.len > max || memchr(text.data, '\0', text.len))
        return config_fail(section->file->error, -EINVAL, "%s: %s: %s is too long, or not a text",
                           section->file->path, section->name, key);
    if (text.len == 0)
        return 0;
    *ret_text = strndup(text.data, text.len);
    return *ret_text ? 0 : -ENOMEM;
}

static int field_needed(const struct section *section, const char *key, char **ret_text)
{
    int err = field_text(section, key, KUBECONFIG_NAME_MAX, ret_text);

    if (err == 0 && !*ret_text)
        return config_fail(section->file->error, -EINVAL, "%s: %s: %s is missing", section->file->path,
                           section->name, key);
    return err;
}

static int field_bool(const struct section *section, const char *key, bool *ret_value)
{
    static const char *const yes[] = {"true", "True", "TRUE"};
    static const char *const no[] = {"false", "False", "FALSE"};
    const yaml_node_t *node = map_get(section->file, section->map, key);

    *ret_value = false;
    if (!node)
        return 0;
    for (size_t i = 0; node->type == YAML_SCALAR_NODE && i < ARRAY_LEN(yes); i++) {
        *ret_value = slice_equals(scalar_of(node), yes[i]);
        if (*ret_value || slice_equals(scalar_of(node), no[i]))
            return 0;
    }
    return config_fail(section->file->error, -EINVAL, "%s: %s: %s is neither true nor false",
                       section->file->path, section->name, key);
}

/* Fields that would change who we are or how we connect must not be ignored in silence. */
/* These run a program, or ask a service, for a token that expires: what kubectl does anyhow. */
static const char *instead_of(const char *key)
{
    if (strcmp(key, "exec") != 0 && strcmp(key, "auth-provider") != 0)
        return "";
    return ": run `kubectl proxy` beside the router and set KUBE_API_URL=http://127.0.0.1:8001, or use a "
           "token or a client certificate";
}

static int refuse_fields(const struct section *section, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (map_get(section->file, section->map, keys[i]))
            return config_fail(section->file->error, -EINVAL, "%s: %s: %s is not supported%s",
                               section->file->path, section->name, keys[i], instead_of(keys[i]));
    }
    return 0;
}

/* Finds `- name: NAME` in the list and the map under `inner` beside it. */
static int find_section(struct kubeconfig *file, const char *list_key, const char *inner, const char *name,
                        struct section *ret_section)
{
    const yaml_node_t *root = yaml_document_get_root_node(&file->document);
    const yaml_node_t *list = map_get(file, root, list_key);
    const yaml_node_t *entry, *its_name;

    assert(name);
    *ret_section = (struct section){.file = file};
    (void)snprintf(ret_section->name, sizeof(ret_section->name), "%s %.200s", inner, name);
    if (!list || list->type != YAML_SEQUENCE_NODE)
        return config_fail(file->error, -EINVAL, "%s: %s is missing, or not a list", file->path, list_key);
    for (const yaml_node_item_t *item = list->data.sequence.items.start; item < list->data.sequence.items.top;
         item++) {
        entry = node_at(file, *item);
        its_name = map_get(file, entry, "name");
        if (!its_name || its_name->type != YAML_SCALAR_NODE || !slice_equals(scalar_of(its_name), name))
            continue;
        ret_section->map = map_get(file, entry, inner);
        return 0;
    }
    return config_fail(file->error, -EINVAL, "%s: %s has no entry named %s", file->path, list_key, name);
}

/* ---- credentials ---- */

/* A relative path is relative to the kubeconfig's folder. */
static int absolute(const struct section *section, const char *key, const char *text,
                    char path[KUBECONFIG_PATH_MAX])
{
    const char *slash = strrchr(section->file->path, '/');
    int folder = slash && text[0] != '/' ? (int)(slash - section->file->path + 1) : 0;

    if (snprintf(path, KUBECONFIG_PATH_MAX, "%.*s%s", folder, section->file->path, text) >=
        KUBECONFIG_PATH_MAX)
        return config_fail(section->file->error, -ENAMETOOLONG, "%s: %s: %s is too long", section->file->path,
                           section->name, key);
    return 0;
}

/* How to speak of a field in a sentence that another function makes. */
static void where_is(const struct section *section, const char *key, char *text, size_t size)
{
    (void)snprintf(text, size, "%s: %s: %s", section->file->path, section->name, key);
}

static int pem_of_data(const struct section *section, const char *key, const char *text, struct k8s_pem *pem)
{
    int err = base64_decode(slice_of(text), &pem->data, &pem->len);

    if (err == -EINVAL)
        return config_fail(section->file->error, err, "%s: %s: %s is not base64", section->file->path,
                           section->name, key);
    if (err < 0)
        return err;
    if (!memmem(pem->data, pem->len, "-----BEGIN ", 11))
        return config_fail(section->file->error, -EINVAL, "%s: %s: %s is not a PEM text", section->file->path,
                           section->name, key);
    return 0;
}

static int field_pem(const struct section *section, const char *key, struct k8s_pem *pem)
{
    CLEANUP(freep) char *data = NULL;
    CLEANUP(freep) char *file = NULL;
    char data_key[64], path[KUBECONFIG_PATH_MAX], where[K8S_CONFIG_ERROR_MAX];
    int err;

    (void)snprintf(data_key, sizeof(data_key), "%s-data", key);
    err = field_text(section, data_key, K8S_CONFIG_FILE_MAX, &data);
    if (err < 0)
        return err;
    if (data)
        return pem_of_data(section, data_key, data, pem);
    err = field_text(section, key, KUBECONFIG_PATH_MAX - 1, &file);
    if (err < 0 || !file)
        return err;
    err = absolute(section, key, file, path);
    if (err < 0)
        return err;
    where_is(section, key, where, sizeof(where));
    return config_set_pem_path(pem, path, where, section->file->error);
}

static bool pem_is_there(const struct k8s_pem *pem)
{
    return pem->path || pem->data;
}

static int take_token(const struct section *user, struct k8s_config *config)
{
    CLEANUP(freep) char *file = NULL;
    char path[KUBECONFIG_PATH_MAX], where[K8S_CONFIG_ERROR_MAX];
    int err;

    err = field_text(user, "token", K8S_TOKEN_MAX, &config->token);
    if (err < 0)
        return err;
    if (config->token && !config_is_token(config->token))
        return config_fail(user->file->error, -EINVAL, "%s: %s: token has characters that no header can hold",
                           user->file->path, user->name);
    err = field_text(user, "tokenFile", KUBECONFIG_PATH_MAX - 1, &file);
    if (err < 0 || !file)
        return err;
    err = absolute(user, "tokenFile", file, path);
    if (err < 0)
        return err;
    where_is(user, "tokenFile", where, sizeof(where));
    return config_set_token_file(config, path, where, user->file->error);
}

/* ---- the three sections ---- */

static int take_cluster(struct kubeconfig *file, const char *name, struct k8s_config *config)
{
    static const char *const unsupported[] = {"proxy-url"};
    CLEANUP(freep) char *server = NULL;
    struct section cluster;
    char where[K8S_CONFIG_ERROR_MAX];
    int err;

    err = find_section(file, "clusters", "cluster", name, &cluster);
    if (err == 0)
        err = refuse_fields(&cluster, unsupported, ARRAY_LEN(unsupported));
    if (err == 0)
        err = field_needed(&cluster, "server", &server);
    if (err < 0)
        return err;
    where_is(&cluster, "server", where, sizeof(where));
    err = config_set_server(config, server, where, file->error);
    if (err < 0 || !config_is_https(config))
        return err;
    err = field_bool(&cluster, "insecure-skip-tls-verify", &config->is_insecure);
    if (err == 0)
        err = field_text(&cluster, "tls-server-name", KUBECONFIG_NAME_MAX, &config->tls_server_name);
    if (err == 0)
        err = field_pem(&cluster, "certificate-authority", &config->ca);
    if (err == 0 && config->is_insecure && pem_is_there(&config->ca))
        err = config_fail(file->error, -EINVAL,
                          "%s: %s: certificate-authority and insecure-skip-tls-verify exclude each other",
                          file->path, cluster.name);
    return err;
}

static int take_user(struct kubeconfig *file, const char *name, struct k8s_config *config)
{
    static const char *const unsupported[] = {"exec", "auth-provider", "username",  "password",
                                              "as",   "as-uid",        "as-groups", "as-user-extra"};
    struct section user;
    int err;

    err = find_section(file, "users", "user", name, &user);
    if (err == 0)
        err = refuse_fields(&user, unsupported, ARRAY_LEN(unsupported));
    if (err == 0)
        err = field_pem(&user, "client-certificate", &config->client_certificate);
    if (err == 0)
        err = field_pem(&user, "client-key", &config->client_key);
    if (err == 0 && pem_is_there(&config->client_certificate) != pem_is_there(&config->client_key))
        err = config_fail(file->error, -EINVAL, "%s: %s: client-certificate and client-key go together",
                          file->path, user.name);
    return err < 0 ? err : take_token(&user, config);
}

static int take_context(struct kubeconfig *file, struct k8s_config *config)
{
    struct section root = {
        .file = file, .map = yaml_document_get_root_node(&file->document), .name = "the file"};
    struct section context;
    CLEANUP(freep) char *context_name = NULL;
    CLEANUP(freep) char *cluster = NULL;
    CLEANUP(freep) char *user = NULL;
    char *namespace_name = NULL;
    int err;

    if (!root.map || root.map->type != YAML_MAPPING_NODE)
        return config_fail(file->error, -EINVAL, "%s is not a kubeconfig", file->path);
    err = field_needed(&root, "current-context", &context_name);
    if (err == 0)
        err = find_section(file, "contexts", "context", context_name, &context);
    if (err == 0)
        err = field_needed(&context, "cluster", &cluster);
    if (err == 0)
        err = field_text(&context, "user", KUBECONFIG_NAME_MAX, &user);
    if (err == 0)
        err = field_text(&context, "namespace", KUBECONFIG_NAME_MAX, &namespace_name);
    if (err < 0)
        return err;
    if (namespace_name) {
        free(config->namespace_name);
        config->namespace_name = namespace_name;
    }
    err = take_cluster(file, cluster, config);
    if (err == 0 && user && config_is_https(config))
        err = take_user(file, user, config);
    return err;
}

/* ---- the file ---- */

static int parse_document(struct kubeconfig *file, const char *data, size_t len)
{
    yaml_parser_t parser;
    int err = 0;

    if (!yaml_parser_initialize(&parser))
        return -ENOMEM;
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, len);
    if (!yaml_parser_load(&parser, &file->document)) {
        err = parser.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL;
        if (err == -EINVAL)
            (void)config_fail(file->error, err, "%s: line %zu is not YAML: %s", file->path,
                              parser.problem_mark.line + 1, parser.problem ? parser.problem : "unreadable");
    }
    yaml_parser_delete(&parser);
    return err;
}

int k8s_config_load(const char *path, struct k8s_config **ret_config, char error[K8S_CONFIG_ERROR_MAX])
{
    CLEANUP(k8s_config_freep) struct k8s_config *config = config_new();
    struct kubeconfig file = {.path = path, .error = error};
    char *data = NULL;
    size_t len = 0;
    int err;

    (void)config_fail(error, 0, "no memory");
    if (!config)
        return -ENOMEM;
    err = config_read_file(path, K8S_CONFIG_FILE_MAX, &data, &len);
    if (err < 0)
        return config_fail(error, err, "cannot read %s: %s", path,
                           err == -EMSGSIZE  ? "the file is too large"
                           : err == -ENODATA ? "the file is empty"
                                             : strerror(-err));
    err = parse_document(&file, data, len);
    explicit_bzero(data, len);
    free(data);
    if (err < 0)
        return err;
    err = take_context(&file, config);
    yaml_document_delete(&file.document);
    if (err < 0)
        return err;
    *ret_config = TAKE(config);
    return 0;
}
