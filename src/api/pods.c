/*
 * pods.c - the routes for pods: list, show, drain, undrain, register, delete, heartbeat.
 */
#include <stdio.h>

#include "api/api_internal.h"
#include "api/page.h"
#include "api/params.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/address_rule.h"
#include "http/proxy_headers.h"

/* Null: the drain does not end by itself. */
static void put_draining_until(struct json_writer *json, uint64_t until_ms)
{
    if (until_ms != DRAIN_WITHOUT_END) {
        json_put_time(json, "draining_until", until_ms);
        return;
    }
    json_key(json, "draining_until");
    json_null(json);
}

static void put_pod(struct json_writer *json, const struct pod_info *pod)
{
    json_put_string(json, "pod_name", pod->name);
    json_put_string(json, "tier", pod->tier);
    json_put_string(json, "state", pod_state_name(pod->state));
    json_put_string(json, "address", pod->address);
    json_put_string(json, "source", pod_source_name(pod->source));
    json_put_bool(json, "is_draining", pod->is_draining);
    json_put_bool(json, "is_surplus", pod->is_surplus);
    if (pod->draining_until_ms)
        put_draining_until(json, pod->draining_until_ms);
    json_put_bool(json, "is_ready", pod->is_ready);
    if (pod->last_heartbeat_ms)
        json_put_time(json, "last_heartbeat_at", pod->last_heartbeat_ms);
    json_put_bool(json, "has_active_lease", pod->newest_call[0] != '\0');
    json_put_string(json, "lease_call_sid", pod->newest_call);
    api_put_names(json, "calls", &pod->calls);
}

static void api_pods_stored(struct api_task *task, const struct result *result)
{
    struct page *page = page_of(task);

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    for (size_t i = 0; i < result->pods.count; i++) {
        json_object_begin(&page->json);
        put_pod(&page->json, &result->pods.pods[i]);
        json_object_end(&page->json);
    }
    if (!page_goes_on(page, result->pods.count, result->pods.next_cursor)) {
        page_reply(page, result->pods.total, result->pods.next_cursor);
        return;
    }
    page->command.pods.limit = page_next(page);
    page->command.pods.cursor = page->cursor;
    page_ask(page);
}

static const char *state_name(int state)
{
    return pod_state_name((enum pod_state)state);
}

/* The name of a tier or of a merchant's pool; NULL if absent or empty. */
static const char *params_tier(struct params *params)
{
    const char *tier = params_text(params, "tier");

    if (!tier || tier[0] == '\0')
        return NULL;
    if (!name_is_pool(tier, strlen(tier)))
        params_fail(params, "tier must be the name of a tier, or merchant: and a merchant_id");
    return tier;
}

