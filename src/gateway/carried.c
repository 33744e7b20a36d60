/*
 * carried.c - one open connection: whose it is, and what is said and counted about it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/gateway_internal.h"

struct carried {
    struct gateway *gateway;
    struct list link;
    struct held_call *call;
    struct tunnel *tunnel;
    char call_sid[CALL_SID_MAX + 1];
    char pod[POD_NAME_MAX + 1];
    char request_id[HTTP_REQUEST_ID_MAX + 1];
};

static void carried_ended(void *arg, const struct tunnel_report *report)
{
    struct carried *carried = arg;
    struct gateway *gateway = carried->gateway;

    list_remove(&carried->link);
    gateway->carried_count--;
    metrics_set(gateway->metrics.connections, (double)gateway->carried_count);
    metrics_add(gateway->metrics.ends[report->end], 1);
    metrics_observe(gateway->metrics.durations, (double)report->duration_ms / 1000);
    log_info("connection closed", log_str("call_sid", carried->call_sid), log_str("pod", carried->pod),
             log_str("reason", tunnel_end_name(report->end)),
             log_num("bytes_to_pod", (int64_t)report->to_pod_bytes),
             log_num("bytes_to_client", (int64_t)report->to_client_bytes),
             log_num("duration_ms", (int64_t)report->duration_ms),
             log_str("request_id", carried->request_id));
    calls_drop(carried->call, true);
    if (report->pod_broke)
        probe_start(gateway, carried->pod);
    free(carried);
    gateway_lost_one(gateway);
}

int carried_start(struct gateway *gateway, const struct carried_names *names, struct held_call *call,
                  uv_tcp_t *client, uv_tcp_t *pod, struct slice to_client, struct slice to_pod)
{
    const struct tunnel_settings settings = {
        .loop = gateway->loop,
        .idle_timeout_ms = gateway->settings.idle_timeout_ms,
        .scratch = gateway->scratch,
        .to_pod = gateway->metrics.to_pod,
        .to_client = gateway->metrics.to_client,
    };
    struct carried *carried = calloc(1, sizeof(*carried));
    int err;

    if (!carried)
        return -ENOMEM;
    carried->gateway = gateway;
    carried->call = call;
    snprintf(carried->call_sid, sizeof(carried->call_sid), "%s", names->call_sid);
    snprintf(carried->pod, sizeof(carried->pod), "%s", names->pod);
    snprintf(carried->request_id, sizeof(carried->request_id), "%s", names->request_id);
    err = tunnel_start(&settings, client, pod, to_client, to_pod, carried_ended, carried, &carried->tunnel);
    if (err < 0) {
        free(carried);
        return err;
    }
    list_append(&gateway->carried, &carried->link);
    gateway->carried_count++;
    metrics_set(gateway->metrics.connections, (double)gateway->carried_count);
    metrics_add(gateway->metrics.opened, 1);
    calls_opened(call);
    log_info("connection opened", log_str("call_sid", carried->call_sid), log_str("pod", carried->pod),
             log_str("request_id", carried->request_id));
    return 0;
}

bool carried_has_client(const struct gateway *gateway, const struct held_call *call)
{
    LIST_FOR_EACH (link, &gateway->carried) {
        const struct carried *carried = LIST_ENTRY(link, struct carried, link);

        if (carried->call == call && !tunnel_client_has_ended(carried->tunnel))
            return true;
    }
    return false;
}

/* How many the call has; *ret_silent of them do not count, *ret_longest has been silent longest. */
static size_t carried_count_of(const struct gateway *gateway, const struct held_call *call,
                               size_t *ret_silent, struct carried **ret_longest)
{
    uint64_t longest_ms = 0;
    size_t count = 0;

    *ret_silent = 0;
    *ret_longest = NULL;
    LIST_FOR_EACH (link, &gateway->carried) {
        struct carried *carried = LIST_ENTRY(link, struct carried, link);
        uint64_t ms;

        if (carried->call != call || tunnel_is_closing(carried->tunnel))
            continue;
        count++;
        ms = tunnel_client_silence_ms(carried->tunnel);
        if (ms < GATEWAY_SILENCE_MS ||
            (gateway->secret_count == 0 && !tunnel_client_has_ended(carried->tunnel)))
            continue;
        (*ret_silent)++;
        if (ms >= longest_ms) {
            longest_ms = ms;
            *ret_longest = carried;
        }
    }
    return count;
}

bool carried_has_room(const struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct carried *longest;
    size_t silent;
    size_t count = carried_count_of(gateway, call, &silent, &longest);

    return count - silent + openings <= gateway->settings.streams_per_call;
}

void carried_make_room(struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct carried *longest;
    size_t silent;

    while (carried_count_of(gateway, call, &silent, &longest) + openings >
               gateway->settings.streams_per_call &&
           longest) {
        log_info("connection closed for another one of its call: its client has been silent",
                 log_str("call_sid", longest->call_sid), log_str("pod", longest->pod),
                 log_str("request_id", longest->request_id));
        tunnel_cut(longest->tunnel, TUNNEL_REPLACED);
    }
}

void carried_cut_all(struct gateway *gateway)
{
    if (gateway->carried_count > 0)
        log_warn("connections cut: the router stops",
                 log_num("connections", (int64_t)gateway->carried_count));
    LIST_FOR_EACH (link, &gateway->carried) {
        tunnel_cut(LIST_ENTRY(link, struct carried, link)->tunnel, TUNNEL_CUT);
    }
}

void carried_cut_call(struct gateway *gateway, const struct held_call *call, const char *but_on_pod)
{
    LIST_FOR_EACH (link, &gateway->carried) {
        const struct carried *carried = LIST_ENTRY(link, struct carried, link);

        if (carried->call == call && (!but_on_pod || strcmp(carried->pod, but_on_pod) != 0))
            tunnel_cut(carried->tunnel, TUNNEL_OVER);
    }
}
