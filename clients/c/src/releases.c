/*
 * releases.c - releases: asked at once, and repeated in the background until they are answered.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* A half-open breaker has given all its permits away: look again soon. */
    PERMIT_WAIT_MS = 100
};

static void release_free(struct sr_release *release)
{
    if (!release)
        return;
    free(release->call_sid);
    free(release->pod_name);
    free(release->reason);
    free(release);
}

static bool copy_text(const char *text, char **ret_copy)
{
    *ret_copy = text ? strdup(text) : NULL;
    return !text || *ret_copy;
}

static struct sr_release *release_new(const char *call_sid, const char *pod_name, const char *reason)
{
    struct sr_release *release = calloc(1, sizeof(*release));

    if (!release)
        return NULL;
    if (!copy_text(call_sid, &release->call_sid) || !copy_text(pod_name, &release->pod_name) ||
        !copy_text(reason, &release->reason)) {
        release_free(release);
        return NULL;
    }
    return release;
}

/* Under the lock, as all functions with the list. */
static struct sr_release *releases_find(const struct smartrouter_client *client, const char *call_sid)
{
    struct sr_release *release = client->releases;

    while (release && (release->is_forgotten || strcmp(release->call_sid, call_sid) != 0))
        release = release->next;
    return release;
}

static void releases_remove(struct smartrouter_client *client, struct sr_release *release)
{
    struct sr_release **at = &client->releases;

    while (*at != release)
        at = &(*at)->next;
    *at = release->next;
    if (!release->is_forgotten)
        client->release_count--;
    release_free(release);
    pthread_cond_broadcast(&client->changed);
}

/* What is on its way stays in the list until it comes back. */
static void releases_forget(struct smartrouter_client *client, struct sr_release *release)
{
    if (!release->is_on_its_way) {
        releases_remove(client, release);
        return;
    }
    release->is_forgotten = true;
    client->release_count--;
}

static void releases_append(struct smartrouter_client *client, struct sr_release *release)
{
    struct sr_release **at = &client->releases;

    while (*at)
        at = &(*at)->next;
    *at = release;
    client->release_count++;
    pthread_cond_broadcast(&client->changed);
}

/* The oldest one that is not on its way makes room. */
static bool releases_make_room(struct smartrouter_client *client)
{
    struct sr_release *release = client->releases;

    if (client->release_count < SR_RELEASES_MAX)
        return false;
    while (release && release->is_on_its_way)
        release = release->next;
    if (release)
        releases_remove(client, release);
    return release != NULL;
}

static int64_t release_wait_ms(const struct smartrouter_client *client, int tries)
{
    int64_t wait_ms = tries < 6 ? (int64_t)SR_RELEASE_FIRST_MS << tries : SR_RELEASE_LONGEST_MS;

    if (wait_ms > SR_RELEASE_LONGEST_MS)
        wait_ms = SR_RELEASE_LONGEST_MS;
    return sr_jittered_ms(client, wait_ms);
}

/* Does this client have or want the call, so that nothing but its end may release it? */
static bool call_is_live(struct smartrouter_client *client, const char *call_sid)
{
    return sr_calls_have(client, call_sid) || sr_agents_have(client, call_sid) ||
           sr_held_has(&client->held, call_sid) || sr_lines_have(client, call_sid);
}

static void release_later(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                          const char *reason, int64_t wait_ms, bool also_live)
{
    struct sr_release *release = release_new(call_sid, pod_name, reason);
    const int64_t now_ms = sr_now_ms(client);
    bool is_full;

    if (!release) {
        sr_log(client, SMARTROUTER_LOG_ERROR,
               "no memory to repeat the release of %s: its pod is free when its lease ends", call_sid);
        return;
    }
    release->due_ms = now_ms + wait_ms;
    release->give_up_ms = now_ms + sr_setting_ms(client->settings, SR_LEASE_S);
    pthread_mutex_lock(&client->lock);
    if (releases_find(client, call_sid) || (!also_live && call_is_live(client, call_sid))) {
        pthread_mutex_unlock(&client->lock);
        release_free(release);
        return;
    }
    sr_held_remove(&client->held, call_sid);
    is_full = releases_make_room(client);
    releases_append(client, release);
    pthread_mutex_unlock(&client->lock);
    sr_metric(client, "releases", "", "pending", 1);
    if (is_full) {
        sr_metric(client, "releases", "", "given_up", 1);
        sr_log(client, SMARTROUTER_LOG_ERROR,
               "%d releases wait: the oldest is given up, its pod is free when its lease ends",
               SR_RELEASES_MAX);
    }
}

