/*
 * listen.h - the addresses of the listeners: HTTP_BIND, METRICS_BIND, TLS_BIND and their ports.
 */
#ifndef APP_LISTEN_H
#define APP_LISTEN_H

#include "app/inherited.h"
#include "config/config.h"
#include "http/http.h"
#include "tls/tls.h"

/* Adds an error for each variable that is no IP address. */
void check_binds(struct config *config);

/*
 * All listeners, with the sockets that systemd opened in place of their own. Logs where they listen, or why
 * one cannot. `tls` NULL: there is no TLS.
 */
int listen_all(const struct settings *settings, struct http_server *http, struct tls_server *tls,
               struct http_server *metrics) MUST_CHECK;

#endif
