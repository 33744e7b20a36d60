/*
 * client.c - a client from its settings to its end, and the small things that all its parts use.
 */
#include "client.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

enum {
    LOG_LINE_MAX = 512,
    /* How often a clock of a test is looked at: nobody tells when it moves. */
    TEST_CLOCK_MS = 5,
    /* A wait is never longer, so that a time far away does not overflow. */
    WAIT_MAX_MS = 60000,
};

const char *smartrouter_version(void)
{
    return SMARTROUTER_VERSION;
}

const char *smartrouter_result_name(enum smartrouter_result result)
{
    switch (result) {
    case SMARTROUTER_OK:
        return "ok";
    case SMARTROUTER_INVALID:
        return "invalid";
    case SMARTROUTER_NO_MEMORY:
        return "no_memory";
    case SMARTROUTER_NOT_FOUND:
        return "not_found";
    case SMARTROUTER_REFUSED:
        return "refused";
    case SMARTROUTER_UNAVAILABLE:
        return "unavailable";
    case SMARTROUTER_BREAKER:
        return "breaker_open";
    case SMARTROUTER_PENDING:
        return "pending";
    case SMARTROUTER_NOTHING:
        return "none";
    case SMARTROUTER_NOT_DRAINED:
        return "not_drained";
    case SMARTROUTER_FALLBACK:
        return "fallback";
    case SMARTROUTER_BUSY:
        return "busy";
    case SMARTROUTER_BYPASS:
        return "bypass";
    }
    return "unknown";
}

static int64_t monotonic_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t sr_now_ms(const struct smartrouter_client *client)
{
    const struct sr_hooks *hooks = &client->settings->hooks;

    return hooks->clock ? hooks->clock(hooks->clock_arg) : monotonic_ms();
}

int64_t sr_jittered_ms(const struct smartrouter_client *client, int64_t ms)
{
    const struct sr_hooks *hooks = &client->settings->hooks;
    uint32_t bits = 0;
    double jitter;

    if (hooks->random) {
        jitter = hooks->random(hooks->random_arg);
    } else {
        /* Without it all clients of a router that was away would come back at the same moments. */
        if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
            bits = 1U << 31;
        jitter = bits / 4294967296.0;
    }
    return (int64_t)llround((double)ms * (1 + jitter / 2));
}

void sr_wait_until(struct smartrouter_client *client, int64_t until_ms)
{
    struct timespec until;
    int64_t wait_ms = until_ms - sr_now_ms(client), real_ms;

    if (wait_ms <= 0)
        return;
    if (wait_ms > WAIT_MAX_MS)
        wait_ms = WAIT_MAX_MS;
    if (client->settings->hooks.clock && wait_ms > TEST_CLOCK_MS)
        wait_ms = TEST_CLOCK_MS;
    real_ms = monotonic_ms() + wait_ms;
    until.tv_sec = real_ms / 1000;
    until.tv_nsec = real_ms % 1000 * 1000000;
    pthread_cond_timedwait(&client->changed, &client->lock, &until);
}

void sr_log(const struct smartrouter_client *client, enum smartrouter_log_level level, const char *format,
            ...)
{
    const struct sr_hooks *hooks = &client->settings->hooks;
    char line[LOG_LINE_MAX];
    va_list args;

    if (!hooks->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if (iscntrl((unsigned char)*at))
            *at = ' ';
    hooks->log(hooks->log_arg, level, line);
}

void sr_metric(const struct smartrouter_client *client, const char *name, const char *operation,
               const char *outcome, double value)
{
    const struct sr_hooks *hooks = &client->settings->hooks;

    if (hooks->metric)
        hooks->metric(hooks->metric_arg, name, operation, outcome, value);
}

bool sr_is_call_sid(const char *text)
{
    const size_t length = text ? strlen(text) : 0;

    if (length < 1 || length > SR_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._:@+=-", text[i]))
            return false;
    return true;
}

bool sr_is_pod_name(const char *text)
{
    const size_t length = text ? strlen(text) : 0;

    if (length < 1 || length > 63 || text[0] == '-' || text[length - 1] == '-')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) && text[i] != '-')
            return false;
    return true;
}

