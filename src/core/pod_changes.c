/*
 * pod_changes.c - the commands by which pods come, change and go: pod_seen, pod_gone, sync.
 */
#include <stdio.h>

#include "core/state.h"

/*
 * Ends the calls that the pod got before `started_at_ms`, or all of them if that is 0. Those that can go on
 * elsewhere do: see core/rescue.c. Granted ones that were not taken yet wait again. *ret_has_left: the pod
 * was removed with its last call. -ENOMEM: the calls have ended, but `ended` is not complete.
 */
static int end_calls(struct core *core, struct pod *pod, uint64_t started_at_ms, enum call_end why,
                     struct arena *arena, struct ended_array *ended, bool *ret_has_left)
{
    int err = 0;

    *ret_has_left = false;
    if (core->movable_count) {
        bool was_closed = pod->is_closed;

        pod_close(core, pod);
        *ret_has_left = pod_rescue_calls(core, pod, started_at_ms);
        if (*ret_has_left)
            return 0;
        if (!was_closed)
            pod_open(core, pod);
    }
    LIST_FOR_EACH (link, &pod->calls) {
        struct call *call = LIST_ENTRY(link, struct call, on_pod);

        assert(call->pod == pod);
        if (!call_is_older(call, started_at_ms))
            continue;
        if (call_waits_again(core, call, ret_has_left)) {
            if (*ret_has_left)
                break;
            continue;
        }
        if (err == 0)
            err = call_add_ended(ended, arena, call, why);
        *ret_has_left = call_lose(core, call, why);
        if (*ret_has_left)
            break; /* the list was freed with the pod */
    }
    return err;
}

int pod_end(struct core *core, struct pod *pod, struct arena *arena, struct ended_array *ended)
{
    bool has_left;
    int err = end_calls(core, pod, 0, CALL_END_POD_GONE, arena, ended, &has_left);

    if (!has_left) {
        assert(pod->load == 0); /* all its calls have ended */
        pod_leave(core, pod);
    }
    return err;
}

/* The pool that the pod asks for. validate_seen() has checked that it is configured. */
static struct pool *seen_pool(const struct core *core, const struct pod_seen *seen)
{
    return pool_find(core, tier_config_resolve(core->tiers, seen->tier)->name);
}

/* A new pod joins its tier. */
static int seen_new(struct core *core, const struct pod_seen *seen, const char *incarnation,
                    struct pod **ret_pod)
{
    struct pool *pool = seen->tier ? seen_pool(core, seen) : pool_for_new_pod(core);
    struct pod *pod;
    int err;

    assert(seen->is_ready && !seen->is_terminating);
    assert(pool && pool->is_configured);
    err = pod_new(core, seen->name, pool, seen->source, &pod);
    if (err < 0)
        return err;
    err = pod_set_texts(pod, seen->address, incarnation);
    if (err < 0) {
        pod_free(core, pod);
        return err;
    }
    pod->is_ready = true;
    pod->is_pinned = seen->tier != NULL;
    /* A registration counts as a heartbeat. */
    pod->heartbeat_at_ms = seen->source == POD_SOURCE_API ? core->now_ms : 0;
    pod->held_until_ms = seen->hold_back ? core->now_ms + core->settings.heartbeat_ttl_ms : 0;
    pod_place(core, pod);
    pod_report(core, pod);
    *ret_pod = pod;
    return 0;
}

/*
 * Updates a known pod. *ret_has_left: the pod was removed with its last call.
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
    int err;

    *ret_has_left = false;
    if (seen->source == POD_SOURCE_API)
        pod->heartbeat_at_ms = core->now_ms;
    err = pod_set_texts(pod, seen->address, incarnation);
    if (err < 0)
        return err;
    /*
     * A pod can change its source and keep its calls: it is the same pod, and only its incarnation
     * is written in another way.
     */
    pod->source = seen->source;
    pod->is_ready = seen->is_ready;
    pod->is_terminating = seen->is_terminating;
    if (is_restarted) {
        pod->held_until_ms = 0;
        err = end_calls(core, pod, seen->started_at_ms, CALL_END_RESTARTED, arena, ended, ret_has_left);
        if (*ret_has_left)
            return err;
        if (pod->is_closed)
            pod_open(core, pod);
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
    return err;
}

/* The incarnation of the observed pod; `text` is the buffer for one that is made here. */
static const char *seen_incarnation(const struct core *core, const struct pod *pod,
                                    const struct pod_seen *seen, bool is_registration, char text[32])
{
    if (seen->incarnation)
        return seen->incarnation;
    if (pod && !is_registration)
        return pod->incarnation;
    snprintf(text, 32, "%llu", (unsigned long long)core->now_ms);
    /* Two registrations in one millisecond are two incarnations. */
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
    int err = 0;

    pod = pod_find(core, seen->name);
    if (pod && command->pod_seen.is_registration && pod->source != seen->source)
        return fail_conflict(arena, result, REFUSED_REGISTRATION);
    incarnation = seen_incarnation(core, pod, seen, command->pod_seen.is_registration, text);
    result->pod_seen.tier = "";
    if (pod) {
        err =
            seen_again(core, pod, seen, incarnation, arena, &result->pod_seen.ended, &has_changed, &has_left);
    } else if (seen->is_ready && !seen->is_terminating) {
        if (core->pods.count >= PODS_MAX)
            return fail_conflict(arena, result, REFUSED_FULL_OF_PODS);
        err = seen_new(core, seen, incarnation, &pod);
        result->pod_seen.is_new = err == 0;
    }
    if (err < 0 || !pod || has_left)
        return err;
    result->pod_seen.tier = arena_strdup(arena, pod->pool->spec.name);
    return result->pod_seen.tier ? 0 : -ENOMEM;
}

