/*
 * listen.h - where the listeners are: HTTP_BIND, METRICS_BIND, TLS_BIND and their ports.
 */
#ifndef APP_LISTEN_H
#define APP_LISTEN_H

#include "config/config.h"
#include "http/http.h"
#include "tls/tls.h"

/* Adds an error for each variable that is no IP address. */
void check_binds(struct config *config);

/* Each logs where it listens, or why it cannot. */
int listen_http(const struct settings *settings, struct http_server *server) MUST_CHECK;
int listen_metrics(const struct settings *settings, struct http_server *server) MUST_CHECK;
/* Accepts NULL: there is no TLS. */
int listen_tls(const struct settings *settings, struct tls_server *server) MUST_CHECK;

#endif
