/*
 * allocate.c - the command allocate, and the search for a pod of a new call.
 *
 * core/move_call.c uses the same search and the same record of a refusal.
 */
#include <stdio.h>

#include "core/state.h"

int call_refuse(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
                const struct chain *chain, struct arena *arena, const struct refusal **ret_refusal)
{
    struct refusal *refusal = arena_alloc(arena, sizeof(*refusal));
    struct refusal_step *step;

    if (!refusal)
        return -ENOMEM;
    *refusal = (struct refusal){.at_ms = core->now_ms};
    snprintf(refusal->merchant_id, sizeof(refusal->merchant_id), "%s", merchant_id);
    snprintf(refusal->provider, sizeof(refusal->provider), "%s", provider);
    refusal->steps = arena_alloc(arena, (chain->len + 1) * sizeof(*refusal->steps));
    if (!refusal->steps)
        return -ENOMEM;
    if (chain->missing_pool) {
        step = &refusal->steps[refusal->count++];
        *step = (struct refusal_step){0};
        merchant_pool_name(slice_of(chain->missing_pool), step->pool);
    }
    for (size_t i = 0; i < chain->len; i++) {
        const struct pool *pool = core->tier_pools[chain->steps[i] - core->tiers->tiers];

        assert(pool->is_configured);
        assert(pool->by_state[POD_AVAILABLE] == 0 && pool->free_count == 0);
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

/*
 * The pod of that name if it is as good as `pod`: available, in the same pool, with the same load.
 */
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
    int err;

    result->allocate.attempt = command->allocate.attempt;
    call = call_find(core, call_sid);
    if (call && command->allocate.is_webhook && call_is_of_others(call, command->allocate.provider)) {
        result_forbid(result);
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
        return call_refuse(core, call_sid, merchant_id, command->allocate.provider, &chain, arena,
                           &result->allocate.refusal);
    }

    err = call_new(core, call_sid, merchant_id, command->allocate.provider, pod, pod->pool, core->now_ms,
                   core->now_ms + first_lease_ms(core), &call);
    if (err < 0)
        return err;
    attempts_add(&call->attempts, command->allocate.attempt);
    assert(pod->load <= pod->pool->spec.max_concurrent);
    pod_place(core, pod);
    call_report(core, call);
    err = call_info(call, arena, &result->allocate.call);
    if (err < 0)
        call_end(core, call); /* the client gets an error, so it would never release the call */
    return err;
}
