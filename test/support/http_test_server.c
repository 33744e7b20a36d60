/*
 * http_test_server.c - a server with one handler for each thing that src/http can do, for
 * test/functional/test_http_server.py and for measuring the bare server.
 *
 * http-test-server READ_MS WRITE_MS IDLE_MS MAX_CONNECTIONS: prints its port. SIGTERM drains and then ends
 * it; a second one ends it at once.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "http/form.h"
#include "http/http.h"
#include "put_slice.h"

struct test_server {
    uv_loop_t loop;
    struct http_server *http;
    uv_signal_t signal;
    uv_timer_t timer;
    uint64_t done;
    uint64_t gone; /* requests whose client had left */
    uint64_t streams_closed;
    uint64_t stream_agains;
    bool is_stopping;
    bool is_closed;
};

static uint64_t query_number(struct http_request *request, const char *name, uint64_t fallback)
{
    struct form form;
    const char *text;

    if (form_parse(http_request_arena(request), http_request_query(request), &form))
        return fallback;
    text = form_get(&form, name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static void handle_echo(struct http_request *request, void *arg UNUSED)
{
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(request), HTTP_ARENA_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    put_slice(&json, "method", http_request_method(request));
    put_slice(&json, "path", http_request_path(request));
    put_slice(&json, "query", http_request_query(request));
    put_slice(&json, "x_echo", http_request_header(request, "x-echo"));
    put_slice(&json, "host", http_request_header(request, "host"));
    put_slice(&json, "body", http_request_body(request));
    json_put_string(&json, "route", http_request_route(request)->pattern);
    json_put_string(&json, "id", http_request_param(request, "id"));
    json_put_string(&json, "part", http_request_param(request, "part"));
    json_put_string(&json, "rest", http_request_param(request, "rest"));
    json_put_string(&json, "peer", http_request_peer(request));
    json_put_bool(&json, "wants_upgrade", http_request_wants_upgrade(request));
    json_object_end(&json);
    http_response_header(request, "X-Route", http_request_route(request)->pattern);
    http_respond(request, 200, "application/json", strbuf_slice(&buf));
}

static void handle_tiny(struct http_request *request, void *arg UNUSED)
{
    http_respond(request, 200, "application/json",
                 SLICE("{\"success\":true,\"pod_name\":\"voice-agent-0\",\"was_existing\":false}"));
}

static void handle_status(struct http_request *request, void *arg UNUSED)
{
    int status = (int)query_number(request, "code", 200);

    if (query_number(request, "retry", 0))
        http_response_header(request, "retry-after", "7");
    http_response_header(request, "X-Odd", "a\r\nX-Injected: b");
    if (status >= 400)
        http_respond_error(request, status, "told to \"fail\"");
    else
        http_respond(request, status, "text/plain", SLICE("told to"));
}

static void handle_large(struct http_request *request, void *arg UNUSED)
{
    size_t bytes = (size_t)query_number(request, "bytes", 1000);
    char *body = arena_alloc(http_request_arena(request), bytes + 1);

    if (!body) {
        http_respond_error(request, 500, "no memory");
        return;
    }
    memset(body, 'x', bytes);
    http_respond(request, 200, "text/plain", (struct slice){body, bytes});
}

struct later {
    uv_timer_t timer;
    struct http_request *request;
    struct test_server *server;
    uint64_t chunks;
    size_t size;
    bool is_closed;
};

static void later_freed(uv_handle_t *handle)
{
    free(CONTAINER_OF((uv_timer_t *)handle, struct later, timer));
}

static struct later *later_new(struct http_request *request, struct test_server *server)
{
    struct later *later = calloc(1, sizeof(*later));

    assert(later);
    uv_timer_init(&server->loop, &later->timer);
    later->timer.data = later;
    later->request = request;
    later->server = server;
    return later;
}

static void delay_over(uv_timer_t *timer)
{
    struct later *later = timer->data;

    uv_close((uv_handle_t *)timer, later_freed);
    handle_echo(later->request, NULL);
}

static void handle_delay(struct http_request *request, void *arg)
{
    struct later *later = later_new(request, arg);

    uv_timer_start(&later->timer, delay_over, query_number(request, "ms", 10), 0);
}

static void wait_look(uv_timer_t *timer)
{
    struct later *later = timer->data;

    if (http_request_is_abandoned(later->request))
        delay_over(timer);
}

/* Is at it until its client has gone. */
static void handle_wait(struct http_request *request, void *arg)
{
    struct later *later = later_new(request, arg);

    uv_timer_start(&later->timer, wait_look, 5, 5);
}

static void stream_closed(void *arg)
{
    struct later *later = arg;

    assert(!later->is_closed);
    later->is_closed = true;
    later->server->streams_closed++;
    uv_close((uv_handle_t *)&later->timer, later_freed);
}

static void stream_more(uv_timer_t *timer)
{
    struct later *later = timer->data;
    static char data[64 * 1024];
    int rc = 0;

    memset(data, 's', sizeof(data));
    while (later->chunks > 0 && rc == 0) {
        rc = http_stream_write(later->request, (struct slice){data, later->size});
        later->chunks -= rc == 0;
        later->server->stream_agains += rc == -EAGAIN;
    }
    if (rc == 0) {
        http_stream_end(later->request, SLICE(""));
        uv_timer_stop(timer);
    }
}

/* Tries again every few milliseconds when the client reads too slowly. */
static void handle_stream(struct http_request *request, void *arg)
{
    struct later *later;

    if (!http_request_hold(request))
        return;
    later = later_new(request, arg);
    later->chunks = query_number(request, "chunks", 3);
    later->size = (size_t)query_number(request, "size", 10);
    http_stream_begin(request, 200, "text/plain", stream_closed, later);
    uv_timer_start(&later->timer, stream_more, query_number(request, "ms", 0), 5);
}

struct echo_write {
    uv_write_t write;
    char data[];
};

static void upgraded_freed(uv_handle_t *handle)
{
    free(handle);
}

static void upgraded_sent(uv_write_t *write, int status UNUSED)
{
    free(CONTAINER_OF(write, struct echo_write, write));
}

static void upgraded_send(uv_stream_t *stream, const char *data, size_t len)
{
    struct echo_write *echo = malloc(sizeof(*echo) + len);
    uv_buf_t buf;

    assert(echo);
    memcpy(echo->data, data, len);
    buf = uv_buf_init(echo->data, (unsigned)len);
    if (uv_write(&echo->write, stream, &buf, 1, upgraded_sent))
        free(echo);
}

static void upgraded_alloc(uv_handle_t *handle UNUSED, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    static char memory[4096];

    *ret_buf = uv_buf_init(memory, sizeof(memory));
}

static void upgraded_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    if (count > 0)
        upgraded_send(stream, buf->base, (size_t)count);
    else if (count < 0)
        uv_close((uv_handle_t *)stream, upgraded_freed);
}

static void upgrade_now(struct http_request *request)
{
    static const char answer[] =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n";
    uv_tcp_t *tcp;
    struct slice early;

    if (http_upgrade(request, &tcp, &early)) {
        http_respond_error(request, 500, "no upgrade");
        return;
    }
    upgraded_send((uv_stream_t *)tcp, answer, sizeof(answer) - 1);
    if (early.len > 0)
        upgraded_send((uv_stream_t *)tcp, early.data, early.len);
    uv_read_start((uv_stream_t *)tcp, upgraded_alloc, upgraded_read);
}

static void upgrade_later(uv_timer_t *timer)
{
    struct later *later = timer->data;

    uv_close((uv_handle_t *)timer, later_freed);
    upgrade_now(later->request);
}

static void handle_upgrade(struct http_request *request, void *arg)
{
    uint64_t ms = query_number(request, "ms", 0);

    if (!http_request_wants_upgrade(request)) {
        http_respond_error(request, 426, "upgrade, please");
    } else if (ms == 0) {
        upgrade_now(request);
    } else {
        struct later *later = later_new(request, arg);

        uv_timer_start(&later->timer, upgrade_later, ms, 0);
    }
}

static void handle_stats(struct http_request *request, void *arg)
{
    struct test_server *server = arg;
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(request), 4096);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_u64(&json, "connections", http_server_connections(server->http));
    json_put_u64(&json, "evicted", http_server_evicted(server->http));
    json_put_u64(&json, "refused", http_server_refused(server->http));
    json_put_u64(&json, "done", server->done);
    json_put_u64(&json, "gone", server->gone);
    json_put_u64(&json, "streams_closed", server->streams_closed);
    json_put_u64(&json, "stream_agains", server->stream_agains);
    json_object_end(&json);
    http_respond(request, 200, "application/json", strbuf_slice(&buf));
}

