/*
 * smartrouter.h - libsmartrouter, the client of Smart Router for voice agents in C.
 *
 * A call never fails because the router is away, and a pod never stays taken: requests are repeated, a
 * circuit breaker spares a router that does not answer, and a background thread repeats releases, renews
 * calls and sends heartbeats. docs/CLIENTS.md describes the behaviour, README.md beside this library has a
 * program.
 *
 * Any thread may call any function, except that nothing may use an object while or after it is freed. Hooks
 * are called on the thread that caused them, or on the background thread, without locks. Texts are UTF-8 and
 * copied. The library installs no signal handler, and does not survive fork(): make clients in the process
 * that uses them.
 */
#ifndef SMARTROUTER_H
#define SMARTROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SMARTROUTER_VERSION "1.1.0" /* of the interface; the soname has its first number */
#define SMARTROUTER_API __attribute__((visibility("default")))

/* The version of the library that the program runs with. */
SMARTROUTER_API const char *smartrouter_version(void);

enum smartrouter_result {
    SMARTROUTER_OK = 0,
    SMARTROUTER_INVALID = 1,     /* an argument or a setting is wrong; nothing was sent */
    SMARTROUTER_NO_MEMORY = 2,   /* or no thread */
    SMARTROUTER_NOT_FOUND = 3,   /* 404: the router does not know the call or the pod */
    SMARTROUTER_REFUSED = 4,     /* another 4xx: the request or the key is wrong */
    SMARTROUTER_UNAVAILABLE = 5, /* no usable answer, after all tries */
    SMARTROUTER_BREAKER = 6,     /* the circuit breaker is open: nothing was sent */
    SMARTROUTER_PENDING = 7,     /* a release that failed: the background thread repeats it */
    SMARTROUTER_NOTHING = 8,     /* there was nothing to release */
    SMARTROUTER_NOT_DRAINED = 9, /* calls are left */
    SMARTROUTER_FALLBACK = 10,   /* an allocation without a pod: use the default URL */
    SMARTROUTER_BUSY = 11,       /* an allocation without a pod: tell the caller that all agents are busy */
    SMARTROUTER_BYPASS = 12, /* the rollout gate keeps this call away from the router: use the default URL */
};

/* A word for logs, such as "not_found". */
SMARTROUTER_API const char *smartrouter_result_name(enum smartrouter_result result);

/* ---- Answers: the members of the router's JSON, by name ---- */

struct smartrouter_answer;

/* Accepts NULL; always returns NULL. */
SMARTROUTER_API struct smartrouter_answer *smartrouter_answer_free(struct smartrouter_answer *answer);

/* All getters accept NULL as the answer. What they return is valid as long as the answer. */
SMARTROUTER_API int smartrouter_answer_status(const struct smartrouter_answer *answer); /* of HTTP; 0: none */
SMARTROUTER_API const char *smartrouter_answer_error(const struct smartrouter_answer *answer); /* "": none */
SMARTROUTER_API const char *smartrouter_answer_json(const struct smartrouter_answer *answer);  /* "": none */
/* A text member; NULL: there is none of this name. */
SMARTROUTER_API const char *smartrouter_answer_text(const struct smartrouter_answer *answer,
                                                    const char *name);
SMARTROUTER_API bool smartrouter_answer_flag(const struct smartrouter_answer *answer, const char *name);
SMARTROUTER_API double smartrouter_answer_number(const struct smartrouter_answer *answer, const char *name);
/* A member that is a list of texts: its length, and its texts (NULL beyond the end). */
SMARTROUTER_API size_t smartrouter_answer_count(const struct smartrouter_answer *answer, const char *name);
SMARTROUTER_API const char *smartrouter_answer_item(const struct smartrouter_answer *answer, const char *name,
                                                    size_t index);

/* ---- Settings: the variables of docs/CLIENTS.md, by name ---- */

struct smartrouter_settings;