/*
 * The source no longer shows the pod, but the pod has calls and may still exist: it gets no new
 * call until it is seen again, or gone.
 */
static void pod_set_absent(struct core *core, struct pod *pod)
{
    assert(pod->load > 0);
    if (pod->is_terminating)
        return;
    pod->is_terminating = true;
    pod_place(core, pod);
    assert(pod->state == POD_DRAINING);
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
        return fail_conflict(arena, result, REFUSED_REMOVAL);
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
    int err = 0;

    if (seen->is_kept) {
        if (pod)
            pod->sync_mark = core->sync_mark;
        return 0;
    }
    if (pod) {
        err = seen_again(core, pod, seen, incarnation, arena, &result->sync.ended, &has_changed, &has_left);
        result->sync.changed += has_changed;
        result->sync.removed += has_left;
    } else if (seen->is_ready && !seen->is_terminating && core->pods.count < PODS_MAX) {
        err = seen_new(core, seen, incarnation, &pod);
        result->sync.added += err == 0;
    }
    if (err == 0 && pod && !has_left)
        pod->sync_mark = core->sync_mark;
    return err;
}

static bool is_spared(const struct core *core, const struct pod *pod, enum pod_source source)
{
    return pod->source == source && pod->sync_mark != core->sync_mark && pod->load > 0;
}

/* Pods with calls that the source no longer shows stay; `absent` names them. */
static int sync_spare(struct core *core, enum pod_source source, struct arena *arena,
                      struct name_array *absent)
{
    size_t count = 0;
    int err;

    for (size_t i = 0; i < core->pods.count; i++)
        count += is_spared(core, core->pods_by_name[i], source);
    if (count == 0)
        return 0;
    err = name_array_init(absent, arena, count);
    for (size_t i = 0; err == 0 && i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (!is_spared(core, pod, source))
            continue;
        pod->sync_mark = core->sync_mark;
        pod_set_absent(core, pod);
        err = name_array_add(absent, arena, pod->name);
    }
    assert(err < 0 || absent->count == count);
    return err;
}

/*
 * The pods that the source no longer lists get no call any more, before the first call looks for a pod: none
 * may go to one that leaves in the same step. Those that have restarted get none until their own calls have
 * left them.
 */
static void sync_close(struct core *core, const struct command *command)
{
    for (size_t i = 0; i < command->sync.count; i++) {
        const struct pod_seen *seen = &command->sync.pods[i];
        struct pod *pod = pod_find(core, seen->name);
        char text[32];

        if (!pod)
            continue;
        pod->sync_mark = core->sync_mark;
        if (!seen->is_kept && pod->source == seen->source &&
            strcmp(pod->incarnation, seen_incarnation(core, pod, seen, false, text)) != 0)
            pod_close(core, pod);
    }
    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (pod->source == command->sync.source && pod->sync_mark != core->sync_mark)
            pod_close(core, pod);
    }
}

/* Removes the pods that the source no longer lists. */
static int sync_remove(struct core *core, enum pod_source source, struct arena *arena, struct result *result)
{
    for (size_t i = 0; i < core->pods.count;) {
        struct pod *pod = core->pods_by_name[i];
        int err;

        if (pod->source != source || pod->sync_mark == core->sync_mark) {
            i++;
            continue;
        }
        err = pod_end(core, pod, arena, &result->sync.ended);
        if (err < 0)
            return err;
        result->sync.removed++;
    }
    return 0;
}

int core_sync(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    bool has_list = command->sync.source != POD_SOURCE_API; /* pods that register themselves have no list */
    int err;

    core->sync_mark++;
    if (has_list && (core->line.all.count || core->settings.rescues))
        sync_close(core, command);
    for (size_t i = 0; i < command->sync.count; i++) {
        err = sync_one(core, &command->sync.pods[i], arena, result);
        if (err < 0)
            return err;
    }
    /* What has become free is for those who wait, before calls of the pods that are gone look for a pod. */
    err = line_serve(core);
    if (err == 0 && command->sync.spares_calls && has_list)
        err = sync_spare(core, command->sync.source, arena, &result->sync.absent);
    if (err == 0 && has_list)
        err = sync_remove(core, command->sync.source, arena, result);
    /* Calls that have lost a granted pod wait again: the room that is there now is theirs, as in Redis. */
    if (err == 0)
        err = line_serve(core);
    if (err < 0)
        return err;
    /*
     * A sync also repairs: the reason why a pod got no calls may have ended since the last check.
     */
    for (size_t i = 0; i < core->pods.count;)
        i += pod_settle(core, core->pods_by_name[i]) ? 0 : 1;
    return 0;
}
