/*
 * connection.c - moves bytes between a TLS client and the socket pair behind it, and closes both.
 */
#include "tls/connection.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/log.h"
#include "tls/handshake.h"
#include "tls/wire.h"

enum {
    KEEPALIVE_S = 30,
    KEEPALIVE_INTERVAL_S = 10,
    PAIR_BUFFER = 64 * 1024, /* what the kernel keeps of clear text, in each direction */
};

static void format_peer(struct tls_connection *connection, const struct sockaddr *address)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    char *peer = connection->peer;

    if (address->sa_family == AF_INET)
        (void)uv_inet_ntop(AF_INET, &four->sin_addr, peer, sizeof(connection->peer));
    else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        (void)uv_inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], peer, sizeof(connection->peer));
    else
        (void)uv_inet_ntop(AF_INET6, &six->sin6_addr, peer, sizeof(connection->peer));
}

/* The one place where the state changes, and with it the list and the counts. */
static void connection_place(struct tls_connection *connection, enum tls_state state)
{
    struct tls_server *server = connection->server;

    if (!list_is_empty(&connection->link)) {
        server->handshaking_count -= connection->state == TLS_HANDSHAKING;
        server->open_count -= connection->state == TLS_OPEN;
        list_remove(&connection->link);
    }
    connection->state = state;
    if (state == TLS_HANDSHAKING) {
        list_append(&server->handshaking, &connection->link);
        server->handshaking_count++;
    } else if (state == TLS_OPEN) {
        list_append(&server->open, &connection->link);
        server->open_count++;
    }
    metrics_set(server->connections, (double)server->open_count);
}

static void connection_poll_closed(uv_handle_t *handle)
{
    struct tls_connection *connection = handle->data;
    struct tls_server *server = connection->server;

    MAGIC_CHECK(connection, TLS_CONNECTION_MAGIC);
    if (--connection->handles > 0)
        return;
    connection->magic = 0;
    free(connection);
    tls_server_lost_object(server);
}

static void connection_count_dataless(struct tls_connection *connection)
{
    uint64_t more = connection->work.dataless - connection->dataless_counted;

    if (more == 0)
        return;
    connection->dataless_counted += more;
    metrics_add(connection->server->dataless, (double)more);
}

void tls_connection_close(struct tls_connection *connection)
{
    if (connection->state == TLS_CLOSED)
        return;
    if (connection->state == TLS_OPEN)
        connection_count_dataless(connection);
    if (connection->work.is_cut)
        tls_server_log_cut(connection->server, connection->peer);
    connection_place(connection, TLS_CLOSED);
    list_remove(&connection->ending_link);
    list_remove(&connection->turn_link);
    SSL_free(TAKE(connection->ssl));
    free(TAKE(connection->to_client.data));
    free(TAKE(connection->to_inner.data));
    free(TAKE(connection->ahead.data));
    uv_close((uv_handle_t *)&connection->outer, connection_poll_closed);
    /* Both together: whoever has the other end of the pair may still look at the client's socket. */
    (void)close(connection->outer_fd);
    if (connection->inner_fd < 0)
        return;
    uv_close((uv_handle_t *)&connection->inner, connection_poll_closed);
    (void)close(connection->inner_fd);
}

void tls_connection_give_up(struct tls_connection *connection, enum handshake_end end)
{
    assert(connection->state == TLS_HANDSHAKING);
    tls_server_count(connection->server, end);
    log_debug(
        "a TLS handshake was given up", log_str("peer", connection->peer),
        log_str("reason", end == HANDSHAKE_TIMEOUT ? "it took too long" : "too many others came after it"));
    tls_connection_close(connection);
}

static void outer_ready(uv_poll_t *poll, int status, int events);
static void inner_ready(uv_poll_t *poll, int status, int events);

/* Changing what is polled for costs two system calls, so it is done only where something changes. */
static bool poll_for(uv_poll_t *poll, int events, int *current, uv_poll_cb ready)
{
    if (events == *current)
        return true;
    *current = events;
    if (events == 0)
        return uv_poll_stop(poll) == 0;
    return uv_poll_start(poll, events, ready) == 0;
}

bool tls_piece_keep(struct tls_piece *piece, const char *data, size_t len)
{
    assert(!piece->data);
    assert(len <= SERVER_PIECE);

    piece->data = malloc(len);
    if (!piece->data)
        return false;
    memcpy(piece->data, data, len);
    piece->at = 0;
    piece->len = len;
    return true;
}

