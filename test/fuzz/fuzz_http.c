/*
 * fuzz_http.c - whatever a client sends: through the real server and its router, on a socket pair.
 *
 * The first two bytes of an input say how the rest is cut; then come the bytes of the client. The same bytes
 * must get the same answers in one piece and in pieces, every answer must be framed and must not hold a
 * header that the client made up, and nothing may be left behind. The handlers use every accessor, and answer
 * at once, later, in a stream, or take the connection.
 */
#include <stdlib.h>

#include "../support/put_slice.h"
#include "base/log.h"
#include "client.h"
#include "fuzz.h"
#include "http/form.h"

enum {
    DIGEST_START = 5381,
    BYTES_MAX = 256, /* of what is also sent byte by byte, which takes long */
};

static struct {
    uv_loop_t loop;
    struct http_server *server;
    unsigned busy; /* what the handlers have not finished */
    unsigned done;
} world;

static void put_headers(struct json_writer *json, struct http_request *request)
{
    json_key(json, "headers");
    json_array_begin(json);
    assert(http_request_header_count(request) <= HTTP_HEADERS_MAX);
    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        assert(name.len > 0);
        for (size_t at = 0; at < name.len; at++)
            assert(name.data[at] > ' ' && name.data[at] != 127 && name.data[at] != ':');
        for (size_t at = 0; at < value.len; at++)
            assert(value.data[at] != '\r' && value.data[at] != '\n' && value.data[at] != '\0');
        json_slice(json, name);
        json_slice(json, value);
    }
    json_array_end(json);
}

static struct slice describe(struct http_request *request)
{
    struct json_writer json;
    struct strbuf buf;
    struct form form;

    assert(http_request_path(request).len > 0 && http_request_path(request).data[0] == '/');
    assert(http_request_path(request).len + http_request_query(request).len < HTTP_HEADER_MAX);
    assert(http_request_body(request).len <= HTTP_BODY_MAX);
    assert(http_request_id(request)[0] && strlen(http_request_id(request)) <= HTTP_REQUEST_ID_MAX);
    strbuf_init(&buf, http_request_arena(request), 1024 * 1024);
    json_begin(&json, &buf);
    json_object_begin(&json);
    put_slice(&json, "method", http_request_method(request));
    put_slice(&json, "path", http_request_path(request));
    put_slice(&json, "query", http_request_query(request));
    put_slice(&json, "host", http_request_header(request, "host"));
    put_slice(&json, "body", http_request_body(request));
    put_headers(&json, request);
    json_put_string(&json, "route", http_request_route(request)->pattern);
    json_put_string(&json, "id", http_request_param(request, "id"));
    json_put_string(&json, "rest", http_request_param(request, "rest"));
    json_put_string(&json, "none", http_request_param(request, "none"));
    json_put_string(&json, "peer", http_request_peer(request));
    json_put_bool(&json, "is_tls", http_request_is_tls(request));
    json_put_bool(&json, "wants_upgrade", http_request_wants_upgrade(request));
    if (form_parse(http_request_arena(request), http_request_query(request), &form) == 0)
        json_put_string(&json, "q", form_get(&form, "q"));
    json_object_end(&json);
    assert(!strbuf_failed(&buf));
    assert(json_is_valid(strbuf_slice(&buf)) || memmem(buf.data, buf.len, "\\u0000", 6));
    return strbuf_slice(&buf);
}

static void handle_echo(struct http_request *request, void *arg UNUSED)
{
    struct slice odd = http_request_header(request, "x-odd");
    char *copy = arena_copy(http_request_arena(request), odd.data ? odd.data : "", odd.len);

    assert(copy);
    http_response_header(request, "X-Odd", copy);
    http_respond(request, 200, "application/json", describe(request));
}

static void handle_fail(struct http_request *request, void *arg UNUSED)
{
    struct slice text = describe(request);

    http_respond_error(request, 409, arena_copy(http_request_arena(request), text.data, text.len));
}

struct later {
    uv_timer_t timer;
    struct http_request *request;
    unsigned left; /* chunks */
};

static void later_freed(uv_handle_t *handle)
{
    free(CONTAINER_OF((uv_timer_t *)handle, struct later, timer));
    world.busy--;
}

static struct later *later_new(struct http_request *request, uv_timer_cb fn)
{
    struct later *later = calloc(1, sizeof(*later));

    assert(later);
    uv_timer_init(&world.loop, &later->timer);
    later->timer.data = later;
    later->request = request;
    uv_timer_start(&later->timer, fn, 0, 1);
    world.busy++;
    return later;
}

static void answer_now(uv_timer_t *timer)
{
    struct later *later = timer->data;

    uv_close((uv_handle_t *)timer, later_freed);
    handle_echo(later->request, NULL);
}

static void handle_later(struct http_request *request, void *arg UNUSED)
{
    (void)later_new(request, answer_now);
}

static void stream_closed(void *arg)
{
    struct later *later = arg;

    uv_close((uv_handle_t *)&later->timer, later_freed);
}

static void stream_more(uv_timer_t *timer)
{
    struct later *later = timer->data;

    if (later->left > 0 && http_stream_write(later->request, http_request_path(later->request)) == 0)
        later->left--;
    if (later->left == 0) {
        uv_timer_stop(timer);
        http_stream_end(later->request, SLICE(""));
    }
}