static void on_done(struct http_request *request, const struct http_route *route UNUSED, void *arg)
{
    struct test_server *server = arg;

    server->done++;
    server->gone += http_request_status(request) == 0;
}

static void on_closed(void *arg)
{
    struct test_server *server = arg;

    assert(!server->is_closed);
    server->is_closed = true;
}

static void close_all(struct test_server *server)
{
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->signal, NULL);
    http_server_close(server->http, on_closed, server);
}

static void look_if_drained(uv_timer_t *timer)
{
    struct test_server *server = timer->data;

    if (http_server_connections(server->http) == 0)
        close_all(server);
}

static void on_signal(uv_signal_t *handle, int number UNUSED)
{
    struct test_server *server = handle->data;

    if (server->is_stopping) {
        close_all(server);
        return;
    }
    server->is_stopping = true;
    http_server_drain(server->http);
    uv_timer_start(&server->timer, look_if_drained, 0, 10);
}

static void add_routes(struct test_server *server)
{
    static const struct http_route routes[] = {
        {"GET", "/", handle_echo},
        {"GET", "/echo", handle_echo},
        {"POST", "/echo", handle_echo},
        {"PUT", "/echo", handle_echo},
        {"DELETE", "/items/{id}", handle_echo},
        {"GET", "/items/{id}", handle_echo},
        {"POST", "/items/{id}/parts/{part}", handle_echo},
        {"GET", "/files/{id}/{rest...}", handle_echo},
        {"GET", "/tiny", handle_tiny},
        {"POST", "/tiny", handle_tiny},
        {"GET", "/status", handle_status},
        {"GET", "/large", handle_large},
        {"GET", "/delay", handle_delay},
        {"POST", "/delay", handle_delay},
        {"GET", "/stream", handle_stream},
        {"GET", "/wait", handle_wait},
        {"GET", "/upgrade", handle_upgrade},
        {"GET", "/stats", handle_stats},
        {"GET", "/vital", handle_tiny, .is_vital = true},
        {"POST", "/vital/{id}", handle_tiny, .is_vital = true},
    };
    int rc;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        rc = http_server_route(server->http, &routes[i], server);

        assert(rc == 0);
    }
}

