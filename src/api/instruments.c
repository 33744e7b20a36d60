/*
 * instruments.c - the metrics that are counted while requests are answered, and their series.
 */
#include "api/instruments.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"

enum {
    ENDPOINTS_MAX = 96,
    POOLS_MAX = 512, /* source pools with series of their own; more share one */
};

/* The last of each list stands for everything else. A HEAD is answered as a GET is, and counted as one. */
static const char *const method_names[] = {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "other"};
static const int statuses[] = {200, 202, 302, 400, 401, 403, 404, 405, 408, 409, 413,
                               417, 426, 429, 431, 500, 502, 503, 504, 101, 0};
enum {
    METHOD_OTHER = ARRAY_LEN(method_names) - 1,
    STATUS_OTHER = ARRAY_LEN(statuses) - 1,
};

/*
 * A histogram has many lines, so it has few series: refusals of all endpoints share one, whatever their
 * reason.
 */
enum duration_class {
    DURATION_DONE,                        /* 200 */
    DURATION_UPGRADED,                    /* 101 */
    DURATION_FAILED,                      /* 5xx */
    DURATION_BY_CLASS,                    /* below: those of all endpoints together */
    DURATION_REFUSED = DURATION_BY_CLASS, /* 4xx */
    DURATION_HELD,  /* long polls and streams: their clients wait on purpose, whatever the answer is */
    DURATION_OTHER, /* the client was gone, or a status that nobody should answer with */
    DURATION_CLASSES,
};

static const char *const duration_names[DURATION_CLASSES] = {
    [DURATION_DONE] = "200",    [DURATION_UPGRADED] = "101", [DURATION_FAILED] = "5xx",
    [DURATION_REFUSED] = "4xx", [DURATION_HELD] = "held",    [DURATION_OTHER] = "other",
};

static const char *const allocation_names[] = {"success", "existing", "no_pods", "storage_error",
                                               "client_gone"};
static const char *const release_names[] = {"success", "not_found", "storage_error", "kept"};

static const double request_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                        0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};

/*
 * The series of one route; made when they are first needed. Routes of one path have the same
 * series.
 */
struct endpoint {
    const struct http_route *route; /* NULL: requests without one */
    const char *label;
    struct metrics_series *counts[ARRAY_LEN(method_names)][ARRAY_LEN(statuses)];
    struct metrics_series *durations[ARRAY_LEN(method_names)][DURATION_BY_CLASS];
};

static const char no_route[] = "other"; /* the endpoint of requests that have none */

struct pool_series {
    struct map_node node;
    struct metrics_series *allocations[ALLOCATION_STATUSES];
    struct metrics_series *releases[RELEASE_STATUSES];
    char pool[POOL_LABEL_MAX + 1];
};

struct instruments {
    struct metrics_family *requests;
    struct metrics_family *request_durations;
    struct metrics_family *allocations;
    struct metrics_family *releases;
    struct metrics_family *store_durations;
    struct metrics_series *operations[COMMAND_TYPES];
    struct metrics_series *drains;
    struct metrics_series *unauthorized[SECRET_KINDS];
    struct metrics_series *forbidden[ROLES]; /* NULL: admin */
    struct metrics_family *webhooks_refused;
    struct metrics_family *resumes;
    struct metrics_series *waits[WAIT_ENDS];
    struct metrics_series *tier_errors;
    uint64_t stored_tier_errors; /* that tier_errors has already */
    struct metrics_series *limited;
    struct metrics_series *refusals[CALL_REFUSALS];
    struct endpoint *endpoints[ENDPOINTS_MAX];
    size_t endpoint_count;
    struct metrics_series *shared_durations[DURATION_CLASSES]; /* from DURATION_BY_CLASS on */
    struct map pools;
    struct pool_series no_pool;    /* label "none": the call got none */
    struct pool_series other_pool; /* beyond POOLS_MAX, or without memory */
};

static const char *const refusal_names[WEBHOOK_REFUSALS] = {
    [WEBHOOK_UNSIGNED] = "unsigned",         [WEBHOOK_WRONG] = "wrong",
    [WEBHOOK_UNVERIFIABLE] = "unverifiable", [WEBHOOK_REPLAYED] = "replayed",
    [WEBHOOK_OF_OTHERS] = "not_its_call",
};

static const char *const call_refusal_names[CALL_REFUSALS] = {
    [CALL_REFUSED_BUSY] = "busy",           [CALL_REFUSED_DRAINING] = "draining",
    [CALL_REFUSED_SUSPENDED] = "suspended", [CALL_REFUSED_NO_PODS] = "no_pods",
    [CALL_REFUSED_NO_POOLS] = "no_pools",   [CALL_REFUSED_STORE] = "storage_error",
    [CALL_REFUSED_RATE] = "rate_limit",
};

