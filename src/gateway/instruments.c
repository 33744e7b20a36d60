/*
 * instruments.c - what the gateway counts. Every label has a fixed set of values.
 */
#include "gateway/gateway_internal.h"

static const double duration_bounds[] = {1, 5, 15, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400};

const char *stream_refusal_name(enum stream_refusal reason)
{
    static const char *const names[REFUSED_REASONS] = {
        [REFUSED_REQUEST] = "bad_request",    [REFUSED_TICKET] = "bad_ticket",
        [REFUSED_EXPIRED] = "expired_ticket", [REFUSED_UNKNOWN_POD] = "unknown_pod",
        [REFUSED_NO_CALL] = "no_call",        [REFUSED_DRAINING] = "pod_draining",
        [REFUSED_TOO_MANY] = "too_many",      [REFUSED_STOPPING] = "stopping",
        [REFUSED_STORE] = "store_error",      [REFUSED_NO_PODS] = "no_pods",
        [REFUSED_NO_ADDRESS] = "no_address",  [REFUSED_UNREACHABLE] = "unreachable",
        [REFUSED_BY_POD] = "refused_by_pod",  [REFUSED_BAD_ANSWER] = "bad_answer",
        [REFUSED_NO_ANSWER] = "no_answer",    [REFUSED_CLIENT_GONE] = "client_gone",
        [REFUSED_NO_MEMORY] = "no_memory",    [REFUSED_EXHAUSTED] = "exhausted",
        [REFUSED_CALL_FULL] = "call_full",
    };

    assert(reason < REFUSED_REASONS);
    return names[reason];
}

static struct metrics_family *counter(struct metrics *metrics, const char *name, const char *help,
                                      const char *const *label)
{
    return metrics_family(metrics, METRICS_COUNTER, name, help, label, label ? 1 : 0, NULL, 0);
}

static struct metrics_series *series(struct metrics_family *family, const char *value)
{
    return metrics_series(family, &value);
}

int gateway_count_in(struct gateway_metrics *count, struct metrics *metrics)
{
    static const char *const reason[] = {"reason"}, *const direction[] = {"direction"};
    static const char *const failures[CONNECT_FAILURES] = {"refused", "timeout", "forbidden", "other"};
    struct metrics_family *connections =
        metrics_family(metrics, METRICS_GAUGE, "smart_router_gateway_connections",
                       "WebSocket connections that are open to pods.", NULL, 0, NULL, 0);
    struct metrics_family *opened =
        counter(metrics, "smart_router_gateway_opened_total", "WebSocket connections opened to pods.", NULL);
    struct metrics_family *bytes = counter(metrics, "smart_router_gateway_bytes_total",
                                           "Bytes carried to pods and to clients.", direction);
    struct metrics_family *refusals = counter(metrics, "smart_router_gateway_refusals_total",
                                              "WebSocket connections that were not opened.", reason);
    struct metrics_family *failed = counter(metrics, "smart_router_gateway_connect_failures_total",
                                            "Pods that could not be reached.", reason);
    static const char *const outcome[] = {"outcome"};
    struct metrics_family *moves =
        counter(metrics, "smart_router_gateway_moves_total",
                "Calls whose pod could not be reached: moved, or no other pod was free.", outcome);
    struct metrics_family *ends = counter(metrics, "smart_router_gateway_closed_total",
                                          "WebSocket connections that have ended.", reason);
    struct metrics_family *durations = metrics_family(
        metrics, METRICS_HISTOGRAM, "smart_router_gateway_connection_duration_seconds",
        "How long WebSocket connections were open.", NULL, 0, duration_bounds, ARRAY_LEN(duration_bounds));

    if (!connections || !opened || !bytes || !refusals || !failed || !moves || !ends || !durations)
        return -ENOMEM;
    count->connections = metrics_series(connections, NULL);
    count->opened = metrics_series(opened, NULL);
    count->to_pod = series(bytes, "to_pod");
    count->to_client = series(bytes, "to_client");
    for (unsigned i = 0; i < REFUSED_REASONS; i++)
        count->refusals[i] = series(refusals, stream_refusal_name((enum stream_refusal)i));
    for (unsigned i = 0; i < CONNECT_FAILURES; i++)
        count->failures[i] = series(failed, failures[i]);
    count->moves[0] = series(moves, "moved");
    count->moves[1] = series(moves, "no_pods");
    for (unsigned i = 0; i < TUNNEL_ENDS; i++)
        count->ends[i] = series(ends, tunnel_end_name((enum tunnel_end)i));
    count->durations = metrics_series(durations, NULL);
    return 0;
}

void gateway_count_failure(struct gateway *gateway, int err)
{
    enum connect_failure failure = err == -ECONNREFUSED ? CONNECT_REFUSED
                                   : err == -ETIMEDOUT  ? CONNECT_TIMED_OUT
                                   : err == -EACCES     ? CONNECT_FORBIDDEN
                                                        : CONNECT_FAILED;

    metrics_add(gateway->metrics.failures[failure], 1);
}

int gateway_list_metrics(struct metrics *metrics)
{
    struct gateway_metrics count;

    return gateway_count_in(&count, metrics);
}
