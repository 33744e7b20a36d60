/*
 * gauges.c - the metrics that are computed when /metrics is read: pools, store, connections,
 * process.
 */
#include "api/gauges.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "core/autoscale.h"
#include "metrics/process.h"

struct gauges {
    struct metrics_process *process;
    struct metrics_family *active_calls;
    struct metrics_family *available;
    struct metrics_family *assigned;
    struct metrics_family *capacity;
    struct metrics_family *free_calls;
    struct metrics_family *draining;
    struct metrics_family *suspended;
    struct metrics_family *calls;
    struct metrics_family *waiting;
    struct metrics_family *desired;
    struct metrics_family *leader;
    struct metrics_family *heartbeat;
    struct metrics_family *store_up;
    struct metrics_family *store_commands;
    struct metrics_family *store_errors;
    struct metrics_family *store_writes;
    struct metrics_family *store_written;
    struct metrics_family *store_syncs;
    struct metrics_family *store_snapshots;
    struct metrics_family *events_dropped;
    struct metrics_family *store_wipes;
    struct metrics_family *connections;
    struct metrics_family *evicted;
    struct metrics_family *refused;
    struct metrics_family *log_dropped;
    struct metrics_family *log_left_out;
};

static const char *const tier_label[] = {"tier"};
static const char *const listener_label[] = {"listener"};
static const char *const kind_label[] = {"kind"};

static const struct {
    size_t member;
    enum metrics_type type;
    const char *name;
    const char *help;
    const char *const *label; /* NULL: none */
} families[] = {
    {offsetof(struct gauges, active_calls), METRICS_GAUGE, "smart_router_active_calls",
     "Calls that have a pod now.", NULL},
    {offsetof(struct gauges, available), METRICS_GAUGE, "smart_router_pool_available_pods",
     "Pods of the tier that could take a call now.", tier_label},
    {offsetof(struct gauges, assigned), METRICS_GAUGE, "smart_router_pool_assigned_pods",
     "Pods that belong to the tier.", tier_label},
    {offsetof(struct gauges, capacity), METRICS_GAUGE, "smart_router_pool_capacity_calls",
     "Calls that the tier's pods could carry if all were available.", tier_label},
    {offsetof(struct gauges, free_calls), METRICS_GAUGE, "smart_router_pool_free_calls",
     "Calls that the tier's available pods could take now.", tier_label},
    {offsetof(struct gauges, draining), METRICS_GAUGE, "smart_router_pool_draining_pods",
     "Pods of the tier that drain: they get no new call and keep those that they have.", tier_label},
    {offsetof(struct gauges, suspended), METRICS_GAUGE, "smart_router_pool_suspended_pods",
     "Pods of the tier that are not ready and carry live calls, or are held back until their first "
     "heartbeat.",
     tier_label},
    {offsetof(struct gauges, calls), METRICS_GAUGE, "smart_router_pool_calls",
     "Calls that the tier's pods carry now.", tier_label},
    {offsetof(struct gauges, waiting), METRICS_GAUGE, "smart_router_waiting_calls",
     "Calls that wait for a pod, each counted in the first tier of its chain.", tier_label},
    {offsetof(struct gauges, desired), METRICS_GAUGE, "smart_router_desired_pods",
     "Pods that the tier wants; tier \"all\" is the sum. Missing while the store does not answer.",
     tier_label},
    {offsetof(struct gauges, leader), METRICS_GAUGE, "smart_router_leader_status",
     "1 if this process leads, else 0.", NULL},
    {offsetof(struct gauges, heartbeat), METRICS_GAUGE, "smart_router_last_heartbeat_timestamp_seconds",
     "When this router last took a heartbeat of a pod, in seconds since 1970. Missing until there was one.",
     NULL},
    {offsetof(struct gauges, store_up), METRICS_GAUGE, "smart_router_store_up",
     "1 if the store would answer an allocation now, else 0.", NULL},
    {offsetof(struct gauges, store_commands), METRICS_COUNTER, "smart_router_store_commands_total",
     "Commands given to the store.", NULL},
    {offsetof(struct gauges, store_errors), METRICS_COUNTER, "smart_router_store_errors_total",
     "Commands that the store could not answer.", NULL},
    {offsetof(struct gauges, store_writes), METRICS_COUNTER, "smart_router_store_writes_total",
     "Batches written by the store.", NULL},
    {offsetof(struct gauges, store_written), METRICS_COUNTER, "smart_router_store_written_bytes_total",
     "Bytes written by the store.", NULL},
    {offsetof(struct gauges, store_syncs), METRICS_COUNTER, "smart_router_store_syncs_total",
     "Times that the store flushed its log to the disk.", NULL},
    {offsetof(struct gauges, store_snapshots), METRICS_COUNTER, "smart_router_store_snapshots_total",
     "Snapshots written by the store.", NULL},
    {offsetof(struct gauges, events_dropped), METRICS_COUNTER, "smart_router_events_dropped_total",
     "Events that were too many to be published.", NULL},
    {offsetof(struct gauges, store_wipes), METRICS_COUNTER, "smart_router_store_wipes_total",
     "Times that Redis had lost all that was stored, noticed by this router.", NULL},
    {offsetof(struct gauges, connections), METRICS_GAUGE, "smart_router_http_connections",
     "Connections that are open.", listener_label},
    {offsetof(struct gauges, evicted), METRICS_COUNTER, "smart_router_http_connections_evicted_total",
     "Idle or slow connections closed at MAX_CONNECTIONS to make room for new ones.", listener_label},
    {offsetof(struct gauges, refused), METRICS_COUNTER, "smart_router_http_connections_refused_total",
     "Connections refused at MAX_CONNECTIONS or MAX_CONNECTIONS_PER_CLIENT.", listener_label},
    {offsetof(struct gauges, log_dropped), METRICS_COUNTER, "smart_router_log_lines_dropped_total",
     "Log lines lost because the reader of the log was too slow.", NULL},
    {offsetof(struct gauges, log_left_out), METRICS_COUNTER, "smart_router_log_lines_left_out_total",
     "Log lines about refused strangers that were left out because there were too many.", kind_label},
};