static const char *const resume_names[RESUME_RESULTS] = {
    [RESUME_RESUMED] = "resumed",     [RESUME_ALLOCATED] = "allocated", [RESUME_WAITING] = "waiting",
    [RESUME_ENDED] = "ended",         [RESUME_TIMED_OUT] = "timed_out", [RESUME_NO_PODS] = "no_pods",
    [RESUME_TOO_OFTEN] = "too_often", [RESUME_LATER] = "later",         [RESUME_GIVEN_UP] = "given_up",
};

const char *resume_result_name(enum resume_result result)
{
    return resume_names[result];
}

const char *webhook_refusal_name(enum webhook_refusal reason)
{
    return refusal_names[reason];
}

static const char *const providers[] = {"twilio", "plivo", "exotel"};

static bool instruments_add_webhooks(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const labels[] = {"provider", "reason"};

    instruments->webhooks_refused =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_webhooks_refused_total",
                       "Webhooks refused because they do not come from their provider.", labels, 2, NULL, 0);
    /* From the start and at zero, so that the first one is seen as an increase. */
    for (size_t i = 0; i < ARRAY_LEN(providers) && instruments->webhooks_refused; i++)
        for (size_t reason = 0; reason < WEBHOOK_REFUSALS; reason++)
            metrics_series(instruments->webhooks_refused,
                           (const char *const[]){providers[i], refusal_names[reason]});
    return instruments->webhooks_refused != NULL;
}

static bool instruments_add_resumes(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const labels[] = {"provider", "result"};

    instruments->resumes =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_resumes_total",
                       "Providers that asked how a call goes on after its stream had ended, by the answer.",
                       labels, 2, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(providers) && instruments->resumes; i++)
        for (size_t result = 0; result < RESUME_RESULTS; result++)
            metrics_series(instruments->resumes, (const char *const[]){providers[i], resume_names[result]});
    return instruments->resumes != NULL;
}

static bool instruments_add_waits(struct instruments *instruments, struct metrics *metrics)
{
    struct metrics_family *family = metrics_waits(metrics);

    for (size_t i = 0; i < WAIT_ENDS && family; i++) {
        const char *name = wait_end_name((enum wait_end)i);

        instruments->waits[i] = metrics_series(family, &name);
    }
    return family != NULL;
}

static bool instruments_add_unauthorized(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const label = "credential";
    static const char *const kinds[SECRET_KINDS] = {
        [SECRET_API_KEY] = "api_key",
        [SECRET_TWILIO] = "twilio",
        [SECRET_PLIVO] = "plivo",
        [SECRET_EXOTEL] = "exotel",
    };
    struct metrics_family *family = metrics_family(
        metrics, METRICS_COUNTER, "smart_router_unauthorized_total",
        "Requests refused because a key, token or signature was missing or wrong.", &label, 1, NULL, 0);

    for (size_t i = 0; i < SECRET_KINDS && family; i++)
        instruments->unauthorized[i] = metrics_series(family, &kinds[i]);
    return family != NULL;
}

static bool instruments_add_forbidden(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const label = "role";
    struct metrics_family *family = metrics_family(
        metrics, METRICS_COUNTER, "smart_router_forbidden_total",
        "Requests refused because the role of their key does not allow them.", &label, 1, NULL, 0);

    for (int role = 0; role < ROLES && family; role++) {
        const char *name = role_name((enum role)role);

        if (role != ROLE_ADMIN)
            instruments->forbidden[role] = metrics_series(family, &name);
    }
    return family != NULL;
}

static bool instruments_add_refusals(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const label = "reason";
    struct metrics_family *family =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_refusals_total",
                       "Calls that asked for a pod and got none, by why.", &label, 1, NULL, 0);

    for (size_t i = 0; i < CALL_REFUSALS && family; i++)
        instruments->refusals[i] = metrics_series(family, &call_refusal_names[i]);
    return family != NULL;
}

