/*
 * observe.c - the commands by which pods come, change and go: pod_seen, pod_gone, sync, drain,
 * undrain.
 */
#include <stdio.h>

#include "core/state.h"

/*
 * Ends the calls that the pod got before `started_at_ms`, or all of them if that is 0. *ret_has_left: the pod
 * has left with the last one. Without memory to name them in the answer (-ENOMEM) they end all the same.
 */
static int end_calls(struct core *core, struct pod *pod, uint64_t started_at_ms, enum call_end why,
                     struct arena *arena, struct ended_array *ended, bool *ret_has_left)
{
    int rc = 0;

    *ret_has_left = false;
    LIST_FOR_EACH (link, &pod->calls) {
        struct call *call = LIST_ENTRY(link, struct call, on_pod);

        if (!call_is_older(call, started_at_ms))
            continue;
        if (rc == 0)
            rc = ended_array_add(ended, arena, call, why);
        *ret_has_left = call_lose(core, call, why);
        if (*ret_has_left)
            break; /* and the list with it */
    }
    return rc;
}

int pod_end(struct core *core, struct pod *pod, struct arena *arena, struct ended_array *ended)
{
    bool has_left;
    int rc = end_calls(core, pod, 0, CALL_END_POD_GONE, arena, ended, &has_left);

    if (!has_left)
        pod_leave(core, pod);
    return rc;
}

/* The pool that the pod asks for, in either spelling: see seen_fault. */
static struct pool *seen_pool(const struct core *core, const struct pod_seen *seen)
{
    return pool_find(core, tier_config_resolve(core->tiers, seen->tier)->name);
}

/* A pod that the store does not know joins its tier, if it can take calls at all. */
static int seen_new(struct core *core, const struct pod_seen *seen, const char *incarnation,
                    struct pod **ret_pod)
{
    struct pool *pool = seen->tier ? seen_pool(core, seen) : pool_for_new_pod(core);
    struct pod *pod;
    int rc = pod_new(core, seen->name, pool, seen->source, &pod);

    if (rc)
        return rc;
    rc = pod_set_texts(pod, seen->address, incarnation);
    if (rc) {
        pod_free(core, pod);
        return rc;
    }
    pod->is_ready = true;
    pod->is_pinned = seen->tier != NULL;
    /* A pod that registers itself has spoken by doing so. */
    pod->heartbeat_at_ms = seen->source == POD_SOURCE_API ? core->now_ms : 0;
    pod->held_until_ms = seen->hold_back ? core->now_ms + core->settings.heartbeat_ttl_ms : 0;
    pod_place(core, pod);
    pod_report(core, pod);
    *ret_pod = pod;
    return 0;
}

/* Takes over what is new about a known pod. *ret_has_left: it was only waiting for calls that have now ended.
 */
static int seen_again(struct core *core, struct pod *pod, const struct pod_seen *seen,
                      const char *incarnation, struct arena *arena, struct ended_array *ended,
                      bool *ret_has_changed, bool *ret_has_left)
{
    bool is_other_source = pod->source != seen->source;
    bool is_restarted = !is_other_source && strcmp(pod->incarnation, incarnation) != 0;
    bool is_changed = is_other_source || is_restarted || strcmp(pod->incarnation, incarnation) != 0 ||
                      strcmp(pod->address, seen->address) != 0 || pod->is_ready != seen->is_ready ||
                      pod->is_terminating != seen->is_terminating || (seen->tier && !pod->is_pinned);
    int rc;

    *ret_has_left = false;
    if (seen->source == POD_SOURCE_API)
        pod->heartbeat_at_ms = core->now_ms;
    rc = pod_set_texts(pod, seen->address, incarnation);
    if (rc)
        return rc;
    /*
     * A source that knows better takes a pod over from another one, and its calls with it: the pod is the
     * same, only its incarnation is now written in another way.
     */
    pod->source = seen->source;
    pod->is_ready = seen->is_ready;
    pod->is_terminating = seen->is_terminating;
    if (is_restarted) {
        pod->held_until_ms = 0;
        rc = end_calls(core, pod, seen->started_at_ms, CALL_END_RESTARTED, arena, ended, ret_has_left);
        if (*ret_has_left)
            return rc;
    }
    if (seen->tier) {
        struct pool *pool = seen_pool(core, seen);

        pod->is_pinned = true;
        if (pool != pod->pool && pod->load == 0) {
            pod_move(core, pod, pool);
            is_changed = true;
        }
    }
    *ret_has_changed = is_changed;
    if (is_changed && !pod_should_leave(core, pod))
        pod_report(core, pod);
    *ret_has_left = pod_settle(core, pod);
    return rc;
}

/* The incarnation that an observation stands for; `text` is room for one that is made here. */
static const char *seen_incarnation(const struct core *core, const struct pod *pod,
                                    const struct pod_seen *seen, bool is_registration, char text[32])
{
    if (seen->incarnation)
        return seen->incarnation;
    if (pod && !is_registration)
        return pod->incarnation;
    snprintf(text, 32, "%llu", (unsigned long long)core->now_ms);
    /* Twice in one millisecond is still twice. */
    if (pod && strcmp(pod->incarnation, text) == 0)
        snprintf(text, 32, "%llu+", (unsigned long long)core->now_ms);
    return text;
}

