/*
 * calls.c - allocations with their fallback, and calls that are kept from allocation to release.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_MAX = 2048 };

/* A member that this version of the struct has; 0 if the program was built with an older one. */
#define MEMBER(request, name)                                                                                \
    ((request)->size >= offsetof(struct smartrouter_call_request, name) + sizeof((request)->name)            \
         ? (request)->name                                                                                   \
         : 0)

static cJSON *allocation_body(const struct smartrouter_call_request *request)
{
    const char *const members[][2] = {
        {"call_sid", MEMBER(request, call_sid)},      {"merchant_id", MEMBER(request, merchant_id)},
        {"provider", MEMBER(request, provider)},      {"flow", MEMBER(request, flow)},
        {"template", MEMBER(request, template_name)},
    };
    cJSON *body = cJSON_CreateObject();

    for (size_t i = 0; body && i < sizeof(members) / sizeof(*members); i++) {
        if (members[i][1] && *members[i][1] && !cJSON_AddStringToObject(body, members[i][0], members[i][1])) {
            cJSON_Delete(body);
            return NULL;
        }
    }
    return body;
}

static const char *or_else(const char *text, const char *preset)
{
    return text && *text ? text : preset;
}

/* The URL of any agent, without a pod; "": VOICE_AGENT_BASE_URL is not set. */
static void default_url(const struct smartrouter_client *client,
                        const struct smartrouter_call_request *request, char url[URL_MAX])
{
    const char *base = sr_setting_text(client->settings, SR_AGENT_BASE_URL);
    const char *provider = or_else(MEMBER(request, provider), "twilio");
    const char *template = or_else(MEMBER(request, template_name),
                                   strcmp(provider, "exotel") == 0 ? "template" : "order-confirmation");
    const char *flow = or_else(MEMBER(request, flow), "v2");
    size_t length = strlen(base);
    int size;

    while (length > 0 && base[length - 1] == '/')
        length--;
    *url = '\0';
    if (length == 0)
        return;
    size = snprintf(url, URL_MAX, "%.*s/agent/voice/breeze-buddy/%s/callback/%s%s", (int)length, base,
                    provider, template, strcmp(flow, "v2") == 0 ? "/v2" : "");
    if (size < 0 || size >= URL_MAX)
        *url = '\0';
}

static const char *reason_of(enum sr_class class)
{
    switch (class) {
    case SR_DONE:
        return "";
    case SR_NO_PODS:
    case SR_WAITING:
        return "no_pods";
    case SR_STOPPED:
    case SR_ENDED:
        return "stopped";
    case SR_NOT_FOUND:
    case SR_REFUSED:
        return "refused";
    case SR_BREAKER_OPEN:
        return "breaker_open";
    case SR_FAILED:
    case SR_NO_MEMORY:
        return "unavailable";
    }
    return "unavailable";
}

struct allocation {
    struct smartrouter_answer *answer;
    struct sr_stood stood;
    const char *reason; /* "": there is a pod */
    enum smartrouter_result result;
};

static void allocation_remember(struct smartrouter_client *client, const char *call_sid, bool has_pod)
{
    pthread_mutex_lock(&client->lock);
    if (has_pod)
        sr_held_add(&client->held, call_sid);
    else
        sr_held_remove(&client->held, call_sid);
    pthread_mutex_unlock(&client->lock);
}

/* Remembers what the call has now, or releases what it may have got. */
static void allocation_settle(struct smartrouter_client *client, const char *call_sid, enum sr_class class,
                              const struct sr_stood *stood, bool had_release)
{
    /* "No pods" also says that no earlier try was carried out: the call would have kept its pod. */
    if (class == SR_DONE || class == SR_NO_PODS)
        allocation_remember(client, call_sid, class == SR_DONE);
    else if (class == SR_WAITING || class == SR_STOPPED)
        sr_release_from_line(client, call_sid, class == SR_WAITING ? "wait_over" : "wait_stopped",
                             had_release);
    else if (class == SR_ENDED)
        return;
    else if (had_release)
        sr_release_later(client, call_sid, NULL, "allocate_unanswered");
    else if (stood->may_have_arrived || stood->has_stood)
        sr_release_unless_live(client, call_sid, "allocate_unanswered");
}

static enum sr_class allocation_ask(struct smartrouter_client *client,
                                    const struct smartrouter_call_request *request,
                                    struct allocation *allocation)
{
    cJSON *body = allocation_body(request);
    const int wait_ms = MEMBER(request, wait_ms);
    const struct sr_line line = {.call_sid = request->call_sid,
                                 .traceparent = MEMBER(request, traceparent),
                                 .body = body,
                                 .wait_ms = wait_ms > 0 ? wait_ms : 0,
                                 .waiting = MEMBER(request, waiting),
                                 .waiting_arg = MEMBER(request, waiting_arg)};
    /* Otherwise the release of an earlier failure would end the call that is now wanted. */
    const bool had_release = sr_release_forget(client, request->call_sid);
    enum sr_class class = SR_NO_MEMORY;

