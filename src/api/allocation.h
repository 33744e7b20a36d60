/*
 * allocation.h - one request for a pod, from a client of the JSON API or from a provider's webhook.
 */
#ifndef API_ALLOCATION_H
#define API_ALLOCATION_H

#include "api/api_internal.h"
#include "api/params.h"
#include "api/providers/provider.h"

#define ALLOCATION_NO_PODS_ERROR "no pods available"

struct allocation {
    struct api_task task;
    const struct provider *webhook; /* NULL: the JSON API */
    const char *call_sid;
    const char *merchant_id;
    const char *provider; /* of the URL */
    const char *owner;    /* the provider whose call it is; "": nobody's but the API's */
    const char *flow;
    const char *template;
    /* As in struct command: a call that finds no pod waits for one. */
    bool waits;
    bool awaits_stream;
    const char *holder;
    /* A webhook whose stream has ended: see providers/after.c. */
    bool is_resume;
    const char *resume_pod; /* NULL: none was named */
    unsigned tries;         /* how often the store could not answer */
};

/*
 * Asked before anything else. False: this client has asked for too many pods lately; answered with
 * 429.
 */
bool allocation_admit(struct api *api, struct http_request *request) MUST_CHECK;

/* Merchant, flow and template, which all requests name alike. The provider must be known by now. */
void allocation_read(struct allocation *allocation, struct params *params);

/* Sends the command, unless the client has gone; the task's continuations answer. */
void allocation_start(struct allocation *allocation);
/* The same for a request that waits, and asks again. */
void allocation_ask(struct allocation *allocation);

/* Counts and logs what the store answered. */
void allocation_note(const struct allocation *allocation, const struct result *result);
/* The same of a call that was kept waiting. */
void allocation_note_timed_out(const struct allocation *allocation, const struct kept_call *kept);
/* Counts and logs that it could not. */
void allocation_note_failure(const struct allocation *allocation, int err);

/* Appends the URL at which the call reaches its pod; of a call that waits: the one at which it is held. */
void allocation_write_url(const struct allocation *allocation, const struct result *result,
                          struct strbuf *buf);

/* When somebody should ask again after all pods were busy. */
void allocation_retry_later(const struct allocation *allocation);

#endif
