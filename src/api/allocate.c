/*
 * allocate.c - POST /api/v1/allocate.
 */
#include "api/allocation.h"
#include "base/clock.h"

/* What an ordinary answer needs, so that the buffer need not grow. */
enum { ALLOCATE_ANSWER_SIZE = 768 };

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

    if (!allocation_admit(arg, request))
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
