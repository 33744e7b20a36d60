/*
 * router.h - finds the route of a method and a path.
 *
 * Paths without parameters are found by hash; the few with parameters are tried in the order in which they
 * were added. Does no I/O.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "base/map.h"
#include "http/http.h"

enum router_method {
    ROUTER_GET,
    ROUTER_HEAD,
    ROUTER_POST,
    ROUTER_PUT,
    ROUTER_DELETE,
    ROUTER_PATCH,
    ROUTER_OPTIONS,
    ROUTER_METHODS,
    ROUTER_OTHER = ROUTER_METHODS, /* a method that nothing can be routed for */
};

enum {
    ROUTER_RESOURCES_MAX = 256,
    ROUTER_SEGMENTS_MAX = 16,
    ROUTER_ALLOW_MAX = 64, /* "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS" */
};

struct router_route {
    const struct http_route *row; /* borrowed; NULL: not routed */
    void *arg;
};

struct router_segment {
    struct slice text; /* the literal, or the parameter's name */
    bool is_param;
    bool is_rest;
};

/* One path and what is routed for it. */
struct router_resource {
    struct map_node node;
    struct router_resource *next;
    const char *pattern;            /* borrowed */
    const struct http_route *first; /* the row that was added first */
    unsigned methods;               /* bit 1 << router_method */
    size_t segment_count;
    struct router_segment segments[ROUTER_SEGMENTS_MAX];
    struct router_route routes[ROUTER_METHODS];
};

struct router {
    struct map literal;               /* resources without parameters, by path */
    struct router_resource *patterns; /* resources with parameters, in order */
    struct router_resource *literals; /* all in `literal`, to free them */
    size_t count;
    unsigned methods; /* of all resources together */
};

struct router_param {
    struct slice name;
    const char *value; /* decoded, NUL-terminated, in the arena */
};

struct router_match {
    const struct router_resource *resource; /* NULL: no such path */
    const struct router_route *route;       /* NULL: the path has no such method */
    unsigned allowed;                       /* methods that the path answers */
    size_t param_count;
    struct router_param params[HTTP_PARAMS_MAX];
};

void router_init(struct router *router);
void router_release(struct router *router);

/* Borrows the row. Errors: see http_server_route. */
int router_add(struct router *router, const struct http_route *row, void *arg) MUST_CHECK;

/*
 * 0: found. -ENOENT: no such path. -ENOTSUP: the path has no such method; ret_match->allowed says which it
 * has. -EINVAL: a parameter hides a NUL. -ENOMEM. ret_match is always set.
 */
int router_find(const struct router *router, enum router_method method, struct slice path,
                struct arena *arena, struct router_match *ret_match) MUST_CHECK;

/* The row of a match; of a path without such a method the first row; NULL: no such path. */
static inline const struct http_route *router_match_row(const struct router_match *match)
{
    if (match->route)
        return match->route->row;
    return match->resource ? match->resource->first : NULL;
}

/* "GET, HEAD, POST" */
void router_format_allow(unsigned methods, char text[ROUTER_ALLOW_MAX]);

enum router_method router_method_of(const char *name);

#endif
