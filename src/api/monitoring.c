/*
 * monitoring.c - the routes that monitors ask: /health, /ready and /api/v1/status.
 */
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"

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

static void put_pool_count(struct json_writer *json, const char *tier, const char *what, uint64_t count)
{
    char key[POOL_LABEL_MAX + 16];

    snprintf(key, sizeof(key), "%s:%s", tier, what);
    json_put_u64(json, key, count);
}

/* Where no call can wait, nobody needs to know. A merchant's hold_seconds shows only while its calls wait. */
static bool has_line(const struct api *api, const struct result *result)
{
    return api->settings.hold_max_wait_ms > 0 || result->status.waiting > 0;
}

static void put_tier(struct json_writer *json, const struct tier_status *tier, bool with_waiting)
{
    json_key(json, tier->name);
    json_object_begin(json);
    json_put_string(json, "type", tier->is_shared ? "shared" : "exclusive");
    json_put_bool(json, "is_configured", tier->is_configured);
    json_put_u64(json, "target", tier->target);
    json_put_u64(json, "max_concurrent", tier->max_concurrent);
    json_put_u64(json, "assigned", tier->assigned);
    for (int state = 0; state < POD_STATES; state++)
        json_put_u64(json, pod_state_name((enum pod_state)state), tier->by_state[state]);
    json_put_u64(json, "calls", tier->calls);
    json_put_u64(json, "capacity", tier->capacity);
    json_put_u64(json, "free", tier->free);
    if (with_waiting)
        json_put_u64(json, "waiting", tier->waiting);
    json_object_end(json);
}

/* What only the store knows. */
static void put_pools(struct json_writer *json, const struct api *api, const struct result *result)
{
    json_key(json, "pools");
    json_object_begin(json);
    for (size_t i = 0; i < result->status.tier_count; i++) {
        const struct tier_status *tier = &result->status.tiers[i];

        put_pool_count(json, tier->name, "available", tier->by_state[POD_AVAILABLE]);
        put_pool_count(json, tier->name, "assigned", tier->assigned);
    }
    json_object_end(json);
    json_key(json, "tiers");
    json_object_begin(json);
    for (size_t i = 0; i < result->status.tier_count; i++)
        put_tier(json, &result->status.tiers[i], has_line(api, result));
    json_object_end(json);
    json_put_u64(json, "pods", result->status.pods);
    json_put_u64(json, "active_calls", result->status.active_calls);
    if (has_line(api, result))
        json_put_u64(json, "waiting", result->status.waiting);
}

/*
 * `result` NULL: the store did not answer. Its members are left out then: a 0 would be a statement about
 * calls that nobody has counted.
 */
static void api_status_answer(struct api_task *task, const struct result *result)
{
    const struct api *api = task->api;
    struct store_health health;
    struct json_writer json;
    struct strbuf buf;

    store_health(api->store, &health);
    api_reply_begin(task->request, &buf, &json);
    if (result)
        put_pools(&json, api, result);
    json_put_bool(&json, "is_leader", api->is_leader);
    json_put_string(&json, "leader", api->leader);
    json_put_string(&json, "identity", api->settings.identity);
    json_put_string(&json, "store", health.name);
    json_put_string(&json, "version", SMART_ROUTER_VERSION);
    json_put_u64(&json, "uptime_seconds", (clock_elapsed_ms() - api->started_ms) / 1000);
    json_put_string(&json, "status", result ? "up" : "down");
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

static void api_status_stored(struct api_task *task, const struct result *result)
{
    api_status_answer(task, result);
}

static void api_status_failed(struct api_task *task, int err)
{
    if (err == -ENOMEM) {
        api_reply_no_memory(task->request);
        return;
    }
    log_debug("the status is without the store's part", log_str("cause", store_error_text(err)),
              log_str("request_id", http_request_id(task->request)));
    api_status_answer(task, NULL);
}

void api_status(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_status_stored);
    struct command command = {.type = COMMAND_STATUS};

    if (!task)
        return;
    task->failed = api_status_failed;
    api_execute(task, &command);
}
