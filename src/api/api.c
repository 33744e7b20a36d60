/*
 * api.c - builds the API from its settings, and adds its routes to a server.
 */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "api/openapi.h"
#include "api/providers/provider.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/log.h"

/* Once: it does not change, and a request for it must not keep the loop busy. */
static int api_make_openapi(struct api *api)
{
    strbuf_init(&api->openapi, NULL, OPENAPI_SIZE_MAX);
    api_write_openapi(&api->openapi);
    return strbuf_failed(&api->openapi) ? -ENOMEM : 0;
}

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
    api->keeps_callers = err == 0 && settings->rescues && settings->make_ticket &&
                         settings->public_base_url && settings->public_base_url[0] &&
                         ws_url_can_hold(api->ws_url);
    if (err == 0)
        err = rate_new(settings->rate_limit ? settings->rate_limit : "", &api->rate);
    for (unsigned kind = SECRET_TWILIO; err == 0 && kind < SECRET_KINDS; kind++)
        err = finished_calls_new(&api->finished[kind]);
    if (err == 0)
        err = finished_calls_new(&api->sent_back);
    if (err == 0)
        err = instruments_new(metrics, &api->instruments);
    if (err == 0)
        err = gauges_new(metrics, &api->gauges);
    if (err == 0)
        err = watchers_new(settings->loop, store, &api->watchers);
    if (err == 0)
        err = api_make_openapi(api);
    if (err == 0)
        err = drain_waits_new(settings->loop, &api->drain_waits);
    if (err == 0)
        err = allocate_waits_new(settings->loop, &api->allocate_waits);
    if (err == 0)
        err = scrapes_new(settings->loop, &api->scrapes);
    if (err == 0)
        err = history_new(settings->loop, store, &api->history);
    if (err < 0) {
        api_free(api);
        return err;
    }
    *ret_api = api;
    return 0;
}

int api_list_metrics(struct metrics *metrics)
{
    struct instruments *instruments = NULL;
    struct gauges *gauges = NULL;
    int err = instruments_new(metrics, &instruments);

    if (err == 0)
        err = gauges_new(metrics, &gauges);
    if (err == 0)
        gauges_set_process(gauges); /* the kinds of log lines */
    instruments_free(instruments);  /* the families stay */
    gauges_free(gauges);
    return err;
}

struct api *api_free(struct api *api)
{
    if (!api)
        return NULL;
    secrets_free(api->secrets);
    keys_free(api->keys);
    ws_url_free(api->ws_url);
    for (unsigned kind = 0; kind < SECRET_KINDS; kind++)
        finished_calls_free(api->finished[kind]);
    finished_calls_free(api->sent_back);
    rate_free(api->rate);
    instruments_free(api->instruments);
    gauges_free(api->gauges);
    watchers_free(api->watchers);
    strbuf_release(&api->openapi);
    drain_waits_free(api->drain_waits);
    allocate_waits_free(api->allocate_waits);
    scrapes_free(api->scrapes);
    history_free(api->history);
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
    /* A stream of events must not outlive the key that it was opened with, and no wait either. */
    if (api->watchers)
        watchers_send_away(api->watchers);
    if (api->drain_waits)
        drain_waits_send_away(api->drain_waits);
    if (api->allocate_waits)
        allocate_waits_send_away(api->allocate_waits);
    return 0;
}

void api_set_stopping(struct api *api)
{
    api->is_stopping = true;
    allocate_waits_stop(api->allocate_waits); /* their clients find another router */
}

bool api_resumes(const struct api *api)
{
    return api->keeps_callers;
}

bool api_provider_asks(const char *provider)
{
    return provider_can_wait(provider);
}

void api_set_departing(struct api *api, uint64_t delay_ms)
{
    api->is_departing = true;
    api->departs_at_ms = clock_elapsed_ms() + delay_ms;
}

void api_call_changed(struct api *api, const char *call_sid)
{
    allocate_waits_call_changed(api->allocate_waits, call_sid);
}

void api_end_watchers(struct api *api)
{
    watchers_stop(api->watchers);
    drain_waits_stop(api->drain_waits);
    allocate_waits_stop(api->allocate_waits);
    scrapes_stop(api->scrapes);
    history_stop(api->history);
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

static void api_add_server(struct api *api, struct http_server *server, const char *name)
{
    assert(api->server_count < API_SERVERS_MAX);
    api->servers[api->server_count] = server;
    api->server_names[api->server_count] = name;
    api->server_count++;
}

int api_serve(struct api *api, struct http_server *server)
{
    const struct http_hooks hooks = {
        .guard = api_guard, .admit = api_admit_key, .done = api_request_done, .arg = api};
    int err = 0;

    api_add_server(api, server, "http");
    http_server_hooks(server, &hooks);
    for (size_t i = 0; i < api_routes_count && err == 0; i++)
        err = http_server_route(server, &api_routes[i], api);
    return err;
}

int api_serve_metrics(struct api *api, struct http_server *server)
{
    const struct http_hooks hooks = {.done = api_request_done, .arg = api};
    int err = 0;

    api_add_server(api, server, "metrics");
    http_server_hooks(server, &hooks);
    for (size_t i = 0; i < api_routes_count && err == 0; i++) {
        if (api_routes[i].log == ROUTE_LOG_PROBE)
            err = http_server_route(server, &api_routes[i], api);
    }
    return err;
}
