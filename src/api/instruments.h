/*
 * instruments.h - the metrics that are counted while requests are answered.
 *
 * Every series is looked up once and kept, so that counting costs an increment. No label can grow with what a
 * client sends: endpoints are route patterns, methods and statuses come from lists, pools are source pools
 * that the store named. A request that no handler answers (no such path, 401, 405, broken) is counted with
 * the method "other"; the durations of all refused requests are one series.
 */
#ifndef API_INSTRUMENTS_H
#define API_INSTRUMENTS_H

#include "api/keys.h"
#include "api/secrets.h"
#include "core/command.h"
#include "http/route.h"
#include "metrics/metrics.h"

struct instruments; /* opaque: see instruments.c */

enum {
    /*
     * Bytes that requests can add to the page of metrics, whatever is asked how often: by strangers where a
     * key, the tokens and GATEWAY_SECRET are set, and by anybody where the API is open. test_metrics.py walks
     * over everything and checks both.
     */
    INSTRUMENTS_STRANGERS_MAX = 32 * 1024,
    INSTRUMENTS_REQUESTS_MAX = 128 * 1024,
};

enum allocation_status {
    ALLOCATION_SUCCESS,
    ALLOCATION_EXISTING,
    ALLOCATION_NO_PODS,
    ALLOCATION_STORAGE_ERROR,
    ALLOCATION_CLIENT_GONE,
    ALLOCATION_STATUSES,
};

enum release_status {
    RELEASE_SUCCESS,
    RELEASE_NOT_FOUND,
    RELEASE_STORAGE_ERROR,
    RELEASE_KEPT, /* the call was moved or resumed a moment ago, and goes on */
    RELEASE_STATUSES,
};

/* Why a webhook is not believed. */
enum webhook_refusal {
    WEBHOOK_UNSIGNED,     /* no signature, nonce or token */
    WEBHOOK_WRONG,        /* one that does not fit */
    WEBHOOK_UNVERIFIABLE, /* what nobody can have signed: no host, a NUL in a field, too many fields */
    WEBHOOK_REPLAYED,     /* its call is over */
    WEBHOOK_OF_OTHERS,    /* its call is another provider's, or the API's */
    WEBHOOK_REFUSALS,
};

/* Why a call got no pod. The first that fits: what an operator can do about it is in that order. */
enum call_refusal {
    CALL_REFUSED_BUSY,      /* pods of its chain carry as many calls as they may */
    CALL_REFUSED_DRAINING,  /* none is busy, but some drain */
    CALL_REFUSED_SUSPENDED, /* nor drains, but some are suspended */
    CALL_REFUSED_NO_PODS,   /* its pools have no pods */
    CALL_REFUSED_NO_POOLS,  /* its chain has no configured pool */
    CALL_REFUSED_STORE,     /* the store could not answer */
    CALL_REFUSED_RATE,      /* RATE_LIMIT */
    CALL_REFUSALS,
};

/* What a provider was told that asked how a call goes on, after its stream had ended. */
enum resume_result {
    RESUME_RESUMED,   /* the call lives: its pod again, or the one for which it waited */
    RESUME_ALLOCATED, /* it was not known: a pod, perhaps another one */
    RESUME_WAITING,   /* it waits for a pod */
    RESUME_ENDED,     /* its end is recorded, or the provider said so itself: a hangup */
    RESUME_TIMED_OUT, /* it has waited for too long: the fallback URL or the busy message */
    RESUME_NO_PODS,   /* the same: no pod is free */
    RESUME_TOO_OFTEN, /* the same: it was resumed too often */
    RESUME_LATER,     /* the store did not answer, or this router stops: a pause, and ask again */
    RESUME_GIVEN_UP,  /* the store did not answer the last time either: as timed out */
    RESUME_RESULTS,
};

/* "resumed", "too_often": for the metrics and the log. */
const char *resume_result_name(enum resume_result result);

/* "unsigned", "wrong": for the metrics and the log. */
const char *webhook_refusal_name(enum webhook_refusal reason);

/* Fails only with -ENOMEM. Borrows `metrics`. */
int instruments_new(struct metrics *metrics, struct instruments **ret_instruments) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct instruments *instruments_free(struct instruments *instruments);

/* `pool` is a source pool, or "" where there is none. */
void instruments_allocated(struct instruments *instruments, const char *pool, enum allocation_status status);
void instruments_released(struct instruments *instruments, const char *pool, enum release_status status);
void instruments_drained(struct instruments *instruments);
/* Somebody gave tiers that cannot be. */
void instruments_tiers_refused(struct instruments *instruments);
/* How many that were stored the store has refused since its start; counted with the others. */
void instruments_set_stored_tiers_refused(struct instruments *instruments, uint64_t count);

/* Somebody asked without a key, token or signature of that kind, or with a wrong one. */
void instruments_unauthorized(struct instruments *instruments, enum secret_kind kind);

/* A key of that role, which is not admin, asked for what it may not do. */
void instruments_forbidden(struct instruments *instruments, enum role role);

/* A webhook was refused, or a status callback ignored. `provider` is the name of one; the name of a reason
 * comes from a list. */
void instruments_webhook_refused(struct instruments *instruments, const char *provider,
                                 enum webhook_refusal reason);

/* RATE_LIMIT refused a request; counted as a refused call, too. */
void instruments_limited(struct instruments *instruments);

/* A call got no pod. */
void instruments_refused(struct instruments *instruments, enum call_refusal reason);

/* A wait has ended, or could not begin: WAIT_FULL. */
void instruments_waited(struct instruments *instruments, enum wait_end how, uint64_t waited_ms);

/* A provider asked how a call goes on. `provider` is the name of one. */
void instruments_resumed(struct instruments *instruments, const char *provider, enum resume_result result);

/* One command took that long in the store. */
void instruments_asked(struct instruments *instruments, enum command_type type, uint64_t duration_ns);

/* One request was answered. Borrows `route` for ever; NULL: it has none. `was_held`: a long poll, or a
 * stream. */
void instruments_answered(struct instruments *instruments, const struct http_route *route,
                          struct slice method, int status, bool was_held, uint64_t duration_ns);

#endif
