/*
 * manager.c - builds, starts and stops the manager, adds its metrics, and runs the sweep task.
 */
#include "manager/manager.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "manager/manager_internal.h"

static int sweep_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    metrics_add(manager->sweeps, 1);
    *ret_command = (struct command){.type = COMMAND_SWEEP};
    return 1;
}

static int sweep_step(void *arg, const struct result *result, struct command *command UNUSED)
{
    struct manager *manager = arg;

    for (size_t i = 0; i < result->sweep.ended.count; i++) {
        if (result->sweep.ended.calls[i].why == CALL_END_EXPIRED)
            metrics_add(manager->zombies_recovered, 1);
    }
    for (size_t i = 0; i < result->sweep.gone.count; i++)
        log_warn("pod gone", log_str("pod", result->sweep.gone.names[i]));
    if (result->sweep.recovered > 0)
        log_info("pods recovered", log_num("pods", (int64_t)result->sweep.recovered));
    metrics_add(manager->zombies_recovered, (double)result->sweep.recovered);
    if (result->sweep.look_again_ms)
        manager->sweep.delay_ms = min_u64(manager->sweep.delay_ms, result->sweep.look_again_ms);
    return result->sweep.more;
}

static struct metrics_series *manager_counter(struct metrics *metrics, const char *name, const char *help)
{
    struct metrics_family *family = metrics_family(metrics, METRICS_COUNTER, name, help, NULL, 0, NULL, 0);

    return family ? metrics_series(family, NULL) : NULL;
}

static int manager_add_metrics(struct manager *manager, struct metrics *metrics)
{
    static const double bounds[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30};
    /* Those of src/api/instruments.c, which observes the same family. */
    static const double store_bounds[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                          0.005,   0.01,     0.025,   0.05,   0.1,     0.25,   0.5,   1};
    static const char *const task_label[] = {"task"};
    static const char *const store_labels[] = {"operation"};
    struct metrics_family *sync_seconds, *failures, *store_durations;

    manager->zombies_recovered =
        manager_counter(metrics, "smart_router_zombies_recovered_total",
                        "Calls ended because their lease expired, and pods brought back by a sweep.");
    manager->sweeps = manager_counter(metrics, "smart_router_sweeps_total", "Sweeps begun.");
    sync_seconds = metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_sync_duration_seconds",
                                  "Duration of a full sync of the pods.", NULL, 0, bounds, ARRAY_LEN(bounds));
    failures =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_task_failures_total",
                       "Runs of background tasks that failed and are tried again.", task_label, 1, NULL, 0);
    store_durations = metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_store_duration_seconds",
                                     "Time that the store took to answer.", store_labels, 1, store_bounds,
                                     ARRAY_LEN(store_bounds));
    if (!manager->zombies_recovered || !manager->sweeps || !sync_seconds || !failures || !store_durations)
        return -ENOMEM;

    manager->sync_seconds = metrics_series(sync_seconds, NULL);
    manager->sync.failures_total = metrics_series(failures, (const char *const[]){"sync"});
    manager->sync.store_durations = store_durations;
    manager->sweep.failures_total = metrics_series(failures, (const char *const[]){"sweep"});
    manager->sweep.store_durations = store_durations;
    manager->kube_failures = metrics_series(failures, (const char *const[]){"watch"});
    manager->marking.failures_total = metrics_series(failures, (const char *const[]){"mark"});
    manager->marking.store_durations = store_durations;
    return 0;
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
        int rc = picture_see(&manager->picture, &seen);

        if (rc)
            return rc;
    }
    manager->has_picture = settings->static_pod_count > 0;
    return 0;
}

static void manager_free(struct manager *manager)
{
    picture_release(&manager->picture);
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
    picture_init(&manager->picture, settings->source);
    arena_init(&manager->sync_arena, TASK_ARENA_MAX);
    manager->sync = (struct task){
        .name = "sync",
        .interval_ms = settings->reconcile_interval_ms,
        .begin = sync_begin,
        .step = sync_step,
        .takes_refusals = true,
        .arg = manager,
        .store = store,
    };
    manager->sweep = (struct task){
        .name = "sweep",
        .interval_ms = settings->cleanup_interval_ms,
        .begin = sweep_begin,
        .step = sweep_step,
        .arg = manager,
        .store = store,
    };
    if (manager_tell_static_pods(manager) < 0 || manager_add_metrics(manager, metrics) < 0) {
        manager_free(manager);
        return -ENOMEM;
    }
    task_init(&manager->sync, loop);
    task_init(&manager->sweep, loop);
    *ret_manager = manager;
    return 0;
}

int manager_start(struct manager *manager)
{
    int rc = 0;

    assert(manager);
    if (manager->settings.source == POD_SOURCE_KUBERNETES)
        rc = kube_start(manager);
    if (rc == 0 && manager->settings.source == POD_SOURCE_KUBERNETES)
        rc = marking_start(manager);
    if (rc)
        return rc;
    task_start(&manager->sync, 0);
    task_start(&manager->sweep, manager->settings.cleanup_interval_ms);
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
    manager->parts_left = 2 + kube_parts(manager) + marking_parts(manager);
    marking_stop(manager, manager_part_stopped, manager);
    kube_stop(manager, manager_part_stopped, manager);
    task_stop(&manager->sync, manager_part_stopped, manager);
    task_stop(&manager->sweep, manager_part_stopped, manager);
}
