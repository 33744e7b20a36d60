/*
 * tls_reason.c - says in words why a connection over TLS failed, and which setting has to do with it.
 */
#include "store/redis/tls_reason.h"

#include <stdio.h>

void tls_reason(enum tls_client_fault fault, const char *detail, const char *where, char *text, size_t size)
{
    switch (fault) {
    case TLS_FAULT_UNTRUSTED:
        snprintf(text, size,
                 "certificate of %s is not trusted: %s; set REDIS_TLS_CA_FILE to the certificate of whoever "
                 "signed it",
                 where, detail);
        break;
    case TLS_FAULT_WRONG_NAME:
        snprintf(text, size,
                 "certificate of %s is not for this host: %s; set REDIS_TLS_SERVER_NAME to the name in the "
                 "certificate if that server is meant",
                 where, detail);
        break;
    case TLS_FAULT_EXPIRED:
        snprintf(text, size,
                 "certificate of %s is not valid now: %s; check the server's certificate and the clocks",
                 where, detail);
        break;
    case TLS_FAULT_WANTS_CERTIFICATE:
        snprintf(text, size,
                 "%s demands a client certificate: %s; set REDIS_TLS_CERT_FILE and REDIS_TLS_KEY_FILE", where,
                 detail);
        break;
    case TLS_FAULT_REFUSES_CERTIFICATE:
        snprintf(text, size, "%s does not accept the certificate in REDIS_TLS_CERT_FILE: %s", where, detail);
        break;
    case TLS_FAULT_NOT_TLS:
        snprintf(text, size, "%s does not speak TLS on this port: %s; use its TLS port, or redis://", where,
                 detail);
        break;
    case TLS_FAULT_CLOSED:
        snprintf(text, size, "%s closed the connection during the TLS handshake", where);
        break;
    case TLS_FAULT_NONE:
    case TLS_FAULT_OTHER:
        snprintf(text, size, "TLS with %s failed: %s", where, detail);
        break;
    }
}