int core_pod_seen(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    const struct pod_seen *seen = &command->pod_seen.pod;
    struct pod *pod;
    char text[32];
    bool has_changed = false;
    bool has_left = false;
    const char *incarnation;
    int rc = 0;

    pod = pod_find(core, seen->name);
    if (pod && command->pod_seen.is_registration && pod->source != seen->source)
        return fail_conflict(arena, result, "this pod is managed elsewhere and cannot be registered");
    incarnation = seen_incarnation(core, pod, seen, command->pod_seen.is_registration, text);
    result->pod_seen.tier = "";
    if (pod) {
        rc =
            seen_again(core, pod, seen, incarnation, arena, &result->pod_seen.ended, &has_changed, &has_left);
    } else if (seen->is_ready && !seen->is_terminating) {
        if (core->pods.count >= PODS_MAX)
            return fail_conflict(arena, result, "there are too many pods");
        rc = seen_new(core, seen, incarnation, &pod);
        result->pod_seen.is_new = rc == 0;
    }
    if (rc || !pod || has_left)
        return rc;
    result->pod_seen.tier = arena_strdup(arena, pod->pool->spec.name);
    return result->pod_seen.tier ? 0 : -ENOMEM;
}

/*
 * Its source does not show the pod any more, but it carries calls, and nobody has said that it is gone: it
 * gets no other call until it is seen again, or gone.
 */
static void pod_set_absent(struct core *core, struct pod *pod)
{
    assert(pod->load > 0);
    if (pod->is_terminating)
        return;
    pod->is_terminating = true;
    pod_place(core, pod);
    pod_report(core, pod);
}

int core_pod_gone(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    struct pod *pod = pod_find(core, command->pod_gone.pod);

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    if (pod->source != command->pod_gone.source)
        return fail_conflict(arena, result, "this pod is managed elsewhere and cannot be removed");
    if (command->pod_gone.is_absent && pod->load > 0) {
        pod_set_absent(core, pod);
        result->pod_gone.has_stayed = true;
        return 0;
    }
    return pod_end(core, pod, arena, &result->pod_gone.ended);
}

static int sync_one(struct core *core, const struct pod_seen *seen, struct arena *arena,
                    struct result *result)
{
    struct pod *pod = pod_find(core, seen->name);
    char text[32];
    const char *incarnation = seen_incarnation(core, pod, seen, false, text);
    bool has_changed = false;
    bool has_left = false;
    int rc = 0;

    if (seen->is_kept) {
        if (pod)
            pod->sync_mark = core->sync_mark;
        return 0;
    }
    if (pod) {
        rc = seen_again(core, pod, seen, incarnation, arena, &result->sync.ended, &has_changed, &has_left);
        result->sync.changed += has_changed;
        result->sync.removed += has_left;
    } else if (seen->is_ready && !seen->is_terminating && core->pods.count < PODS_MAX) {
        rc = seen_new(core, seen, incarnation, &pod);
        result->sync.added += rc == 0;
    }
    if (rc == 0 && pod && !has_left)
        pod->sync_mark = core->sync_mark;
    return rc;
}

static bool is_spared(const struct core *core, const struct pod *pod, enum pod_source source)
{
    return pod->source == source && pod->sync_mark != core->sync_mark && pod->load > 0;
}

/* Those that this source does not show any more, and that carry calls: they stay, and are named. */
static int sync_spare(struct core *core, enum pod_source source, struct arena *arena,
                      struct name_array *absent)
{
    size_t count = 0;
    int rc;

    for (size_t i = 0; i < core->pods.count; i++)
        count += is_spared(core, core->pods_by_name[i], source);
    if (count == 0)
        return 0;
    rc = name_array_init(absent, arena, count);
    for (size_t i = 0; rc == 0 && i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (!is_spared(core, pod, source))
            continue;
        pod->sync_mark = core->sync_mark;
        pod_set_absent(core, pod);
        rc = name_array_add(absent, arena, pod->name);
    }
    return rc;
}

int core_sync(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    bool has_list = command->sync.source != POD_SOURCE_API; /* nobody lists pods that register themselves */

    core->sync_mark++;
    for (size_t i = 0; i < command->sync.count; i++) {
        int rc = sync_one(core, &command->sync.pods[i], arena, result);

        if (rc)
            return rc;
    }
    if (command->sync.spares_calls && has_list) {
        int rc = sync_spare(core, command->sync.source, arena, &result->sync.absent);

        if (rc)
            return rc;
    }
    /* What this source no longer knows is gone. From the end, because pods leave the array as we go. */
    for (size_t i = core->pods.count; i > 0; i--) {
        struct pod *pod = core->pods_by_name[i - 1];
        int rc;

        if (!has_list || pod->source != command->sync.source || pod->sync_mark == core->sync_mark)
            continue;
        rc = pod_end(core, pod, arena, &result->sync.ended);
        if (rc)
            return rc;
        result->sync.removed++;
    }
    /* A sync repairs: whatever held a pod back may be over, and nobody has looked since. */
    for (size_t i = 0; i < core->pods.count;)
        i += pod_settle(core, core->pods_by_name[i]) ? 0 : 1;
    return 0;
}

int core_drain(struct core *core, const struct command *command, struct arena *arena UNUSED,
               struct result *result)
{
    struct pod *pod = pod_find(core, command->drain.pod);
    uint64_t ttl_ms = command->drain.ttl_ms ? command->drain.ttl_ms : core->settings.draining_ttl_ms;

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    pod->draining_until_ms = core->now_ms + ttl_ms;
    pod_place(core, pod);
    pod_report(core, pod);
    result->drain.has_active_call = pod->load > 0;
    result->drain.until_ms = pod->draining_until_ms;
    return 0;
}

int core_undrain(struct core *core, const struct command *command, struct arena *arena UNUSED,
                 struct result *result)
{
    struct pod *pod = pod_find(core, command->undrain.pod);

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    if (pod->draining_until_ms) {
        pod->draining_until_ms = 0;
        if (!pod_should_leave(core, pod))
            pod_report(core, pod);
    }
    pod_settle(core, pod);
    return 0;
}
