/*
 * allocate.c - the command allocate, and the search for a pod of a new call.
 *
 * core/move_call.c uses the same search and the same record of a refusal. A call that waits is allocated by
 * line_serve(): here it only asks again.
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

struct pod *pod_chosen(const struct core *core, struct pod *pod, const char *call_sid)
{
    const char *name = core->on_choice ? core->on_choice(core->on_choice_arg, call_sid) : NULL;

    return name ? pod_as_good(core, pod, name) : pod;
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

/* Refuses the call, as one of this merchant; `chain` is what was tried. */
static int refuse(struct core *core, const struct command *command, const char *merchant_id,
                  const struct chain *chain, struct arena *arena, struct result *result)
{
    result->outcome = OUTCOME_NO_PODS;
    return call_refuse(core, command->allocate.call_sid, merchant_id, command->allocate.provider, chain,
                       arena, &result->allocate.refusal);
}

/* The same for a call that waits, or has waited until now: its first merchant counts. */
static int refuse_waiting(struct core *core, const struct waiter *waiter, struct arena *arena,
                          struct result *result)
{
    struct chain chain;

    (void)pod_for_call(core, waiter->merchant_id, NULL, &chain, &result->allocate.merchant_unreadable);
    result->outcome = OUTCOME_NO_PODS;
    return call_refuse(core, waiter->call_sid, waiter->merchant_id, waiter->provider, &chain, arena,
                       &result->allocate.refusal);
}

/* May its stream come back once more? True for a request that resumes nothing. */
static bool count_resume(const struct core *core, const struct command *command, struct resumes *resumes)
{
    if (!command->allocate.is_resume)
        return true;
    if (resumes->count == 0 || core->now_ms - resumes->from_ms >= RESUMES_MS)
        *resumes = (struct resumes){.from_ms = core->now_ms};
    if (resumes->count >= RESUMES_MAX)
        return false;
    resumes->count++;
    return true;
}

/* The call has a pod. */
static int allocate_existing(struct core *core, struct call *call, const struct command *command,
                             struct arena *arena, struct result *result)
{
    if (command->allocate.is_resume)
        call_unsettle(core, call);
    /* The requests before it were told that the call waits: only this one knows of the pod. */
    if (call->is_granted && !command->allocate.is_webhook && !call->claim && !call->attempts.are_lost)
        attempts_release(&call->attempts);
    attempts_add(&call->attempts, command->allocate.attempt);
    if (call->is_granted) {
        result->allocate.was_taken = true;
        result->allocate.waited_ms = waited_ms(core, call->waited_since_ms);
        call_take_anew(core, call);
    } else {
        result->allocate.was_existing = true;
        if (call_is_expired(core, call))
            call_revive(core, call);
    }
    return call_info(call, arena, &result->allocate.call);
}

/* The call waits, and asks again. */
static int allocate_waiting(struct core *core, struct waiter *waiter, const struct command *command,
                            struct arena *arena, struct result *result)
{
    struct call *call;
    int err;

    if (!command->allocate.waits)
        return refuse_waiting(core, waiter, arena, result);
    /* A stream that is held and breaks at once would come back again and again. */
    if (waiter->until_ms <= core->now_ms || !count_resume(core, command, &waiter->resumes)) {
        err = refuse_waiting(core, waiter, arena, result);
        if (err < 0)
            return err;
        result->allocate.has_ended = true;
        result->allocate.why = FINISH_TIMED_OUT;
        result->allocate.waited_ms = waited_ms(core, waiter->since_ms);
        waiter_finish(core, waiter, FINISH_TIMED_OUT);
        return 0;
    }
    waiter->attempt = command->allocate.attempt;
    waiter->awaits_stream = command->allocate.awaits_stream;
    waiter_set_holder(waiter, command->allocate.holder);
    waiter_heard(core, waiter);
    err = waiter_refresh(core, waiter, &result->allocate.merchant_unreadable);
    if (err == 0)
        err = line_serve(core);
    if (err < 0)
        return err;
    call = call_find(core, command->allocate.call_sid);
    if (call)
        return allocate_existing(core, call, command, arena, result);
    result->outcome = OUTCOME_WAITING;
    return waiter_info(core, waiter, arena, &result->allocate.waiting);
}

/* Who asks on and on would wait for ever otherwise: the end of a wait may be noticed by somebody else. */
static bool has_timed_out(struct core *core, const char *call_sid)
{
    enum finish_reason why;

    return tombstones_find(&core->tombstones, call_sid, core->now_ms, &why) && why == FINISH_TIMED_OUT;
}

