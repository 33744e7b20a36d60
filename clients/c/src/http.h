/*
 * http.h - one HTTP exchange with the router: libcurl, with a pool of handles that keep their connections.
 *
 * Any thread may call these functions. They block for at most the timeout of the request. They do not log.
 */
#ifndef SR_HTTP_H
#define SR_HTTP_H

#include "answer.h"

#include <stdatomic.h>

struct sr_http;

enum {
    SR_BODY_MAX = 4 << 20, /* bytes of an answer: a larger one is an error */
    SR_IDLE_HANDLES_MAX = 64,
    SR_TRACEPARENT_SIZE = 56,
};

struct sr_exchange {
    const char *method;
    const char *path;          /* with a query, if it has one */
    const char *body;          /* NULL: none */
    const char *traceparent;   /* "" or NULL: none */
    const char *authorization; /* the value of the header; NULL: none */
    int64_t timeout_ms;
    atomic_bool *is_cancelled; /* may be NULL; looked at about once a second */
};

/*
 * Returns whether there was an answer. If not, `answer->error` has the reason, and *ret_may_have_arrived says
 * whether the router may have got the request.
 */
typedef bool (*sr_transport_fn)(void *arg, const struct sr_exchange *exchange,
                                struct smartrouter_answer *answer, bool *ret_may_have_arrived);

/* Copies the URL. NULL: no memory. */
struct sr_http *sr_http_new(const char *base_url);
struct sr_http *sr_http_free(struct sr_http *http);

/* A sr_transport_fn; `arg` is the struct sr_http. */
bool sr_http_exchange(void *arg, const struct sr_exchange *exchange, struct smartrouter_answer *answer,
                      bool *ret_may_have_arrived);

#endif
