/*
 * warn.c - warns of settings that are allowed but unsafe, or that have no effect, and of files with
 * secrets that every user of the machine can read or change.
 */
#include "app/warn.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/keys.h"
#include "api/secrets.h"
#include "core/tiers.h"

enum {
    NAMES_MAX = WARN_NAMES_MAX,
    KEYS_NAMED_MAX = 3,
    MODE_TEXT_MAX = 16,
    VARIABLE_MAX = 64,
    HOST_MAX = 256,
};

struct named_secret {
    const char *name;
    const char *text;
};

static void add_name(char *names, const char *name)
{
    size_t len = strlen(names);

    assert(len + strlen(name) + 2 <= NAMES_MAX);
    if (len > 0)
        names[len++] = ' ';
    memcpy(names + len, name, strlen(name) + 1);
}

/* The first few by name; the values of API_KEY are not meant. */
static void warn_of_short_keys(const struct settings *settings)
{
    CLEANUP(keys_freep) struct keys *keys = NULL;
    char error[NAMES_MAX];
    char names[NAMES_MAX] = "";
    int64_t count = 0;

    /* They have been checked, and without memory for a warning there is none. */
    if (keys_new("", settings->api_keys, &keys, error, sizeof(error)) < 0)
        return;
    for (size_t i = 0; i < keys_count(keys); i++) {
        if (keys_at(keys, i)->is_short && count++ < KEYS_NAMED_MAX)
            add_name(names, keys_at(keys, i)->name);
    }
    if (count > 0)
        log_warn("keys of API_KEYS have secrets that are so short that they can be guessed",
                 log_str("names", names), log_num("keys", count), log_num("shorter_than", SECRET_SHORT));
}

_Static_assert(KEYS_NAMED_MAX *(KEY_NAME_MAX + 1) < NAMES_MAX, "the names must fit");

void warn_of_short_secrets(const struct settings *settings)
{
    const struct named_secret secrets[] = {
        {"API_KEY", settings->api_key},
        {"TWILIO_AUTH_TOKEN", settings->twilio_auth_token},
        {"PLIVO_AUTH_TOKEN", settings->plivo_auth_token},
        {"EXOTEL_TOKEN", settings->exotel_token},
        {"GATEWAY_SECRET", settings->gateway_secret},
    };
    char names[NAMES_MAX] = "";

    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        if (secrets[i].text[0] && secrets_shortest(secrets[i].text) < SECRET_SHORT)
            add_name(names, secrets[i].name);
    }
    if (names[0])
        log_warn("secrets that are so short can be guessed", log_str("names", names),
                 log_num("shorter_than", SECRET_SHORT));
    warn_of_short_keys(settings);
}

static void warn_of_open_webhooks(const struct settings *settings)
{
    char names[NAMES_MAX] = "";

    if (!settings->twilio_auth_token[0])
        add_name(names, "TWILIO_AUTH_TOKEN");
    if (!settings->plivo_auth_token[0])
        add_name(names, "PLIVO_AUTH_TOKEN");
    if (!settings->exotel_token[0])
        add_name(names, "EXOTEL_TOKEN");
    if (names[0])
        log_warn("tokens that are not set: anybody can send webhooks in the name of these providers",
                 log_str("names", names));
}

static void warn_of_variable(void *arg UNUSED, const char *name, const char *nearest)
{
    log_warn("a variable of the environment looks like a setting and is none: it has no effect",
             log_str("variable", name), log_str("nearest", nearest));
}

/* The tiers have been checked: only what they ignore is left to say. */
static void warn_of_tiers(const struct settings *settings)
{
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    const char *text = settings->tier_config;
    char error[NAMES_MAX];

    if (tier_config_parse_seed(text, strlen(text), &tiers, error, sizeof(error)) == 0 && tiers->ignored[0])
        log_warn("TIER_CONFIG has a member that is ignored; PUT /api/v1/tiers would refuse it",
                 log_str("error", tiers->ignored));
}

/* The host of a URL without brackets; "" if there is none, or if it is far too long. */
static void url_host(const char *url, char *host, size_t size)
{
    const char *at = strstr(url, "://");
    size_t len;

    host[0] = '\0';
    if (!at)
        return;
    at += strlen("://");
    len = at[0] == '[' ? strcspn(++at, "]") : strcspn(at, ":/?#");
    if (len < size)
        snprintf(host, size, "%.*s", (int)len, at);
}

/* A name or an address that means this machine, wherever it is used. */
static bool host_is_local(const char *host)
{
    size_t len = strlen(host);
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127 || v4.s_addr == 0;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6);
    return strcasecmp(host, "localhost") == 0 ||
           (len > strlen(".localhost") && strcasecmp(host + len - strlen(".localhost"), ".localhost") == 0);
}

/* Why no provider can open a stream at this URL; NULL: nothing speaks against it. */
static const char *why_unreachable(const char *url)
{
    char host[HOST_MAX];

    url_host(url, host, sizeof(host));
    if (host_is_local(host))
        return "its host is this machine itself";
    if (strncasecmp(url, "ws:", 3) == 0)
        return "it has no TLS, and providers connect to wss:// only";
    return NULL;
}

static bool has_base(const struct settings *settings)
{
    return strncmp(settings->ws_url_template, "{base}", strlen("{base}")) == 0;
}

const char *warn_why_unreachable(const struct settings *settings, const char **ret_url)
{
    *ret_url = has_base(settings) ? settings->voice_agent_base_url : settings->ws_url_template;
    return why_unreachable(*ret_url);
}

