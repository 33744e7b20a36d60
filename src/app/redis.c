/*
 * redis.c - checks the Redis settings and opens the Redis store with them.
 */
#include "app/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/core_settings.h"
#include "base/log.h"

enum {
    REDIS_CREDENTIALS_MAX = 4096,
    REDIS_ERROR_MAX = 768,
};

static int parse_link(const struct settings *settings, struct redis_link_settings *link, char *credentials,
                      char *error, size_t error_size)
{
    int err = 0;

    *link = (struct redis_link_settings){
        .master_name = settings->redis_master_name,
        .user = "",
        .password = "",
        .sentinel_user = settings->redis_sentinel_username,
        .sentinel_password = settings->redis_sentinel_password,
        .timeout_ms = settings->redis_timeout_ms,
        .wait_replicas = (int)settings->redis_wait_replicas,
        .sentinels_are_clear = !settings->redis_sentinel_tls,
    };
    if (settings->redis_url[0])
        err = redis_link_parse_url(settings->redis_url, link, credentials, REDIS_CREDENTIALS_MAX, error,
                                   error_size);
    if (err == 0 && settings->redis_sentinels[0])
        err = redis_link_parse_sentinels(settings->redis_sentinels, link, error, error_size);
    return err;
}

static const char *tls_variable(enum tls_file file)
{
    static const char *const names[] = {
        [TLS_CERTIFICATE] = "REDIS_TLS_CERT_FILE",
        [TLS_KEY] = "REDIS_TLS_KEY_FILE",
        [TLS_AUTHORITIES] = "REDIS_TLS_CA_FILE",
    };

    return names[file];
}

static int new_tls(const struct settings *settings, struct tls_client_context **ret_tls,
                   struct tls_problem *ret_problem)
{
    const struct tls_client_settings tls = {
        .authorities_file = settings->redis_tls_ca_file,
        .certificate_file = settings->redis_tls_cert_file,
        .key_file = settings->redis_tls_key_file,
        .server_name = settings->redis_tls_server_name,
    };

    return tls_client_context_new(&tls, ret_tls, ret_problem);
}

static const char *check_tls(const struct settings *settings, char *error, size_t error_size)
{
    struct tls_client_context *tls = NULL;
    struct tls_problem problem = {0};

    if (!settings->redis_tls_cert_file[0] != !settings->redis_tls_key_file[0]) {
        snprintf(error, error_size, "must be set where the other one of the two is");
        return settings->redis_tls_cert_file[0] ? "REDIS_TLS_KEY_FILE" : "REDIS_TLS_CERT_FILE";
    }
    if (new_tls(settings, &tls, &problem) < 0) {
        snprintf(error, error_size, "%s", problem.sentence);
        return tls_variable(problem.file);
    }
    tls_client_context_free(tls);
    return NULL;
}

const char *app_check_redis(const struct settings *settings, char *error, size_t error_size)
{
    struct redis_link_settings *link = malloc(sizeof(*link));
    char *credentials = malloc(REDIS_CREDENTIALS_MAX);
    const char *bad = NULL;

    if (!link || !credentials) {
        snprintf(error, error_size, "out of memory");
        bad = "REDIS_URL";
    } else if (settings->redis_url[0] && redis_link_parse_url(settings->redis_url, link, credentials,
                                                              REDIS_CREDENTIALS_MAX, error, error_size)) {
        bad = "REDIS_URL";
    } else if (settings->redis_sentinels[0] &&
               redis_link_parse_sentinels(settings->redis_sentinels, link, error, error_size)) {
        bad = "REDIS_SENTINELS";
    } else if (settings->redis_url[0] && link->is_tls) {
        bad = check_tls(settings, error, error_size);
    }
    free(link);
    free(credentials);
    return bad;
}

bool app_reload_redis_tls(struct tls_client_context *tls)
{
    struct tls_problem problem = {0};
    int err = tls_client_context_reload(tls, &problem);

    if (err < 0)
        log_error("reload of the certificates for Redis refused: new connections to Redis use the old ones",
                  log_str("variable", tls_variable(problem.file)), log_str("error", problem.sentence));
    else
        log_info("certificates for Redis reloaded: new connections use them");
    return err == 0;
}

int app_open_redis(uv_loop_t *loop, const struct settings *settings, struct store **ret_store,
                   struct tls_client_context **ret_tls)
{
    struct redis_settings redis = {
        .key_prefix = settings->key_prefix,
        .core = app_core_settings(settings),
        .call_info_ttl_ms = settings->call_info_ttl_ms,
        .tier_refresh_ms = settings->tier_refresh_interval_ms,
        .tier_config = settings->tier_config[0] ? settings->tier_config : NULL,
    };
    char *credentials = malloc(REDIS_CREDENTIALS_MAX);
    struct tls_problem problem = {0};
    char error[REDIS_ERROR_MAX] = "";
    int err = credentials ? parse_link(settings, &redis.link, credentials, error, sizeof(error)) : -ENOMEM;

    *ret_tls = NULL;
    if (err == 0 && redis.link.is_tls) {
        err = new_tls(settings, ret_tls, &problem);
        redis.link.tls = *ret_tls;
        if (err < 0)
            snprintf(error, sizeof(error), "%s: %s", tls_variable(problem.file), problem.sentence);
    }
    if (err == 0)
        err = redis_open(loop, &redis, ret_store);
    if (err < 0)
        log_error("the store in Redis cannot be opened", log_str("error", error[0] ? error : strerror(-err)));
    free(credentials);
    return err;
}
