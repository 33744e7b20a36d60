/*
 * connection.c - reads requests from one client's socket, dispatches them, and sends the answers.
 *
 * It also has the buffer of the connection, its time limits, and the ways to close it.
 */
#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/evict.h"
#include "http/reserve.h"

static void connection_format_peer(struct http_connection *connection)
{
    struct sockaddr_storage address;
    int len = sizeof(address);
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;

    connection->peer[0] = '\0';
    if (uv_tcp_getpeername(connection->tcp, (struct sockaddr *)&address, &len))
        return;
    if (address.ss_family == AF_INET)
        (void)uv_ip4_name((const struct sockaddr_in *)&address, connection->peer, sizeof(connection->peer));
    else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        (void)uv_inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], connection->peer, sizeof(connection->peer));
    else
        (void)uv_ip6_name(six, connection->peer, sizeof(connection->peer));
}

struct http_connection *connection_new(struct http_server *server, uv_tcp_t *tcp, const char *peer)
{
    struct http_connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->magic = CONNECTION_MAGIC;
    connection->server = server;
    connection->tcp = tcp;
    tcp->data = connection;
    list_init(&connection->wait_link);
    list_init(&connection->ready_link);
    list_init(&connection->reserve_link);
    list_init(&connection->unsent_link);
    list_init(&connection->large_link);
    list_append(&server->all, &connection->link);
    server->objects++;
    parser_init(connection);
    if (peer)
        snprintf(connection->peer, sizeof(connection->peer), "%s", peer);
    else
        connection_format_peer(connection);
    (void)uv_tcp_nodelay(tcp, 1);
    return connection;
}

static bool connection_is_busy(const struct http_connection *connection)
{
    return connection->request && connection->request->state != REQUEST_READING;
}

static void connection_drop_buffer(struct http_connection *connection)
{
    if (!connection->buffer)
        return;
    if (connection->room == CONNECTION_BUFFER) {
        server_give_buffer(connection->server, connection->buffer);
    } else {
        connection->server->large -= connection->room;
        list_remove(&connection->large_link);
        free(connection->buffer);
    }
    connection->buffer = NULL;
    connection->room = 0;
    connection->start = 0;
    connection->parsed = 0;
    connection->len = 0;
}

static void connection_free(struct http_connection *connection)
{
    struct http_server *server = connection->server;

    assert(!connection->tcp);
    assert(!connection->request);

    connection_drop_buffer(connection);
    list_remove(&connection->link);
    list_remove(&connection->wait_link);
    list_remove(&connection->ready_link);
    list_remove(&connection->unsent_link);
    connection->magic = 0;
    free(connection);
    server_lost_object(server);
}

void connection_await(struct http_connection *connection, enum http_wait wait)
{
    struct http_server *server = connection->server;

    if (wait == WAIT_IDLE && !connection->has_asked)
        wait = WAIT_SILENT;
    if (connection->is_over_limit && (wait == WAIT_IDLE || wait == WAIT_SILENT || wait == WAIT_READ)) {
        if (connection->wait == WAIT_RESERVE)
            return; /* it has one time for everything */
        wait = WAIT_RESERVE;
    }
    list_remove(&connection->wait_link);
    list_remove(&connection->unsent_link);
    connection->wait = wait;
    if (wait == WAIT_NONE || connection_is_gone(connection))
        return;
    connection->deadline_ms = uv_now(server->loop) + server->wait_ms[wait];
    list_append(&server->waiting[wait], &connection->wait_link);
}

/*
 * The request has been answered, or never will be: tells on_done and gives it back. Returns false if the
 * connection is gone.
 */
static bool connection_finish(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    bool was_refused = request->refuse_status != 0;
    bool close = request->close;

    if (request->on_close) {
        void (*on_close)(void *arg) = TAKE(request->on_close);

        on_close(request->on_close_arg);
    }
    if (request->is_unsent && request->on_unsent)
        request->on_unsent(request->on_unsent_arg);
    if (request->state != REQUEST_READING && server->hooks.done)
        server->hooks.done(request, http_request_route(request), server->hooks.arg);
    http_request_put(request);
    connection->request = NULL;
    if (!connection->tcp) {
        connection_free(connection);
        return false;
    }
    if (connection->is_closing)
        return false;
    /* While the server leaves, the client may not know yet that this was the last answer. */
    if (close && (was_refused || connection->parsed < connection->len || server->is_leaving))
        connection_linger(connection);
    else if (close)
        connection_close(connection);
    if (close) {
        connection_drop_buffer(connection);
        return false;
    }
    connection->start = connection->parsed;
    if (connection->start == connection->len)
        connection_drop_buffer(connection);
    return true;
}

