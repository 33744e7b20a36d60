/*
 * agent.c - an agent: registers its pod, sends heartbeats with its calls, and leaves without dropping one.
 *
 * docs/AGENTS.md has the requests behind it. Heartbeats run on the background thread of the client;
 * everything of an agent that may change is under the client's lock.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    RETRY_MS = 1000,
    INTERVAL_MIN_MS = 50, /* of heartbeats, whatever the router asks for */
    KEEP_BROKEN_MS = 60000,
    /* After a break: the router has noticed it by then, and its grace (5 s) is not over. */
    EXTRA_BEAT_MS = 1000,
    DRAIN_TTL_S = 300,
    DRAINED_WAIT_S = 20,
    DEFAULT_PORT = 8000,
    ADDRESS_SIZE = 300,
    INCARNATION_SIZE = 33,
};

#define NOT_BROKEN INT64_MAX

struct agent_call {
    struct agent_call *next;
    int64_t keep_until_ms; /* NOT_BROKEN, or when a broken call is released */
    unsigned streams;      /* that are open: an old one may close after the one that took its call up */
    char call_sid[SR_NAME_MAX + 1];
};

struct smartrouter_agent {
    struct smartrouter_agent *next;
    struct smartrouter_client *client;
    char *pod_name, *address, *tier, *incarnation;
    bool is_managed;
    smartrouter_call_over_fn call_over;
    void *call_over_arg;
    struct agent_call *calls;
    size_t call_count;
    int64_t beat_ms; /* when the next heartbeat or registration is due */
    int64_t interval_ms;
    bool is_registered;
    bool is_known;   /* the router has taken a heartbeat */
    bool is_stopped; /* no heartbeat follows */
    atomic_bool is_hurried;
};

/* The calls of a heartbeat, copied. */
struct beat {
    char (*texts)[SR_NAME_MAX + 1];
    const char **call_sids;
    size_t count;
};

#define OPTION(options, name)                                                                                \
    ((options)->size >= offsetof(struct smartrouter_agent_options, name) + sizeof((options)->name)           \
         ? (options)->name                                                                                   \
         : 0)

static void agent_destroy(struct smartrouter_agent *agent)
{
    struct agent_call *next;

    if (!agent)
        return;
    for (struct agent_call *call = agent->calls; call; call = next) {
        next = call->next;
        free(call);
    }
    free(agent->pod_name);
    free(agent->address);
    free(agent->tier);
    free(agent->incarnation);
    free(agent);
}

static char *copy_of(const char *text)
{
    return text && *text ? strdup(text) : NULL;
}

