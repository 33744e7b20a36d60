#include "manager/manager.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "manager/task.h"

struct manager {
    struct manager_settings settings;
    struct pod_seen *static_pods;         /* what a sync says, in the order in which they were given */
    struct pod_seen **static_pods_sorted; /* by name */
    char look_cursor[POD_NAME_MAX + 1];   /* of the look under way */
    struct task reconcile;
    struct task sweep;
    uint64_t sync_started_ns;
    bool empty_seen;     /* the sync before had no static pods */
    unsigned tasks_left; /* to stop */
    void (*stopped)(void *arg);
    void *stopped_arg;

    struct metrics_series *zombies_recovered;
    struct metrics_series *sync_seconds;
    struct metrics_series *sweeps;
};

/*
 * A full sync: the static pods, then rebalancing. With another source the list of static pods is empty, and
 * the sync removes those that an earlier configuration left in the store: nobody vouches for them any more.
 *
 * But not at once: somebody may have started the router without its settings by mistake, and the calls of all
 * those pods would end. The first empty list is passed over; a second one in a row confirms it.
 */
static void reconcile_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    manager->sync_started_ns = clock_elapsed_ns();
    if (manager->settings.static_pod_count == 0 && !manager->empty_seen) {
        log_info("no static pods are given: those in the store, if any, stay until the next sync",
                 log_num("next_sync_ms", (int64_t)manager->settings.reconcile_interval_ms));
        *ret_command = (struct command){.type = COMMAND_REBALANCE};
        return;
    }
    *ret_command = (struct command){
        .type = COMMAND_SYNC,
        .sync = {.source = POD_SOURCE_STATIC,
                 .pods = manager->static_pods,
                 .count = manager->settings.static_pod_count},
    };
}

static int compare_seen(const void *a, const void *b)
{
    const struct pod_seen *const *seen_a = a;
    const struct pod_seen *const *seen_b = b;

    return strcmp((*seen_a)->name, (*seen_b)->name);
}

/*
 * Who is heartbeating? Should the store lose everything, those pods know which calls they carry and will say
 * so: the next sync holds them back until they have spoken, so that none gets a second call meanwhile.
 */
static bool reconcile_look(struct manager *manager, const struct result *result, struct command *command)
{
    for (size_t i = 0; i < result->pods.count; i++) {
        const struct pod_info *pod = &result->pods.pods[i];
        const struct pod_seen wanted = {.name = pod->name};
        const struct pod_seen *key = &wanted;
        struct pod_seen **seen =
            bsearch(&key, manager->static_pods_sorted, manager->settings.static_pod_count,
                    sizeof(*manager->static_pods_sorted), compare_seen);

        if (seen)
            (*seen)->hold_back = pod->is_heartbeating;
    }
    if (!result->pods.next_cursor || !result->pods.next_cursor[0])
        return false;
    snprintf(manager->look_cursor, sizeof(manager->look_cursor), "%s", result->pods.next_cursor);
    command->pods.cursor = manager->look_cursor;
    return true;
}

static bool reconcile_step(void *arg, const struct result *result, struct command *command)
{
    struct manager *manager = arg;

    if (command->type == COMMAND_PODS)
        return reconcile_look(manager, result, command);

    if (command->type == COMMAND_SYNC) {
        if (result->sync.added + result->sync.removed + result->sync.changed > 0)
            log_info("pods synced", log_num("added", (int64_t)result->sync.added),
                     log_num("removed", (int64_t)result->sync.removed),
                     log_num("changed", (int64_t)result->sync.changed));
        *command = (struct command){.type = COMMAND_REBALANCE};
        return true;
    }
    if (result->rebalance.moved > 0)
        log_info("pods rebalanced", log_num("moved", (int64_t)result->rebalance.moved));
    if (result->rebalance.more)
        return true;
    manager->empty_seen = manager->settings.static_pod_count == 0;
    metrics_observe(manager->sync_seconds, (double)(clock_elapsed_ns() - manager->sync_started_ns) / 1e9);
    if (manager->settings.static_pod_count == 0)
        return false;
    *command = (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}};
    return true;
}

static void sweep_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    metrics_add(manager->sweeps, 1);
    *ret_command = (struct command){.type = COMMAND_SWEEP};
}

static bool sweep_step(void *arg, const struct result *result, struct command *command UNUSED)
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
    manager->reconcile.failures_total = metrics_series(failures, (const char *const[]){"sync"});
    manager->reconcile.store_durations = store_durations;
    manager->sweep.store_durations = store_durations;
    manager->sweep.failures_total = metrics_series(failures, (const char *const[]){"sweep"});
    return 0;
}

static int manager_copy_pods(struct manager *manager)
{
    const struct manager_settings *settings = &manager->settings;

    manager->static_pods = calloc(settings->static_pod_count + 1, sizeof(*manager->static_pods));
    manager->static_pods_sorted =
        calloc(settings->static_pod_count + 1, sizeof(*manager->static_pods_sorted));
    if (!manager->static_pods || !manager->static_pods_sorted)
        return -ENOMEM;
    for (size_t i = 0; i < settings->static_pod_count; i++) {
        manager->static_pods[i] = (struct pod_seen){
            .name = settings->static_pods[i].name,
            .address = settings->static_pods[i].address,
            .source = POD_SOURCE_STATIC,
            .is_ready = true,
        };
        manager->static_pods_sorted[i] = &manager->static_pods[i];
    }
    qsort(manager->static_pods_sorted, settings->static_pod_count, sizeof(*manager->static_pods_sorted),
          compare_seen);
    return 0;
}

int manager_new(uv_loop_t *loop, const struct manager_settings *settings, struct store *store,
                struct metrics *metrics, struct manager **ret_manager)
{
    struct manager *manager = calloc(1, sizeof(*manager));

    assert(settings);
    assert(store);
    assert(ret_manager);
    assert(settings->source == POD_SOURCE_STATIC || settings->static_pod_count == 0);
    if (!manager)
        return -ENOMEM;
    manager->settings = *settings;
    manager->reconcile = (struct task){
        .name = "sync",
        .interval_ms = settings->reconcile_interval_ms,
        .begin = reconcile_begin,
        .step = reconcile_step,
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
    if (manager_copy_pods(manager) < 0 || manager_add_metrics(manager, metrics) < 0) {
        free(manager->static_pods);
        free(manager->static_pods_sorted);
        free(manager);
        return -ENOMEM;
    }
    task_init(&manager->reconcile, loop);
    task_init(&manager->sweep, loop);
    *ret_manager = manager;
    return 0;
}

void manager_start(struct manager *manager)
{
    assert(manager);
    task_start(&manager->reconcile, 0);
    task_start(&manager->sweep, manager->settings.cleanup_interval_ms);
}

static void manager_task_stopped(void *arg)
{
    struct manager *manager = arg;
    void (*stopped)(void *) = manager->stopped;
    void *stopped_arg = manager->stopped_arg;

    if (--manager->tasks_left > 0)
        return;
    free(manager->static_pods);
    free(manager->static_pods_sorted);
    free(manager);
    stopped(stopped_arg);
}

void manager_stop(struct manager *manager, void (*stopped)(void *arg), void *arg)
{
    assert(manager);
    assert(stopped);
    manager->stopped = stopped;
    manager->stopped_arg = arg;
    manager->tasks_left = 2;
    task_stop(&manager->reconcile, manager_task_stopped, manager);
    task_stop(&manager->sweep, manager_task_stopped, manager);
}
