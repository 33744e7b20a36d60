/*
 * settings.h - the settings of a client: one table of variables, and the hooks.
 *
 * Values are checked when they are set. Functions in this file do not log.
 */
#ifndef SR_SETTINGS_H
#define SR_SETTINGS_H

#include "http.h"

#include <stdbool.h>
#include <stdint.h>

/* In the order of the table in settings.c. */
enum sr_variable {
    SR_ENABLED,
    SR_BASE_URL,
    SR_API_KEY,
    SR_TIMEOUT_MS,
    SR_RETRY_ATTEMPTS,
    SR_ENABLE_FALLBACK,
    SR_CB_FAILURES,
    SR_CB_RECOVERY_S,
    SR_CB_HALF_OPEN,
    SR_PERCENTAGE,
    SR_MERCHANTS,
    SR_POD_NAME,
    SR_POD_IP,
    SR_AGENT_BASE_URL,
    SR_HEARTBEAT_S,
    SR_HEARTBEAT_TTL_S,
    SR_SHUTDOWN_S,
    SR_TWILIO_DIRECT,
    SR_PLIVO_DIRECT,
    SR_LEASE_S,
    SR_VARIABLES
};

struct sr_hooks {
    smartrouter_log_fn log;
    void *log_arg;
    smartrouter_metric_fn metric;
    void *metric_arg;
    smartrouter_traceparent_fn traceparent;
    void *traceparent_arg;
    smartrouter_clock_fn clock; /* tests */
    void *clock_arg;
    smartrouter_sleep_fn sleep; /* tests */
    void *sleep_arg;
    smartrouter_random_fn random; /* tests */
    void *random_arg;
};

/* Of tests inside the tree: a router in the same process, and no background thread. */
struct sr_test_means {
    sr_transport_fn transport;
    void *transport_arg;
};

struct smartrouter_settings {
    char *texts[SR_VARIABLES]; /* NULL: the default */
    double numbers[SR_VARIABLES];
    struct sr_hooks hooks;
    struct sr_test_means test;
};

const char *sr_setting_text(const struct smartrouter_settings *settings, enum sr_variable variable);
int64_t sr_setting_integer(const struct smartrouter_settings *settings, enum sr_variable variable);
bool sr_setting_flag(const struct smartrouter_settings *settings, enum sr_variable variable);

/* Of a variable in seconds, in milliseconds. */
int64_t sr_setting_ms(const struct smartrouter_settings *settings, enum sr_variable variable);

/* May this variable be changed while a client runs? */
bool sr_setting_is_live(const char *name);

/* NULL: no memory. */
struct smartrouter_settings *sr_settings_copy(const struct smartrouter_settings *settings);

/*
 * The rollout gate, as the seeds have it: kill switch, percentage by md5(merchant) mod 100, list of
 * merchants. Returns NULL if this merchant's calls use the router, otherwise the word that says why not.
 */
const char *sr_gate_reason(const struct smartrouter_settings *settings, const char *merchant_id);

/* md5(merchant) mod 100. */
int sr_gate_bucket(const char *merchant_id);

#endif
