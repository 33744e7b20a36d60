/*
 * events.h - the watchers: the open answers to GET /api/v1/events. Internal to the module.
 *
 * The store is asked for events only while somebody watches. Loop thread only.
 */
#ifndef API_EVENTS_H
#define API_EVENTS_H

#include "http/http.h"
#include "store/store.h"

struct watchers; /* opaque: see events.c */

/* The store is borrowed. `loop` NULL: nobody can watch. */
int watchers_new(uv_loop_t *loop, struct store *store, struct watchers **ret_watchers) MUST_CHECK;

/* When nobody watches any more. Accepts NULL. */
struct watchers *watchers_free(struct watchers *watchers);

/* Ends every answer. Whoever wants to go on asks again, and must be allowed to. */
void watchers_send_away(struct watchers *watchers);

/* Ends every answer, and refuses new ones. Must come before the loop ends, once somebody has watched. */
void watchers_stop(struct watchers *watchers);

/* Answers the request with a stream, or with 503 if there are too many. */
void watchers_add(struct watchers *watchers, struct http_request *request);

#endif