void tls_piece_taken(struct tls_piece *piece, size_t taken)
{
    piece->at += taken;
    assert(piece->at <= piece->len);
    if (piece->at == piece->len)
        free(TAKE(piece->data));
}

/* Encrypts and sends what the client takes; -EPIPE: the connection is broken. */
static int client_send(struct tls_connection *connection, const char *data, size_t len, size_t *ret_taken)
{
    size_t at = 0;

    while (at < len) {
        int count;
        int error;

        ERR_clear_error();
        count = SSL_write(connection->ssl, data + at, (int)(len - at));
        if (count > 0) {
            at += (size_t)count;
            tls_work_sent(&connection->work, (size_t)count);
            connection->moved_ms = uv_now(connection->server->loop);
            continue;
        }
        error = SSL_get_error(connection->ssl, count);
        if (error != SSL_ERROR_WANT_WRITE)
            return -EPIPE;
        connection->is_blocked = true;
        break;
    }
    *ret_taken = at;
    return 0;
}

/* Nothing more comes from the inner side, and the client has it all: tells it so. */
static int client_shut(struct tls_connection *connection)
{
    int rc;

    ERR_clear_error();
    rc = SSL_shutdown(connection->ssl);
    if (rc < 0 && SSL_get_error(connection->ssl, rc) == SSL_ERROR_WANT_WRITE) {
        connection->is_blocked = true;
        return 0;
    }
    /* Whether it worked or not: nothing more can be sent. */
    connection->client_is_shut = true;
    (void)shutdown(connection->outer_fd, SHUT_WR);
    return 0;
}

/* From the inner side to the client. */
static int connection_move_out(struct tls_connection *connection)
{
    struct tls_piece *piece = &connection->to_client;
    char *scratch = connection->server->scratch;
    size_t taken;

    connection->is_blocked = false;
    if (piece->data) {
        if (client_send(connection, piece->data + piece->at, piece->len - piece->at, &taken))
            return -EPIPE;
        tls_piece_taken(piece, taken);
    }
    while (!piece->data && !connection->inner_ended) {
        ssize_t count;

        if (tls_work_turn_is_over(&connection->work)) {
            /* Once it has closed it is not polled any more. */
            connection->has_more = connection->has_more || connection->inner_is_gone;
            tls_server_count_wait(connection->server, TLS_WAIT_SHARE);
            break;
        }
        count = recv(connection->inner_fd, scratch, SERVER_PIECE, MSG_DONTWAIT);

        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (count <= 0) {
            /* An error says that it has closed without having read everything: an end as well. */
            connection->inner_ended = true;
            break;
        }
        if (client_send(connection, scratch, (size_t)count, &taken))
            return -EPIPE;
        if (taken < (size_t)count && !tls_piece_keep(piece, scratch + taken, (size_t)count - taken))
            return -ENOMEM;
        if (count < SERVER_PIECE && !connection->inner_is_gone)
            break; /* that was all; if not, the poll says so */
    }
    if (connection->inner_ended && !piece->data && !connection->client_is_shut)
        return client_shut(connection);
    return 0;
}

/* 1: `*ret_count` bytes of clear text are in the scratch memory. 0: none now, or never again. */
static int client_receive(struct tls_connection *connection, size_t *ret_count)
{
    int count;

    ERR_clear_error();
    connection->read_wants_write = false;
    count = SSL_read(connection->ssl, connection->server->scratch, SERVER_PIECE);
    if (connection->work.is_cut)
        return -EPROTO;
    if (count > 0) {
        tls_work_received(&connection->work, (size_t)count);
        *ret_count = (size_t)count;
        return 1;
    }
    switch (SSL_get_error(connection->ssl, count)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_WANT_WRITE:
        connection->read_wants_write = true;
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        connection->client_ended = true;
        return 0;
    default:
        return -EPIPE;
    }
}

