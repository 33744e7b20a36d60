/*
 * tls.h - the TLS listener as the settings want it, in front of the HTTP server.
 */
#ifndef APP_TLS_H
#define APP_TLS_H

#include "config/config.h"
#include "http/http.h"
#include "tls/tls.h"

/* Without TLS_CERT_FILE and TLS_KEY_FILE *ret_tls is NULL. Logs what is wrong. Borrows everything. */
int app_new_tls(uv_loop_t *loop, const struct settings *settings, struct metrics *metrics,
                struct http_server *http, struct tls_server **ret_tls) MUST_CHECK;

/* Reads the files again; logs what came of it. False: what was in force still is. */
bool app_reload_tls(struct tls_server *tls);

/* Adds what is wrong with the settings, and with the files that they name. */
void app_check_tls(struct config *config);

#endif