    /* The router would refuse it, and there would be nothing to release. */
    if (!sr_is_call_sid(request->call_sid))
        class = SR_REFUSED;
    else if (body)
        class = sr_line_stand(client, &line, &allocation->answer, &allocation->stood);
    cJSON_Delete(body);
    allocation_settle(client, request->call_sid, class, &allocation->stood, had_release);
    return class;
}

static void allocation_decide(struct smartrouter_client *client,
                              const struct smartrouter_call_request *request, struct allocation *allocation)
{
    char url[URL_MAX];

    pthread_mutex_lock(&client->lock);
    allocation->reason = sr_gate_reason(client->settings, MEMBER(request, merchant_id));
    pthread_mutex_unlock(&client->lock);
    if (allocation->reason) {
        allocation->result = SMARTROUTER_BYPASS;
    } else {
        const enum sr_class class = allocation_ask(client, request, allocation);

        allocation->reason = reason_of(class);
        if (class == SR_DONE) {
            allocation->result = SMARTROUTER_OK;
            return;
        }
        allocation->result = SMARTROUTER_BUSY;
    }
    default_url(client, request, url);
    if (allocation->result == SMARTROUTER_BUSY && *url &&
        sr_setting_flag(client->settings, SR_ENABLE_FALLBACK))
        allocation->result = SMARTROUTER_FALLBACK;
    if (!allocation->answer)
        allocation->answer = sr_answer_new();
    if (allocation->answer) {
        sr_answer_put_text(allocation->answer, "pod_name", "");
        sr_answer_put_text(allocation->answer, "ws_url", allocation->result == SMARTROUTER_BUSY ? "" : url);
    }
}

static enum smartrouter_result allocate(struct smartrouter_client *client,
                                        const struct smartrouter_call_request *request,
                                        struct allocation *allocation)
{
    *allocation = (struct allocation){.result = SMARTROUTER_INVALID, .reason = ""};
    if (!request || !MEMBER(request, call_sid) || !*request->call_sid)
        return SMARTROUTER_INVALID;
    allocation_decide(client, request, allocation);
    if (!allocation->answer)
        return allocation->result = SMARTROUTER_NO_MEMORY;
    sr_answer_put_text(allocation->answer, "reason", allocation->reason);
    sr_answer_put_number(allocation->answer, "waited_seconds", (double)allocation->stood.waited_ms / 1000);
    sr_answer_put_number(allocation->answer, "position", allocation->stood.position);
    if (allocation->stood.has_stood)
        sr_metric(client, "wait_seconds", smartrouter_result_name(allocation->result), allocation->reason,
                  (double)allocation->stood.waited_ms / 1000);
    sr_metric(client, "allocations", smartrouter_result_name(allocation->result), allocation->reason, 1);
    return allocation->result;
}

enum smartrouter_result smartrouter_allocate(struct smartrouter_client *client,
                                             const struct smartrouter_call_request *request,
                                             struct smartrouter_answer **ret_answer)
{
    struct allocation allocation;
    const enum smartrouter_result result = allocate(client, request, &allocation);

    if (ret_answer)
        *ret_answer = allocation.answer;
    else
        smartrouter_answer_free(allocation.answer);
    return result;
}

static void call_free(struct smartrouter_call *call)
{
    if (!call)
        return;
    free(call->call_sid);
    free(call->pod_name);
    free(call->ws_url);
    free(call);
}

static struct smartrouter_call *call_new(struct smartrouter_client *client, const char *call_sid,
                                         const struct allocation *allocation)
{
    struct smartrouter_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->client = client;
    call->call_sid = strdup(call_sid);
    call->pod_name = strdup(or_else(smartrouter_answer_text(allocation->answer, "pod_name"), ""));
    call->ws_url = strdup(or_else(smartrouter_answer_text(allocation->answer, "ws_url"), ""));
    call->reason = allocation->reason;
    if (call->call_sid && call->pod_name && call->ws_url)
        return call;
    call_free(call);
    return NULL;
}

