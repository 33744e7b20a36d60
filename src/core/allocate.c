#include <stdio.h>
#include <stdlib.h>

#include "core/state.h"

const struct refusal *refusal_find(const struct core *core, const char *call_sid)
{
    struct map_node *node = map_get(&core->refusals, call_sid, strlen(call_sid));

    return node ? &CONTAINER_OF(node, struct refusal_entry, node)->refusal : NULL;
}

int refusal_copy(const struct refusal *refusal, struct arena *arena, const struct refusal **ret_copy)
{
    struct refusal *copy = arena_alloc(arena, sizeof(*copy));
    size_t size = refusal->count * sizeof(*refusal->steps);

    if (!copy)
        return -ENOMEM;
    *copy = *refusal;
    copy->steps = arena_alloc(arena, size ? size : 1);
    if (!copy->steps)
        return -ENOMEM;
    memcpy(copy->steps, refusal->steps, size);
    *ret_copy = copy;
    return 0;
}

static void refusal_forget(struct core *core, struct refusal_entry *entry)
{
    if (!entry->call_sid[0])
        return;
    map_remove(&core->refusals, &entry->node);
    free(entry->refusal.steps);
    entry->call_sid[0] = '\0';
}

void refusals_free(struct core *core)
{
    for (size_t i = 0; core->refusal_ring && i < REFUSALS_KEPT; i++)
        refusal_forget(core, &core->refusal_ring[i]);
    free(core->refusal_ring);
    map_release(&core->refusals);
}

/* Keeps a copy for whoever asks later; without memory for it the answer is given all the same. */
static void refusal_remember(struct core *core, const char *call_sid, const struct refusal *refusal)
{
    struct map_node *known = map_get(&core->refusals, call_sid, strlen(call_sid));
    struct refusal_entry *entry;
    struct refusal_step *steps;
    size_t size = refusal->count * sizeof(*steps);

    if (!core->refusal_ring)
        core->refusal_ring = calloc(REFUSALS_KEPT, sizeof(*core->refusal_ring));
    steps = malloc(size ? size : 1);
    if (!core->refusal_ring || !steps || map_reserve(&core->refusals)) {
        free(steps);
        return;
    }
    if (known) {
        entry = CONTAINER_OF(known, struct refusal_entry, node);
    } else {
        entry = &core->refusal_ring[core->refusal_next];
        core->refusal_next = (core->refusal_next + 1) % REFUSALS_KEPT;
    }
    refusal_forget(core, entry);
    memcpy(steps, refusal->steps, size);
    entry->refusal = *refusal;
    entry->refusal.steps = steps;
    snprintf(entry->call_sid, sizeof(entry->call_sid), "%s", call_sid);
    map_put(&core->refusals, &entry->node, entry->call_sid, strlen(entry->call_sid));
}

static int refuse(struct core *core, const struct command *command, const struct chain *chain,
                  struct arena *arena, struct result *result)
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
    refusal_remember(core, command->allocate.call_sid, refusal);
    result->outcome = OUTCOME_NO_PODS;
    result->allocate.refusal = refusal;
    return 0;
}

/* How long a call may go on before somebody has renewed its lease. */
static uint64_t first_lease_ms(const struct core *core)
{
    return core->settings.connect_timeout_ms ? core->settings.connect_timeout_ms
                                             : core->settings.call_max_duration_ms;
}

int core_allocate(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    const char *call_sid = command->allocate.call_sid;
    const char *merchant_id = command->allocate.merchant_id;
    const struct merchant *merchant = NULL;
    struct pod *pod = NULL;
    struct chain chain;
    struct call *call;
    int rc;

    if (!name_is_call_sid(call_sid, strlen(call_sid)))
        return fail_invalid(arena, result, "call_sid is not valid");
    if (merchant_id[0] && !name_is_merchant_id(merchant_id, strlen(merchant_id)))
        return fail_invalid(arena, result, "merchant_id is not valid");
    if (command->allocate.provider[0] &&
        !name_is_provider(command->allocate.provider, strlen(command->allocate.provider)))
        return fail_invalid(arena, result, "provider is not valid");

    call = call_find_live(core, call_sid);
    if (call) {
        result->allocate.was_existing = true;
        return call_info(call, arena, &result->allocate.call);
    }
    if (merchant_id[0])
        merchant = merchant_find(core, merchant_id);
    result->allocate.merchant_unreadable = merchant && !merchant->is_readable;
    chain_resolve(core->tiers, merchant && merchant->is_readable ? &merchant->config : NULL, &chain);
    for (size_t i = 0; i < chain.len && !pod; i++)
        pod = pool_least_loaded(core->tier_pools[chain.steps[i] - core->tiers->tiers]);
    if (!pod)
        return refuse(core, command, &chain, arena, result);

    rc = call_new(core, call_sid, merchant_id, command->allocate.provider, pod, pod->pool, core->now_ms,
                  core->now_ms + first_lease_ms(core), &call);
    if (rc)
        return rc;
    pod_place(core, pod);
    call_report(core, call);
    rc = call_info(call, arena, &result->allocate.call);
    if (rc)
        call_end(core, call); /* nobody will hear of it, so nobody would ever release it */
    return rc;
}

int core_release(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    /* A call whose lease has just run out is released like any other: its slot is still its own. */
    struct call *call = call_find(core, command->release.call_sid);
    struct pod *pod;
    int rc;

    if (!call) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    rc = call_info(call, arena, &result->release.call);
    if (rc)
        return rc;
    pod = call->pod;
    result->release.was_draining = pod_is_draining(core, pod);
    result->release.released_to = "";
    if (!call_end(core, call)) {
        result->release.released_to = arena_strdup(arena, pod->pool->label);
        if (!result->release.released_to)
            return -ENOMEM;
    }
    return 0;
}