static void connection_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    struct http_request *request = connection->request;

    MAGIC_CHECK(connection, CONNECTION_MAGIC);
    connection->tcp = NULL;
    free(handle);
    server_lost_socket(connection->server, connection);
    if (!request) {
        connection_free(connection);
        return;
    }
    /* A handler that still works keeps its request; its answer will go nowhere. */
    if (request->state != REQUEST_WORKING)
        (void)connection_finish(connection);
}

static void connection_leave_lists(struct http_connection *connection)
{
    connection->is_closing = true;
    if (connection->request)
        http_response_settle(connection->request);
    list_remove(&connection->wait_link);
    list_remove(&connection->ready_link);
    list_remove(&connection->unsent_link);
}

void connection_close(struct http_connection *connection)
{
    if (connection_is_gone(connection))
        return;
    connection_leave_lists(connection);
    uv_close((uv_handle_t *)connection->tcp, connection_closed);
}

void connection_reset(struct http_connection *connection)
{
    if (connection_is_gone(connection))
        return;
    connection_leave_lists(connection);
    if (uv_tcp_close_reset(connection->tcp, connection_closed))
        uv_close((uv_handle_t *)connection->tcp, connection_closed);
}

static void connection_shut(uv_shutdown_t *shutdown, int status UNUSED)
{
    free(shutdown);
}

void connection_linger(struct http_connection *connection)
{
    uv_shutdown_t *shutdown;

    if (connection_is_gone(connection))
        return;
    shutdown = connection->has_eof ? NULL : malloc(sizeof(*shutdown));
    if (!shutdown) {
        connection_close(connection);
        return;
    }
    connection->is_lingering = true;
    if (uv_shutdown(shutdown, (uv_stream_t *)connection->tcp, connection_shut)) {
        free(shutdown);
        connection_close(connection);
        return;
    }
    connection_await(connection, WAIT_LINGER);
    if (connection->is_paused)
        connection_start(connection);
}

static enum router_method connection_method(const struct http_request *request)
{
    if (request->method == HTTP_POST)
        return ROUTER_POST;
    if (request->method == HTTP_GET)
        return ROUTER_GET;
    return router_method_of(llhttp_method_name((llhttp_method_t)request->method));
}

/* Finds the route, once the header is there. */
static void connection_look_up(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    struct slice path;

    if (!request->header_done || request->is_looked_up)
        return;
    request->is_looked_up = true;
    path = http_request_path(request);
    if (request->method == HTTP_CONNECT || path.len == 0 || path.data[0] != '/') {
        /* A proxy's request, or one for the server as a whole: nothing here answers those. */
        request->match.allowed = connection->server->router.methods;
        request->match_err = -ENOTSUP;
        return;
    }
    request->match_err = router_find(&connection->server->router, connection_method(request), path,
                                     &request->arena, &request->match);
}

/* Gives the request to its handler, or answers it when there is none. */
static void connection_dispatch(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    const struct router_route *route = request->match.route;
    char allow[ROUTER_ALLOW_MAX];

    assert(request->is_looked_up);
    request->state = REQUEST_WORKING;
    request->is_dispatched = true;
    if (request->id_len == 0)
        http_request_make_id(request);
    switch (request->match_err) {
    case 0:
        if (!server->hooks.admit || server->hooks.admit(request, route->row, server->hooks.arg))
            route->row->handler(request, route->arg);
        break;
    case -ENOENT:
        http_respond_error(request, 404, "no such path");
        break;
    case -ENOTSUP:
        if (!request->match.resource)
            request->close = true;
        router_format_allow(request->match.allowed, allow);
        http_response_header(request, "Allow", allow);
        http_respond_error(request, 405, "method not allowed");
        break;
    case -EINVAL:
        http_respond_error(request, 400, "malformed path");
        break;
    default:
        http_respond_error(request, 503, "out of memory");
        break;
    }
}

/*
 * The row that the guard gets. CONNECT is never routed, but a path in it is guarded as with any
 * other method.
 */
static const struct http_route *connection_guarded_row(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    struct slice path = http_request_path(request);
    struct router_match match = request->match;

    if (request->method == HTTP_CONNECT && path.len > 0 && path.data[0] == '/')
        (void)!router_find(&connection->server->router, ROUTER_OTHER, path, &request->arena, &match);
    return router_match_row(&match);
}

