/*
 * manager.c - builds, starts and stops the manager, and adds its metrics.
 */
#include "manager/manager.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "manager/manager_internal.h"

/* Calls come faster than pods: a pod that is wanted again must not stay drained for long. */
enum { SCALE_INTERVAL_MS = 5000 };

/* A caller hears it when the wait is over, or when a pod stands idle. */
enum { SERVE_INTERVAL_MS = 1000, SERVE_BACKOFF_MS = 5000 };

static struct metrics_series *manager_series(struct metrics *metrics, enum metrics_type type,
                                             const char *name, const char *help)
{
    struct metrics_family *family = metrics_family(metrics, type, name, help, NULL, 0, NULL, 0);

    return family ? metrics_series(family, NULL) : NULL;
}

static int manager_add_counters(struct manager *manager, struct metrics *metrics)
{
    manager->zombies_recovered =
        manager_series(metrics, METRICS_COUNTER, "smart_router_zombies_recovered_total",
                       "Calls ended because their lease expired, and pods brought back by a sweep.");
    manager->empty_lists =
        manager_series(metrics, METRICS_COUNTER, "smart_router_empty_pod_lists_total",
                       "Lists of pods from Kubernetes in which there was none: NAMESPACE or "
                       "POD_LABEL_SELECTOR may be wrong.");
    manager->sweeps = manager_series(metrics, METRICS_COUNTER, "smart_router_sweeps_total", "Sweeps begun.");
    return manager->zombies_recovered && manager->empty_lists && manager->sweeps ? 0 : -ENOMEM;
}

/* They keep their values when this router leads no more: the newest of all routers is the right one. */
static int manager_add_times(struct manager *manager, struct metrics *metrics)
{
    struct metrics_series *interval = manager_series(
        metrics, METRICS_GAUGE, "smart_router_sync_interval_seconds",
        "RECONCILE_INTERVAL: how often all pods are synced. Missing on routers that never led.");

    manager->synced_at = manager_series(
        metrics, METRICS_GAUGE, "smart_router_last_sync_timestamp_seconds",
        "When this router last finished a full sync of the pods, in seconds since 1970; 0 before the first "
        "one. Missing on routers that never led.");
    if (!interval || !manager->synced_at)
        return -ENOMEM;
    metrics_set(interval, (double)manager->settings.reconcile_interval_ms / 1000);
    if (manager->settings.source != POD_SOURCE_KUBERNETES)
        return 0;
    manager->watch_heard = manager_series(
        metrics, METRICS_GAUGE, "smart_router_watch_last_event_timestamp_seconds",
        "When this router last heard from Kubernetes about its pods (a list, an event or a bookmark), in "
        "seconds since 1970. Missing on routers that never led.");
    return manager->watch_heard ? 0 : -ENOMEM;
}

static int manager_add_metrics(struct manager *manager, struct metrics *metrics)
{
    static const double bounds[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30};
    static const char *const task_label[] = {"task"};
    struct metrics_family *sync_seconds, *failures, *store_durations;

    if (manager_add_counters(manager, metrics) < 0 || manager_add_times(manager, metrics) < 0)
        return -ENOMEM;
    sync_seconds = metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_sync_duration_seconds",
                                  "Duration of a full sync of the pods.", NULL, 0, bounds, ARRAY_LEN(bounds));
    failures =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_task_failures_total",
                       "Runs of background tasks that failed and are tried again.", task_label, 1, NULL, 0);
    store_durations = metrics_store_durations(metrics);
    manager->waits = metrics_waits(metrics);
    if (!manager->waits || !sync_seconds || !failures || !store_durations)
        return -ENOMEM;

    manager->sync_seconds = metrics_series(sync_seconds, NULL);
    manager->sync.failures_total = metrics_series(failures, (const char *const[]){"sync"});
    manager->sync.store_durations = store_durations;
    manager->sweep.failures_total = metrics_series(failures, (const char *const[]){"sweep"});
    manager->sweep.store_durations = store_durations;
    manager->scale.failures_total = metrics_series(failures, (const char *const[]){"scale"});
    manager->scale.store_durations = store_durations;
    manager->serve.failures_total = metrics_series(failures, (const char *const[]){"serve"});
    manager->serve.store_durations = store_durations;
    manager->kube_failures = metrics_series(failures, (const char *const[]){"watch"});
    manager->marking.failures_total = metrics_series(failures, (const char *const[]){"mark"});
    manager->marking.store_durations = store_durations;
    return 0;
}

int manager_list_metrics(struct metrics *metrics)
{
    struct manager manager = {.settings = {.source = POD_SOURCE_KUBERNETES}};

    return manager_add_metrics(&manager, metrics);
}

