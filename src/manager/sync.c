/*
 * sync.c - tells the store which pods there are: all of them at intervals (a full sync), and each
 * change in between.
 *
 * One task does both, so that old data can never overtake a newer change. After a failure
 * the next run is a full sync, which holds all that was lost. A first list from Kubernetes is
 * compared with the calls in the store before it is used.
 */
#include "base/clock.h"
#include "base/log.h"
#include "manager/manager_internal.h"

#include <stdio.h>

enum {
    STORE_PATIENCE_MS = 2000, /* a store that connects later than this after the start is a failure */
    STORE_LOOK_MS = 20,
    SYNCS_PER_LIST = 10, /* every so often a full sync does not trust what the watch has told */
};

void sync_want_full(struct manager *manager)
{
    manager->sync_due_ms = 0;
    task_kick(&manager->sync);
}

void sync_put_off(struct manager *manager)
{
    manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
    task_kick(&manager->sync);
}

static bool full_is_due(const struct manager *manager)
{
    return manager->sync.failures > 0 || clock_elapsed_ms() >= manager->sync_due_ms;
}

/* The next source after `other` that is not ours and has a list; POD_SOURCE_API: there is none left. */
static enum pod_source next_other(const struct manager *manager, enum pod_source other)
{
    static const enum pod_source lists[] = {POD_SOURCE_STATIC, POD_SOURCE_KUBERNETES};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (lists[i] > other && lists[i] != manager->settings.source)
            return lists[i];
    }
    return POD_SOURCE_API;
}

/*
 * Pods of a source that an earlier configuration used: nobody vouches for them any more. But not at once:
 * somebody may have started the router without its settings by mistake, and the calls of all those pods would
 * end. The first sync leaves them; the second confirms it, and that is enough.
 */
static void full_go_on(struct manager *manager, struct command *ret_command)
{
    manager->other = manager->full_syncs == 1 ? next_other(manager, manager->other) : POD_SOURCE_API;
    if (manager->other == POD_SOURCE_API)
        *ret_command = (struct command){.type = COMMAND_REBALANCE};
    else
        *ret_command = (struct command){.type = COMMAND_SYNC, .sync = {.source = manager->other}};
}

static int full_send(struct manager *manager, struct command *ret_command)
{
    struct pod_seen *pods;
    size_t count;
    int err = known_pods_copy(&manager->known_pods, &manager->sync_arena, &pods, &count);

    if (err < 0)
        return err;
    *ret_command = (struct command){
        .type = COMMAND_SYNC,
        .sync = {.source = manager->settings.source,
                 .pods = pods,
                 .count = count,
                 .spares_calls = manager->settings.source == POD_SOURCE_KUBERNETES,
                 .imports = manager->full_syncs == 0},
    };
    return 1;
}

static void look_begin(struct command *ret_command)
{
    *ret_command = (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}};
}

/*
 * 1: there is another page, and the command asks for it; 0: that was the last one.
 */
static int look_go_on(struct manager *manager, const struct result *result, struct command *command)
{
    if (!result->pods.next_cursor || !result->pods.next_cursor[0])
        return 0;
    snprintf(manager->look_cursor, sizeof(manager->look_cursor), "%s", result->pods.next_cursor);
    command->pods.cursor = manager->look_cursor;
    return 1;
}

/*
 * A first list that has hardly any of the pods that carry calls is more likely of another namespace or
 * cluster than true: what it would cost is counted before it is used.
 */
static bool full_is_weighed(const struct manager *manager)
{
    return manager->settings.source == POD_SOURCE_KUBERNETES && manager->full_syncs == 0 &&
           !manager->is_confirmed;
}

static int full_begin(struct manager *manager, struct command *ret_command)
{
    manager->sync_started_ns = clock_elapsed_ns();
    manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
    manager->other = POD_SOURCE_API;
    manager->weighing = (struct weighing){.is_under_way = manager->knows_pods && full_is_weighed(manager)};
    if (manager->weighing.is_under_way) {
        look_begin(ret_command);
        return 1;
    }
    if (!manager->knows_pods && manager->settings.source != POD_SOURCE_API) {
        full_go_on(manager, ret_command);
        return 1;
    }
    return full_send(manager, ret_command);
}

