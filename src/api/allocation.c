/*
 * allocation.c - what an allocation by the API and one by a webhook share.
 *
 * Refuses clients that ask too often, reads the parameters, gives the command to the store, logs
 * and counts the result, and writes the WebSocket URL.
 */
#include "api/allocation.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

#define ALLOCATION_WAIT_OVER "it has waited for too long, or its stream came back too often"

enum {
    LOG_PAUSE_MS = 10 * 1000,
    REFUSAL_LINE_MAX = 8 * 1024,
};

/* One line now and then: a flood must not fill the log as well. */
static void allocation_log_limited(struct api *api, const struct http_request *request, const char *client,
                                   uint64_t now_ms)
{
    size_t refused;

    if (log_repeat_is_due(&api->limited, 1, now_ms, LOG_PAUSE_MS, &refused))
        log_warn("requests for pods refused: RATE_LIMIT", log_str("client", client),
                 log_num("refused", (int64_t)refused), log_str("request_id", http_request_id(request)));
}

bool allocation_admit(struct api *api, struct http_request *request)
{
    uint64_t now_ms = clock_elapsed_ms();
    struct forwarded from;
    char seconds[24];
    uint64_t wait_ms;

    if (!api->rate)
        return true;
    forwarded_read(api->settings.trusted, request, &from);
    wait_ms = rate_take(api->rate, from.client, now_ms);
    if (wait_ms == 0)
        return true;
    instruments_limited(api->instruments);
    allocation_log_limited(api, request, from.client, now_ms);
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(wait_ms + 999) / 1000);
    http_response_header(request, "Retry-After", seconds);
    http_respond_error(request, 429, "too many calls from this address");
    return false;
}

void allocation_read(struct allocation *allocation, struct params *params)
{
    allocation->merchant_id = params_merchant(params);
    allocation->flow = params_label(params, "flow", "v2");
    allocation->template = params_label(params, "template", provider_default_template(allocation->provider));
    params_check_segment(params, "merchant_id", allocation->merchant_id);
    params_check_segment(params, "template", allocation->template);
}

void allocation_ask(struct allocation *allocation)
{
    struct command command = {.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = allocation->call_sid,
                                           .merchant_id = allocation->merchant_id,
                                           .provider = allocation->owner,
                                           .is_webhook = allocation->webhook != NULL,
                                           .waits = allocation->waits,
                                           .awaits_stream = allocation->awaits_stream,
                                           .holder = allocation->holder,
                                           .is_resume = allocation->is_resume,
                                           .resume_pod = allocation->resume_pod}};

    api_execute(&allocation->task, &command);
}

void allocation_start(struct allocation *allocation)
{
    if (!api_refuse_gone(&allocation->task, allocation->call_sid))
        allocation_ask(allocation);
}

/* Its time was over when it was asked for: it has ended with this request. */
static void allocation_note_wait_over(const struct api_task *task, const struct ended_wait *wait)
{
    struct ended_wait ended = *wait;

    ended.how = WAIT_TIMED_OUT;
    store_log_wait_ended(&ended, ALLOCATION_WAIT_OVER);
    instruments_waited(task->api->instruments, ended.how, ended.waited_ms);
}