static bool instruments_add_families(struct instruments *instruments, struct metrics *metrics)
{
    static const char *const request_labels[] = {"method", "endpoint", "status"};
    static const char *const pool_labels[] = {"pool", "status", "tier"};
    struct metrics_family *drains, *tier_errors, *limited;

    instruments->requests = metrics_family(metrics, METRICS_COUNTER, "http_requests_total",
                                           "Requests answered.", request_labels, 3, NULL, 0);
    instruments->request_durations =
        metrics_family(metrics, METRICS_HISTOGRAM, "http_request_duration_seconds",
                       "Time from a request's first byte to its answer.", request_labels, 3, request_bounds,
                       ARRAY_LEN(request_bounds));
    instruments->allocations =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_allocations_total",
                       "Calls that asked for a pod, by the pool that it came from.", pool_labels, 3, NULL, 0);
    instruments->releases = metrics_releases(metrics);
    instruments->store_durations = metrics_store_durations(metrics);
    drains = metrics_family(metrics, METRICS_COUNTER, "smart_router_drains_total", "Pods drained by request.",
                            NULL, 0, NULL, 0);
    tier_errors = metrics_family(metrics, METRICS_COUNTER, "smart_router_tier_config_errors_total",
                                 "Tier configurations that were refused: sent here, or stored by hand.", NULL,
                                 0, NULL, 0);
    limited = metrics_family(metrics, METRICS_COUNTER, "smart_router_rate_limited_total",
                             "Requests for a pod that RATE_LIMIT refused.", NULL, 0, NULL, 0);
    if (!instruments->requests || !instruments->request_durations || !instruments->allocations ||
        !instruments->releases || !instruments->store_durations || !drains || !tier_errors || !limited)
        return false;
    instruments->drains = metrics_series(drains, NULL);
    instruments->tier_errors = metrics_series(tier_errors, NULL);
    instruments->limited = metrics_series(limited, NULL);
    return true;
}

static void instruments_fill_pool(struct instruments *instruments, struct pool_series *series,
                                  const char *pool)
{
    const char *tier = name_of_pool_label(pool);

    snprintf(series->pool, sizeof(series->pool), "%s", pool);
    for (size_t i = 0; i < ALLOCATION_STATUSES; i++)
        series->allocations[i] =
            metrics_series(instruments->allocations, (const char *const[]){pool, allocation_names[i], tier});
    for (size_t i = 0; i < RELEASE_STATUSES; i++)
        series->releases[i] =
            metrics_series(instruments->releases, (const char *const[]){pool, release_names[i], tier});
}

int instruments_new(struct metrics *metrics, struct instruments **ret_instruments)
{
    struct instruments *instruments = calloc(1, sizeof(*instruments));

    if (!instruments)
        return -ENOMEM;
    map_init(&instruments->pools);
    if (!instruments_add_families(instruments, metrics) ||
        !instruments_add_unauthorized(instruments, metrics) ||
        !instruments_add_forbidden(instruments, metrics) || !instruments_add_webhooks(instruments, metrics) ||
        !instruments_add_refusals(instruments, metrics) || !instruments_add_resumes(instruments, metrics) ||
        !instruments_add_waits(instruments, metrics)) {
        instruments_free(instruments);
        return -ENOMEM;
    }
    instruments_fill_pool(instruments, &instruments->no_pool, "none");
    instruments_fill_pool(instruments, &instruments->other_pool, "other");
    *ret_instruments = instruments;
    return 0;
}

struct instruments *instruments_free(struct instruments *instruments)
{
    if (!instruments)
        return NULL;
    for (size_t i = 0; i < instruments->pools.bucket_count; i++) {
        struct map_node *node = instruments->pools.buckets[i];

        while (node) {
            struct map_node *next = node->next;

            free(CONTAINER_OF(node, struct pool_series, node));
            node = next;
        }
    }
    map_release(&instruments->pools);
    for (size_t i = 0; i < instruments->endpoint_count; i++)
        free(instruments->endpoints[i]);
    free(instruments);
    return NULL;
}

static struct pool_series *instruments_pool(struct instruments *instruments, const char *pool)
{
    size_t len = strlen(pool);
    struct map_node *node;
    struct pool_series *series;

    if (len == 0)
        return &instruments->no_pool;
    node = map_get(&instruments->pools, pool, len);
    if (node)
        return CONTAINER_OF(node, struct pool_series, node);
    if (instruments->pools.count >= POOLS_MAX || len > POOL_LABEL_MAX || map_reserve(&instruments->pools) < 0)
        return &instruments->other_pool;
    series = calloc(1, sizeof(*series));
    if (!series)
        return &instruments->other_pool;
    instruments_fill_pool(instruments, series, pool);
    map_put(&instruments->pools, &series->node, series->pool, len);
    return series;
}

void instruments_allocated(struct instruments *instruments, const char *pool, enum allocation_status status)
{
    metrics_add(instruments_pool(instruments, pool)->allocations[status], 1);
}

void instruments_released(struct instruments *instruments, const char *pool, enum release_status status)
{
    metrics_add(instruments_pool(instruments, pool)->releases[status], 1);
}

void instruments_drained(struct instruments *instruments)
{
    metrics_add(instruments->drains, 1);
}

void instruments_tiers_refused(struct instruments *instruments)
{
    metrics_add(instruments->tier_errors, 1);
}

void instruments_set_stored_tiers_refused(struct instruments *instruments, uint64_t count)
{
    assert(count >= instruments->stored_tier_errors);
    metrics_add(instruments->tier_errors, (double)(count - instruments->stored_tier_errors));
    instruments->stored_tier_errors = count;
}

void instruments_unauthorized(struct instruments *instruments, enum secret_kind kind)
{
    metrics_add(instruments->unauthorized[kind], 1);
}