/* The defaults. NULL: no memory. */
SMARTROUTER_API struct smartrouter_settings *smartrouter_settings_new(void);
/* Accepts NULL; always returns NULL. */
SMARTROUTER_API struct smartrouter_settings *smartrouter_settings_free(struct smartrouter_settings *settings);
/*
 * Sets one, for example "SMART_ROUTER_BASE_URL". A wrong name or value changes nothing, and `error` (may be
 * NULL) gets a sentence that names the variable.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_settings_set(struct smartrouter_settings *settings,
                                                                 const char *name, const char *value,
                                                                 char *error, size_t error_size);
/* Sets all variables that the environment has. Stops at the first wrong one. */
SMARTROUTER_API enum smartrouter_result
smartrouter_settings_read_environment(struct smartrouter_settings *settings, char *error, size_t error_size);
/* NULL: there is no setting of this name. Valid until the setting is set again. */
SMARTROUTER_API const char *smartrouter_settings_get(const struct smartrouter_settings *settings,
                                                     const char *name);

enum smartrouter_log_level {
    SMARTROUTER_LOG_DEBUG,
    SMARTROUTER_LOG_INFO,
    SMARTROUTER_LOG_WARN,
    SMARTROUTER_LOG_ERROR,
};
/* `message` is one line without a line break. It never has the API key. */
typedef void (*smartrouter_log_fn)(void *arg, enum smartrouter_log_level level, const char *message);
SMARTROUTER_API void smartrouter_settings_set_log(struct smartrouter_settings *settings,
                                                  smartrouter_log_fn log, void *arg);

/*
 * One measurement: `name` is a metric of docs/CLIENTS.md, `operation` and `outcome` are its labels ("" if it
 * has none), `value` is what to add, to set or to observe.
 */
typedef void (*smartrouter_metric_fn)(void *arg, const char *name, const char *operation, const char *outcome,
                                      double value);
SMARTROUTER_API void smartrouter_settings_set_metric(struct smartrouter_settings *settings,
                                                     smartrouter_metric_fn metric, void *arg);

/*
 * Asked before each request, on the thread that sends it: writes the traceparent (W3C Trace Context, 55
 * characters) of the current trace, and returns true; false: there is none.
 */
typedef bool (*smartrouter_traceparent_fn)(void *arg, char text[56]);
SMARTROUTER_API void smartrouter_settings_set_traceparent(struct smartrouter_settings *settings,
                                                          smartrouter_traceparent_fn traceparent, void *arg);

/*
 * For tests only. The clock is monotonic, in milliseconds. `sleep` waits between two tries. With a clock of
 * its own a client looks at it every few milliseconds of real time. `random` returns a number from 0 to below
 * 1: the jitter.
 */
typedef int64_t (*smartrouter_clock_fn)(void *arg);
typedef void (*smartrouter_sleep_fn)(void *arg, int64_t ms);
typedef double (*smartrouter_random_fn)(void *arg);
SMARTROUTER_API void smartrouter_settings_set_clock(struct smartrouter_settings *settings,
                                                    smartrouter_clock_fn clock, smartrouter_sleep_fn sleep,
                                                    void *arg);
SMARTROUTER_API void smartrouter_settings_set_random(struct smartrouter_settings *settings,
                                                     smartrouter_random_fn random, void *arg);

/* ---- The client ---- */

struct smartrouter_client;

/* Copies the settings. Starts the background thread; sends nothing. */
SMARTROUTER_API enum smartrouter_result smartrouter_client_new(const struct smartrouter_settings *settings,
                                                               struct smartrouter_client **ret_client);
/*
 * Tries what is left to release once more, for at most one request timeout, and ends the background thread.
 * Free its calls and agents first. Accepts NULL; always returns NULL.
 */
SMARTROUTER_API struct smartrouter_client *smartrouter_client_free(struct smartrouter_client *client);

/*
 * Changes a setting of the rollout while the client runs: ENABLE_VOICE_AGENT_POD_ISOLATION,
 * SMART_ROUTER_PERCENTAGE or SMART_ROUTER_MERCHANTS.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_client_set(struct smartrouter_client *client,
                                                               const char *name, const char *value,
                                                               char *error, size_t error_size);

/* Does the rollout gate let this merchant's calls use the router? `merchant_id` may be NULL. */
SMARTROUTER_API bool smartrouter_is_enabled_for(struct smartrouter_client *client, const char *merchant_id);

/* Should the webhook of this provider be the router's own, /api/v1/{provider}/allocate? */
SMARTROUTER_API bool smartrouter_is_direct(const struct smartrouter_client *client, const char *provider);

