/*
 * status.c - a provider says what has become of a call.
 *
 * Whatever it says, the answer is 200: providers repeat what was refused, and nothing here gets better by
 * being said again. A call that is over is released; if the store cannot do that now, the call's lease does
 * it later, and the log and the metrics say so.
 */
#include "api/providers/verify.h"
#include "base/log_limit.h"

struct status_callback {
    struct api_task task;
    const struct provider *provider;
    const char *call_sid;
    const char *status;
};

static void status_answer(const struct status_callback *callback)
{
    const struct provider *provider = callback->provider;

    http_respond(callback->task.request, 200, provider->content_type, provider->status_answer);
}

/*
 * A webhook that comes again after this is refused: see over.h. Not for a call of others, which the provider
 * may get one day.
 */
static void status_remember(const struct status_callback *callback)
{
    if (verify_is_on(callback->task.api, callback->provider))
        finished_calls_add(callback->task.api->finished[callback->provider->secret], callback->call_sid);
}

static void status_ignore(const struct status_callback *callback, const char *error)
{
    struct http_request *request = callback->task.request;

    if (error && log_limit_passes(verify_log_kind(callback->task.api, callback->provider), LOG_WARN))
        log_warn("status callback ignored", log_str("provider", callback->provider->name),
                 log_str("call_sid", callback->call_sid), log_str("error", error),
                 log_str("peer", http_request_peer(request)),
                 log_str("request_id", http_request_id(request)));
    if (!error)
        log_debug("call goes on", log_str("call_sid", callback->call_sid),
                  log_str("status", callback->status), log_str("provider", callback->provider->name),
                  log_str("request_id", http_request_id(request)));
    status_answer(callback);
}

static void api_status_callback_stored(struct api_task *task, const struct result *result)
{
    const struct status_callback *callback = CONTAINER_OF(task, struct status_callback, task);

    if (result->outcome == OUTCOME_FORBIDDEN) {
        instruments_webhook_refused(task->api->instruments, callback->provider->name, WEBHOOK_OF_OTHERS);
        status_ignore(callback, result->error);
        return;
    }
    status_remember(callback);
    api_note_release(task, result, callback->call_sid, API_STATUS_CALLBACK,
                     verify_log_kind(task->api, callback->provider));
    status_answer(callback);
}

static void api_status_callback_failed(struct api_task *task, int err)
{
    const struct status_callback *callback = CONTAINER_OF(task, struct status_callback, task);

    status_remember(callback);
    api_note_release_failure(task, err, callback->call_sid, API_STATUS_CALLBACK);
    status_answer(callback);
}

static void api_status_callback(struct api *api, struct http_request *request,
                                const struct provider *provider)
{
    struct command command = {.type = COMMAND_RELEASE};
    struct status_callback *callback;
    struct params params;
    bool ends_call;

    if (!verify_webhook(api, request, provider))
        return;
    callback = api_task_new(api, request, sizeof(*callback), api_status_callback_stored);
    if (!callback)
        return;
    callback->task.failed = api_status_callback_failed;
    callback->provider = provider;
    params_read_webhook(&params, request, provider->takes_json);
    callback->call_sid = params_call_sid(&params, provider->sid_field);
    ends_call = provider->ends_call(&params, &callback->status);
    if (params.error || !ends_call) {
        status_ignore(callback, params.error);
        return;
    }
    command.release.call_sid = callback->call_sid;
    command.release.provider = provider->name;
    command.release.why = FINISH_CLOSED;
    api_execute(&callback->task, &command);
}

void api_twilio_status(struct http_request *request, void *arg)
{
    api_status_callback(arg, request, &provider_twilio);
}

void api_plivo_status(struct http_request *request, void *arg)
{
    api_status_callback(arg, request, &provider_plivo);
}

void api_exotel_status(struct http_request *request, void *arg)
{
    api_status_callback(arg, request, &provider_exotel);
}
