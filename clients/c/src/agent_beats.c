/*
 * agent_beats.c - heartbeats of agents, and the ends of calls that did not come back, on the background
 * thread.
 */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

enum { INTERVAL_MIN_MS = 50 /* of heartbeats, whatever the router asks for */ };

/* The calls of a heartbeat, copied. */
struct beat {
    struct {
        uint64_t turn;
        char call_sid[SR_NAME_MAX + 1];
    } * calls;
    const char **call_sids;
    size_t count;
};

static int64_t agent_due_ms(const struct smartrouter_agent *agent)
{
    const struct sr_agent_call *broken = sr_agent_first_broken(agent);
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
    free(beat->calls);
    free(beat->call_sids);
}

/* Under the lock. false: no memory. */
static bool beat_collect(const struct smartrouter_agent *agent, struct beat *beat)
{
    const size_t room = agent->call_count ? agent->call_count : 1;

    *beat =
        (struct beat){.calls = calloc(room, sizeof(*beat->calls)), .call_sids = calloc(room, sizeof(char *))};
    if (!beat->calls || !beat->call_sids) {
        beat_release(beat);
        return false;
    }
    for (const struct sr_agent_call *call = agent->calls; call; call = call->next) {
        memcpy(beat->calls[beat->count].call_sid, call->call_sid, sizeof(call->call_sid));
        beat->calls[beat->count].turn = call->turn;
        beat->call_sids[beat->count] = beat->calls[beat->count].call_sid;
        beat->count++;
    }
    return true;
}

/* Is the call's stream the one that the heartbeat spoke of? Another one has come after it. Under the lock. */
static bool beat_has(const struct beat *beat, const struct sr_agent_call *call)
{
    size_t i = 0;

    while (i < beat->count && strcmp(beat->calls[i].call_sid, call->call_sid) != 0)
        i++;
    return i < beat->count && beat->calls[i].turn == call->turn;
}

/* Calls that the router has ended, or given to another pod: the program closes their streams. */
static void agent_take_list(struct smartrouter_agent *agent, const struct beat *beat,
                            const struct smartrouter_answer *answer, const char *name)
{
    for (size_t i = 0; i < smartrouter_answer_count(answer, name); i++) {
        const char *call_sid = smartrouter_answer_item(answer, name, i);
        struct sr_agent_call *call;

        if (!call_sid)
            continue;
        pthread_mutex_lock(&agent->client->lock);
        call = sr_agent_find(agent, call_sid);
        if (call)
            call = beat_has(beat, call) ? sr_agent_take(agent, call_sid) : NULL;
        /* A call in "conflicts" goes on, on another pod. */
        if (strcmp(name, "ended") == 0)
            sr_held_remove(&agent->client->held, call_sid);
        pthread_mutex_unlock(&agent->client->lock);
        if (call && agent->call_over)
            agent->call_over(agent->call_over_arg, call_sid, strcmp(name, "conflicts") == 0);
        sr_agent_call_free(agent, call);
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
        is_ours = sr_agent_find(agent, call_sid) != NULL;
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
        agent_take_list(agent, beat, answer, "ended");
        agent_take_list(agent, beat, answer, "conflicts");
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
        agent->beat_ms = sr_now_ms(client) + SR_AGENT_RETRY_MS;
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
        if (wait_ms < SR_AGENT_RETRY_MS)
            wait_ms = sr_jittered_ms(client, SR_AGENT_RETRY_MS);
    }
    if (agent->beat_ms > sr_now_ms(client) + wait_ms)
        agent->beat_ms = sr_now_ms(client) + wait_ms;
}

/* The call has not come back in time. */
static void agent_work_broken(struct smartrouter_agent *agent, const char *call_sid)
{
    struct sr_agent_call *call = sr_agent_take(agent, call_sid);

    pthread_mutex_unlock(&agent->client->lock);
    sr_agent_call_free(agent, call);
    smartrouter_release(agent->client, call_sid, agent->pod_name, "stream_closed", NULL);
    pthread_mutex_lock(&agent->client->lock);
}

void sr_agents_work(struct smartrouter_client *client, int64_t now_ms)
{
    struct smartrouter_agent *agent = agents_first(client);
    const struct sr_agent_call *broken = sr_agent_first_broken(agent);
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

void sr_agent_beat_now(struct smartrouter_agent *agent)
{
    pthread_mutex_lock(&agent->client->lock);
    agent->beat_ms = sr_now_ms(agent->client);
    pthread_cond_broadcast(&agent->client->changed);
    pthread_mutex_unlock(&agent->client->lock);
}