/* No pod is free: the call joins the line, or is refused. */
static int allocate_later(struct core *core, const struct command *command, const struct chain *chain,
                          struct arena *arena, struct result *result)
{
    const char *merchant_id = command->allocate.merchant_id;
    struct wait_rules rules;
    struct waiter *waiter;
    int err;

    wait_rules_of(core, merchant_id, &rules);
    if (!command->allocate.waits || rules.max_wait_ms == 0 || has_timed_out(core, command->allocate.call_sid))
        return refuse(core, command, merchant_id, chain, arena, result);
    if (line_is_full(core, merchant_id, &rules)) {
        result->allocate.is_full = true;
        return refuse(core, command, merchant_id, chain, arena, result);
    }
    err = line_join(core,
                    &(struct joining){.call_sid = command->allocate.call_sid,
                                      .merchant_id = merchant_id,
                                      .provider = command->allocate.provider,
                                      .holder = command->allocate.holder,
                                      .since_ms = core->now_ms,
                                      .until_ms = core->now_ms + rules.max_wait_ms,
                                      .attempt = command->allocate.attempt,
                                      .awaits_stream = command->allocate.awaits_stream},
                    &waiter);
    if (err < 0)
        return err;
    (void)count_resume(core, command, &waiter->resumes);
    result->outcome = OUTCOME_WAITING;
    result->allocate.has_joined = true;
    err = waiter_info(core, waiter, arena, &result->allocate.waiting);
    if (err < 0)
        waiter_leave(core, waiter); /* the client gets an error, so it may never ask again */
    return err;
}

/* The pod that a resumed call had, if it is available and in a pool of the chain; else `pod`. */
static struct pod *pod_to_resume(const struct core *core, const struct command *command,
                                 const struct chain *chain, struct pod *pod)
{
    const char *name = command->allocate.is_resume ? command->allocate.resume_pod : NULL;
    struct pod *old = name ? pod_find(core, name) : NULL;

    if (!pod || !old || old->state != POD_AVAILABLE)
        return pod;
    for (size_t i = 0; i < chain->len; i++) {
        if (core->tier_pools[chain->steps[i] - core->tiers->tiers] == old->pool)
            return old;
    }
    return pod;
}

/* The store does not know the call. */
static int allocate_new(struct core *core, const struct command *command, struct arena *arena,
                        struct result *result)
{
    struct chain chain;
    struct call *call;
    struct pod *pod;
    int err = line_serve(core); /* what is left of the command before goes to the calls in front */

    if (err < 0)
        return err;
    pod = pod_for_call(core, command->allocate.merchant_id, command->allocate.prefer, &chain,
                       &result->allocate.merchant_unreadable);
    if (!pod)
        return allocate_later(core, command, &chain, arena, result);
    pod = pod_to_resume(core, command, &chain, pod);
    err =
        call_new(core, command->allocate.call_sid, command->allocate.merchant_id, command->allocate.provider,
                 pod, pod->pool, core->now_ms, core->now_ms + first_lease_ms(core), &call);
    if (err < 0)
        return err;
    if (command->allocate.is_resume)
        call_unsettle(core, call);
    (void)count_resume(core, command, &call->resumes);
    attempts_add(&call->attempts, command->allocate.attempt);
    assert(pod->load <= pod->pool->spec.max_concurrent);
    pod_place(core, pod);
    call_report(core, call);
    err = call_info(call, arena, &result->allocate.call);
    if (err < 0)
        call_end(core, call); /* the client gets an error, so it would never release the call */
    return err;
}

int core_allocate(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    const char *call_sid = command->allocate.call_sid;
    struct call *call = call_find(core, call_sid);
    struct waiter *waiter = call ? NULL : waiter_find(core, call_sid);

    result->allocate.attempt = command->allocate.attempt;
    if ((call || waiter) && command->allocate.is_webhook &&
        call_is_of_others(call ? call->provider : waiter->provider, command->allocate.provider)) {
        result_forbid(result);
        return 0;
    }
    if (call && !count_resume(core, command, &call->resumes))
        return fail_conflict(arena, result, REFUSED_RESUME);
    if (call)
        return allocate_existing(core, call, command, arena, result);
    if (waiter)
        return allocate_waiting(core, waiter, command, arena, result);
    if (command->allocate.is_resume &&
        tombstones_find(&core->tombstones, call_sid, core->now_ms, &result->allocate.why)) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->allocate.has_ended = true;
        return 0;
    }
    return allocate_new(core, command, arena, result);
}
