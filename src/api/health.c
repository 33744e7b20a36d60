/*
 * health.c - the routes for liveness (/health) and readiness (/ready).
 */
#include "api/api_internal.h"

/* Asks nobody: it is true as long as the loop turns. */
void api_health(struct http_request *request, void *arg UNUSED)
{
    http_respond(request, 200, "application/json", SLICE("{\"status\":\"ok\"}"));
}

void api_ready(struct http_request *request, void *arg)
{
    const struct api *api = arg;
    struct store_health health;
    struct json_writer json;
    struct strbuf buf;

    store_health(api->store, &health);
    if (health.is_ready && !api->is_stopping) {
        http_respond(request, 200, "application/json", SLICE("{\"status\":\"ready\"}"));
        return;
    }
    api_reply_begin(request, &buf, &json);
    json_put_string(&json, "status", "not ready");
    json_put_string(&json, "reason", api->is_stopping ? "shutting down" : health.detail);
    json_object_end(&json);
    http_response_header(request, "Retry-After", "1");
    api_reply_json(request, 503, &buf);
}