/* Gives clear text to the inner side as far as it takes it. */
static size_t inner_send(struct tls_connection *connection, const char *data, size_t len)
{
    ssize_t count = send(connection->inner_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (count >= 0)
        return (size_t)count;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    connection->inner_is_gone = true; /* nobody wants it any more */
    return len;
}

/* From the client to the inner side. */
static int connection_move_in(struct tls_connection *connection)
{
    struct tls_piece *piece = &connection->to_inner;
    const char *scratch = connection->server->scratch;

    if (piece->data)
        tls_piece_taken(piece, inner_send(connection, piece->data + piece->at, piece->len - piece->at));
    while (!piece->data && !connection->client_ended && !connection->inner_is_gone) {
        size_t count;
        size_t taken;
        int rc = client_receive(connection, &count);

        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        taken = inner_send(connection, scratch, count);
        if (taken < count && !tls_piece_keep(piece, scratch + taken, count - taken))
            return -ENOMEM;
    }
    /* Whoever waits for the inner side comes here again when it takes something. */
    connection->has_more = !piece->data && !connection->client_ended && !connection->inner_is_gone &&
                           !connection->read_wants_write && tls_wire_has_more(connection);
    if (connection->client_ended && !piece->data && !connection->inner_is_shut) {
        connection->inner_is_shut = true;
        (void)shutdown(connection->inner_fd, SHUT_WR);
    }
    return 0;
}

/*
 * The inner side has closed while the client had not taken everything: a client that does not read
 * gets as long as the settings say since it last did, and nobody can stretch that for ever. If it
 * has not read for so long already, that is why the inner side has closed, and the next tick ends
 * it.
 */
static void connection_set_ending(struct tls_connection *connection)
{
    struct tls_server *server = connection->server;

    if (!list_is_empty(&connection->ending_link))
        return;
    connection->deadline_ms = uv_now(server->loop) + SERVER_LINGER_MAX_MS;
    list_append(&server->ending, &connection->ending_link);
    tls_server_tick_on(server);
}

/* Has had its share of this turn, and goes on in one of the next without being asked. */
static bool connection_is_in_line(const struct tls_connection *connection)
{
    return !list_is_empty(&connection->turn_link);
}

static bool connection_poll(struct tls_connection *connection)
{
    bool is_patient = connection_is_in_line(connection) && tls_work_is_owing(&connection->work);
    int outer = 0;
    int inner = 0;

    if (!connection->to_inner.data && !connection->client_ended && !connection->inner_is_gone && !is_patient)
        outer |= UV_READABLE;
    if (connection->is_blocked || connection->read_wants_write)
        outer |= UV_WRITABLE;
    if (!connection->inner_is_gone) {
        /*
         * A pair of sockets has no urgent data. Who polls for it hears nothing but the one event that is
         * never left out: both directions have ended. Without it, a close would not be seen while we do not
         * read.
         */
        inner |= UV_PRIORITIZED;
        if (!connection->to_client.data && !connection->is_blocked && !connection->inner_ended)
            inner |= UV_READABLE;
        if (connection->to_inner.data)
            inner |= UV_WRITABLE;
    }
    return poll_for(&connection->outer, outer, &connection->outer_events, outer_ready) &&
           poll_for(&connection->inner, inner, &connection->inner_events, inner_ready);
}

/* A share of the turn for each direction: a client that sends without end still gets its answers. */
static int connection_move_both(struct tls_connection *connection)
{
    int rc;

    connection->has_more = false;
    tls_work_begin_turn(&connection->work);
    /* In this order: what is found out on the way in decides what is to be done on the way out. */
    rc = connection_move_in(connection);
    if (rc < 0)
        return rc;
    tls_work_begin_turn(&connection->work);
    return connection_move_out(connection);
}

/*
 * Goes on in one of the next turns. A connection that owes records with data waits in a line of its own, of
 * which one goes on in each turn: a thousand clients that flood take no more of a turn than one.
 */
static void connection_get_in_line(struct tls_connection *connection, enum tls_wait why)
{
    if (tls_work_is_owing(&connection->work))
        why = TLS_WAIT_OWING;
    tls_server_wait(connection->server, &connection->turn_link, why);
}

/* Moves what can be moved in this turn, and settles what is waited for next. */
static void connection_move(struct tls_connection *connection)
{
    bool is_done;

    list_remove(&connection->turn_link);
    if (connection_move_both(connection) < 0) {
        tls_connection_close(connection);
        return;
    }
    connection_count_dataless(connection);
    if (connection->has_more)
        connection_get_in_line(connection, TLS_WAIT_SHARE);
    is_done = connection->client_is_shut && (connection->inner_is_gone || connection->inner_is_shut);
    if (is_done || !connection_poll(connection)) {
        tls_connection_close(connection);
        return;
    }
    if (connection->inner_is_gone && !connection->client_is_shut)
        connection_set_ending(connection);
}

void tls_connection_go_on(struct tls_connection *connection)
{
    assert(connection->state == TLS_OPEN);
    connection_move(connection);
}

static void inner_ready(uv_poll_t *poll, int status, int events)
{
    struct tls_connection *connection = poll->data;

    MAGIC_CHECK(connection, TLS_CONNECTION_MAGIC);
    if (status < 0)
        connection->inner_events = 0; /* libuv has stopped: it has closed and left something unread */
    if (status < 0 || (events & UV_PRIORITIZED))
        connection->inner_is_gone = true;
    if (!connection_is_in_line(connection) || connection->inner_is_gone)
        connection_move(connection);
}

/* Behind the handshake: makes the pair, and gives one end of it away. */
static int connection_open(struct tls_connection *connection)
{
    struct tls_server *server = connection->server;
    const int size = PAIR_BUFFER;
    int pair[2];
    int err;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    for (unsigned i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    err = uv_poll_init(server->loop, &connection->inner, pair[0]);
    if (err < 0) {
        (void)close(pair[0]);
        (void)close(pair[1]);
        return err;
    }
    connection->inner.data = connection;
    connection->inner_fd = pair[0];
    connection->handles++;
    err = server->settings.accepted(server->settings.arg, pair[1], connection->outer_fd, connection->peer);
    if (err < 0) {
        (void)close(pair[1]);
        return err;
    }
    connection->moved_ms = uv_now(server->loop);
    connection_place(connection, TLS_OPEN);
    return 0;
}

void tls_connection_opened(struct tls_connection *connection)
{
    int err;

    connection->dataless_counted = connection->work.dataless; /* the handshake is counted elsewhere */
    err = connection_open(connection);
    if (err < 0) {
        tls_server_log_failure(connection->server, err);
        tls_connection_close(connection);
        return;
    }
    /* What the client has sent behind its handshake may be here already, and then no poll would say so. */
    connection_move(connection);
}

bool tls_connection_wait(struct tls_connection *connection, int events)
{
    return poll_for(&connection->outer, events, &connection->outer_events, outer_ready);
}

static void outer_ready(uv_poll_t *poll, int status, int events UNUSED)
{
    struct tls_connection *connection = poll->data;

    MAGIC_CHECK(connection, TLS_CONNECTION_MAGIC);
    if (status < 0)
        connection->outer_events = 0;
    if (connection->state == TLS_HANDSHAKING) {
        tls_handshake_is_ready(connection);
        return;
    }
    if (status < 0) {
        /* The client has reset the connection; what it sent before still counts. */
        tls_work_begin_turn(&connection->work);
        (void)connection_move_in(connection);
        tls_connection_close(connection);
        return;
    }
    if (connection_is_in_line(connection))
        return;
    if (!tls_work_is_owing(&connection->work) && tls_server_has_time(connection->server)) {
        connection_move(connection);
        return;
    }
    connection_get_in_line(connection, TLS_WAIT_BUSY);
    if (!connection_poll(connection))
        tls_connection_close(connection);
}

static void connection_set_options(const struct tls_connection *connection)
{
    const struct tls_settings *settings = &connection->server->settings;
    const int yes = 1;
    const int idle_s = KEEPALIVE_S;
    const int interval_s = KEEPALIVE_INTERVAL_S;
    const unsigned patience_ms = (unsigned)min_u64(settings->patience_ms, INT32_MAX);
    int fd = connection->outer_fd;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
}

int tls_connection_new(struct tls_server *server, int fd, const struct sockaddr *address)
{
    struct tls_connection *connection = calloc(1, sizeof(*connection));
    int err;

    if (!connection)
        return -ENOMEM;
    connection->magic = TLS_CONNECTION_MAGIC;
    connection->server = server;
    connection->outer_fd = fd;
    connection->inner_fd = -1;
    list_init(&connection->link);
    list_init(&connection->ending_link);
    list_init(&connection->turn_link);
    err = uv_poll_init(server->loop, &connection->outer, fd);
    if (err < 0) {
        free(connection);
        return err;
    }
    connection->handles = 1;
    connection->outer.data = connection;
    server->objects++;
    format_peer(connection, address);
    connection_set_options(connection);
    connection->deadline_ms = uv_now(server->loop) + server->settings.handshake_timeout_ms;
    connection_place(connection, TLS_HANDSHAKING);
    tls_server_tick_on(server);
    if (!tls_connection_wait(connection, UV_READABLE))
        tls_connection_give_up(connection, HANDSHAKE_FAILED);
    return 0;
}