/*
 * Asks the guard, once the header is there. False: it said no, and the request has been answered. Then a body
 * that is still on its way ends the connection, because nobody is going to read it.
 */
static bool connection_guard(struct http_connection *connection)
{
    const struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    const char *error = NULL;
    int status;

    if (!server->hooks.guard || !request->header_done || request->is_guarded)
        return true;
    request->is_guarded = true;
    status = server->hooks.guard(request, connection_guarded_row(connection), server->hooks.arg, &error);
    if (status == 0)
        return true;
    assert(error);
    if (!request->is_complete) {
        http_refuse(request, status, error);
        return false;
    }
    request->state = REQUEST_WORKING;
    if (request->id_len == 0)
        http_request_make_id(request);
    http_respond_error(request, status, error);
    return false;
}

static void connection_ask_for_body(struct http_connection *connection)
{
    static const uv_buf_t go_on = {.base = (char *)(uintptr_t) "HTTP/1.1 100 Continue\r\n\r\n", .len = 25};

    connection->request->expects_continue = false;
    connection_send(connection, &go_on, 1);
}

/* What the connection waits for, now that nothing more can be done. */
static void connection_settle(struct http_connection *connection, bool header_was_done)
{
    struct http_request *request = connection->request;

    if (connection_is_busy(connection)) {
        /* The buffer must not move under the handler's feet: when it is full, the client has to wait. */
        if (connection->len == connection->room && !connection->is_paused) {
            connection->is_paused = true;
            (void)uv_read_stop((uv_stream_t *)connection->tcp);
        }
        if (request->state == REQUEST_WORKING)
            connection_await(connection, WAIT_NONE);
        return;
    }
    if (connection->has_eof || (!request && connection->server->is_draining)) {
        connection_close(connection);
        return;
    }
    if (connection->is_paused)
        connection_start(connection);
    if (!request)
        connection_await(connection, WAIT_IDLE);
    else if (connection->wait != WAIT_READ || request->header_done != header_was_done)
        connection_await(connection, WAIT_READ); /* the body gets as long again as the header */
}

/* Parses and dispatches until the client owes something or a handler does. Must be its caller's last act. */
static void connection_process(struct http_connection *connection)
{
    bool header_was_done = connection->request && connection->request->header_done;
    unsigned answered = 0;

    assert(!connection->is_processing);
    evict_note_read(connection);
    connection->is_processing = true;
    while (!connection_is_busy(connection) && connection->parsed < connection->len) {
        struct http_request *request = connection->request;
        int rc;

        if (!request) {
            request = connection->request = http_request_get(connection);
            connection->has_asked = true;
            header_was_done = false;
        }
        if (!request) {
            connection_close(connection);
            break;
        }
        rc = parser_run(connection);
        if (connection->is_closing)
            break;
        if (rc >= 0)
            connection_look_up(connection);
        if (rc < 0)
            http_refuse(request, request->refuse_status, request->refuse_message);
        else if (reserve_admits(connection) && connection_guard(connection) && rc > 0)
            connection_dispatch(connection);
        else if (request->state == REQUEST_READING && request->expects_continue)
            connection_ask_for_body(connection);
        if (request->state != REQUEST_SENT && request->state != REQUEST_UPGRADED)
            break;
        connection->is_processing = false;
        if (!connection_finish(connection))
            return;
        connection->wait = WAIT_NONE; /* the next request, if its start is here already, gets its full time */
        /* A client that sends many requests ahead must not keep the others waiting until all are answered. */
        if (++answered == CONNECTION_AHEAD_MAX && connection->parsed < connection->len) {
            connection_await(connection, WAIT_NONE);
            server_make_ready(connection->server, connection);
            return;
        }
        connection->is_processing = true;
    }
    connection->is_processing = false;
    if (!connection->is_closing)
        connection_settle(connection, header_was_done);
}

void connection_answered(struct http_connection *connection)
{
    assert(!connection->is_processing);
    assert(connection->request->state == REQUEST_SENT);

    if (!connection_finish(connection))
        return;
    if (connection->parsed < connection->len || connection->has_eof)
        server_make_ready(connection->server, connection);
    else
        connection_settle(connection, false);
}

void connection_resume(struct http_connection *connection)
{
    struct http_request *request = connection->request;

    if (!connection->tcp) {
        (void)connection_finish(connection);
        return;
    }
    if (request && request->state == REQUEST_ENDING) {
        if (connection->writes > 0)
            return; /* the last of them comes back here */
        request->state = REQUEST_SENT;
    }
    if (request && request->state == REQUEST_SENT && !connection_finish(connection))
        return;
    connection_process(connection);
}

