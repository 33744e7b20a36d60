/*
 * redis.c - checks the Redis settings and opens the Redis store with them.
 */
#include "app/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

enum {
    REDIS_CREDENTIALS_MAX = 4096,
    REDIS_ERROR_MAX = 512,
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
    };
    if (settings->redis_url[0])
        err = redis_link_parse_url(settings->redis_url, link, credentials, REDIS_CREDENTIALS_MAX, error,
                                   error_size);
    if (err == 0 && settings->redis_sentinels[0])
        err = redis_link_parse_sentinels(settings->redis_sentinels, link, error, error_size);
    return err;
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
    }
    free(link);
    free(credentials);
    return bad;
}

int app_open_redis(uv_loop_t *loop, const struct settings *settings, struct store **ret_store)
{
    struct redis_settings redis = {
        .key_prefix = settings->key_prefix,
        .core = {.lease_ttl_ms = settings->lease_ttl_ms,
                 .call_max_duration_ms = settings->call_max_duration_ms,
                 .connect_timeout_ms = settings->connect_timeout_ms,
                 .draining_ttl_ms = settings->draining_ttl_ms,
                 .heartbeat_ttl_ms = settings->heartbeat_ttl_ms},
        .call_info_ttl_ms = settings->call_info_ttl_ms,
        .tier_refresh_ms = settings->tier_refresh_interval_ms,
        .tier_config = settings->tier_config[0] ? settings->tier_config : NULL,
    };
    char *credentials = malloc(REDIS_CREDENTIALS_MAX);
    char error[REDIS_ERROR_MAX] = "";
    int err = credentials ? parse_link(settings, &redis.link, credentials, error, sizeof(error)) : -ENOMEM;

    if (err == 0)
        err = redis_open(loop, &redis, ret_store);
    if (err < 0)
        log_error("the store in Redis cannot be opened", log_str("error", error[0] ? error : strerror(-err)));
    else
        log_info("store opened", log_str("store", "redis"), log_str("key_prefix", settings->key_prefix));
    free(credentials);
    return err;
}