int main(int argc, char **argv)
{
    struct test_server server = {0};
    struct http_settings settings;
    int rc;

    if (argc != 5) {
        fprintf(stderr, "usage: %s READ_MS WRITE_MS IDLE_MS MAX_CONNECTIONS\n", argv[0]);
        return 2;
    }
    settings = (struct http_settings){
        .read_timeout_ms = strtoull(argv[1], NULL, 10),
        .write_timeout_ms = strtoull(argv[2], NULL, 10),
        .idle_timeout_ms = strtoull(argv[3], NULL, 10),
        .max_connections = strtoull(argv[4], NULL, 10),
    };
    uv_loop_init(&server.loop);
    rc = http_server_new(&server.loop, &settings, &server.http);
    assert(rc == 0);
    add_routes(&server);
    http_server_hooks(server.http, &(struct http_hooks){.done = on_done, .arg = &server});
    uv_signal_init(&server.loop, &server.signal);
    uv_timer_init(&server.loop, &server.timer);
    server.signal.data = &server;
    server.timer.data = &server;
    uv_signal_start(&server.signal, on_signal, SIGTERM);
    rc = http_server_listen(server.http, "", 0);
    if (rc) {
        fprintf(stderr, "cannot listen: %s\n", uv_strerror(rc));
        return 1;
    }
    printf("%" PRIu16 "\n", http_server_port(server.http));
    fflush(stdout);
    uv_run(&server.loop, UV_RUN_DEFAULT);
    assert(server.is_closed);
    rc = uv_loop_close(&server.loop);
    assert(rc == 0);
    log_flush();
    return 0;
}
