/*
 * api_internal.h - what the files of this module share: the api itself, and a request's way through
 * the store.
 *
 * A handler validates, makes a task in the request's arena, and sends one command with api_execute;
 * its continuation (the same name with _stored) renders the answer and logs the event. Loop thread
 * only.
 */
#ifndef API_API_INTERNAL_H
#define API_API_INTERNAL_H

#include "api/allocate_waits.h"
#include "api/api.h"
#include "api/drained.h"
#include "api/events.h"
#include "api/finished_calls.h"
#include "api/gauges.h"
#include "api/history.h"
#include "api/instruments.h"
#include "api/keys.h"
#include "api/rate.h"
#include "api/routes.h"
#include "api/scrape.h"
#include "api/secrets.h"
#include "api/ws_url.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/log_repeat.h"
#include "http/traceparent.h"

enum {
    API_TASK_MAGIC = 0x61746173,
    API_ANSWER_MAX = 4 * 1024 * 1024, /* the largest answer: a page of pods with all their calls */
    API_LEADER_MAX = 255,
    API_SERVERS_MAX = 2,
    API_TEXT_MAX = 128, /* flow and template */
    KEYS_ERROR_MAX = 256,
    DRAIN_SECONDS_MAX = 7 * 24 * 3600,
    DRAIN_WAIT_SECONDS_MAX = 60,
};

#define CALL_NOT_FOUND "call not found"
#define API_MERCHANT_NOT_FOUND "merchant not found"
#define POD_NOT_FOUND "pod not found"

#define APPEND_LITERAL(buf, literal) strbuf_append(buf, literal, sizeof(literal) - 1)

struct api {
    struct api_settings settings;
    struct store *store;
    struct metrics *metrics;
    struct instruments *instruments;
    struct gauges *gauges;
    struct watchers *watchers;
    struct drain_waits *drain_waits;
    struct allocate_waits *allocate_waits;
    struct scrapes *scrapes;
    struct history *history;
    struct ws_url *ws_url;
    struct finished_calls
        *finished[SECRET_KINDS];      /* of the provider that has this kind of secret; else NULL */
    struct finished_calls *sent_back; /* calls of Exotel that were sent back to their stream: see after.c */
    struct rate *rate;                /* NULL: no limit */
    struct log_repeat limited;        /* requests that `rate` refused; clock_elapsed_ms */
    struct secrets *secrets;          /* never NULL, but replaced: not to be kept beyond a call */
    struct keys *keys;                /* the same */
    struct http_server *servers[API_SERVERS_MAX]; /* borrowed; see api_forget_servers */
    const char *server_names[API_SERVERS_MAX];
    size_t server_count;
    struct strbuf openapi; /* the answer of /openapi.json */
    uint64_t started_ms;   /* clock_elapsed_ms */
    uint64_t heartbeat_ms; /* since 1970; the last heartbeat that the store took; 0: none yet */
    bool is_stopping;
    bool is_departing;      /* see api_set_departing */
    uint64_t departs_at_ms; /* clock_elapsed_ms */
    bool keeps_callers;     /* calls of providers can wait at the gateway, and resume */
    bool is_leader;
    char leader[API_LEADER_MAX + 1];
};

/* One request on its way through the store; the first member of a handler's own struct, in its arena. */
struct api_task {
    unsigned magic;
    struct api *api;
    struct http_request *request;
    enum command_type type;
    uint64_t asked_ns;
    uint64_t answered_ns; /* clock_elapsed_ns when the store had answered; valid in the continuations */
    const struct result *allocated; /* see client_gone.c; NULL: no allocation, or it is not done yet */
    const char *waited_sid;         /* its call has waited before that, by this attempt; NULL: it has not */
    uint64_t waited_attempt;

    void (*stored)(struct api_task *task, const struct result *result);
    /* The store could not answer, or refused. NULL: 503 as JSON, logged. */
    void (*failed)(struct api_task *task, int err);
    /* The client has gone, and the request is about to be answered: no other function runs. NULL: none. */
    void (*gone)(struct api_task *task);
};

