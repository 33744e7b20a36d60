/*
 * fake_api.c - a stand-in for the server that only remembers the answer, and a store that answers what a test
 * tells it to.
 */
#include "fake_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

int http_server_route(struct http_server *server, const struct http_route *route, void *arg)
{
    assert_true(server->count < ROUTES_MAX);
    server->routes[server->count].row = route;
    server->routes[server->count].arg = arg;
    server->count++;
    return 0;
}

/*
 * Most tests ask without a key and without a signature: see functional/test_api_key.py and
 * test_webhooks.py.
 */
void http_server_hooks(struct http_server *server, const struct http_hooks *hooks)
{
    server->hooks = *hooks;
}

void http_request_set_user(struct http_request *request UNUSED, void *user UNUSED)
{
    fail();
}

struct key *asked_with;

void *http_request_user(const struct http_request *request UNUSED)
{
    return asked_with;
}

size_t http_request_header_count(const struct http_request *request UNUSED)
{
    return 0;
}

void http_request_header_at(const struct http_request *request UNUSED, size_t index UNUSED,
                            struct slice *ret_name UNUSED, struct slice *ret_value UNUSED)
{
    fail();
}

struct slice http_request_header(const struct http_request *request UNUSED, const char *name UNUSED)
{
    return (struct slice){NULL, 0};
}

struct slice http_request_target(const struct http_request *request)
{
    return slice_of(request->path);
}

void forwarded_read(const struct trusted *trusted UNUSED, struct http_request *request UNUSED,
                    struct forwarded *ret)
{
    *ret = (struct forwarded){.host = SLICE("localhost"), .client = "127.0.0.1"};
}

size_t http_server_connections(const struct http_server *server UNUSED)
{
    return 3;
}

uint64_t http_server_evicted(const struct http_server *server UNUSED)
{
    return 5;
}

uint64_t http_server_refused(const struct http_server *server UNUSED)
{
    return 4;
}

int client_waits_for = CLIENT_STAYS;

bool http_request_is_abandoned(struct http_request *request UNUSED)
{
    if (client_waits_for == CLIENT_STAYS)
        return false;
    return client_waits_for-- == 0;
}

void http_request_on_unsent(struct http_request *request, void (*unsent)(void *arg), void *arg)
{
    request->unsent = unsent;
    request->unsent_arg = arg;
}

struct slice http_request_method(const struct http_request *request)
{
    return slice_of(request->method);
}

struct slice http_request_path(const struct http_request *request)
{
    return slice_of(request->path);
}

struct slice http_request_query(const struct http_request *request)
{
    return slice_of(request->query);
}

struct slice http_request_body(const struct http_request *request)
{
    return slice_of(request->body);
}

const char *http_request_param(const struct http_request *request, const char *name UNUSED)
{
    return request->param;
}

const struct http_route *http_request_route(const struct http_request *request)
{
    return request->route;
}

bool http_request_was_handled(const struct http_request *request)
{
    return request->was_handled;
}

const char *http_request_id(const struct http_request *request UNUSED)
{
    return "id-1";
}

struct arena *http_request_arena(struct http_request *request)
{
    return &request->arena;
}

const char *http_request_peer(const struct http_request *request UNUSED)
{
    return "127.0.0.1";
}

uint64_t http_request_started_ns(const struct http_request *request)
{
    return request->started_ns;
}

int http_request_status(const struct http_request *request)
{
    return request->status;
}

void http_response_header(struct http_request *request, const char *name, const char *value)
{
    if (strcmp(name, "Retry-After") == 0)
        snprintf(request->retry_after, sizeof(request->retry_after), "%s", value);
}

void http_respond(struct http_request *request, int status, const char *content_type, struct slice body)
{
    request->answers++;
    request->status = status;
    snprintf(request->content_type, sizeof(request->content_type), "%s", content_type);
    request->answer = arena_copy(&request->arena, body.data, body.len);
}

void http_respond_error(struct http_request *request, int status, const char *message)
{
    http_respond(request, status, "application/json", slice_of(message));
}

bool http_request_hold(struct http_request *request UNUSED)
{
    fail();
    return false;
}

bool can_hold = true;

bool http_request_try_hold(struct http_request *request)
{
    assert_false(request->is_held);
    request->is_held = can_hold;
    return can_hold;
}

bool http_request_was_held(const struct http_request *request)
{
    return request->is_held;
}

/* Streams need a loop, which this server has not: see functional/test_events.py. */
void http_stream_begin(struct http_request *request UNUSED, int status UNUSED,
                       const char *content_type UNUSED, void (*on_close)(void *arg) UNUSED, void *arg UNUSED)
{
    fail();
}

int http_stream_write(struct http_request *request UNUSED, struct slice data UNUSED)
{
    fail();
    return -EPIPE;
}

void http_stream_end(struct http_request *request UNUSED, struct slice last UNUSED)
{
    fail();
}

