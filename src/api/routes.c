/*
 * routes.c - the table of routes, lookups in it, and the text that `smart-router routes` prints.
 */
#include "api/routes.h"

#include "api/api_internal.h"

static const char root[] = "/api/v1";

const struct route api_routes[] = {
    {"GET", "/health", api_health, FOR_ANYBODY, .is_probe = true, .is_vital = true},
    {"GET", "/api/v1/health", api_health, FOR_ANYBODY, .is_probe = true, .is_vital = true},
    {"GET", "/ready", api_ready, FOR_ANYBODY, .is_probe = true, .is_vital = true},
    {"GET", "/api/v1/ready", api_ready, FOR_ANYBODY, .is_probe = true, .is_vital = true},
    {"GET", "/metrics", api_metrics, FOR(METRICS) | FOR(READ), .is_probe = true},

    {"POST", "/api/v1/twilio/allocate", api_twilio, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/twilio/allocate", api_twilio, FOR_PROVIDERS, .logs_itself = true},
    {"POST", "/api/v1/plivo/allocate", api_plivo, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/plivo/allocate", api_plivo, FOR_PROVIDERS, .logs_itself = true},
    {"POST", "/api/v1/exotel/allocate", api_exotel, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/exotel/allocate", api_exotel, FOR_PROVIDERS, .logs_itself = true},
    {"POST", "/api/v1/twilio/status", api_twilio_status, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/twilio/status", api_twilio_status, FOR_PROVIDERS, .logs_itself = true},
    {"POST", "/api/v1/plivo/status", api_plivo_status, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/plivo/status", api_plivo_status, FOR_PROVIDERS, .logs_itself = true},
    {"POST", "/api/v1/exotel/status", api_exotel_status, FOR_PROVIDERS, .logs_itself = true},
    {"GET", "/api/v1/exotel/status", api_exotel_status, FOR_PROVIDERS, .logs_itself = true},

    {"POST", "/api/v1/allocate", api_allocate, FOR(CALL), .logs_itself = true},
    {"POST", "/api/v1/release", api_release, FOR(CALL) | FOR(AGENT), .logs_itself = true},
    {"POST", "/api/v1/renew", api_renew, FOR(CALL) | FOR(AGENT)},
    {"GET", "/api/v1/calls", api_calls, FOR(READ)},
    {"GET", "/api/v1/call/{sid}", api_call, FOR(CALL) | FOR(READ)},

    /* An agent's handler compares the pod's name with the pattern of the key: api_may_speak_for. */
    {"GET", "/api/v1/pods", api_pods, FOR(READ)},
    {"POST", "/api/v1/pods", api_pod_register, FOR(AGENT), .logs_itself = true},
    {"GET", "/api/v1/pod/{name}", api_pod, FOR(AGENT) | FOR(READ)},
    {"DELETE", "/api/v1/pod/{name}", api_pod_delete, FOR(AGENT), .logs_itself = true},
    {"POST", "/api/v1/pod/{name}/heartbeat", api_pod_heartbeat, FOR(AGENT)},
    {"POST", "/api/v1/drain", api_drain, FOR(AGENT), .logs_itself = true},
    {"POST", "/api/v1/undrain", api_undrain, FOR(AGENT), .logs_itself = true},

    {"GET", "/api/v1/status", api_status, FOR(READ)},
    {"GET", "/api/v1/events", api_events, FOR(READ)},
    {"GET", "/api/v1/merchants", api_merchants, FOR(READ)},
    {"GET", "/api/v1/merchants/{id}", api_merchant, FOR(READ)},
    {"PUT", "/api/v1/merchants/{id}", api_merchant_set, .logs_itself = true},
    {"DELETE", "/api/v1/merchants/{id}", api_merchant_remove, .logs_itself = true},
    {"GET", "/api/v1/tiers", api_tiers, FOR(READ)},
    {"PUT", "/api/v1/tiers", api_tiers_set, .logs_itself = true},
};

const size_t api_routes_count = ARRAY_LEN(api_routes);

_Static_assert(ARRAY_LEN(api_routes) <= ROUTES_MAX, "a limit for those who keep something for each");

const struct route *route_find(const char *pattern, struct slice method)
{
    if (slice_equals(method, "HEAD"))
        method = SLICE("GET");
    for (size_t i = 0; i < api_routes_count; i++) {
        if (strcmp(api_routes[i].pattern, pattern) == 0 && slice_equals(method, api_routes[i].method))
            return &api_routes[i];
    }
    return NULL;
}

const struct route *route_of_pattern(const char *pattern)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        if (strcmp(api_routes[i].pattern, pattern) == 0)
            return &api_routes[i];
    }
    return NULL;
}

static bool is_under_root(struct slice path)
{
    size_t len = sizeof(root) - 1;

    return path.len >= len && memcmp(path.data, root, len) == 0 && (path.len == len || path.data[len] == '/');
}

/*
 * The router compares what a client sent byte by byte, with nothing decoded or tidied up. So does this
 * function: a spelling that is not found here has no route there either. Patterns with parameters are all
 * under /api/v1 and need a key, so that only literal ones must be looked for.
 */
bool route_needs_key(struct slice path)
{
    bool is_closed = is_under_root(path);

    if (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    for (size_t i = 0; i < api_routes_count; i++) {
        bool is_for_all = (api_routes[i].who & FOR_ALL) != 0;

        /* What is closed anyway need not be compared. */
        if (is_for_all == is_closed && slice_equals(path, api_routes[i].pattern))
            return !is_for_all;
    }
    return is_closed;
}

static void write_who(struct strbuf *buf, int who)
{
    if (who & FOR_ANYBODY) {
        strbuf_append_str(buf, "anybody");
        return;
    }
    if (who & FOR_PROVIDERS) {
        strbuf_append_str(buf, "provider");
        return;
    }
    for (int role = 0; role < ROLES; role++) {
        if (role != ROLE_ADMIN && !(who & 1 << role))
            continue;
        strbuf_append_str(buf, role == ROLE_ADMIN ? "" : " ");
        strbuf_append_str(buf, role_name((enum role)role));
    }
}

void api_write_routes(struct strbuf *buf)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        strbuf_printf(buf, "%-6s  %-32s  ", api_routes[i].method, api_routes[i].pattern);
        write_who(buf, api_routes[i].who);
        strbuf_append_char(buf, '\n');
    }
}
