/*
 * release.c - the commands release and undo: they end a call on purpose.
 *
 * A call that waits leaves the line. So that a late release ends nothing that goes on elsewhere, one that
 * names no pod is no word about a call that lost its pod, was moved, cut or resumed a moment ago: the end of
 * its stream is.
 */
#include "core/state.h"

int call_release(struct core *core, struct call *call, enum past_end how, struct arena *arena,
                 struct result *result)
{
    struct pod *pod;
    int err;

    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    err = call_info(call, arena, &result->release.call);
    if (err < 0)
        return err;
    result->release.call.expires_at_ms = 0;
    result->release.was_granted = call->is_granted;
    result->release.waited_ms = call->is_granted ? waited_ms(core, call->waited_since_ms) : 0;
    pod = call->pod;
    result->release.was_draining = pod_is_draining(core, pod);
    result->release.released_to = "";
    if (!call_finish(core, call, how) && !result->release.was_draining) {
        assert(pod->is_placed);
        result->release.released_to = arena_strdup(arena, pod->pool->label);
        if (!result->release.released_to)
            return -ENOMEM;
    }
    return 0;
}

/* Fills result->release for a call that waits. 0 or -ENOMEM. */
static int waiting_info(const struct core *core, const struct waiter *waiter, struct arena *arena,
                        struct result *result)
{
    const struct call_info info = {
        .call_sid = arena_strdup(arena, waiter->call_sid),
        .pod = "",
        .address = "",
        .pool = "",
        .merchant_id = arena_strdup(arena, waiter->merchant_id),
        .provider = arena_strdup(arena, waiter->provider),
    };

    if (!info.call_sid || !info.merchant_id || !info.provider)
        return -ENOMEM;
    result->release.call = info;
    result->release.released_to = "";
    result->release.was_waiting = true;
    result->release.waited_ms = waited_ms(core, waiter->since_ms);
    return 0;
}

/*
 * Does this release mean a call that lost its pod, was moved, cut or resumed at this time (0: never), and
 * name no pod? For a while it is one of an agent that the call has left.
 */
static bool comes_late(const struct core *core, const struct command *command, uint64_t unsettled_at_ms)
{
    return !command->release.pod && !command->release.provider && command->release.why == FINISH_RELEASED &&
           unsettled_at_ms && core->now_ms - unsettled_at_ms < UNSETTLED_MS;
}

/* The call waits: no pod has it. */
static int release_waiting(struct core *core, struct waiter *waiter, const struct command *command,
                           struct arena *arena, struct result *result)
{
    int err;

    if (command->release.pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    if (command->release.provider && call_is_of_others(waiter->provider, command->release.provider)) {
        result_forbid(result);
        return 0;
    }
    err = waiting_info(core, waiter, arena, result);
    if (err < 0)
        return err;
    /* Its stream is held, or its provider comes back to its place in line. */
    if (comes_late(core, command, waiter->unsettled_at_ms)) {
        result->release.was_waiting = false;
        result->release.waited_ms = 0;
        result->release.is_kept = true;
    } else {
        waiter_finish(core, waiter, command->release.why);
    }
    return 0;
}

int core_release(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->release.call_sid);
    struct waiter *waiter = call ? NULL : waiter_find(core, command->release.call_sid);
    const char *pod = command->release.pod;

    if (waiter)
        return release_waiting(core, waiter, command, arena, result);
    if (call && pod && !name_fits_pod(pod, call->pod->name))
        call = NULL;
    if (call && command->release.provider && call_is_of_others(call->provider, command->release.provider)) {
        result_forbid(result);
        return 0;
    }
    /*
     * Only the end of its stream ends it. Between two streams nobody carries it: that of an agent that was
     * cut off is just the release that must not count.
     */
    if (call && comes_late(core, command, call->unsettled_at_ms)) {
        result->release.is_kept = true;
        result->release.released_to = "";
        return call_info(call, arena, &result->release.call);
    }
    return call_release(core, call, (enum past_end)command->release.why, arena, result);
}

int core_undo(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->undo.call_sid);
    struct waiter *waiter = call ? NULL : waiter_find(core, command->undo.call_sid);

    if (waiter && waiter->attempt && waiter->attempt == command->undo.attempt &&
        !command->undo.spares_place) {
        int err = waiting_info(core, waiter, arena, result);

        if (err == 0)
            waiter_leave(core, waiter);
        return err;
    }
    if (!call || !attempts_remove(&call->attempts, command->undo.attempt)) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    if (call->attempts.count > 0 || call->was_renewed) {
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_UNDO;
        return 0;
    }
    return call_release(core, call, PAST_UNDONE, arena, result);
}
