/*
 * client.c - one connection to a server over TLS: the handshake, and the bytes in both directions.
 *
 * Backpressure: a piece of clear text is read, from either side, only when the last one has gone on.
 * OpenSSL reads the socket through a BIO of ours, which has nothing more to give when the share of
 * this turn is used: records that carry no data would keep it, and the loop, busy without end. What
 * is left is in the socket, so that the poll tells of it in the next turn.
 */
#include "tls/client_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

enum {
    CLIENT_MAGIC = 0x746c7363,
    CLIENT_PIECE = 16 * 1024,       /* of clear text: as much as a record has at most */
    CLIENT_TURN_BYTES = 256 * 1024, /* of the socket, that OpenSSL may read in one turn */
    CLIENT_TURN_PIECES = 16,        /* in each direction */
};

struct client_piece {
    size_t at;
    size_t len;
    char data[CLIENT_PIECE];
};

struct tls_client {
    unsigned magic;
    struct tls_client_hooks hooks;
    SSL *ssl;
    int outer_fd; /* the server */
    int inner_fd; /* our end of the pair */
    uv_poll_t outer;
    uv_poll_t inner;
    int outer_events; /* that libuv watches for */
    int inner_events;
    struct client_piece sending;   /* to the server */
    struct client_piece receiving; /* from it */
    size_t turn_bytes;             /* left of this turn's share */
    bool is_open;                  /* the handshake is done */
    bool is_ended;                 /* the handles are closing, or closed */
    bool wants_write;              /* OpenSSL could not write */
    bool has_certificate;          /* of our own */
    bool is_asked;                 /* for that certificate */
    bool is_stopped;               /* the owner has let go of it */
    unsigned handles_left;
    enum tls_client_fault fault;
    char detail[TLS_CLIENT_DETAIL_MAX];
};

/* The socket as OpenSSL sees it. */

