/*
 * handshake.c - begins a handshake, takes its steps, and explains failures.
 */
#include "tls/handshake.h"

#include <sys/socket.h>

#include <openssl/err.h>

#include "base/log.h"
#include "tls/wire.h"

/* OpenSSL tells of each record before it does anything about it. */
static void handshake_note_record(int is_ours, int version UNUSED, int content_type, const void *data,
                                  size_t len, SSL *ssl UNUSED, void *arg)
{
    struct tls_connection *connection = arg;
    const unsigned char *bytes = data;

    MAGIC_CHECK(connection, TLS_CONNECTION_MAGIC);
    if (is_ours || len == 0)
        return;
    if (content_type == SSL3_RT_HEADER)
        tls_work_record(&connection->work, bytes[0]);
    else if (content_type == SSL3_RT_INNER_CONTENT_TYPE)
        tls_work_inner(&connection->work, bytes[0]);
}

/* A browser's or a script's mistake, and the one failure that can be explained to who made it. */
static void explain_clear_text(struct tls_connection *connection)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                 "Content-Length: 23\r\nConnection: close\r\n\r\nThis port speaks TLS.\r\n";

    (void)send(connection->outer_fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void handshake_failed(struct tls_connection *connection, int error)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    if (connection->work.is_cut)
        reason = connection->work.is_open ? "there is more behind it" : "too many records";
    else if (connection->is_too_long)
        reason = "the hello is too long";
    if (error == SSL_ERROR_SSL && ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST)
        explain_clear_text(connection);
    tls_server_count(connection->server, HANDSHAKE_FAILED);
    log_debug("a TLS handshake has failed", log_str("peer", connection->peer),
              log_str("error", reason ? reason : "the client has gone"));
    tls_connection_close(connection);
}

/* Not before the client has sent something, because it is large, and a client may never say anything. */
static bool handshake_begin(struct tls_connection *connection)
{
    connection->ssl = SSL_new(connection->server->context);
    if (!connection->ssl || !tls_wire_attach(connection))
        return false;
    SSL_set_msg_callback(connection->ssl, handshake_note_record);
    SSL_set_msg_callback_arg(connection->ssl, connection);
    SSL_set_accept_state(connection->ssl);
    return true;
}

static void handshake_get_in_line(struct tls_connection *connection)
{
    tls_server_wait(connection->server, &connection->turn_link,
                    connection->is_answered ? TLS_WAIT_ANSWERED : TLS_WAIT_HELLO);
}

void tls_handshake_is_ready(struct tls_connection *connection)
{
    assert(connection->state == TLS_HANDSHAKING);
    /* The poll would say the same in every turn. */
    if (!tls_connection_wait(connection, 0)) {
        tls_connection_give_up(connection, HANDSHAKE_FAILED);
        return;
    }
    handshake_get_in_line(connection);
}

void tls_handshake_go_on(struct tls_connection *connection)
{
    int error;
    int rc;

    assert(connection->state == TLS_HANDSHAKING);
    list_remove(&connection->turn_link);
    ERR_clear_error();
    if (!connection->ssl && !handshake_begin(connection)) {
        handshake_failed(connection, SSL_ERROR_SYSCALL);
        return;
    }
    tls_work_begin_turn(&connection->work);
    rc = SSL_do_handshake(connection->ssl);
    error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(connection->ssl, rc);
    if (rc == 1)
        tls_work_opened(&connection->work, SSL_has_pending(connection->ssl));
    if (!connection->work.is_cut && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)) {
        if (error == SSL_ERROR_WANT_READ && tls_wire_has_more(connection))
            handshake_get_in_line(connection);
        else if (!tls_connection_wait(connection, error == SSL_ERROR_WANT_READ ? UV_READABLE : UV_WRITABLE))
            tls_connection_give_up(connection, HANDSHAKE_FAILED);
        return;
    }
    if (connection->work.is_cut || error != SSL_ERROR_NONE) {
        handshake_failed(connection, error);
        return;
    }
    tls_server_count(connection->server, HANDSHAKE_OK);
    tls_connection_opened(connection);
}
