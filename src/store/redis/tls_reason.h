/*
 * tls_reason.h - faults of a connection over TLS, in words that name the setting to look at. Pure.
 */
#ifndef STORE_REDIS_TLS_REASON_H
#define STORE_REDIS_TLS_REASON_H

#include "tls/client.h"

/* `where` is the server, "host:port". */
void tls_reason(enum tls_client_fault fault, const char *detail, const char *where, char *text, size_t size);

#endif
