/*
 * config.c - loads all settings from the environment and files, checks those that depend on each
 * other, and collects errors.
 */
#include "config/config_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/map.h"
#include "base/quantity.h"
#include "config/value.h"

enum {
    ARENA_MAX = 16 * 1024 * 1024,
    ERRORS_MAX = 256 * 1024,
    VALUE_SHOWN_MAX = 200, /* of a bad value */
    BASE_URL_MAX = 2048,
};

static size_t config_index(const char *name)
{
    for (size_t i = 0; i < config_table_len; i++) {
        if (strcmp(config_table[i].name, name) == 0)
            return i;
    }
    assert(false); /* a name that is not in the table is our own mistake */
    return 0;
}

/* The name, and for what came from a file also that. */
static void config_begin_error(struct config *config, const char *name)
{
    const char *path = config->paths[config_index(name)];

    strbuf_append_str(&config->errors, name);
    if (!path)
        return;
    strbuf_append_str(&config->errors, " (in the file \"");
    json_escape(&config->errors, slice_of(path));
    strbuf_append_str(&config->errors, "\")");
}

/* Shows what was given, so that a blank at its end or a wrong file is seen; never for secrets. */
static void config_append_value(struct config *config, const struct setting *setting, const char *text)
{
    size_t len = strlen(text);

    if (setting->is_secret) {
        strbuf_append_str(&config->errors, "is a secret, not shown, ");
        return;
    }
    strbuf_append_str(&config->errors, "is \"");
    json_escape(&config->errors, (struct slice){text, len < VALUE_SHOWN_MAX ? len : VALUE_SHOWN_MAX});
    strbuf_append_str(&config->errors, len < VALUE_SHOWN_MAX ? "\" " : "\"... ");
}

static void config_refuse_value(struct config *config, const struct setting *setting, const char *text,
                                const char *allowed)
{
    config_begin_error(config, setting->name);
    strbuf_append_char(&config->errors, ' ');
    config_append_value(config, setting, text);
    strbuf_printf(&config->errors, "but must be %s\n", allowed);
}

void config_add_error(struct config *config, const char *name, const char *sentence)
{
    config_begin_error(config, name);
    strbuf_printf(&config->errors, ": %s\n", sentence);
}

bool config_is_set(const struct config *config, const char *name)
{
    return config->is_set[config_index(name)];
}

bool config_secret_file(const struct config *config, size_t *at, const char **ret_name, const char **ret_path)
{
    for (; *at < config_table_len; ++*at) {
        if (!config->paths[*at])
            continue;
        *ret_name = config_table[*at].name;
        *ret_path = config->paths[(*at)++];
        return true;
    }
    return false;
}

/* Replaces a value by a greater one that others need; shown as what is in force. */
static int config_raise(struct config *config, const char *name, uint64_t at_least_ms)
{
    size_t i = config_index(name);
    uint64_t *field = value_field(&config_table[i], &config->settings);
    struct strbuf text;

    if (*field >= at_least_ms)
        return 0;
    *field = at_least_ms;
    strbuf_init(&text, &config->arena, 64);
    quantity_append_duration(&text, at_least_ms);
    if (strbuf_failed(&text))
        return -ENOMEM;
    config->texts[i] = text.data;
    config->notes[i] = "raised to LEASE_TTL";
    return 0;
}

/* The environment's value of `name`, copied; *ret_text is NULL when it is unset or empty. */
static int config_lookup(struct config *config, config_lookup_fn lookup, void *arg, const char *name,
                         const char **ret_text)
{
    const char *text = lookup(arg, name);

    *ret_text = NULL;
    if (!text || !text[0])
        return 0;
    *ret_text = arena_strdup(&config->arena, text);
    return *ret_text ? 0 : -ENOMEM;
}

/* Reads the file at `path`. What is wrong becomes an error line, and *text stays. 0 or -ENOMEM. */
static int config_read_file(struct config *config, size_t i, const char *path, const char **text)
{
    struct strbuf why;
    int err;

    strbuf_init(&why, &config->arena, 4096);
    err = config_read_secret(config, path, text, &why);
    if (err == 0) {
        config->is_from_file[i] = true;
        config->paths[i] = path;
    }
    if (err != -EINVAL)
        return err;
    if (strbuf_failed(&why))
        return -ENOMEM;
    strbuf_printf(&config->errors, "%s_FILE is \"", config_table[i].name);
    json_escape(&config->errors, slice_of(path));
    strbuf_printf(&config->errors, "\", but that file %s\n", why.data);
    return 0;
}

