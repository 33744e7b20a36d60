/*
 * router.c - adds routes, matches a path with them, and decodes the path's parameters.
 */
#include "http/router.h"

#include <stdlib.h>

#include "base/hex.h"

static const char *const method_names[ROUTER_METHODS] = {
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS",
};

void router_init(struct router *router)
{
    *router = (struct router){0};
    map_init(&router->literal);
}

static void router_free_all(struct router_resource *resource)
{
    while (resource) {
        struct router_resource *next = resource->next;

        free(resource);
        resource = next;
    }
}

void router_release(struct router *router)
{
    map_release(&router->literal);
    router_free_all(router->literals);
    router_free_all(router->patterns);
    router->literals = NULL;
    router->patterns = NULL;
}

enum router_method router_method_of(const char *name)
{
    for (unsigned i = 0; i < ROUTER_METHODS; i++)
        if (strcmp(name, method_names[i]) == 0)
            return (enum router_method)i;
    return ROUTER_OTHER;
}

void router_format_allow(unsigned methods, char text[ROUTER_ALLOW_MAX])
{
    size_t at = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < ROUTER_METHODS; i++) {
        size_t len = strlen(method_names[i]);

        if (!(methods & 1U << i))
            continue;
        if (at > 0) {
            memcpy(text + at, ", ", 2);
            at += 2;
        }
        memcpy(text + at, method_names[i], len + 1);
        at += len;
    }
    assert(at < ROUTER_ALLOW_MAX);
}

/* A path is the same with and without a trailing slash. */
static struct slice strip_slash(struct slice path)
{
    if (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    return path;
}

/* Cuts the next segment off `path`, which starts with '/' or is empty. */
static bool next_segment(struct slice *path, struct slice *ret_segment)
{
    const char *slash;

    if (path->len == 0)
        return false;
    path->data++;
    path->len--;
    slash = memchr(path->data, '/', path->len);
    ret_segment->data = path->data;
    ret_segment->len = slash ? (size_t)(slash - path->data) : path->len;
    path->data += ret_segment->len;
    path->len -= ret_segment->len;
    return true;
}

/* 0 or -EINVAL. */
static int router_parse_segment(struct slice text, struct router_segment *ret_segment)
{
    struct router_segment segment = {.text = text};

    if (text.len > 0 && text.data[0] == '{') {
        if (text.len < 3 || text.data[text.len - 1] != '}')
            return -EINVAL;
        segment.is_param = true;
        segment.text = (struct slice){text.data + 1, text.len - 2};
        if (segment.text.len > 3 && memcmp(segment.text.data + segment.text.len - 3, "...", 3) == 0) {
            segment.is_rest = true;
            segment.text.len -= 3;
        }
    }
    *ret_segment = segment;
    return 0;
}

/* 0: *ret_params says how many parameters the pattern has. -EINVAL. */
static int router_parse(struct router_resource *resource, size_t *ret_params)
{
    struct slice path = strip_slash(slice_of(resource->pattern));
    struct slice text;
    size_t params = 0;

    while (next_segment(&path, &text)) {
        struct router_segment *segment = &resource->segments[resource->segment_count];

        if (resource->segment_count == ROUTER_SEGMENTS_MAX || router_parse_segment(text, segment) < 0)
            return -EINVAL;
        resource->segment_count++;
        params += segment->is_param;
        if (segment->is_rest && path.len > 0)
            return -EINVAL;
    }
    if (params > HTTP_PARAMS_MAX)
        return -EINVAL;
    *ret_params = params;
    return 0;
}

static struct router_resource *router_find_pattern(const struct router *router, const char *pattern)
{
    struct slice path = strip_slash(slice_of(pattern));
    struct map_node *node = map_get(&router->literal, path.data, path.len);

    if (node)
        return CONTAINER_OF(node, struct router_resource, node);
    for (struct router_resource *resource = router->patterns; resource; resource = resource->next)
        if (strcmp(resource->pattern, pattern) == 0)
            return resource;
    return NULL;
}

/* 0 or a negative errno; *ret_resource belongs to the router. */
static int router_add_resource(struct router *router, const char *pattern,
                               struct router_resource **ret_resource)
{
    struct router_resource *resource;
    struct router_resource **last = &router->patterns;
    struct slice path = strip_slash(slice_of(pattern));
    size_t params = 0;
    int err;

