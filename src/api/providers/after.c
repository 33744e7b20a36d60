/*
 * after.c - the stream of a call has ended, and its provider asks how the call goes on.
 *
 * The answers to a webhook name this URL (see webhook_write_after). Calls end on purpose most of the time:
 * then their end is recorded, and the answer is a hangup. A call without a recorded end was cut off: its
 * router has gone, or its pod broke. It gets its pod again, or another one, or waits for one.
 *
 * Exotel can be told nothing in an answer. In its flow an applet behind the stream asks, and the status
 * decides: 302 leads back to the stream, which asks for its URL; 200 leads on to the end.
 */
#include "api/providers/verify.h"
#include "api/providers/webhook.h"
#include "base/log.h"

enum { EXOTEL_GOES_ON = 302 };

static struct allocation *after_of(struct api_task *task)
{
    return CONTAINER_OF(task, struct allocation, task);
}

static bool is_exotel(const struct allocation *allocation)
{
    return !allocation->webhook->render_later;
}

static void after_note(const struct allocation *allocation, enum resume_result result)
{
    struct http_request *request = allocation->task.request;

    instruments_resumed(allocation->task.api->instruments, allocation->webhook->name, result);
    log_info("the stream of a call has ended, and its provider asks how it goes on",
             log_str("call_sid", allocation->call_sid), log_str("result", resume_result_name(result)),
             log_str("provider", allocation->webhook->name), log_str("pod", allocation->resume_pod),
             log_str("request_id", http_request_id(request)),
             log_str("traceparent", traceparent_text(request)));
}

static void after_answer(const struct allocation *allocation, int status, const struct strbuf *buf)
{
    api_reply(allocation->task.request, status, allocation->webhook->content_type, buf);
}

static void after_begin_answer(const struct allocation *allocation, struct strbuf *buf)
{
    strbuf_init(buf, http_request_arena(allocation->task.request), API_ANSWER_MAX);
}

/* For Exotel it is the other way at its fork. */
static void after_answer_exotel(const struct allocation *allocation, bool goes_on)
{
    struct strbuf buf;

    after_begin_answer(allocation, &buf);
    allocation->webhook->render_hangup(&buf);
    after_answer(allocation, goes_on ? EXOTEL_GOES_ON : 200, &buf);
}

static void after_answer_hangup(const struct allocation *allocation)
{
    struct strbuf buf;

    after_note(allocation, RESUME_ENDED);
    after_begin_answer(allocation, &buf);
    allocation->webhook->render_hangup(&buf);
    after_answer(allocation, 200, &buf);
}

static void after_answer_stream(const struct allocation *allocation, const struct result *result)
{
    bool was_known = result->allocate.was_existing || result->allocate.was_taken;

    after_note(allocation, result->outcome == OUTCOME_WAITING ? RESUME_WAITING
                           : was_known                        ? RESUME_RESUMED
                                                              : RESUME_ALLOCATED);
    if (is_exotel(allocation))
        after_answer_exotel(allocation, true);
    else
        webhook_answer_stream(allocation, result);
}

static void after_answer_no_pod(const struct allocation *allocation, enum resume_result result,
                                const char *error, const char *code)
{
    after_note(allocation, result);
    if (is_exotel(allocation))
        after_answer_exotel(allocation, false);
    else
        webhook_answer_no_pod(allocation, error, code);
}

/* The provider asks the same again in a moment. */
static void after_answer_later(const struct allocation *allocation, unsigned tries)
{
    after_note(allocation, RESUME_LATER);
    if (is_exotel(allocation))
        after_answer_exotel(allocation, true);
    else
        webhook_answer_later(allocation, tries);
}

static void after_answer_ended(const struct allocation *allocation, const struct result *result)
{
    if (result->allocate.has_ended && result->allocate.why == FINISH_TIMED_OUT)
        after_answer_no_pod(allocation, RESUME_TIMED_OUT, "the call has waited for too long", "no_pods");
    else
        after_answer_hangup(allocation);
}

static void api_after_stored(struct api_task *task, const struct result *result)
{
    const struct allocation *allocation = after_of(task);

    allocation_note(allocation, result);
    switch (result->outcome) {
    case OUTCOME_OK:
    case OUTCOME_WAITING:
        after_answer_stream(allocation, result);
        break;
    case OUTCOME_NOT_FOUND:
        after_answer_ended(allocation, result);
        break;
    case OUTCOME_NO_PODS:
        after_answer_no_pod(allocation, result->allocate.has_ended ? RESUME_TIMED_OUT : RESUME_NO_PODS,
                            ALLOCATION_NO_PODS_ERROR, "no_pods");
        break;
    case OUTCOME_CONFLICT:
        after_answer_no_pod(allocation, RESUME_TOO_OFTEN, result->error, "conflict");
        break;
    case OUTCOME_FORBIDDEN:
        verify_refuse_others(task->api, task->request, allocation->webhook, allocation->call_sid);
        break;
    case OUTCOME_INVALID:
        webhook_refuse(allocation, result->error);
        break;
    }
}