/*
 * What is in the file that NAME_FILE names, if it names one: then *text, which is NAME's own value so far, is
 * replaced. What is wrong becomes an error line, and *text NULL. 0 or -ENOMEM.
 */
static int config_lookup_file(struct config *config, size_t i, config_lookup_fn lookup, void *arg,
                              const char **text)
{
    const struct setting *setting = &config_table[i];
    char name[64];
    const char *path;
    int err;

    snprintf(name, sizeof(name), "%s_FILE", setting->name);
    err = config_lookup(config, lookup, arg, name, &path);
    if (err < 0 || !path)
        return err;
    if (*text) {
        strbuf_printf(&config->errors, "%s and %s are both set: unset one of them\n", setting->name, name);
        *text = NULL;
        return 0;
    }
    return config_read_file(config, i, path, text);
}

/*
 * Kubernetes tells every pod of a namespace about each service there: the service voice-agent becomes
 * VOICE_AGENT_PORT=tcp://10.0.0.1:8080. Nobody has set that, so it must not stop the start.
 */
static bool is_service_port(const struct setting *setting, const char *text)
{
    static const char *const protocols[] = {"tcp://", "udp://", "sctp://"};

    for (size_t i = 0; setting->type == SETTING_PORT && i < ARRAY_LEN(protocols); i++) {
        if (strncmp(text, protocols[i], strlen(protocols[i])) == 0)
            return true;
    }
    return false;
}

static int config_add_name(struct strbuf *names, const char *name)
{
    if (names->len > 0)
        strbuf_append_char(names, ' ');
    strbuf_append_str(names, name);
    return strbuf_failed(names) ? -ENOMEM : 0;
}

static int config_read_setting(struct config *config, size_t i, config_lookup_fn lookup, void *arg)
{
    const struct setting *setting = &config_table[i];
    const char *text;
    struct strbuf allowed;
    int err;

    strbuf_init(&allowed, &config->arena, 4096);
    if (setting->fallback[0]) {
        err = value_parse(setting, setting->fallback, &config->settings, &allowed);
        assert(err == 0); /* our own default */
    } else if (setting->type == SETTING_STRING || setting->type == SETTING_LINES ||
               setting->type == SETTING_JSON || setting->type == SETTING_URL) {
        *(const char **)value_field(setting, &config->settings) = "";
    }
    config->texts[i] = setting->fallback;

    err = config_lookup(config, lookup, arg, setting->name, &text);
    if (err == 0 && setting->is_secret)
        err = config_lookup_file(config, i, lookup, arg, &text);
    if (err < 0 || !text)
        return err;
    if (is_service_port(setting, text)) {
        config->notes[i] = "because Kubernetes has set the variable for a service";
        return config_add_name(&config->service_ports, setting->name);
    }
    if (value_parse(setting, text, &config->settings, &allowed) < 0) {
        if (strbuf_failed(&allowed))
            return -ENOMEM;
        config_refuse_value(config, setting, text, allowed.data);
        return 0;
    }
    config->texts[i] = text;
    config->is_set[i] = true;
    return 0;
}

struct seen_name {
    struct map_node node;
};

/* Adds one "name" or "name=address"; one that is refused becomes an error line. 0 or -ENOMEM. */
static int config_add_static_pod(struct config *config, struct map *seen, char *entry)
{
    struct settings *settings = &config->settings;
    char *equals = strchr(entry, '=');
    struct seen_name *mark;

    if (equals)
        *equals = '\0';
    if (map_get(seen, entry, strlen(entry))) {
        strbuf_append_str(&config->errors, "STATIC_PODS names the pod \"");
        json_escape(&config->errors, slice_of(entry));
        strbuf_append_str(&config->errors, "\" twice\n");
        return 0;
    }
    mark = arena_alloc(&config->arena, sizeof(*mark));
    if (!mark || map_reserve(seen) < 0)
        return -ENOMEM;
    map_put(seen, &mark->node, entry, strlen(entry));
    settings->static_pods[settings->static_pod_count++] =
        (struct static_pod){.name = entry, .address = equals ? equals + 1 : ""};
    return 0;
}