    if (router->count == ROUTER_RESOURCES_MAX)
        return -ENOSPC;
    err = map_reserve(&router->literal);
    if (err < 0)
        return err;
    resource = calloc(1, sizeof(*resource));
    if (!resource)
        return -ENOMEM;
    resource->pattern = pattern;
    err = router_parse(resource, &params);
    if (err < 0) {
        free(resource);
        return err;
    }
    if (params == 0) {
        map_put(&router->literal, &resource->node, path.data, path.len);
        resource->next = router->literals;
        router->literals = resource;
    } else {
        while (*last)
            last = &(*last)->next;
        *last = resource;
    }
    router->count++;
    *ret_resource = resource;
    return 0;
}

int router_add(struct router *router, const struct http_route *row, void *arg)
{
    enum router_method index = router_method_of(row->method);
    struct router_resource *resource;
    int err;

    assert(row->handler);

    if (index == ROUTER_OTHER || row->pattern[0] != '/')
        return -EINVAL;
    resource = router_find_pattern(router, row->pattern);
    if (!resource) {
        err = router_add_resource(router, row->pattern, &resource);
        if (err < 0)
            return err;
        resource->first = row;
    }
    assert(resource->first);
    /* A 405 must not show to strangers that a closed path exists. */
    if (resource->first->auth != row->auth)
        return -EINVAL;
    if (resource->routes[index].row)
        return -EEXIST;
    resource->routes[index] = (struct router_route){row, arg};
    resource->methods |= 1U << index;
    if (index == ROUTER_GET)
        resource->methods |= 1U << ROUTER_HEAD;
    router->methods |= resource->methods;
    return 0;
}

static const struct router_route *router_route_of(const struct router_resource *resource,
                                                  enum router_method method)
{
    if (method == ROUTER_OTHER)
        return NULL;
    if (resource->routes[method].row)
        return &resource->routes[method];
    if (method == ROUTER_HEAD && resource->routes[ROUTER_GET].row)
        return &resource->routes[ROUTER_GET];
    return NULL;
}

/* Does the path have the shape of the pattern? The values are raw then. */
static bool router_matches(const struct router_resource *resource, struct slice whole,
                           struct slice values[HTTP_PARAMS_MAX])
{
    struct slice path = strip_slash(whole);
    struct slice text;
    size_t params = 0;

    for (size_t i = 0; i < resource->segment_count; i++) {
        const struct router_segment *segment = &resource->segments[i];

        if (segment->is_rest) {
            /* The rest keeps its trailing slash, and may be empty if the slash before it is there. */
            const char *from = path.data;

            if (from == whole.data + whole.len)
                return false;
            values[params] = (struct slice){from + 1, (size_t)(whole.data + whole.len - from - 1)};
            return true;
        }
        if (!next_segment(&path, &text))
            return false;
        if (segment->is_param) {
            if (text.len == 0)
                return false;
            values[params++] = text;
        } else if (text.len != segment->text.len || memcmp(text.data, segment->text.data, text.len) != 0) {
            return false;
        }
    }
    return path.len == 0;
}

/* 0; -EINVAL: it hides a NUL; -ENOMEM. */
static int router_decode(struct arena *arena, struct slice raw, const char **ret_text)
{
    char *out = arena_alloc(arena, raw.len + 1);
    size_t at = 0;

    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i];

        if (c == '%' && raw.len - i > 2 && hex_pair(raw.data + i + 1) >= 0) {
            c = (char)hex_pair(raw.data + i + 1);
            i += 2;
        }
        if (c == '\0')
            return -EINVAL;
        out[at++] = c;
    }
    out[at] = '\0';
    *ret_text = out;
    return 0;
}

static int router_take_params(struct router_match *match, const struct slice values[HTTP_PARAMS_MAX],
                              struct arena *arena)
{
    const struct router_resource *resource = match->resource;
    size_t count = 0;

    for (size_t i = 0; i < resource->segment_count; i++) {
        struct router_param *param = &match->params[count];
        int err;

        if (!resource->segments[i].is_param)
            continue;
        err = router_decode(arena, values[count], &param->value);
        if (err < 0)
            return err;
        param->name = resource->segments[i].text;
        count++;
    }
    match->param_count = count;
    return 0;
}

int router_find(const struct router *router, enum router_method method, struct slice path,
                struct arena *arena, struct router_match *ret_match)
{
    struct slice key = strip_slash(path);
    struct map_node *node = map_get(&router->literal, key.data, key.len);
    struct slice values[HTTP_PARAMS_MAX] = {{NULL, 0}};

    ret_match->resource = NULL;
    ret_match->route = NULL;
    ret_match->allowed = 0;
    ret_match->param_count = 0;
    if (node) {
        ret_match->resource = CONTAINER_OF(node, struct router_resource, node);
        ret_match->allowed = ret_match->resource->methods;
        ret_match->route = router_route_of(ret_match->resource, method);
        if (ret_match->route)
            return 0;
    }
    for (const struct router_resource *resource = router->patterns; resource; resource = resource->next) {
        if (!router_matches(resource, path, values))
            continue;
        if (!ret_match->resource)
            ret_match->resource = resource;
        ret_match->allowed |= resource->methods;
        ret_match->route = router_route_of(resource, method);
        if (ret_match->route) {
            ret_match->resource = resource;
            return router_take_params(ret_match, values, arena);
        }
    }
    return ret_match->resource ? -ENOTSUP : -ENOENT;
}