int gauges_new(struct metrics *metrics, struct gauges **ret_gauges)
{
    struct gauges *gauges = calloc(1, sizeof(*gauges));

    if (!gauges)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        struct metrics_family *family =
            metrics_family(metrics, families[i].type, families[i].name, families[i].help, families[i].label,
                           families[i].label ? 1 : 0, NULL, 0);

        if (!family) {
            gauges_free(gauges);
            return -ENOMEM;
        }
        memcpy((char *)gauges + families[i].member, &family, sizeof(family));
    }
    if (metrics_process_new(metrics, &gauges->process) < 0) {
        gauges_free(gauges);
        return -ENOMEM;
    }
    *ret_gauges = gauges;
    return 0;
}

struct gauges *gauges_free(struct gauges *gauges)
{
    if (!gauges)
        return NULL;
    metrics_process_free(gauges->process);
    free(gauges);
    return NULL;
}

static void gauge_set(struct metrics_family *family, const char *label, double value)
{
    metrics_set(metrics_series(family, label ? &label : NULL), value);
}

void gauges_set_status(struct gauges *gauges, const struct result *result)
{
    struct metrics_family *const cleared[] = {
        gauges->active_calls, gauges->available, gauges->assigned, gauges->capacity, gauges->free_calls,
        gauges->draining,     gauges->suspended, gauges->calls,    gauges->desired,  gauges->waiting};

    for (size_t i = 0; i < ARRAY_LEN(cleared); i++)
        metrics_family_clear(cleared[i]);
    if (!result)
        return;
    gauge_set(gauges->active_calls, NULL, (double)result->status.active_calls);
    for (size_t i = 0; i < result->status.tier_count; i++) {
        const struct tier_status *tier = &result->status.tiers[i];

        gauge_set(gauges->available, tier->name, tier->by_state[POD_AVAILABLE]);
        gauge_set(gauges->assigned, tier->name, tier->assigned);
        gauge_set(gauges->capacity, tier->name, (double)tier->capacity);
        gauge_set(gauges->free_calls, tier->name, (double)tier->free);
        gauge_set(gauges->draining, tier->name, tier->by_state[POD_DRAINING]);
        gauge_set(gauges->suspended, tier->name, tier->by_state[POD_SUSPENDED]);
        gauge_set(gauges->calls, tier->name, (double)tier->calls);
        gauge_set(gauges->waiting, tier->name, (double)tier->waiting);
        gauge_set(gauges->desired, tier->name, (double)autoscale_of(result, tier).desired_pods);
    }
    /* Last: a tier of that name must not take its place. */
    gauge_set(gauges->desired, AUTOSCALE_ALL, (double)autoscale_of(result, NULL).desired_pods);
}

void gauges_set_store(struct gauges *gauges, const struct store *store)
{
    struct store_health health;
    struct store_stats stats;

    store_health(store, &health);
    store_stats(store, &stats);
    gauge_set(gauges->store_up, NULL, health.is_ready);
    gauge_set(gauges->store_commands, NULL, (double)stats.commands);
    gauge_set(gauges->store_errors, NULL, (double)stats.errors);
    gauge_set(gauges->store_writes, NULL, (double)stats.writes);
    gauge_set(gauges->store_written, NULL, (double)stats.written_bytes);
    gauge_set(gauges->store_syncs, NULL, (double)stats.syncs);
    gauge_set(gauges->store_snapshots, NULL, (double)stats.snapshots);
    gauge_set(gauges->events_dropped, NULL, (double)stats.events_dropped);
    gauge_set(gauges->store_wipes, NULL, (double)stats.wipes);
}

void gauges_set_leader(struct gauges *gauges, bool is_leader)
{
    gauge_set(gauges->leader, NULL, is_leader);
}

void gauges_set_heartbeat(struct gauges *gauges, uint64_t at_ms)
{
    if (at_ms > 0)
        gauge_set(gauges->heartbeat, NULL, (double)at_ms / 1000);
}

void gauges_set_connections(struct gauges *gauges, const char *listener, const struct http_server *server)
{
    gauge_set(gauges->connections, listener, (double)http_server_connections(server));
    gauge_set(gauges->evicted, listener, (double)http_server_evicted(server));
    gauge_set(gauges->refused, listener, (double)http_server_refused(server));
}

void gauges_set_process(struct gauges *gauges)
{
    metrics_process_update(gauges->process);
    gauge_set(gauges->log_dropped, NULL, (double)log_dropped());
    for (enum log_kind kind = 0; kind < LOG_KINDS; kind++)
        gauge_set(gauges->log_left_out, log_kind_name(kind), (double)log_limit_left_out(kind));
}