static char *trim(char *text)
{
    size_t len;

    text += strspn(text, " \t");
    len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        text[--len] = '\0';
    return text;
}

static int config_read_static_pods(struct config *config)
{
    struct settings *settings = &config->settings;
    char *rest = arena_strdup(&config->arena, settings->static_pods_text);
    size_t count = 1;
    struct map seen;
    int err = 0;

    for (const char *at = settings->static_pods_text; *at; at++)
        count += *at == ',';
    settings->static_pods = arena_alloc(&config->arena, count * sizeof(*settings->static_pods));
    if (!rest || !settings->static_pods)
        return -ENOMEM;

    map_init(&seen);
    while (rest && err == 0) {
        char *entry = trim(strsep(&rest, ","));

        /* A comma too many does no harm. */
        if (entry[0])
            err = config_add_static_pod(config, &seen, entry);
    }
    map_release(&seen);
    return err;
}

static bool config_has_kubernetes(const struct settings *settings)
{
    char path[PATH_MAX];

    if (settings->kubeconfig[0] || settings->kube_api_url[0])
        return true;
    /* Every pod is told the address; a service account it may have or not. */
    snprintf(path, sizeof(path), "%s/token", settings->service_account_dir);
    return settings->kubernetes_service_host[0] && access(path, F_OK) == 0;
}

static enum config_pod_source config_find_source(const struct settings *settings)
{
    if (settings->static_pod_count > 0)
        return CONFIG_PODS_STATIC;
    return config_has_kubernetes(settings) ? CONFIG_PODS_KUBERNETES : CONFIG_PODS_API;
}

/* Kubernetes calls containers by a DNS label: lower-case letters, digits and inner hyphens. */
static void config_check_container(struct config *config)
{
    const char *name = config->settings.voice_agent_container;
    size_t len = strlen(name);

    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len && name[0] != '-' &&
        (len == 0 || name[len - 1] != '-'))
        return;
    strbuf_append_str(&config->errors, "VOICE_AGENT_CONTAINER is \"");
    json_escape(&config->errors, slice_of(name));
    strbuf_append_str(&config->errors,
                      "\", but a container's name has lower-case letters, digits and inner hyphens only\n");
}

/* Settings that only make sense together. Runs also when some are bad: those have their defaults. */
static int config_check_together(struct config *config)
{
    static const char *const sources[] = {
        [CONFIG_PODS_API] = "api",
        [CONFIG_PODS_STATIC] = "static",
        [CONFIG_PODS_KUBERNETES] = "kubernetes",
    };
    struct settings *settings = &config->settings;
    size_t source_index = config_index("POD_SOURCE");
    int err;

    if (settings->http_port == settings->metrics_port && settings->http_port != 0)
        strbuf_printf(&config->errors, "METRICS_PORT is %u, but HTTP_PORT is the same: they must differ\n",
                      settings->metrics_port);

    if (!config->is_set[source_index]) {
        settings->pod_source = config_find_source(settings);
        config->texts[source_index] = sources[settings->pod_source];
    } else if (settings->pod_source == CONFIG_PODS_KUBERNETES && !config_has_kubernetes(settings)) {
        strbuf_append_str(&config->errors, "POD_SOURCE is kubernetes, but nothing says where that is: set "
                                           "KUBECONFIG, or run in a pod with a service account\n");
    } else if (settings->pod_source == CONFIG_PODS_STATIC && settings->static_pod_count == 0) {
        strbuf_append_str(&config->errors, "POD_SOURCE is static, but STATIC_PODS names no pod\n");
    } else if (settings->pod_source != CONFIG_PODS_STATIC && config_is_set(config, "STATIC_PODS")) {
        strbuf_printf(
            &config->errors,
            "POD_SOURCE is %s, but STATIC_PODS is set: set POD_SOURCE=static, or unset one of them\n",
            sources[settings->pod_source]);
    }

    if (settings->leader_election_duration_ms <= settings->leader_election_renew_deadline_ms)
        strbuf_append_str(&config->errors,
                          "LEADER_ELECTION_DURATION must be longer than LEADER_ELECTION_RENEW_DEADLINE\n");
    if (settings->leader_election_renew_deadline_ms * 10 <= settings->leader_election_retry_period_ms * 12)
        strbuf_append_str(
            &config->errors,
            "LEADER_ELECTION_RENEW_DEADLINE must be longer than 1.2 times LEADER_ELECTION_RETRY_PERIOD\n");
    if (settings->redis_sentinel_username[0] && !settings->redis_sentinel_password[0])
        strbuf_append_str(&config->errors,
                          "REDIS_SENTINEL_USERNAME is set, but REDIS_SENTINEL_PASSWORD is not\n");
    if (!settings->leader_election_namespace[0]) {
        settings->leader_election_namespace = settings->namespace_name;
        config->texts[config_index("LEADER_ELECTION_NAMESPACE")] = settings->namespace_name;
    }

    if (!config_is_set(config, "HOLD_AGEING"))
        settings->hold_ageing_ms = settings->hold_max_wait_ms / 20;
    /* An operator who gives long leases expects them also for agents that never renew. */
    if (!config_is_set(config, "CALL_MAX_DURATION")) {
        err = config_raise(config, "CALL_MAX_DURATION", settings->lease_ttl_ms);
        if (err < 0)
            return err;
    }
    return config_raise(config, "CALL_INFO_TTL", settings->lease_ttl_ms);
}

