/*
 * diagnosis.c - writes the settings that matter for a diagnosis, the end of the certificate and the last
 * sync.
 */
#include "app/diagnosis.h"

#include "app/warn.h"
#include "base/clock.h"
#include "core/tiers.h"
#include "tls/tls.h"

enum { ERROR_MAX = 256 };

/* The certificate is read again: it is the file that the next reload would take. */
static void put_certificate(struct json_writer *json, const struct settings *settings)
{
    struct tls_problem problem = {0};
    struct tls_notes notes;

    if (!settings->tls_cert_file[0])
        return;
    if (tls_check_files(settings->tls_cert_file, settings->tls_key_file, &notes, &problem) < 0)
        json_put_string(json, "certificate_problem",
                        problem.sentence[0] ? problem.sentence : "the files cannot be read");
    else
        json_put_time(json, "certificate_until", (uint64_t)notes.not_after_s * 1000);
}

/* TIER_CONFIG as it would be stored, so that it can be compared with what is stored. */
static void put_tier_config(struct json_writer *json, const struct settings *settings)
{
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    char error[ERROR_MAX];

    if (settings->tier_config[0] &&
        tier_config_parse_seed(settings->tier_config, strlen(settings->tier_config), &tiers, error,
                               sizeof(error)) == 0) {
        json_key(json, "tier_config");
        json_raw(json, slice_of(tiers->text));
    }
}

static void put_settings(struct json_writer *json, const struct settings *settings)
{
    static const char *const sources[] = {
        [CONFIG_PODS_API] = "api",
        [CONFIG_PODS_STATIC] = "static",
        [CONFIG_PODS_KUBERNETES] = "kubernetes",
    };
    const char *url, *problem = warn_why_unreachable(settings, &url);
    char names[WARN_NAMES_MAX];

    json_key(json, "settings");
    json_object_begin(json);
    json_put_string(json, "pod_source", sources[settings->pod_source]);
    json_put_string(json, "namespace", settings->namespace_name);
    json_put_string(json, "pod_label_selector", settings->pod_label_selector);
    json_put_string(json, "key_prefix", settings->key_prefix);
    json_put_string(json, "http_bind", settings->http_bind);
    json_put_string(json, "stream_url", url);
    json_put_string(json, "stream_url_problem", problem);
    json_put_bool(json, "has_gateway_secret", settings->gateway_secret[0] != '\0');
    json_put_bool(json, "rescues", settings->rescue);
    json_put_u64(json, "hold_max_wait_seconds", (settings->hold_max_wait_ms + 999) / 1000);
    json_put_u64(json, "hold_max_calls", settings->hold_max_calls);
    json_put_string(json, "missing_for_waiting", warn_missing_for_waiting(settings, names));
    json_put_bool(json, "syncs_log", settings->log_fsync != CONFIG_FSYNC_NO);
    json_put_u64(json, "reconcile_interval_seconds", settings->reconcile_interval_ms / 1000);
    put_certificate(json, settings);
    put_tier_config(json, settings);
    json_object_end(json);
}

void diagnosis_put_facts(void *arg, struct json_writer *json)
{
    const struct diagnosis_facts *facts = arg;
    uint64_t age_ms;

    if (*facts->leadership && leadership_sync_age(*facts->leadership, &age_ms))
        json_put_u64(json, "last_sync_seconds", age_ms / 1000);
    put_settings(json, config_settings(facts->config));
}