/* What the static source has to say never changes: it is told once, here. */
static int manager_tell_static_pods(struct manager *manager)
{
    const struct manager_settings *settings = &manager->settings;

    for (size_t i = 0; i < settings->static_pod_count; i++) {
        const struct pod_seen seen = {
            .name = settings->static_pods[i].name,
            .address = settings->static_pods[i].address,
            .is_ready = true,
        };
        int err = known_pods_see(&manager->known_pods, &seen);

        if (err < 0)
            return err;
    }
    manager->knows_pods = settings->static_pod_count > 0;
    return 0;
}

static void manager_free(struct manager *manager)
{
    known_pods_release(&manager->known_pods);
    arena_release(&manager->sync_arena);
    free(manager);
}

int manager_new(uv_loop_t *loop, const struct manager_settings *settings, struct store *store,
                struct metrics *metrics, struct manager **ret_manager)
{
    struct manager *manager = calloc(1, sizeof(*manager));

    assert(settings);
    assert(store);
    assert(ret_manager);
    assert(settings->source == POD_SOURCE_STATIC || settings->static_pod_count == 0);
    assert((settings->source == POD_SOURCE_KUBERNETES) == (settings->kube.client != NULL));
    if (!manager)
        return -ENOMEM;
    manager->settings = *settings;
    manager->loop = loop;
    known_pods_init(&manager->known_pods, settings->source);
    arena_init(&manager->sync_arena, TASK_ARENA_MAX);
    manager->sync = (struct task){
        .name = "sync",
        .without = "new pods get no calls, and the calls of lost pods go on",
        .interval_ms = settings->reconcile_interval_ms,
        .begin = sync_begin,
        .step = sync_step,
        .takes_refusals = true,
        .arg = manager,
        .store = store,
    };
    manager->sweep = (struct task){
        .name = "sweep",
        .without = "calls whose lease has expired keep their pods",
        .interval_ms = settings->cleanup_interval_ms,
        .begin = sweep_begin,
        .step = sweep_step,
        .arg = manager,
        .store = store,
    };
    manager->scale = (struct task){
        .name = "scale",
        .without = "pods that autoscaling does not want are not drained, and drained ones get no calls",
        .interval_ms = settings->scales_sets ? min_u64(SCALE_INTERVAL_MS, settings->cleanup_interval_ms)
                                             : SCALE_INTERVAL_MS,
        .begin = scale_begin,
        .step = scale_step,
        .arg = manager,
        .store = store,
    };
    manager->serve = (struct task){
        .name = "serve",
        .without = "waits that are over are not ended, and pods that became free unnoticed stay idle",
        .interval_ms = SERVE_INTERVAL_MS,
        .backoff_max_ms = SERVE_BACKOFF_MS,
        .begin = serve_begin,
        .step = serve_step,
        .arg = manager,
        .store = store,
    };
    if (manager_tell_static_pods(manager) < 0 || manager_add_metrics(manager, metrics) < 0) {
        manager_free(manager);
        return -ENOMEM;
    }
    task_init(&manager->sync, loop);
    task_init(&manager->sweep, loop);
    task_init(&manager->scale, loop);
    task_init(&manager->serve, loop);
    *ret_manager = manager;
    return 0;
}

int manager_start(struct manager *manager)
{
    int err = 0;

    assert(manager);
    if (manager->settings.source == POD_SOURCE_KUBERNETES)
        err = kube_start(manager);
    if (err == 0 && manager->settings.source == POD_SOURCE_KUBERNETES)
        err = marking_start(manager);
    if (err < 0)
        return err;
    manager->started_ms = clock_elapsed_ms();
    task_start(&manager->sync, 0);
    task_start(&manager->sweep, manager->settings.cleanup_interval_ms);
    task_start(&manager->scale, manager->scale.interval_ms);
    task_start(&manager->serve, manager->serve.interval_ms);
    return 0;
}

static void manager_part_stopped(void *arg)
{
    struct manager *manager = arg;
    void (*stopped)(void *) = manager->stopped;
    void *stopped_arg = manager->stopped_arg;

    if (--manager->parts_left > 0)
        return;
    manager_free(manager);
    stopped(stopped_arg);
}

void manager_stop(struct manager *manager, void (*stopped)(void *arg), void *arg)
{
    assert(manager);
    assert(stopped);
    manager->stopped = stopped;
    manager->stopped_arg = arg;
    manager->parts_left = 4 + kube_parts(manager) + marking_parts(manager);
    marking_stop(manager, manager_part_stopped, manager);
    kube_stop(manager, manager_part_stopped, manager);
    task_stop(&manager->sync, manager_part_stopped, manager);
    task_stop(&manager->sweep, manager_part_stopped, manager);
    task_stop(&manager->scale, manager_part_stopped, manager);
    task_stop(&manager->serve, manager_part_stopped, manager);
}

bool manager_sync_age(const struct manager *manager, uint64_t *ret_ms)
{
    if (manager->full_syncs == 0)
        return false;
    *ret_ms = clock_elapsed_ms() - manager->synced_ms;
    return true;
}