void sr_release_later(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                      const char *reason)
{
    release_later(client, call_sid, pod_name, reason, release_wait_ms(client, 0), true);
}

void sr_release_after(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                      const char *reason, int64_t wait_ms)
{
    release_later(client, call_sid, pod_name, reason, wait_ms, true);
}

void sr_release_unless_live(struct smartrouter_client *client, const char *call_sid, const char *reason)
{
    release_later(client, call_sid, NULL, reason, release_wait_ms(client, 0), false);
}

bool sr_release_forget(struct smartrouter_client *client, const char *call_sid)
{
    struct sr_release *release;
    bool is_found = false;

    pthread_mutex_lock(&client->lock);
    while ((release = releases_find(client, call_sid))) {
        is_found = true;
        if (!release->is_on_its_way) {
            releases_remove(client, release);
            break;
        }
        pthread_cond_wait(&client->changed, &client->lock);
    }
    pthread_mutex_unlock(&client->lock);
    return is_found;
}

bool sr_release_try(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                    const char *reason, enum smartrouter_result *ret_result,
                    struct smartrouter_answer **ret_answer)
{
    cJSON *body = cJSON_CreateObject();
    const struct sr_request request = {
        .operation = "release", .method = "POST", .path = "/api/v1/release", .body = body, .tries = 1};
    enum sr_class class = SR_NO_MEMORY;

    *ret_answer = NULL;
    if (body && cJSON_AddStringToObject(body, "call_sid", call_sid) &&
        (!pod_name || cJSON_AddStringToObject(body, "pod_name", pod_name)) &&
        (!reason || cJSON_AddStringToObject(body, "reason", reason)))
        class = sr_ask(client, &request, ret_answer, NULL);
    cJSON_Delete(body);
    *ret_result = class == SR_NOT_FOUND ? SMARTROUTER_OK : sr_result_of(class);
    return class == SR_DONE || class == SR_NOT_FOUND ||
           (class == SR_REFUSED && smartrouter_answer_status(*ret_answer) != 429);
}

static enum smartrouter_result release_now(struct smartrouter_client *client, const char *call_sid,
                                           const char *pod_name, const char *reason,
                                           struct smartrouter_answer **ret_answer)
{
    struct smartrouter_answer *answer = NULL;
    enum smartrouter_result result = SMARTROUTER_INVALID;

    pthread_mutex_lock(&client->lock);
    sr_held_remove(&client->held, call_sid);
    pthread_mutex_unlock(&client->lock);
    if (sr_release_try(client, call_sid, pod_name, reason, &result, &answer)) {
        struct sr_release *release;

        pthread_mutex_lock(&client->lock);
        release = releases_find(client, call_sid);
        if (release)
            releases_forget(client, release);
        pthread_mutex_unlock(&client->lock);
        sr_metric(client, "releases", "", "done", 1);
    } else {
        sr_release_later(client, call_sid, pod_name, reason);
        result = SMARTROUTER_PENDING;
    }
    if (ret_answer)
        *ret_answer = answer;
    else
        smartrouter_answer_free(answer);
    return result;
}

enum smartrouter_result smartrouter_release(struct smartrouter_client *client, const char *call_sid,
                                            const char *pod_name, const char *reason,
                                            struct smartrouter_answer **ret_answer)
{
    if (ret_answer)
        *ret_answer = NULL;
    if (!sr_is_call_sid(call_sid) || (pod_name && !sr_is_pod_name(pod_name)))
        return SMARTROUTER_INVALID;
    /* A wait that went on would join the line again. */
    smartrouter_stop_waiting(client, call_sid);
    return release_now(client, call_sid, pod_name, reason, ret_answer);
}

