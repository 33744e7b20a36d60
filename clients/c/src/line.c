/*
 * line.c - a call in line: asks until it has a pod, its time is over, or somebody stops it.
 *
 * The rules are those of clients/behaviours/README.md.
 */
#include "client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    /*
     * How long the router keeps a request open. Together with the usual timeout this is less than the
     * silence after which it gives a place away (15 s): a call whose router has vanished asks another one
     * in time.
     */
    ASK_MS = 10000,
    PAUSE_MS = 1000, /* if the router does not say how long */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 5000,
    FAILED_PAUSE_MS = 100, /* it doubles */
    FAILED_PAUSE_MAX_MS = 1000,
    POSITION_MAX = 1000000000,
};

/* One allocation while it asks. */
struct stand {
    struct smartrouter_client *client;
    const struct sr_line *line;
    struct sr_stood *stood;
    struct sr_wait wait;
    char traceparent[SR_TRACEPARENT_SIZE];
    int64_t until_ms;
    int64_t asked_ms; /* when the last request began */
    int64_t kept_ms;  /* how long it was to stay open */
    int failures;     /* in a row */
    enum sr_class class;
    struct smartrouter_answer *answer;
};

/* ---- The lines of a client ---- */

static void line_enter(struct stand *stand)
{
    struct smartrouter_client *client = stand->client;

    stand->wait.call_sid = stand->line->call_sid;
    stand->wait.may_stop = stand->line->wait_ms > 0;
    atomic_init(&stand->wait.is_stopped, false);
    pthread_mutex_lock(&client->lock);
    stand->wait.next = client->waits;
    client->waits = &stand->wait;
    pthread_mutex_unlock(&client->lock);
}

static void line_leave(struct stand *stand)
{
    struct smartrouter_client *client = stand->client;
    struct sr_wait **at;

    pthread_mutex_lock(&client->lock);
    for (at = &client->waits; *at != &stand->wait;)
        at = &(*at)->next;
    *at = stand->wait.next;
    pthread_mutex_unlock(&client->lock);
}

bool sr_lines_have(const struct smartrouter_client *client, const char *call_sid)
{
    const struct sr_wait *wait = client->waits;

    while (wait && strcmp(wait->call_sid, call_sid) != 0)
        wait = wait->next;
    return wait != NULL;
}

bool smartrouter_stop_waiting(struct smartrouter_client *client, const char *call_sid)
{
    bool is_found = false;

    if (!call_sid)
        return false;
    pthread_mutex_lock(&client->lock);
    for (struct sr_wait *wait = client->waits; wait; wait = wait->next) {
        if (wait->may_stop && strcmp(wait->call_sid, call_sid) == 0) {
            atomic_store(&wait->is_stopped, true);
            is_found = true;
        }
    }
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return is_found;
}

static bool is_stopped(struct stand *stand)
{
    return atomic_load(&stand->wait.is_stopped);
}

/* ---- One request ---- */

/* Sets the members "wait" and "wait_ms" of the body. false: no memory. */
static bool body_set(cJSON *body, bool waits, int64_t wait_ms)
{
    cJSON_DeleteItemFromObjectCaseSensitive(body, "wait");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "wait_ms");
    return (!waits || cJSON_AddTrueToObject(body, "wait")) &&
           (wait_ms == 0 || cJSON_AddNumberToObject(body, "wait_ms", (double)wait_ms));
}

static void stand_ask(struct stand *stand, int64_t wait_ms, bool is_first)
{
    const struct sr_line *line = stand->line;
    const struct sr_request request = {.operation = "allocate",
                                       .method = "POST",
                                       .path = "/api/v1/allocate",
                                       .body = line->body,
                                       .traceparent = stand->traceparent,
                                       .needs = "pod_name ws_url",
                                       .tries = is_first ? 0 : 1,
                                       .longer_ms = wait_ms,
                                       .may_lack_pods = true,
                                       .is_cancelled = line->wait_ms > 0 ? &stand->wait.is_stopped : NULL};
    bool may_have_arrived = false;

    smartrouter_answer_free(stand->answer);
    stand->answer = NULL;
    stand->asked_ms = sr_now_ms(stand->client);
    stand->kept_ms = wait_ms;
    stand->class = SR_NO_MEMORY;
    if (body_set(line->body, line->wait_ms > 0, wait_ms))
        stand->class = sr_ask(stand->client, &request, &stand->answer, &may_have_arrived);
    stand->stood->may_have_arrived = may_have_arrived;
}

/* The router has said that the call waits. */
static void stand_note(struct stand *stand)
{
    const struct sr_line *line = stand->line;
    const double position = smartrouter_answer_number(stand->answer, "position");

    stand->failures = 0;
    stand->stood->has_stood = true;
    pthread_mutex_lock(&stand->client->lock);
    sr_held_remove(&stand->client->held, line->call_sid); /* if it had a pod once, it has none now */
    pthread_mutex_unlock(&stand->client->lock);
    if (line->wait_ms == 0)
        return;
    stand->stood->position = position > 0 && position < POSITION_MAX ? (int)position : 0;
    if (line->waiting)
        line->waiting(line->waiting_arg, stand->answer);
}