/* The templates put a slash after the base: one at its end as well would double it. */
static int config_cut_slashes(struct config *config, const char **url)
{
    size_t len = strlen(*url);
    char *copy;

    while (len > 0 && (*url)[len - 1] == '/')
        len--;
    copy = arena_copy(&config->arena, *url, len);
    if (!copy)
        return -ENOMEM;
    *url = copy;
    return 0;
}

/*
 * Providers reach the gateway where they reach the webhooks, unless the operator says otherwise: http becomes
 * ws, and https becomes wss.
 */
static int config_derive_base(struct config *config)
{
    struct settings *settings = &config->settings;
    size_t i = config_index("VOICE_AGENT_BASE_URL");
    struct strbuf text;

    if (config->is_set[i] || !settings->public_base_url[0])
        return 0;
    strbuf_init(&text, &config->arena, BASE_URL_MAX);
    strbuf_append_str(&text, strncasecmp(settings->public_base_url, "https:", 6) == 0 ? "wss" : "ws");
    strbuf_append_str(&text, strchr(settings->public_base_url, ':'));
    if (strbuf_failed(&text))
        return -ENOMEM;
    settings->voice_agent_base_url = text.data;
    config->texts[i] = text.data;
    config->notes[i] = "from PUBLIC_BASE_URL";
    return 0;
}

static int config_collect_inert(struct config *config)
{
    int err = 0;

    for (size_t i = 0; i < config_table_len && err == 0; i++) {
        if (config_table[i].state == SETTING_INERT && config->is_set[i])
            err = config_add_name(&config->inert, config_table[i].name);
    }
    return err;
}

static int config_alloc_rows(struct config *config)
{
    config->texts = arena_alloc(&config->arena, config_table_len * sizeof(*config->texts));
    config->is_set = arena_alloc(&config->arena, config_table_len * sizeof(*config->is_set));
    config->is_from_file = arena_alloc(&config->arena, config_table_len * sizeof(*config->is_from_file));
    config->notes = arena_alloc(&config->arena, config_table_len * sizeof(*config->notes));
    config->paths = arena_alloc(&config->arena, config_table_len * sizeof(*config->paths));
    if (!config->texts || !config->is_set || !config->is_from_file || !config->notes || !config->paths)
        return -ENOMEM;
    memset(config->texts, 0, config_table_len * sizeof(*config->texts));
    memset(config->is_set, 0, config_table_len * sizeof(*config->is_set));
    memset(config->is_from_file, 0, config_table_len * sizeof(*config->is_from_file));
    memset(config->notes, 0, config_table_len * sizeof(*config->notes));
    memset(config->paths, 0, config_table_len * sizeof(*config->paths));
    return 0;
}