/*
 * How large the next buffer is. It follows what has come, not what was announced: announcing is free. It has
 * no more room than the request needs, and a rest that is small goes in at once.
 */
static size_t connection_next_room(const struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    size_t room = connection->room * 2;
    size_t whole = CONNECTION_BUFFER_MAX;

    if (request && request->header_done && !request->is_chunked)
        whole = request->header_len + request->content_length + 1;
    if (whole <= connection->room)
        return connection->room;
    return min_u64(whole <= room + room / 4 ? whole : room, CONNECTION_BUFFER_MAX);
}

/* NULL: then reading goes on as long as there is room, and fails with UV_ENOBUFS after that. */
static char *connection_take_large(struct http_connection *connection, size_t wanted)
{
    struct http_server *server = connection->server;

    if (server->large + wanted > HTTP_LARGE_MAX)
        evict_large(connection, wanted);
    return server->large + wanted <= HTTP_LARGE_MAX ? malloc(wanted) : NULL;
}

/*
 * Room for more of a request that is being read: moves it to the front, or into a larger buffer. The checks
 * of the parser keep every request below CONNECTION_BUFFER_MAX.
 */
static void connection_grow(struct http_connection *connection)
{
    size_t used = connection->len - connection->start;
    size_t parsed = connection->parsed - connection->start;
    size_t wanted = connection_next_room(connection);
    char *larger = NULL;

    if (connection->room - connection->len >= CONNECTION_BUFFER / 8)
        return;
    if (used + CONNECTION_BUFFER / 2 > connection->room && wanted > connection->room)
        larger = connection_take_large(connection, wanted);
    if (larger) {
        memcpy(larger, connection->buffer + connection->start, used);
        connection_drop_buffer(connection);
        connection->buffer = larger;
        connection->room = wanted;
        connection->server->large += wanted;
        list_append(&connection->server->large_ones, &connection->large_link);
    } else {
        memmove(connection->buffer, connection->buffer + connection->start, used);
    }
    connection->start = 0;
    connection->parsed = parsed;
    connection->len = used;
}

static void connection_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct http_connection *connection = handle->data;

    MAGIC_CHECK(connection, CONNECTION_MAGIC);
    if (connection->is_lingering) {
        *ret_buf = uv_buf_init(connection->server->scratch, SERVER_SCRATCH);
        return;
    }
    if (!connection->buffer) {
        connection->buffer = server_take_buffer(connection->server);
        connection->room = connection->buffer ? CONNECTION_BUFFER : 0;
    } else if (!connection_is_busy(connection)) {
        connection_grow(connection);
    }
    *ret_buf = uv_buf_init(connection->buffer ? connection->buffer + connection->len : NULL,
                           (unsigned)(connection->room - connection->len));
}

static void connection_read_failed(struct http_connection *connection, ssize_t error)
{
    struct http_request *request = connection->request;

    bool is_owed = !list_is_empty(&connection->ready_link) ||
                   (request && (request->state == REQUEST_WORKING || request->state == REQUEST_WRITING ||
                                request->state == REQUEST_ENDING));

    /*
     * A client that sends nothing more may still want its answer; but a stream would have no end.
     */
    if (error == UV_EOF && is_owed) {
        connection->has_eof = true;
        return;
    }
    if (error == UV_ENOBUFS && connection->buffer && request && request->state == REQUEST_READING)
        connection_refuse(connection, 503, "too many large requests at once");
    else
        connection_close(connection);
}

static void connection_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf UNUSED)
{
    struct http_connection *connection = stream->data;

    MAGIC_CHECK(connection, CONNECTION_MAGIC);
    if (count <= 0) {
        if (connection->len == 0 && !connection->request)
            connection_drop_buffer(connection);
        if (count < 0)
            connection_read_failed(connection, count);
        return;
    }
    if (connection->is_lingering) {
        connection->discarded += (size_t)count;
        if (connection->discarded > CONNECTION_DISCARD_MAX)
            connection_close(connection);
        return;
    }
    connection->len += (size_t)count;
    if (connection_is_busy(connection) || !list_is_empty(&connection->ready_link)) {
        /* It waits its turn. */
        if (connection->len == connection->room) {
            connection->is_paused = true;
            (void)uv_read_stop(stream);
        }
        return;
    }
    connection_process(connection);
}

