/*
 * allocate.c - POST /api/v1/allocate, and the parts of an allocation that webhooks share with it.
 *
 * The shared parts (allocation_*) read the parameters, give the command to the store, log and
 * count the result, and write the WebSocket URL.
 */
#include "api/allocation.h"
#include "base/clock.h"
#include "base/log.h"

enum {
    ALLOCATE_ANSWER_SIZE = 768, /* what an ordinary answer needs, so that the buffer need not grow */
    REFUSAL_LINE_MAX = 8 * 1024,
};

void allocation_read(struct allocation *allocation, struct params *params)
{
    allocation->merchant_id = params_merchant(params);
    allocation->flow = params_label(params, "flow", "v2");
    allocation->template = params_label(params, "template", provider_default_template(allocation->provider));
    params_check_segment(params, "merchant_id", allocation->merchant_id);
    params_check_segment(params, "template", allocation->template);
}

void allocation_start(struct allocation *allocation)
{
    struct command command = {.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = allocation->call_sid,
                                           .merchant_id = allocation->merchant_id,
                                           .provider = allocation->owner,
                                           .is_webhook = allocation->webhook != NULL}};

    if (api_refuse_gone(&allocation->task, allocation->call_sid))
        return;
    api_execute(&allocation->task, &command);
}

static void allocation_note_refusal(const struct allocation *allocation, const struct result *result)
{
    const struct api_task *task = &allocation->task;
    bool has_fallback = allocation->webhook && task->api->settings.fallback_ws_url[0];
    struct strbuf line;

    instruments_allocated(task->api->instruments, "", ALLOCATION_NO_PODS);
    strbuf_init(&line, http_request_arena(task->request), REFUSAL_LINE_MAX);
    api_write_refusal(&line, result->allocate.refusal);
    log_warn(ALLOCATION_NO_PODS_ERROR, log_str("call_sid", allocation->call_sid),
             log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
             log_str("chain", strbuf_slice(&line).data),
             log_str("answer", has_fallback ? "fallback URL" : "refused"),
             log_str("key", api_key_name(task->request)),
             log_str("request_id", http_request_id(task->request)),
             log_num("duration_us", api_task_us(task)));
}

void allocation_note(const struct allocation *allocation, const struct result *result)
{
    const struct api_task *task = &allocation->task;
    const struct call_info *call = &result->allocate.call;
    bool was_existing = result->allocate.was_existing;

    if (result->outcome == OUTCOME_OK) {
        instruments_allocated(task->api->instruments, call->pool,
                              was_existing ? ALLOCATION_EXISTING : ALLOCATION_SUCCESS);
        log_info(was_existing ? "call has its pod already" : "call allocated",
                 log_str("call_sid", allocation->call_sid), log_str("pod", call->pod),
                 log_str("pool", call->pool), log_str("merchant", allocation->merchant_id),
                 log_str("provider", allocation->owner), log_str("key", api_key_name(task->request)),
                 log_str("request_id", http_request_id(task->request)),
                 log_num("duration_us", api_task_us(task)));
    } else if (result->outcome == OUTCOME_NO_PODS) {
        allocation_note_refusal(allocation, result);
    }
    if (result->allocate.merchant_unreadable)
        log_warn("merchant's configuration cannot be read: the default chain was used",
                 log_str("merchant", allocation->merchant_id), log_str("call_sid", allocation->call_sid));
}

void allocation_note_failure(const struct allocation *allocation, int err)
{
    const struct api_task *task = &allocation->task;

    instruments_allocated(task->api->instruments, "", ALLOCATION_STORAGE_ERROR);
    log_warn("call not allocated: the store cannot answer", log_str("call_sid", allocation->call_sid),
             log_str("merchant", allocation->merchant_id), log_str("provider", allocation->owner),
             log_str("cause", strerror(-err)), log_str("key", api_key_name(task->request)),
             log_str("request_id", http_request_id(task->request)),
             log_num("duration_us", api_task_us(task)));
}

