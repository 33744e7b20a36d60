/*
 * settings.c - the one table of the variables of a client, and the rollout gate that reads them.
 */
#include "settings.h"

#include "md5.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum kind {
    KIND_TEXT,
    KIND_URL,
    KIND_INTEGER,
    KIND_STREAM_URL,
    KIND_SECONDS, /* above 0, at most a week; may have a fraction */
    KIND_FLAG,
};

struct variable {
    const char *name;
    const char *preset;
    double min, max; /* of a whole number */
    enum kind kind;
    bool is_live;
    bool is_option; /* no variable of the environment */
};

enum {
    VALUE_MAX = 65536, /* bytes of a value: a list of merchants may be long */
    WEEK_S = 7 * 86400,
};

static const struct variable VARIABLES[SR_VARIABLES] = {
    [SR_ENABLED] = {"ENABLE_VOICE_AGENT_POD_ISOLATION", "false", .kind = KIND_FLAG, .is_live = true},
    [SR_BASE_URL] = {"SMART_ROUTER_BASE_URL", "http://smart-router:8080", .kind = KIND_URL},
    [SR_API_KEY] = {"SMART_ROUTER_API_KEY", "", .kind = KIND_TEXT},
    [SR_TIMEOUT_MS] = {"SMART_ROUTER_TIMEOUT_MS", "3000", 1, 60000, .kind = KIND_INTEGER},
    [SR_RETRY_ATTEMPTS] = {"SMART_ROUTER_RETRY_ATTEMPTS", "3", 1, 10, .kind = KIND_INTEGER},
    [SR_ENABLE_FALLBACK] = {"SMART_ROUTER_ENABLE_FALLBACK", "true", .kind = KIND_FLAG},
    [SR_CB_FAILURES] = {"SMART_ROUTER_CB_FAILURE_THRESHOLD", "5", 1, 1000, .kind = KIND_INTEGER},
    [SR_CB_RECOVERY_S] = {"SMART_ROUTER_CB_RECOVERY_TIMEOUT", "30", .kind = KIND_SECONDS},
    [SR_CB_HALF_OPEN] = {"SMART_ROUTER_CB_HALF_OPEN_MAX_CALLS", "3", 1, 1000, .kind = KIND_INTEGER},
    [SR_PERCENTAGE] = {"SMART_ROUTER_PERCENTAGE", "0", 0, 100, .kind = KIND_INTEGER, .is_live = true},
    [SR_MERCHANTS] = {"SMART_ROUTER_MERCHANTS", "", .kind = KIND_TEXT, .is_live = true},
    [SR_POD_NAME] = {"POD_NAME", "", .kind = KIND_TEXT},
    [SR_POD_IP] = {"POD_IP", "", .kind = KIND_TEXT},
    [SR_AGENT_BASE_URL] = {"VOICE_AGENT_BASE_URL", "", .kind = KIND_STREAM_URL},
    [SR_HEARTBEAT_S] = {"VOICE_AGENT_HEARTBEAT_INTERVAL", "30", .kind = KIND_SECONDS},
    [SR_HEARTBEAT_TTL_S] = {"VOICE_AGENT_HEARTBEAT_TTL", "90", .kind = KIND_SECONDS},
    [SR_SHUTDOWN_S] = {"VOICE_AGENT_SHUTDOWN_TIMEOUT", "300", .kind = KIND_SECONDS},
    [SR_TWILIO_DIRECT] = {"SMART_ROUTER_ENABLE_TWILIO_DIRECT", "false", .kind = KIND_FLAG},
    [SR_PLIVO_DIRECT] = {"SMART_ROUTER_ENABLE_PLIVO_DIRECT", "false", .kind = KIND_FLAG},
    [SR_LEASE_S] = {"lease_seconds", "14400", .kind = KIND_SECONDS, .is_option = true},
};

/* SR_VARIABLES: there is none of this name. */
static enum sr_variable variable_find(const char *name)
{
    enum sr_variable i = 0;

    while (i < SR_VARIABLES && strcmp(VARIABLES[i].name, name) != 0)
        i++;
    return i;
}

static bool read_flag(const char *value, double *ret_number)
{
    static const char *const YES[] = {"true", "1", "yes", "on"}, *const NO[] = {"false", "0", "no", "off",
                                                                                ""};

    for (size_t i = 0; i < sizeof(YES) / sizeof(*YES); i++) {
        if (strcasecmp(value, YES[i]) == 0) {
            *ret_number = 1;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(NO) / sizeof(*NO); i++) {
        if (strcasecmp(value, NO[i]) == 0) {
            *ret_number = 0;
            return true;
        }
    }
    return false;
}

static bool read_number(const struct variable *variable, const char *value, double *ret_number)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(value, &end);
    if (errno || end == value || *end != '\0' || !isfinite(number))
        return false;
    if (variable->kind == KIND_SECONDS
            ? !(number >= 0.001 && number <= WEEK_S)
            : number != floor(number) || number < variable->min || number > variable->max)
        return false;
    *ret_number = number;
    return true;
}