enum smartrouter_breaker_state {
    SMARTROUTER_BREAKER_CLOSED,
    SMARTROUTER_BREAKER_OPEN,
    SMARTROUTER_BREAKER_HALF_OPEN,
};
/* The circuit breaker of the client's router: one for each SMART_ROUTER_BASE_URL in the process. */
SMARTROUTER_API enum smartrouter_breaker_state smartrouter_breaker(struct smartrouter_client *client);

/* Releases that wait to be repeated. */
SMARTROUTER_API size_t smartrouter_pending_releases(struct smartrouter_client *client);

/* ---- Requests. `ret_answer` may be NULL; otherwise it gets an answer to free, or NULL if there is no memory
 * ---- */

/*
 * The router says how a call stands in line. The answer has the numbers "position" (1: it is the next one; 0:
 * not known), "waited_seconds" and, if something is known, "estimated_wait_seconds"; it is borrowed. Runs on
 * the thread that allocates. smartrouter_stop_waiting may be called here.
 */
typedef void (*smartrouter_waiting_fn)(void *arg, const struct smartrouter_answer *answer);

/* A call that wants a pod. Set `size` to sizeof; members that are NULL or 0 are not sent. */
struct smartrouter_call_request {
    size_t size;
    const char *call_sid;
    const char *merchant_id;
    const char *provider;
    const char *flow;
    const char *template_name;
    const char *traceparent; /* instead of the hook's */
    int wait_ms; /* if no pod is free, the call waits for one, where the router lets calls wait; 0: it does
                    not */
    smartrouter_waiting_fn waiting; /* may be NULL */
    void *waiting_arg;
};

/*
 * Where to send a call: rollout gate, circuit breaker, request, fallback.
 *
 * OK: the answer has "pod_name", "ws_url", "source_pool" and "was_existing". FALLBACK: "ws_url" is the
 * default URL. BYPASS: the same, but it may be "". BUSY: tell the caller so. The text "reason" says why there
 * is no pod: disabled, percentage, merchants, breaker_open, no_pods, refused, unavailable, stopped. The
 * numbers "waited_seconds" and "position" say how long a call with `wait_ms` took, and its last known place
 * in line.
 *
 * Only an empty `call_sid` is INVALID. A request that failed, but may have been carried out, is released in
 * the background; not so a call that this client has: one that is kept, one of its agents, or one that got a
 * pod from it (of the last 10,000) and was not released since.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_allocate(struct smartrouter_client *client,
                                                             const struct smartrouter_call_request *request,
                                                             struct smartrouter_answer **ret_answer);
/*
 * Any thread: a smartrouter_allocate or smartrouter_call_begin that waits with this call ends, within about a
 * second, with the reason "stopped", and the call leaves the line. smartrouter_release does the same. false:
 * no such call waits.
 */
SMARTROUTER_API bool smartrouter_stop_waiting(struct smartrouter_client *client, const char *call_sid);

/*
 * Ends a call. 404 is OK: it has ended already, or is on another pod than `pod_name`. PENDING: the router
 * could not be asked; the background thread repeats it until it is answered or the call's lease is over.
 * `pod_name` and `reason` may be NULL.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_release(struct smartrouter_client *client,
                                                            const char *call_sid, const char *pod_name,
                                                            const char *reason,
                                                            struct smartrouter_answer **ret_answer);
/*
 * A provider's status callback: releases the call if the status, such as "completed" or "busy", is its end,
 * as smartrouter_release does. NOTHING: it is not. `pod_name` may be NULL.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_handle_status(struct smartrouter_client *client,
                                                                  const char *call_sid, const char *status,
                                                                  const char *pod_name);
/* Renews leases; at most 1,000 calls. Answer: lists "renewed", "unknown", "ended", "conflicts". */
SMARTROUTER_API enum smartrouter_result smartrouter_renew(struct smartrouter_client *client,
                                                          const char *const *call_sids, size_t count,
                                                          struct smartrouter_answer **ret_answer);
