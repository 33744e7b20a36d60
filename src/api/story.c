/*
 * story.c - the route that tells the story of a call: when it asked for a pod, which pods it had, who
 * renewed it, and how it ended.
 *
 * The sentences are made here and nowhere else. The command line and the dashboard show them as they are.
 */
#include "api/api_internal.h"
#include "api/params.h"

#define STORY_NOT_FOUND                                                                                      \
    "nothing is known of this call: the last 10,000 calls that had a pod are remembered for one hour, and "  \
    "the last 1,024 refusals for ten minutes; a wait that ended without a pod is only in the log"

enum {
    /* A refusal, a wait. Each time that it left a pod: how it got the pod, the last renewal, the end. Then a
     * live call. */
    STORY_EVENTS_MAX = 2 + 3 * (PAST_SHOWN_MAX + 2),
    SENTENCE_MAX = 16 * 1024, /* the longest is a refusal with all the pools of a chain */
};

static_assert(PAST_CALLS_MAX == 10000 && PAST_KEEP_MS == 3600 * 1000, "STORY_NOT_FOUND says so");

struct story_event {
    uint64_t at_ms;
    const char *event;
    const char *sentence;
};

struct story {
    const struct result *result;
    struct arena *arena;
    struct story_event events[STORY_EVENTS_MAX];
    size_t count;
    bool has_failed; /* no memory */
};

/* A time on a pod: of the live call, or of one that has left the pod. */
struct stay {
    const char *pod;
    const char *pool;
    const char *merchant_id;
    const char *provider;
    uint64_t allocated_at_ms; /* its end if it is not known: another program wrote the record */
    enum renewer renewed_by;
    uint64_t renewed_at_ms;
};

/* "3 minutes": the largest unit that fits twice. "1 minute" could be nearly two. */
static void write_age(struct strbuf *buf, uint64_t now_ms, uint64_t at_ms)
{
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    uint64_t seconds = now_ms > at_ms ? (now_ms - at_ms) / 1000 : 0;

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t number = seconds / units[i].seconds;

        if (number > 1 || seconds == units[i].seconds) {
            strbuf_append_u64(buf, number);
            strbuf_printf(buf, " %s%s", units[i].name, number == 1 ? "" : "s");
            return;
        }
    }
    strbuf_append_str(buf, "less than a second");
}

/* How it left its pod, to be put behind a colon. */
static void write_end(struct strbuf *buf, enum past_end how, const char *pod)
{
    static const char *const clauses[PAST_ENDS] = {
        [PAST_RELEASED] = "a client released it",
        [PAST_CLOSED] = "its stream was closed, or its provider said that it is over",
        [PAST_TIMED_OUT] = "it waited for too long",
        [PAST_UNDONE] = "its allocation was undone, because its client did not get the answer",
        [PAST_MOVED] = "its pod %s could not be reached, and it moved to another one",
        [PAST_EXPIRED] = "nobody renewed its lease on the pod %s",
        [PAST_POD_GONE] = "its pod %s was removed, or stopped sending heartbeats",
        [PAST_RESTARTED] = "its pod %s restarted",
        [PAST_UNMENTIONED] = "the heartbeats of its pod %s left it out",
    };
    const char *clause = clauses[how];
    const char *place = strstr(clause, "%s");

    if (!place) {
        strbuf_append_str(buf, clause);
        return;
    }
    strbuf_append(buf, clause, (size_t)(place - clause));
    strbuf_append_str(buf, pod);
    strbuf_append_str(buf, place + 2);
}

static void begin_sentence(const struct story *story, struct strbuf *buf)
{
    strbuf_init(buf, story->arena, SENTENCE_MAX);
}

