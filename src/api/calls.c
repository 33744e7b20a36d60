/*
 * calls.c - the routes that release, renew, list and show calls.
 *
 * Status callbacks of providers use the same functions to log and count a release.
 */
#include "api/api_internal.h"
#include "api/params.h"
#include "base/log.h"
#include "base/log_limit.h"

enum {
    REASON_LOGGED_MAX = 128,
    CALLS_LOGGED_MAX = 5, /* lines about calls of one request */
};

#define CALL_NOT_FOUND "call not found"

struct release {
    struct api_task task;
    const char *call_sid;
    char reason[REASON_LOGGED_MAX + 1];
};

/* From literals, as the answer to an allocation: see api_allocate_write. */
static void api_release_answer(const struct release *release, const struct result *result)
{
    struct http_request *request = release->task.request;
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(request), API_ANSWER_MAX);
    APPEND_LITERAL(&buf, "{\"success\":true,\"pod_name\":\"");
    strbuf_append_str(&buf, result->release.call.pod);
    APPEND_LITERAL(&buf, "\",\"released_to_pool\":\"");
    strbuf_append_str(&buf, result->release.released_to);
    APPEND_LITERAL(&buf, "\",\"was_draining\":");
    strbuf_append_str(&buf, result->release.was_draining ? "true}" : "false}");
    api_reply_json(request, 200, &buf);
}

void api_log_calls(const struct api_task *task, const char *message, const struct name_array *calls,
                   const char *pod)
{
    size_t shown = (size_t)min_u64(calls->count, CALLS_LOGGED_MAX);

    for (size_t i = 0; i < shown; i++)
        log_warn(message, log_str("call_sid", calls->names[i]), log_str("pod", pod),
                 log_str("key", api_key_name(task->request)),
                 log_str("request_id", http_request_id(task->request)));
    if (shown < calls->count)
        log_warn("more calls of the same request are not shown",
                 log_num("calls", (int64_t)(calls->count - shown)), log_str("pod", pod),
                 log_str("key", api_key_name(task->request)),
                 log_str("request_id", http_request_id(task->request)));
}

void api_note_release(const struct api_task *task, const struct result *result, const char *call_sid,
                      const char *reason, enum log_kind kind)
{
    bool is_ok = result->outcome == OUTCOME_OK;

    instruments_released(task->api->instruments, is_ok ? result->release.call.pool : "",
                         is_ok ? RELEASE_SUCCESS : RELEASE_NOT_FOUND);
    if (!is_ok && !api_key_name(task->request) && !log_limit_passes(kind, LOG_INFO))
        return;
    log_info(is_ok ? "call released" : "release of an unknown call", log_str("call_sid", call_sid),
             log_str("pod", is_ok ? result->release.call.pod : NULL),
             log_str("pool", is_ok ? result->release.call.pool : NULL),
             log_str("released_to", is_ok ? result->release.released_to : NULL),
             log_str("merchant", is_ok ? result->release.call.merchant_id : NULL), log_str("reason", reason),
             log_str("key", api_key_name(task->request)),
             log_str("request_id", http_request_id(task->request)),
             log_num("duration_us", api_task_us(task)));
}

void api_note_release_failure(const struct api_task *task, int err, const char *call_sid, const char *reason)
{
    instruments_released(task->api->instruments, "", RELEASE_STORAGE_ERROR);
    log_warn("call not released: the store cannot answer", log_str("call_sid", call_sid),
             log_str("cause", strerror(-err)), log_str("reason", reason),
             log_str("key", api_key_name(task->request)),
             log_str("request_id", http_request_id(task->request)),
             log_num("duration_us", api_task_us(task)));
}

static void api_release_stored(struct api_task *task, const struct result *result)
{
    struct release *release = CONTAINER_OF(task, struct release, task);

    api_note_release(task, result, release->call_sid, release->reason, LOG_OF_REFUSED);
    if (result->outcome == OUTCOME_OK)
        api_release_answer(release, result);
    else
        api_reply_outcome(task->request, result, CALL_NOT_FOUND);
}

static void api_release_failed(struct api_task *task, int err)
{
    struct release *release = CONTAINER_OF(task, struct release, task);

    api_note_release_failure(task, err, release->call_sid, release->reason);
    api_reply_failure(task->request, err);
}

void api_release(struct http_request *request, void *arg)
{
    struct release *release = api_task_new(arg, request, sizeof(*release), api_release_stored);
    struct command command = {.type = COMMAND_RELEASE};
    struct params params;
    const char *reason;
    const char *pod;

    if (!release)
        return;
    release->task.failed = api_release_failed;
    params_read_json(&params, request);
    release->call_sid = params_call_sid(&params, "call_sid");
    pod = params_pod_name_if_given(&params);
    if (params.error) {
        api_refuse(request, 400, params.error);
        return;
    }
    /* The reason is for the log only: no release may fail because of it. */
    reason = json_get_string(params.json, "reason");
    if (reason)
        memcpy(release->reason, reason, strnlen(reason, REASON_LOGGED_MAX));
    if (pod && !api_may_speak_for(arg, request, pod))
        return;
    command.release.call_sid = release->call_sid;
    /* On which pod the call is, only the store knows: it compares in the same step. */
    command.release.pod = pod ? pod : api_pods_of_key(request);
    api_execute(&release->task, &command);
}