/* ---- Between two requests ---- */

/* May a request stay open? A breaker that is half open would be held up by it. */
static bool may_stay(const struct stand *stand)
{
    return smartrouter_breaker(stand->client) == SMARTROUTER_BREAKER_CLOSED;
}

static int64_t pause_in_line_ms(const struct stand *stand)
{
    const cJSON *after = cJSON_GetObjectItemCaseSensitive(stand->answer->json, "retry_after_ms");
    const bool is_early = stand->kept_ms > 0
                              ? 2 * (sr_now_ms(stand->client) - stand->asked_ms) < stand->kept_ms
                              : !may_stay(stand);
    double ms = cJSON_IsNumber(after) ? after->valuedouble : PAUSE_MS;

    if (!is_early)
        return 0;
    if (!(ms >= 0))
        ms = PAUSE_MS;
    return ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : (int64_t)ms;
}

static int64_t pause_after_failure_ms(const struct stand *stand)
{
    struct smartrouter_client *client = stand->client;
    const struct smartrouter_answer *answer = stand->answer;
    const int64_t open_ms = sr_breaker_wait_ms(client->breaker, &client->limits, sr_now_ms(client));
    int64_t pause_ms = stand->failures < 5 ? (int64_t)FAILED_PAUSE_MS << (stand->failures - 1) : INT64_MAX;

    if (pause_ms > FAILED_PAUSE_MAX_MS)
        pause_ms = FAILED_PAUSE_MAX_MS;
    if (answer && (answer->status == 503 || answer->status == 429) && answer->retry_after_ms > pause_ms)
        pause_ms = answer->retry_after_ms;
    pause_ms = sr_jittered_ms(client, pause_ms);
    return open_ms > pause_ms ? open_ms : pause_ms;
}

/* May the same request be answered soon? */
static bool is_passing(const struct stand *stand)
{
    return stand->class == SR_FAILED || stand->class == SR_BREAKER_OPEN ||
           (stand->class == SR_REFUSED && stand->answer->status == 429);
}

static void stand_pause(struct stand *stand, int64_t pause_ms)
{
    struct smartrouter_client *client = stand->client;
    const struct sr_hooks *hooks = &client->settings->hooks;
    const int64_t now_ms = sr_now_ms(client), left_ms = stand->until_ms - now_ms;

    if (pause_ms > left_ms)
        pause_ms = left_ms;
    if (pause_ms <= 0)
        return;
    if (hooks->sleep) {
        hooks->sleep(hooks->sleep_arg, pause_ms);
        return;
    }
    pthread_mutex_lock(&client->lock);
    while (!is_stopped(stand) && sr_now_ms(client) < now_ms + pause_ms)
        sr_wait_until(client, now_ms + pause_ms);
    pthread_mutex_unlock(&client->lock);
}

/* After an answer: pauses. Returns whether another request follows. */
static bool stand_go_on(struct stand *stand)
{
    struct smartrouter_client *client = stand->client;
    int64_t pause_ms;

    if (is_stopped(stand))
        return false;
    if (stand->class == SR_WAITING) {
        stand_note(stand);
        pause_ms = pause_in_line_ms(stand);
    } else if (stand->stood->has_stood && is_passing(stand)) {
        stand->failures++;
        pause_ms = pause_after_failure_ms(stand);
        if (pause_ms >= stand->until_ms - sr_now_ms(client))
            return false; /* nothing can be asked any more in this time */
    } else {
        return false;
    }
    stand_pause(stand, pause_ms);
    return !is_stopped(stand) && sr_now_ms(client) < stand->until_ms;
}

static void stand_run(struct stand *stand)
{
    stand_ask(stand, 0, true);
    while (stand_go_on(stand)) {
        int64_t wait_ms = stand->until_ms - sr_now_ms(stand->client);

        if (wait_ms > ASK_MS)
            wait_ms = ASK_MS;
        /* Short after a failure: the answer comes at once, and the breaker learns of it. */
        stand_ask(stand, stand->failures == 0 && may_stay(stand) ? wait_ms : 0, false);
    }
}

enum sr_class sr_line_stand(struct smartrouter_client *client, const struct sr_line *line,
                            struct smartrouter_answer **ret_answer, struct sr_stood *ret_stood)
{
    const int64_t began_ms = sr_now_ms(client);
    struct stand stand = {
        .client = client, .line = line, .stood = ret_stood, .until_ms = began_ms + line->wait_ms};

    *ret_stood = (struct sr_stood){0};
    sr_traceparent_find(client, line->traceparent, stand.traceparent);
    line_enter(&stand);
    stand_run(&stand);
    line_leave(&stand);
    if (ret_stood->has_stood && stand.class == SR_REFUSED && stand.answer->status == 409)
        stand.class = SR_ENDED;
    /* Also if its pod has come in this moment: it is released, whoever stopped the wait has left. */
    if (is_stopped(&stand)) {
        stand.answer = smartrouter_answer_free(stand.answer);
        stand.class = SR_STOPPED;
    }
    if (line->wait_ms > 0)
        ret_stood->waited_ms = sr_now_ms(client) - began_ms;
    *ret_answer = stand.answer;
    return stand.class;
}