static char capital(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* The text of `buf`, with a full stop, and a capital where it begins. */
static const char *end_sentence(struct story *story, struct strbuf *buf)
{
    strbuf_append_char(buf, '.');
    if (strbuf_failed(buf)) {
        story->has_failed = true;
        return "";
    }
    buf->data[0] = capital(buf->data[0]);
    return buf->data;
}

/*
 * Adds an event. Redis knows the time of an allocation in whole seconds only, so these are compared,
 * and what happened in the same second stays in the order in which it was added.
 */
static void tell(struct story *story, uint64_t at_ms, const char *event, struct strbuf *sentence)
{
    size_t at = story->count;

    assert(story->count < STORY_EVENTS_MAX);
    for (; at > 0 && story->events[at - 1].at_ms / 1000 > at_ms / 1000; at--)
        story->events[at] = story->events[at - 1];
    story->events[at] =
        (struct story_event){.at_ms = at_ms, .event = event, .sentence = end_sentence(story, sentence)};
    story->count++;
}

/* "Twilio asked for it, for the merchant acme" */
static void write_asker(struct strbuf *buf, const char *provider, const char *merchant_id)
{
    const char *asker = provider[0] ? provider : "a client of the API";

    strbuf_append_char(buf, capital(asker[0]));
    strbuf_append_str(buf, asker + 1);
    strbuf_append_str(buf, " asked for it");
    if (merchant_id[0]) {
        strbuf_append_str(buf, ", for the merchant ");
        strbuf_append_str(buf, merchant_id);
    }
}

/* Did the call have a pod when it was refused another one? */
static bool had_pod(const struct result *result, const struct refusal *refusal)
{
    uint64_t at_s = refusal->at_ms / 1000;

    for (size_t i = 0; i < result->story.past_count; i++) {
        const struct past_call *past = &result->story.past[i];

        if (past->allocated_at_ms / 1000 < at_s && at_s < past->ended_at_ms / 1000)
            return true;
    }
    return result->story.is_live && result->story.call.allocated_at_ms / 1000 < at_s;
}

static void tell_refusal(struct story *story, const struct refusal *refusal)
{
    struct strbuf buf;

    begin_sentence(story, &buf);
    if (had_pod(story->result, refusal)) {
        strbuf_append_str(&buf, "its pod could not be reached, and no other pod was free: it stayed there");
    } else {
        write_asker(&buf, refusal->provider, refusal->merchant_id);
        strbuf_append_str(&buf, ", and no pod was free");
    }
    strbuf_append_str(&buf, ". The pools in the order in which they were tried: ");
    api_write_refusal(&buf, refusal);
    tell(story, refusal->at_ms, "refused", &buf);
}

/* `from`: the time on another pod that it came from; NULL: it is its first pod. */
static void tell_stay(struct story *story, const struct stay *stay, const struct past_call *from)
{
    struct strbuf buf;

    begin_sentence(story, &buf);
    if (from) {
        strbuf_append_str(&buf, "it moved from the pod ");
        strbuf_append_str(&buf, from->pod);
        strbuf_append_str(&buf, ", which could not be reached, to the pod ");
    } else {
        strbuf_append_str(&buf, "it got the pod ");
    }
    strbuf_append_str(&buf, stay->pod);
    strbuf_append_str(&buf, " of ");
    strbuf_append_str(&buf, stay->pool[0] ? stay->pool : "an unknown pool");
    if (!from) {
        strbuf_append_str(&buf, ". ");
        write_asker(&buf, stay->provider, stay->merchant_id);
    }
    tell(story, from ? from->ended_at_ms : stay->allocated_at_ms, from ? "moved" : "allocated", &buf);
    /* The last renewal goes with the call to its next pod. */
    if (stay->renewed_by == RENEWED_BY_NOBODY || (from && from->renewed_at_ms == stay->renewed_at_ms))
        return;
    begin_sentence(story, &buf);
    strbuf_append_str(&buf, stay->renewed_by == RENEWED_BY_CLIENT ? "a client of the API"
                            : stay->renewed_by == RENEWED_BY_POD  ? "a heartbeat of its pod"
                                                                  : "the router that carried its stream");
    strbuf_append_str(&buf, " renewed it for the last time");
    tell(story, stay->renewed_at_ms, "renewed", &buf);
}

/* The time on another pod from which this one continues; NULL: none. */
static const struct past_call *came_from(const struct result *result, size_t past_count,
                                         uint64_t allocated_at_ms)
{
    const struct past_call *from = past_count > 0 ? &result->story.past[past_count - 1] : NULL;

    return from && from->how == PAST_MOVED && from->allocated_at_ms == allocated_at_ms ? from : NULL;
}

static void tell_past(struct story *story, size_t at)
{
    const struct result *result = story->result;
    const struct past_call *past = &result->story.past[at];
    const struct stay stay = {.pod = past->pod,
                              .pool = past->pool,
                              .merchant_id = past->merchant_id,
                              .provider = past->provider,
                              .allocated_at_ms =
                                  past->allocated_at_ms ? past->allocated_at_ms : past->ended_at_ms,
                              .renewed_by = past->renewed_by,
                              .renewed_at_ms = past->renewed_at_ms};
    bool is_last = at + 1 == result->story.past_count;
    const struct past_call *next = is_last ? NULL : past + 1;
    struct strbuf buf;

    tell_stay(story, &stay, came_from(result, at, past->allocated_at_ms));
    /* A move is told with the pod to which it led, if that is known, or with the wait. */
    if (past->how == PAST_MOVED && is_last && result->story.is_waiting)
        return;
    if (past->how == PAST_MOVED &&
        (next ? next->allocated_at_ms : result->story.call.allocated_at_ms) == past->allocated_at_ms)
        return;
    begin_sentence(story, &buf);
    write_end(&buf, past->how, past->pod);
    tell(story, past->ended_at_ms, past_end_name(past->how), &buf);
}

static void write_carriers(struct strbuf *buf, const struct call_activity *activity)
{
    strbuf_append_str(buf, activity->carriers.count == 1 ? "the router " : "the routers ");
    for (size_t i = 0; i < activity->carriers.count; i++) {
        if (i > 0)
            strbuf_append_str(buf, i + 1 == activity->carriers.count ? " and " : ", ");
        strbuf_append_str(buf, activity->carriers.names[i]);
    }
    if (activity->is_connected)
        strbuf_append_str(buf, activity->carriers.count == 1 ? " carries its stream" : " carry its stream");
    else
        strbuf_append_str(buf, activity->carriers.count == 1 ? " opens its stream" : " open its stream");
}

static void tell_live(struct story *story)
{
    const struct call_info *call = &story->result->story.call;
    const struct call_activity *activity = &call->activity;
    const struct stay stay = {.pod = call->pod,
                              .pool = call->pool,
                              .merchant_id = call->merchant_id,
                              .provider = call->provider,
                              .allocated_at_ms =
                                  call->allocated_at_ms ? call->allocated_at_ms : story->result->story.now_ms,
                              .renewed_by = activity->renewed_by,
                              .renewed_at_ms = activity->renewed_at_ms};
    struct strbuf buf;

    tell_stay(story, &stay, came_from(story->result, story->result->story.past_count, call->allocated_at_ms));
    if (activity->state == CALL_IS_EXPIRED) {
        begin_sentence(story, &buf);
        strbuf_append_str(&buf,
                          "its lease ended. The next sweep ends the call, unless somebody renews it before");
        tell(story, call->expires_at_ms, "expired", &buf);
    }
    if (activity->carriers.count > 0) {
        begin_sentence(story, &buf);
        write_carriers(&buf, activity);
        tell(story, story->result->story.now_ms, "carried", &buf);
    }
}

static void write_wait(struct strbuf *buf, const struct result *result)
{
    const struct waiting_call *call = &result->story.waiting;

    strbuf_append_str(buf, "at place ");
    strbuf_append_u64(buf, call->position);
    strbuf_append_str(buf, " of the line for ");
    for (size_t i = 0; i < call->pool_count; i++) {
        strbuf_append_str(buf, i == 0 ? "" : ", ");
        strbuf_append_str(buf, call->pools[i]);
    }
    strbuf_append_str(buf, call->pool_count == 0 ? "no pool that is configured" : "");
    strbuf_append_str(buf, ", and is given up in ");
    write_age(buf, call->until_ms, result->story.now_ms);
}

static void tell_wait(struct story *story)
{
    const struct waiting_call *call = &story->result->story.waiting;
    struct strbuf buf;

    begin_sentence(story, &buf);
    if (call->is_rescued) {
        strbuf_append_str(&buf, "its pod broke, and no other pod was free");
    } else {
        write_asker(&buf, call->provider, call->merchant_id);
        strbuf_append_str(&buf, ", and no pod was free");
    }
    strbuf_append_str(&buf, ": it waits ");
    write_wait(&buf, story->result);
    /* A rescued call has the time of its first pod as the beginning of its wait. */
    tell(story, call->is_rescued ? story->result->story.now_ms : call->since_ms, "waiting", &buf);
}

/* The last one, unless the call was refused after it. NULL: it is live, or has had no pod. */
static const struct past_call *last_end(const struct result *result)
{
    const struct past_call *past =
        result->story.past_count > 0 ? &result->story.past[result->story.past_count - 1] : NULL;

    if (!past || result->story.is_live || result->story.is_waiting)
        return NULL;
    return result->story.refusal && result->story.refusal->at_ms > past->ended_at_ms ? NULL : past;
}

static void summarize_live(struct strbuf *buf, const struct result *result)
{
    const struct call_info *call = &result->story.call;

    strbuf_append_str(buf, " has had a pod for ");
    write_age(buf, result->story.now_ms, call->allocated_at_ms);
    strbuf_append_str(buf, ", now ");
    strbuf_append_str(buf, call->pod);
    strbuf_append_str(buf, " of ");
    strbuf_append_str(buf, call->pool[0] ? call->pool : "an unknown pool");
    strbuf_append_str(buf, ": ");
    if (call->activity.state == CALL_IS_EXPIRED) {
        strbuf_append_str(buf, "its lease ended ");
        write_age(buf, result->story.now_ms, call->expires_at_ms);
        strbuf_append_str(buf, " ago, and the next sweep ends it");
    } else if (call->activity.state == CALL_IS_CONNECTED) {
        write_carriers(buf, &call->activity);
    } else if (call->activity.renewed_by != RENEWED_BY_NOBODY) {
        strbuf_append_str(buf, "it was last renewed ");
        write_age(buf, result->story.now_ms, call->activity.renewed_at_ms);
        strbuf_append_str(buf, " ago");
    } else {
        strbuf_append_str(buf, call->activity.was_renewed ? "it was renewed" : "nobody has renewed it yet");
    }
}

/* One sentence that says it all. */
static const char *summarize(struct story *story, const char *call_sid)
{
    const struct result *result = story->result;
    const struct past_call *end = last_end(result);
    struct strbuf buf;
    const char *text;

    begin_sentence(story, &buf);
    strbuf_append_char(&buf, ' '); /* the name of the call keeps its first letter */
    strbuf_append_str(&buf, call_sid);
    if (result->story.is_live) {
        summarize_live(&buf, result);
    } else if (result->story.is_waiting) {
        strbuf_append_str(&buf, " has waited for a pod for ");
        write_age(&buf, result->story.now_ms, result->story.waiting.since_ms);
        strbuf_append_str(&buf, ", ");
        write_wait(&buf, result);
    } else if (end) {
        strbuf_append_str(&buf, " ended ");
        write_age(&buf, result->story.now_ms, end->ended_at_ms);
        strbuf_append_str(&buf, " ago: ");
        write_end(&buf, end->how, end->pod);
    } else if (result->story.refusal) {
        strbuf_append_str(&buf, " got no pod ");
        write_age(&buf, result->story.now_ms, result->story.refusal->at_ms);
        strbuf_append_str(&buf, " ago: ");
        api_write_refusal(&buf, result->story.refusal);
    }
    text = end_sentence(story, &buf);
    return text[0] ? text + 1 : text;
}

static const char *state_of(const struct result *result)
{
    if (result->story.is_live)
        return call_state_name(result->story.call.activity.state);
    if (result->story.is_waiting)
        return "waiting";
    return last_end(result) ? "ended" : "refused";
}

static void put_story(struct json_writer *json, const struct story *story)
{
    json_key(json, "story");
    json_array_begin(json);
    for (size_t i = 0; i < story->count; i++) {
        json_object_begin(json);
        json_put_time(json, "time", story->events[i].at_ms);
        json_put_string(json, "event", story->events[i].event);
        json_put_string(json, "sentence", story->events[i].sentence);
        json_object_end(json);
    }
    json_array_end(json);
}

static void api_story_stored(struct api_task *task, const struct result *result)
{
    const char *call_sid = http_request_param(task->request, "sid");
    struct story *story = arena_alloc(http_request_arena(task->request), sizeof(*story));
    struct json_writer json;
    const char *summary;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, STORY_NOT_FOUND);
        return;
    }
    if (!story) {
        api_reply_no_memory(task->request);
        return;
    }
    *story = (struct story){.result = result, .arena = http_request_arena(task->request)};
    if (result->story.refusal)
        tell_refusal(story, result->story.refusal);
    for (size_t i = 0; i < result->story.past_count; i++)
        tell_past(story, i);
    if (result->story.is_live)
        tell_live(story);
    if (result->story.is_waiting)
        tell_wait(story);
    summary = summarize(story, call_sid);
    if (story->has_failed) {
        api_reply_no_memory(task->request);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    json_put_string(&json, "call_sid", call_sid);
    json_put_string(&json, "state", state_of(result));
    json_put_string(&json, "summary", summary);
    put_story(&json, story);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_story(struct http_request *request, void *arg)
{
    const char *call_sid = http_request_param(request, "sid");
    const char *error = params_check_call_sid(call_sid);
    struct command command = {.type = COMMAND_STORY, .call = {.call_sid = call_sid}};
    struct api_task *task;

    if (error) {
        api_refuse(request, 400, error);
        return;
    }
    task = api_task_new(arg, request, sizeof(*task), api_story_stored);
    if (task)
        api_execute(task, &command);
}
