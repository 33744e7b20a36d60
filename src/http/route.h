/*
 * route.h - the description of a route: all that is true of one method at one path.
 *
 * A module that answers requests has a table of these rows and gives each row to the server. The
 * server hands the row of a request to its hooks (see http_server_hooks), so nothing looks a route
 * up by text.
 *
 * A row that says nothing is closed: it needs an API key, and no role may use it but the one that
 * may use everything.
 */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include "base/base.h"

struct http_request;

typedef void (*http_handler_fn)(struct http_request *request, void *arg);

/* How a client shows that it may use the route. All rows of one path have the same. */
enum route_auth {
    ROUTE_BY_KEY,       /* an API key; `roles` says which */
    ROUTE_BY_SIGNATURE, /* the handler checks the signature or the token of a provider */
    ROUTE_BY_TICKET,    /* the handler checks a token of its own module */
    ROUTE_OPEN,         /* anybody may use it: load balancers have no key */
};

/* Which code logs a request that was answered. */
enum route_log {
    ROUTE_LOG_REQUEST,   /* the server's done hook, with one line for each request */
    ROUTE_LOG_BY_ITSELF, /* the handler's continuation logs the effect; the hook logs only other failures */
    ROUTE_LOG_PROBE,     /* asked again and again about the process itself: logged at debug */
    ROUTE_LOG_BY_MODULE, /* the module logs everything: it knows which part of the path is secret */
};

enum route_place {
    ROUTE_IN_PATH,
    ROUTE_IN_QUERY,
    ROUTE_IN_BODY, /* a member of the JSON object */
    ROUTE_IN_FORM, /* a field of the query or of a form in the body, as webhooks have it */
};

enum route_kind {
    ROUTE_TEXT,
    ROUTE_NUMBER, /* whole, from `min` to `max` */
    ROUTE_BOOLEAN,
    ROUTE_TEXTS,    /* an array of texts, `max` at most */
    ROUTE_DOCUMENT, /* the body as a whole: a JSON object */
};

struct route_param {
    const char *name; /* NULL: the end of the list */
    enum route_place place;
    enum route_kind kind;
    bool is_required;
    /* Whose name it is ("pod", "call"), or the words that are allowed ("a|b"); NULL: neither. */
    const char *of;
    uint64_t min;
    uint64_t max; /* 0: `kind` has no limit of its own */
};

struct http_route {
    const char *method;
    /*
     * A path such as "/api/v1/pod/{name}/heartbeat". A parameter matches one segment,
     * percent-decoded. "{name...}" at the end matches the rest. Paths match with and without a
     * trailing slash.
     */
    const char *pattern;
    http_handler_fn handler;
    enum route_auth auth;
    unsigned roles; /* bits that mean something to the hooks, not to the server */
    enum route_log log;
    bool is_vital;                    /* answered even when all connections are taken: see http/reserve.h */
    const char *label;                /* in metrics; NULL: the pattern */
    const char *summary;              /* one line for people */
    const struct route_param *params; /* NULL: none */
};

static inline const char *http_route_label(const struct http_route *route)
{
    return route->label ? route->label : route->pattern;
}

/* Does the row have a parameter of that name, at any place? */
static inline bool http_route_has_param(const struct http_route *route, const char *name)
{
    for (const struct route_param *param = route->params; param && param->name; param++) {
        if (strcmp(param->name, name) == 0)
            return true;
    }
    return false;
}

#endif
