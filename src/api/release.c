/*
 * release.c - POST /api/v1/release, and the log lines and counts of a release.
 *
 * Status callbacks of providers use the same functions to log and count a release.
 */
#include "api/api_internal.h"
#include "api/params.h"
#include "base/log.h"
#include "base/log_limit.h"

enum { REASON_LOGGED_MAX = 128 };

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
    strbuf_append_str(&buf, result->release.was_draining ? "true" : "false");
    if (result->release.was_waiting)
        APPEND_LITERAL(&buf, ",\"was_waiting\":true");
    if (result->release.is_kept)
        APPEND_LITERAL(&buf, ",\"is_kept\":true");
    strbuf_append_char(&buf, '}');
    api_reply_json(request, 200, &buf);
}

static const char *release_message(const struct result *result)
{
    if (result->outcome != OUTCOME_OK)
        return "release of an unknown call";
    if (result->release.is_kept)
        return "call not released: it was moved, cut or resumed a moment ago, and its stream decides";
    return result->release.was_waiting ? "call released while it waited" : "call released";
}

void api_note_release(const struct api_task *task, const struct result *result, const char *call_sid,
                      const char *reason, enum log_kind kind)
{
    bool is_ok = result->outcome == OUTCOME_OK;
    bool is_kept = is_ok && result->release.is_kept;

    instruments_released(task->api->instruments, is_ok ? result->release.call.pool : "",
                         is_kept ? RELEASE_KEPT
                         : is_ok ? RELEASE_SUCCESS
                                 : RELEASE_NOT_FOUND);
    if (is_ok && release_ends_wait(result)) {
        store_log_wait_released(result, "it was released");
        instruments_waited(task->api->instruments, WAIT_ABANDONED, result->release.waited_ms);
    }
    if (!is_ok && !api_key_name(task->request) && !log_limit_passes(kind, LOG_INFO))
        return;
    log_info(
        release_message(result), log_str("call_sid", call_sid),
        log_str("pod", is_ok ? result->release.call.pod : NULL),
        log_str("pool", is_ok ? result->release.call.pool : NULL),
        log_str("released_to", is_ok ? result->release.released_to : NULL),
        log_str("merchant", is_ok ? result->release.call.merchant_id : NULL), log_str("reason", reason),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
}

void api_note_release_failure(const struct api_task *task, int err, const char *call_sid, const char *reason)
{
    instruments_released(task->api->instruments, "", RELEASE_STORAGE_ERROR);
    log_warn(
        "call not released: the store cannot answer; its lease ends it", log_str("call_sid", call_sid),
        log_str("cause", store_error_text(err)), log_str("reason", reason),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
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
