/*
 * agent.h - what the parts of an agent share: its calls and its times.
 *
 * agent.c has its life, agent_calls.c its calls and their streams, agent_beats.c its heartbeats. Everything
 * that may change is under the client's lock.
 */
#ifndef SR_AGENT_H
#define SR_AGENT_H

#include "client.h"

enum {
    SR_AGENT_RETRY_MS = 1000,
    SR_AGENT_KEEP_MS = 60000, /* a call whose stream broke */
};

#define SR_NOT_BROKEN INT64_MAX

struct sr_agent_call {
    struct sr_agent_call *next;
    int64_t keep_until_ms; /* SR_NOT_BROKEN, or when a broken call is released */
    unsigned streams;      /* that are open: an old one may close after the one that took its call up */
    uint64_t turn;         /* another one for each stream: an answer to an older heartbeat is not for it */
    void *session;         /* of a broken call; NULL: none */
    char call_sid[SR_NAME_MAX + 1];
};

struct smartrouter_agent {
    struct smartrouter_agent *next;
    struct smartrouter_client *client;
    char *pod_name, *address, *tier, *incarnation;
    bool is_managed;
    smartrouter_call_over_fn call_over;
    void *call_over_arg;
    smartrouter_session_free_fn session_free;
    struct sr_agent_call *calls;
    size_t call_count;
    uint64_t turns;
    int64_t beat_ms; /* when the next heartbeat or registration is due */
    int64_t interval_ms;
    bool is_registered;
    bool is_known;   /* the router has taken a heartbeat */
    bool is_stopped; /* no heartbeat follows */
    atomic_bool is_hurried;
};

/* ---- agent_calls.c ---- */

/* NULL: the agent does not have the call. Under the lock. */
struct sr_agent_call *sr_agent_find(const struct smartrouter_agent *agent, const char *call_sid);
/* Takes the call out of the agent's list. NULL: it is not there. Under the lock. */
struct sr_agent_call *sr_agent_take(struct smartrouter_agent *agent, const char *call_sid);
/* Frees a call that was taken, and its session. Accepts NULL. Without the lock: the program frees sessions.
 */
void sr_agent_call_free(const struct smartrouter_agent *agent, struct sr_agent_call *call);
/* The broken call that is released first. NULL: none is broken. Under the lock. */
struct sr_agent_call *sr_agent_first_broken(const struct smartrouter_agent *agent);

/* ---- agent_beats.c ---- */

/* Now, on the background thread. */
void sr_agent_beat_now(struct smartrouter_agent *agent);

#endif
