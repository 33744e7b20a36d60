/*
 * warn.c - warns at the start of settings that are allowed but unsafe, or that have no effect.
 */
#include "app/warn.h"

#include "api/keys.h"
#include "api/secrets.h"

enum { NAMES_MAX = 256, KEYS_NAMED_MAX = 3 };

struct named_secret {
    const char *name;
    const char *text;
};

static void add_name(char *names, const char *name)
{
    size_t len = strlen(names);

    assert(len + strlen(name) + 2 <= NAMES_MAX);
    if (len > 0)
        names[len++] = ' ';
    memcpy(names + len, name, strlen(name) + 1);
}

/* The first few by name; the values of API_KEY are not meant. */
static void warn_of_short_keys(const struct settings *settings)
{
    CLEANUP(keys_freep) struct keys *keys = NULL;
    char error[NAMES_MAX];
    char names[NAMES_MAX] = "";
    int64_t count = 0;

    /* They have been checked, and without memory for a warning there is none. */
    if (keys_new("", settings->api_keys, &keys, error, sizeof(error)) < 0)
        return;
    for (size_t i = 0; i < keys_count(keys); i++) {
        if (keys_at(keys, i)->is_short && count++ < KEYS_NAMED_MAX)
            add_name(names, keys_at(keys, i)->name);
    }
    if (count > 0)
        log_warn("keys of API_KEYS have secrets that are so short that they can be guessed",
                 log_str("names", names), log_num("keys", count), log_num("shorter_than", SECRET_SHORT));
}

_Static_assert(KEYS_NAMED_MAX *(KEY_NAME_MAX + 1) < NAMES_MAX, "the names must fit");

void warn_of_short_secrets(const struct settings *settings)
{
    const struct named_secret secrets[] = {
        {"API_KEY", settings->api_key},
        {"TWILIO_AUTH_TOKEN", settings->twilio_auth_token},
        {"PLIVO_AUTH_TOKEN", settings->plivo_auth_token},
        {"EXOTEL_TOKEN", settings->exotel_token},
        {"GATEWAY_SECRET", settings->gateway_secret},
    };
    char names[NAMES_MAX] = "";

    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        if (secrets[i].text[0] && secrets_shortest(secrets[i].text) < SECRET_SHORT)
            add_name(names, secrets[i].name);
    }
    if (names[0])
        log_warn("secrets that are so short can be guessed", log_str("names", names),
                 log_num("shorter_than", SECRET_SHORT));
    warn_of_short_keys(settings);
}

static void warn_of_open_webhooks(const struct settings *settings)
{
    char names[NAMES_MAX] = "";

    if (!settings->twilio_auth_token[0])
        add_name(names, "TWILIO_AUTH_TOKEN");
    if (!settings->plivo_auth_token[0])
        add_name(names, "PLIVO_AUTH_TOKEN");
    if (!settings->exotel_token[0])
        add_name(names, "EXOTEL_TOKEN");
    if (names[0])
        log_warn("tokens that are not set: anybody can send webhooks in the name of these providers",
                 log_str("names", names));
}

void warn_of_settings(const struct config *config)
{
    const struct settings *settings = config_settings(config);

    if (config_inert_names(config)[0])
        log_warn("settings that have no effect in this version",
                 log_str("names", config_inert_names(config)));
    if (!settings->api_key[0] && !settings->api_keys[0])
        log_warn("API_KEY is not set, nor API_KEYS: anyone who can reach the port can use the whole API");
    warn_of_open_webhooks(settings);
    if (!settings->gateway_secret[0])
        log_warn("GATEWAY_SECRET is not set: anybody who knows a pod's name can connect to its call");
    warn_of_short_secrets(settings);
}
