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

enum close_code_kind close_code_kind(int code)
{
    static const struct {
        int code;
        enum close_code_kind kind;
    } kinds[] = {
        {1000, CLOSE_CODE_1000}, {1001, CLOSE_CODE_1001}, {1002, CLOSE_CODE_1002}, {1003, CLOSE_CODE_1003},
        {1005, CLOSE_CODE_1005}, {1006, CLOSE_CODE_1006}, {1007, CLOSE_CODE_1007}, {1008, CLOSE_CODE_1008},
        {1009, CLOSE_CODE_1009}, {1011, CLOSE_CODE_1011}, {1012, CLOSE_CODE_1012}, {1013, CLOSE_CODE_1013},
    };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].code == code)
            return kinds[i].kind;
    return code >= 4000 && code <= 4999   ? CLOSE_CODE_4000
           : code >= 3000 && code <= 3999 ? CLOSE_CODE_3000
                                          : CLOSE_CODE_OTHER;
}

static int count_rescues_in(struct gateway_metrics *count, struct metrics *metrics)
{
    static const double bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
    static const char *const results[RESCUE_RESULTS] = {"moved", "waited", "no_pods", "ended", "failed"};
    static const char *const codes[CLOSE_CODE_KINDS] = {"1000", "1001", "1002", "1003", "1005",
                                                        "1006", "1007", "1008", "1009", "1011",
                                                        "1012", "1013", "3xxx", "4xxx", "other"};
    static const char *const sides[] = {"client", "pod"};
    static const char *const result[] = {"result"}, *const code[] = {"side", "code"};
    struct metrics_family *held = metrics_family(
        metrics, METRICS_GAUGE, "smart_router_gateway_held_streams",
        "WebSocket connections without a pod: their callers hear HOLD_AUDIO.", NULL, 0, NULL, 0);
    struct metrics_family *hold_seconds =
        metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_gateway_hold_seconds",
                       "How long WebSocket connections had no pod.", NULL, 0, bounds, ARRAY_LEN(bounds));
    struct metrics_family *rescues = metrics_family(
        metrics, METRICS_COUNTER, "smart_router_gateway_rescues_total",
        "WebSocket connections whose pod broke, or whose call lost its pod.", result, 1, NULL, 0);
    struct metrics_family *rescue_seconds = metrics_family(
        metrics, METRICS_HISTOGRAM, "smart_router_gateway_rescue_seconds",
        "From the break of a pod to the first message of the next one.", NULL, 0, bounds, ARRAY_LEN(bounds));
    struct metrics_family *close_codes =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_gateway_close_codes_total",
                       "How the sides of followed WebSocket connections closed; 1006: without a close frame.",
                       code, 2, NULL, 0);
    struct metrics_family *waits = metrics_waits(metrics);
    const char *granted = wait_end_name(WAIT_GRANTED);

    if (!held || !hold_seconds || !rescues || !rescue_seconds || !close_codes || !waits)
        return -ENOMEM;
    count->held = metrics_series(held, NULL);
    count->hold_seconds = metrics_series(hold_seconds, NULL);
    count->rescue_seconds = metrics_series(rescue_seconds, NULL);
    count->granted = metrics_series(waits, &granted);
    for (unsigned i = 0; i < RESCUE_RESULTS; i++)
        count->rescues[i] = series(rescues, results[i]);
    for (unsigned side = 0; side < ARRAY_LEN(sides); side++)
        for (unsigned i = 0; i < CLOSE_CODE_KINDS; i++)
            count->close_codes[side][i] =
                metrics_series(close_codes, (const char *const[]){sides[side], codes[i]});
    return 0;
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
    for (unsigned i = 0; i < STREAM_ENDS; i++)
        count->ends[i] = series(ends, stream_end_name((enum stream_end)i));
    count->durations = metrics_series(durations, NULL);
    return count_rescues_in(count, metrics);
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
