/*
 * request.c - the pool of requests, and the functions by which handlers read a request.
 */
#include "http/request.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hex.h"
#include "http/connection.h"

enum { REQUEST_ARENA_KEEP = 64 * 1024 };

struct http_request *http_request_get(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = server->requests;

    if (request) {
        server->requests = request->next_free;
        server->request_count--;
    } else {
        request = malloc(sizeof(*request));
        if (!request)
            return NULL;
        arena_init(&request->arena, HTTP_ARENA_MAX);
    }
    /* Only what is read before it is written: the table of headers is large. */
    request->magic = REQUEST_MAGIC;
    request->connection = connection;
    request->state = REQUEST_READING;
    request->started_ns = clock_elapsed_ns();
    request->step = PARSE_START;
    request->method = 0;
    request->has_method = false;
    request->is_http_1_0 = false;
    request->header_done = false;
    request->is_looked_up = false;
    request->is_dispatched = false;
    request->is_guarded = false;
    request->expects_continue = false;
    request->is_chunked = false;
    request->is_complete = false;
    request->wants_upgrade = false;
    request->is_head = false;
    request->close = false;
    request->is_held = false;
    request->target = (struct http_span){0, 0};
    request->path = (struct http_span){0, 0};
    request->query = (struct http_span){0, 0};
    request->body = (struct http_span){0, 0};
    request->header_len = 0;
    request->content_length = 0;
    request->trailer_len = 0;
    request->header_count = 0;
    request->refuse_status = 0;
    request->refuse_message = NULL;
    request->match.resource = NULL;
    request->match.route = NULL;
    request->match.param_count = 0;
    request->user = NULL;
    request->id_len = 0;
    request->status = 0;
    request->has_retry_after = false;
    strbuf_init(&request->extra, &request->arena, HTTP_HEADER_MAX);
    request->unsent = 0;
    request->on_close = NULL;
    request->looked_ns = 0;
    request->is_unsent = false;
    request->on_unsent = NULL;
    return request;
}

void http_request_put(struct http_request *request)
{
    struct http_server *server = request->connection->server;

    MAGIC_CHECK(request, REQUEST_MAGIC);
    request->magic = 0;
    server->held -= request->is_held;
    if (server->request_count >= SERVER_POOL_MAX) {
        http_request_free(request);
        return;
    }
    arena_reset(&request->arena);
    if (request->arena.used > REQUEST_ARENA_KEEP)
        arena_release(&request->arena);
    request->next_free = server->requests;
    server->requests = request;
    server->request_count++;
}

void http_request_free(struct http_request *request)
{
    arena_release(&request->arena);
    free(request);
}

struct slice http_request_span(const struct http_request *request, struct http_span span)
{
    const struct http_connection *connection = request->connection;

    if (!connection->buffer)
        return (struct slice){"", 0};
    return (struct slice){connection->buffer + connection->start + span.at, span.len};
}

struct slice http_request_method(const struct http_request *request)
{
    return request->has_method ? slice_of(llhttp_method_name((llhttp_method_t)request->method)) : SLICE("");
}

struct slice http_request_path(const struct http_request *request)
{
    return http_request_span(request, request->path);
}

struct slice http_request_query(const struct http_request *request)
{
    return http_request_span(request, request->query);
}

struct slice http_request_target(const struct http_request *request)
{
    struct http_span target = request->path;

    /* A query never begins where the request does: there is a method before it. */
    if (request->query.at > 0)
        target.len = request->query.at + request->query.len - target.at;
    return http_request_span(request, target);
}

struct slice http_request_body(const struct http_request *request)
{
    return http_request_span(request, request->body);
}

struct slice http_request_header(const struct http_request *request, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];

        if (header->name.len == len && slice_is_word(http_request_span(request, header->name), name))
            return http_request_span(request, header->value);
    }
    return (struct slice){NULL, 0};
}

size_t http_request_header_count(const struct http_request *request)
{
    return request->header_count;
}

