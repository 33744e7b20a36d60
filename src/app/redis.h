/*
 * redis.h - from the settings to a store in Redis.
 */
#ifndef APP_REDIS_H
#define APP_REDIS_H

#include "config/config.h"
#include "store/redis/redis.h"

/* Logs what is wrong. 0 or a negative errno. Redis need not be there yet. */
int app_open_redis(uv_loop_t *loop, const struct settings *settings, struct store **ret_store) MUST_CHECK;

/* NULL if REDIS_URL and REDIS_SENTINELS can be used; else the name of the bad one, with a sentence in
 * `error`. */
const char *app_check_redis(const struct settings *settings, char *error, size_t error_size);

#endif
