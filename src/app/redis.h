/*
 * redis.h - from the settings to a store in Redis.
 */
#ifndef APP_REDIS_H
#define APP_REDIS_H

#include "config/config.h"
#include "store/redis/redis.h"
#include "tls/client.h"

/*
 * Logs what is wrong. 0 or a negative errno. Redis need not be there yet. *ret_tls is NULL without TLS; it is
 * freed after the store is closed.
 */
int app_open_redis(uv_loop_t *loop, const struct settings *settings, struct store **ret_store,
                   struct tls_client_context **ret_tls) MUST_CHECK;

/* Reads the files of TLS again, and logs the outcome. False: all stays as it was. */
bool app_reload_redis_tls(struct tls_client_context *tls);

/*
 * NULL if REDIS_URL, REDIS_SENTINELS and the files of TLS can be used; else the name of the bad one, with a
 * sentence in `error`.
 */
const char *app_check_redis(const struct settings *settings, char *error, size_t error_size);

#endif
