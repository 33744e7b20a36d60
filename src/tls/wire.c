/*
 * wire.c - a BIO of OpenSSL that reads the client's socket, and stops when the turn's share is
 * used.
 */
#include "tls/wire.h"

#include <sys/socket.h>

/* Copies what was read ahead, as much as is wanted. */
static int wire_give(struct tls_piece *ahead, char *to, int len)
{
    size_t count = min_u64((uint64_t)len, ahead->len - ahead->at);

    memcpy(to, ahead->data + ahead->at, count);
    tls_piece_taken(ahead, count);
    return (int)count;
}

/* One system call for as many records as there are, and only the rest is kept. */
static int wire_receive(BIO *bio, struct tls_connection *connection, char *to, int len)
{
    char *scratch = connection->server->wire_scratch;
    ssize_t count = recv(connection->outer_fd, scratch, SERVER_PIECE, MSG_DONTWAIT);
    size_t taken;

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    connection->wire_ended = count == 0;
    if (count <= 0)
        return (int)count;
    taken = min_u64((uint64_t)len, (uint64_t)count);
    memcpy(to, scratch, taken);
    if (taken < (size_t)count && !tls_piece_keep(&connection->ahead, scratch + taken, (size_t)count - taken))
        return -1;
    return (int)taken;
}

/* Is OpenSSL to see these bytes? */
static bool wire_may_pass(struct tls_connection *connection, const char *data, int len)
{
    if (connection->state != TLS_HANDSHAKING || len <= 0)
        return true;
    if (tls_hello_changed(&connection->hello) && SSL_version(connection->ssl) == TLS1_2_VERSION)
        return true; /* encrypted from here on */
    connection->is_too_long = !tls_hello_feed(&connection->hello, data, (size_t)len);
    return !connection->is_too_long;
}

static int wire_read(BIO *bio, char *to, int len)
{
    struct tls_connection *connection = BIO_get_data(bio);
    int count;

    MAGIC_CHECK(connection, TLS_CONNECTION_MAGIC);
    BIO_clear_retry_flags(bio);
    if (len <= 0)
        return 0;
    connection->is_held_back = connection->work.is_cut || tls_work_turn_is_over(&connection->work);
    if (connection->is_held_back) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (connection->ahead.data)
        count = wire_give(&connection->ahead, to, len);
    else
        count = wire_receive(bio, connection, to, len);
    return wire_may_pass(connection, to, count) ? count : -1;
}

static int wire_write(BIO *bio, const char *data, int len)
{
    struct tls_connection *connection = BIO_get_data(bio);
    ssize_t count = send(connection->outer_fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    connection->is_answered = connection->is_answered || count > 0;
    return (int)count;
}

static long wire_control(BIO *bio, int command, long number UNUSED, void *pointer UNUSED)
{
    const struct tls_connection *connection = BIO_get_data(bio);

    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return connection->wire_ended;
    default:
        return 0;
    }
}

static int wire_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_wire_method_new(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a client of TLS");

    if (!method)
        return NULL;
    if (BIO_meth_set_read(method, wire_read) == 1 && BIO_meth_set_write(method, wire_write) == 1 &&
        BIO_meth_set_ctrl(method, wire_control) == 1 && BIO_meth_set_create(method, wire_create) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

bool tls_wire_attach(struct tls_connection *connection)
{
    BIO *bio = BIO_new(connection->server->wire_method);

    if (!bio)
        return false;
    BIO_set_data(bio, connection);
    SSL_set_bio(connection->ssl, bio, bio);
    return true;
}

bool tls_wire_has_more(const struct tls_connection *connection)
{
    return connection->is_held_back || connection->ahead.data;
}
