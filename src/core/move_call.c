/*
 * move_call.c - the command move_call: puts a pod aside and moves one of its calls to another pod, or into
 * the line.
 */
#include "core/state.h"

/* Puts the pod aside; a drain that lasts longer already is not cut short. */
static void put_aside(struct core *core, struct pod *pod, uint64_t aside_ms)
{
    uint64_t until_ms = core->now_ms + (aside_ms ? aside_ms : core->settings.draining_ttl_ms);

    if (pod->draining_until_ms < until_ms)
        pod->draining_until_ms = until_ms;
    pod_place(core, pod);
    assert(pod->state != POD_AVAILABLE || !pod_is_draining(core, pod));
    pod_report(core, pod);
}

/* The pod that the call gets now, or NULL; not the one that it is on, whether that is put aside or not. */
static struct pod *pod_elsewhere(struct core *core, struct call *call, const struct command *command,
                                 struct chain *ret_chain, struct result *result)
{
    struct pod *from = call->pod;
    struct pod *to;

    if (command->move.spares_pod)
        pod_close(core, from);
    else
        put_aside(core, from, command->move.aside_ms); /* a draining pod is in no list */
    to = pod_for_call(core, call->merchant_id, command->move.prefer, ret_chain,
                      &result->move.merchant_unreadable);
    if (command->move.spares_pod)
        pod_open(core, from);
    assert(to != from);
    return to;
}

/* The call stays on its pod. A client needs it, so the next sweep must not end it. */
static void keep_call(struct core *core, struct call *call)
{
    if (call_is_expired(core, call))
        call_revive(core, call);
}

int core_move_call(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    struct call *call = call_find(core, command->move.call_sid);
    struct waiter *waiter = call ? NULL : waiter_find(core, command->move.call_sid);
    struct chain chain;
    struct pod *to;
    bool has_left;

    if (waiter) {
        result->outcome = OUTCOME_WAITING;
        return waiter_info(core, waiter, arena, &result->move.waiting);
    }
    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    if (strcmp(call->pod->name, command->move.from_pod) != 0) {
        keep_call(core, call);
        return call_info(call, arena, &result->move.call);
    }
    to = pod_elsewhere(core, call, command, &chain, result);
    if (!to && command->move.carrier) {
        int err = call_join_line(core, call, command->move.carrier, &waiter, &has_left);

        if (err != -EAGAIN) {
            result->outcome = OUTCOME_WAITING;
            result->move.was_moved = true;
            return err < 0 ? err : waiter_info(core, waiter, arena, &result->move.waiting);
        }
    }
    if (!to) {
        keep_call(core, call);
        result->outcome = OUTCOME_NO_PODS;
        return call_refuse(core, call->call_sid, call->merchant_id, call->provider, &chain, arena,
                           &result->move.refusal);
    }
    (void)call_move(core, call, to);
    assert(call->pod == to);
    result->move.was_moved = true;
    /* Without memory for the answer the call has moved all the same: the next request finds it. */
    return call_info(call, arena, &result->move.call);
}
