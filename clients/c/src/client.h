/*
 * client.h - what the parts of a client share: its locks, its lists, and how it asks the router.
 *
 * `lock` guards everything that is said to be under it. No request is sent and no hook is called while it is
 * held.
 */
#ifndef SR_CLIENT_H
#define SR_CLIENT_H

#include "answer.h"
#include "breaker.h"
#include "http.h"
#include "settings.h"

#include <pthread.h>

enum {
    SR_NAME_MAX = 128,       /* characters of a call_sid; a pod's name has 63 */
    SR_CALLS_MAX = 1000,     /* in one renewal or heartbeat */
    SR_RELEASES_MAX = 10000, /* that wait; then the oldest is given up */
    SR_HELD_MAX = 10000,     /* calls that are remembered; then the oldest is forgotten */
    SR_HELD_BUCKETS = 4096,
    SR_RELEASE_FIRST_MS = 1000,    /* the wait before a release is repeated; it doubles */
    SR_RELEASE_LONGEST_MS = 30000, /* up to this */
    SR_TRY_FIRST_MS = 100,         /* the wait before an operation's second try; it doubles */
};

/* A release that the background repeats. Under the lock. */
struct sr_release {
    struct sr_release *next;
    char *call_sid, *pod_name, *reason; /* the last two may be NULL */
    int64_t due_ms;
    int64_t give_up_ms;
    int tries;
    bool is_on_its_way; /* the background has it; it stays in the list */
    bool is_forgotten;  /* while it was on its way: it is not repeated */
};

struct smartrouter_call {
    struct smartrouter_call *next;
    struct smartrouter_client *client;
    char *call_sid, *pod_name, *ws_url;
    const char *reason;
    int64_t renew_ms; /* under the lock */
    bool is_kept;     /* under the lock: has a pod, and the router has not ended it */
    bool is_over;     /* under the lock */
};

/* An allocation that is being asked for, perhaps in line. See line.c. Under the lock, except for the flag. */
struct sr_wait {
    struct sr_wait *next;
    const char *call_sid;
    bool may_stop;
    atomic_bool is_stopped;
};

/* Calls that got a pod from this client and are not released yet. See held.c. Under the lock. */
struct sr_held {
    struct sr_held_call *buckets[SR_HELD_BUCKETS];
    struct sr_held_call *oldest, *newest;
    size_t count;
};

struct smartrouter_client {
    struct smartrouter_settings *settings; /* those of the rollout are under the lock */
    struct sr_breaker *breaker;
    struct sr_breaker_limits limits;
    char *authorization; /* NULL: there is no key */
    struct sr_http *http;
    sr_transport_fn transport;
    void *transport_arg;

    pthread_mutex_t lock;
    pthread_cond_t changed;      /* something is due earlier, or is done */
    struct sr_release *releases; /* the oldest first */
    size_t release_count;
    struct smartrouter_call *calls;
    struct smartrouter_agent *agents;
    struct sr_wait *waits;
    struct sr_held held;
    const void *busy_with; /* the agent that the background thread works for */
    bool is_stopping;

    atomic_int seen_state; /* of the breaker, when it was last told */
    pthread_t worker;
    bool has_worker;
};

/* What a request came to. */
enum sr_class {
    SR_DONE,         /* 2xx, with the body that the operation needs */
    SR_NOT_FOUND,    /* 404 */
    SR_REFUSED,      /* another 4xx */
    SR_NO_PODS,      /* 503 of a router that is well */
    SR_WAITING,      /* 202: the call has no pod yet, and stands in line */
    SR_STOPPED,      /* the program has stopped the wait */
    SR_ENDED,        /* somebody else has released the call in line */
    SR_FAILED,       /* no usable answer */
    SR_BREAKER_OPEN, /* not sent */
    SR_NO_MEMORY,    /* not sent */
};

struct sr_request {
    const char *operation; /* for logs and metrics */
    const char *method;
    const char *path;
    cJSON *body;             /* borrowed; NULL: none */
    const char *traceparent; /* NULL: the hook's */
    const char *needs; /* members that a 200 must have, separated by blanks; NULL: any object; "": anything */
    int tries;         /* 0: SMART_ROUTER_RETRY_ATTEMPTS */
    int64_t longer_ms; /* the router may take so much longer to answer */
    bool is_unguarded; /* neither asks nor tells the breaker */
    bool may_lack_pods;        /* 503 may mean that no pod is free, 202 that the call waits for one */
    atomic_bool *is_cancelled; /* may be NULL */
};

/* *ret_may_have_arrived: some try had no answer, and the router may have carried it out. May be NULL. */
enum sr_class sr_ask(struct smartrouter_client *client, const struct sr_request *request,
                     struct smartrouter_answer **ret_answer, bool *ret_may_have_arrived);

/* For operations whose classes are results as they are. Gives the answer away, or frees it. */
enum smartrouter_result sr_ask_result(struct smartrouter_client *client, const struct sr_request *request,
                                      struct smartrouter_answer **ret_answer);
enum smartrouter_result sr_result_of(enum sr_class class);

/* The program's trace, or a new one. `given` may be NULL. */
void sr_traceparent_find(const struct smartrouter_client *client, const char *given,
                         char text[SR_TRACEPARENT_SIZE]);

