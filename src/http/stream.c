/*
 * stream.c - answers that are not one piece: streams, and connections that are handed over.
 */
#include <stdio.h>

#include "http/connection.h"

bool http_request_try_hold(struct http_request *request)
{
    struct http_server *server = request->connection->server;

    assert(request->state == REQUEST_WORKING);
    assert(!request->is_held);

    if (server->held >= server->held_max)
        return false;
    server->held++;
    request->is_held = true;
    return true;
}

bool http_request_hold(struct http_request *request)
{
    if (http_request_try_hold(request))
        return true;
    http_respond_error(request, 503, "too many requests are waiting already");
    return false;
}

void http_stream_begin(struct http_request *request, int status, const char *content_type,
                       void (*on_close)(void *arg), void *arg)
{
    struct http_connection *connection = request->connection;
    size_t head_len = 0;

    assert(request->state == REQUEST_WORKING);
    assert(request->is_held);
    assert(on_close);

    request->state = REQUEST_STREAMING;
    request->status = status;
    request->on_close = on_close;
    request->on_close_arg = arg;
    if (!connection->tcp) {
        /* The socket has closed already, so nobody else will come by. */
        request->status = 0;
        server_make_ready(connection->server, connection);
        return;
    }
    if (connection_is_gone(connection))
        return;
    if (connection->has_eof) {
        connection_close(connection);
        return;
    }
    /* Before HTTP/1.1 only the end of the connection could end a body of unknown length. */
    if (request->is_http_1_0 || connection->server->is_leaving || connection->is_over_limit)
        request->close = true;
    connection_await(connection, WAIT_NONE);
    (void)uv_tcp_keepalive(connection->tcp, 1, 60);
    if (http_response_head(request, status, content_type, -1, !request->is_http_1_0, &head_len)) {
        connection_close(connection);
    } else {
        uv_buf_t head = uv_buf_init(connection->server->scratch, (unsigned)head_len);

        connection_send(connection, &head, 1);
    }
}

static void stream_send(struct http_request *request, struct slice data)
{
    char size[24];
    int size_len = request->is_http_1_0 ? 0 : snprintf(size, sizeof(size), "%zx\r\n", data.len);
    uv_buf_t bufs[3];

    bufs[0] = uv_buf_init(size, (unsigned)size_len);
    bufs[1] = uv_buf_init((char *)(uintptr_t)data.data, (unsigned)data.len);
    bufs[2] = uv_buf_init((char *)(uintptr_t) "\r\n", request->is_http_1_0 ? 0 : 2);
    connection_send(request->connection, bufs, 3);
}

int http_stream_write(struct http_request *request, struct slice data)
{
    struct http_connection *connection = request->connection;

    assert(request->state == REQUEST_STREAMING);

    if (connection_is_gone(connection))
        return -EPIPE;
    if (data.len == 0 || request->is_head)
        return 0;
    if (uv_stream_get_write_queue_size((uv_stream_t *)connection->tcp) + data.len > HTTP_STREAM_BUFFER_MAX)
        return -EAGAIN;
    stream_send(request, data);
    return 0;
}

void http_stream_end(struct http_request *request, struct slice last)
{
    struct http_connection *connection = request->connection;
    uv_buf_t end = uv_buf_init((char *)(uintptr_t) "0\r\n\r\n", 5);

    assert(request->state == REQUEST_STREAMING);
    assert(last.len <= HTTP_STREAM_LAST_MAX);

    if (connection_is_gone(connection))
        return; /* on_close is on its way */
    if (last.len > 0 && !request->is_head)
        stream_send(request, last);
    if (connection_is_gone(connection))
        return;
    if (!request->is_http_1_0 && !request->is_head)
        connection_send(connection, &end, 1);
    if (connection_is_gone(connection))
        return;
    request->state = REQUEST_ENDING;
    if (connection->writes == 0)
        server_make_ready(connection->server, connection);
}

int http_upgrade(struct http_request *request, uv_tcp_t **ret_tcp, struct slice *ret_early)
{
    struct http_connection *connection = request->connection;
    struct slice early = {"", connection->len - connection->parsed};

    assert(request->state == REQUEST_WORKING);
    assert(request->wants_upgrade);

    if (connection_is_gone(connection) || connection->has_eof)
        return -EPIPE;
    if (early.len > 0) {
        early.data = arena_copy(&request->arena, connection->buffer + connection->parsed, early.len);
        if (!early.data)
            return -ENOMEM;
    }
    (void)uv_read_stop((uv_stream_t *)connection->tcp);
    connection->tcp->data = NULL;
    *ret_tcp = TAKE(connection->tcp);
    *ret_early = early;
    request->state = REQUEST_UPGRADED;
    request->status = 101;
    server_lost_socket(connection->server, connection);
    /* `early` is in the request's arena, so the request stays until the caller has come back to the loop. */
    if (!connection->is_processing)
        server_make_ready(connection->server, connection);
    return 0;
}
