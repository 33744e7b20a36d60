/*
 * check_files.c - for `check-config`: what is wrong with certificates, keys, the kubeconfig, secret
 * files and the data directory, before a router is started with them.
 *
 * check_settings has refused what a router cannot start with. This finds what would be noticed later: a
 * certificate that has expired, a kubeconfig that cannot be used, a secret that everybody can read.
 */
#include "app/check_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "app/kube.h"
#include "app/warn.h"
#include "base/clock.h"
#include "core/tiers.h"
#include "tls/tls.h"

enum { EXPIRES_SOON_S = 14 * 24 * 3600 };

struct findings {
    struct strbuf *text;
    bool is_well;
};

static void found_exposed(void *arg, const char *variable, const char *path, const char *mode)
{
    struct findings *findings = arg;

    strbuf_printf(findings->text,
                  "%s: every user of this machine can read or change \"%s\" (mode %s): give it mode 0600, or "
                  "0440 and a group of its own\n",
                  variable, path, mode);
    findings->is_well = false;
}

static void found_variable(void *arg, const char *name, const char *nearest)
{
    struct findings *findings = arg;

    strbuf_printf(findings->text, "warning: %s looks like a setting and is none: it has no effect", name);
    if (nearest)
        strbuf_printf(findings->text, "; did you mean %s?", nearest);
    strbuf_append_char(findings->text, '\n');
}

static void check_expiry(struct findings *findings, const char *variable, const char *path,
                         const struct tls_notes *notes)
{
    int64_t now_s = (int64_t)(clock_wall_ms() / 1000);
    char until[CLOCK_TEXT_MAX];

    clock_format_seconds((uint64_t)notes->not_after_s * 1000, until);
    if (notes->is_expired)
        strbuf_printf(findings->text, "%s: the certificate in \"%s\" has expired: it was valid until %s\n",
                      variable, path, until);
    else if (notes->is_early)
        strbuf_printf(findings->text, "%s: the certificate in \"%s\" is not valid yet\n", variable, path);
    else if (notes->not_after_s - now_s < EXPIRES_SOON_S)
        strbuf_printf(findings->text,
                      "warning: %s: the certificate in \"%s\" expires soon: it is valid until %s\n", variable,
                      path, until);
    if (notes->is_expired || notes->is_early)
        findings->is_well = false;
}

/* Do both files exist, match, and hold for a while? */
static void check_pair(struct findings *findings, const char *certificate_variable, const char *certificate,
                       const char *key_variable, const char *key)
{
    struct tls_problem problem = {0};
    struct tls_notes notes;
    int err = tls_check_files(certificate, key, &notes, &problem);

    if (err == 0) {
        check_expiry(findings, certificate_variable, certificate, &notes);
        return;
    }
    strbuf_printf(findings->text, "%s: %s\n", problem.file == TLS_KEY ? key_variable : certificate_variable,
                  problem.sentence[0] ? problem.sentence : strerror(-err));
    findings->is_well = false;
}

static void check_kube(struct findings *findings, const struct settings *settings)
{
    struct k8s_config *kube = NULL;
    char error[K8S_CONFIG_ERROR_MAX];
    const char *variable;
    int err;

    if (settings->pod_source != CONFIG_PODS_KUBERNETES && !settings->kubeconfig[0])
        return;
    err = app_read_kube(settings, &kube, &variable, error);
    if (err < 0) {
        strbuf_printf(findings->text, "%s: %s\n", variable, error[0] ? error : strerror(-err));
        findings->is_well = false;
    } else if (kube->client_certificate.path && kube->client_key.path) {
        check_pair(findings, variable, kube->client_certificate.path, variable, kube->client_key.path);
    }
    k8s_config_free(kube);
}

/* A directory that is missing will be made. */
static void check_data_dir(struct findings *findings, const struct settings *settings)
{
    const char *path = settings->data_dir;
    struct stat st;

    if (settings->redis_url[0] || settings->redis_sentinels[0])
        return;
    if (stat(path, &st) < 0) {
        if (errno == ENOENT)
            return;
        strbuf_printf(findings->text, "DATA_DIR: \"%s\" cannot be used: %s\n", path, strerror(errno));
    } else if (!S_ISDIR(st.st_mode)) {
        strbuf_printf(findings->text, "DATA_DIR: \"%s\" is not a directory\n", path);
    } else if (access(path, R_OK | W_OK | X_OK) < 0) {
        strbuf_printf(findings->text, "DATA_DIR: \"%s\" cannot be written: %s\n", path, strerror(errno));
    } else {
        return;
    }
    findings->is_well = false;
}

static void check_seed(struct findings *findings, const struct settings *settings)
{
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    const char *text = settings->tier_config;
    char error[256];

    if (tier_config_parse_seed(text, strlen(text), &tiers, error, sizeof(error)) == 0 && tiers->ignored[0])
        strbuf_printf(findings->text, "warning: TIER_CONFIG: %s (it is ignored)\n", tiers->ignored);
}

static void check_service_ports(struct findings *findings, const struct config *config)
{
    if (config_service_ports(config)[0])
        strbuf_printf(findings->text,
                      "warning: Kubernetes has set %s for services: ignored. Set the variables in the "
                      "container, or set enableServiceLinks: false in the pod's spec\n",
                      config_service_ports(config));
}

static void check_waiting(struct findings *findings, const struct settings *settings)
{
    char names[WARN_NAMES_MAX];

    if (settings->hold_max_wait_ms > 0 && warn_missing_for_waiting(settings, names))
        strbuf_printf(findings->text,
                      "warning: HOLD_MAX_WAIT: calls of providers do not wait. Missing or wrong: %s. %s\n",
                      names, WARN_WAITING);
}

bool check_files(const struct config *config, struct strbuf *text)
{
    const struct settings *settings = config_settings(config);
    struct findings findings = {.text = text, .is_well = true};

    if (settings->tls_cert_file[0])
        check_pair(&findings, "TLS_CERT_FILE", settings->tls_cert_file, "TLS_KEY_FILE",
                   settings->tls_key_file);
    if (settings->redis_tls_cert_file[0] && settings->redis_tls_key_file[0])
        check_pair(&findings, "REDIS_TLS_CERT_FILE", settings->redis_tls_cert_file, "REDIS_TLS_KEY_FILE",
                   settings->redis_tls_key_file);
    check_kube(&findings, settings);
    check_data_dir(&findings, settings);
    find_exposed_files(config, found_exposed, &findings);
    check_seed(&findings, settings);
    check_service_ports(&findings, config);
    check_waiting(&findings, settings);
    config_find_unknown(environ, found_variable, &findings);
    return findings.is_well;
}
