/*
 * client_internal.h - what client.c and client_context.c share.
 */
#ifndef TLS_CLIENT_INTERNAL_H
#define TLS_CLIENT_INTERNAL_H

#include <openssl/ssl.h>

#include "tls/client.h"

struct tls_client_context {
    struct tls_client_settings settings;
    SSL_CTX *ssl;
    BIO_METHOD *wire; /* see tls_client_wire_new */
};

/* A BIO that reads and writes a client's socket, within the share of a turn. NULL without memory. */
BIO_METHOD *tls_client_wire_new(void);

#endif
