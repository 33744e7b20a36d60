/*
 * agent_calls.c - the calls of an agent: their streams open, end and break, and their sessions outlive a
 * break.
 */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* After a break: the router has noticed it by then, and its grace (5 s) is not over. */
    EXTRA_BEAT_MS = 1000,
    /* After a failure: by then the router has seen the end of the stream, and moved the call if it can. */
    FAILED_RELEASE_MS = 5000,
};

/* The link that points to the call; the link at the end if there is none. Under the lock. */
static struct sr_agent_call **agent_link(struct smartrouter_agent *agent, const char *call_sid)
{
    struct sr_agent_call **at = &agent->calls;

    while (*at && strcmp((*at)->call_sid, call_sid) != 0)
        at = &(*at)->next;
    return at;
}

struct sr_agent_call *sr_agent_find(const struct smartrouter_agent *agent, const char *call_sid)
{
    struct sr_agent_call *call = agent->calls;

    while (call && strcmp(call->call_sid, call_sid) != 0)
        call = call->next;
    return call;
}

bool sr_agents_have(const struct smartrouter_client *client, const char *call_sid)
{
    const struct smartrouter_agent *agent = client->agents;

    while (agent && !sr_agent_find(agent, call_sid))
        agent = agent->next;
    return agent != NULL;
}

struct sr_agent_call *sr_agent_take(struct smartrouter_agent *agent, const char *call_sid)
{
    struct sr_agent_call **at = agent_link(agent, call_sid), *call = *at;

    if (!call)
        return NULL;
    *at = call->next;
    agent->call_count--;
    pthread_cond_broadcast(&agent->client->changed);
    return call;
}

static void session_free(const struct smartrouter_agent *agent, void *session)
{
    if (session && agent->session_free)
        agent->session_free(session);
}

void sr_agent_call_free(const struct smartrouter_agent *agent, struct sr_agent_call *call)
{
    if (!call)
        return;
    session_free(agent, call->session);
    free(call);
}

struct sr_agent_call *sr_agent_first_broken(const struct smartrouter_agent *agent)
{
    struct sr_agent_call *first = NULL;

    for (struct sr_agent_call *call = agent->calls; call; call = call->next)
        if (call->keep_until_ms != SR_NOT_BROKEN && (!first || call->keep_until_ms < first->keep_until_ms))
            first = call;
    return first;
}

size_t smartrouter_agent_calls(struct smartrouter_agent *agent)
{
    size_t count;

    pthread_mutex_lock(&agent->client->lock);
    count = agent->call_count;
    pthread_mutex_unlock(&agent->client->lock);
    return count;
}

bool smartrouter_close_ends_call(int close_code)
{
    return close_code == 1000 || close_code == 1005 || (close_code >= 3000 && close_code <= 4999);
}

static enum smartrouter_result agent_add(struct smartrouter_agent *agent, const char *call_sid,
                                         void **ret_session)
{
    struct sr_agent_call **at = agent_link(agent, call_sid), *call = *at;

    if (!call) {
        if (agent->call_count >= SR_CALLS_MAX)
            return SMARTROUTER_INVALID;
        call = calloc(1, sizeof(*call));
        if (!call)
            return SMARTROUTER_NO_MEMORY;
        memcpy(call->call_sid, call_sid, strlen(call_sid) + 1);
        *at = call;
        agent->call_count++;
    }
    call->keep_until_ms = SR_NOT_BROKEN;
    call->turn = ++agent->turns;
    call->streams++;
    if (ret_session) {
        *ret_session = call->session;
        call->session = NULL;
    }
    return SMARTROUTER_OK;
}

enum smartrouter_result smartrouter_agent_stream_opened(struct smartrouter_agent *agent, const char *call_sid,
                                                        void **ret_session)
{
    enum smartrouter_result result;

    if (ret_session)
        *ret_session = NULL;
    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    /* A call that came back is not released for its last stream. */
    sr_release_forget(agent->client, call_sid);
    pthread_mutex_lock(&agent->client->lock);
    result = agent_add(agent, call_sid, ret_session);
    pthread_mutex_unlock(&agent->client->lock);
    return result;
}