/*
 * Makes a task of `size` bytes (at least sizeof(struct api_task), zeroed) in the request's arena.
 *
 * NULL: there is no memory, and the request has been answered with 500.
 */
void *api_task_new(struct api *api, struct http_request *request, size_t size,
                   void (*stored)(struct api_task *task, const struct result *result)) MUST_CHECK;

/* Sends the command. One of the task's two continuations runs once, at once only if the store refuses. */
void api_execute(struct api_task *task, const struct command *command);

/* Microseconds from the request's first byte to the store's answer, for the log. */
int64_t api_task_us(const struct api_task *task);

/*
 * client_gone.c: for allocations only. Has the client gone? Before the command: true: it is not begun. With
 * the store's answer, or while the call waits for a pod: true: it is undone, unless another request asked for
 * the call. In each case the request is answered.
 */
bool api_refuse_gone(struct api_task *task, const char *call_sid) MUST_CHECK;
bool api_undo_gone(struct api_task *task, const struct result *result) MUST_CHECK;
bool api_undo_waiting(struct api_task *task) MUST_CHECK;

/* reply.c: answers. A buffer that failed (it was too large for the arena) gives a 500. */
void api_reply_begin(struct http_request *request, struct strbuf *buf, struct json_writer *json);
void api_reply(struct http_request *request, int status, const char *content_type, const struct strbuf *buf);
void api_reply_json(struct http_request *request, int status, const struct strbuf *buf);
void api_reply_no_memory(struct http_request *request);
/* 503: the store cannot answer. -ENOMEM: its answer is too large, which is a 500. */
void api_reply_failure(struct http_request *request, int err);
/*
 * OUTCOME_INVALID: 400, OUTCOME_CONFLICT: 409, with the store's own sentence; else 404 with `not_found`. Not
 * logged: for those who have logged more than api_refuse knows.
 */
void api_reply_outcome(struct http_request *request, const struct result *result, const char *not_found);
void api_put_names(struct json_writer *json, const char *key, const struct name_array *names);

/* request_log.c: the done hook of the servers (see struct http_hooks); its argument is the api. */
void api_request_done(struct http_request *request, const struct http_route *route, void *arg);

/*
 * Whoever answers with 4xx logs it, with its reason. So a handler uses these, unless it has written a line of
 * its own; what the server refuses before any handler is logged by api_request_done.
 */
void api_refuse(struct http_request *request, int status, const char *error);
void api_refuse_outcome(struct http_request *request, const struct result *result, const char *not_found);
void api_log_refused(struct http_request *request, int status, const char *error);
void api_log_request(struct http_request *request, enum log_level level, const char *message, int status,
                     const char *error);

/*
 * release.c: counts and logs what became of a release, whoever asked for it; `reason` may be "".
 * Lines about calls that are not there are of the given kind, if they come without a key.
 */
#define API_STATUS_CALLBACK "status callback"
void api_note_release(const struct api_task *task, const struct result *result, const char *call_sid,
                      const char *reason, enum log_kind kind);
void api_note_release_failure(const struct api_task *task, int err, const char *call_sid, const char *reason);

/*
 * calls.c: a warning about each of the calls, but for those beyond the first few: one request may name a
 * thousand. `pod` may be NULL.
 */
void api_log_calls(const struct api_task *task, const char *message, const struct name_array *calls,
                   const char *pod);

/* waiting.c: whole seconds; 0 if the clock went back. */
uint64_t api_seconds_between(uint64_t from_ms, uint64_t to_ms);
/* The members of a call that waits, at the store's time. */
void api_put_waiting(struct json_writer *json, const struct waiting_call *call, uint64_t now_ms);

/* configurations.c: a stored text as JSON; "" is null, and what is no JSON is a string. */
void api_put_config(struct json_writer *json, const char *key, const char *text);
/* The merchant in the path. NULL: it is not valid, and the request has been answered. */
const char *api_merchant_of_path(struct http_request *request);
/* pods.c: the pod that the path names; NULL: it can be no pod, or none for this key: answered. */
const char *api_pod_of_path(struct api *api, struct http_request *request);

