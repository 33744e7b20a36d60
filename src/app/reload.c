/*
 * reload.c - SIGHUP: reads the secrets from files and the TLS certificate again.
 */
#include "app/reload.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/check.h"
#include "app/redis.h"
#include "app/tls.h"
#include "app/warn.h"
#include "metrics/metrics.h"

static const char *const names[] = {
    "API_KEY", "API_KEYS", "TWILIO_AUTH_TOKEN", "PLIVO_AUTH_TOKEN", "EXOTEL_TOKEN", "GATEWAY_SECRET",
};

struct reload {
    struct reload_parts parts;
    struct metrics_series *successes;
    struct metrics_series *failures;
};

static int reload_give_api(struct api *api, const struct settings *settings)
{
    const char *const texts[SECRET_KINDS] = {
        [SECRET_API_KEY] = settings->api_key,
        [SECRET_TWILIO] = settings->twilio_auth_token,
        [SECRET_PLIVO] = settings->plivo_auth_token,
        [SECRET_EXOTEL] = settings->exotel_token,
    };

    return api_set_secrets(api, texts, settings->api_keys);
}

static const char *const reload_success = "success", *const reload_failed = "failed";

struct metrics_family *reload_family(struct metrics *metrics)
{
    static const char *const label = "status";
    struct metrics_family *family = metrics_family(metrics, METRICS_COUNTER, "smart_router_reloads_total",
                                                   "Reloads asked for with SIGHUP.", &label, 1, NULL, 0);

    if (family) {
        metrics_series(family, &reload_success);
        metrics_series(family, &reload_failed);
    }
    return family;
}

int reload_new(const struct reload_parts *parts, struct reload **ret_reload)
{
    struct metrics_family *family = reload_family(parts->metrics);
    int err = reload_give_api(parts->api, config_settings(parts->config));
    struct reload *reload;

    if (err < 0)
        return err;
    reload = family ? calloc(1, sizeof(*reload)) : NULL;
    if (!reload)
        return -ENOMEM;
    reload->parts = *parts;
    reload->successes = metrics_series(family, &reload_success);
    reload->failures = metrics_series(family, &reload_failed);
    *ret_reload = reload;
    return 0;
}

struct reload *reload_free(struct reload *reload)
{
    free(reload);
    return NULL;
}

/* A line of the log for each line of what is wrong. */
static void reload_log_errors(struct slice errors)
{
    while (errors.len > 0) {
        const char *end = memchr(errors.data, '\n', errors.len);
        size_t len = end ? (size_t)(end - errors.data) : errors.len;
        char line[1024];

        snprintf(line, sizeof(line), "%.*s", (int)len, errors.data);
        log_error("reload refused, everything stays as it was", log_str("error", line));
        len += end != NULL;
        errors.data += len;
        errors.len -= len;
    }
}

/*
 * Everything that can fail is done before anything changes: a new thing to reload is prepared where the files
 * are read, and put in force at the end, where nothing fails any more. False: nothing has changed.
 */
static bool reload_secrets(struct reload *reload, size_t *ret_files)
{
    CLEANUP(config_freep) struct config *fresh = NULL;
    int err = config_reread(reload->parts.config, names, ARRAY_LEN(names), &fresh, ret_files);

    if (err == 0) {
        check_secrets(fresh);
        if (config_errors(fresh).len > 0) {
            reload_log_errors(config_errors(fresh));
            return false;
        }
        err = reload_give_api(reload->parts.api, config_settings(fresh));
    }
    if (err < 0) {
        log_error("reload refused, everything stays as it was", log_str("error", strerror(-err)));
        return false;
    }
    /* It takes no memory, and a secret from a file is there before and after: this cannot fail. */
    err = gateway_set_secret(reload->parts.gateway, config_settings(fresh)->gateway_secret);
    assert(err == 0);
    warn_of_short_secrets(config_settings(fresh));
    return true;
}

void reload_run(struct reload *reload)
{
    size_t files = 0;
    /* A bad certificate must not keep a key in force that was replaced because it leaked, nor the reverse. */
    bool tls_is_good = !reload->parts.tls || app_reload_tls(reload->parts.tls);
    bool redis_is_good = !reload->parts.redis_tls || app_reload_redis_tls(reload->parts.redis_tls);

    warn_of_exposed_files(reload->parts.config);
    if (!reload_secrets(reload, &files) || !tls_is_good || !redis_is_good) {
        metrics_add(reload->failures, 1);
        return;
    }
    metrics_add(reload->successes, 1);
    log_info("reloaded", log_num("secret_files", (int64_t)files));
}
