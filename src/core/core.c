/*
 * core.c - makes and frees a core, dispatches commands, and carries out the commands that set
 * tiers and merchants.
 */
#include "core/core.h"

#include <stdlib.h>

#include "core/state.h"

enum { MERCHANT_ARENA_MAX = 256 * 1024 };

int core_new(const struct core_settings *settings, struct core **ret_core)
{
    CLEANUP(core_freep) struct core *core = calloc(1, sizeof(*core));
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    char error[128];
    int rc;

    if (!core)
        return -ENOMEM;
    core->settings = *settings;
    map_init(&core->pools);
    map_init(&core->pods);
    map_init(&core->calls);
    map_init(&core->merchants);
    refusals_init(&core->refusals);
    overs_init(&core->overs);
    heap_init(&core->pods_due);
    heap_init(&core->leases);
    rc = tier_config_parse(NULL, 0, &tiers, error, sizeof(error));
    if (rc)
        return rc;
    rc = pools_configure(core, tiers);
    if (rc)
        return rc;
    (void)TAKE(tiers);
    *ret_core = TAKE(core);
    return 0;
}

struct core *core_free(struct core *core)
{
    if (!core)
        return NULL;
    while (core->calls.count) {
        struct heap_node *node = heap_first(&core->leases);

        call_free(core, CONTAINER_OF(node, struct call, lease));
    }
    while (core->pods.count)
        pod_free(core, core->pods_by_name[core->pods.count - 1]);
    for (size_t i = 0; i < core->merchants.bucket_count; i++) {
        while (core->merchants.buckets[i])
            merchant_free(core, CONTAINER_OF(core->merchants.buckets[i], struct merchant, node));
    }
    refusals_release(&core->refusals);
    overs_release(&core->overs);
    pools_free(core);
    tier_config_free(core->tiers);
    map_release(&core->pods);
    map_release(&core->calls);
    map_release(&core->merchants);
    heap_release(&core->pods_due);
    heap_release(&core->leases);
    free(core->pods_by_name);
    free(core->slots);
    free(core->free_slots);
    free(core);
    return NULL;
}

void core_freep(struct core **core)
{
    core_free(*core);
}

void core_on_record(struct core *core, record_fn fn, void *arg)
{
    core->on_record = fn;
    core->on_record_arg = arg;
}

void core_on_ended(struct core *core, call_ended_fn fn, void *arg)
{
    core->on_ended = fn;
    core->on_ended_arg = arg;
}

void core_on_over(struct core *core, call_over_fn fn, void *arg)
{
    core->on_over = fn;
    core->on_over_arg = arg;
}

void core_listens_again(struct core *core, uint64_t now_ms)
{
    uint64_t lease_end_ms;

    core->now_ms = max_u64(core->now_ms, now_ms);
    lease_end_ms = core->now_ms + core->settings.lease_ttl_ms;
    /*
     * Without records: should the process end before these leases do, whoever loads the older ones comes here
     * again. Raising a lease while walking the slots leaves the heap in order.
     */
    for (uint32_t i = 0; i < core->slot_count; i++) {
        struct call *call = core->slots[i];

        if (call && call->lease.at < lease_end_ms)
            heap_set(&core->leases, &call->lease, lease_end_ms);
    }
    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (pod->source == POD_SOURCE_API) {
            pod->heartbeat_at_ms = core->now_ms;
            pod_place(core, pod);
        }
    }
}

void core_report(struct core *core, const struct record *record)
{
    if (core->on_record)
        core->on_record(core->on_record_arg, record);
}

size_t core_call_count(const struct core *core)
{
    return core->calls.count;
}

size_t core_pod_count(const struct core *core)
{
    return core->pods.count;
}

int fail_invalid(struct arena *arena, struct result *result, const char *message)
{
    result->outcome = OUTCOME_INVALID;
    result->error = arena_strdup(arena, message);
    return result->error ? 0 : -ENOMEM;
}

int fail_conflict(struct arena *arena, struct result *result, const char *message)
{
    int rc = fail_invalid(arena, result, message);

    result->outcome = OUTCOME_CONFLICT;
    return rc;
}