/* Providers whose tokens are set are meant to send calls here, so the URLs of their calls must be of use. */
static void warn_of_unreachable_streams(const struct settings *settings)
{
    const char *url, *why = warn_why_unreachable(settings, &url);
    char names[NAMES_MAX] = "";

    if (settings->twilio_auth_token[0])
        add_name(names, "twilio");
    if (settings->plivo_auth_token[0])
        add_name(names, "plivo");
    if (settings->exotel_token[0])
        add_name(names, "exotel");
    if (!names[0] || !why)
        return;
    log_warn(
        "providers cannot open the streams of their calls: callers hear nothing. Set "
        "PUBLIC_BASE_URL=https://..., or VOICE_AGENT_BASE_URL=wss://..., to a public name of this router",
        log_str("providers", names),
        log_str("variable", has_base(settings) ? "VOICE_AGENT_BASE_URL" : "WS_URL_TEMPLATE"),
        log_str("url", url), log_str("reason", why));
}

const char *warn_missing_for_waiting(const struct settings *settings, char names[WARN_NAMES_MAX])
{
    names[0] = '\0';
    if (!settings->rescue)
        add_name(names, "RESCUE");
    if (!settings->gateway_secret[0])
        add_name(names, "GATEWAY_SECRET");
    if (!settings->public_base_url[0])
        add_name(names, "PUBLIC_BASE_URL");
    if (!api_template_can_hold(settings->ws_url_template))
        add_name(names, "WS_URL_TEMPLATE");
    return names[0] ? names : NULL;
}

static bool has_provider(const struct settings *settings)
{
    return settings->twilio_auth_token[0] || settings->plivo_auth_token[0] || settings->exotel_token[0];
}

/* Whoever has said neither that calls wait nor which providers send them is not meant. */
static void warn_of_waiting(const struct settings *settings)
{
    char names[WARN_NAMES_MAX];

    if (!warn_missing_for_waiting(settings, names))
        return;
    if (settings->hold_max_wait_ms > 0)
        log_warn("calls of providers do not wait, but are refused at once when no pod is free: a setting is "
                 "missing or wrong, see `names`. " WARN_WAITING ". Clients of the API can wait",
                 log_str("names", names));
    else if (settings->rescue && has_provider(settings))
        log_warn("calls of providers end with their router, and none resumes: a setting is missing or wrong, "
                 "see `names`. " WARN_WAITING,
                 log_str("names", names));
}

static bool has_redis_tls(const struct settings *settings)
{
    return settings->redis_tls_ca_file[0] || settings->redis_tls_cert_file[0] ||
           settings->redis_tls_key_file[0] || settings->redis_tls_server_name[0];
}

void warn_of_settings(const struct config *config)
{
    const struct settings *settings = config_settings(config);

    if (config_inert_names(config)[0])
        log_warn("settings that have no effect in this version",
                 log_str("names", config_inert_names(config)));
    if (config_service_ports(config)[0])
        log_warn("Kubernetes has set variables for services, which are also names of settings: they are "
                 "ignored. Set them in the container, or set enableServiceLinks: false in the pod's spec",
                 log_str("names", config_service_ports(config)));
    config_find_unknown(environ, warn_of_variable, NULL);
    warn_of_tiers(settings);
    if (!settings->api_key[0] && !settings->api_keys[0])
        log_warn("API_KEY is not set, nor API_KEYS: anyone who can reach the port can use the whole API");
    warn_of_open_webhooks(settings);
    warn_of_unreachable_streams(settings);
    warn_of_waiting(settings);
    if (!settings->gateway_secret[0])
        log_warn("GATEWAY_SECRET is not set: anybody who knows a pod's name can connect to its call");
    if (has_redis_tls(settings) && !strstr(settings->redis_url, "rediss://"))
        log_warn("REDIS_TLS_… settings have no effect: the connection to Redis is not encrypted. Write "
                 "rediss:// in REDIS_URL");
    warn_of_short_secrets(settings);
}

static void warn_of_exposed_file(void *arg UNUSED, const char *variable, const char *path, const char *mode)
{
    log_warn("every user of this machine can read or change a file with a secret: give it to the router's "
             "user with mode 0600, or to a group of its own with 0440",
             log_str("variable", variable), log_str("file", path), log_str("mode", mode));
}

/* One that cannot be looked at is a matter for whoever reads it. */
static void look_at_file(const char *name, const char *suffix, const char *path, exposed_file_fn fn,
                         void *arg)
{
    char variable[VARIABLE_MAX];
    char mode[MODE_TEXT_MAX];
    struct stat st;

    if (!path[0] || stat(path, &st) < 0 || !(st.st_mode & (S_IROTH | S_IWOTH)))
        return;
    snprintf(variable, sizeof(variable), "%s%s", name, suffix);
    snprintf(mode, sizeof(mode), "%04o", (unsigned)(st.st_mode & 07777));
    fn(arg, variable, path, mode);
}

void find_exposed_files(const struct config *config, exposed_file_fn fn, void *arg)
{
    const struct settings *settings = config_settings(config);
    const char *name, *path;

    for (size_t i = 0; config_secret_file(config, &i, &name, &path);)
        look_at_file(name, "_FILE", path, fn, arg);
    look_at_file("TLS_KEY_FILE", "", settings->tls_key_file, fn, arg);
    look_at_file("REDIS_TLS_KEY_FILE", "", settings->redis_tls_key_file, fn, arg);
    look_at_file("KUBECONFIG", "", settings->kubeconfig, fn, arg);
}

void warn_of_exposed_files(const struct config *config)
{
    find_exposed_files(config, warn_of_exposed_file, NULL);
}
