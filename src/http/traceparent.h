/*
 * traceparent.h - the trace to which a request belongs: its header traceparent (W3C Trace Context).
 */
#ifndef HTTP_TRACEPARENT_H
#define HTTP_TRACEPARENT_H

#include "http/http.h"

enum { TRACEPARENT_LEN = 55 }; /* version, trace, parent and flags, with their hyphens */

/* The client's own, if it is valid and the only one; else data is NULL. */
struct slice traceparent_find(const struct http_request *request);

/*
 * The first TRACEPARENT_LEN characters of it, for the log, in the request's arena; a later version may have
 * more. NULL: there is none.
 */
const char *traceparent_text(struct http_request *request);

#endif