int core_execute(struct core *core, const struct command *command, uint64_t now_ms, struct arena *arena,
                 struct result *ret_result)
{
    static int (*const commands[COMMAND_TYPES])(struct core *, const struct command *, struct arena *,
                                                struct result *) = {
        [COMMAND_ALLOCATE] = core_allocate,
        [COMMAND_UNDO] = core_undo,
        [COMMAND_RELEASE] = core_release,
        [COMMAND_HOLD] = core_hold,
        [COMMAND_LEAVE] = core_leave,
        [COMMAND_RENEW] = core_renew,
        [COMMAND_PRESENT] = core_present,
        [COMMAND_HEARTBEAT] = core_heartbeat,
        [COMMAND_DRAIN] = core_drain,
        [COMMAND_UNDRAIN] = core_undrain,
        [COMMAND_MOVE_CALL] = core_move_call,
        [COMMAND_POD_SEEN] = core_pod_seen,
        [COMMAND_POD_GONE] = core_pod_gone,
        [COMMAND_SYNC] = core_sync,
        [COMMAND_SWEEP] = core_sweep,
        [COMMAND_REBALANCE] = core_rebalance,
        [COMMAND_TIERS_SET] = core_tiers_set,
        [COMMAND_MERCHANT_SET] = core_merchant_set,
        [COMMAND_MERCHANT_REMOVE] = core_merchant_remove,
        [COMMAND_STATUS] = core_status,
        [COMMAND_PODS] = core_pods,
        [COMMAND_POD] = core_pod,
        [COMMAND_CALLS] = core_calls,
        [COMMAND_CALL] = core_call,
        [COMMAND_MERCHANTS] = core_merchants,
        [COMMAND_MERCHANT] = core_merchant,
        [COMMAND_TIERS] = core_tiers,
    };

    const char *fault;

    assert(command->type < COMMAND_TYPES);
    core->now_ms = max_u64(core->now_ms, now_ms);
    memset(ret_result, 0, sizeof(*ret_result));
    fault = command_fault(command, core->tiers);
    if (fault)
        return fail_invalid(arena, ret_result, fault);
    return commands[command->type](core, command, arena, ret_result);
}

int core_tiers_set(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    const struct command rebalance = {.type = COMMAND_REBALANCE, .rebalance = {.limit = SIZE_MAX}};
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    struct result moved = {0};
    char error[256] = "";
    int rc = tier_config_parse(command->tiers_set.text, strlen(command->tiers_set.text), &config, error,
                               sizeof(error));

    if (rc == -EINVAL)
        return fail_invalid(arena, result, error);
    if (rc)
        return rc;
    rc = pools_configure(core, config);
    if (rc)
        return rc;
    core_report(core, &(struct record){.type = RECORD_TIERS, .tiers = {.text = config->text}});
    (void)TAKE(config);
    /* At once: an idle pod must not stay in a pool that no chain reaches any more. */
    return core_rebalance(core, &rebalance, arena, &moved);
}

struct merchant *merchant_find(const struct core *core, const char *id)
{
    struct map_node *node = map_get(&core->merchants, id, strlen(id));

    return node ? CONTAINER_OF(node, struct merchant, node) : NULL;
}

void merchant_free(struct core *core, struct merchant *merchant)
{
    map_remove(&core->merchants, &merchant->node);
    arena_release(&merchant->arena);
    free(merchant->text);
    free(merchant);
}

int merchant_put(struct core *core, const char *id, const char *text)
{
    struct merchant *old = merchant_find(core, id);
    struct merchant *merchant = calloc(1, sizeof(*merchant) + strlen(id) + 1);
    char error[128];

    if (!merchant)
        return -ENOMEM;
    memcpy(merchant->id, id, strlen(id) + 1);
    merchant->text = strdup(text);
    if (!merchant->text || map_reserve(&core->merchants)) {
        free(merchant->text);
        free(merchant);
        return -ENOMEM;
    }
    arena_init(&merchant->arena, MERCHANT_ARENA_MAX);
    merchant->is_readable = merchant_config_parse(&merchant->arena, merchant->text, strlen(merchant->text),
                                                  &merchant->config, error, sizeof(error)) == 0;
    if (old)
        merchant_free(core, old);
    map_put(&core->merchants, &merchant->node, merchant->id, strlen(merchant->id));
    return 0;
}

int core_merchant_set(struct core *core, const struct command *command, struct arena *arena,
                      struct result *result)
{
    const char *id = command->merchant_set.merchant_id;
    const char *text = command->merchant_set.text;
    struct merchant_config config;
    char error[128] = "";
    int rc;

    rc = merchant_config_parse(arena, text, strlen(text), &config, error, sizeof(error));
    if (rc == -EINVAL)
        return fail_invalid(arena, result, error);
    if (rc)
        return rc;
    if (!merchant_find(core, id) && core->merchants.count >= MERCHANTS_MAX)
        return fail_conflict(arena, result, "there are too many merchants");
    rc = merchant_put(core, id, text);
    if (rc)
        return rc;
    core_report(core, &(struct record){.type = RECORD_MERCHANT, .merchant = {.id = id, .text = text}});
    return 0;
}

int core_merchant_remove(struct core *core, const struct command *command, struct arena *arena UNUSED,
                         struct result *result)
{
    struct merchant *merchant = merchant_find(core, command->merchant.merchant_id);

    if (!merchant) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    core_report(core, &(struct record){.type = RECORD_MERCHANT_GONE, .merchant = {.id = merchant->id}});
    merchant_free(core, merchant);
    return 0;
}