static int fake_execute(struct store *store, const struct command *command, struct arena *arena,
                        store_done_fn done, void *arg)
{
    struct fake_store *fake = CONTAINER_OF(store, struct fake_store, store);

    fake->command = *command;
    fake->arena = arena;
    fake->commands++;
    if (fake->refuse)
        return fake->refuse;
    fake->done = done;
    fake->arg = arg;
    return 0;
}

static void fake_health(const struct store *store, struct store_health *ret_health)
{
    const struct fake_store *fake = CONTAINER_OF(store, struct fake_store, store);

    *ret_health = (struct store_health){
        .is_ready = fake->is_ready, .name = "fake", .detail = fake->is_ready ? "" : "the disk is full"};
}

static void fake_stats(const struct store *store UNUSED, struct store_stats *ret_stats)
{
    *ret_stats = (struct store_stats){.commands = 11, .errors = 2};
}

static const struct store_ops fake_ops = {
    .execute = fake_execute, .health = fake_health, .stats = fake_stats};

const struct api_settings plain_settings = {
    .base_url = "wss://h",
    .ws_url_template = "{base}/{pod}/{provider}/{template}{flow_suffix}",
    .busy_message = "All agents are <busy>",
    .fallback_ws_url = "",
    .identity = "router-0",
};

void world_init(struct world *world, const struct api_settings *settings)
{
    memset(world, 0, sizeof(*world));
    world->fake.store.ops = &fake_ops;
    world->fake.is_ready = true;
    arena_init(&world->request.arena, HTTP_ARENA_MAX);
    assert_int_equal(metrics_new(&world->metrics), 0);
    assert_int_equal(api_new(settings, &world->fake.store, world->metrics, &world->api), 0);
    can_hold = true;
    client_waits_for = CLIENT_STAYS;
    assert_int_equal(api_serve(world->api, &world->server), 0);
}

void world_release(struct world *world)
{
    arena_release(&world->request.arena);
    api_free(world->api);
    metrics_free(world->metrics);
}

void begin_request(struct world *world, struct http_request *request, const char *method, const char *pattern,
                   const char *query, const char *body)
{
    struct arena arena = request->arena;
    size_t i = 0;

    arena_reset(&arena);
    *request = (struct http_request){.method = method,
                                     .path = pattern,
                                     .was_handled = true,
                                     .query = query ? query : "",
                                     .body = body ? body : "",
                                     .param = "x",
                                     .started_ns = clock_elapsed_ns(),
                                     .arena = arena};
    world->fake.done = NULL;
    while (i < world->server.count && (strcmp(world->server.routes[i].row->pattern, pattern) != 0 ||
                                       strcmp(world->server.routes[i].row->method, method) != 0))
        i++;
    assert_true(i < world->server.count);
    request->route = world->server.routes[i].row;
    request->route->handler(request, world->server.routes[i].arg);
    assert_true(!world->fake.done || request->answers == 0);
}

void begin(struct world *world, const char *method, const char *pattern, const char *query, const char *body)
{
    begin_request(world, &world->request, method, pattern, query, body);
}

void answer(struct world *world)
{
    store_done_fn done = world->fake.done;
    struct result *result = arena_alloc(world->fake.arena, sizeof(*result));

    assert_non_null(done);
    assert_non_null(result);
    world->fake.done = NULL;
    *result = world->fake.result;
    done(world->fake.arg, world->fake.err, world->fake.err ? NULL : result);
}

void finish(struct world *world)
{
    assert_int_equal(world->request.answers, 1);
    world->server.hooks.done(&world->request, world->request.route, world->server.hooks.arg);
}

void ask_as(struct world *world, const char *method, const char *pattern, const char *query, const char *body)
{
    begin(world, method, pattern, query, body);
    if (world->fake.done)
        answer(world);
    if (world->fake.done) /* it has asked for something more */
        answer(world);
    finish(world);
}

void ask(struct world *world, const char *pattern, const char *query, const char *body)
{
    ask_as(world, body ? "POST" : "GET", pattern, query, body);
}

static const struct http_route *first_row_of(const struct world *world, const char *pattern)
{
    for (size_t i = 0; i < world->server.count; i++) {
        if (strcmp(world->server.routes[i].row->pattern, pattern) == 0)
            return world->server.routes[i].row;
    }
    return NULL;
}

void refuse(struct world *world, const char *method, const char *pattern, int status)
{
    world->request.method = method;
    world->request.path = "/path";
    world->request.route = first_row_of(world, pattern);
    world->request.was_handled = false;
    world->request.status = status;
    world->request.started_ns = clock_elapsed_ns();
    world->server.hooks.done(&world->request, world->request.route, world->server.hooks.arg);
}

void assert_answer(const struct world *world, int status, const char *part)
{
    if (world->request.status != status || !strstr(world->request.answer, part))
        fail_msg("answered %d %s", world->request.status, world->request.answer);
}
