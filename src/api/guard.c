/*
 * guard.c - who may use the API: API_KEY.
 *
 * Everything under /api/v1 is closed unless it is named here, so that a new route is closed until somebody
 * decides otherwise, and who has no key does not learn which paths exist. The router compares what a client
 * sent byte by byte, with nothing decoded or tidied up. So does this file: a spelling that is not under
 * /api/v1 here has no route there either.
 */
#include "api/api_internal.h"
#include "base/slice.h"

static const char guarded[] = "/api/v1";

/* Load balancers ask the first two without credentials; providers sign their webhooks instead. */
static const char *const open_paths[] = {
    "/api/v1/health",         "/api/v1/ready",        "/api/v1/twilio/allocate", "/api/v1/twilio/status",
    "/api/v1/plivo/allocate", "/api/v1/plivo/status", "/api/v1/exotel/allocate", "/api/v1/exotel/status",
};

static bool is_guarded(struct slice path)
{
    size_t len = sizeof(guarded) - 1;

    if (path.len < len || memcmp(path.data, guarded, len) != 0 || (path.len > len && path.data[len] != '/'))
        return false;
    if (path.data[path.len - 1] == '/')
        path.len--;
    for (size_t i = 0; i < ARRAY_LEN(open_paths); i++) {
        if (slice_equals(path, open_paths[i]))
            return false;
    }
    return true;
}

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

int api_guard(struct http_request *request, void *arg, const char **ret_error)
{
    const struct api *api = arg;
    struct slice key;

    if (secrets_count(api->secrets, SECRET_API_KEY) == 0 || !is_guarded(http_request_path(request)))
        return 0;
    key = guard_bearer(guard_credentials(request));
    if (key.data && secrets_match(api->secrets, SECRET_API_KEY, key)) {
        http_request_set_user(request, arg);
        return 0;
    }
    /* Logged in api.c, like everything that is refused before there is a handler. */
    instruments_unauthorized(api->instruments, SECRET_API_KEY);
    http_response_header(request, "WWW-Authenticate", "Bearer realm=\"smart-router\"");
    *ret_error = "an API key is required: Authorization: Bearer";
    return 401;
}
