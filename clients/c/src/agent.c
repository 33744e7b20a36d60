/*
 * agent.c - an agent: registers its pod, sends heartbeats with its calls, and leaves without dropping one.
 *
 * docs/AGENTS.md has the requests behind it. This file has the beginning and the end.
 */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    DRAIN_TTL_S = 300,
    DRAINED_WAIT_S = 20,
    DEFAULT_PORT = 8000,
    ADDRESS_SIZE = 300,
    INCARNATION_SIZE = 33,
};

#define OPTION(options, name)                                                                                \
    ((options)->size >= offsetof(struct smartrouter_agent_options, name) + sizeof((options)->name)           \
         ? (options)->name                                                                                   \
         : 0)

static void agent_destroy(struct smartrouter_agent *agent)
{
    struct sr_agent_call *next;

    if (!agent)
        return;
    for (struct sr_agent_call *call = agent->calls; call; call = next) {
        next = call->next;
        sr_agent_call_free(agent, call);
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
    agent->session_free = OPTION(options, session_free);
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

/* ---- The end ---- */

/* How the drain stands. */
struct drain {
    int64_t until_ms;
    int64_t away_since_ms; /* INT64_MAX: the router answered */
};

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
        sr_agent_beat_now(agent);
    if (result != SMARTROUTER_UNAVAILABLE && result != SMARTROUTER_BREAKER)
        drain->away_since_ms = INT64_MAX;
    else if (drain->away_since_ms == INT64_MAX || calls > 0)
        drain->away_since_ms = sr_now_ms(client);
    else if (sr_now_ms(client) - drain->away_since_ms >= SR_AGENT_KEEP_MS) {
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
        int64_t pause_ms = sr_now_ms(client) + SR_AGENT_RETRY_MS;

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
