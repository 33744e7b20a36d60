#include "base/clock.h"
#include "base/log.h"
#include "manager/manager_internal.h"

#include <stdio.h>

/*
 * Tells the store which pods there are: all of them now and then (a full sync), and what changed in between
 * as it changes. One task does both, so that an old picture can never overtake a newer change.
 *
 * After a failure it is a full sync again: whatever got lost on the way is in it.
 */

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

static int full_begin(struct manager *manager, struct command *ret_command)
{
    struct pod_seen *pods;
    size_t count;
    int rc;

    manager->sync_started_ns = clock_elapsed_ns();
    manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
    manager->other = POD_SOURCE_API;
    if (!manager->has_picture) {
        full_go_on(manager, ret_command);
        return 1;
    }
    rc = picture_copy(&manager->picture, &manager->sync_arena, &pods, &count);
    if (rc)
        return rc;
    *ret_command = (struct command){
        .type = COMMAND_SYNC,
        .sync = {.source = manager->settings.source, .pods = pods, .count = count},
    };
    return 1;
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
    some = picture_take_change(&manager->picture, &manager->sync_arena, ret_command);
    if (some == 0)
        sync_pause(manager);
    return some;
}

int sync_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    arena_reset(&manager->sync_arena);
    if (full_is_due(manager))
        kube_confirm_empty(manager);
    if (manager->settings.source == POD_SOURCE_KUBERNETES && !manager->has_picture) {
        /* There is nothing to compare with before the first list. */
        if (full_is_due(manager))
            manager->sync_due_ms = clock_elapsed_ms() + manager->settings.reconcile_interval_ms;
        sync_pause(manager);
        return 0;
    }
    return full_is_due(manager) ? full_begin(manager, ret_command) : change_next(manager, ret_command);
}

/*
 * Who is heartbeating? Should the store lose everything, those pods know which calls they carry and will say
 * so: the next sync holds them back until they have spoken, so that none gets a second call meanwhile.
 */
static int full_look(struct manager *manager, const struct result *result, struct command *command)
{
    for (size_t i = 0; i < result->pods.count; i++) {
        struct picture_pod *pod = picture_find(&manager->picture, result->pods.pods[i].name);

        if (pod)
            pod->hold_back = result->pods.pods[i].is_heartbeating;
    }
    if (!result->pods.next_cursor || !result->pods.next_cursor[0])
        return change_next(manager, command);
    snprintf(manager->look_cursor, sizeof(manager->look_cursor), "%s", result->pods.next_cursor);
    command->pods.cursor = manager->look_cursor;
    return 1;
}

static int full_rebalanced(struct manager *manager, const struct result *result, struct command *command)
{
    if (result->rebalance.moved > 0)
        log_info("pods rebalanced", log_num("moved", (int64_t)result->rebalance.moved));
    if (result->rebalance.more)
        return 1;
    manager->full_syncs++;
    metrics_observe(manager->sync_seconds, (double)(clock_elapsed_ns() - manager->sync_started_ns) / 1e9);
    if (manager->picture.count == 0)
        return change_next(manager, command);
    *command = (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}};
    return 1;
}

/* A pod that the store does not want, or does not know, is told; the others go on. */
static int change_told(struct manager *manager, const struct result *result, struct command *command)
{
    const char *pod = command->type == COMMAND_POD_SEEN ? command->pod_seen.pod.name : command->pod_gone.pod;

    if (result->outcome == OUTCOME_INVALID || result->outcome == OUTCOME_CONFLICT)
        log_warn("the store refuses a pod", log_str("pod", pod),
                 log_str("error", result->error ? result->error : ""));
    else if (command->type == COMMAND_POD_SEEN && result->pod_seen.is_new)
        log_info("pod joined", log_str("pod", pod), log_str("tier", result->pod_seen.tier));
    else if (command->type == COMMAND_POD_GONE && result->outcome == OUTCOME_OK)
        log_info("pod gone", log_str("pod", pod));
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
        return full_look(manager, result, command);
    if (command->type == COMMAND_REBALANCE)
        return full_rebalanced(manager, result, command);
    if (result->sync.added + result->sync.removed + result->sync.changed > 0)
        log_info("pods synced", log_str("source", pod_source_name(command->sync.source)),
                 log_num("added", (int64_t)result->sync.added),
                 log_num("removed", (int64_t)result->sync.removed),
                 log_num("changed", (int64_t)result->sync.changed));
    full_go_on(manager, command);
    return 1;
}