/* Does it begin with one of the schemes, and go on with a host? */
static bool is_url(const char *value, const char *scheme, const char *secure_scheme)
{
    const char *host = NULL;

    if (strncasecmp(value, scheme, strlen(scheme)) == 0)
        host = value + strlen(scheme);
    else if (strncasecmp(value, secure_scheme, strlen(secure_scheme)) == 0)
        host = value + strlen(secure_scheme);
    return host && *host != '\0' && *host != '/';
}

/* A control character would end a header line that the value becomes part of. */
static bool is_printable(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value < 0x20 || *value == 0x7f)
            return false;
    return true;
}

static bool read_value(const struct variable *variable, const char *value, double *ret_number)
{
    if (strlen(value) > VALUE_MAX || !is_printable(value))
        return false;
    switch (variable->kind) {
    case KIND_TEXT:
        return true;
    case KIND_URL:
        return is_url(value, "http://", "https://");
    case KIND_STREAM_URL:
        return *value == '\0' || is_url(value, "ws://", "wss://");
    case KIND_FLAG:
        return read_flag(value, ret_number);
    case KIND_INTEGER:
    case KIND_SECONDS:
        return read_number(variable, value, ret_number);
    }
    return false;
}

/* What the value of this variable must be, for the error message. */
static void describe(const struct variable *variable, char *text, size_t size)
{
    switch (variable->kind) {
    case KIND_TEXT:
        snprintf(text, size, "%s: at most %d printable characters are allowed", variable->name, VALUE_MAX);
        break;
    case KIND_URL:
        snprintf(text, size, "%s must be an http:// or https:// URL", variable->name);
        break;
    case KIND_FLAG:
        snprintf(text, size, "%s must be true or false", variable->name);
        break;
    case KIND_STREAM_URL:
        snprintf(text, size, "%s must be a ws:// or wss:// URL", variable->name);
        break;
    case KIND_INTEGER:
        snprintf(text, size, "%s must be a whole number from %g to %g", variable->name, variable->min,
                 variable->max);
        break;
    case KIND_SECONDS:
        snprintf(text, size, "%s must be a number of seconds, above 0 and at most a week", variable->name);
        break;
    }
}

static void say(char *error, size_t size, const char *text)
{
    if (error && size > 0)
        snprintf(error, size, "%s", text);
}

struct smartrouter_settings *smartrouter_settings_new(void)
{
    struct smartrouter_settings *settings = calloc(1, sizeof(*settings));

    for (enum sr_variable i = 0; settings && i < SR_VARIABLES; i++)
        read_value(&VARIABLES[i], VARIABLES[i].preset, &settings->numbers[i]);
    return settings;
}

struct smartrouter_settings *smartrouter_settings_free(struct smartrouter_settings *settings)
{
    for (enum sr_variable i = 0; settings && i < SR_VARIABLES; i++)
        free(settings->texts[i]);
    free(settings);
    return NULL;
}

enum smartrouter_result smartrouter_settings_set(struct smartrouter_settings *settings, const char *name,
                                                 const char *value, char *error, size_t error_size)
{
    const enum sr_variable variable = variable_find(name);
    char text[256], *copy;
    double number = 0;
    size_t length;

    if (variable == SR_VARIABLES) {
        snprintf(text, sizeof(text), "there is no setting %.60s", name);
        say(error, error_size, text);
        return SMARTROUTER_INVALID;
    }
    /* Blanks around a value come from files and manifests. */
    value += strspn(value, " \t\r\n");
    for (length = strlen(value); length > 0 && isspace((unsigned char)value[length - 1]);)
        length--;
    copy = strndup(value, length);
    if (!copy) {
        say(error, error_size, "no memory");
        return SMARTROUTER_NO_MEMORY;
    }
    if (!read_value(&VARIABLES[variable], copy, &number)) {
        describe(&VARIABLES[variable], text, sizeof(text));
        say(error, error_size, text);
        free(copy);
        return SMARTROUTER_INVALID;
    }
    free(settings->texts[variable]);
    settings->texts[variable] = copy;
    settings->numbers[variable] = number;
    return SMARTROUTER_OK;
}

enum smartrouter_result smartrouter_settings_read_environment(struct smartrouter_settings *settings,
                                                              char *error, size_t error_size)
{
    for (enum sr_variable i = 0; i < SR_VARIABLES; i++) {
        const char *value = VARIABLES[i].is_option ? NULL : getenv(VARIABLES[i].name);
        enum smartrouter_result result;

        /* An empty variable is an unset one: that is what a manifest without a value leaves behind. */
        if (!value || *value == '\0')
            continue;
        result = smartrouter_settings_set(settings, VARIABLES[i].name, value, error, error_size);
        if (result != SMARTROUTER_OK)
            return result;
    }
    if (settings->numbers[SR_HEARTBEAT_TTL_S] < settings->numbers[SR_HEARTBEAT_S]) {
        say(error, error_size, "VOICE_AGENT_HEARTBEAT_TTL is shorter than VOICE_AGENT_HEARTBEAT_INTERVAL");
        return SMARTROUTER_INVALID;
    }
    return SMARTROUTER_OK;
}