/* All calls of a pod; at most 1,000. Answer: lists "renewed", "adopted", "ended", "conflicts". */
SMARTROUTER_API enum smartrouter_result smartrouter_heartbeat(struct smartrouter_client *client,
                                                              const char *pod_name,
                                                              const char *const *call_sids, size_t count,
                                                              struct smartrouter_answer **ret_answer);
/* Registers a pod. `tier` may be NULL. Answer: "tier", number "heartbeat_interval_seconds". */
SMARTROUTER_API enum smartrouter_result smartrouter_register(struct smartrouter_client *client,
                                                             const char *pod_name, const char *address,
                                                             const char *incarnation, const char *tier,
                                                             struct smartrouter_answer **ret_answer);
/* Removes a pod that was registered; its calls end. 404 is OK. */
SMARTROUTER_API enum smartrouter_result smartrouter_remove(struct smartrouter_client *client,
                                                           const char *pod_name,
                                                           struct smartrouter_answer **ret_answer);
/* No new calls for a pod. `ttl_s` -1: the router's DRAINING_TTL; 0: until it is undrained. */
SMARTROUTER_API enum smartrouter_result smartrouter_drain(struct smartrouter_client *client,
                                                          const char *pod_name, int ttl_s,
                                                          struct smartrouter_answer **ret_answer);
SMARTROUTER_API enum smartrouter_result smartrouter_undrain(struct smartrouter_client *client,
                                                            const char *pod_name,
                                                            struct smartrouter_answer **ret_answer);
/* OK: the pod drains and has no call. NOT_DRAINED: not within `wait_s` (at most 60); list "calls". */
SMARTROUTER_API enum smartrouter_result smartrouter_drained(struct smartrouter_client *client,
                                                            const char *pod_name, int wait_s,
                                                            struct smartrouter_answer **ret_answer);
SMARTROUTER_API enum smartrouter_result smartrouter_status(struct smartrouter_client *client,
                                                           struct smartrouter_answer **ret_answer);
/* OK: the router is well. Asks also while the circuit breaker is open, and does not change it. */
SMARTROUTER_API enum smartrouter_result smartrouter_health(struct smartrouter_client *client,
                                                           struct smartrouter_answer **ret_answer);

/* ---- A call from allocation to release ---- */

struct smartrouter_call;

/*
 * As smartrouter_allocate. With OK, *ret_call is a call whose lease the background thread renews until it is
 * ended; with FALLBACK, BUSY and BYPASS it is one that holds nothing. End it in any case. Otherwise it is
 * NULL.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_call_begin(struct smartrouter_client *client,
                                                               const struct smartrouter_call_request *request,
                                                               struct smartrouter_call **ret_call);
SMARTROUTER_API const char *smartrouter_call_ws_url(const struct smartrouter_call *call);   /* "": busy */
SMARTROUTER_API const char *smartrouter_call_pod_name(const struct smartrouter_call *call); /* "": none */
/* As the answer's of smartrouter_allocate; "": there is a pod. */
SMARTROUTER_API const char *smartrouter_call_reason(const struct smartrouter_call *call);
/* Has the router ended the call, or given its pod to another one? */
SMARTROUTER_API bool smartrouter_call_is_over(struct smartrouter_call *call);
/*
 * Releases the pod and frees the call. As smartrouter_release, or NOTHING: the call had no pod, or the router
 * has ended it. `reason` NULL: "call_ended". Accepts NULL.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_call_end(struct smartrouter_call *call,
                                                             const char *reason);

/* ---- An agent: one pod that answers calls ---- */

struct smartrouter_agent;

/* The router has ended this call, or given it to another pod: close its stream. Do not release it. */
typedef void (*smartrouter_call_over_fn)(void *arg, const char *call_sid, bool is_conflict);

/* Frees a session that was given to smartrouter_agent_stream_ended. */
typedef void (*smartrouter_session_free_fn)(void *session);

/* Set `size` to sizeof. */
struct smartrouter_agent_options {
    size_t size;
    const char *pod_name;    /* NULL: POD_NAME */
    const char *address;     /* NULL: POD_IP and `port` */
    int port;                /* 0: 8000 */
    const char *tier;        /* may be NULL */
    const char *incarnation; /* NULL: a new one. Registering again with the same one keeps the calls */
    bool is_managed;         /* Kubernetes or STATIC_PODS manage the pod: do not register, do not remove */
    smartrouter_call_over_fn call_over; /* may be NULL */
    void *call_over_arg;
    smartrouter_session_free_fn session_free; /* may be NULL: sessions are not freed */
};

