/*
 * check.c - checks settings with the modules that use them: tiers, static pods, addresses, keys,
 * secrets, templates, hold audio.
 */
#include "app/check.h"

#include "api/api.h"
#include "api/keys.h"
#include "api/rate.h"
#include "app/listen.h"
#include "app/redis.h"
#include "app/tls.h"
#include "base/json.h"
#include "core/names.h"
#include "core/tiers.h"
#include "gateway/gateway.h"
#include "http/forwarded.h"
#include "media/hold_audio.h"

enum { SENTENCE_MAX = 1024 };

static void check_tiers(struct config *config)
{
    const char *text = config_settings(config)->tier_config;
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    char error[SENTENCE_MAX] = "";
    int err = tier_config_parse_seed(text, strlen(text), &tiers, error, sizeof(error));

    if (err < 0)
        config_add_error(config, "TIER_CONFIG", err == -EINVAL ? error : strerror(-err));
}

static void check_static_pod(struct config *config, const struct static_pod *pod)
{
    bool name_is_good = name_is_pod(pod->name, strlen(pod->name));
    struct strbuf sentence;

    if (name_is_good && name_is_address(pod->address, strlen(pod->address)))
        return;
    strbuf_init(&sentence, NULL, SENTENCE_MAX);
    strbuf_append_char(&sentence, '"');
    json_escape(&sentence, slice_of(name_is_good ? pod->address : pod->name));
    strbuf_append_str(&sentence, name_is_good ? "\" is not an address: host:port, [IPv6]:port or host"
                                              : "\" is not a pod name: it " POD_NAME_RULE);
    config_add_error(config, "STATIC_PODS",
                     strbuf_failed(&sentence) ? "a name or address is far too long" : sentence.data);
    strbuf_release(&sentence);
}

static void check_addresses(struct config *config, const char *name, const char *text)
{
    struct trusted *list = NULL;
    char error[SENTENCE_MAX] = "";
    int err = trusted_new(text, &list, error, sizeof(error));

    if (err < 0)
        config_add_error(config, name, err == -EINVAL ? error : strerror(-err));
    trusted_free(list);
}

static void check_keys(struct config *config)
{
    const struct settings *settings = config_settings(config);
    CLEANUP(keys_freep) struct keys *keys = NULL;
    char error[SENTENCE_MAX] = "";
    int err = keys_new(settings->api_key, settings->api_keys, &keys, error, sizeof(error));

    if (err < 0)
        config_add_error(config, "API_KEYS", err == -EINVAL ? error : strerror(-err));
}

void check_secrets(struct config *config)
{
    const struct settings *settings = config_settings(config);
    const struct {
        const char *name;
        const char *text;
    } lists[] = {
        {"API_KEY", settings->api_key},
        {"TWILIO_AUTH_TOKEN", settings->twilio_auth_token},
        {"PLIVO_AUTH_TOKEN", settings->plivo_auth_token},
        {"EXOTEL_TOKEN", settings->exotel_token},
    };
    char error[SENTENCE_MAX] = "";

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (!secrets_check(lists[i].text, error, sizeof(error)))
            config_add_error(config, lists[i].name, error);
    }
    check_keys(config);
    if (!gateway_check_secret(settings->gateway_secret, error, sizeof(error)))
        config_add_error(config, "GATEWAY_SECRET", error);
}

static void check_hold_audio(struct config *config)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];
    int err = hold_audio_new(config_settings(config)->hold_audio, &audio, error);

    if (err < 0)
        config_add_error(config, "HOLD_AUDIO", err == -EINVAL ? error : strerror(-err));
    hold_audio_free(audio);
}

void check_settings(struct config *config)
{
    const struct settings *settings = config_settings(config);
    char error[SENTENCE_MAX] = "";
    const char *bad;

    check_tiers(config);
    check_addresses(config, "TRUSTED_PROXIES", settings->trusted_proxies);
    check_addresses(config, "POD_ADDRESS_ALLOW", settings->pod_address_allow);
    check_binds(config);
    app_check_tls(config);
    for (size_t i = 0; i < settings->static_pod_count; i++)
        check_static_pod(config, &settings->static_pods[i]);
    if (!api_check_template(settings->ws_url_template, error, sizeof(error)))
        config_add_error(config, "WS_URL_TEMPLATE", error);
    if (rate_check(settings->rate_limit, error, sizeof(error)) < 0)
        config_add_error(config, "RATE_LIMIT", error);
    check_secrets(config);
    if (strpbrk(settings->public_base_url, "?#"))
        config_add_error(config, "PUBLIC_BASE_URL", "has a query or a fragment: paths are put behind it");
    if (!settings->gateway_secret[0] && strstr(settings->ws_url_template, "{ticket}"))
        config_add_error(config, "WS_URL_TEMPLATE", "has {ticket}, but GATEWAY_SECRET is not set");
    check_hold_audio(config);
    bad = app_check_redis(settings, error, sizeof(error));
    if (bad)
        config_add_error(config, bad, error);
}
