/*
 * heartbeat.c - the command heartbeat: a pod is alive, and names its calls.
 */
#include "core/state.h"

static int heartbeat_adopt(struct core *core, struct pod *pod, const char *call_sid, struct arena *arena,
                           struct result *result)
{
    struct name_array *list = &result->heartbeat.adopted;
    struct call *call;
    int err = call_adopt(core, call_sid, "", pod, RENEWED_BY_POD, &call);

    if (err == -EAGAIN)
        list = &result->heartbeat.conflicts;
    else if (err == -EALREADY)
        list = &result->heartbeat.finished;
    else if (err < 0)
        return err;
    return name_array_add(list, arena, call_sid);
}

static int heartbeat_listed(struct core *core, struct pod *pod, const char *call_sid, struct arena *arena,
                            struct result *result)
{
    struct call *call = call_find(core, call_sid);

    if (!call)
        return heartbeat_adopt(core, pod, call_sid, arena, result);
    if (call->pod != pod)
        return name_array_add(&result->heartbeat.conflicts, arena, call_sid);
    call_renew(core, call, RENEWED_BY_POD);
    return name_array_add(&result->heartbeat.renewed, arena, call_sid);
}

static bool is_listed(const struct command *command, const char *call_sid)
{
    for (size_t i = 0; i < command->heartbeat.count; i++) {
        if (strcmp(command->heartbeat.call_sids[i], call_sid) == 0)
            return true;
    }
    return false;
}

/* Ends the calls that the pod no longer lists. A young call may not have reached the pod yet. */
static int heartbeat_unlisted(struct core *core, struct pod *pod, const struct command *command,
                              struct arena *arena, struct result *result)
{
    LIST_FOR_EACH (link, &pod->calls) {
        struct call *call = LIST_ENTRY(link, struct call, on_pod);
        int err;

        assert(call->pod == pod);
        if (is_listed(command, call->call_sid)) {
            assert(call->misses == 0);
            continue;
        }
        if (call->misses < HEARTBEAT_MISSES)
            call->misses++;
        if (call->misses < HEARTBEAT_MISSES || core->now_ms - call->placed_at_ms <= HEARTBEAT_YOUNG_MS)
            continue;
        err = call_add_ended(&result->heartbeat.ended, arena, call, CALL_END_UNMENTIONED);
        if (err < 0)
            return err;
        if (call_lose(core, call, CALL_END_UNMENTIONED))
            break; /* the pod was only waiting for this call, and has left with it */
    }
    return 0;
}

int core_heartbeat(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    size_t count = command->heartbeat.count;
    struct pod *pod = pod_find(core, command->heartbeat.pod);
    int err;

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    err = name_array_init(&result->heartbeat.renewed, arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.adopted, arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.finished, arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.conflicts, arena, count);
    if (err < 0)
        return err;

    pod->heartbeat_at_ms = core->now_ms;
    pod->last_heartbeat_ms = core->now_ms;
    for (size_t i = 0; err == 0 && i < count; i++)
        err = heartbeat_listed(core, pod, command->heartbeat.call_sids[i], arena, result);
    /* Each call is in exactly one list. */
    assert(err < 0 || result->heartbeat.renewed.count + result->heartbeat.adopted.count +
                              result->heartbeat.finished.count + result->heartbeat.conflicts.count ==
                          count);
    if (pod->held_until_ms > core->now_ms) {
        /*
         * Its calls are known now, so it may get new ones. If the hold is over, a sweep does this.
         */
        pod->held_until_ms = 0;
        if (!pod_should_leave(core, pod))
            pod_report(core, pod);
        if (pod_settle(core, pod))
            return err; /* it was only held here, and carries nothing */
    }
    if (err == 0)
        err = heartbeat_unlisted(core, pod, command, arena, result);
    return err;
}