/* A new one for each process; NULL: no memory, or no random bytes. */
static char *incarnation_make(void)
{
    char text[INCARNATION_SIZE];
    uint8_t bytes[(INCARNATION_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return NULL;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return strdup(text);
}

/* NULL: no memory, or POD_IP is not set. */
static char *address_make(const struct smartrouter_client *client, int port)
{
    const char *ip = sr_setting_text(client->settings, SR_POD_IP);
    char text[ADDRESS_SIZE];

    if (!*ip)
        return NULL;
    snprintf(text, sizeof(text), strchr(ip, ':') ? "[%.255s]:%d" : "%.255s:%d", ip,
             port ? port : DEFAULT_PORT);
    return strdup(text);
}

static enum smartrouter_result agent_fill(struct smartrouter_agent *agent,
                                          const struct smartrouter_agent_options *options)
{
    struct smartrouter_client *client = agent->client;
    const char *name = OPTION(options, pod_name), *address = OPTION(options, address),
               *incarnation = OPTION(options, incarnation);

    if (!name || !*name)
        name = sr_setting_text(client->settings, SR_POD_NAME);
    if (!sr_is_pod_name(name))
        return SMARTROUTER_INVALID;
    agent->is_managed = OPTION(options, is_managed);
    if (!agent->is_managed && (!address || !*address) && !*sr_setting_text(client->settings, SR_POD_IP))
        return SMARTROUTER_INVALID;
    agent->pod_name = copy_of(name);
    agent->address = address && *address ? copy_of(address) : address_make(client, OPTION(options, port));
    agent->tier = copy_of(OPTION(options, tier));
    agent->incarnation = incarnation && *incarnation ? copy_of(incarnation) : incarnation_make();
    agent->call_over = OPTION(options, call_over);
    agent->call_over_arg = OPTION(options, call_over_arg);
    agent->interval_ms = sr_setting_ms(client->settings, SR_HEARTBEAT_S);
    agent->beat_ms = sr_now_ms(client);
    agent->is_registered = agent->is_managed;
    return agent->pod_name && agent->incarnation && (agent->is_managed || agent->address)
               ? SMARTROUTER_OK
               : SMARTROUTER_NO_MEMORY;
}

enum smartrouter_result smartrouter_agent_new(struct smartrouter_client *client,
                                              const struct smartrouter_agent_options *options,
                                              struct smartrouter_agent **ret_agent)
{
    struct smartrouter_agent *agent = calloc(1, sizeof(*agent));
    enum smartrouter_result result;

    if (!agent)
        return SMARTROUTER_NO_MEMORY;
    agent->client = client;
    atomic_init(&agent->is_hurried, false);
    result = agent_fill(agent, options);
    if (result != SMARTROUTER_OK) {
        agent_destroy(agent);
        return result;
    }
    pthread_mutex_lock(&client->lock);
    agent->next = client->agents;
    client->agents = agent;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    *ret_agent = agent;
    return SMARTROUTER_OK;
}

/* No heartbeat follows, and none is on its way any more. Under the lock. */
static void agent_silence(struct smartrouter_agent *agent)
{
    agent->is_stopped = true;
    pthread_cond_broadcast(&agent->client->changed);
    while (agent->client->busy_with == agent)
        pthread_cond_wait(&agent->client->changed, &agent->client->lock);
}

struct smartrouter_agent *smartrouter_agent_free(struct smartrouter_agent *agent)
{
    struct smartrouter_agent **at;

    if (!agent)
        return NULL;
    pthread_mutex_lock(&agent->client->lock);
    agent_silence(agent);
    for (at = &agent->client->agents; *at != agent;)
        at = &(*at)->next;
    *at = agent->next;
    pthread_mutex_unlock(&agent->client->lock);
    agent_destroy(agent);
    return NULL;
}

bool smartrouter_agent_is_ready(struct smartrouter_agent *agent, int wait_ms)
{
    struct smartrouter_client *client = agent->client;
    int64_t until_ms;
    bool is_ready;

    pthread_mutex_lock(&client->lock);
    until_ms = wait_ms < 0 ? INT64_MAX : sr_now_ms(client) + wait_ms;
    while (!agent->is_known && !agent->is_stopped && sr_now_ms(client) < until_ms)
        sr_wait_until(client, until_ms);
    is_ready = agent->is_known && !agent->is_stopped;
    pthread_mutex_unlock(&client->lock);
    return is_ready;
}

/* The link that points to the call; the link at the end if there is none. Under the lock. */
static struct agent_call **agent_find(struct smartrouter_agent *agent, const char *call_sid)
{
    struct agent_call **at = &agent->calls;

    while (*at && strcmp((*at)->call_sid, call_sid) != 0)
        at = &(*at)->next;
    return at;
}

bool sr_agents_have(const struct smartrouter_client *client, const char *call_sid)
{
    struct smartrouter_agent *agent = client->agents;

    while (agent && !*agent_find(agent, call_sid))
        agent = agent->next;
    return agent != NULL;
}

/* Returns whether there was such a call. Under the lock. */
static bool agent_drop(struct smartrouter_agent *agent, const char *call_sid)
{
    struct agent_call **at = agent_find(agent, call_sid), *call = *at;

    if (!call)
        return false;
    *at = call->next;
    agent->call_count--;
    free(call);
    pthread_cond_broadcast(&agent->client->changed);
    return true;
}

static enum smartrouter_result agent_add(struct smartrouter_agent *agent, const char *call_sid)
{
    struct agent_call **at = agent_find(agent, call_sid);

    if (!*at) {
        if (agent->call_count >= SR_CALLS_MAX)
            return SMARTROUTER_INVALID;
        *at = calloc(1, sizeof(**at));
        if (!*at)
            return SMARTROUTER_NO_MEMORY;
        memcpy((*at)->call_sid, call_sid, strlen(call_sid) + 1);
        agent->call_count++;
    }
    (*at)->keep_until_ms = NOT_BROKEN;
    (*at)->streams++;
    return SMARTROUTER_OK;
}

enum smartrouter_result smartrouter_agent_call_began(struct smartrouter_agent *agent, const char *call_sid)
{
    enum smartrouter_result result;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    /* A call that came back is not released for its last stream. */
    sr_release_forget(agent->client, call_sid);
    pthread_mutex_lock(&agent->client->lock);
    result = agent_add(agent, call_sid);
    pthread_mutex_unlock(&agent->client->lock);
    return result;
}

enum smartrouter_result smartrouter_agent_call_ended(struct smartrouter_agent *agent, const char *call_sid,
                                                     const char *reason)
{
    bool is_ours;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    pthread_mutex_lock(&agent->client->lock);
    is_ours = agent_drop(agent, call_sid);
    pthread_mutex_unlock(&agent->client->lock);
    if (!is_ours)
        return SMARTROUTER_NOT_FOUND;
    return smartrouter_release(agent->client, call_sid, agent->pod_name, reason ? reason : "stream_closed",
                               NULL);
}

/* The call may come back for a while. Under the lock. */
static void agent_keep_broken(struct smartrouter_agent *agent, struct agent_call *call)
{
    const int64_t now_ms = sr_now_ms(agent->client);

    call->keep_until_ms = now_ms + KEEP_BROKEN_MS;
    if (agent->beat_ms > now_ms + EXTRA_BEAT_MS)
        agent->beat_ms = now_ms + EXTRA_BEAT_MS;
    pthread_cond_broadcast(&agent->client->changed);
}

enum smartrouter_result smartrouter_agent_stream_closed(struct smartrouter_agent *agent, const char *call_sid,
                                                        int close_code)
{
    const bool is_hang_up = close_code == 1000 || close_code == 1001 || close_code == 1005;
    struct smartrouter_client *client = agent->client;
    struct agent_call *call;
    bool is_ours, is_last;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    pthread_mutex_lock(&client->lock);
    call = *agent_find(agent, call_sid);
    is_ours = call != NULL;
    if (is_ours && call->streams > 0)
        call->streams--;
    is_last = is_ours && call->streams == 0;
    if (is_last && is_hang_up)
        agent_drop(agent, call_sid);
    else if (is_last)
        agent_keep_broken(agent, call);
    pthread_mutex_unlock(&client->lock);
    if (!is_ours)
        return SMARTROUTER_NOT_FOUND;
    if (!is_last || !is_hang_up)
        return SMARTROUTER_OK;
    return smartrouter_release(client, call_sid, agent->pod_name, "stream_closed", NULL);
}

size_t smartrouter_agent_calls(struct smartrouter_agent *agent)
{
    size_t count;

    pthread_mutex_lock(&agent->client->lock);
    count = agent->call_count;
    pthread_mutex_unlock(&agent->client->lock);
    return count;
}

/* ---- Heartbeats, on the background thread ---- */

/* The broken call that is released first. NULL: none is broken. */
static struct agent_call *agent_first_broken(const struct smartrouter_agent *agent)
{
    struct agent_call *first = NULL;

    for (struct agent_call *call = agent->calls; call; call = call->next)
        if (call->keep_until_ms != NOT_BROKEN && (!first || call->keep_until_ms < first->keep_until_ms))
            first = call;
    return first;
}

static int64_t agent_due_ms(const struct smartrouter_agent *agent)
{
    const struct agent_call *broken = agent_first_broken(agent);
    const int64_t beat_ms = agent->is_stopped ? INT64_MAX : agent->beat_ms;

    return broken && broken->keep_until_ms < beat_ms ? broken->keep_until_ms : beat_ms;
}

static struct smartrouter_agent *agents_first(const struct smartrouter_client *client)
{
    struct smartrouter_agent *first = client->agents;

    for (struct smartrouter_agent *agent = first; agent; agent = agent->next)
        if (agent_due_ms(agent) < agent_due_ms(first))
            first = agent;
    return first;
}

int64_t sr_agents_due_ms(const struct smartrouter_client *client)
{
    const struct smartrouter_agent *first = agents_first(client);

    return first ? agent_due_ms(first) : INT64_MAX;
}

static void beat_release(struct beat *beat)
{
    free(beat->texts);
    free(beat->call_sids);
}

/* Under the lock. false: no memory. */
static bool beat_collect(const struct smartrouter_agent *agent, struct beat *beat)
{
    const size_t room = agent->call_count ? agent->call_count : 1;

    *beat =
        (struct beat){.texts = calloc(room, sizeof(*beat->texts)), .call_sids = calloc(room, sizeof(char *))};
    if (!beat->texts || !beat->call_sids) {
        beat_release(beat);
        return false;
    }
    for (const struct agent_call *call = agent->calls; call; call = call->next) {
        memcpy(beat->texts[beat->count], call->call_sid, sizeof(call->call_sid));
        beat->call_sids[beat->count] = beat->texts[beat->count];
        beat->count++;
    }
    return true;
}

/* Calls that the router has ended, or given to another pod: the program closes their streams. */
static void agent_take_list(struct smartrouter_agent *agent, const struct smartrouter_answer *answer,
                            const char *name)
{
    for (size_t i = 0; i < smartrouter_answer_count(answer, name); i++) {
        const char *call_sid = smartrouter_answer_item(answer, name, i);
        bool is_ours;

        if (!call_sid)
            continue;
        pthread_mutex_lock(&agent->client->lock);
        is_ours = agent_drop(agent, call_sid);
        /* A call in "conflicts" goes on, on another pod. */
        if (strcmp(name, "ended") == 0)
            sr_held_remove(&agent->client->held, call_sid);
        pthread_mutex_unlock(&agent->client->lock);
        if (is_ours && agent->call_over)
            agent->call_over(agent->call_over_arg, call_sid, strcmp(name, "conflicts") == 0);
    }
}

/*
 * A call that ended while the heartbeat was on its way: its release came first, and the router has adopted it
 * again. It is released once more, unless it comes back.
 */
static void agent_return_adopted(struct smartrouter_agent *agent, const struct smartrouter_answer *answer)
{
    for (size_t i = 0; i < smartrouter_answer_count(answer, "adopted"); i++) {
        const char *call_sid = smartrouter_answer_item(answer, "adopted", i);
        bool is_ours;

        if (!sr_is_call_sid(call_sid))
            continue;
        pthread_mutex_lock(&agent->client->lock);
        is_ours = *agent_find(agent, call_sid) != NULL;
        pthread_mutex_unlock(&agent->client->lock);
        if (!is_ours)
            sr_release_later(agent->client, call_sid, agent->pod_name, "stream_closed");
    }
}

static enum smartrouter_result agent_beat(struct smartrouter_agent *agent, const struct beat *beat)
{
    struct smartrouter_answer *answer = NULL;
    const enum smartrouter_result result =
        smartrouter_heartbeat(agent->client, agent->pod_name, beat->call_sids, beat->count, &answer);

    if (result == SMARTROUTER_OK) {
        agent_take_list(agent, answer, "ended");
        agent_take_list(agent, answer, "conflicts");
        agent_return_adopted(agent, answer);
    }
    smartrouter_answer_free(answer);
    return result;
}

/* Returns how often the router wants a heartbeat; 0: the pod is not registered. */
static double agent_register(struct smartrouter_agent *agent)
{
    struct smartrouter_answer *answer = NULL;
    const enum smartrouter_result result = smartrouter_register(
        agent->client, agent->pod_name, agent->address, agent->incarnation, agent->tier, &answer);
    double interval_s = smartrouter_answer_number(answer, "heartbeat_interval_seconds");

    if (result == SMARTROUTER_OK) {
        sr_log(agent->client, SMARTROUTER_LOG_INFO, "%s is registered", agent->pod_name);
        if (!(interval_s > 0))
            interval_s = 1e9; /* then the setting counts */
    } else {
        interval_s = 0;
        sr_log(agent->client, result == SMARTROUTER_REFUSED ? SMARTROUTER_LOG_ERROR : SMARTROUTER_LOG_WARN,
               "%s is not registered, and tries again: %s", agent->pod_name,
               smartrouter_answer_error(answer));
    }
    smartrouter_answer_free(answer);
    return interval_s;
}

/* Registers if necessary, then sends a heartbeat. Without the lock. Returns whether the router knows the pod
 * now. */
static bool agent_speak(struct smartrouter_agent *agent, bool is_registered, const struct beat *beat,
                        double *ret_interval_s, bool *ret_is_registered)
{
    enum smartrouter_result result;

    *ret_interval_s = 0;
    *ret_is_registered = is_registered;
    if (!is_registered) {
        *ret_interval_s = agent_register(agent);
        *ret_is_registered = *ret_interval_s > 0;
        if (!*ret_is_registered)
            return false;
    }
    result = agent_beat(agent, beat);
    if (result == SMARTROUTER_NOT_FOUND && !agent->is_managed)
        *ret_is_registered = false;
    return result == SMARTROUTER_OK;
}

/* The router's wish, if it is shorter than the setting. */
static int64_t interval_in_ms(double interval_s, int64_t setting_ms)
{
    if (interval_s * 1000 >= (double)setting_ms)
        return setting_ms;
    return interval_s * 1000 > INTERVAL_MIN_MS ? (int64_t)(interval_s * 1000) : INTERVAL_MIN_MS;
}

static void agent_work_beat(struct smartrouter_agent *agent)
{
    struct smartrouter_client *client = agent->client;
    const int64_t setting_ms = sr_setting_ms(client->settings, SR_HEARTBEAT_S);
    int64_t wait_ms;
    struct beat beat;
    double interval_s;
    bool is_known, is_registered = agent->is_registered;

    if (!beat_collect(agent, &beat)) {
        agent->beat_ms = sr_now_ms(client) + RETRY_MS;
        return;
    }
    /* A break that is reported meanwhile may ask for an earlier one. */
    agent->beat_ms = INT64_MAX;
    pthread_mutex_unlock(&client->lock);
    is_known = agent_speak(agent, is_registered, &beat, &interval_s, &is_registered);
    beat_release(&beat);
    pthread_mutex_lock(&client->lock);
    if (interval_s > 0)
        agent->interval_ms = interval_in_ms(interval_s, setting_ms);
    agent->is_registered = is_registered;
    agent->is_known = agent->is_known ? is_registered : is_known;
    wait_ms = agent->interval_ms;
    if (!is_known) {
        wait_ms = sr_breaker_wait_ms(client->breaker, &client->limits, sr_now_ms(client));
        if (wait_ms < RETRY_MS)
            wait_ms = sr_jittered_ms(client, RETRY_MS);
    }
    if (agent->beat_ms > sr_now_ms(client) + wait_ms)
        agent->beat_ms = sr_now_ms(client) + wait_ms;
}

/* The call has not come back in time. */
static void agent_work_broken(struct smartrouter_agent *agent, const char *call_sid)
{
    agent_drop(agent, call_sid);
    pthread_mutex_unlock(&agent->client->lock);
    smartrouter_release(agent->client, call_sid, agent->pod_name, "stream_closed", NULL);
    pthread_mutex_lock(&agent->client->lock);
}

void sr_agents_work(struct smartrouter_client *client, int64_t now_ms)
{
    struct smartrouter_agent *agent = agents_first(client);
    const struct agent_call *broken = agent_first_broken(agent);
    char call_sid[SR_NAME_MAX + 1];

    client->busy_with = agent;
    if (broken && broken->keep_until_ms <= now_ms) {
        memcpy(call_sid, broken->call_sid, sizeof(call_sid));
        agent_work_broken(agent, call_sid);
    } else {
        agent_work_beat(agent);
    }
    client->busy_with = NULL;
    pthread_cond_broadcast(&client->changed);
}

/* ---- The end ---- */

/* How the drain stands. */
struct drain {
    int64_t until_ms;
    int64_t away_since_ms; /* INT64_MAX: the router answered */
};

static void agent_beat_now(struct smartrouter_agent *agent)
{
    pthread_mutex_lock(&agent->client->lock);
    agent->beat_ms = sr_now_ms(agent->client);
    pthread_cond_broadcast(&agent->client->changed);
    pthread_mutex_unlock(&agent->client->lock);
}

/* One round of drain and wait. Returns whether the agent may leave, with *ret_result. */
static bool agent_drain_once(struct smartrouter_agent *agent, struct drain *drain,
                             enum smartrouter_result *ret_result)
{
    struct smartrouter_client *client = agent->client;
    int64_t left_s = (drain->until_ms - sr_now_ms(client)) / 1000;
    enum smartrouter_result result = smartrouter_drain(client, agent->pod_name, DRAIN_TTL_S, NULL);
    size_t calls;

    if (result == SMARTROUTER_OK)
        result = sr_drained(client, agent->pod_name,
                            left_s < 0                ? 0
                            : left_s < DRAINED_WAIT_S ? (int)left_s
                                                      : DRAINED_WAIT_S,
                            &agent->is_hurried, NULL);
    calls = smartrouter_agent_calls(agent);
    *ret_result = SMARTROUTER_OK;
    if ((result == SMARTROUTER_OK || result == SMARTROUTER_NOT_FOUND) && calls == 0)
        return true;
    /* The router has ended our calls, or lost this pod with its calls: the answer to a heartbeat tells which.
     */
    if (result == SMARTROUTER_OK || result == SMARTROUTER_NOT_FOUND)
        agent_beat_now(agent);
    if (result != SMARTROUTER_UNAVAILABLE && result != SMARTROUTER_BREAKER)
        drain->away_since_ms = INT64_MAX;
    else if (drain->away_since_ms == INT64_MAX || calls > 0)
        drain->away_since_ms = sr_now_ms(client);
    else if (sr_now_ms(client) - drain->away_since_ms >= KEEP_BROKEN_MS) {
        *ret_result = SMARTROUTER_UNAVAILABLE;
        return true;
    }
    return false;
}

static enum smartrouter_result agent_drain(struct smartrouter_agent *agent)
{
    struct smartrouter_client *client = agent->client;
    struct drain drain = {.until_ms = sr_now_ms(client) + sr_setting_ms(client->settings, SR_SHUTDOWN_S),
                          .away_since_ms = INT64_MAX};
    enum smartrouter_result result;

    while (!agent_drain_once(agent, &drain, &result)) {
        int64_t pause_ms = sr_now_ms(client) + RETRY_MS;

        if (atomic_load(&agent->is_hurried) || sr_now_ms(client) >= drain.until_ms)
            return smartrouter_agent_calls(agent) > 0 ? SMARTROUTER_NOT_DRAINED : SMARTROUTER_OK;
        if (pause_ms > drain.until_ms)
            pause_ms = drain.until_ms;
        pthread_mutex_lock(&client->lock);
        while (!atomic_load(&agent->is_hurried) && sr_now_ms(client) < pause_ms)
            sr_wait_until(client, pause_ms);
        pthread_mutex_unlock(&client->lock);
    }
    return result;
}

enum smartrouter_result smartrouter_agent_stop(struct smartrouter_agent *agent)
{
    struct smartrouter_client *client = agent->client;
    const enum smartrouter_result result = agent_drain(agent);

    pthread_mutex_lock(&client->lock);
    agent_silence(agent);
    pthread_mutex_unlock(&client->lock);
    if (result == SMARTROUTER_NOT_DRAINED)
        sr_log(client, SMARTROUTER_LOG_WARN, "%s leaves with %zu calls", agent->pod_name,
               smartrouter_agent_calls(agent));
    else if (!agent->is_managed && smartrouter_remove(client, agent->pod_name, NULL) != SMARTROUTER_OK)
        sr_log(client, SMARTROUTER_LOG_WARN,
               "%s is not removed: the router does it when its heartbeats are missing", agent->pod_name);
    return result;
}

void smartrouter_agent_hurry(struct smartrouter_agent *agent)
{
    atomic_store(&agent->is_hurried, true);
    pthread_mutex_lock(&agent->client->lock);
    pthread_cond_broadcast(&agent->client->changed);
    pthread_mutex_unlock(&agent->client->lock);
}