int64_t sr_now_ms(const struct smartrouter_client *client);
/* `ms` times (1 + jitter / 2). */
int64_t sr_jittered_ms(const struct smartrouter_client *client, int64_t ms);
/* Waits until `changed` is signalled, or until the time: returns early at will. Under the lock. */
void sr_wait_until(struct smartrouter_client *client, int64_t until_ms);
void sr_log(const struct smartrouter_client *client, enum smartrouter_log_level level, const char *format,
            ...) __attribute__((format(printf, 3, 4)));
void sr_metric(const struct smartrouter_client *client, const char *name, const char *operation,
               const char *outcome, double value);
/* 1 to SR_NAME_MAX characters that are allowed in a call_sid. */
bool sr_is_call_sid(const char *text);
/* A DNS label. */
bool sr_is_pod_name(const char *text);

/* ---- requests.c ---- */

/* As smartrouter_drained; the wait can be cut short. */
enum smartrouter_result sr_drained(struct smartrouter_client *client, const char *pod_name, int wait_s,
                                   atomic_bool *is_cancelled, struct smartrouter_answer **ret_answer);

/* ---- releases.c ---- */

/* Leaves a release to the background, unless one of this call waits already. */
void sr_release_later(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                      const char *reason);
/* The same, with this time before the first try. */
void sr_release_after(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                      const char *reason, int64_t wait_ms);
/* The same for an allocation without an answer, unless this client has the call: it would be ended. */
void sr_release_unless_live(struct smartrouter_client *client, const char *call_sid, const char *reason);
/* Takes the call's release back, if one waits; waits for one that is on its way. Returns whether there was
 * one. */
bool sr_release_forget(struct smartrouter_client *client, const char *call_sid);
/*
 * A call that stood in line does not want its pod any more: released at once, unless this client has it.
 * `also_live`: also then.
 */
void sr_release_from_line(struct smartrouter_client *client, const char *call_sid, const char *reason,
                          bool also_live);
/* One try. Returns whether it was answered. */
bool sr_release_try(struct smartrouter_client *client, const char *call_sid, const char *pod_name,
                    const char *reason, enum smartrouter_result *ret_result,
                    struct smartrouter_answer **ret_answer);
/* When the first one is due; INT64_MAX: none waits. Under the lock. */
int64_t sr_releases_due_ms(const struct smartrouter_client *client);
/* Tries the first one that is due. Holds the lock before and after, not meanwhile. */
void sr_releases_work(struct smartrouter_client *client, int64_t now_ms);
void sr_releases_give_up(struct smartrouter_client *client);

/* ---- line.c ---- */

/* What an allocation asks for. */
struct sr_line {
    const char *call_sid, *traceparent; /* the trace may be NULL */
    cJSON *body;                        /* without "wait" and "wait_ms", which come and go */
    int64_t wait_ms;                    /* 0: it does not wait */
    smartrouter_waiting_fn waiting;     /* may be NULL */
    void *waiting_arg;
};

struct sr_stood {
    bool has_stood;        /* the router has said that the call waits */
    bool may_have_arrived; /* as of sr_ask, of the last request */
    int position;          /* the last one that the router has said; 0: none */
    int64_t waited_ms;     /* 0: it was not to wait */
};

/* Asks for a pod, and waits for it. SR_WAITING: the time was over first. */
enum sr_class sr_line_stand(struct smartrouter_client *client, const struct sr_line *line,
                            struct smartrouter_answer **ret_answer, struct sr_stood *ret_stood);
/* Is this call being allocated? Under the lock. */
bool sr_lines_have(const struct smartrouter_client *client, const char *call_sid);

/* ---- held.c ---- */

bool sr_held_has(struct sr_held *held, const char *call_sid);
/* The newest one now. Does nothing without memory. */
void sr_held_add(struct sr_held *held, const char *call_sid);
void sr_held_remove(struct sr_held *held, const char *call_sid);
void sr_held_empty(struct sr_held *held);

/* ---- calls.c: the same for renewals ---- */

/* Does a kept call have this sid? Under the lock. */
bool sr_calls_have(const struct smartrouter_client *client, const char *call_sid);
int64_t sr_calls_due_ms(const struct smartrouter_client *client);
void sr_calls_work(struct smartrouter_client *client, int64_t now_ms);

/* ---- agent_calls.c, agent_beats.c: the same for heartbeats and registrations ---- */

/* Does an agent of this client have the call? Under the lock. */
bool sr_agents_have(const struct smartrouter_client *client, const char *call_sid);
int64_t sr_agents_due_ms(const struct smartrouter_client *client);
void sr_agents_work(struct smartrouter_client *client, int64_t now_ms);

/* ---- worker.c ---- */

/* When the background has work; INT64_MAX: never. Under the lock. */
int64_t sr_work_due_ms(const struct smartrouter_client *client);
/* Does one piece of work that is due. Holds the lock before and after. Returns whether there was one. */
bool sr_work_once(struct smartrouter_client *client);
/* Starts the thread. false: there is none. */
bool sr_worker_start(struct smartrouter_client *client);

#endif