void connection_hurry(struct http_connection *connection)
{
    uv_stream_t *stream = (uv_stream_t *)connection->tcp;
    ssize_t count;
    uv_os_fd_t fd;
    uv_buf_t buf;

    if (uv_fileno((uv_handle_t *)stream, &fd))
        return;
    connection_alloc((uv_handle_t *)stream, 0, &buf);
    if (buf.len == 0)
        return;
    count = recv(fd, buf.base, buf.len, MSG_DONTWAIT);
    /* 0 is libuv's way to say that there was nothing. */
    connection_read(stream, count > 0 ? count : count == 0 ? UV_EOF : 0, &buf);
}

void connection_refuse(struct http_connection *connection, int status, const char *message)
{
    struct http_request *request = connection->request;

    if (!request)
        request = connection->request = http_request_get(connection);
    if (!request) {
        connection_close(connection);
        return;
    }
    list_remove(&connection->wait_link);
    connection->wait = WAIT_NONE;
    connection->is_processing = true;
    http_refuse(request, status, message);
    connection->is_processing = false;
    if (request->state == REQUEST_SENT)
        (void)connection_finish(connection);
}

void connection_start(struct http_connection *connection)
{
    connection->is_paused = false;
    if (uv_read_start((uv_stream_t *)connection->tcp, connection_alloc, connection_read))
        connection_close(connection);
}

void connection_expire(struct http_connection *connection)
{
    struct http_request *request = connection->request;

    switch (connection->wait) {
    case WAIT_READ:
        assert(request && request->state == REQUEST_READING);
        connection_refuse(connection, 408,
                          request->header_done ? "the body took too long" : "the header took too long");
        break;
    case WAIT_RESERVE:
        reserve_expire(connection);
        break;
    case WAIT_WRITE:
        connection_reset(connection);
        break;
    default:
        connection_close(connection);
        break;
    }
}

static bool connection_is_between(const struct http_connection *connection)
{
    return !connection_is_gone(connection) && !connection->request && !connection->is_lingering &&
           connection->len == connection->parsed;
}

void connection_drain(struct http_connection *connection)
{
    /* A request may be in the kernel already: closing would lose it. */
    if (connection_is_between(connection) && !connection->has_eof)
        connection_hurry(connection);
    if (!connection_is_between(connection))
        return;
    /* Whoever has connected a moment ago did so to ask something. */
    if (connection->has_asked || connection->has_eof)
        connection_close(connection);
    else
        connection_await(connection, WAIT_FIRST);
}

struct connection_write {
    uv_write_t write;
    char data[];
};

static void connection_sent(uv_write_t *write, int status)
{
    struct http_connection *connection = write->data;
    struct http_request *request = connection->request;
    bool is_stream = request && (request->state == REQUEST_STREAMING || request->state == REQUEST_ENDING);

    MAGIC_CHECK(connection, CONNECTION_MAGIC);
    free(CONTAINER_OF(write, struct connection_write, write));
    assert(connection->writes > 0);
    connection->writes--;
    if (connection_is_gone(connection))
        return;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    if (is_stream)
        connection_await(connection, connection->writes > 0 ? WAIT_WRITE : WAIT_NONE);
    if (is_stream && request->state == REQUEST_ENDING)
        server_make_ready(connection->server, connection);
}

void connection_send(struct http_connection *connection, const uv_buf_t *bufs, unsigned count)
{
    uv_stream_t *stream = (uv_stream_t *)connection->tcp;
    struct connection_write *waiting;
    size_t total = 0;
    size_t skip;
    size_t at = 0;
    uv_buf_t rest;
    int taken;

    if (connection_is_gone(connection))
        return;
    for (unsigned i = 0; i < count; i++)
        total += bufs[i].len;
    taken = uv_try_write(stream, bufs, count);
    if (taken < 0 && taken != UV_EAGAIN) {
        connection_close(connection);
        return;
    }
    skip = taken > 0 ? (size_t)taken : 0;
    if (skip == total)
        return;
    waiting = malloc(sizeof(*waiting) + total - skip);
    if (!waiting) {
        connection_close(connection);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        size_t off = min_u64(skip, bufs[i].len);

        memcpy(waiting->data + at, bufs[i].base + off, bufs[i].len - off);
        at += bufs[i].len - off;
        skip -= off;
    }
    waiting->write.data = connection;
    rest = uv_buf_init(waiting->data, (unsigned)at);
    if (uv_write(&waiting->write, stream, &rest, 1, connection_sent)) {
        free(waiting);
        connection_close(connection);
        return;
    }
    connection->writes++;
    if (connection->request && connection->request->state == REQUEST_STREAMING && connection->writes == 1)
        connection_await(connection, WAIT_WRITE);
}
