/*
 * drain.c - the commands drain and undrain.
 */
#include "core/state.h"

int core_drain(struct core *core, const struct command *command, struct arena *arena UNUSED,
               struct result *result)
{
    struct pod *pod = pod_find(core, command->drain.pod);
    uint64_t ttl_ms = command->drain.ttl_ms ? command->drain.ttl_ms : core->settings.draining_ttl_ms;

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    pod->draining_until_ms = ttl_ms == DRAIN_WITHOUT_END ? DRAIN_WITHOUT_END : core->now_ms + ttl_ms;
    pod->is_surplus = false; /* it is the drain of whoever asked now */
    pod_place(core, pod);
    assert((pod->state == POD_DRAINING) == pod_is_draining(core, pod));
    pod_report(core, pod);
    result->drain.calls_left = pod->load;
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
        pod->is_surplus = false;
        if (!pod_should_leave(core, pod))
            pod_report(core, pod);
    }
    if (!pod_settle(core, pod))
        assert(pod->state != POD_DRAINING || pod->is_terminating);
    return 0;
}
