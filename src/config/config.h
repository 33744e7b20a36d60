/*
 * config.h - the settings: read once at start from the environment, checked, and shown.
 *
 * Every setting is one row of the table in table.c. Only main reads struct settings; the modules
 * get plain structs of their own. Nothing here logs: what is wrong is collected, so that an
 * operator sees all of it at once.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/log.h"
#include "base/strbuf.h"

struct config; /* opaque: see config.c */

enum config_fsync {
    CONFIG_FSYNC_ALWAYS,
    CONFIG_FSYNC_EVERYSEC,
    CONFIG_FSYNC_NO,
};

enum config_autoscale {
    CONFIG_AUTOSCALE_DEPLOYMENT,
    CONFIG_AUTOSCALE_STATEFULSET,
};

enum config_pod_source {
    CONFIG_PODS_API,
    CONFIG_PODS_STATIC,
    CONFIG_PODS_KUBERNETES,
};

/* One entry of STATIC_PODS. Only its form is checked here, not its names: those belong to the domain. */
struct static_pod {
    const char *name;
    const char *address; /* "" if none was given */
};

/* Strings are owned by the config and never NULL: what is unset is "". */
struct settings {
    /* HTTP */
    uint16_t http_port;
    uint16_t metrics_port;
    uint16_t tls_port;        /* of the group Security */
    bool redis_sentinel_tls;  /* of the group Store */
    const char *http_bind;    /* "": all addresses */
    const char *metrics_bind; /* "": as http_bind */
    const char *tls_bind;     /* the same; of the group Security */
    uint64_t http_read_timeout_ms;
    uint64_t http_write_timeout_ms;
    uint64_t http_idle_timeout_ms;
    uint64_t http_shutdown_timeout_ms;
    uint64_t shutdown_delay_ms;
    uint64_t max_connections;
    uint64_t max_connections_per_client; /* 0: no limit */
    /* Store */
    const char *data_dir;
    int log_fsync; /* enum config_fsync */
    const char *redis_url;
    const char *redis_sentinels;
    const char *redis_master_name;
    const char *redis_sentinel_username;
    const char *redis_sentinel_password;
    const char *redis_tls_ca_file;
    const char *redis_tls_cert_file;
    const char *redis_tls_key_file;
    const char *redis_tls_server_name;
    uint64_t redis_pool_size;
    uint64_t redis_min_idle_conn;
    uint64_t redis_max_retries;
    uint64_t redis_timeout_ms;
    uint64_t redis_wait_replicas;
    const char *key_prefix;
    /* Pods */
    int pod_source; /* enum config_pod_source */
    const char *static_pods_text;
    struct static_pod *static_pods;
    size_t static_pod_count;
    const char *namespace_name;
    const char *pod_label_selector;
    const char *voice_agent_container;
    const char *kubeconfig;
    const char *kube_api_url;
    const char *kubernetes_service_host;
    uint16_t kubernetes_service_port;
    bool mark_busy_pods;
    enum config_autoscale autoscale_kind;
    const char *service_account_dir;
    const char *pod_name;
    uint64_t heartbeat_ttl_ms;
    const char *pod_address_allow;
    /* Voice agents */
    const char *voice_agent_base_url; /* without a slash at its end */
    uint16_t voice_agent_port;
    const char *ws_url_template;
    const char *busy_message;
    const char *fallback_ws_url;
    /* Gateway */
    const char *gateway_secret; /* one, or two separated by a comma */
    uint64_t gateway_release_grace_ms;
    uint64_t gateway_idle_timeout_ms;
    uint64_t gateway_connect_timeout_ms;
    uint64_t gateway_drain_timeout_ms; /* counts only if it is set: config_is_set */
    uint64_t gateway_max;
    uint64_t gateway_streams_per_call;
    /* Waiting and rescue */
    uint64_t hold_max_wait_ms; /* 0: off */
    uint64_t hold_max_calls;
    uint64_t hold_ageing_ms; /* counts only if it is set; else hold_max_wait_ms / 20 */
    const char *hold_audio;  /* "": the built-in tone */
    bool rescue;
    /* Tiers */
    const char *tier_config;
    uint64_t tier_refresh_interval_ms;
    /* Calls and background work */
    uint64_t lease_ttl_ms;
    uint64_t call_info_ttl_ms;
    uint64_t call_max_duration_ms;
    uint64_t connect_timeout_ms; /* 0: off */
    uint64_t draining_ttl_ms;
    uint64_t cleanup_interval_ms;
    uint64_t reconcile_interval_ms;
    /* Leader election */
    bool leader_election_enabled;
    const char *leader_election_namespace;
    const char *leader_election_lock_name;
    uint64_t leader_election_duration_ms;
    uint64_t leader_election_renew_deadline_ms;
    uint64_t leader_election_retry_period_ms;
    /* Security */
    const char *tls_cert_file;
    const char *tls_key_file;
    const char *api_key;
    const char *api_keys; /* a line for each */
    const char *twilio_auth_token;
    const char *plivo_auth_token;
    const char *exotel_token;
    const char *public_base_url;
    const char *trusted_proxies;
    const char *rate_limit;
    /* Logging */
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
};

