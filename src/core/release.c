/*
 * release.c - the commands release and undo: they end a call on purpose.
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

int core_release(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->release.call_sid);
    const char *pod = command->release.pod;

    if (call && pod && !name_fits_pod(pod, call->pod->name))
        call = NULL;
    if (call && command->release.provider && call_is_of_others(call, command->release.provider)) {
        result_forbid(result);
        return 0;
    }
    return call_release(core, call, (enum past_end)command->release.why, arena, result);
}

int core_undo(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->undo.call_sid);

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