/*
 * Registers in the background, as long as it takes, and sends heartbeats from then on. Listen first: a
 * registered pod can get a call at once.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_new(struct smartrouter_client *client,
                                                              const struct smartrouter_agent_options *options,
                                                              struct smartrouter_agent **ret_agent);
/* Is it registered now? `wait_ms`: waits for it so long at most; -1: until it is, or the agent stops. */
SMARTROUTER_API bool smartrouter_agent_is_ready(struct smartrouter_agent *agent, int wait_ms);
/*
 * A stream has opened: heartbeats list the call. Again for a stream that came back, also while the old one is
 * still open: once for each stream.
 *
 * *ret_session is the session of a call that came back, which is the program's again. NULL: this agent has
 * none. Then the call is new, or, with the header X-Call-Resumed, another agent had it, or its old stream is
 * still open. `ret_session` may be NULL: then a session stays where it is.
 */
SMARTROUTER_API enum smartrouter_result
smartrouter_agent_stream_opened(struct smartrouter_agent *agent, const char *call_sid, void **ret_session);
/* The same without a session. */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_call_began(struct smartrouter_agent *agent,
                                                                     const char *call_sid);
/* The call has ended: it is released with the pod's name. NOT_FOUND: the agent does not have it (any more).
 */
SMARTROUTER_API enum smartrouter_result
smartrouter_agent_call_ended(struct smartrouter_agent *agent, const char *call_sid, const char *reason);
/*
 * Does a stream that was closed with this code end its call? 1000, 1005 and 3000 to 4999 do. With all others,
 * such as 1006 (no close frame) and 1012, the call may come back.
 */
SMARTROUTER_API bool smartrouter_close_ends_call(int close_code);
/*
 * The stream has ended with this close code (1006: without one). If that ends the call, it is released.
 * Otherwise the agent keeps it for 60 s, in which smartrouter_agent_stream_opened takes it up again; then it
 * is released. A heartbeat whose answer says that the call has ended, or is on another pod, ends that time
 * early. While another stream of the call is open, the end of this one changes nothing: the last one decides.
 * Once for each stream that smartrouter_agent_stream_opened was told of. If the provider's stop message has
 * come before, use smartrouter_agent_call_ended: the call is over, whatever the code.
 *
 * Takes ownership of `session` (may be NULL), whatever it returns: for a call that may come back it is kept,
 * otherwise it is freed.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_stream_ended(struct smartrouter_agent *agent,
                                                                       const char *call_sid, int close_code,
                                                                       void *session);
/* The same without a session. */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_stream_closed(struct smartrouter_agent *agent,
                                                                        const char *call_sid, int close_code);
/*
 * The agent cannot go on with this stream, and closes it with 1011: the router gives the call to another pod.
 * Heartbeats do not list it any more. If it is still on this pod 5 s later, it is released. Instead of
 * smartrouter_agent_stream_ended.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_stream_failed(struct smartrouter_agent *agent,
                                                                        const char *call_sid);
SMARTROUTER_API size_t smartrouter_agent_calls(struct smartrouter_agent *agent);
/*
 * Drains, and waits until the last call has ended, at most VOICE_AGENT_SHUTDOWN_TIMEOUT; then leaves the
 * router. Call it after SIGTERM, on a thread of yours, not in the handler. NOT_DRAINED: calls are left; the
 * pod is not removed, because that would end them. UNAVAILABLE: no router answered for a minute, and the
 * agent had no calls.
 */
SMARTROUTER_API enum smartrouter_result smartrouter_agent_stop(struct smartrouter_agent *agent);
/* Stops waiting in smartrouter_agent_stop: it leaves at once. */
SMARTROUTER_API void smartrouter_agent_hurry(struct smartrouter_agent *agent);
/* Not while another thread is in smartrouter_agent_stop. Accepts NULL; always returns NULL. */
SMARTROUTER_API struct smartrouter_agent *smartrouter_agent_free(struct smartrouter_agent *agent);

#ifdef __cplusplus
}
#endif

#endif
