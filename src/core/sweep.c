/*
 * sweep.c - the command sweep: ends calls whose lease expired, and checks the pods that are due.
 */
#include "core/page.h"
#include "core/state.h"

/* Ends the calls whose lease has run out. */
static int sweep_leases(struct core *core, size_t limit, struct arena *arena, struct result *result)
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

static bool pod_is_silent(const struct core *core, const struct pod *pod)
{
    return pod->source == POD_SOURCE_API && pod_silent_at(core, pod) <= core->now_ms;
}

/*
 * Checks the pods that are due: the end of a drain or a hold, missing heartbeats, or nothing to
 * stay for.
 */
static int sweep_pods(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    struct heap_node *node;
    int err = name_array_init(&result->sweep.gone, arena, limit);

    for (size_t looked = 0; err == 0 && (node = heap_first(&core->pods_due)) && node->at <= core->now_ms;
         looked++) {
        struct pod *pod = CONTAINER_OF(node, struct pod, due);
        enum pod_state before = pod->state;

        assert(pod->is_placed && pod->due.place == 1);
        if (looked >= limit || result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        if (pod_is_silent(core, pod) || pod_should_leave(core, pod)) {
            assert(result->sweep.gone.count < limit); /* for so many there is room */
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
    int err = sweep_leases(core, limit, arena, result);

    past_calls_forget_old(&core->past, core->now_ms);
    return err < 0 ? err : sweep_pods(core, limit, arena, result);
}
