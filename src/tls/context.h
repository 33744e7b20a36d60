/*
 * context.h - what OpenSSL must know before a handshake: the certificate, its key, and what we agree to.
 * Internal to the room.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* The caller frees *ret_context with SSL_CTX_free. See tls_server_new for failures. */
int tls_context_new(const char *certificate_file, const char *key_file, SSL_CTX **ret_context,
                    struct tls_notes *ret_notes, struct tls_problem *ret_problem) MUST_CHECK;

#endif
