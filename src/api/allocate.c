/*
 * allocate.c - POST /api/v1/allocate.
 */
#include "api/allocate_waits.h"
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

/* One request. The wait is used only if it has a wait_ms. */
struct allocate {
    struct allocation allocation;
    struct allocate_wait wait;
    struct keep_call kept; /* what the store is told of the call while the request is open */
    bool is_held;          /* it counts among the requests that wait on purpose */
};

static struct allocate *allocate_of(struct api_task *task)
{
    return CONTAINER_OF(CONTAINER_OF(task, struct allocation, task), struct allocate, allocation);
}

static void allocate_stop_waiting(struct allocate *allocate)
{
    allocate_waits_remove(allocate->allocation.task.api->allocate_waits, &allocate->wait);
}

/* The time of the store's answer is heard_at_ms: asking is a sign of life. */
static void allocate_answer_waiting(struct allocate *allocate, const struct result *result)
{
    const struct waiting_call *waiting = &result->allocate.waiting;
    struct http_request *request = allocate->allocation.task.request;
    struct json_writer json;
    struct strbuf buf;

    allocate_stop_waiting(allocate);
    api_reply_begin(request, &buf, &json);
    json_put_bool(&json, "success", true);
    json_put_bool(&json, "waiting", true);
    json_put_u64(&json, "position", waiting->position);
    json_put_u64(&json, "waited_seconds", api_seconds_between(waiting->since_ms, waiting->heard_at_ms));
    if (waiting->estimate_ms > 0)
        json_put_u64(&json, "estimated_wait_seconds", (waiting->estimate_ms + 999) / 1000);
    json_put_u64(&json, "retry_after_ms", ALLOCATE_WAIT_RETRY_MS);
    json_object_end(&json);
    api_reply_json(request, 202, &buf);
}

/* Beyond a quarter of all connections nobody is kept waiting: the client asks again by itself. */
static bool allocate_may_sleep(struct allocate *allocate)
{
    struct api *api = allocate->allocation.task.api;

    if (!allocate->wait.is_added || !allocate->allocation.task.allocated)
        return false;
    if (!allocate->is_held && !http_request_try_hold(allocate->allocation.task.request))
        return false;
    allocate->is_held = true;
    return allocate_waits_sleep(api->allocate_waits, &allocate->wait);
}

static void allocate_answer_no_pods(struct allocate *allocate)
{
    allocation_retry_later(&allocate->allocation);
    http_respond(
        allocate->allocation.task.request, 503, "application/json",
        SLICE("{\"success\":false,\"error\":\"" ALLOCATION_NO_PODS_ERROR "\",\"code\":\"no_pods\"}"));
}

static void api_allocate_stored(struct api_task *task, const struct result *result)
{
    struct allocate *allocate = allocate_of(task);
    struct strbuf buf;

    allocation_note(&allocate->allocation, result);
    if (result->outcome == OUTCOME_WAITING) {
        if (!allocate_may_sleep(allocate))
            allocate_answer_waiting(allocate, result);
        return;
    }
    allocate_stop_waiting(allocate);
    if (result->outcome != OUTCOME_OK) {
        if (result->outcome == OUTCOME_NO_PODS)
            allocate_answer_no_pods(allocate);
        else
            api_refuse_outcome(task->request, result, "not found");
        return;
    }
    strbuf_init(&buf, http_request_arena(task->request), API_ANSWER_MAX);
    api_allocate_write(&allocate->allocation, result, &buf);
    api_reply_json(task->request, 200, &buf);
}

static void api_allocate_failed(struct api_task *task, int err)
{
    struct allocate *allocate = allocate_of(task);

    /* Its call is in the line: a store that is away for a moment must not cost it its patience. */
    if (task->allocated && err != -ENOMEM && allocate_waits_retry(task->api->allocate_waits, &allocate->wait))
        return;
    allocate_stop_waiting(allocate);
    allocation_note_failure(&allocate->allocation, err);
    api_reply_failure(task->request, err);
}

static void api_allocate_gone(struct api_task *task)
{
    allocate_stop_waiting(allocate_of(task));
}

/* The last time before the answer: from now on nobody holds the call, and the answer has its place. */
static void allocate_ask_last(struct allocate *allocate)
{
    allocate->allocation.holder = NULL;
    allocate->allocation.task.stored = api_allocate_stored;
    allocation_ask(&allocate->allocation);
}

static void allocate_end_wait(struct allocate *allocate, const struct kept_call *kept)
{
    const struct api_task *task = &allocate->allocation.task;

    allocate_stop_waiting(allocate);
    if (kept->answer != KEEP_TIMED_OUT) {
        api_refuse(task->request, 409, "the call has ended");
        return;
    }
    allocation_note_timed_out(&allocate->allocation, kept);
    allocate_answer_no_pods(allocate);
}

