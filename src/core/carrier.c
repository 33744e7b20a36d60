/*
 * carrier.c - the commands of a process that carries calls: hold, leave, depart, present.
 *
 * Core has one process. Its name and its last sign of life are kept, so that queries show who
 * carries a call, by the same rules as where there are several processes.
 */
#include <stdio.h>

#include "core/state.h"

void carrier_note(struct core *core, const char *carrier)
{
    if (!carrier)
        return;
    snprintf(core->carrier, sizeof(core->carrier), "%s", carrier);
    core->carrier_at_ms = core->now_ms;
}

bool call_has_carrier(const struct core *core, const struct call *call)
{
    return call->is_carried && core->carrier_at_ms && core->now_ms - core->carrier_at_ms <= CARRIER_TTL_MS;
}

int core_hold(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->hold.call_sid);
    const struct waiter *waiter = call ? NULL : waiter_find(core, command->hold.call_sid);
    uint64_t claim = command->hold.claim;

    if (command->hold.is_held &&
        ((waiter && waiter_is_elsewhere(core, waiter, claim)) || (call && call->claim > claim))) {
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_HOLD;
        return 0;
    }
    if (waiter) {
        result->outcome = OUTCOME_WAITING;
        return waiter_info(core, waiter, arena, &result->hold.waiting);
    }
    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->hold.has_ended = tombstones_has(&core->tombstones, command->hold.call_sid, core->now_ms);
        return 0;
    }
    if (command->hold.is_new && (call->claim || call->is_granted))
        call->claim = next_claim(core, call->claim);
    result->hold.was_connected = call->was_connected;
    result->hold.was_taken = call->is_granted;
    result->hold.waited_ms = call->is_granted ? waited_ms(core, call->waited_since_ms) : 0;
    call->is_carried = true;
    carrier_note(core, command->hold.carrier);
    call_renew(core, call, RENEWED_BY_GATEWAY);
    assert(call->was_renewed);
    return call_info(call, arena, &result->hold.call);
}

/* Core has one process, so no other process can carry the call. */
int core_leave(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->leave.call_sid);

    if (call)
        call->is_carried = false;
    if (call && call->lease.at != command->leave.expires_at_ms) {
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_LEAVE;
        return 0;
    }
    return call_release(core, call, PAST_CLOSED, arena, result);
}

/* Core has one process: who cuts the connections of a carried call is its carrier. */
int core_depart(struct core *core, const struct command *command, struct arena *arena UNUSED,
                struct result *result)
{
    for (size_t i = 0; i < command->depart.count; i++) {
        struct call *call = call_find(core, command->depart.call_sids[i]);

        if (!call || !call->is_carried)
            continue;
        call_depart(core, call);
        result->depart.count++;
    }
    return 0;
}

/* Core has one process: there are no others. */
int core_present(struct core *core, const struct command *command, struct arena *arena UNUSED,
                 struct result *result)
{
    if (strcmp(command->present.carrier, core->carrier) == 0)
        core->carrier_at_ms = command->present.is_leaving ? 0 : core->now_ms;
    result->present.others = 0;
    return 0;
}
