/*
 * pods.c - the routes for pods: list, show, drain, undrain, register, delete, heartbeat.
 */
#include "api/api_internal.h"
#include "api/params.h"
#include "base/log.h"
#include "http/address_rule.h"
#include "http/origin.h"

#define POD_NOT_FOUND "pod not found"

static void put_pod(struct json_writer *json, const struct pod_info *pod)
{
    json_put_string(json, "pod_name", pod->name);
    json_put_string(json, "tier", pod->tier);
    json_put_string(json, "state", pod_state_name(pod->state));
    json_put_string(json, "address", pod->address);
    json_put_string(json, "source", pod_source_name(pod->source));
    json_put_bool(json, "is_draining", pod->is_draining);
    json_put_bool(json, "is_ready", pod->is_ready);
    json_put_bool(json, "has_active_lease", pod->newest_call[0] != '\0');
    json_put_string(json, "lease_call_sid", pod->newest_call);
    api_put_names(json, "calls", &pod->calls);
}

static void api_pods_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    json_key(&json, "pods");
    json_array_begin(&json);
    for (size_t i = 0; i < result->pods.count; i++) {
        json_object_begin(&json);
        put_pod(&json, &result->pods.pods[i]);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_put_u64(&json, "total", result->pods.total);
    json_put_string(&json, "next_cursor", result->pods.next_cursor);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

/* -1: all states. */
static int params_state(struct params *params)
{
    const char *text = params_text(params, "state");

    if (!text)
        return -1;
    for (int state = 0; state < POD_STATES; state++) {
        if (strcmp(text, pod_state_name((enum pod_state)state)) == 0)
            return state;
    }
    params_fail(params, "state must be available, busy, draining or suspended");
    return -1;
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
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_pods_stored);
    struct command command = {.type = COMMAND_PODS};
    struct params params;

    if (!task)
        return;
    params_read_query(&params, request);
    command.pods.tier = params_tier(&params);
    command.pods.state = params_state(&params);
    command.pods.limit = params_number(&params, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    command.pods.cursor = params_label(&params, "cursor", "");
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        api_execute(task, &command);
}

/* The pod that the path names; NULL: it can be no pod, or none for this key: answered. */
static const char *pod_of_path(struct api *api, struct http_request *request)
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
    const char *pod = pod_of_path(arg, request);
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
    json_put_bool(&json, "has_active_call", result->drain.has_active_call);
    json_put_string(&json, "message", "Pod drained successfully");
    json_put_time(&json, "draining_until", result->drain.until_ms);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_drain(struct http_request *request, void *arg)
{
    enum { DRAIN_SECONDS_MAX = 7 * 24 * 3600 };
    struct pod_task *pod_task = api_task_new(arg, request, sizeof(*pod_task), api_drain_stored);
    struct command command = {.type = COMMAND_DRAIN};
    struct params params;

    if (!pod_task)
        return;
    params_read_json(&params, request);
    pod_task->pod = params_pod_name(&params);
    command.drain.pod = pod_task->pod;
    command.drain.ttl_ms = params_number(&params, "ttl_seconds", 1, DRAIN_SECONDS_MAX, 0) * 1000;
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

static void api_undrain_stored(struct api_task *task, const struct result *result)
{
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);

    if (result->outcome != OUTCOME_OK) {
        log_pod_refused(pod_task, "pod not undrained", result);
        api_reply_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    log_pod_event(pod_task, "pod undrained", NULL);
    reply_pod_done(pod_task);
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
    refusal = address_text_refusal(api->settings.pod_allow, address, request_is_local(request));
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
    struct pod_task *pod_task = CONTAINER_OF(task, struct pod_task, task);

    if (result->outcome != OUTCOME_OK) {
        log_pod_refused(pod_task, "pod not removed", result);
        api_reply_outcome(task->request, result, POD_NOT_FOUND);
        return;
    }
    log_pod_event(pod_task, "pod removed", NULL);
    reply_pod_done(pod_task);
}

void api_pod_delete(struct http_request *request, void *arg)
{
    const char *pod = pod_of_path(arg, request);
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
    log_heartbeat(pod_task, result);
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    api_put_names(&json, "renewed", &result->heartbeat.renewed);
    api_put_names(&json, "adopted", &result->heartbeat.adopted);
    json_key(&json, "ended");
    json_array_begin(&json);
    for (size_t i = 0; i < result->heartbeat.ended.count; i++)
        json_string(&json, result->heartbeat.ended.calls[i].call_sid);
    for (size_t i = 0; i < result->heartbeat.over.count; i++)
        json_string(&json, result->heartbeat.over.names[i]);
    json_array_end(&json);
    api_put_names(&json, "conflicts", &result->heartbeat.conflicts);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_pod_heartbeat(struct http_request *request, void *arg)
{
    const char *pod = pod_of_path(arg, request);
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