static void allocation_note_refusal(const struct allocation *allocation, const struct result *result)
{
    const struct api_task *task = &allocation->task;
    bool has_fallback = allocation->webhook && task->api->settings.fallback_ws_url[0];
    bool is_over = result->allocate.has_ended;
    struct strbuf line;

    instruments_allocated(task->api->instruments, "", ALLOCATION_NO_PODS);
    instruments_refused(task->api->instruments, api_refusal_reason(result->allocate.refusal));
    history_refused(task->api->history);
    if (is_over)
        allocation_note_wait_over(task, &(struct ended_wait){.call_sid = allocation->call_sid,
                                                             .merchant_id = allocation->merchant_id,
                                                             .provider = allocation->owner,
                                                             .waited_ms = result->allocate.waited_ms});
    else if (result->allocate.is_full)
        instruments_waited(task->api->instruments, WAIT_FULL, 0);
    strbuf_init(&line, http_request_arena(task->request), REFUSAL_LINE_MAX);
    api_write_refusal(&line, result->allocate.refusal);
    log_warn(
        ALLOCATION_NO_PODS_ERROR, log_str("call_sid", allocation->call_sid),
        log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
        log_str("chain", strbuf_slice(&line).data),
        log_str("line", is_over                    ? ALLOCATION_WAIT_OVER
                        : result->allocate.is_full ? "full: HOLD_MAX_CALLS, or max_waiting of its merchant"
                                                   : NULL),
        log_str("answer", has_fallback ? "fallback URL" : "refused"),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
}

void allocation_note_timed_out(const struct allocation *allocation, const struct kept_call *kept)
{
    const struct api_task *task = &allocation->task;

    instruments_allocated(task->api->instruments, "", ALLOCATION_NO_PODS);
    instruments_refused(task->api->instruments, CALL_REFUSED_BUSY);
    history_refused(task->api->history);
    if (kept->ended_now)
        allocation_note_wait_over(
            task, &(struct ended_wait){.call_sid = kept->call.call_sid,
                                       .merchant_id = kept->call.merchant_id,
                                       .provider = kept->call.provider,
                                       .waited_ms = kept->call.until_ms - kept->call.since_ms});
    log_warn(
        ALLOCATION_NO_PODS_ERROR, log_str("call_sid", allocation->call_sid),
        log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
        log_str("line", ALLOCATION_WAIT_OVER), log_str("answer", "refused"),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
}

/* Whoever asks again is in the line already, and logged. */
static void allocation_note_waiting(const struct allocation *allocation, const struct result *result)
{
    const struct api_task *task = &allocation->task;
    const struct waiting_call *waiting = &result->allocate.waiting;

    if (!result->allocate.has_joined)
        return;
    log_info(
        "no pod is free: the call waits", log_str("call_sid", allocation->call_sid),
        log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
        log_num("position", (int64_t)waiting->position),
        log_num("seconds", (int64_t)((waiting->until_ms - waiting->since_ms) / 1000)),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
}

static void allocation_note_pod(const struct allocation *allocation, const struct result *result)
{
    const struct api_task *task = &allocation->task;
    const struct call_info *call = &result->allocate.call;
    bool was_existing = result->allocate.was_existing;
    bool has_waited = result->allocate.was_taken;

    instruments_allocated(task->api->instruments, call->pool,
                          was_existing ? ALLOCATION_EXISTING : ALLOCATION_SUCCESS);
    if (has_waited)
        instruments_waited(task->api->instruments, WAIT_GRANTED, result->allocate.waited_ms);
    log_info(
        allocation->is_resume ? "call resumes"
        : was_existing        ? "call has its pod already"
        : has_waited          ? "call allocated after a wait"
                              : "call allocated",
        log_str("call_sid", allocation->call_sid), log_str("pod", call->pod), log_str("pool", call->pool),
        log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
        has_waited ? log_num("waited_ms", (int64_t)result->allocate.waited_ms) : log_str("waited_ms", NULL),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)),
        log_str("traceparent", traceparent_text(task->request)), log_num("duration_us", api_task_us(task)));
}

void allocation_note(const struct allocation *allocation, const struct result *result)
{
    if (result->outcome == OUTCOME_OK)
        allocation_note_pod(allocation, result);
    else if (result->outcome == OUTCOME_NO_PODS)
        allocation_note_refusal(allocation, result);
    else if (result->outcome == OUTCOME_WAITING)
        allocation_note_waiting(allocation, result);
    if (result->allocate.merchant_unreadable)
        log_warn("merchant's configuration cannot be read: the default chain was used",
                 log_str("merchant", allocation->merchant_id), log_str("call_sid", allocation->call_sid));
}

void allocation_note_failure(const struct allocation *allocation, int err)
{
    const struct api_task *task = &allocation->task;

    instruments_allocated(task->api->instruments, "", ALLOCATION_STORAGE_ERROR);
    instruments_refused(task->api->instruments, CALL_REFUSED_STORE);
    log_error("call not allocated: the store cannot answer", log_str("call_sid", allocation->call_sid),
              log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
              log_str("cause", store_error_text(err)), log_str("key", api_key_name(task->request)),
              log_str("request_id", http_request_id(task->request)),
              log_str("traceparent", traceparent_text(task->request)),
              log_num("duration_us", api_task_us(task)));
}

void allocation_write_url(const struct allocation *allocation, const struct result *result,
                          struct strbuf *buf)
{
    const struct api_settings *settings = &allocation->task.api->settings;
    bool is_held = result->outcome == OUTCOME_WAITING;
    char ticket[API_TICKET_SIZE] = "";
    const struct ws_url_values values = {
        .ticket = ticket,
        .pod = is_held ? "" : result->allocate.call.pod,
        .provider = allocation->provider,
        .template = allocation->template,
        .flow = allocation->flow,
        .call_sid = allocation->call_sid,
        .merchant = allocation->merchant_id,
    };

    if (settings->make_ticket) {
        struct strbuf path;

        strbuf_init(&path, buf->arena, WS_URL_MAX);
        settings->make_ticket(settings->make_ticket_arg, allocation->call_sid, values.pod,
                              ws_url_path(allocation->task.api->ws_url, &values, &path), ticket);
    }
    if (is_held)
        ws_url_write_hold(allocation->task.api->ws_url, &values, buf);
    else
        ws_url_write(allocation->task.api->ws_url, &values, buf);
}

void allocation_retry_later(const struct allocation *allocation)
{
    http_response_header(allocation->task.request, "Retry-After", "5");
}