enum smartrouter_result smartrouter_agent_call_began(struct smartrouter_agent *agent, const char *call_sid)
{
    return smartrouter_agent_stream_opened(agent, call_sid, NULL);
}

enum smartrouter_result smartrouter_agent_call_ended(struct smartrouter_agent *agent, const char *call_sid,
                                                     const char *reason)
{
    struct sr_agent_call *call;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    pthread_mutex_lock(&agent->client->lock);
    call = sr_agent_take(agent, call_sid);
    pthread_mutex_unlock(&agent->client->lock);
    if (!call)
        return SMARTROUTER_NOT_FOUND;
    sr_agent_call_free(agent, call);
    return smartrouter_release(agent->client, call_sid, agent->pod_name, reason ? reason : "stream_closed",
                               NULL);
}

enum smartrouter_result smartrouter_agent_stream_failed(struct smartrouter_agent *agent, const char *call_sid)
{
    struct sr_agent_call *call;
    bool has_others;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    pthread_mutex_lock(&agent->client->lock);
    call = sr_agent_find(agent, call_sid);
    has_others = call && call->streams > 1;
    if (has_others)
        call->streams--;
    else
        call = sr_agent_take(agent, call_sid);
    pthread_mutex_unlock(&agent->client->lock);
    if (has_others)
        return SMARTROUTER_OK;
    if (!call)
        return SMARTROUTER_NOT_FOUND;
    sr_agent_call_free(agent, call);
    sr_release_after(agent->client, call_sid, agent->pod_name, "agent_failed", FAILED_RELEASE_MS);
    return SMARTROUTER_OK;
}

/* The call may come back for a while. Returns the session that this one replaces, or NULL. Under the lock. */
static void *agent_keep_broken(struct smartrouter_agent *agent, struct sr_agent_call *call, void *session)
{
    const int64_t now_ms = sr_now_ms(agent->client);
    void *replaced = session ? call->session : NULL;

    call->keep_until_ms = now_ms + SR_AGENT_KEEP_MS;
    if (session)
        call->session = session;
    if (agent->beat_ms > now_ms + EXTRA_BEAT_MS)
        agent->beat_ms = now_ms + EXTRA_BEAT_MS;
    pthread_cond_broadcast(&agent->client->changed);
    return replaced;
}

enum smartrouter_result smartrouter_agent_stream_ended(struct smartrouter_agent *agent, const char *call_sid,
                                                       int close_code, void *session)
{
    struct smartrouter_client *client = agent->client;
    struct sr_agent_call *call, *ended = NULL;
    bool is_ours;

    if (!sr_is_call_sid(call_sid))
        return SMARTROUTER_INVALID;
    pthread_mutex_lock(&client->lock);
    call = sr_agent_find(agent, call_sid);
    is_ours = call != NULL;
    if (is_ours && call->streams > 0)
        call->streams--;
    if (is_ours && call->streams == 0) {
        if (smartrouter_close_ends_call(close_code))
            ended = sr_agent_take(agent, call_sid);
        else
            session = agent_keep_broken(agent, call, session);
    }
    pthread_mutex_unlock(&client->lock);
    session_free(agent, session);
    if (!is_ours)
        return SMARTROUTER_NOT_FOUND;
    if (!ended)
        return SMARTROUTER_OK;
    sr_agent_call_free(agent, ended);
    return smartrouter_release(client, call_sid, agent->pod_name, "stream_closed", NULL);
}

enum smartrouter_result smartrouter_agent_stream_closed(struct smartrouter_agent *agent, const char *call_sid,
                                                        int close_code)
{
    return smartrouter_agent_stream_ended(agent, call_sid, close_code, NULL);
}