struct renewal {
    struct api_task task;
    size_t count;
};

static void api_renew_stored(struct api_task *task, const struct result *result)
{
    struct renewal *renewal = CONTAINER_OF(task, struct renewal, task);
    bool is_limited = api_pods_of_key(task->request) != NULL;
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome == OUTCOME_OK)
        api_log_calls(task,
                      is_limited
                          ? "a renewed call is on no pod of the key, or has lost its pod to another call"
                          : "a renewed call has lost its pod to another",
                      &result->renew.conflicts, NULL);
    if (result->outcome == OUTCOME_OK && renewal->count == 1 && result->renew.conflicts.count == 1) {
        api_refuse(task->request, 409,
                   is_limited ? "the call is on no pod of the key, or another call has the pod by now"
                              : "another call has the pod by now");
        return;
    }
    if (result->outcome != OUTCOME_OK || (renewal->count == 1 && result->renew.renewed.count == 0)) {
        api_refuse_outcome(task->request, result,
                           result->outcome == OUTCOME_OK && result->renew.over.count ? "the call has ended"
                                                                                     : CALL_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    api_put_names(&json, "renewed", &result->renew.renewed);
    api_put_names(&json, "unknown", &result->renew.unknown);
    api_put_names(&json, "ended", &result->renew.over);
    api_put_names(&json, "conflicts", &result->renew.conflicts);
    json_put_time(&json, "expires_at", result->renew.expires_at_ms);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_renew(struct http_request *request, void *arg)
{
    struct renewal *renewal = api_task_new(arg, request, sizeof(*renewal), api_renew_stored);
    struct command command = {.type = COMMAND_RENEW};
    struct params params;
    bool has_list;

    if (!renewal)
        return;
    params_read_json(&params, request);
    has_list = params_call_sids(&params, "call_sids", &command.renew.call_sids, &command.renew.count);
    if (!has_list) {
        const char **one = arena_alloc(params.arena, sizeof(*one));

        if (!one) {
            api_reply_no_memory(request);
            return;
        }
        *one = params_call_sid(&params, "call_sid");
        command.renew.call_sids = one;
        command.renew.count = 1;
    } else if (params_text(&params, "call_sid")) {
        params_fail(&params, "give call_sid or call_sids, not both");
    }
    if (params.error) {
        api_refuse(request, 400, params.error);
        return;
    }
    command.renew.pattern = api_pods_of_key(request);
    renewal->count = command.renew.count;
    api_execute(&renewal->task, &command);
}

static void put_call(struct json_writer *json, const struct call_info *call)
{
    json_put_string(json, "call_sid", call->call_sid);
    json_put_string(json, "pod_name", call->pod);
    json_put_string(json, "source_pool", call->pool);
    json_put_string(json, "merchant_id", call->merchant_id);
    json_put_string(json, "provider", call->provider);
    json_put_time(json, "allocated_at", call->allocated_at_ms);
    json_put_time(json, "expires_at", call->expires_at_ms);
}

static void api_calls_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    json_key(&json, "calls");
    json_array_begin(&json);
    for (size_t i = 0; i < result->calls.count; i++) {
        json_object_begin(&json);
        put_call(&json, &result->calls.calls[i]);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_put_u64(&json, "total", result->calls.total);
    json_put_string(&json, "next_cursor", result->calls.next_cursor);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_calls(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_calls_stored);
    struct command command = {.type = COMMAND_CALLS};
    struct params params;

    if (!task)
        return;
    params_read_query(&params, request);
    command.calls.limit = params_number(&params, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    command.calls.cursor = params_label(&params, "cursor", "");
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        api_execute(task, &command);
}

static void api_call_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK && (result->outcome != OUTCOME_NOT_FOUND || !result->call.refusal)) {
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    if (result->outcome == OUTCOME_OK) {
        put_call(&json, &result->call.call);
    } else {
        api_log_refused(task->request, 404, CALL_NOT_FOUND);
        json_put_bool(&json, "success", false);
        json_put_string(&json, "error", CALL_NOT_FOUND);
        json_put_string(&json, "code", "not_found");
        api_put_refusal(&json, "refusal", result->call.refusal);
    }
    json_object_end(&json);
    api_reply_json(task->request, result->outcome == OUTCOME_OK ? 200 : 404, &buf);
}

void api_call(struct http_request *request, void *arg)
{
    const char *call_sid = http_request_param(request, "sid");
    const char *error = params_check_call_sid(call_sid);
    struct command command = {.type = COMMAND_CALL, .call = {.call_sid = call_sid}};
    struct api_task *task;

    if (error) {
        api_refuse(request, 400, error);
        return;
    }
    task = api_task_new(arg, request, sizeof(*task), api_call_stored);
    if (task)
        api_execute(task, &command);
}
