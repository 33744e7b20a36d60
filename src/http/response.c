/*
 * response.c - writes an answer in one piece: status line, headers, body, and errors as JSON.
 *
 * Answers in several pieces are in stream.c.
 */
#include "base/json.h"
#include "base/log.h"
#include "http/evict.h"
#include "http/status.h"

enum { UNSENT_LOG_MS = 10 * 1000 };

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

void http_response_header(struct http_request *request, const char *name, const char *value)
{
    struct strbuf *extra = &request->extra;
    size_t len = strlen(value);
    char *at;

    if (slice_is_word(slice_of(name), "retry-after"))
        request->has_retry_after = true;
    strbuf_append_str(extra, name);
    strbuf_append(extra, ": ", 2);
    at = strbuf_grow(extra, len + 2);
    if (!at)
        return;
    memcpy(at, value, len);
    /* A value that came from outside must not start a header of its own. */
    for (size_t i = 0; i < len; i++)
        if (is_control(at[i]))
            at[i] = ' ';
    at[len] = '\r';
    at[len + 1] = '\n';
    extra->len += len + 2;
}

static char *put(char *at, const char *text, size_t len)
{
    return mempcpy(at, text, len);
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static char *put_number(char *at, uint64_t number)
{
    char digits[20];
    size_t len = 0;

    do {
        digits[len++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (len > 0)
        *at++ = digits[--len];
    return at;
}

static char *put_status_line(char *at, int status)
{
    const struct http_status *known;

    if (status == 200)
        return PUT(at, "HTTP/1.1 200 OK\r\n");
    known = http_status_of(status);
    at = PUT(at, "HTTP/1.1 ");
    at = put_number(at, (uint64_t)status);
    *at++ = ' ';
    at = put(at, known->reason, strlen(known->reason));
    return PUT(at, "\r\n");
}

int http_response_head(struct http_request *request, int status, const char *content_type,
                       int64_t content_length, bool chunked, size_t *ret_len)
{
    enum { FIXED_MAX = 1024 }; /* everything but the handler's headers */
    struct http_server *server = request->connection->server;
    size_t type_len = content_type ? strlen(content_type) : 0;
    char *at = server->scratch;

    assert(type_len < 256);
    if (strbuf_failed(&request->extra) || request->extra.len + FIXED_MAX > SERVER_SCRATCH)
        return -E2BIG;
    server_refresh_date(server);
    at = put_status_line(at, status);
    at = put(at, server->date, server->date_len);
    if (content_type) {
        at = PUT(at, "Content-Type: ");
        at = put(at, content_type, type_len);
        at = PUT(at, "\r\n");
    }
    if (content_length >= 0) {
        at = PUT(at, "Content-Length: ");
        at = put_number(at, (uint64_t)content_length);
        at = PUT(at, "\r\n");
    }
    if (chunked)
        at = PUT(at, "Transfer-Encoding: chunked\r\n");
    at = PUT(at, "X-Request-Id: ");
    at = put(at, request->id, request->id_len);
    at = PUT(at, "\r\n");
    if (status == 503 && !request->has_retry_after)
        at = PUT(at, "Retry-After: 1\r\n");
    if (request->close)
        at = PUT(at, "Connection: close\r\n");
    else if (request->is_http_1_0)
        at = PUT(at, "Connection: keep-alive\r\n");
    if (request->extra.len > 0)
        at = put(at, request->extra.data, request->extra.len);
    at = PUT(at, "\r\n");
    *ret_len = (size_t)(at - server->scratch);
    return 0;
}

void http_response_settle(struct http_request *request)
{
    request->connection->server->unsent -= request->unsent;
    request->unsent = 0;
}

static void response_written(uv_write_t *write, int status)
{
    struct http_request *request = write->data;
    struct http_connection *connection = request->connection;

    MAGIC_CHECK(request, REQUEST_MAGIC);
    assert(request->state == REQUEST_WRITING);
    http_response_settle(request);
    request->state = REQUEST_SENT;
    if (status < 0)
        request->status = 0;
    /* When the connection is closing, the end of the close finishes the request. */
    if (connection_is_gone(connection))
        return;
    if (status < 0)
        connection_close(connection);
    connection_answered(connection);
}

static void response_failed(struct http_request *request)
{
    request->status = 0;
    request->state = REQUEST_SENT;
    connection_close(request->connection);
}

/* Clients that do not read must not fill the memory with their answers until their time is over. */
static void response_bound_unsent(struct http_server *server)
{
    LIST_FOR_EACH (link, &server->waiting[WAIT_WRITE]) {
        struct http_connection *oldest = LIST_ENTRY(link, struct http_connection, wait_link);

        if (server->unsent <= HTTP_UNSENT_MAX)
            return;
        if (!oldest->request || oldest->request->unsent == 0)
            continue;
        if (log_repeat_is_due(&server->unread_cut, 1, uv_now(server->loop), UNSENT_LOG_MS, NULL))
            log_warn("answers that are not read take too much memory: the oldest are cut off",
                     log_str("peer", oldest->peer), log_num("bytes", (int64_t)server->unsent));
        connection_reset(oldest);
    }
}

/* The kernel has taken `taken` bytes: the rest goes out when the client reads. */
static void response_wait(struct http_request *request, size_t head_len, struct slice body, size_t taken)
{
    struct http_connection *connection = request->connection;
    uv_buf_t rest[2];
    unsigned count = 0;

    if (taken < head_len) {
        char *copy = arena_copy(&request->arena, connection->server->scratch + taken, head_len - taken);

        if (!copy) {
            response_failed(request);
            return;
        }
        rest[count++] = uv_buf_init(copy, (unsigned)(head_len - taken));
        taken = head_len;
    }
    taken -= head_len;
    if (taken < body.len)
        rest[count++] = uv_buf_init((char *)(uintptr_t)(body.data + taken), (unsigned)(body.len - taken));
    request->write.data = request;
    if (uv_write(&request->write, (uv_stream_t *)connection->tcp, rest, count, response_written)) {
        response_failed(request);
        return;
    }
    request->state = REQUEST_WRITING;
    request->unsent = request->arena.used; /* all of it stays until the client has read the last byte */
    connection->server->unsent += request->unsent;
    connection_await(connection, WAIT_WRITE);
    evict_note_write(connection);
    response_bound_unsent(connection->server);
}

/* As uv_try_write, but send() spares what write() does for files: the way of nearly every answer. */
static int response_try(struct http_connection *connection, const uv_buf_t *bufs, unsigned count)
{
    uv_stream_t *stream = (uv_stream_t *)connection->tcp;
    uv_os_fd_t fd;
    ssize_t taken;

    if (count > 1 || uv_stream_get_write_queue_size(stream) > 0 || uv_fileno((uv_handle_t *)stream, &fd))
        return uv_try_write(stream, bufs, count);
    taken = send(fd, bufs[0].base, bufs[0].len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0)
        return errno == EINTR ? UV_EAGAIN : -errno;
    return (int)taken;
}

/* The head is in the scratch memory. A small body is copied behind it: one write costs less than two. */
static void response_write(struct http_request *request, size_t head_len, struct slice body)
{
    enum { COPY_MAX = 16 * 1024 };
    struct http_connection *connection = request->connection;
    char *scratch = connection->server->scratch;
    uv_buf_t bufs[2];
    unsigned count = 1;
    size_t total = head_len + body.len;
    int taken;

    bufs[0] = uv_buf_init(scratch, (unsigned)head_len);
    if (body.len > 0 && body.len <= COPY_MAX) {
        memcpy(scratch + head_len, body.data, body.len);
        bufs[0].len = total;
    } else if (body.len > 0) {
        bufs[count++] = uv_buf_init((char *)(uintptr_t)body.data, (unsigned)body.len);
    }
    taken = request->on_unsent && http_request_is_abandoned(request) ? UV_EPIPE
                                                                     : response_try(connection, bufs, count);
    if (taken == UV_EAGAIN)
        taken = 0;
    if (taken < 0) {
        request->is_unsent = true;
        response_failed(request);
    } else if ((size_t)taken == total) {
        request->state = REQUEST_SENT;
    } else {
        response_wait(request, head_len, body, (size_t)taken);
    }
}

/* Is there a body, as far as the framing goes? */
static bool status_has_body(int status)
{
    return status != 204 && status != 304;
}

void http_respond(struct http_request *request, int status, const char *content_type, struct slice body)
{
    struct http_connection *connection = request->connection;
    size_t head_len = 0;

    assert(request->state == REQUEST_WORKING);

    if (connection_is_gone(connection)) {
        request->status = 0;
        request->is_unsent = true;
        request->state = REQUEST_SENT;
    } else {
        request->status = status;
        if (connection->server->is_leaving || connection->is_over_limit)
            request->close = true;
        if (!status_has_body(status))
            body.len = 0;
        if (http_response_head(request, status, content_type,
                               status_has_body(status) ? (int64_t)body.len : -1, false, &head_len)) {
            response_failed(request);
        } else {
            if (request->is_head)
                body.len = 0;
            response_write(request, head_len, body);
        }
    }
    if (request->state == REQUEST_SENT && !connection->is_processing)
        connection_answered(connection);
}

void http_respond_error(struct http_request *request, int status, const char *message)
{
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, &request->arena, 16 * 1024);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_bool(&json, "success", false);
    json_put_string(&json, "error", message);
    json_put_string(&json, "code", http_status_of(status)->code);
    json_object_end(&json);
    http_respond(request, status, "application/json",
                 strbuf_failed(&buf) ? SLICE("{\"success\":false}") : strbuf_slice(&buf));
}

void http_refuse(struct http_request *request, int status, const char *message)
{
    assert(request->state == REQUEST_READING);

    request->state = REQUEST_WORKING;
    request->refuse_status = status;
    request->close = true;
    if (request->id_len == 0)
        http_request_make_id(request);
    http_respond_error(request, status, message);
}
