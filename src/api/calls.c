/*
 * calls.c - the routes that renew, list and show calls.
 */
#include "api/api_internal.h"
#include "api/page.h"
#include "api/params.h"
#include "base/log.h"

enum { CALLS_LOGGED_MAX = 5 }; /* lines about calls of one request */

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
                           result->outcome == OUTCOME_OK && result->renew.finished.count
                               ? "the call has ended"
                               : CALL_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    json_put_bool(&json, "success", true);
    api_put_names(&json, "renewed", &result->renew.renewed);
    api_put_names(&json, "unknown", &result->renew.unknown);
    api_put_names(&json, "ended", &result->renew.finished);
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
    const struct call_activity *activity = &call->activity;

    json_put_string(json, "call_sid", call->call_sid);
    json_put_string(json, "pod_name", call->pod);
    json_put_string(json, "source_pool", call->pool);
    json_put_string(json, "merchant_id", call->merchant_id);
    json_put_string(json, "provider", call->provider);
    json_put_time(json, "allocated_at", call->allocated_at_ms);
    json_put_time(json, "expires_at", call->expires_at_ms);
    json_put_string(json, "state", call_state_name(activity->state));
    if (activity->renewed_by != RENEWED_BY_NOBODY) {
        json_put_time(json, "last_renewed_at", activity->renewed_at_ms);
        json_put_string(json, "renewed_by", renewer_name(activity->renewed_by));
    }
    json_put_bool(json, "connected", activity->is_connected);
    api_put_names(json, "carried_by", &activity->carriers);
}

static void api_calls_stored(struct api_task *task, const struct result *result)
{
    struct page *page = page_of(task);

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        return;
    }
    for (size_t i = 0; i < result->calls.count; i++) {
        json_object_begin(&page->json);
        put_call(&page->json, &result->calls.calls[i]);
        json_object_end(&page->json);
    }
    if (!page_goes_on(page, result->calls.count, result->calls.next_cursor)) {
        page_reply(page, result->calls.total, result->calls.next_cursor);
        return;
    }
    page->command.calls.limit = page_next(page);
    page->command.calls.cursor = page->cursor;
    page_ask(page);
}

/* The states without CALL_IS_ANY, which is no word. */
static const char *state_word(int word)
{
    return call_state_name((enum call_state)(CALL_IS_ANY + 1 + word));
}

static enum call_state params_state(struct params *params)
{
    int word = params_word(params, "state", state_word, CALL_STATES - 1);

    return word < 0 ? CALL_IS_ANY : (enum call_state)(CALL_IS_ANY + 1 + word);
}

void api_calls(struct http_request *request, void *arg)
{
    struct page *page = page_new(arg, request, "calls", api_calls_stored);
    struct command *command;
    struct params params;

    if (!page)
        return;
    command = &page->command;
    params_read_query(&params, request);
    *command = (struct command){.type = COMMAND_CALLS};
    command->calls.pod = params_pod_filter(&params, "pod");
    command->calls.merchant_id = params_merchant_filter(&params, "merchant");
    command->calls.state = params_state(&params);
    command->calls.older_than_ms = params_duration(&params, "older_than");
    command->calls.cursor = params_label(&params, "cursor", "");
    page->left = params_number(&params, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    command->calls.limit = page_next(page);
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        page_ask(page);
}

static void api_call_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    bool is_known = result->outcome == OUTCOME_OK || result->outcome == OUTCOME_WAITING;

    if (!is_known && (result->outcome != OUTCOME_NOT_FOUND || !result->call.refusal)) {
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    if (result->outcome == OUTCOME_OK) {
        put_call(&json, &result->call.call);
    } else if (result->outcome == OUTCOME_WAITING) {
        api_put_waiting(&json, &result->call.waiting, result->call.now_ms);
    } else {
        api_log_refused(task->request, 404, CALL_NOT_FOUND);
        json_put_bool(&json, "success", false);
        json_put_string(&json, "error", CALL_NOT_FOUND);
        json_put_string(&json, "code", "not_found");
        api_put_refusal(&json, "refusal", result->call.refusal);
    }
    json_object_end(&json);
    api_reply_json(task->request, is_known ? 200 : 404, &buf);
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