/* A configuration in which nothing is set. Fails only with -ENOMEM. */
static int config_new(struct config **ret_config)
{
    struct config *config = calloc(1, sizeof(*config));

    if (!config)
        return -ENOMEM;
    arena_init(&config->arena, ARENA_MAX);
    strbuf_init(&config->errors, NULL, ERRORS_MAX);
    strbuf_init(&config->inert, NULL, ERRORS_MAX);
    strbuf_init(&config->service_ports, NULL, ERRORS_MAX);
    if (config_alloc_rows(config) < 0) {
        config_free(config);
        return -ENOMEM;
    }
    *ret_config = config;
    return 0;
}

static int config_fill(struct config *config, config_lookup_fn lookup, void *arg)
{
    int err = 0;

    for (size_t i = 0; i < config_table_len && err == 0; i++)
        err = config_read_setting(config, i, lookup, arg);
    if (err == 0)
        err = config_read_static_pods(config);
    if (err == 0)
        err = config_check_together(config);
    if (err == 0)
        config_check_container(config);
    if (err == 0)
        err = config_cut_slashes(config, &config->settings.voice_agent_base_url);
    if (err == 0)
        err = config_cut_slashes(config, &config->settings.public_base_url);
    if (err == 0)
        err = config_derive_base(config);
    if (err == 0)
        err = config_collect_inert(config);
    return err;
}

int config_load(config_lookup_fn lookup, void *arg, struct config **ret_config)
{
    struct config *config = NULL;
    int err;

    assert(lookup);
    assert(ret_config);
    err = config_new(&config);
    if (err == 0)
        err = config_fill(config, lookup, arg);
    if (err < 0) {
        config_free(config);
        return err;
    }
    *ret_config = config;
    return 0;
}

/* Reads one secret's file again. What is wrong becomes an error line. 0 or -ENOMEM. */
static int config_reread_one(struct config *fresh, size_t i)
{
    const struct setting *setting = &config_table[i];
    const char *text = NULL;
    struct strbuf allowed;
    int err = config_read_file(fresh, i, fresh->paths[i], &text);

    if (err < 0 || !text)
        return err;
    strbuf_init(&allowed, &fresh->arena, 4096);
    if (value_parse(setting, text, &fresh->settings, &allowed) == 0) {
        fresh->texts[i] = text;
        return 0;
    }
    if (strbuf_failed(&allowed))
        return -ENOMEM;
    config_refuse_value(fresh, setting, text, allowed.data);
    return 0;
}

int config_reread(const struct config *config, const char *const *names, size_t count,
                  struct config **ret_fresh, size_t *ret_files)
{
    struct config *fresh = NULL;
    size_t files = 0;
    int err = config_new(&fresh);

    if (err < 0)
        return err;
    fresh->settings = config->settings;
    for (size_t i = 0; i < config_table_len; i++) {
        fresh->texts[i] = config->texts[i];
        fresh->is_set[i] = config->is_set[i];
        fresh->is_from_file[i] = config->is_from_file[i];
        fresh->notes[i] = config->notes[i];
        fresh->paths[i] = config->paths[i];
    }
    for (size_t n = 0; n < count && err == 0; n++) {
        size_t i = config_index(names[n]);

        assert(config_table[i].is_secret);
        if (!fresh->paths[i])
            continue;
        files++;
        err = config_reread_one(fresh, i);
    }
    if (err < 0) {
        config_free(fresh);
        return err;
    }
    *ret_fresh = fresh;
    *ret_files = files;
    return 0;
}

struct config *config_free(struct config *config)
{
    if (!config)
        return NULL;
    strbuf_release(&config->errors);
    strbuf_release(&config->inert);
    strbuf_release(&config->service_ports);
    arena_release(&config->arena);
    free(config);
    return NULL;
}

void config_freep(struct config **config)
{
    *config = config_free(*config);
}

const struct settings *config_settings(const struct config *config)
{
    return &config->settings;
}

struct slice config_errors(const struct config *config)
{
    return strbuf_slice(&config->errors);
}

const char *config_inert_names(const struct config *config)
{
    return strbuf_slice(&config->inert).data;
}

const char *config_service_ports(const struct config *config)
{
    return strbuf_slice(&config->service_ports).data;
}
