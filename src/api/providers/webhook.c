/*
 * webhook.c - a provider asks where a call shall go.
 *
 * Providers do not read error bodies; they play what the answer says to the caller. So whatever goes wrong,
 * the answer is one that the provider can carry out: a fallback URL, or a spoken sentence and a hangup.
 */
#include "api/providers/webhook.h"

#include "api/providers/verify.h"
#include "base/clock.h"
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

void webhook_refuse(const struct allocation *allocation, const char *error)
{
    struct http_request *request = allocation->task.request;

    if (log_limit_passes(verify_log_kind(allocation->task.api, allocation->webhook), LOG_WARN))
        log_warn("webhook refused", log_str("provider", allocation->webhook->name), log_str("error", error),
                 log_str("call_sid", allocation->call_sid), log_str("peer", http_request_peer(request)),
                 log_str("request_id", http_request_id(request)));
    webhook_answer_failure(allocation, allocation->webhook->malformed_status, error, "bad_request");
}

static void webhook_answer_url(const struct allocation *allocation, struct slice url, struct slice after)
{
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(allocation->task.request), API_ANSWER_MAX);
    allocation->webhook->render_stream(&buf, url, after);
    api_reply(allocation->task.request, 200, allocation->webhook->content_type, &buf);
}

void webhook_answer_no_pod(const struct allocation *allocation, const char *error, const char *code)
{
    const char *fallback = allocation->task.api->settings.fallback_ws_url;
    int status = allocation->webhook->failure_status;

    if (fallback[0]) {
        /* The end of that stream is the end of the call: nobody here knows how it went on. */
        webhook_answer_url(allocation, slice_of(fallback), SLICE(""));
        return;
    }
    if (status == 503)
        allocation_retry_later(allocation);
    webhook_answer_failure(allocation, status, error, code);
}

static void append_field(struct strbuf *buf, const char *name, const char *value)
{
    strbuf_append_char(buf, '&');
    strbuf_append_str(buf, name);
    strbuf_append_char(buf, '=');
    percent_encode(buf, slice_of(value));
}

void webhook_write_after(const struct allocation *allocation, const char *pod, unsigned tries,
                         struct strbuf *buf)
{
    strbuf_append_str(buf, allocation->task.api->settings.public_base_url);
    strbuf_append_str(buf, "/api/v1/");
    strbuf_append_str(buf, allocation->webhook->name);
    strbuf_append_str(buf, "/after?flow=");
    percent_encode(buf, slice_of(allocation->flow));
    append_field(buf, "template", allocation->template);
    if (allocation->merchant_id[0])
        append_field(buf, "merchant_id", allocation->merchant_id);
    if (pod[0])
        append_field(buf, "pod", pod);
    if (tries > 0) {
        strbuf_append_str(buf, "&try=");
        strbuf_append_u64(buf, tries);
    }
}

void webhook_answer_stream(const struct allocation *allocation, const struct result *result)
{
    struct http_request *request = allocation->task.request;
    const char *pod = result->outcome == OUTCOME_WAITING ? "" : result->allocate.call.pod;
    struct strbuf url, after;

    strbuf_init(&url, http_request_arena(request), WS_URL_MAX);
    strbuf_init(&after, http_request_arena(request), WS_URL_MAX);
    allocation_write_url(allocation, result, &url);
    if (allocation->task.api->keeps_callers)
        webhook_write_after(allocation, pod, 0, &after);
    if (strbuf_failed(&url) || strbuf_failed(&after))
        api_reply_no_memory(request);
    else
        webhook_answer_url(allocation, strbuf_slice(&url), strbuf_slice(&after));
}

/*
 * A second; or, if this process stops, until a second after it has gone: whoever asks before the next one
 * listens finds nobody.
 */
static uint64_t webhook_pause_s(const struct api *api)
{
    uint64_t now_ms = clock_elapsed_ms();

    if (!api->is_departing || api->departs_at_ms <= now_ms)
        return 1;
    return 1 + (api->departs_at_ms - now_ms + 999) / 1000;
}

void webhook_answer_later(const struct allocation *allocation, unsigned tries)
{
    struct http_request *request = allocation->task.request;
    struct strbuf url, buf;

    strbuf_init(&url, http_request_arena(request), WS_URL_MAX);
    webhook_write_after(allocation, allocation->resume_pod ? allocation->resume_pod : "", tries, &url);
    strbuf_init(&buf, http_request_arena(request), API_ANSWER_MAX);
    allocation->webhook->render_later(&buf, strbuf_slice(&url), webhook_pause_s(allocation->task.api));
    buf.failed |= strbuf_failed(&url);
    api_reply(request, 200, allocation->webhook->content_type, &buf);
}

static void api_webhook_stored(struct api_task *task, const struct result *result)
{
    struct allocation *allocation = CONTAINER_OF(task, struct allocation, task);

    allocation_note(allocation, result);
    switch (result->outcome) {
    case OUTCOME_OK:
    case OUTCOME_WAITING:
        webhook_answer_stream(allocation, result);
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

struct allocation *webhook_begin(struct api *api, struct http_request *request,
                                 const struct provider *provider, struct params *ret_params)
{
    struct allocation *allocation;

    /* In this order: what a stranger forges must not use up what the provider at the same address may ask. */
    if (!verify_webhook(api, request, provider))
        return NULL;
    if (!allocation_admit(api, request))
        return NULL;
    allocation = api_task_new(api, request, sizeof(*allocation), api_webhook_stored);
    if (!allocation)
        return NULL;
    allocation->task.failed = api_webhook_failed;
    allocation->webhook = provider;
    allocation->provider = provider->name;
    allocation->owner = provider->name;
    params_read_webhook(ret_params, request, provider->takes_json);
    allocation->call_sid = params_call_sid(ret_params, provider->sid_field);
    return allocation;
}

bool webhook_read(struct allocation *allocation, struct params *params)
{
    const struct provider *provider = allocation->webhook;

    /*
     * The operator wrote the query into the provider's console. The body is the provider's, and may hold what
     * the caller chose: an app that calls through Twilio names parameters as it likes, and must not name a
     * merchant.
     */
    params->query_first = true;
    if (!provider->body_has_settings)
        params->form = (struct form){NULL, 0};
    params_check_segment(params, provider->sid_field, allocation->call_sid);
    allocation_read(allocation, params);
    if (!params->error)
        return true;
    webhook_refuse(allocation, params->error);
    return false;
}

static void api_webhook(struct api *api, struct http_request *request, const struct provider *provider)
{
    struct params params;
    struct allocation *allocation = webhook_begin(api, request, provider, &params);

    if (!allocation || !webhook_read(allocation, &params))
        return;
    /* Its stream at the gateway keeps its place in line; where there can be none, it is refused at once. */
    allocation->waits = api->keeps_callers;
    allocation->awaits_stream = api->keeps_callers;
    if (verify_is_on(api, provider) &&
        finished_calls_has(api->finished[provider->secret], allocation->call_sid))
        verify_refuse_replay(api, request, provider, allocation->call_sid);
    else if (api->is_departing && provider->render_later)
        webhook_answer_later(allocation, 0); /* the next process gives it a pod */
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
