/*
 * guard.c - checks the key of a request and the key's role: API_KEY, API_KEYS.
 *
 * This is done in two steps. Before the body is read, api_guard finds the key. A client without a
 * key is refused, whatever the path, and does not learn which paths exist. Before the handler runs,
 * api_admit_key compares the key's role with the roles of the route's row (routes.c). No handler
 * runs without that, so a new route is closed until its row says who may use it.
 */
#include "api/api_internal.h"
#include "base/slice.h"

#define KEY_REQUIRED "a valid API key is required: Authorization: Bearer"

enum { SENTENCE_MAX = 256 };

/* The one Authorization header. Of two, somebody on the way may have looked at the other one: data is NULL.
 */
static struct slice guard_credentials(const struct http_request *request)
{
    struct slice found = {NULL, 0};

    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (!slice_is_word(name, "authorization"))
            continue;
        if (found.data)
            return (struct slice){NULL, 0};
        found = value;
    }
    return found;
}

/* What comes after "Bearer "; data is NULL if it is something else. */
static struct slice guard_bearer(struct slice credentials)
{
    const char *blank = credentials.data ? memchr(credentials.data, ' ', credentials.len) : NULL;

    if (!blank ||
        !slice_is_word((struct slice){credentials.data, (size_t)(blank - credentials.data)}, "bearer"))
        return (struct slice){NULL, 0};
    return slice_trim((struct slice){blank, (size_t)(credentials.data + credentials.len - blank)});
}

/* A copy that lives as long as the request: the keys may be replaced meanwhile. NULL: no memory. */
static struct key *copy_key(const struct key *key, struct arena *arena)
{
    struct key *copy = arena_alloc(arena, sizeof(*copy));

    if (!copy)
        return NULL;
    *copy = *key;
    copy->name = arena_copy(arena, key->name, strlen(key->name));
    if (key->pattern)
        copy->pattern = arena_copy(arena, key->pattern, strlen(key->pattern));
    return copy->name && (copy->pattern || !key->pattern) ? copy : NULL;
}

static void note_unauthorized(struct api *api, struct http_request *request)
{
    instruments_unauthorized(api->instruments, SECRET_API_KEY);
    http_response_header(request, "WWW-Authenticate", "Bearer realm=\"smart-router\"");
}

int api_guard(struct http_request *request, const struct http_route *route, void *arg, const char **ret_error)
{
    struct api *api = arg;
    const struct key *key = NULL;
    struct slice given;
    struct key *copy;

    if (keys_count(api->keys) == 0 || !route_needs_key(route, http_request_path(request)))
        return 0;
    given = guard_bearer(guard_credentials(request));
    if (given.data)
        key = keys_match(api->keys, given);
    if (!key) {
        /* Logged by api_request_done, like everything that is refused before there is a handler. */
        note_unauthorized(api, request);
        *ret_error = KEY_REQUIRED;
        return 401;
    }
    copy = copy_key(key, http_request_arena(request));
    if (!copy) {
        *ret_error = "out of memory";
        return 503;
    }
    http_request_set_user(request, copy);
    return 0;
}

static const struct key *key_of(const struct http_request *request)
{
    return http_request_user(request);
}

const char *api_key_name(const struct http_request *request)
{
    return key_of(request) ? key_of(request)->name : NULL;
}

const char *api_role_of_key(const struct http_request *request)
{
    return role_name(key_of(request) ? key_of(request)->role : ROLE_ADMIN);
}

const char *api_pods_of_key(const struct http_request *request)
{
    return key_of(request) ? key_of(request)->pattern : NULL;
}

/* The sentence says what the key may do, never what it asked for: that is in the request. */
static void forbid(struct api *api, struct http_request *request, const char *sentence_begins,
                   const char *what)
{
    struct strbuf sentence;

    instruments_forbidden(api->instruments, key_of(request)->role);
    strbuf_init(&sentence, http_request_arena(request), SENTENCE_MAX);
    strbuf_append_str(&sentence, sentence_begins);
    strbuf_append_str(&sentence, what);
    api_refuse(request, 403, strbuf_failed(&sentence) ? "forbidden" : sentence.data);
}

bool api_admit_key(struct http_request *request, const struct http_route *route, void *arg)
{
    struct api *api = arg;
    const struct key *key = key_of(request);

    if (keys_count(api->keys) == 0 || !route_needs_key(route, http_request_path(request)))
        return true;
    if (!key) {
        /* The guard has let it through, and should not have. */
        note_unauthorized(api, request);
        api_refuse(request, 401, KEY_REQUIRED);
        return false;
    }
    if (route_allows(route, key->role))
        return true;
    forbid(api, request, "the key may not do this: its role is ", role_name(key->role));
    return false;
}

bool api_may_speak_for(struct api *api, struct http_request *request, const char *pod)
{
    const char *pattern = api_pods_of_key(request);

    if (!pattern || name_fits_pod(pattern, pod))
        return true;
    forbid(api, request, "the key may not speak for this pod: its pods are ", pattern);
    return false;
}
