/*
 * api.c - builds the API from its settings, adds its routes to a server, and logs and counts
 * finished requests.
 */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/log.h"

int api_new(const struct api_settings *settings, struct store *store, struct metrics *metrics,
            struct api **ret_api)
{
    struct api *api = calloc(1, sizeof(*api));
    int err;

    if (!api)
        return -ENOMEM;
    api->settings = *settings;
    api->store = store;
    api->metrics = metrics;
    api->started_ms = clock_elapsed_ms();
    err = api_set_secrets(api, (const char *const[SECRET_KINDS]){"", "", "", ""}, "");
    if (err == 0)
        err = ws_url_new(settings->ws_url_template, settings->base_url, settings->make_ticket != NULL,
                         &api->ws_url);
    if (err == 0)
        err = rate_new(settings->rate_limit ? settings->rate_limit : "", &api->rate);
    for (unsigned kind = SECRET_TWILIO; err == 0 && kind < SECRET_KINDS; kind++)
        err = over_new(&api->overs[kind]);
    if (err == 0)
        err = instruments_new(metrics, &api->instruments);
    if (err == 0)
        err = gauges_new(metrics, &api->gauges);
    if (err == 0)
        err = watchers_new(settings->loop, store, &api->watchers);
    if (err < 0) {
        api_free(api);
        return err;
    }
    *ret_api = api;
    return 0;
}

struct api *api_free(struct api *api)
{
    if (!api)
        return NULL;
    secrets_free(api->secrets);
    keys_free(api->keys);
    ws_url_free(api->ws_url);
    for (unsigned kind = 0; kind < SECRET_KINDS; kind++)
        over_free(api->overs[kind]);
    rate_free(api->rate);
    instruments_free(api->instruments);
    gauges_free(api->gauges);
    watchers_free(api->watchers);
    free(api);
    return NULL;
}

int api_set_secrets(struct api *api, const char *const texts[SECRET_KINDS], const char *api_keys)
{
    CLEANUP(keys_freep) struct keys *keys = NULL;
    struct secrets *secrets = NULL;
    char error[KEYS_ERROR_MAX];
    int err = keys_new(texts[SECRET_API_KEY], api_keys, &keys, error, sizeof(error));

    if (err == 0)
        err = secrets_new(texts, &secrets);
    if (err < 0)
        return err;
    secrets_free(api->secrets);
    keys_free(api->keys);
    api->secrets = secrets;
    api->keys = TAKE(keys);
    /* A stream of events must not outlive the key that it was opened with. */
    if (api->watchers)
        watchers_send_away(api->watchers);
    return 0;
}

void api_set_stopping(struct api *api)
{
    api->is_stopping = true;
}

void api_end_watchers(struct api *api)
{
    watchers_stop(api->watchers);
}

void api_forget_servers(struct api *api)
{
    api->server_count = 0;
}

void api_set_leader(struct api *api, bool is_leader, const char *leader)
{
    api->is_leader = is_leader;
    snprintf(api->leader, sizeof(api->leader), "%s", leader);
}

/* The server itself refuses a path whose parameter hides a NUL: its route is known, but it has no value. */
static bool has_its_parameter(const struct http_request *request, const char *pattern)
{
    const char *brace = strchr(pattern, '{');
    char name[16];

    if (!brace)
        return true;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(brace + 1, "}"), brace + 1);
    return http_request_param(request, name) != NULL;
}

/*
 * What nobody has logged yet. A handler that refuses says so itself, with the reason (api_refuse); what is
 * left is what the server refused before any handler, answers that failed, and at debug what went well.
 * A 503 is no news either: what made it so has been logged.
 */
static void api_request_log(struct http_request *request, int status)
{
    const char *pattern = http_request_route(request);
    bool is_refusal = (status >= 400 && status < 500) || status == 505;
    const struct route *any, *route;
    bool was_handled;

    if (status < 400 && !log_enabled(LOG_DEBUG))
        return;
    any = route_of_pattern(pattern);
    route = route_find(pattern, http_request_method(request));
    was_handled = route && has_its_parameter(request, pattern);
    /* Other modules log what became of their routes: they know what in a path is secret. */
    if (pattern[0] && !any)
        return;
    if (any && any->is_probe)
        api_log_request(request, status == 500 ? LOG_WARN : LOG_DEBUG, "request", status, NULL);
    else if (is_refusal && !was_handled)
        api_log_refused(request, status, NULL);
    else if (status >= 500 && status != 503 && !is_refusal)
        api_log_request(request, LOG_WARN, "request failed", status, NULL);
    else if (!is_refusal && !(was_handled && route->logs_itself && status != 0))
        api_log_request(request, LOG_DEBUG, "request", status, NULL);
}

static void api_request_done(struct http_request *request, void *arg)
{
    struct api *api = arg;
    int status = http_request_status(request);
    uint64_t duration_ns = clock_elapsed_ns() - http_request_started_ns(request);

    instruments_answered(api->instruments, http_request_route(request), http_request_method(request), status,
                         duration_ns);
    api_request_log(request, status);
}

static void api_dispatch(struct http_request *request, void *arg)
{
    const struct api_use *use = arg;

    if (!use->is_closed || api_may(use->api, request, use->route->who))
        use->route->handler(request, use->api);
}

static int api_add_route(struct api *api, struct http_server *server, const struct route *route,
                         bool is_closed)
{
    struct api_use *use = &api->uses[api->use_count];
    int err;

    assert(api->use_count < ARRAY_LEN(api->uses));
    *use = (struct api_use){.api = api, .route = route, .is_closed = is_closed};
    api->use_count++;
    err = http_server_route(server, route->method, route->pattern, api_dispatch, use);
    if (err == 0 && route->is_vital)
        err = http_server_set_vital(server, route->pattern);
    return err;
}

static int api_serve_as(struct api *api, struct http_server *server, const char *name, bool is_closed)
{
    int err = 0;

    assert(api->server_count < API_SERVERS_MAX);
    api->servers[api->server_count] = server;
    api->server_names[api->server_count] = name;
    api->server_count++;
    http_server_on_done(server, api_request_done, api);
    for (size_t i = 0; i < api_routes_count && err == 0; i++) {
        if (is_closed || api_routes[i].is_probe)
            err = api_add_route(api, server, &api_routes[i], is_closed);
    }
    return err;
}

int api_serve(struct api *api, struct http_server *server)
{
    http_server_guard(server, api_guard, api);
    return api_serve_as(api, server, "http", true);
}

int api_serve_metrics(struct api *api, struct http_server *server)
{
    return api_serve_as(api, server, "metrics", false);
}