/*
 * The value of a variable, or NULL. A secret may instead be in a file, which the variable of the same name
 * with _FILE at its end names. An empty value counts as unset. The answer is copied at once.
 */
typedef const char *(*config_lookup_fn)(void *arg, const char *name);

/*
 * Reads and checks every setting. Bad values do not fail the call: they are collected (config_errors), and
 * the setting keeps its default. Fails only with -ENOMEM.
 */
int config_load(config_lookup_fn lookup, void *arg, struct config **ret_config) MUST_CHECK;

/*
 * A copy of `config`, for which those of the `names` (secrets) that came from files were read again. Nothing
 * else was: where it says the same, it borrows from `config`, which must stay. *ret_files is how many files
 * there were. What is wrong with them is in config_errors of the copy; then it is of no further use. Fails
 * only with -ENOMEM.
 */
int config_reread(const struct config *config, const char *const *names, size_t count,
                  struct config **ret_fresh, size_t *ret_files) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct config *config_free(struct config *config);
void config_freep(struct config **config);

const struct settings *config_settings(const struct config *config);

/* Was this setting given, by the environment or in a file? */
bool config_is_set(const struct config *config, const char *name);

/*
 * The next secret that came from a file: its name (without _FILE) and the file's path. *at is 0 at first, and
 * is moved on. False: there are no more.
 */
bool config_secret_file(const struct config *config, size_t *at, const char **ret_name,
                        const char **ret_path);

/* Adds an error that somebody else found in a value, e.g. a tier configuration that the domain refuses. */
void config_add_error(struct config *config, const char *name, const char *sentence);

/* What is wrong, one line per variable, each ending in a newline; "" when all is well. */
struct slice config_errors(const struct config *config);

/* Names of settings that were given but have no effect in this version, separated by blanks; "" if none. */
const char *config_inert_names(const struct config *config);

/*
 * Names of ports that Kubernetes has set for a service of that name (VOICE_AGENT_PORT=tcp://10.0.0.1:8080),
 * separated by blanks; "" if none. They count as unset.
 */
const char *config_service_ports(const struct config *config);

/* A variable that is no setting, and the one that was probably meant; NULL: none is near. */
typedef void (*config_unknown_fn)(void *arg, const char *name, const char *nearest);

/*
 * Names each variable of the environment ("NAME=value", ends with NULL) that looks like a setting and is
 * none: it has no effect. Its value is not looked at, but for what Kubernetes sets for services.
 */
void config_find_unknown(char *const *environment, config_unknown_fn fn, void *arg);

/* Every effective setting with where it comes from, secrets masked. */
void config_show(const struct config *config, struct strbuf *buf);

/* The table as a page of documentation. */
void config_show_markdown(struct strbuf *buf);

#endif