static int client_wire_read(BIO *bio, char *to, int len)
{
    struct tls_client *client = BIO_get_data(bio);
    ssize_t count;

    MAGIC_CHECK(client, CLIENT_MAGIC);
    BIO_clear_retry_flags(bio);
    if (len <= 0)
        return 0;
    if (client->turn_bytes == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    count = recv(client->outer_fd, to, min_u64((uint64_t)len, client->turn_bytes), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (count > 0)
        client->turn_bytes -= (size_t)count;
    return (int)count;
}

static int client_wire_write(BIO *bio, const char *data, int len)
{
    const struct tls_client *client = BIO_get_data(bio);
    ssize_t count = send(client->outer_fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)count;
}

static long client_wire_control(BIO *bio UNUSED, int command, long number UNUSED, void *pointer UNUSED)
{
    return command == BIO_CTRL_FLUSH;
}

static int client_wire_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_client_wire_new(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a server of TLS");

    if (!method)
        return NULL;
    if (BIO_meth_set_read(method, client_wire_read) == 1 &&
        BIO_meth_set_write(method, client_wire_write) == 1 &&
        BIO_meth_set_ctrl(method, client_wire_control) == 1 &&
        BIO_meth_set_create(method, client_wire_create) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* The end. */

static void client_free_if_done(struct tls_client *client)
{
    struct tls_client_hooks hooks = client->hooks;

    if (client->handles_left > 0 || !client->is_stopped)
        return;
    SSL_free(client->ssl);
    client->magic = 0;
    free(client);
    hooks.closed(hooks.arg);
}

static void client_handle_closed(uv_handle_t *handle)
{
    struct tls_client *client = handle->data;

    MAGIC_CHECK(client, CLIENT_MAGIC);
    /* The caller's end reads the end of file from here on. */
    (void)close(handle == (uv_handle_t *)&client->outer ? client->outer_fd : client->inner_fd);
    client->handles_left--;
    client_free_if_done(client);
}

static void client_end(struct tls_client *client, enum tls_client_fault fault)
{
    assert(!client->is_ended);
    client->is_ended = true;
    client->fault = fault;
    if (client->is_open && fault == TLS_FAULT_NONE)
        (void)SSL_shutdown(client->ssl);
    ERR_clear_error();
    uv_close((uv_handle_t *)&client->outer, client_handle_closed);
    uv_close((uv_handle_t *)&client->inner, client_handle_closed);
}

/* Which alerts of a server are about our certificate? */
static bool reason_is_about_certificate(int reason)
{
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return true;
    default:
        return false;
    }
}

static enum tls_client_fault fault_of_certificate(long result)
{
    switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return TLS_FAULT_WRONG_NAME;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_FAULT_EXPIRED;
    default:
        return TLS_FAULT_UNTRUSTED;
    }
}

static enum tls_client_fault fault_of_reason(const struct tls_client *client, int reason)
{
    if (client->is_asked && reason_is_about_certificate(reason))
        return client->has_certificate ? TLS_FAULT_REFUSES_CERTIFICATE : TLS_FAULT_WANTS_CERTIFICATE;
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        return client->is_open ? TLS_FAULT_OTHER : TLS_FAULT_NOT_TLS;
    default:
        return TLS_FAULT_OTHER;
    }
}

/* `error` is that of SSL_get_error, and the queue of OpenSSL is as the call has left it. */
static void client_fail(struct tls_client *client, int error)
{
    long result = SSL_get_verify_result(client->ssl);
    unsigned long code = ERR_peek_error();
    const char *words = ERR_reason_error_string(code);
    bool is_cut = error == SSL_ERROR_SYSCALL ||
                  (error == SSL_ERROR_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
    enum tls_client_fault fault;

    if (!client->is_open && result != X509_V_OK && error == SSL_ERROR_SSL) {
        fault = fault_of_certificate(result);
        words = X509_verify_cert_error_string(result);
    } else if (is_cut) {
        fault = client->is_open ? TLS_FAULT_NONE : TLS_FAULT_CLOSED;
    } else {
        fault = fault_of_reason(client, ERR_GET_REASON(code));
    }
    snprintf(client->detail, sizeof(client->detail), "%s", words ? words : "no reason given");
    /* After an error nothing may be said to the server any more. */
    SSL_set_quiet_shutdown(client->ssl, 1);
    client_end(client, fault);
}

/* The bytes. */

/* WANT_READ and WANT_WRITE are no failures. True: the connection goes on. */
static bool client_may_wait(struct tls_client *client, int rc)
{
    int error = SSL_get_error(client->ssl, rc);

    if (error == SSL_ERROR_WANT_READ)
        return true;
    if (error == SSL_ERROR_WANT_WRITE) {
        client->wants_write = true;
        return true;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        client_end(client, TLS_FAULT_NONE);
    else
        client_fail(client, error);
    return false;
}

/* True: there is nothing left of the piece. */
static bool client_give_inner(struct tls_client *client)
{
    struct client_piece *piece = &client->receiving;

    while (piece->at < piece->len) {
        ssize_t count = send(client->inner_fd, piece->data + piece->at, piece->len - piece->at,
                             MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno != EAGAIN)
            client_end(client, TLS_FAULT_NONE); /* the caller has closed his end */
        if (count < 0)
            return false;
        piece->at += (size_t)count;
    }
    return true;
}

static void client_receive(struct tls_client *client)
{
    for (int i = 0; i < CLIENT_TURN_PIECES && client_give_inner(client); i++) {
        int rc;

        ERR_clear_error();
        rc = SSL_read(client->ssl, client->receiving.data, CLIENT_PIECE);
        if (rc <= 0) {
            (void)client_may_wait(client, rc);
            return;
        }
        client->receiving.at = 0;
        client->receiving.len = (size_t)rc;
    }
}

/* True: there is a piece to send. */
static bool client_take_inner(struct tls_client *client)
{
    struct client_piece *piece = &client->sending;
    ssize_t count;

    if (piece->at < piece->len)
        return true;
    count = recv(client->inner_fd, piece->data, sizeof(piece->data), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        client_end(client, TLS_FAULT_NONE); /* the caller has closed his end */
    if (count <= 0)
        return false;
    piece->at = 0;
    piece->len = (size_t)count;
    return true;
}

static void client_send(struct tls_client *client)
{
    for (int i = 0; i < CLIENT_TURN_PIECES && client_take_inner(client); i++) {
        struct client_piece *piece = &client->sending;
        int rc;

        ERR_clear_error();
        rc = SSL_write(client->ssl, piece->data + piece->at, (int)(piece->len - piece->at));
        if (rc <= 0) {
            (void)client_may_wait(client, rc);
            return;
        }
        piece->at += (size_t)rc;
    }
}

static void client_shake_hands(struct tls_client *client)
{
    int rc;

    ERR_clear_error();
    rc = SSL_do_handshake(client->ssl);
    if (rc != 1) {
        (void)client_may_wait(client, rc);
        return;
    }
    client->is_open = true;
    client->hooks.opened(client->hooks.arg);
}

static void client_polled(uv_poll_t *poll, int status, int events);

static void client_watch_one(uv_poll_t *poll, int *events, int wanted)
{
    int err = 0;

    if (*events == wanted)
        return;
    *events = wanted;
    if (wanted)
        err = uv_poll_start(poll, wanted, client_polled);
    else
        (void)uv_poll_stop(poll);
    assert(err == 0); /* it fails only for a handle that is closing */
}

static void client_watch(struct tls_client *client)
{
    bool is_receiving = client->receiving.at < client->receiving.len;
    bool is_sending = client->sending.at < client->sending.len;

    client_watch_one(&client->outer, &client->outer_events,
                     (is_receiving ? 0 : UV_READABLE) |
                         (client->wants_write || is_sending ? UV_WRITABLE : 0));
    if (client->is_open)
        client_watch_one(&client->inner, &client->inner_events,
                         (is_sending ? 0 : UV_READABLE) | (is_receiving ? UV_WRITABLE : 0));
}

static void client_work(struct tls_client *client)
{
    client->turn_bytes = CLIENT_TURN_BYTES;
    client->wants_write = false;
    if (!client->is_open)
        client_shake_hands(client);
    if (client->is_open && !client->is_ended)
        client_receive(client);
    if (client->is_open && !client->is_ended)
        client_send(client);
    if (!client->is_ended)
        client_watch(client);
}

static void client_polled(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct tls_client *client = poll->data;

    /* Whatever it is, an error included: the next read or write says what. */
    MAGIC_CHECK(client, CLIENT_MAGIC);
    if (!client->is_ended)
        client_work(client);
}

void tls_client_push(struct tls_client *client)
{
    MAGIC_CHECK(client, CLIENT_MAGIC);
    if (!client->is_open || client->is_ended)
        return;
    client->turn_bytes = CLIENT_TURN_BYTES;
    client_send(client);
    if (!client->is_ended)
        client_watch(client);
}

/* The start. */

/* The server has asked for our certificate. */
static int client_asked(SSL *ssl UNUSED, void *arg)
{
    struct tls_client *client = arg;

    MAGIC_CHECK(client, CLIENT_MAGIC);
    client->is_asked = true;
    return 1;
}

/* An address has no name to ask for, and stands elsewhere in a certificate. */
static bool client_expect(SSL *ssl, const char *name)
{
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static bool client_new_ssl(struct tls_client *client, const struct tls_client_context *context,
                           const char *host)
{
    const char *name = context->settings.server_name[0] ? context->settings.server_name : host;
    BIO *bio = BIO_new(context->wire);

    client->ssl = SSL_new(context->ssl);
    if (!client->ssl || !bio || !client_expect(client->ssl, name)) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, client);
    SSL_set_bio(client->ssl, bio, bio);
    SSL_set_cert_cb(client->ssl, client_asked, client);
    SSL_set_connect_state(client->ssl);
    client->has_certificate = SSL_get_certificate(client->ssl) != NULL;
    return true;
}

static void client_outer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* On failure the client is freed, or will be. */
static int client_init_polls(struct tls_client *client, uv_loop_t *loop)
{
    int err = uv_poll_init(loop, &client->outer, client->outer_fd);

    if (err < 0) {
        free(client);
        return err;
    }
    client->outer.data = client;
    err = uv_poll_init(loop, &client->inner, client->inner_fd);
    if (err < 0) {
        uv_close((uv_handle_t *)&client->outer, client_outer_closed);
        return err;
    }
    client->inner.data = client;
    client->handles_left = 2;
    return 0;
}

int tls_client_start(uv_loop_t *loop, struct tls_client_context *context, int fd, const char *host,
                     const struct tls_client_hooks *hooks, struct tls_client **ret_client, int *ret_fd)
{
    struct tls_client *client = calloc(1, sizeof(*client));
    SSL *ssl;
    int pair[2];
    int err;

    if (!client)
        return -ENOMEM;
    client->magic = CLIENT_MAGIC;
    client->hooks = *hooks;
    client->outer_fd = fd;
    err = client_new_ssl(client, context, host) ? 0 : -ENOMEM;
    if (err == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        err = -errno;
    ssl = client->ssl;
    if (err < 0) {
        SSL_free(ssl);
        free(client);
        return err;
    }
    client->inner_fd = pair[0];
    err = client_init_polls(client, loop);
    if (err < 0) {
        SSL_free(ssl);
        (void)close(pair[0]);
        (void)close(pair[1]);
        return err;
    }
    client->wants_write = true; /* the handshake begins in the next turn */
    client_watch(client);
    *ret_client = client;
    *ret_fd = pair[1];
    return 0;
}

enum tls_client_fault tls_client_fault(const struct tls_client *client, const char **ret_detail)
{
    MAGIC_CHECK(client, CLIENT_MAGIC);
    *ret_detail = client->detail;
    return client->fault;
}

void tls_client_stop(struct tls_client *client)
{
    MAGIC_CHECK(client, CLIENT_MAGIC);
    assert(!client->is_stopped);
    tls_client_push(client);
    if (!client->is_ended)
        client_end(client, TLS_FAULT_NONE);
    client->is_stopped = true;
    client_free_if_done(client);
}
