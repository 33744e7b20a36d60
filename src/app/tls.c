/*
 * tls.c - checks the TLS settings, builds the TLS listener, reloads its certificate, and logs
 * problems with it.
 */
#include "app/tls.h"

#include "base/log.h"

static const char *app_tls_variable(enum tls_file file)
{
    return file == TLS_KEY ? "TLS_KEY_FILE" : "TLS_CERT_FILE";
}

static void app_warn_of_tls(const struct tls_notes *notes)
{
    if (notes->is_expired)
        log_warn("the certificate in TLS_CERT_FILE has expired: clients will refuse it",
                 log_num("expired_at", notes->not_after_s));
    if (notes->is_early)
        log_warn("the certificate in TLS_CERT_FILE is not valid yet: clients will refuse it");
}

static int app_adopt(void *arg, int fd, int client_fd, const char *peer)
{
    return http_server_adopt(arg, fd, peer, client_fd);
}

int app_new_tls(uv_loop_t *loop, const struct settings *settings, struct metrics *metrics,
                struct http_server *http, struct tls_server **ret_tls)
{
    const struct tls_settings tls = {
        .certificate_file = settings->tls_cert_file,
        .key_file = settings->tls_key_file,
        .handshake_timeout_ms = settings->http_read_timeout_ms,
        .write_timeout_ms = settings->http_write_timeout_ms,
        .patience_ms = settings->gateway_idle_timeout_ms,
        /* Those of the gateway are no connections of the HTTP server any more, but they are still here. */
        .max_connections = (size_t)(settings->max_connections + settings->gateway_max) + HTTP_RESERVE_MAX,
        .accepted = app_adopt,
        .arg = http,
    };
    struct tls_problem problem = {0};
    struct tls_notes notes;
    int err;

    *ret_tls = NULL;
    if (!settings->tls_cert_file[0])
        return 0;
    err = tls_server_new(loop, &tls, metrics, ret_tls, &notes, &problem);
    if (err < 0)
        log_error("the TLS listener cannot be built", log_str("variable", app_tls_variable(problem.file)),
                  log_str("error", problem.sentence[0] ? problem.sentence : strerror(-err)));
    else
        app_warn_of_tls(&notes);
    return err;
}

bool app_reload_tls(struct tls_server *tls)
{
    struct tls_problem problem = {0};
    struct tls_notes notes;
    int err = tls_server_reload(tls, &notes, &problem);

    if (err < 0) {
        log_error("reload of the certificate refused, the old one stays in use",
                  log_str("variable", app_tls_variable(problem.file)),
                  log_str("error", problem.sentence[0] ? problem.sentence : strerror(-err)));
        return false;
    }
    log_info("certificate reloaded", log_num("valid_until", notes.not_after_s));
    app_warn_of_tls(&notes);
    return true;
}

void app_check_tls(struct config *config)
{
    const struct settings *settings = config_settings(config);
    struct tls_problem problem = {0};
    struct tls_notes notes;
    int err;

    if (!settings->tls_cert_file[0] && !settings->tls_key_file[0])
        return;
    if (!settings->tls_key_file[0]) {
        config_add_error(config, "TLS_KEY_FILE", "must be set where TLS_CERT_FILE is");
        return;
    }
    if (!settings->tls_cert_file[0]) {
        config_add_error(config, "TLS_CERT_FILE", "must be set where TLS_KEY_FILE is");
        return;
    }
    err = tls_check_files(settings->tls_cert_file, settings->tls_key_file, &notes, &problem);
    if (err < 0)
        config_add_error(config, app_tls_variable(problem.file),
                         problem.sentence[0] ? problem.sentence : strerror(-err));
}
