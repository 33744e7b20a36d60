/*
 * reload.h - SIGHUP: loads the settings that may change while the router runs.
 *
 * These are the secrets that come from files: API_KEY, API_KEYS, the providers' tokens, GATEWAY_SECRET. All
 * of them change, or, when one cannot be read or is refused, none: then the old ones stay in force, and the
 * log says what is wrong. The certificate of the TLS listener and its key change likewise, both or none,
 * whatever became of the secrets. Loop thread only.
 */
#ifndef APP_RELOAD_H
#define APP_RELOAD_H

#include "api/api.h"
#include "config/config.h"
#include "gateway/gateway.h"
#include "tls/tls.h"

struct reload; /* opaque: see reload.c */

/* What is told of new secrets. All are borrowed and must stay. */
struct reload_parts {
    const struct config *config; /* as it was at the start */
    struct api *api;
    struct gateway *gateway;
    struct tls_server *tls;               /* NULL: there is none */
    struct tls_client_context *redis_tls; /* NULL: the connection to Redis has none */
    struct metrics *metrics;
};

/* The family that it counts in. NULL only without memory. */
struct metrics_family *reload_family(struct metrics *metrics) MUST_CHECK;

/* Also gives `api` the secrets of the start. -ENOMEM, or -EINVAL if those were never checked. */
int reload_new(const struct reload_parts *parts, struct reload **ret_reload) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct reload *reload_free(struct reload *reload);

/* Reads the files (a few small ones, without waiting for anybody), checks, replaces, logs, counts. */
void reload_run(struct reload *reload);

#endif
