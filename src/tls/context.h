/*
 * context.h - the settings of OpenSSL for handshakes: the certificate, its key, versions and
 * protocols. Internal to the module.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* The caller frees *ret_context with SSL_CTX_free. See tls_server_new for failures. */
int tls_context_new(const char *certificate_file, const char *key_file, SSL_CTX **ret_context,
                    struct tls_notes *ret_notes, struct tls_problem *ret_problem) MUST_CHECK;

/* For those who have a context of their own. A certificate comes before its key. */
int tls_context_load_certificate(SSL_CTX *context, const char *path, struct tls_notes *notes,
                                 struct tls_problem *ret_problem) MUST_CHECK;
int tls_context_load_key(SSL_CTX *context, const char *path, struct tls_problem *ret_problem) MUST_CHECK;
/* Trusts every certificate of the file, in PEM form. */
int tls_context_load_authorities(SSL_CTX *context, const char *path,
                                 struct tls_problem *ret_problem) MUST_CHECK;

#endif
