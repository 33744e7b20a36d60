/*
 * webhook.c - a provider asks where a call shall go.
 *
 * Providers do not read error bodies; they play what the answer says to the caller. So whatever goes wrong,
 * the answer is one that the provider can carry out: a fallback URL, or a spoken sentence and a hangup.
 */
#include "api/allocation.h"
#include "api/providers/verify.h"
#include "base/log.h"
#include "base/log_limit.h"

static void webhook_answer_failure(const struct allocation *allocation, int status, const char *error,
                                   const char *code)
{
    const struct api_task *task = &allocation->task;
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(task->request), API_ANSWER_MAX);
    allocation->webhook->render_failure(&buf, task->api->settings.busy_message, error, code);
    api_reply(task->request, status, allocation->webhook->content_type, &buf);
}

static void webhook_refuse(const struct allocation *allocation, const char *error)
{
    struct http_request *request = allocation->task.request;

    if (log_limit_passes(verify_log_kind(allocation->task.api, allocation->webhook), LOG_WARN))
        log_warn("webhook refused", log_str("provider", allocation->webhook->name), log_str("error", error),
                 log_str("call_sid", allocation->call_sid), log_str("peer", http_request_peer(request)),
                 log_str("request_id", http_request_id(request)));
    webhook_answer_failure(allocation, allocation->webhook->malformed_status, error, "bad_request");
}

static void webhook_answer_url(const struct allocation *allocation, struct slice url)
{
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(allocation->task.request), API_ANSWER_MAX);
    allocation->webhook->render_stream(&buf, url);
    api_reply(allocation->task.request, 200, allocation->webhook->content_type, &buf);
}

/* No pod: the call is given the fallback URL rather than dropped, if there is one. */
static void webhook_answer_no_pod(const struct allocation *allocation, const char *error, const char *code)
{
    const char *fallback = allocation->task.api->settings.fallback_ws_url;
    int status = allocation->webhook->failure_status;

    if (fallback[0]) {
        webhook_answer_url(allocation, slice_of(fallback));
        return;
    }
    if (status == 503)
        allocation_retry_later(allocation);
    webhook_answer_failure(allocation, status, error, code);
}

static void api_webhook_stored(struct api_task *task, const struct result *result)
{
    struct allocation *allocation = CONTAINER_OF(task, struct allocation, task);
    struct strbuf url;

    allocation_note(allocation, result);
    switch (result->outcome) {
    case OUTCOME_OK:
        strbuf_init(&url, http_request_arena(task->request), WS_URL_MAX);
        allocation_write_url(allocation, result, &url);
        if (strbuf_failed(&url))
            api_reply_no_memory(task->request);
        else
            webhook_answer_url(allocation, strbuf_slice(&url));
        break;
    case OUTCOME_NO_PODS:
        webhook_answer_no_pod(allocation, ALLOCATION_NO_PODS_ERROR, "no_pods");
        break;
    case OUTCOME_FORBIDDEN:
        verify_refuse_others(task->api, task->request, allocation->webhook, allocation->call_sid);
        break;
    case OUTCOME_NOT_FOUND:
    case OUTCOME_INVALID:
    case OUTCOME_CONFLICT:
        webhook_refuse(allocation, result->error ? result->error : "not found");
        break;
    }
}

static void api_webhook_failed(struct api_task *task, int err)
{
    struct allocation *allocation = CONTAINER_OF(task, struct allocation, task);

    allocation_note_failure(allocation, err);
    webhook_answer_no_pod(allocation, "store unavailable", "unavailable");
}

static void api_webhook(struct api *api, struct http_request *request, const struct provider *provider)
{
    struct allocation *allocation;
    struct params params;

    /* In this order: what a stranger forges must not use up what the provider at the same address may ask. */
    if (!verify_webhook(api, request, provider))
        return;
    if (!allocation_admit(api, request))
        return;
    allocation = api_task_new(api, request, sizeof(*allocation), api_webhook_stored);
    if (!allocation)
        return;
    allocation->task.failed = api_webhook_failed;
    allocation->webhook = provider;
    allocation->provider = provider->name;
    allocation->owner = provider->name;
    params_read_webhook(&params, request, provider->takes_json);
    allocation->call_sid = params_call_sid(&params, provider->sid_field);
    /*
     * The operator wrote the query into the provider's console. The body is the provider's, and may hold what
     * the caller chose: an app that calls through Twilio names parameters as it likes, and must not name a
     * merchant.
     */
    params.query_first = true;
    if (!provider->body_has_settings)
        params.form = (struct form){NULL, 0};
    params_check_segment(&params, provider->sid_field, allocation->call_sid);
    allocation_read(allocation, &params);
    if (params.error)
        webhook_refuse(allocation, params.error);
    else if (verify_is_on(api, provider) &&
             finished_calls_has(api->finished[provider->secret], allocation->call_sid))
        verify_refuse_replay(api, request, provider, allocation->call_sid);
    else
        allocation_start(allocation);
}

void api_twilio(struct http_request *request, void *arg)
{
    api_webhook(arg, request, &provider_twilio);
}

void api_plivo(struct http_request *request, void *arg)
{
    api_webhook(arg, request, &provider_plivo);
}

void api_exotel(struct http_request *request, void *arg)
{
    api_webhook(arg, request, &provider_exotel);
}