void instruments_forbidden(struct instruments *instruments, enum role role)
{
    assert(role != ROLE_ADMIN);
    metrics_add(instruments->forbidden[role], 1);
}

void instruments_webhook_refused(struct instruments *instruments, const char *provider,
                                 enum webhook_refusal reason)
{
    metrics_add(
        metrics_series(instruments->webhooks_refused, (const char *const[]){provider, refusal_names[reason]}),
        1);
}

void instruments_limited(struct instruments *instruments)
{
    metrics_add(instruments->limited, 1);
    instruments_refused(instruments, CALL_REFUSED_RATE);
}

void instruments_refused(struct instruments *instruments, enum call_refusal reason)
{
    assert(reason < CALL_REFUSALS);
    metrics_add(instruments->refusals[reason], 1);
}

void instruments_waited(struct instruments *instruments, enum wait_end how, uint64_t waited_ms)
{
    metrics_observe(instruments->waits[how], (double)waited_ms / 1000);
}

void instruments_resumed(struct instruments *instruments, const char *provider, enum resume_result result)
{
    metrics_add(metrics_series(instruments->resumes, (const char *const[]){provider, resume_names[result]}),
                1);
}

void instruments_asked(struct instruments *instruments, enum command_type type, uint64_t duration_ns)
{
    struct metrics_series **series = &instruments->operations[type];
    const char *name = command_name(type);

    if (!*series)
        *series = metrics_series(instruments->store_durations, &name);
    metrics_observe(*series, (double)duration_ns / 1e9);
}

static struct endpoint *instruments_endpoint(struct instruments *instruments, const struct http_route *route)
{
    struct endpoint *endpoint;

    for (size_t i = 0; i < instruments->endpoint_count; i++) {
        if (instruments->endpoints[i]->route == route)
            return instruments->endpoints[i];
    }
    if (instruments->endpoint_count == ENDPOINTS_MAX)
        return NULL;
    endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return NULL;
    endpoint->route = route;
    endpoint->label = route ? http_route_label(route) : no_route;
    instruments->endpoints[instruments->endpoint_count++] = endpoint;
    return endpoint;
}

static size_t method_index(struct slice method)
{
    size_t i = 0;

    if (slice_equals(method, "HEAD"))
        return 0;
    while (i < METHOD_OTHER && !slice_equals(method, method_names[i]))
        i++;
    return i;
}

static size_t status_index(int status)
{
    size_t i = 0;

    while (i < STATUS_OTHER && statuses[i] != status)
        i++;
    return i;
}

static enum duration_class duration_class_of(int status, bool was_held)
{
    if (was_held)
        return DURATION_HELD;
    if (status == 200)
        return DURATION_DONE;
    if (status == 101)
        return DURATION_UPGRADED;
    if (status >= 500 && status < 600)
        return DURATION_FAILED;
    return status >= 400 && status < 500 ? DURATION_REFUSED : DURATION_OTHER;
}

static void instruments_count(struct instruments *instruments, struct endpoint *endpoint, size_t method,
                              size_t status)
{
    struct metrics_series **series = &endpoint->counts[method][status];

    if (!*series) {
        char status_text[16] = "other";

        if (status != STATUS_OTHER)
            snprintf(status_text, sizeof(status_text), "%d", statuses[status]);
        *series = metrics_series(instruments->requests,
                                 (const char *const[]){method_names[method], endpoint->label, status_text});
    }
    metrics_add(*series, 1);
}

static void instruments_observe(struct instruments *instruments, struct endpoint *endpoint, size_t method,
                                enum duration_class class, uint64_t duration_ns)
{
    bool is_shared = class >= DURATION_BY_CLASS;
    struct metrics_series **series =
        is_shared ? &instruments->shared_durations[class] : &endpoint->durations[method][class];

    if (!*series)
        *series = metrics_series(instruments->request_durations,
                                 (const char *const[]){method_names[is_shared ? METHOD_OTHER : method],
                                                       is_shared ? no_route : endpoint->label,
                                                       duration_names[class]});
    metrics_observe(*series, (double)duration_ns / 1e9);
}

void instruments_answered(struct instruments *instruments, const struct http_route *route,
                          struct slice method, int status, bool was_held, uint64_t duration_ns)
{
    struct endpoint *endpoint = instruments_endpoint(instruments, route);
    /*
     * What no handler has answered may have any method: strangers must not make a series for each of them.
     * A handler's methods are those that its route has.
     */
    bool is_unhandled = !route || status == 401 || status == 405;
    size_t m = is_unhandled ? METHOD_OTHER : method_index(method);

    if (!endpoint)
        return;
    instruments_count(instruments, endpoint, m, status_index(status));
    instruments_observe(instruments, endpoint, m, duration_class_of(status, was_held), duration_ns);
}