void allocation_write_url(const struct allocation *allocation, const struct result *result,
                          struct strbuf *buf)
{
    const struct api_settings *settings = &allocation->task.api->settings;
    char ticket[API_TICKET_SIZE] = "";
    const struct ws_url_values values = {
        .ticket = ticket,
        .pod = result->allocate.call.pod,
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
    ws_url_write(allocation->task.api->ws_url, &values, buf);
}

void allocation_retry_later(const struct allocation *allocation)
{
    http_response_header(allocation->task.request, "Retry-After", "5");
}

/*
 * The hottest answer of all is put together from literals: names of pods and pools need no escaping, because
 * names.h allows nothing that JSON escapes.
 */
static void api_allocate_write(const struct allocation *allocation, const struct result *result,
                               struct strbuf *buf)
{
    const struct call_info *call = &result->allocate.call;
    char time[CLOCK_TEXT_MAX];
    struct strbuf url;

    strbuf_init(&url, buf->arena, WS_URL_MAX);
    allocation_write_url(allocation, result, &url);
    if (strbuf_failed(&url)) {
        buf->failed = true;
        return;
    }
    clock_format_seconds(call->allocated_at_ms, time);
    if (!strbuf_grow(buf, ALLOCATE_ANSWER_SIZE))
        return;
    APPEND_LITERAL(buf, "{\"success\":true,\"pod_name\":\"");
    strbuf_append_str(buf, call->pod);
    APPEND_LITERAL(buf, "\",\"ws_url\":\"");
    json_escape(buf, strbuf_slice(&url));
    APPEND_LITERAL(buf, "\",\"source_pool\":\"");
    strbuf_append_str(buf, call->pool);
    APPEND_LITERAL(buf, "\",\"allocated_at\":\"");
    strbuf_append_str(buf, time);
    APPEND_LITERAL(buf, "\",\"was_existing\":");
    strbuf_append_str(buf, result->allocate.was_existing ? "true}" : "false}");
}

static void api_allocate_stored(struct api_task *task, const struct result *result)
{
    struct allocation *allocation = CONTAINER_OF(task, struct allocation, task);
    struct strbuf buf;

    allocation_note(allocation, result);
    switch (result->outcome) {
    case OUTCOME_OK:
        strbuf_init(&buf, http_request_arena(task->request), API_ANSWER_MAX);
        api_allocate_write(allocation, result, &buf);
        api_reply_json(task->request, 200, &buf);
        break;
    case OUTCOME_NO_PODS:
        allocation_retry_later(allocation);
        http_respond(
            task->request, 503, "application/json",
            SLICE("{\"success\":false,\"error\":\"" ALLOCATION_NO_PODS_ERROR "\",\"code\":\"no_pods\"}"));
        break;
    case OUTCOME_NOT_FOUND:
    case OUTCOME_INVALID:
    case OUTCOME_CONFLICT:
    case OUTCOME_FORBIDDEN:
        api_refuse_outcome(task->request, result, "not found");
        break;
    }
}

static void api_allocate_failed(struct api_task *task, int err)
{
    allocation_note_failure(CONTAINER_OF(task, struct allocation, task), err);
    api_reply_failure(task->request, err);
}

void api_allocate(struct http_request *request, void *arg)
{
    struct allocation *allocation;
    struct params params;
    const char *provider;

    if (!api_admit(arg, request))
        return;
    allocation = api_task_new(arg, request, sizeof(*allocation), api_allocate_stored);
    if (!allocation)
        return;
    allocation->task.failed = api_allocate_failed;
    params_read_json(&params, request);
    allocation->call_sid = params_call_sid(&params, "call_sid");
    provider = params_text(&params, "provider");
    /* Only what the client says makes a call a provider's. */
    allocation->owner = provider ? provider_spelling(provider) : "";
    allocation->provider = allocation->owner[0] ? provider : provider_twilio.name;
    if (!name_is_provider(allocation->provider, strlen(allocation->provider)))
        params_fail(&params, "provider may have only A-Z a-z 0-9 . _ -, and at most %d characters",
                    PROVIDER_MAX);
    params_check_segment(&params, "provider", allocation->provider);
    params_check_segment(&params, "call_sid", allocation->call_sid);
    allocation_read(allocation, &params);
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        allocation_start(allocation);
}
