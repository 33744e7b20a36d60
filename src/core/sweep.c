/*
 * sweep.c - the command sweep: ends calls whose lease expired, and checks the pods that are due.
 */
#include <stdlib.h>

#include "core/page.h"
#include "core/state.h"

/* Added to a lease: it has not run out in any case. */
#define UNTAKEN_AT (UINT64_C(1) << 62)

/*
 * The granted calls that nobody has taken in time are left to COMMAND_SERVE, which says that their waits were
 * abandoned: while others are swept, they stand behind all of them. `is_hidden`: from now on, or no more.
 */
static void hide_untaken(struct core *core, bool is_hidden)
{
    LIST_FOR_EACH (link, &core->line.granted) {
        struct call *call = LIST_ENTRY(link, struct call, in_granted);

        if (is_hidden ? !call_is_expired(core, call) : call->lease.at < UNTAKEN_AT)
            return; /* so it is with all that follow: they are in the order of their leases */
        heap_set(&core->leases, &call->lease,
                 is_hidden ? call->lease.at + UNTAKEN_AT : call->lease.at - UNTAKEN_AT);
    }
}

/* Ends the calls whose lease has run out. */
static int sweep_expired(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    struct heap_node *node;

    while ((node = heap_first(&core->leases))) {
        struct call *call = CONTAINER_OF(node, struct call, lease);
        int err;

        assert(call->lease.place == 1);
        if (!call_is_expired(core, call))
            return 0;
        if (result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        err = call_add_ended(&result->sweep.ended, arena, call, CALL_END_EXPIRED);
        if (err < 0)
            return err;
        call_lose(core, call, CALL_END_EXPIRED);
    }
    return 0;
}

static int sweep_leases(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    int err;

    hide_untaken(core, true);
    err = sweep_expired(core, limit, arena, result);
    hide_untaken(core, false);
    return err;
}

static bool pod_is_silent(const struct core *core, const struct pod *pod)
{
    return pod->source == POD_SOURCE_API && pod_silent_at(core, pod) <= core->now_ms;
}

static int compare_silence(const void *a, const void *b)
{
    const struct pod *const *pod_a = a;
    const struct pod *const *pod_b = b;

    if ((*pod_a)->heartbeat_at_ms != (*pod_b)->heartbeat_at_ms)
        return (*pod_a)->heartbeat_at_ms < (*pod_b)->heartbeat_at_ms ? -1 : 1;
    return strcmp((*pod_a)->name, (*pod_b)->name);
}

/* All pods that are silent, the longest first. 0 or -ENOMEM. */
static int find_silent(const struct core *core, struct arena *arena, struct pod ***ret_pods,
                       size_t *ret_count)
{
    struct pod **pods;
    size_t count = 0;

    for (size_t i = 0; i < core->pods_due.count; i++)
        count += pod_is_silent(core, CONTAINER_OF(core->pods_due.nodes[i], struct pod, due));
    *ret_count = count;
    if (count == 0)
        return 0;
    pods = arena_alloc(arena, count * sizeof(struct pod *));
    if (!pods)
        return -ENOMEM;
    for (size_t i = 0, at = 0; i < core->pods_due.count; i++) {
        struct pod *pod = CONTAINER_OF(core->pods_due.nodes[i], struct pod, due);

        if (pod_is_silent(core, pod))
            pods[at++] = pod;
    }
    qsort(pods, count, sizeof(struct pod *), compare_silence);
    *ret_pods = pods;
    return 0;
}

/* Removes the pods whose heartbeats have stopped. */
static int sweep_silent(struct core *core, struct pod *const *pods, size_t count, size_t limit,
                        struct arena *arena, struct result *result)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < count; i++) {
        if (i >= limit || result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        assert(result->sweep.gone.count < limit); /* for so many there is room */
        err = name_array_add(&result->sweep.gone, arena, pods[i]->name);
        if (err == 0)
            err = pod_end(core, pods[i], arena, &result->sweep.ended);
    }
    return err;
}

static int compare_names(const void *a, const void *b)
{
    const struct pod *const *pod_a = a;
    const struct pod *const *pod_b = b;

    return strcmp((*pod_a)->name, (*pod_b)->name);
}

/* All pods that are due, by their names. 0 or -ENOMEM. */
static int find_due(const struct core *core, struct arena *arena, struct pod ***ret_pods, size_t *ret_count)
{
    struct pod **pods;
    size_t count = 0;

    for (size_t i = 0; i < core->pods_due.count; i++)
        count += core->pods_due.nodes[i]->at <= core->now_ms;
    *ret_count = 0;
    if (count == 0)
        return 0;
    pods = arena_alloc(arena, count * sizeof(struct pod *));
    if (!pods)
        return -ENOMEM;
    for (size_t i = 0; i < core->pods_due.count; i++) {
        if (core->pods_due.nodes[i]->at <= core->now_ms)
            pods[(*ret_count)++] = CONTAINER_OF(core->pods_due.nodes[i], struct pod, due);
    }
    qsort(pods, count, sizeof(struct pod *), compare_names);
    *ret_pods = pods;
    return 0;
}

/*
 * Checks the pods that are due: the end of a drain or a hold, missing heartbeats, or nothing to
 * stay for. By their names, as in Redis: free ones of a tier that was removed join others, one by one.
 */
static int sweep_pods(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    size_t looked = result->sweep.gone.count;
    struct pod **pods = NULL;
    size_t count;
    int err = find_due(core, arena, &pods, &count);

    for (size_t i = 0; err == 0 && i < count; i++, looked++) {
        struct pod *pod = pods[i];
        enum pod_state before = pod->state;

        assert(pod->is_placed && pod->due.place > 0);
        if (looked >= limit || result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        assert(!pod_is_silent(core, pod));
        if (pod_should_leave(core, pod)) {
            err = name_array_add(&result->sweep.gone, arena, pod->name);
            if (err == 0)
                err = pod_end(core, pod, arena, &result->sweep.ended);
            continue;
        }
        if ((pod->draining_until_ms && pod->draining_until_ms <= core->now_ms) ||
            (pod->held_until_ms && pod->held_until_ms <= core->now_ms)) {
            if (pod->draining_until_ms <= core->now_ms)
                pod->draining_until_ms = 0;
            if (pod->held_until_ms <= core->now_ms)
                pod->held_until_ms = 0;
            pod_report(core, pod);
        }
        if (!pod_settle(core, pod) && pod->state != before &&
            (pod->state == POD_AVAILABLE || pod->state == POD_BUSY))
            result->sweep.recovered++;
    }
    return err;
}

int core_sweep(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    size_t limit = step_limit(command->sweep.limit);
    struct pod **silent = NULL;
    size_t silent_count = 0;
    int err = sweep_leases(core, limit, arena, result);

    past_calls_forget_old(&core->past, core->now_ms);
    if (err == 0)
        err = find_silent(core, arena, &silent, &silent_count);
    /* No call goes to a pod that is about to leave. */
    for (size_t i = 0; err == 0 && i < silent_count; i++)
        pod_close(core, silent[i]);
    if (err == 0)
        err = line_serve(core); /* before calls of silent pods look for a pod */
    if (err == 0)
        err = name_array_init(&result->sweep.gone, arena, limit);
    if (err == 0)
        err = sweep_silent(core, silent, silent_count, limit, arena, result);
    if (err == 0 && !result->sweep.more)
        err = sweep_pods(core, limit, arena, result);
    return err;
}