static bool client_prepare(struct smartrouter_client *client)
{
    const struct smartrouter_settings *settings = client->settings;
    const char *url = sr_setting_text(settings, SR_BASE_URL), *key = sr_setting_text(settings, SR_API_KEY);

    client->limits = (struct sr_breaker_limits){
        .failures = (int)sr_setting_integer(settings, SR_CB_FAILURES),
        .open_ms = sr_setting_ms(settings, SR_CB_RECOVERY_S),
        .half_open = (int)sr_setting_integer(settings, SR_CB_HALF_OPEN),
    };
    client->breaker = sr_breaker_take(url);
    client->http = sr_http_new(url);
    if (*key && asprintf(&client->authorization, "Bearer %s", key) < 0) {
        client->authorization = NULL;
        return false;
    }
    client->transport = settings->test.transport ? settings->test.transport : sr_http_exchange;
    client->transport_arg = settings->test.transport ? settings->test.transport_arg : client->http;
    return client->breaker && client->http;
}

static struct smartrouter_client *client_new(const struct smartrouter_settings *settings)
{
    struct smartrouter_client *client = calloc(1, sizeof(*client));
    pthread_condattr_t attributes;

    if (!client)
        return NULL;
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    client->settings = sr_settings_copy(settings);
    /* A test that brings its own router does the work of the background itself. */
    if (!client->settings || !client_prepare(client) ||
        (!settings->test.transport && !sr_worker_start(client)))
        return smartrouter_client_free(client);
    return client;
}

enum smartrouter_result smartrouter_client_new(const struct smartrouter_settings *settings,
                                               struct smartrouter_client **ret_client)
{
    struct smartrouter_client *client = client_new(settings);

    if (!client)
        return SMARTROUTER_NO_MEMORY;
    *ret_client = client;
    return SMARTROUTER_OK;
}

static void client_stop_worker(struct smartrouter_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_stopping = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    pthread_join(client->worker, NULL);
}

struct smartrouter_client *smartrouter_client_free(struct smartrouter_client *client)
{
    if (!client)
        return NULL;
    if (client->has_worker)
        client_stop_worker(client);
    sr_releases_give_up(client);
    sr_held_empty(&client->held);
    sr_http_free(client->http);
    free(client->authorization);
    sr_breaker_give_back(client->breaker);
    smartrouter_settings_free(client->settings);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    free(client);
    return NULL;
}

enum smartrouter_result smartrouter_client_set(struct smartrouter_client *client, const char *name,
                                               const char *value, char *error, size_t error_size)
{
    enum smartrouter_result result;

    if (!sr_setting_is_live(name)) {
        if (error && error_size > 0)
            snprintf(error, error_size, "%.60s cannot be changed while the client runs", name);
        return SMARTROUTER_INVALID;
    }
    pthread_mutex_lock(&client->lock);
    result = smartrouter_settings_set(client->settings, name, value, error, error_size);
    pthread_mutex_unlock(&client->lock);
    return result;
}

bool smartrouter_is_enabled_for(struct smartrouter_client *client, const char *merchant_id)
{
    bool is_enabled;

    pthread_mutex_lock(&client->lock);
    is_enabled = !sr_gate_reason(client->settings, merchant_id);
    pthread_mutex_unlock(&client->lock);
    return is_enabled;
}

bool smartrouter_is_direct(const struct smartrouter_client *client, const char *provider)
{
    if (strcasecmp(provider, "twilio") == 0)
        return sr_setting_flag(client->settings, SR_TWILIO_DIRECT);
    return strcasecmp(provider, "plivo") == 0 && sr_setting_flag(client->settings, SR_PLIVO_DIRECT);
}

enum smartrouter_breaker_state smartrouter_breaker(struct smartrouter_client *client)
{
    return sr_breaker_state(client->breaker, &client->limits, sr_now_ms(client));
}

size_t smartrouter_pending_releases(struct smartrouter_client *client)
{
    size_t count;

    pthread_mutex_lock(&client->lock);
    count = client->release_count;
    pthread_mutex_unlock(&client->lock);
    return count;
}
