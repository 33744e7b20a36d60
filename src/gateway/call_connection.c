/*
 * call_connection.c - one open connection: its call, its log lines and its counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/gateway_internal.h"

enum { CALL_CONNECTION_MAGIC = 0x63636f6e };

struct connection {
    unsigned magic;
    struct gateway *gateway;
    struct list link;
    struct held_call *call;
    struct tunnel *tunnel;
    char call_sid[CALL_SID_MAX + 1];
    char pod[POD_NAME_MAX + 1];
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char traceparent[TRACEPARENT_LEN + 1]; /* "": none */
};

static void call_connection_ended(void *arg, const struct tunnel_report *report)
{
    struct connection *connection = arg;
    struct gateway *gateway = connection->gateway;

    MAGIC_CHECK(connection, CALL_CONNECTION_MAGIC);
    list_remove(&connection->link);
    gateway->connection_count--;
    metrics_set(gateway->metrics.connections, (double)gateway->connection_count);
    metrics_add(gateway->metrics.ends[report->end], 1);
    metrics_observe(gateway->metrics.durations, (double)report->duration_ms / 1000);
    log_info("connection closed", log_str("call_sid", connection->call_sid), log_str("pod", connection->pod),
             log_str("reason", tunnel_end_name(report->end)),
             log_num("bytes_to_pod", (int64_t)report->to_pod_bytes),
             log_num("bytes_to_client", (int64_t)report->to_client_bytes),
             log_num("duration_ms", (int64_t)report->duration_ms),
             log_str("request_id", connection->request_id), log_str("traceparent", connection->traceparent));
    calls_drop(connection->call, true);
    if (report->pod_broke)
        probe_start(gateway, connection->pod);
    connection->magic = 0;
    free(connection);
    gateway_lost_one(gateway);
}

int call_connection_start(struct gateway *gateway, const struct call_connection_names *names,
                          struct held_call *call, uv_tcp_t *client, uv_tcp_t *pod, struct slice to_client,
                          struct slice to_pod)
{
    const struct tunnel_settings settings = {
        .loop = gateway->loop,
        .idle_timeout_ms = gateway->settings.idle_timeout_ms,
        .scratch = gateway->scratch,
        .to_pod = gateway->metrics.to_pod,
        .to_client = gateway->metrics.to_client,
    };
    struct connection *connection = calloc(1, sizeof(*connection));
    int err;

    if (!connection)
        return -ENOMEM;
    connection->magic = CALL_CONNECTION_MAGIC;
    connection->gateway = gateway;
    connection->call = call;
    snprintf(connection->call_sid, sizeof(connection->call_sid), "%s", names->call_sid);
    snprintf(connection->pod, sizeof(connection->pod), "%s", names->pod);
    snprintf(connection->request_id, sizeof(connection->request_id), "%s", names->request_id);
    snprintf(connection->traceparent, sizeof(connection->traceparent), "%s",
             names->traceparent ? names->traceparent : "");
    err = tunnel_start(&settings, client, pod, to_client, to_pod, call_connection_ended, connection,
                       &connection->tunnel);
    if (err < 0) {
        free(connection);
        return err;
    }
    list_append(&gateway->connections, &connection->link);
    gateway->connection_count++;
    metrics_set(gateway->metrics.connections, (double)gateway->connection_count);
    metrics_add(gateway->metrics.opened, 1);
    calls_opened(call);
    log_info("connection opened", log_str("call_sid", connection->call_sid), log_str("pod", connection->pod),
             log_str("request_id", connection->request_id), log_str("traceparent", connection->traceparent));
    return 0;
}

bool call_connection_has_client(const struct gateway *gateway, const struct held_call *call)
{
    LIST_FOR_EACH (link, &gateway->connections) {
        const struct connection *connection = LIST_ENTRY(link, struct connection, link);

        if (connection->call == call && !tunnel_client_has_ended(connection->tunnel))
            return true;
    }
    return false;
}

/* How many the call has; *ret_silent of them do not count, *ret_longest has been silent longest. */
static size_t call_connection_count_of(const struct gateway *gateway, const struct held_call *call,
                                       size_t *ret_silent, struct connection **ret_longest)
{
    uint64_t longest_ms = 0;
    size_t count = 0;

    *ret_silent = 0;
    *ret_longest = NULL;
    LIST_FOR_EACH (link, &gateway->connections) {
        struct connection *connection = LIST_ENTRY(link, struct connection, link);
        uint64_t ms;

        if (connection->call != call || tunnel_is_closing(connection->tunnel))
            continue;
        count++;
        ms = tunnel_client_silence_ms(connection->tunnel);
        if (ms < GATEWAY_SILENCE_MS ||
            (gateway->secret_count == 0 && !tunnel_client_has_ended(connection->tunnel)))
            continue;
        (*ret_silent)++;
        if (ms >= longest_ms) {
            longest_ms = ms;
            *ret_longest = connection;
        }
    }
    return count;
}

bool call_connection_has_room(const struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct connection *longest;
    size_t silent;
    size_t count = call_connection_count_of(gateway, call, &silent, &longest);

    return count - silent + openings <= gateway->settings.streams_per_call;
}

void call_connection_make_room(struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct connection *longest;
    size_t silent;

    while (call_connection_count_of(gateway, call, &silent, &longest) + openings >
               gateway->settings.streams_per_call &&
           longest) {
        log_info("connection closed for another one of its call: its client has been silent",
                 log_str("call_sid", longest->call_sid), log_str("pod", longest->pod),
                 log_str("request_id", longest->request_id));
        tunnel_cut(longest->tunnel, TUNNEL_REPLACED);
    }
}

void call_connection_cut_all(struct gateway *gateway)
{
    if (gateway->connection_count > 0)
        log_warn("connections cut: the router stops",
                 log_num("connections", (int64_t)gateway->connection_count));
    LIST_FOR_EACH (link, &gateway->connections) {
        tunnel_cut(LIST_ENTRY(link, struct connection, link)->tunnel, TUNNEL_CUT);
    }
}

void call_connection_cut_call(struct gateway *gateway, const struct held_call *call, const char *but_on_pod)
{
    LIST_FOR_EACH (link, &gateway->connections) {
        const struct connection *connection = LIST_ENTRY(link, struct connection, link);

        if (connection->call == call && (!but_on_pod || strcmp(connection->pod, but_on_pod) != 0))
            tunnel_cut(connection->tunnel, TUNNEL_OVER);
    }
}
