/*
 * routes.c - the table of routes, the rules on keys that follow from it, and the text that
 * `smart-router routes` prints.
 */
#include "api/routes.h"

#include "api/api_internal.h"

static const char root[] = "/api/v1";

/* clang-format off */
/* A list of parameters ends with an empty entry. */
#define PARAMS(...) ((const struct route_param[]){__VA_ARGS__, {.name = NULL}})

#define CALL_IN_PATH     {"sid", ROUTE_IN_PATH, ROUTE_TEXT, true, "call"}
#define POD_IN_PATH      {"name", ROUTE_IN_PATH, ROUTE_TEXT, true, "pod"}
#define MERCHANT_IN_PATH {"id", ROUTE_IN_PATH, ROUTE_TEXT, true, "merchant"}
#define CALL_IN_BODY     {"call_sid", ROUTE_IN_BODY, ROUTE_TEXT, true, "call"}
#define POD_IN_BODY      {"pod_name", ROUTE_IN_BODY, ROUTE_TEXT, true, "pod"}
#define CONFIGURATION    {"body", ROUTE_IN_BODY, ROUTE_DOCUMENT, true}
#define DRY_RUN          {"dry_run", ROUTE_IN_QUERY, ROUTE_TEXT, false, "true|false"}
#define VERSION_IN_BODY  {"version", ROUTE_IN_BODY, ROUTE_NUMBER, .min = 1, .max = INT32_MAX}
#define PAGE             {"limit", ROUTE_IN_QUERY, ROUTE_NUMBER, .min = 1, .max = PAGE_MAX}, \
                         {"cursor", ROUTE_IN_QUERY, ROUTE_TEXT}

/* What an allocation takes beside the call, from an API client or from a webhook. */
#define ALLOCATION(place) {"merchant_id", place, ROUTE_TEXT, false, "merchant"}, \
                          {"reseller_id", place, ROUTE_TEXT, false, "merchant"}, \
                          {"flow", place, ROUTE_TEXT}, {"template", place, ROUTE_TEXT}

/* What the router itself wrote into the URL. */
#define RESUME {"pod", ROUTE_IN_FORM, ROUTE_TEXT, false, "pod"}, \
               {"try", ROUTE_IN_FORM, ROUTE_TEXT}

#define FIELD(field)      {field, ROUTE_IN_FORM, ROUTE_TEXT}
#define CALL_FIELD(field) {field, ROUTE_IN_FORM, ROUTE_TEXT, true, "call"}

#define PROBE(path, fn, text) \
    {"GET", path, fn, ROUTE_OPEN, .log = ROUTE_LOG_PROBE, .is_vital = true, .summary = (text)}

/* Providers send their webhooks with POST or GET, as their console is set. */
#define WEBHOOK(path, fn, text, ...) \
    WEBHOOK_BY("POST", path, fn, text, __VA_ARGS__), WEBHOOK_BY("GET", path, fn, text, __VA_ARGS__)
#define WEBHOOK_BY(verb, path, fn, text, ...) \
    {verb, path, fn, ROUTE_BY_SIGNATURE, .log = ROUTE_LOG_BY_ITSELF, .summary = (text), \
     .params = PARAMS(__VA_ARGS__)}
/* clang-format on */