static void call_keep(struct smartrouter_call *call)
{
    struct smartrouter_client *client = call->client;

    call->renew_ms = sr_now_ms(client) + sr_setting_ms(client->settings, SR_HEARTBEAT_S);
    call->is_kept = true;
    pthread_mutex_lock(&client->lock);
    call->next = client->calls;
    client->calls = call;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

enum smartrouter_result smartrouter_call_begin(struct smartrouter_client *client,
                                               const struct smartrouter_call_request *request,
                                               struct smartrouter_call **ret_call)
{
    struct allocation allocation;
    enum smartrouter_result result = allocate(client, request, &allocation);
    struct smartrouter_call *call = NULL;

    if (allocation.answer) {
        call = call_new(client, request->call_sid, &allocation);
        if (call && result == SMARTROUTER_OK)
            call_keep(call);
        if (!call && result == SMARTROUTER_OK)
            sr_release_later(client, request->call_sid, NULL, "no_memory");
        if (!call)
            result = SMARTROUTER_NO_MEMORY;
        smartrouter_answer_free(allocation.answer);
    }
    *ret_call = call;
    return result;
}

const char *smartrouter_call_ws_url(const struct smartrouter_call *call)
{
    return call->ws_url;
}

const char *smartrouter_call_pod_name(const struct smartrouter_call *call)
{
    return call->pod_name;
}

const char *smartrouter_call_reason(const struct smartrouter_call *call)
{
    return call->reason;
}

bool smartrouter_call_is_over(struct smartrouter_call *call)
{
    bool is_over;

    pthread_mutex_lock(&call->client->lock);
    is_over = call->is_over;
    pthread_mutex_unlock(&call->client->lock);
    return is_over;
}

enum smartrouter_result smartrouter_call_end(struct smartrouter_call *call, const char *reason)
{
    enum smartrouter_result result = SMARTROUTER_NOTHING;
    struct smartrouter_call **at;
    bool is_kept;

    if (!call)
        return result;
    pthread_mutex_lock(&call->client->lock);
    for (at = &call->client->calls; *at && *at != call;)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    is_kept = call->is_kept;
    pthread_mutex_unlock(&call->client->lock);
    if (is_kept)
        result = smartrouter_release(call->client, call->call_sid, call->pod_name,
                                     reason ? reason : "call_ended", NULL);
    call_free(call);
    return result;
}

bool sr_calls_have(const struct smartrouter_client *client, const char *call_sid)
{
    const struct smartrouter_call *call = client->calls;

    while (call && (!call->is_kept || strcmp(call->call_sid, call_sid) != 0))
        call = call->next;
    return call != NULL;
}

int64_t sr_calls_due_ms(const struct smartrouter_client *client)
{
    int64_t due_ms = INT64_MAX;

    for (const struct smartrouter_call *call = client->calls; call; call = call->next)
        if (call->is_kept && call->renew_ms < due_ms)
            due_ms = call->renew_ms;
    return due_ms;
}

/* The router has ended this call, or given its pod to another one. */
static void calls_end(struct smartrouter_client *client, const char *call_sid)
{
    for (struct smartrouter_call *call = client->calls; call && call_sid; call = call->next) {
        if (strcmp(call->call_sid, call_sid) == 0) {
            call->is_kept = false;
            call->is_over = true;
            sr_held_remove(&client->held, call_sid);
        }
    }
}

static void calls_take_answer(struct smartrouter_client *client, const struct smartrouter_answer *answer,
                              char *const *call_sids, size_t count)
{
    static const char *const LISTS[] = {"ended", "conflicts"};

    for (size_t list = 0; list < sizeof(LISTS) / sizeof(*LISTS); list++)
        for (size_t i = 0; i < smartrouter_answer_count(answer, LISTS[list]); i++)
            calls_end(client, smartrouter_answer_item(answer, LISTS[list], i));
    /* The answer to a single call has no lists. */
    if (smartrouter_answer_status(answer) == 409 && count == 1)
        calls_end(client, call_sids[0]);
}

/* Copies the calls that are due, and says when they are due again. */
static size_t calls_collect(struct smartrouter_client *client, int64_t now_ms, char **call_sids)
{
    const int64_t interval_ms = sr_setting_ms(client->settings, SR_HEARTBEAT_S);
    size_t count = 0;

    for (struct smartrouter_call *call = client->calls; call && count < SR_CALLS_MAX; call = call->next) {
        if (!call->is_kept || call->renew_ms > now_ms)
            continue;
        call->renew_ms += interval_ms * ((now_ms - call->renew_ms) / interval_ms + 1);
        call_sids[count] = strdup(call->call_sid);
        if (call_sids[count])
            count++;
    }
    return count;
}

void sr_calls_work(struct smartrouter_client *client, int64_t now_ms)
{
    char *call_sids[SR_CALLS_MAX];
    const size_t count = calls_collect(client, now_ms, call_sids);
    struct smartrouter_answer *answer = NULL;

    if (count == 0)
        return;
    pthread_mutex_unlock(&client->lock);
    smartrouter_renew(client, (const char *const *)call_sids, count, &answer);
    pthread_mutex_lock(&client->lock);
    calls_take_answer(client, answer, call_sids, count);
    smartrouter_answer_free(answer);
    for (size_t i = 0; i < count; i++)
        free(call_sids[i]);
}