/* Exotel cannot count its tries: it is sent back to the stream once, and this router remembers the call. */
static bool after_may_try_again(const struct allocation *allocation)
{
    struct finished_calls *sent_back = allocation->task.api->sent_back;

    if (!is_exotel(allocation))
        return allocation->tries < WEBHOOK_TRIES_MAX;
    if (finished_calls_has(sent_back, allocation->call_sid))
        return false;
    finished_calls_add(sent_back, allocation->call_sid);
    return true;
}

static void api_after_failed(struct api_task *task, int err)
{
    const struct allocation *allocation = after_of(task);

    allocation_note_failure(allocation, err);
    if (after_may_try_again(allocation))
        after_answer_later(allocation, allocation->tries + 1);
    else
        after_answer_no_pod(allocation, RESUME_GIVEN_UP, "store unavailable", "unavailable");
}

static void after_remember(const struct allocation *allocation)
{
    if (verify_is_on(allocation->task.api, allocation->webhook))
        finished_calls_add(allocation->task.api->finished[allocation->webhook->secret], allocation->call_sid);
}

/* As a status callback: see status.c. */
static void api_after_released(struct api_task *task, const struct result *result)
{
    const struct allocation *allocation = after_of(task);

    if (result->outcome == OUTCOME_FORBIDDEN) {
        verify_refuse_others(task->api, task->request, allocation->webhook, allocation->call_sid);
        return;
    }
    after_remember(allocation);
    api_note_release(task, result, allocation->call_sid, API_STATUS_CALLBACK,
                     verify_log_kind(task->api, allocation->webhook));
    after_answer_hangup(allocation);
}

static void api_after_not_released(struct api_task *task, int err)
{
    const struct allocation *allocation = after_of(task);

    after_remember(allocation);
    api_note_release_failure(task, err, allocation->call_sid, API_STATUS_CALLBACK);
    after_answer_hangup(allocation);
}

static void after_release(struct allocation *allocation)
{
    struct api_task *task = &allocation->task;
    struct command command = {.type = COMMAND_RELEASE};

    task->stored = api_after_released;
    task->failed = api_after_not_released;
    command.release.call_sid = allocation->call_sid;
    command.release.provider = allocation->webhook->name;
    command.release.why = FINISH_CLOSED;
    api_execute(task, &command);
}

static void after_resume(struct allocation *allocation)
{
    allocation->task.stored = api_after_stored;
    allocation_start(allocation);
}

static void api_after_looked(struct api_task *task, const struct result *result)
{
    struct allocation *allocation = after_of(task);

    if (result->outcome == OUTCOME_OK || result->outcome == OUTCOME_WAITING)
        after_resume(allocation);
    else
        after_answer_hangup(allocation);
}

/*
 * The provider has said that the call is over. Whoever asks then has most likely kept an old webhook, and
 * must not get a new pod for it; but a call that lives goes on.
 */
static void after_look(struct allocation *allocation)
{
    struct api_task *task = &allocation->task;
    const struct command command = {.type = COMMAND_CALL, .call = {.call_sid = allocation->call_sid}};

    task->stored = api_after_looked;
    api_execute(task, &command);
}

static const char *after_read_pod(struct params *params)
{
    const char *pod = params_text(params, "pod");

    return pod && pod[0] ? params_pod_filter(params, "pod") : NULL;
}

static void api_after(struct api *api, struct http_request *request, const struct provider *provider)
{
    struct params params;
    struct allocation *allocation = webhook_begin(api, request, provider, &params);
    const char *status;
    bool ends_call;

    if (!allocation)
        return;
    allocation->task.failed = api_after_failed;
    allocation->is_resume = true;
    allocation->waits = true;
    allocation->awaits_stream = true;
    ends_call = provider->ends_call(&params, &status);
    params.query_first = true;
    if (!provider->body_has_settings)
        params.form = (struct form){NULL, 0};
    allocation->resume_pod = after_read_pod(&params);
    allocation->tries = (unsigned)params_number(&params, "try", 0, WEBHOOK_TRIES_MAX, 0);
    if (!webhook_read(allocation, &params))
        return;
    if (ends_call)
        after_release(allocation);
    else if (!api->keeps_callers) /* RESCUE was switched off: a call ends with its stream */
        after_answer_hangup(allocation);
    else if (api->is_departing && !is_exotel(allocation)) /* Exotel's streams last until nobody listens */
        after_answer_later(allocation, allocation->tries);
    else if (verify_is_on(api, provider) &&
             finished_calls_has(api->finished[provider->secret], allocation->call_sid))
        after_look(allocation);
    else
        after_resume(allocation);
}

void api_twilio_after(struct http_request *request, void *arg)
{
    api_after(arg, request, &provider_twilio);
}

void api_plivo_after(struct http_request *request, void *arg)
{
    api_after(arg, request, &provider_plivo);
}

void api_exotel_after(struct http_request *request, void *arg)
{
    api_after(arg, request, &provider_exotel);
}
