/*
 * routes.h - the routing table: each method and path of the API, its handler, and who may use it.
 *
 * A row that says nothing of who may use it is for keys with the role admin alone. Internal to the room.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/keys.h"
#include "base/strbuf.h"
#include "http/http.h"

enum {
    ROUTES_MAX = 64,
    FOR_ANYBODY = 1 << ROLES,         /* without a key: load balancers have none */
    FOR_PROVIDERS = 1 << (ROLES + 1), /* without a key: providers sign instead */
    FOR_ALL = FOR_ANYBODY | FOR_PROVIDERS,
};

/* Admin may everywhere, and is not named. */
#define FOR(role) (1 << ROLE_##role)

struct route {
    const char *method;
    const char *pattern;
    http_handler_fn handler;
    int who; /* FOR(...), or one of those above */
    /* Its continuation logs what it did, so the request needs no line of its own. */
    bool logs_itself;
    bool is_probe; /* of the process and not of its work: on METRICS_PORT, too, and quiet in the log */
    bool is_vital; /* answered even when all connections are taken */
};

extern const struct route api_routes[];
extern const size_t api_routes_count;

/* The row of that pattern and method; HEAD is answered by GET. NULL: there is none. */
const struct route *route_find(const char *pattern, struct slice method);

/* Any row of that pattern, or NULL. */
const struct route *route_of_pattern(const char *pattern);

/*
 * Must whoever asks for this path, as sent and whatever the method, show a key, if any is set? Under /api/v1
 * that is so for paths that do not exist as well.
 */
bool route_needs_key(struct slice path);

#endif
