/*
 * probe.c - checks whether a pod that broke a connection still exists.
 *
 * A process that was killed leaves connections that fail; one that is alive closes them in order, or accepts
 * the next one. So a connection that failed is followed by one attempt to connect. If that fails as well the
 * pod is put aside, unless somebody drains it already.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/connect.h"
#include "gateway/gateway_internal.h"

enum {
    PROBE_MAGIC = 0x70726f62,
    PROBES_MAX = 512, /* at once; beyond them the pod's next call finds out */
    PROBE_ARENA_MAX = 1024 * 1024,
    CLOCKS_DIFFER_MS = 2000, /* at most, the store's and ours, in this */
};

struct probe {
    unsigned magic;
    struct gateway *gateway;
    struct list link;
    struct ask ask;
    struct arena arena;
    struct connecting *connecting; /* NULL: not under way */
    char pod[POD_NAME_MAX + 1];
};

static void probe_end(struct probe *probe)
{
    struct gateway *gateway = probe->gateway;

    list_remove(&probe->link);
    gateway->probe_count--;
    arena_release(&probe->arena);
    probe->magic = 0;
    free(probe);
    gateway_lost_one(gateway);
}

/* Asks the store, or ends the probe: without an answer nothing is changed. */
static void probe_ask(struct probe *probe, const struct command *command, store_done_fn done)
{
    int err = probe->gateway->is_stopping ? -ECANCELED : 0;

    arena_reset(&probe->arena);
    if (err == 0)
        err = ask_store(&probe->gateway->asker, &probe->ask, command, &probe->arena, done, probe);
    if (err < 0)
        probe_end(probe);
}

static void probe_put_aside(void *arg, int err, const struct result *result)
{
    struct probe *probe = arg;

    MAGIC_CHECK(probe, PROBE_MAGIC);
    if (err == 0 && result->outcome == OUTCOME_OK)
        log_warn("a pod broke its connection and cannot be reached: it is put aside",
                 log_str("pod", probe->pod), log_num("aside_ms", GATEWAY_ASIDE_MS));
    else if (err < 0)
        log_warn("a pod that cannot be reached cannot be put aside", log_str("pod", probe->pod),
                 log_str("error", store_error_text(err)));
    probe_end(probe);
}

static void probe_socket_closed(uv_handle_t *handle)
{
    free(handle);
}

static void probe_connected(void *arg, int err, uv_tcp_t *tcp)
{
    struct probe *probe = arg;
    const struct command command = {.type = COMMAND_DRAIN,
                                    .drain = {.pod = probe->pod, .ttl_ms = GATEWAY_ASIDE_MS}};

    MAGIC_CHECK(probe, PROBE_MAGIC);
    probe->connecting = NULL;
    if (tcp)
        uv_close((uv_handle_t *)tcp, probe_socket_closed);
    if (err == 0 || err == -ECANCELED || connect_failed_here(err)) {
        probe_end(probe);
        return;
    }
    gateway_count_failure(probe->gateway, err);
    probe_ask(probe, &command, probe_put_aside);
}

/*
 * A pod that broke a stream is put aside for a moment by the move of its call. Every other drain is
 * somebody's who knows better, and is not touched.
 */
static bool probe_is_drained_by_others(const struct pod_info *pod)
{
    return pod->is_draining &&
           pod->draining_until_ms > clock_wall_ms() + GATEWAY_BREAK_ASIDE_MS + CLOCKS_DIFFER_MS;
}

static void probe_looked(void *arg, int err, const struct result *result)
{
    struct probe *probe = arg;
    struct gateway *gateway = probe->gateway;
    struct connect_target target;

    MAGIC_CHECK(probe, PROBE_MAGIC);
    if (err < 0 || result->outcome != OUTCOME_OK || probe_is_drained_by_others(&result->pod) ||
        !result->pod.address[0] || gateway->is_stopping) {
        probe_end(probe);
        return;
    }
    target = gateway_target(gateway, result->pod.address, result->pod.source);
    if (connect_start(gateway->loop, &target, probe_connected, probe, &probe->connecting) < 0)
        probe_end(probe);
}

static bool probe_is_under_way(const struct gateway *gateway, const char *pod)
{
    LIST_FOR_EACH (link, &gateway->probes) {
        if (strcmp(LIST_ENTRY(link, struct probe, link)->pod, pod) == 0)
            return true;
    }
    return false;
}

void probe_start(struct gateway *gateway, const char *pod)
{
    struct probe *probe;
    struct command command = {.type = COMMAND_POD};

    if (gateway->is_stopping || gateway->probe_count == PROBES_MAX || probe_is_under_way(gateway, pod))
        return;
    probe = calloc(1, sizeof(*probe));
    if (!probe)
        return;
    probe->magic = PROBE_MAGIC;
    probe->gateway = gateway;
    arena_init(&probe->arena, PROBE_ARENA_MAX);
    snprintf(probe->pod, sizeof(probe->pod), "%s", pod);
    list_append(&gateway->probes, &probe->link);
    gateway->probe_count++;
    command.pod.name = probe->pod;
    probe_ask(probe, &command, probe_looked);
}

void probe_cancel_all(struct gateway *gateway)
{
    LIST_FOR_EACH (link, &gateway->probes) {
        struct probe *probe = LIST_ENTRY(link, struct probe, link);

        if (probe->connecting)
            connect_cancel(probe->connecting);
        /* Else the store is being asked: its answer ends it. */
    }
}