/* Nothing left: until the next full sync. */
static void sync_pause(struct manager *manager)
{
    uint64_t now_ms = clock_elapsed_ms();

    manager->sync.delay_ms = manager->sync_due_ms > now_ms ? manager->sync_due_ms - now_ms : 0;
}

static int change_next(struct manager *manager, struct command *ret_command)
{
    int some = 0;

    arena_reset(&manager->sync_arena);
    if (manager->sync.steps + 1 >= TASK_STEPS_MAX) {
        manager->sync.delay_ms = 0; /* more than one run should do: the next one goes on */
        return 0;
    }
    some = known_pods_take_change(&manager->known_pods, &manager->sync_arena, ret_command);
    if (some == 0)
        sync_pause(manager);
    return some;
}

/* A full sync is due. Now and then, and after a list that is not believed, a list comes first and brings it
 * about. */
static void full_want_list(struct manager *manager)
{
    if (manager->doubt == LIST_BELIEVED && manager->unlisted + 1 < SYNCS_PER_LIST)
        return;
    if (!kube_relist(manager))
        return;
    manager->unlisted = 0; /* should the list fail, what is known is good enough for the syncs until then */
    manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
}

/*
 * A router that leads without an election begins while it still connects to Redis. That is no failure, so
 * the first sync waits for the connection. With an election the store has been asked before.
 */
static bool store_is_opening(struct manager *manager)
{
    struct store_health health;

    if (manager->is_store_opened)
        return false;
    store_health(manager->sync.store, &health);
    manager->is_store_opened =
        health.is_ready || clock_elapsed_ms() >= manager->started_ms + STORE_PATIENCE_MS;
    return !manager->is_store_opened;
}

int sync_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    if (store_is_opening(manager)) {
        manager->sync.delay_ms = STORE_LOOK_MS;
        return 0;
    }
    arena_reset(&manager->sync_arena);
    if (manager->sync.failures == 0 && full_is_due(manager))
        full_want_list(manager);
    if (manager->settings.source == POD_SOURCE_KUBERNETES && !manager->knows_pods) {
        /* There is nothing to compare with before the first list. */
        if (full_is_due(manager))
            manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
        sync_pause(manager);
        return 0;
    }
    return full_is_due(manager) ? full_begin(manager, ret_command) : change_next(manager, ret_command);
}

/* Does the store mean another pod of the same name? */
static bool look_is_other(const struct known_pod *pod, const struct pod_info *info)
{
    size_t uid_len;

    if (!pod->incarnation || !info->incarnation[0])
        return false;
    uid_len = strcspn(pod->incarnation, ":") + 1;
    return strncmp(info->incarnation, pod->incarnation, uid_len) != 0;
}

/* Would the calls of this pod end? Another cluster may have pods of the same names: they are others. */
static bool weigh_is_lost(const struct manager *manager, const struct pod_info *info)
{
    const struct known_pod *pod = known_pods_find(&manager->known_pods, info->name);

    return info->source == manager->settings.source && (!pod || look_is_other(pod, info));
}

static int weigh_done(struct manager *manager, struct command *command)
{
    const struct weighing *weighing = &manager->weighing;

    manager->weighing.is_under_way = false;
    if (weighing->lost * 2 <= weighing->calls)
        return full_send(manager, command);
    log_error(
        "most live calls are on pods that the first list does not have: NAMESPACE, POD_LABEL_SELECTOR or "
        "the cluster may be wrong. Nothing is changed until a second list confirms it",
        log_num("calls", (int64_t)weighing->calls), log_num("would_end", (int64_t)weighing->lost),
        log_num("pods_listed", (int64_t)manager->known_pods.count),
        log_str("namespace", manager->settings.kube.namespace_name),
        log_str("selector", manager->settings.kube.label_selector),
        log_num("confirm_ms", (int64_t)manager->settings.reconcile_interval_ms));
    manager->knows_pods = false;
    kube_doubt(manager, LIST_LOSES_CALLS);
    sync_pause(manager);
    return 0;
}

static int full_weigh(struct manager *manager, const struct result *result, struct command *command)
{
    for (size_t i = 0; i < result->pods.count; i++) {
        const struct pod_info *info = &result->pods.pods[i];

        manager->weighing.calls += info->calls.count;
        if (weigh_is_lost(manager, info))
            manager->weighing.lost += info->calls.count;
    }
    return look_go_on(manager, result, command) ? 1 : weigh_done(manager, command);
}