const struct http_route api_routes[] = {
    PROBE("/health", api_health, "Is the process alive?"),
    PROBE("/api/v1/health", api_health, "Is the process alive?"),
    PROBE("/ready", api_ready, "Can the process serve calls?"),
    PROBE("/api/v1/ready", api_ready, "Can the process serve calls?"),
    {"GET", "/metrics", api_metrics, .roles = FOR(METRICS) | FOR(READ), .log = ROUTE_LOG_PROBE,
     .summary = "All metrics as Prometheus text"},
    /* Open: it says nothing that the source does not say, and is the same for every router of a version. */
    {"GET", "/openapi.json", api_openapi, ROUTE_OPEN, .summary = "This API as an OpenAPI document"},
    /* Open: the files of the page are the same for everybody. The page asks the API with the user's key. */
    {"GET", "/", api_dashboard, ROUTE_OPEN, .summary = "The dashboard"},
    {"GET", "/ui/{file}", api_dashboard_file, ROUTE_OPEN, .summary = "A file of the dashboard",
     .params = PARAMS({"file", ROUTE_IN_PATH, ROUTE_TEXT, true})},

    WEBHOOK("/api/v1/twilio/allocate", api_twilio, "Webhook of Twilio: a call begins", CALL_FIELD("CallSid"),
            ALLOCATION(ROUTE_IN_FORM)),
    WEBHOOK("/api/v1/plivo/allocate", api_plivo, "Webhook of Plivo: a call begins", CALL_FIELD("CallUUID"),
            ALLOCATION(ROUTE_IN_FORM)),
    WEBHOOK("/api/v1/exotel/allocate", api_exotel, "Webhook of Exotel: a call begins", CALL_FIELD("CallSid"),
            ALLOCATION(ROUTE_IN_FORM), FIELD("token")),
    WEBHOOK("/api/v1/twilio/after", api_twilio_after, "Webhook of Twilio: a stream has ended",
            CALL_FIELD("CallSid"), ALLOCATION(ROUTE_IN_FORM), RESUME, FIELD("StreamEvent"),
            FIELD("CallStatus")),
    WEBHOOK("/api/v1/plivo/after", api_plivo_after, "Webhook of Plivo: a stream has ended",
            CALL_FIELD("CallUUID"), ALLOCATION(ROUTE_IN_FORM), RESUME, FIELD("Event"), FIELD("HangupCause"),
            FIELD("CallStatus")),
    WEBHOOK("/api/v1/exotel/after", api_exotel_after, "Webhook of Exotel: a stream has ended",
            CALL_FIELD("CallSid"), ALLOCATION(ROUTE_IN_FORM), RESUME, FIELD("EventType"), FIELD("Status"),
            FIELD("token")),
    WEBHOOK("/api/v1/twilio/status", api_twilio_status, "Webhook of Twilio: the state of a call",
            CALL_FIELD("CallSid"), FIELD("StreamEvent"), FIELD("CallStatus")),
    WEBHOOK("/api/v1/plivo/status", api_plivo_status, "Webhook of Plivo: the state of a call",
            CALL_FIELD("CallUUID"), FIELD("Event"), FIELD("HangupCause"), FIELD("CallStatus")),
    WEBHOOK("/api/v1/exotel/status", api_exotel_status, "Webhook of Exotel: the state of a call",
            CALL_FIELD("CallSid"), FIELD("EventType"), FIELD("Status"), FIELD("token")),

    {"POST", "/api/v1/allocate", api_allocate, .roles = FOR(CALL), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Gives a call a pod",
     .params = PARAMS(CALL_IN_BODY, {"provider", ROUTE_IN_BODY, ROUTE_TEXT}, ALLOCATION(ROUTE_IN_BODY),
                      {"wait", ROUTE_IN_BODY, ROUTE_BOOLEAN},
                      {"wait_ms", ROUTE_IN_BODY, ROUTE_NUMBER, .max = ALLOCATE_WAIT_MAX_MS})},
    {"POST", "/api/v1/release", api_release, .roles = FOR(CALL) | FOR(AGENT), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Ends a call and frees its pod",
     .params = PARAMS(CALL_IN_BODY, {"pod_name", ROUTE_IN_BODY, ROUTE_TEXT, false, "pod"},
                      {"reason", ROUTE_IN_BODY, ROUTE_TEXT})},
    {"POST", "/api/v1/renew", api_renew, .roles = FOR(CALL) | FOR(AGENT),
     .summary = "Renews the leases of one call or of several",
     .params = PARAMS({"call_sid", ROUTE_IN_BODY, ROUTE_TEXT, false, "call"},
                      {"call_sids", ROUTE_IN_BODY, ROUTE_TEXTS, false, "call", .max = SIDS_MAX})},
    {"GET", "/api/v1/calls", api_calls, .roles = FOR(READ), .summary = "Lists the live calls",
     .params =
         PARAMS({"pod", ROUTE_IN_QUERY, ROUTE_TEXT, false, "pod"},
                {"merchant", ROUTE_IN_QUERY, ROUTE_TEXT, false, "merchant"},
                {"state", ROUTE_IN_QUERY, ROUTE_TEXT, false, "allocated|active|connected|expired|granted"},
                {"older_than", ROUTE_IN_QUERY, ROUTE_TEXT}, PAGE)},
    {"GET", "/api/v1/call/{sid}", api_call, .roles = FOR(CALL) | FOR(READ), .summary = "Shows one call",
     .params = PARAMS(CALL_IN_PATH)},
    {"GET", "/api/v1/call/{sid}/story", api_story, .roles = FOR(CALL) | FOR(READ),
     .summary = "Tells the story of a call", .params = PARAMS(CALL_IN_PATH)},

    {"GET", "/api/v1/waiting", api_waiting, .roles = FOR(READ),
     .summary = "Lists the calls that wait for a pod", .params = PARAMS(PAGE)},

    /* An agent's handler compares the pod's name with the pattern of the key: api_may_speak_for. */
    {"GET", "/api/v1/pods", api_pods, .roles = FOR(READ), .summary = "Lists the pods",
     .params =
         PARAMS({"tier", ROUTE_IN_QUERY, ROUTE_TEXT, false, "tier"},
                {"state", ROUTE_IN_QUERY, ROUTE_TEXT, false, "available|busy|draining|suspended"}, PAGE)},
    {"POST", "/api/v1/pods", api_pod_register, .roles = FOR(AGENT), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Registers a pod",
     .params = PARAMS(POD_IN_BODY, {"address", ROUTE_IN_BODY, ROUTE_TEXT, true},
                      {"incarnation", ROUTE_IN_BODY, ROUTE_TEXT},
                      {"tier", ROUTE_IN_BODY, ROUTE_TEXT, false, "tier"})},
    {"GET", "/api/v1/pod/{name}", api_pod, .roles = FOR(AGENT) | FOR(READ), .summary = "Shows one pod",
     .params = PARAMS(POD_IN_PATH)},
    {"DELETE", "/api/v1/pod/{name}", api_pod_delete, .roles = FOR(AGENT), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Removes a pod that registered itself", .params = PARAMS(POD_IN_PATH)},
    {"POST", "/api/v1/pod/{name}/heartbeat", api_pod_heartbeat, .roles = FOR(AGENT),
     .summary = "A pod is alive and has these calls",
     .params = PARAMS(POD_IN_PATH, {"call_sids", ROUTE_IN_BODY, ROUTE_TEXTS, true, "call", .max = SIDS_MAX})},
    {"GET", "/api/v1/pod/{name}/drained", api_pod_drained, .roles = FOR(AGENT) | FOR(READ),
     .summary = "Waits until a drained pod has no call",
     .params = PARAMS(POD_IN_PATH,
                      {"timeout_seconds", ROUTE_IN_QUERY, ROUTE_NUMBER, .max = DRAIN_WAIT_SECONDS_MAX})},
    {"POST", "/api/v1/drain", api_drain, .roles = FOR(AGENT), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Gives a pod no more calls",
     .params = PARAMS(POD_IN_BODY,
                      {"ttl_seconds", ROUTE_IN_BODY, ROUTE_NUMBER, .min = 0, .max = DRAIN_SECONDS_MAX})},
    {"POST", "/api/v1/undrain", api_undrain, .roles = FOR(AGENT), .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Gives a drained pod calls again", .params = PARAMS(POD_IN_BODY)},

    {"GET", "/api/v1/status", api_status, .roles = FOR(READ),
     .summary = "The pools, the leader and the version"},
    {"GET", "/api/v1/diagnosis", api_diagnosis, .roles = FOR(READ),
     .summary = "Facts for the search for a fault"},
    {"GET", "/api/v1/autoscale", api_autoscale, .roles = FOR(METRICS) | FOR(READ), .log = ROUTE_LOG_PROBE,
     .summary = "How many pods all tiers want together"},
    {"GET", "/api/v1/autoscale/{tier}", api_autoscale_tier, .roles = FOR(METRICS) | FOR(READ),
     .log = ROUTE_LOG_PROBE, .summary = "How many pods a tier wants",
     .params = PARAMS({"tier", ROUTE_IN_PATH, ROUTE_TEXT, true, "tier"})},
    {"GET", "/api/v1/events", api_events, .roles = FOR(READ), .summary = "A stream of what happens"},
    {"GET", "/api/v1/history/pools", api_pool_history, .roles = FOR(READ),
     .summary = "The last hour of the pools"},
    {"GET", "/api/v1/whoami", api_whoami, .roles = FOR(CALL) | FOR(AGENT) | FOR(METRICS) | FOR(READ),
     .summary = "The name and the role of the key"},
    {"GET", "/api/v1/merchants", api_merchants, .roles = FOR(READ),
     .summary = "Lists the configurations of merchants", .params = PARAMS(PAGE)},
    {"GET", "/api/v1/merchants/{id}", api_merchant, .roles = FOR(READ),
     .summary = "Shows the configuration of a merchant", .params = PARAMS(MERCHANT_IN_PATH)},
    {"PUT", "/api/v1/merchants/{id}", api_merchant_set, .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Sets the configuration of a merchant",
     .params = PARAMS(MERCHANT_IN_PATH, CONFIGURATION, DRY_RUN)},
    {"DELETE", "/api/v1/merchants/{id}", api_merchant_remove, .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Removes the configuration of a merchant", .params = PARAMS(MERCHANT_IN_PATH, DRY_RUN)},
    {"GET", "/api/v1/merchants/{id}/history", api_merchant_history, .roles = FOR(READ),
     .summary = "Lists the last versions of the configuration of a merchant",
     .params = PARAMS(MERCHANT_IN_PATH)},
    {"POST", "/api/v1/merchants/{id}/rollback", api_merchant_rollback, .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Goes back to an earlier configuration of a merchant",
     .params = PARAMS(MERCHANT_IN_PATH, VERSION_IN_BODY, DRY_RUN)},
    {"GET", "/api/v1/tiers", api_tiers, .roles = FOR(READ), .summary = "Shows the tiers"},
    {"PUT", "/api/v1/tiers", api_tiers_set, .log = ROUTE_LOG_BY_ITSELF, .summary = "Sets the tiers",
     .params = PARAMS(CONFIGURATION, DRY_RUN)},
    {"GET", "/api/v1/tiers/history", api_tiers_history, .roles = FOR(READ),
     .summary = "Lists the last versions of the tiers"},
    {"POST", "/api/v1/tiers/rollback", api_tiers_rollback, .log = ROUTE_LOG_BY_ITSELF,
     .summary = "Goes back to earlier tiers", .params = PARAMS(VERSION_IN_BODY, DRY_RUN)},
};

const size_t api_routes_count = ARRAY_LEN(api_routes);

static bool is_under_root(struct slice path)
{
    size_t len = sizeof(root) - 1;

    return path.len >= len && memcmp(path.data, root, len) == 0 && (path.len == len || path.data[len] == '/');
}

bool route_needs_key(const struct http_route *route, struct slice path)
{
    return route ? route->auth == ROUTE_BY_KEY : is_under_root(path);
}

bool route_allows(const struct http_route *route, enum role role)
{
    return role == ROLE_ADMIN || (route->roles & 1U << role);
}

static void write_roles(struct strbuf *buf, const struct http_route *route)
{
    for (int role = 0; role < ROLES; role++) {
        if (!route_allows(route, (enum role)role))
            continue;
        strbuf_append_str(buf, role == ROLE_ADMIN ? "" : " ");
        strbuf_append_str(buf, role_name((enum role)role));
    }
}

static void write_who(struct strbuf *buf, const struct http_route *route)
{
    switch (route->auth) {
    case ROUTE_BY_KEY:
        write_roles(buf, route);
        break;
    case ROUTE_BY_SIGNATURE:
        strbuf_append_str(buf, "provider");
        break;
    case ROUTE_BY_TICKET:
        strbuf_append_str(buf, "ticket");
        break;
    case ROUTE_OPEN:
        strbuf_append_str(buf, "anybody");
        break;
    }
}

void api_write_routes(struct strbuf *buf)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        strbuf_printf(buf, "%-6s  %-32s  ", api_routes[i].method, api_routes[i].pattern);
        write_who(buf, &api_routes[i]);
        strbuf_append_char(buf, '\n');
    }
}