void api_pods(struct http_request *request, void *arg)
{
    struct page *page = page_new(arg, request, "pods", api_pods_stored);
    struct params params;

    if (!page)
        return;
    params_read_query(&params, request);
    page->command = (struct command){.type = COMMAND_PODS};
    page->command.pods.tier = params_tier(&params);
    page->command.pods.state = params_word(&params, "state", state_name, POD_STATES);
    page->command.pods.cursor = params_label(&params, "cursor", "");
    page->left = params_number(&params, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    page->command.pods.limit = page_next(page);
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        page_ask(page);
}

const char *api_pod_of_path(struct api *api, struct http_request *request)
{
    const char *pod = http_request_param(request, "name");
    const char *error = params_check_pod(pod);

    if (!error)
        return api_may_speak_for(api, request, pod) ? pod : NULL;
    api_refuse(request, 400, error);
    return NULL;
}

static void api_pod_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    put_pod(&json, &result->pod);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_pod(struct http_request *request, void *arg)
{
    const char *pod = api_pod_of_path(arg, request);
    struct command command = {.type = COMMAND_POD, .pod = {.name = pod}};
    struct api_task *task;

    if (!pod)
        return;
    task = api_task_new(arg, request, sizeof(*task), api_pod_stored);
    if (task)
        api_execute(task, &command);
}

/* What is asked of one pod, and logged with its name. */
struct pod_task {
    struct api_task task;
    const char *pod;
};

static void log_pod_event(const struct pod_task *pod_task, const char *message, const char *tier)
{
    log_info(message, log_str("pod", pod_task->pod), log_str("tier", tier),
             log_str("key", api_key_name(pod_task->task.request)),
             log_str("request_id", http_request_id(pod_task->task.request)),
             log_num("duration_us", api_task_us(&pod_task->task)));
}

static void log_pod_refused(const struct pod_task *pod_task, const char *message, const struct result *result)
{
    log_info(message, log_str("pod", pod_task->pod),
             log_str("cause", result->outcome == OUTCOME_NOT_FOUND ? POD_NOT_FOUND : result->error),
             log_str("key", api_key_name(pod_task->task.request)),
             log_str("request_id", http_request_id(pod_task->task.request)),
             log_num("duration_us", api_task_us(&pod_task->task)));
}

static void api_drain_stored(struct api_task *task, const struct result *result)
{
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        log_pod_refused(pod_task, "pod not drained", result);
        api_reply_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    instruments_drained(task->api->instruments);
    log_pod_event(pod_task, "pod drained", NULL);
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    json_put_string(&json, "pod_name", pod_task->pod);
    json_put_bool(&json, "has_active_call", result->drain.calls_left > 0);
    json_put_u64(&json, "calls_left", result->drain.calls_left);
    json_put_string(&json, "message", "Pod drained successfully");
    put_draining_until(&json, result->drain.until_ms);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

/* As the command wants it: absent is the default of the settings, and 0 is no end. */
static uint64_t params_drain_ms(struct params *params)
{
    uint64_t seconds = params_number(params, "ttl_seconds", 0, DRAIN_SECONDS_MAX, UINT64_MAX);

    if (seconds == UINT64_MAX)
        return 0;
    return seconds == 0 ? DRAIN_WITHOUT_END : seconds * 1000;
}

void api_drain(struct http_request *request, void *arg)
{
    struct pod_task *pod_task = api_task_new(arg, request, sizeof(*pod_task), api_drain_stored);
    struct command command = {.type = COMMAND_DRAIN};
    struct params params;

    if (!pod_task)
        return;
    params_read_json(&params, request);
    pod_task->pod = params_pod_name(&params);
    command.drain.pod = pod_task->pod;
    command.drain.ttl_ms = params_drain_ms(&params);
    if (params.error)
        api_refuse(request, 400, params.error);
    else if (api_may_speak_for(arg, request, pod_task->pod))
        api_execute(&pod_task->task, &command);
}

/* {"success":true,"pod_name":…} */
static void reply_pod_done(const struct pod_task *pod_task)
{
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(pod_task->task.request, &buf, &json);
    json_put_bool(&json, "success", true);
    json_put_string(&json, "pod_name", pod_task->pod);
    json_object_end(&json);
    api_reply_json(pod_task->task.request, 200, &buf);
}

/* Logs and answers a command about one pod that has nothing to show but its success. */
static void pod_task_done(struct api_task *task, const struct result *result, const char *done,
                          const char *not_done)
{
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);

    if (result->outcome != OUTCOME_OK) {
        log_pod_refused(pod_task, not_done, result);
        api_reply_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    log_pod_event(pod_task, done, NULL);
    reply_pod_done(pod_task);
}

static void api_undrain_stored(struct api_task *task, const struct result *result)
{
    pod_task_done(task, result, "pod undrained", "pod not undrained");
}

void api_undrain(struct http_request *request, void *arg)
{
    struct pod_task *pod_task = api_task_new(arg, request, sizeof(*pod_task), api_undrain_stored);
    struct command command = {.type = COMMAND_UNDRAIN};
    struct params params;

    if (!pod_task)
        return;
    params_read_json(&params, request);
    pod_task->pod = params_pod_name(&params);
    command.undrain.pod = pod_task->pod;
    if (params.error)
        api_refuse(request, 400, params.error);
    else if (api_may_speak_for(arg, request, pod_task->pod))
        api_execute(&pod_task->task, &command);
}

/*
 * How often the pod should send a heartbeat: two of them may be lost before HEARTBEAT_TTL is over.
 */
static void put_heartbeat_interval(struct json_writer *json, uint64_t heartbeat_ttl_ms)
{
    uint64_t interval_ms = heartbeat_ttl_ms / 3;
    char text[16];

    json_key(json, "heartbeat_interval_seconds");
    if (interval_ms >= 1000) {
        json_u64(json, interval_ms / 1000);
        return;
    }
    snprintf(text, sizeof(text), "0.%03u", (unsigned)interval_ms);
    json_raw(json, slice_of(text));
}

static void api_pod_register_stored(struct api_task *task, const struct result *result)
{
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        log_pod_refused(pod_task, "pod not registered", result);
        api_reply_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    log_pod_event(pod_task, result->pod_seen.is_new ? "pod registered" : "pod registered again",
                  result->pod_seen.tier);
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    json_put_string(&json, "pod_name", pod_task->pod);
    json_put_string(&json, "tier", result->pod_seen.tier);
    json_put_bool(&json, "is_new", result->pod_seen.is_new);
    put_heartbeat_interval(&json, task->api->settings.heartbeat_ttl_ms);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

/* Where the pod is, by its own word; params_fail if it cannot be there. */
static const char *params_place(struct params *params, const struct api *api, struct http_request *request)
{
    const char *address = params_address(params);
    const char *refusal;

    if (params->error)
        return address;
    refusal = address_text_forbidden_by(api->settings.pod_allow, address, request_is_local(request));
    if (refusal)
        params_fail(params, "address %s %s", address, refusal);
    return address;
}

void api_pod_register(struct http_request *request, void *arg)
{
    struct pod_task *pod_task = api_task_new(arg, request, sizeof(*pod_task), api_pod_register_stored);
    struct command command = {.type = COMMAND_POD_SEEN, .pod_seen = {.is_registration = true}};
    struct pod_seen *pod = &command.pod_seen.pod;
    struct params params;

    if (!pod_task)
        return;
    params_read_json(&params, request);
    pod_task->pod = params_pod_name(&params);
    pod->name = pod_task->pod;
    pod->address = params_place(&params, arg, request);
    pod->incarnation = params_text(&params, "incarnation");
    if (pod->incarnation && !name_is_incarnation(pod->incarnation, strlen(pod->incarnation)))
        params_fail(&params, "incarnation must have 1 to %d printable characters without spaces",
                    INCARNATION_MAX);
    pod->tier = params_tier(&params);
    pod->source = POD_SOURCE_API;
    pod->is_ready = true;
    if (params.error)
        api_refuse(request, 400, params.error);
    else if (api_may_speak_for(arg, request, pod_task->pod))
        api_execute(&pod_task->task, &command);
}

static void api_pod_delete_stored(struct api_task *task, const struct result *result)
{
    pod_task_done(task, result, "pod removed", "pod not removed");
}

void api_pod_delete(struct http_request *request, void *arg)
{
    const char *pod = api_pod_of_path(arg, request);
    struct command command = {.type = COMMAND_POD_GONE, .pod_gone = {.pod = pod, .source = POD_SOURCE_API}};
    struct pod_task *pod_task;

    if (!pod)
        return;
    pod_task = api_task_new(arg, request, sizeof(*pod_task), api_pod_delete_stored);
    if (!pod_task)
        return;
    pod_task->pod = pod;
    api_execute(&pod_task->task, &command);
}

/* Quiet when nothing happened: every pod says this every few seconds. */
static void log_heartbeat(const struct pod_task *pod_task, const struct result *result)
{
    const struct name_array *adopted = &result->heartbeat.adopted;

    for (size_t i = 0; i < result->heartbeat.ended.count; i++)
        log_info("call ended: two heartbeats of its pod left it out",
                 log_str("call_sid", result->heartbeat.ended.calls[i].call_sid),
                 log_str("pod", pod_task->pod), log_str("key", api_key_name(pod_task->task.request)),
                 log_str("request_id", http_request_id(pod_task->task.request)));
    for (size_t i = 0; i < adopted->count; i++)
        log_info("call adopted", log_str("call_sid", adopted->names[i]), log_str("pod", pod_task->pod),
                 log_str("key", api_key_name(pod_task->task.request)),
                 log_str("request_id", http_request_id(pod_task->task.request)));
    api_log_calls(&pod_task->task, "pod claims a call that it cannot have", &result->heartbeat.conflicts,
                  pod_task->pod);
}

static void api_pod_heartbeat_stored(struct api_task *task, const struct result *result)
{
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    task->api->heartbeat_ms = clock_wall_ms();
    log_heartbeat(pod_task, result);
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    api_put_names(&json, "renewed", &result->heartbeat.renewed);
    api_put_names(&json, "adopted", &result->heartbeat.adopted);
    json_key(&json, "ended");
    json_array_begin(&json);
    for (size_t i = 0; i < result->heartbeat.ended.count; i++)
        json_string(&json, result->heartbeat.ended.calls[i].call_sid);
    for (size_t i = 0; i < result->heartbeat.finished.count; i++)
        json_string(&json, result->heartbeat.finished.names[i]);
    json_array_end(&json);
    api_put_names(&json, "conflicts", &result->heartbeat.conflicts);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_pod_heartbeat(struct http_request *request, void *arg)
{
    const char *pod = api_pod_of_path(arg, request);
    struct command command = {.type = COMMAND_HEARTBEAT, .heartbeat = {.pod = pod}};
    struct pod_task *pod_task;
    struct params params;

    if (!pod)
        return;
    pod_task = api_task_new(arg, request, sizeof(*pod_task), api_pod_heartbeat_stored);
    if (!pod_task)
        return;
    pod_task->pod = pod;
    params_read_json(&params, request);
    if (!params_call_sids(&params, "call_sids", &command.heartbeat.call_sids, &command.heartbeat.count))
        params_fail(&params, "call_sids is required");
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        api_execute(&pod_task->task, &command);
}
