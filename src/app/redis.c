#include "app/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

enum {
    REDIS_CREDENTIALS_MAX = 4096,
    REDIS_SENTINEL_PORT = 26379,
    REDIS_ERROR_MAX = 512,
};

/* "host:port" or "host" of a list; the list goes on after it. */
static int parse_sentinel(const char *text, size_t len, struct redis_address *ret_address)
{
    const char *colon = memrchr(text, ':', len);
    size_t host_len = colon ? (size_t)(colon - text) : len;
    unsigned long port = REDIS_SENTINEL_PORT;

    if (colon) {
        char *end = NULL;

        port = strtoul(colon + 1, &end, 10);
        if (end != text + len || colon + 1 == end)
            return -EINVAL;
    }
    if (host_len == 0 || host_len >= sizeof(ret_address->host) || port == 0 || port > UINT16_MAX)
        return -EINVAL;
    memcpy(ret_address->host, text, host_len);
    ret_address->host[host_len] = '\0';
    ret_address->port = (uint16_t)port;
    return 0;
}

static int parse_sentinels(const char *list, struct redis_link_settings *link, char *error, size_t error_size)
{
    while (*list) {
        size_t len = strcspn(list, ",");

        if (link->sentinel_count == REDIS_SENTINELS_MAX) {
            snprintf(error, error_size, "REDIS_SENTINELS has more than %d entries", REDIS_SENTINELS_MAX);
            return -EINVAL;
        }
        if (parse_sentinel(list, len, &link->sentinels[link->sentinel_count]) < 0) {
            snprintf(error, error_size, "REDIS_SENTINELS: \"%.*s\" is not host:port", (int)len, list);
            return -EINVAL;
        }
        link->sentinel_count++;
        list += len + (list[len] == ',');
    }
    return 0;
}

static int parse_link(const struct settings *settings, struct redis_link_settings *link, char *credentials,
                      char *error, size_t error_size)
{
    int err = 0;

    *link = (struct redis_link_settings){
        .master_name = settings->redis_master_name,
        .user = "",
        .password = "",
        .timeout_ms = settings->redis_timeout_ms,
        .wait_replicas = (int)settings->redis_wait_replicas,
    };
    if (settings->redis_url[0])
        err = redis_link_parse_url(settings->redis_url, link, credentials, REDIS_CREDENTIALS_MAX, error,
                                   error_size);
    if (err == 0)
        err = parse_sentinels(settings->redis_sentinels, link, error, error_size);
    return err;
}

bool app_check_redis(const struct settings *settings, char *error, size_t error_size)
{
    struct redis_link_settings *link = malloc(sizeof(*link));
    char *credentials = malloc(REDIS_CREDENTIALS_MAX);
    bool is_valid = false;

    if (!link || !credentials)
        snprintf(error, error_size, "out of memory");
    else
        is_valid = parse_link(settings, link, credentials, error, error_size) == 0;
    free(link);
    free(credentials);
    return is_valid;
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