static void api_allocate_kept(struct api_task *task, const struct result *result)
{
    struct allocate *allocate = allocate_of(task);
    const struct kept_call *kept = result->outcome == OUTCOME_OK ? &result->keep.calls[0] : NULL;

    switch (kept ? kept->answer : KEEP_UNKNOWN) {
    case KEEP_WAITING:
    case KEEP_REJOINED:
        if (!allocate->wait.is_added) /* a newer request has the call */
            allocate_answer_waiting(allocate, task->allocated);
        else if (!allocate_waits_sleep(task->api->allocate_waits, &allocate->wait))
            allocate_ask_last(allocate);
        break;
    case KEEP_ELSEWHERE: /* the same, at another router */
        allocate_answer_waiting(allocate, task->allocated);
        break;
    case KEEP_GRANTED:
        task->stored = api_allocate_stored;
        allocation_ask(&allocate->allocation);
        break;
    case KEEP_UNKNOWN:
        allocate_stop_waiting(allocate);
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        break;
    case KEEP_TIMED_OUT:
    case KEEP_ENDED:
        allocate_end_wait(allocate, kept);
        break;
    }
}

/* Asking for a pod again would begin a new wait for a call that somebody has released meanwhile. */
static void allocate_keep(struct allocate *allocate)
{
    struct api_task *task = &allocate->allocation.task;
    const struct waiting_call *waiting = &task->allocated->allocate.waiting;
    const struct command command = {
        .type = COMMAND_KEEP,
        .keep = {.calls = &allocate->kept, .count = 1, .holder = task->api->settings.identity}};

    allocate->kept = (struct keep_call){.call = {.call_sid = allocate->allocation.call_sid,
                                                 .merchant_id = waiting->merchant_id,
                                                 .provider = waiting->provider,
                                                 .since_ms = waiting->since_ms,
                                                 .until_ms = waiting->until_ms},
                                        .attempt = task->allocated->allocate.attempt};
    task->stored = api_allocate_kept;
    api_execute(task, &command);
}

static void api_allocate_wake(struct allocate_wait *wait, enum allocate_wake why)
{
    struct allocate *allocate = CONTAINER_OF(wait, struct allocate, wait);
    struct api_task *task = &allocate->allocation.task;

    if (why == WAKE_NOW) {
        allocate_answer_waiting(allocate, task->allocated);
        return;
    }
    /* A pod that is granted to a client that has gone would stand idle until its time is over. */
    if (api_undo_waiting(task))
        return;
    if (why == WAKE_LOOK)
        allocate_waits_sleep_on(task->api->allocate_waits, wait);
    else
        allocate_keep(allocate);
}

/* Most requests have neither, and this is the hottest one of all: that costs less than to look for each. */
static bool allocate_may_have_wait(const struct params *params)
{
    const cJSON *member;

    cJSON_ArrayForEach(member, params->json)
    {
        if (member->string[0] == 'w')
            return true;
    }
    return false;
}

static void allocate_read_wait(struct allocate *allocate, struct params *params)
{
    uint64_t wait_ms;
    bool waits, is_given;

    if (!allocate_may_have_wait(params))
        return;
    waits = params_boolean(params, "wait", &is_given);
    wait_ms = params_number(params, "wait_ms", 0, ALLOCATE_WAIT_MAX_MS, UINT64_MAX);
    allocate->allocation.waits = waits || wait_ms != UINT64_MAX;
    if (allocate->allocation.waits && is_given && !waits)
        params_fail(params, "wait is false, but there is a wait_ms");
    if (params->error || wait_ms == UINT64_MAX || wait_ms == 0)
        return;
    allocate->allocation.holder = allocate->allocation.task.api->settings.identity;
    allocate->wait.wake = api_allocate_wake;
    allocate->wait.until_ms = clock_elapsed_ms() + wait_ms;
}

/* From here on the store tells of the call, if there is a wait. */
static void allocate_start(struct allocate *allocate)
{
    struct allocation *allocation = &allocate->allocation;
    struct allocate_waits *waits = allocation->task.api->allocate_waits;

    if (api_refuse_gone(&allocation->task, allocation->call_sid))
        return;
    if (allocate->wait.wake)
        allocate_waits_add(waits, &allocate->wait, allocation->call_sid);
    if (!allocate->wait.is_added)
        allocation->holder = NULL;
    allocation_ask(allocation);
}

void api_allocate(struct http_request *request, void *arg)
{
    struct allocation *allocation;
    struct allocate *allocate;
    struct params params;
    const char *provider;

    if (!allocation_admit(arg, request))
        return;
    allocate = api_task_new(arg, request, sizeof(*allocate), api_allocate_stored);
    if (!allocate)
        return;
    allocation = &allocate->allocation;
    allocation->task.failed = api_allocate_failed;
    allocation->task.gone = api_allocate_gone;
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
    allocate_read_wait(allocate, &params);
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        allocate_start(allocate);
}
