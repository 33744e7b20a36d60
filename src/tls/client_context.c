/*
 * client_context.c - loads what a client trusts and its own certificate, and configures OpenSSL.
 */
#include "tls/client_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>

#include "tls/context.h"

static int client_problem(struct tls_problem *ret_problem, enum tls_file file, int err, const char *sentence)
{
    ret_problem->file = file;
    snprintf(ret_problem->sentence, sizeof(ret_problem->sentence), "%s", sentence);
    return err;
}

static bool client_configure(SSL_CTX *ssl)
{
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A record is read as a whole, so that nothing is left inside OpenSSL of which no poll tells. */
    SSL_CTX_set_read_ahead(ssl, 0);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1;
}

static int client_load(SSL_CTX *ssl, const struct tls_client_settings *settings,
                       struct tls_problem *ret_problem)
{
    struct tls_notes notes = {0};
    int err = 0;

    if (settings->authorities_file[0])
        err = tls_context_load_authorities(ssl, settings->authorities_file, ret_problem);
    else if (SSL_CTX_set_default_verify_paths(ssl) != 1)
        err = client_problem(ret_problem, TLS_AUTHORITIES, -EINVAL,
                             "is not set, and the system's store of certificates cannot be used");
    if (err < 0 || !settings->certificate_file[0])
        return err;
    err = tls_context_load_certificate(ssl, settings->certificate_file, &notes, ret_problem);
    if (err == 0)
        err = tls_context_load_key(ssl, settings->key_file, ret_problem);
    if (err == 0 && (notes.is_expired || notes.is_early))
        err = client_problem(ret_problem, TLS_CERTIFICATE, -EINVAL,
                             notes.is_expired ? "the certificate has expired: servers will refuse it"
                                              : "the certificate is not valid yet: servers will refuse it");
    return err;
}

int tls_client_context_reload(struct tls_client_context *context, struct tls_problem *ret_problem)
{
    SSL_CTX *ssl;
    int err;

    ERR_clear_error();
    ssl = SSL_CTX_new(TLS_client_method());
    err = ssl && client_configure(ssl)
              ? client_load(ssl, &context->settings, ret_problem)
              : client_problem(ret_problem, TLS_AUTHORITIES, -ENOMEM, "OpenSSL has no memory for it");
    ERR_clear_error();
    if (err < 0) {
        SSL_CTX_free(ssl);
        return err;
    }
    SSL_CTX_free(context->ssl); /* connections that use it keep it */
    context->ssl = ssl;
    return 0;
}

int tls_client_context_new(const struct tls_client_settings *settings,
                           struct tls_client_context **ret_context, struct tls_problem *ret_problem)
{
    struct tls_client_context *context = calloc(1, sizeof(*context));
    int err;

    assert(!settings->certificate_file[0] == !settings->key_file[0]);
    if (!context)
        return client_problem(ret_problem, TLS_AUTHORITIES, -ENOMEM, "there is no memory for it");
    context->settings = *settings;
    context->wire = tls_client_wire_new();
    err = context->wire ? tls_client_context_reload(context, ret_problem)
                        : client_problem(ret_problem, TLS_AUTHORITIES, -ENOMEM, "there is no memory for it");
    if (err < 0) {
        tls_client_context_free(context);
        return err;
    }
    *ret_context = context;
    return 0;
}

struct tls_client_context *tls_client_context_free(struct tls_client_context *context)
{
    if (!context)
        return NULL;
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->wire);
    free(context);
    return NULL;
}