void sr_release_from_line(struct smartrouter_client *client, const char *call_sid, const char *reason,
                          bool also_live)
{
    bool is_live;

    pthread_mutex_lock(&client->lock);
    is_live = call_is_live(client, call_sid);
    pthread_mutex_unlock(&client->lock);
    if (also_live || !is_live)
        release_now(client, call_sid, NULL, reason, NULL);
}

enum smartrouter_result smartrouter_handle_status(struct smartrouter_client *client, const char *call_sid,
                                                  const char *status, const char *pod_name)
{
    static const char *const ENDS[] = {"completed", "busy",      "failed", "no-answer",
                                       "canceled",  "cancelled", "cancel", "timeout"};

    for (size_t i = 0; status && i < sizeof(ENDS) / sizeof(*ENDS); i++)
        if (strcasecmp(status, ENDS[i]) == 0)
            return smartrouter_release(client, call_sid, pod_name, "status_callback", NULL);
    return SMARTROUTER_NOTHING;
}

static int64_t release_due_ms(const struct sr_release *release)
{
    return release->due_ms < release->give_up_ms ? release->due_ms : release->give_up_ms;
}

/* NULL: none waits. */
static struct sr_release *releases_first(const struct smartrouter_client *client)
{
    struct sr_release *first = NULL;

    for (struct sr_release *release = client->releases; release; release = release->next)
        if (!release->is_on_its_way && (!first || release_due_ms(release) < release_due_ms(first)))
            first = release;
    return first;
}

int64_t sr_releases_due_ms(const struct smartrouter_client *client)
{
    const struct sr_release *first = releases_first(client);

    return first ? release_due_ms(first) : INT64_MAX;
}

static void release_give_up(struct smartrouter_client *client, struct sr_release *release)
{
    char call_sid[SR_NAME_MAX + 1];

    memcpy(call_sid, release->call_sid, strlen(release->call_sid) + 1);
    releases_remove(client, release);
    pthread_mutex_unlock(&client->lock);
    sr_metric(client, "releases", "", "given_up", 1);
    sr_log(client, SMARTROUTER_LOG_ERROR, "the release of %s is given up: its lease is over", call_sid);
    pthread_mutex_lock(&client->lock);
}

/* Nobody else frees a release that is on its way. */
static void release_repeat(struct smartrouter_client *client, struct sr_release *release)
{
    struct smartrouter_answer *answer;
    enum smartrouter_result result;
    int64_t now_ms;
    bool is_answered;

    release->is_on_its_way = true;
    pthread_mutex_unlock(&client->lock);
    is_answered =
        sr_release_try(client, release->call_sid, release->pod_name, release->reason, &result, &answer);
    smartrouter_answer_free(answer);
    if (is_answered)
        sr_metric(client, "releases", "", "done", 1);
    now_ms = sr_now_ms(client);
    pthread_mutex_lock(&client->lock);
    release->is_on_its_way = false;
    if (is_answered || release->is_forgotten) {
        releases_remove(client, release);
        return;
    }
    release->due_ms =
        now_ms + (result == SMARTROUTER_BREAKER ? PERMIT_WAIT_MS : release_wait_ms(client, ++release->tries));
    pthread_cond_broadcast(&client->changed);
}

void sr_releases_work(struct smartrouter_client *client, int64_t now_ms)
{
    struct sr_release *release = releases_first(client);
    const int64_t wait_ms = sr_breaker_wait_ms(client->breaker, &client->limits, now_ms);

    if (!release || release_due_ms(release) > now_ms)
        return;
    if (release->give_up_ms <= now_ms)
        release_give_up(client, release);
    else if (wait_ms > 0)
        release->due_ms = now_ms + wait_ms;
    else
        release_repeat(client, release);
}

void sr_releases_give_up(struct smartrouter_client *client)
{
    const size_t left = client->release_count;
    struct sr_release *next;

    for (struct sr_release *release = client->releases; release; release = next) {
        next = release->next;
        release_free(release);
    }
    client->releases = NULL;
    if (left > 0)
        sr_log(client, SMARTROUTER_LOG_ERROR,
               "the client ends with %zu releases that the router has not answered: their pods are free when "
               "their "
               "leases end",
               left);
}