/*
 * Which pods send heartbeats? Should the store lose everything, those pods know which calls they
 * carry and will say so: the next sync holds them back until they have spoken, so that none gets a
 * second call meanwhile.
 *
 * A pod with calls that another one has replaced, which does not run yet: it is asked for, and if
 * that is so its calls end, also if the other one never runs.
 */
static int full_look(struct manager *manager, const struct result *result, struct command *command)
{
    for (size_t i = 0; i < result->pods.count; i++) {
        const struct pod_info *info = &result->pods.pods[i];
        struct known_pod *pod = known_pods_find(&manager->known_pods, info->name);

        if (!pod)
            continue;
        pod->hold_back = info->is_heartbeating;
        if (!pod->runs && info->calls.count > 0 && look_is_other(pod, info))
            kube_ask(manager, info->name);
    }
    return look_go_on(manager, result, command) ? 1 : change_next(manager, command);
}

static int full_rebalanced(struct manager *manager, const struct result *result, struct command *command)
{
    if (result->rebalance.moved > 0)
        log_info("pods rebalanced", log_num("moved", (int64_t)result->rebalance.moved));
    if (result->rebalance.more)
        return 1;
    manager->full_syncs++;
    manager->synced_ms = clock_elapsed_ms();
    manager->unlisted++;
    metrics_observe(manager->sync_seconds, (double)(clock_elapsed_ns() - manager->sync_started_ns) / 1e9);
    metrics_set(manager->synced_at, (double)clock_wall_ms() / 1000);
    if (manager->known_pods.count == 0)
        return change_next(manager, command);
    look_begin(command);
    return 1;
}

static void change_gone(struct manager *manager, const struct result *result, const char *pod)
{
    if (!result->pod_gone.has_stayed) {
        log_info("pod gone", log_str("pod", pod));
        return;
    }
    log_info("a pod with calls is not listed any more: it drains while it exists", log_str("pod", pod));
    kube_ask(manager, pod);
}

/* A pod that the store does not want, or does not know, is told; the others go on. */
static int change_told(struct manager *manager, const struct result *result, struct command *command)
{
    const char *pod = command->type == COMMAND_POD_SEEN ? command->pod_seen.pod.name : command->pod_gone.pod;

    if (result->outcome == OUTCOME_INVALID || result->outcome == OUTCOME_CONFLICT)
        log_warn("the store refuses a pod", log_str("pod", pod),
                 log_str("error", result->error ? result->error : ""), log_str("effect", "it gets no calls"));
    else if (command->type == COMMAND_POD_SEEN && result->pod_seen.is_new)
        log_info("pod joined", log_str("pod", pod), log_str("tier", result->pod_seen.tier));
    else if (command->type == COMMAND_POD_GONE && result->outcome == OUTCOME_OK)
        change_gone(manager, result, pod);
    return full_is_due(manager) ? sync_begin(manager, command) : change_next(manager, command);
}

int sync_step(void *arg, const struct result *result, struct command *command)
{
    struct manager *manager = arg;

    if (command->type == COMMAND_POD_SEEN || command->type == COMMAND_POD_GONE)
        return change_told(manager, result, command);
    if (result->outcome != OUTCOME_OK)
        return -EPROTO;
    if (command->type == COMMAND_PODS)
        return manager->weighing.is_under_way ? full_weigh(manager, result, command)
                                              : full_look(manager, result, command);
    if (command->type == COMMAND_REBALANCE)
        return full_rebalanced(manager, result, command);
    if (result->sync.added + result->sync.removed + result->sync.changed > 0)
        log_info("pods synced", log_str("source", pod_source_name(command->sync.source)),
                 log_num("added", (int64_t)result->sync.added),
                 log_num("removed", (int64_t)result->sync.removed),
                 log_num("changed", (int64_t)result->sync.changed));
    for (size_t i = 0; i < result->sync.absent.count; i++)
        kube_ask(manager, result->sync.absent.names[i]);
    if (result->sync.look_again_ms)
        task_hurry(&manager->sweep, result->sync.look_again_ms);
    full_go_on(manager, command);
    return 1;
}
