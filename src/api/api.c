#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "base/clock.h"
#include "base/log.h"

struct route {
    const char *method;
    const char *pattern;
    http_handler_fn handler;
    /* Its continuation logs what it did, so the request needs no line of its own. */
    bool logs_itself;
    bool is_vital; /* answered even when all connections are taken */
};

static const struct route probe_routes[] = {
    {"GET", "/health", api_health, .is_vital = true},
    {"GET", "/api/v1/health", api_health, .is_vital = true},
    {"GET", "/ready", api_ready, .is_vital = true},
    {"GET", "/api/v1/ready", api_ready, .is_vital = true},
    {"GET", "/metrics", api_metrics},
};

static const struct route api_routes[] = {
    {"POST", "/api/v1/allocate", api_allocate, true},
    {"POST", "/api/v1/release", api_release, true},
    {"POST", "/api/v1/twilio/allocate", api_twilio, true},
    {"GET", "/api/v1/twilio/allocate", api_twilio, true},
    {"POST", "/api/v1/plivo/allocate", api_plivo, true},
    {"GET", "/api/v1/plivo/allocate", api_plivo, true},
    {"POST", "/api/v1/exotel/allocate", api_exotel, true},
    {"GET", "/api/v1/exotel/allocate", api_exotel, true},
    {"POST", "/api/v1/twilio/status", api_twilio_status, true},
    {"GET", "/api/v1/twilio/status", api_twilio_status, true},
    {"POST", "/api/v1/plivo/status", api_plivo_status, true},
    {"GET", "/api/v1/plivo/status", api_plivo_status, true},
    {"POST", "/api/v1/exotel/status", api_exotel_status, true},
    {"GET", "/api/v1/exotel/status", api_exotel_status, true},
    {"POST", "/api/v1/renew", api_renew, false},
    {"POST", "/api/v1/drain", api_drain, true},
    {"POST", "/api/v1/undrain", api_undrain, true},
    {"GET", "/api/v1/status", api_status, false},
    {"GET", "/api/v1/pods", api_pods, false},
    {"POST", "/api/v1/pods", api_pod_register, true},
    {"GET", "/api/v1/pod/{name}", api_pod, false},
    {"DELETE", "/api/v1/pod/{name}", api_pod_delete, true},
    {"POST", "/api/v1/pod/{name}/heartbeat", api_pod_heartbeat, false},
    {"GET", "/api/v1/calls", api_calls, false},
    {"GET", "/api/v1/call/{sid}", api_call, false},
    {"GET", "/api/v1/merchants", api_merchants, false},
    {"GET", "/api/v1/merchants/{id}", api_merchant, false},
    {"PUT", "/api/v1/merchants/{id}", api_merchant_set, true},
    {"DELETE", "/api/v1/merchants/{id}", api_merchant_remove, true},
    {"GET", "/api/v1/tiers", api_tiers, false},
    {"PUT", "/api/v1/tiers", api_tiers_set, true},
    {"GET", "/api/v1/events", api_events, false},
};

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
    err = api_set_secrets(api, (const char *const[SECRET_KINDS]){"", "", "", ""});
    if (err == 0)
        err = ws_url_new(settings->ws_url_template, settings->base_url, settings->make_ticket != NULL,
                         &api->ws_url);
    if (err == 0)
        err = rate_new(settings->rate_limit ? settings->rate_limit : "", &api->rate);
    if (err == 0)
        err = over_new(&api->over);
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
    ws_url_free(api->ws_url);
    over_free(api->over);
    rate_free(api->rate);
    instruments_free(api->instruments);
    gauges_free(api->gauges);
    watchers_free(api->watchers);
    free(api);
    return NULL;
}

int api_set_secrets(struct api *api, const char *const texts[SECRET_KINDS])
{
    struct secrets *secrets = NULL;
    int err = secrets_new(texts, &secrets);

    if (err < 0)
        return err;
    secrets_free(api->secrets);
    api->secrets = secrets;
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

static bool is_probe(const char *pattern)
{
    for (size_t i = 0; i < ARRAY_LEN(probe_routes); i++) {
        if (strcmp(probe_routes[i].pattern, pattern) == 0)
            return true;
    }
    return false;
}

static const struct route *route_find(const char *pattern, struct slice method)
{
    for (size_t i = 0; i < ARRAY_LEN(api_routes); i++) {
        if (strcmp(api_routes[i].pattern, pattern) == 0 &&
            slice_equals(slice_equals(method, "HEAD") ? SLICE("GET") : method, api_routes[i].method))
            return &api_routes[i];
    }
    return NULL;
}

/* Whose handlers are in another room: that one says what became of them, and knows what in a path is secret.
 */
static bool is_of_others(const char *pattern)
{
    if (!pattern[0] || is_probe(pattern))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(api_routes); i++) {
        if (strcmp(api_routes[i].pattern, pattern) == 0)
            return false;
    }
    return true;
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
    const struct route *route;
    bool was_handled;

    if (status < 400 && !log_enabled(LOG_DEBUG))
        return;
    route = route_find(pattern, http_request_method(request));
    was_handled = route && has_its_parameter(request, pattern);
    if (is_of_others(pattern))
        return;
    if (is_probe(pattern))
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

static int api_add_routes(struct api *api, struct http_server *server, const struct route *routes,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int err = http_server_route(server, routes[i].method, routes[i].pattern, routes[i].handler, api);

        if (err == 0 && routes[i].is_vital)
            err = http_server_set_vital(server, routes[i].pattern);
        if (err < 0)
            return err;
    }
    return 0;
}

static int api_serve_as(struct api *api, struct http_server *server, const char *name)
{
    assert(api->server_count < API_SERVERS_MAX);
    api->servers[api->server_count] = server;
    api->server_names[api->server_count] = name;
    api->server_count++;
    http_server_on_done(server, api_request_done, api);
    return api_add_routes(api, server, probe_routes, ARRAY_LEN(probe_routes));
}

int api_serve(struct api *api, struct http_server *server)
{
    int err = api_add_routes(api, server, api_routes, ARRAY_LEN(api_routes));

    http_server_guard(server, api_guard, api);
    return err < 0 ? err : api_serve_as(api, server, "http");
}

int api_serve_metrics(struct api *api, struct http_server *server)
{
    return api_serve_as(api, server, "metrics");
}