/* refusal.c: what stood in the way of each pool: as JSON, and as a line for the log. */
void api_put_refusal(struct json_writer *json, const char *key, const struct refusal *refusal);
void api_write_refusal(struct strbuf *buf, const struct refusal *refusal);
enum call_refusal api_refusal_reason(const struct refusal *refusal);

/*
 * guard.c: the guard and the admit hook of the server (see struct http_hooks); their argument is
 * the api.
 */
int api_guard(struct http_request *request, const struct http_route *route, void *arg,
              const char **ret_error);
bool api_admit_key(struct http_request *request, const struct http_route *route, void *arg) MUST_CHECK;

/* Does the key reach that pod? Agents' keys may be for some pods only. False: answered with 403. */
bool api_may_speak_for(struct api *api, struct http_request *request, const char *pod) MUST_CHECK;

/* The pods that the key is limited to, as a pattern for the store; NULL: it is not limited. */
const char *api_pods_of_key(const struct http_request *request);

/* The name of the key, for the log line of every change; NULL: none was asked for. */
const char *api_key_name(const struct http_request *request);

/* The name of its role. Where no key is asked for, everybody may do everything: "admin". */
const char *api_role_of_key(const struct http_request *request);

/* Handlers; their argument is the api. */
void api_allocate(struct http_request *request, void *arg);
void api_release(struct http_request *request, void *arg);
void api_renew(struct http_request *request, void *arg);
void api_waiting(struct http_request *request, void *arg);
void api_calls(struct http_request *request, void *arg);
void api_call(struct http_request *request, void *arg);
void api_story(struct http_request *request, void *arg);
void api_drain(struct http_request *request, void *arg);
void api_undrain(struct http_request *request, void *arg);
void api_pods(struct http_request *request, void *arg);
void api_pod(struct http_request *request, void *arg);
void api_pod_register(struct http_request *request, void *arg);
void api_pod_delete(struct http_request *request, void *arg);
void api_pod_heartbeat(struct http_request *request, void *arg);
void api_pod_drained(struct http_request *request, void *arg);
void api_merchants(struct http_request *request, void *arg);
void api_merchant(struct http_request *request, void *arg);
void api_merchant_set(struct http_request *request, void *arg);
void api_merchant_remove(struct http_request *request, void *arg);
void api_tiers(struct http_request *request, void *arg);
void api_tiers_set(struct http_request *request, void *arg);
void api_tiers_history(struct http_request *request, void *arg);
void api_tiers_rollback(struct http_request *request, void *arg);
void api_merchant_history(struct http_request *request, void *arg);
void api_merchant_rollback(struct http_request *request, void *arg);
void api_status(struct http_request *request, void *arg);
void api_diagnosis(struct http_request *request, void *arg);

/* autoscale.c */
void api_autoscale(struct http_request *request, void *arg);
void api_autoscale_tier(struct http_request *request, void *arg);

void api_events(struct http_request *request, void *arg);
void api_health(struct http_request *request, void *arg);
void api_ready(struct http_request *request, void *arg);
void api_metrics(struct http_request *request, void *arg);
void api_openapi(struct http_request *request, void *arg);
void api_pool_history(struct http_request *request, void *arg);
void api_whoami(struct http_request *request, void *arg);
void api_dashboard(struct http_request *request, void *arg);
void api_dashboard_file(struct http_request *request, void *arg);
void api_twilio(struct http_request *request, void *arg);
void api_plivo(struct http_request *request, void *arg);
void api_exotel(struct http_request *request, void *arg);
void api_twilio_after(struct http_request *request, void *arg);
void api_plivo_after(struct http_request *request, void *arg);
void api_exotel_after(struct http_request *request, void *arg);
void api_twilio_status(struct http_request *request, void *arg);
void api_plivo_status(struct http_request *request, void *arg);
void api_exotel_status(struct http_request *request, void *arg);

#endif