const char *smartrouter_settings_get(const struct smartrouter_settings *settings, const char *name)
{
    const enum sr_variable variable = variable_find(name);

    return variable == SR_VARIABLES ? NULL : sr_setting_text(settings, variable);
}

const char *sr_setting_text(const struct smartrouter_settings *settings, enum sr_variable variable)
{
    return settings->texts[variable] ? settings->texts[variable] : VARIABLES[variable].preset;
}

int64_t sr_setting_integer(const struct smartrouter_settings *settings, enum sr_variable variable)
{
    return (int64_t)settings->numbers[variable];
}

int64_t sr_setting_ms(const struct smartrouter_settings *settings, enum sr_variable variable)
{
    return (int64_t)(settings->numbers[variable] * 1000);
}

bool sr_setting_flag(const struct smartrouter_settings *settings, enum sr_variable variable)
{
    return settings->numbers[variable] != 0;
}

bool sr_setting_is_live(const char *name)
{
    const enum sr_variable variable = variable_find(name);

    return variable != SR_VARIABLES && VARIABLES[variable].is_live;
}

struct smartrouter_settings *sr_settings_copy(const struct smartrouter_settings *settings)
{
    struct smartrouter_settings *copy = calloc(1, sizeof(*copy));

    if (!copy)
        return NULL;
    copy->hooks = settings->hooks;
    copy->test = settings->test;
    memcpy(copy->numbers, settings->numbers, sizeof(copy->numbers));
    for (enum sr_variable i = 0; i < SR_VARIABLES; i++) {
        if (!settings->texts[i])
            continue;
        copy->texts[i] = strdup(settings->texts[i]);
        if (!copy->texts[i])
            return smartrouter_settings_free(copy);
    }
    return copy;
}

void smartrouter_settings_set_log(struct smartrouter_settings *settings, smartrouter_log_fn log, void *arg)
{
    settings->hooks.log = log;
    settings->hooks.log_arg = arg;
}

void smartrouter_settings_set_metric(struct smartrouter_settings *settings, smartrouter_metric_fn metric,
                                     void *arg)
{
    settings->hooks.metric = metric;
    settings->hooks.metric_arg = arg;
}

void smartrouter_settings_set_traceparent(struct smartrouter_settings *settings,
                                          smartrouter_traceparent_fn traceparent, void *arg)
{
    settings->hooks.traceparent = traceparent;
    settings->hooks.traceparent_arg = arg;
}

void smartrouter_settings_set_clock(struct smartrouter_settings *settings, smartrouter_clock_fn clock,
                                    smartrouter_sleep_fn sleep, void *arg)
{
    settings->hooks.clock = clock;
    settings->hooks.clock_arg = arg;
    settings->hooks.sleep = sleep;
    settings->hooks.sleep_arg = arg;
}

void smartrouter_settings_set_random(struct smartrouter_settings *settings, smartrouter_random_fn random,
                                     void *arg)
{
    settings->hooks.random = random;
    settings->hooks.random_arg = arg;
}

int sr_gate_bucket(const char *merchant_id)
{
    uint8_t digest[SR_MD5_SIZE];
    unsigned rest = 0;

    sr_md5(merchant_id, strlen(merchant_id), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        rest = (rest * 256 + digest[i]) % 100;
    return (int)rest;
}

/* Is `merchant_id` one of the names between the commas? Blanks around a name do not count. */
static bool list_has(const char *list, const char *merchant_id, bool *ret_is_empty)
{
    const size_t wanted = strlen(merchant_id);
    const char *at = list;

    *ret_is_empty = true;
    while (*at) {
        const char *start, *end;

        at += strspn(at, ", \t");
        start = at;
        at += strcspn(at, ",");
        for (end = at; end > start && (end[-1] == ' ' || end[-1] == '\t');)
            end--;
        if (end == start)
            continue;
        *ret_is_empty = false;
        if ((size_t)(end - start) == wanted && memcmp(start, merchant_id, wanted) == 0)
            return true;
    }
    return false;
}

const char *sr_gate_reason(const struct smartrouter_settings *settings, const char *merchant_id)
{
    const int64_t percentage = sr_setting_integer(settings, SR_PERCENTAGE);
    const char *merchant = merchant_id ? merchant_id : "";
    bool is_empty;

    if (!sr_setting_flag(settings, SR_ENABLED))
        return "disabled";
    if (percentage == 0 || (percentage < 100 && sr_gate_bucket(merchant) >= percentage))
        return "percentage";
    if (!list_has(sr_setting_text(settings, SR_MERCHANTS), merchant, &is_empty) && !is_empty)
        return "merchants";
    return NULL;
}