void http_request_header_at(const struct http_request *request, size_t index, struct slice *ret_name,
                            struct slice *ret_value)
{
    assert(index < request->header_count);
    *ret_name = http_request_span(request, request->headers[index].name);
    *ret_value = http_request_span(request, request->headers[index].value);
}

const char *http_request_param(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->match.param_count; i++)
        if (slice_equals(request->match.params[i].name, name))
            return request->match.params[i].value;
    return NULL;
}

const struct http_route *http_request_route(const struct http_request *request)
{
    return request->is_dispatched ? router_match_row(&request->match) : NULL;
}

bool http_request_was_handled(const struct http_request *request)
{
    return request->is_dispatched && request->match_err == 0;
}

const char *http_request_id(const struct http_request *request)
{
    return request->id;
}

struct arena *http_request_arena(struct http_request *request)
{
    return &request->arena;
}

void http_request_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_request_user(const struct http_request *request)
{
    return request->user;
}

const char *http_request_peer(const struct http_request *request)
{
    return request->connection->peer;
}

bool http_request_is_tls(const struct http_request *request)
{
    return request->connection->tls_fd >= 0;
}

uint64_t http_request_started_ns(const struct http_request *request)
{
    return request->started_ns;
}

bool http_request_was_held(const struct http_request *request)
{
    return request->is_held;
}

/*
 * What the client did last may be in the kernel and not read yet: its request and its end arrive together
 * when this process stood still. POLLRDHUP tells the end whatever bytes come before it.
 */
static bool connection_has_ended(const struct http_connection *connection)
{
    struct pollfd sockets[2] = {{.events = POLLRDHUP}, {.fd = connection->tls_fd, .events = POLLRDHUP}};
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)connection->tcp, &fd))
        return true;
    sockets[0].fd = fd;
    /* Once the client's own socket is closed, its number may be another's; then the first one has ended, too.
     */
    return poll(sockets, connection->tls_fd >= 0 ? 2 : 1, 0) > 0;
}

bool http_request_is_abandoned(struct http_request *request)
{
    const struct http_connection *connection = request->connection;
    uint64_t now_ns;

    if (connection_is_gone(connection) || connection->has_eof)
        return true;
    /*
     * A look costs about 1 % of an allocation. A client that goes so soon after one could as well go right
     * after its answer, which nobody would see either.
     */
    now_ns = clock_elapsed_ns();
    if (now_ns - request->looked_ns < HTTP_LOOK_AGAIN_NS)
        return false;
    request->looked_ns = now_ns;
    return connection_has_ended(connection);
}

void http_request_on_unsent(struct http_request *request, void (*unsent)(void *arg), void *arg)
{
    request->on_unsent = unsent;
    request->on_unsent_arg = arg;
}

int http_request_status(const struct http_request *request)
{
    return request->status;
}

bool http_request_wants_upgrade(const struct http_request *request)
{
    return request->wants_upgrade;
}

void http_request_take_id(struct http_request *request, struct slice value)
{
    if (value.len == 0 || value.len > HTTP_REQUEST_ID_MAX)
        return;
    /* It goes into headers and logs: nothing that could end a quoted text there. */
    for (size_t i = 0; i < value.len; i++)
        if (value.data[i] <= ' ' || value.data[i] > '~' || value.data[i] == '"' || value.data[i] == '\\')
            return;
    memcpy(request->id, value.data, value.len);
    request->id[value.len] = '\0';
    request->id_len = value.len;
}

void http_request_make_id(struct http_request *request)
{
    struct http_server *server = request->connection->server;

    memcpy(request->id, server->id_prefix, SERVER_ID_PREFIX);
    hex_write(request->id + SERVER_ID_PREFIX, SERVER_ID_DIGITS, server->id_next++);
    request->id_len = SERVER_ID_PREFIX + SERVER_ID_DIGITS;
    request->id[request->id_len] = '\0';
}
