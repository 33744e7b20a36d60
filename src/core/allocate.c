/*
 * allocate.c - the commands allocate, release, undo, hold and leave, and the search for a pod of a
 * new call.
 *
 * core/move.c uses the same search and the same record of a refusal.
 */
#include <stdio.h>

#include "core/state.h"

int call_refuse(struct core *core, const char *call_sid, const struct chain *chain, struct arena *arena,
                const struct refusal **ret_refusal)
{
    struct refusal *refusal = arena_alloc(arena, sizeof(*refusal));
    struct refusal_step *step;

    if (!refusal)
        return -ENOMEM;
    *refusal = (struct refusal){.at_ms = core->now_ms};
    refusal->steps = arena_alloc(arena, (chain->len + 1) * sizeof(*refusal->steps));
    if (!refusal->steps)
        return -ENOMEM;
    if (chain->missing_pool) {
        step = &refusal->steps[refusal->count++];
        *step = (struct refusal_step){0};
        snprintf(step->pool, sizeof(step->pool), MERCHANT_POOL_PREFIX "%s", chain->missing_pool);
    }
    for (size_t i = 0; i < chain->len; i++) {
        const struct pool *pool = core->tier_pools[chain->steps[i] - core->tiers->tiers];

        step = &refusal->steps[refusal->count++];
        *step = (struct refusal_step){.is_configured = true, .pods = pool->pod_count};
        memcpy(step->pool, pool->label, sizeof(step->pool));
        memcpy(step->by_state, pool->by_state, sizeof(step->by_state));
    }
    refusals_remember(&core->refusals, call_sid, refusal);
    *ret_refusal = refusal;
    return 0;
}

uint64_t first_lease_ms(const struct core *core)
{
    return core->settings.connect_timeout_ms ? core->settings.connect_timeout_ms
                                             : core->settings.call_max_duration_ms;
}

/* The pod of that name, if taking it instead of `pod` makes no difference to anybody; else `pod`. */
static struct pod *pod_as_good(const struct core *core, struct pod *pod, const char *name)
{
    struct pod *other = pod_find(core, name);

    return other && other->pool == pod->pool && other->state == POD_AVAILABLE && other->load == pod->load
               ? other
               : pod;
}

struct pod *pod_for_call(const struct core *core, const char *merchant_id, const char *prefer,
                         struct chain *ret_chain, bool *ret_unreadable)
{
    const struct merchant *merchant = merchant_id[0] ? merchant_find(core, merchant_id) : NULL;
    struct pod *pod = NULL;

    *ret_unreadable = merchant && !merchant->is_readable;
    chain_resolve(core->tiers, merchant && merchant->is_readable ? &merchant->config : NULL, ret_chain);
    for (size_t i = 0; i < ret_chain->len && !pod; i++)
        pod = pool_least_loaded(core->tier_pools[ret_chain->steps[i] - core->tiers->tiers]);
    return pod && prefer ? pod_as_good(core, pod, prefer) : pod;
}

int core_allocate(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    const char *call_sid = command->allocate.call_sid;
    const char *merchant_id = command->allocate.merchant_id;
    struct chain chain;
    struct call *call;
    struct pod *pod;
    int rc;

    result->allocate.attempt = command->allocate.attempt;
    call = call_find(core, call_sid);
    if (call && command->allocate.is_webhook && call_is_of_others(call, command->allocate.provider)) {
        call_forbid(result);
        return 0;
    }
    if (call) {
        result->allocate.was_existing = true;
        attempts_add(&call->attempts, command->allocate.attempt);
        if (call_is_expired(core, call))
            call_revive(core, call);
        return call_info(call, arena, &result->allocate.call);
    }
    pod = pod_for_call(core, merchant_id, command->allocate.prefer, &chain,
                       &result->allocate.merchant_unreadable);
    if (!pod) {
        result->outcome = OUTCOME_NO_PODS;
        return call_refuse(core, call_sid, &chain, arena, &result->allocate.refusal);
    }

    rc = call_new(core, call_sid, merchant_id, command->allocate.provider, pod, pod->pool, core->now_ms,
                  core->now_ms + first_lease_ms(core), &call);
    if (rc)
        return rc;
    attempts_add(&call->attempts, command->allocate.attempt);
    pod_place(core, pod);
    call_report(core, call);
    rc = call_info(call, arena, &result->allocate.call);
    if (rc)
        call_end(core, call); /* nobody will hear of it, so nobody would ever release it */
    return rc;
}

/* A call whose lease has just run out is released like any other: its slot is still its own. */
static int release_call(struct core *core, struct call *call, enum call_over why, struct arena *arena,
                        struct result *result)
{
    struct pod *pod;
    int rc;

    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    rc = call_info(call, arena, &result->release.call);
    if (rc)
        return rc;
    result->release.call.expires_at_ms = 0;
    pod = call->pod;
    result->release.was_draining = pod_is_draining(core, pod);
    result->release.released_to = "";
    if (!call_finish(core, call, why)) {
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
        call_forbid(result);
        return 0;
    }
    return release_call(core, call, command->release.why, arena, result);
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
        result->error = "somebody else has the call";
        return 0;
    }
    return release_call(core, call, CALL_OVER_RELEASED, arena, result);
}

int core_hold(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->hold.call_sid);

    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->hold.has_ended = overs_has(&core->overs, command->hold.call_sid, core->now_ms);
        return 0;
    }
    result->hold.was_connected = call->was_connected;
    call->is_carried = true;
    call_renew(core, call);
    return call_info(call, arena, &result->hold.call);
}

/* Core has one process, so nobody else can carry the call. */
int core_leave(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct call *call = call_find(core, command->leave.call_sid);

    if (call)
        call->is_carried = false;
    if (call && call->lease.at != command->leave.expires_at_ms) {
        result->outcome = OUTCOME_CONFLICT;
        result->error = "somebody has renewed the call";
        return 0;
    }
    return release_call(core, call, CALL_OVER_CLOSED, arena, result);
}
