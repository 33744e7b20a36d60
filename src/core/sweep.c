/*
 * sweep.c - the command sweep: ends calls whose lease ran out, and looks at pods whose time has
 * come.
 */
#include "core/state.h"

/* Ends the calls whose lease has run out. */
static int sweep_leases(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    struct heap_node *node;

    while ((node = heap_first(&core->leases))) {
        struct call *call = CONTAINER_OF(node, struct call, lease);
        int rc;

        if (!call_is_expired(core, call))
            return 0;
        if (result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        rc = ended_array_add(&result->sweep.ended, arena, call, CALL_END_EXPIRED);
        if (rc)
            return rc;
        call_lose(core, call, CALL_END_EXPIRED);
    }
    return 0;
}

static bool pod_is_silent(const struct core *core, const struct pod *pod)
{
    return pod->source == POD_SOURCE_API && pod_silent_at(core, pod) <= core->now_ms;
}

/* Looks at the pods whose time has come: the end of a drain or of a hold, silence, nothing to stay for. */
static int sweep_pods(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    struct heap_node *node;
    int rc = name_array_init(&result->sweep.gone, arena, limit);

    for (size_t looked = 0; rc == 0 && (node = heap_first(&core->pods_due)) && node->at <= core->now_ms;
         looked++) {
        struct pod *pod = CONTAINER_OF(node, struct pod, due);
        enum pod_state before = pod->state;

        if (looked >= limit || result->sweep.ended.count >= limit) {
            result->sweep.more = true;
            return 0;
        }
        if (pod_is_silent(core, pod) || pod_should_leave(core, pod)) {
            rc = name_array_add(&result->sweep.gone, arena, pod->name);
            if (rc == 0)
                rc = pod_end(core, pod, arena, &result->sweep.ended);
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
    return rc;
}

int core_sweep(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    size_t limit = command->sweep.limit ? command->sweep.limit : STEP_LIMIT;
    int rc = sweep_leases(core, limit, arena, result);

    return rc ? rc : sweep_pods(core, limit, arena, result);
}