static void handle_stream(struct http_request *request, void *arg UNUSED)
{
    struct later *later;

    if (!http_request_hold(request))
        return;
    later = later_new(request, stream_more);
    later->left = 3;
    http_stream_begin(request, 200, "text/plain", stream_closed, later);
}

static void upgraded_freed(uv_handle_t *handle)
{
    free(handle);
    world.busy--;
}

static void upgraded_alloc(uv_handle_t *handle UNUSED, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    static char memory[4096];

    *ret_buf = uv_buf_init(memory, sizeof(memory));
}

/* Nothing but the end is waited for; what comes is sent back. */
static void upgraded_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    if (count > 0) {
        uv_buf_t back = uv_buf_init(buf->base, (unsigned)count);

        (void)uv_try_write(stream, &back, 1);
    } else if (count < 0 && !uv_is_closing((uv_handle_t *)stream)) {
        world.busy++;
        uv_close((uv_handle_t *)stream, upgraded_freed);
    }
}

static void handle_upgrade(struct http_request *request, void *arg UNUSED)
{
    uv_buf_t agree = uv_buf_init((char[]){"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n"}, 51);
    uv_tcp_t *tcp;
    struct slice early;

    if (!http_request_wants_upgrade(request)) {
        http_respond_error(request, 426, "upgrade, please");
        return;
    }
    if (http_upgrade(request, &tcp, &early)) {
        http_respond_error(request, 500, "no upgrade");
        return;
    }
    (void)uv_try_write((uv_stream_t *)tcp, &agree, 1);
    if (early.len > 0) {
        uv_buf_t back = uv_buf_init((char *)(uintptr_t)early.data, (unsigned)early.len);

        (void)uv_try_write((uv_stream_t *)tcp, &back, 1);
    }
    uv_read_start((uv_stream_t *)tcp, upgraded_alloc, upgraded_read);
}

static void on_done(struct http_request *request, const struct http_route *route UNUSED, void *arg UNUSED)
{
    int status = http_request_status(request);

    assert(status == 0 || status == 101 || (status >= 200 && status <= 599));
    assert(http_request_id(request)[0]);
    world.done++;
}

static bool is_busy(void *arg UNUSED)
{
    return world.busy > 0;
}

static void world_init(void)
{
    static const struct http_route routes[] = {
        {"GET", "/", handle_echo},           {"GET", "/echo", handle_echo},
        {"POST", "/echo", handle_echo},      {"PUT", "/echo", handle_echo},
        {"POST", "/fail", handle_fail},      {"DELETE", "/items/{id}", handle_echo},
        {"GET", "/items/{id}", handle_echo}, {"GET", "/files/{id}/{rest...}", handle_echo},
        {"POST", "/later", handle_later},    {"GET", "/stream", handle_stream},
        {"GET", "/upgrade", handle_upgrade},
    };
    int rc;

    client_server_init(&world.loop, &world.server);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        rc = http_server_route(world.server, &routes[i], NULL);
        assert(rc == 0);
    }
    http_server_hooks(world.server, &(struct http_hooks){.done = on_done});
}

static void digest(uint64_t *sum, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        *sum = *sum * 33 + (unsigned char)text.data[i];
    *sum = *sum * 33 + 1;
}

static void check_answer(const struct client_answer *answer, uint64_t *sum)
{
    static const char *const headers[] = {"Content-Type", "Connection", "Allow", "X-Odd", "Retry-After"};

    digest(sum, (struct slice){(const char *)&answer->status, sizeof(answer->status)});
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        digest(sum, client_header(answer, headers[i]));
    digest(sum, answer->body);
    if (answer->status == 101)
        return;
    assert(client_header(answer, "Date").data && client_header(answer, "X-Request-Id").len > 0);
    assert(!client_header(answer, "X-Injected").data);
    if (answer->status >= 400 && answer->body.len > 0)
        assert(json_is_valid(answer->body) || memmem(answer->body.data, answer->body.len, "\\u0000", 6));
}

/* Talks, and sums up what was answered. */
static uint64_t run(struct slice bytes, unsigned cut)
{
    struct client client = {&world.loop, world.server, "192.0.2.7", false, is_busy, NULL};
    struct client_answer answer;
    struct strbuf buf;
    struct slice left;
    uint64_t sum = DIGEST_START;

    strbuf_init(&buf, NULL, CLIENT_ANSWER_MAX);
    client_talk(&client, bytes, cut, &buf);
    left = strbuf_slice(&buf);
    while (client_next(&left, &answer))
        check_answer(&answer, &sum);
    strbuf_release(&buf);
    assert(http_server_connections(world.server) == 0);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    unsigned cut = input_byte(&input) + 256u * input_byte(&input) + CLIENT_BYTES + 1;
    struct slice bytes = input_rest(&input);
    uint64_t whole, pieces;

    if (!world.server)
        world_init();
    whole = run(bytes, CLIENT_WHOLE);
    pieces = run(bytes, cut);
    /* Beyond that it depends on where the cut is which of two faults is seen first. */
    if (bytes.len <= HTTP_HEADER_MAX)
        assert(pieces == whole);
    if (bytes.len <= BYTES_MAX)
        assert(run(bytes, CLIENT_BYTES) == whole);
    log_flush();
    return 0;
}
