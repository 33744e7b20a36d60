/*
 * fetch.h - one HTTP request on a connection of its own.
 */
#ifndef TOOLS_FETCH_H
#define TOOLS_FETCH_H

#include "link.h"
#include "url.h"

enum { FETCH_BODY_MAX = 256 * 1024, FETCH_HEADERS_MAX = 4096 };

struct fetch;

/* `status` is 0 and `err` a negative errno where there was no whole answer. The body is NUL-terminated. */
typedef void (*fetch_fn)(void *arg, int err, int status, struct slice body);

struct fetch_request {
    const char *method;
    const struct sockaddr *address;
    const struct url *url; /* its host goes into the request; its path is not used */
    const char *path;
    const char *api_key;      /* sent as a bearer; NULL: none */
    const char *headers;      /* more lines, each with its end; NULL: none */
    const char *content_type; /* of the body, if there is one */
    struct slice body;
    uint64_t timeout_ms;
};

/* Copies the request. The callback runs once, later. */
int fetch_start(struct net *net, const struct fetch_request *request, fetch_fn fn, void *arg,
                struct fetch **ret_fetch) MUST_CHECK;

/* The callback will not run any more. */
void fetch_cancel(struct fetch *fetch);

#endif
