/*
 * routes.h - the routing table: a row for each method and path of the API (see http/route.h).
 *
 * The bits of a row's roles are roles of keys. The role admin may use every route and is not named.
 * Internal to the module.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/keys.h"
#include "http/route.h"

/* The bit of a role in a row's `roles`. */
#define FOR(role) (1U << ROLE_##role)

extern const struct http_route api_routes[];
extern const size_t api_routes_count;

/*
 * Must a client show a key for this, if any key is set? `route` is the row of the request; NULL: no
 * row has the path. Under /api/v1 a path without a row needs a key, too: a client without a key
 * must not learn which paths exist.
 */
bool route_needs_key(const struct http_route *route, struct slice path);

/* May a key of that role use the route? Asked only for routes that need a key. */
bool route_allows(const struct http_route *route, enum role role);

#endif
