/*
 * core.c - makes and frees a core, and dispatches commands.
 */
#include "core/core.h"

#include <stdlib.h>

#include "core/state.h"

int core_new(const struct core_settings *settings, struct core **ret_core)
{
    CLEANUP(core_freep) struct core *core = calloc(1, sizeof(*core));
    CLEANUP(tier_config_freep) struct tier_config *tiers = NULL;
    char error[128];
    int err;

    if (!core)
        return -ENOMEM;
    core->settings = *settings;
    map_init(&core->pools);
    map_init(&core->pods);
    map_init(&core->calls);
    map_init(&core->merchants);
    list_init(&core->closed);
    line_init(&core->line);
    histories_init(&core->histories);
    refusals_init(&core->refusals);
    past_calls_init(&core->past);
    tombstones_init(&core->tombstones);
    heap_init(&core->pods_due);
    heap_init_ordered(&core->leases, call_ends_before);
    err = tier_config_parse(NULL, 0, &tiers, error, sizeof(error));
    if (err < 0)
        return err;
    err = pools_configure(core, tiers);
    if (err < 0)
        return err;
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
    line_release(core);
    while (core->pods.count)
        pod_free(core, core->pods_by_name[core->pods.count - 1]);
    for (size_t i = 0; i < core->merchants.bucket_count; i++) {
        while (core->merchants.buckets[i])
            merchant_free(core, CONTAINER_OF(core->merchants.buckets[i], struct merchant, node));
    }
    assert(core->leases.count == 0 && core->pods_due.count == 0);
    assert(core->merchants.count == 0);
    histories_release(&core->histories);
    refusals_release(&core->refusals);
    past_calls_release(&core->past);
    tombstones_release(&core->tombstones);
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

void core_on_finished(struct core *core, call_finished_fn fn, void *arg)
{
    core->on_finished = fn;
    core->on_finished_arg = arg;
}

void core_on_changed(struct core *core, call_changed_fn fn, void *arg)
{
    core->on_changed = fn;
    core->on_changed_arg = arg;
}

void core_on_choice(struct core *core, core_choice_fn fn, void *arg)
{
    core->on_choice = fn;
    core->on_choice_arg = arg;
}

void core_after_outage(struct core *core, uint64_t now_ms)
{
    uint64_t lease_end_ms;

    core->now_ms = max_u64(core->now_ms, now_ms);
    lease_end_ms = core->now_ms + core->settings.lease_ttl_ms;
    /*
     * Without records: if the process stops before these leases end, loading the old ones calls
     * this function again. The slots do not change when a lease does.
     */
    for (uint32_t i = 0; i < core->slot_count; i++) {
        struct call *call = core->slots[i];

        if (call && call->is_granted) /* the time in which it must be taken begins anew */
            heap_set(&core->leases, &call->lease, core->now_ms + WAIT_TAKE_MS);
        else if (call && call->lease.at < lease_end_ms)
            heap_set(&core->leases, &call->lease, lease_end_ms);
    }
    for (size_t i = 0; i < core->line.all.count; i++)
        waiter_heard(core, core->line.all.waiters[i]);
    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        if (pod->source == POD_SOURCE_API) {
            pod->heartbeat_at_ms = core->now_ms;
            pod_place(core, pod);
        }
    }
}

/* core_apply refuses other records: a log with one could never be loaded. */
static void assert_well_formed(const struct record *record)
{
    switch (record->type) {
    case RECORD_TIERS:
        assert(record->tiers.text);
        break;
    case RECORD_MERCHANT:
        assert(record->merchant.id[0] && record->merchant.text);
        break;
    case RECORD_MERCHANT_GONE:
        assert(record->merchant.id[0]);
        break;
    case RECORD_POD:
        assert(record->pod.name[0] && record->pod.tier[0]);
        assert(record->pod.source <= POD_SOURCE_KUBERNETES);
        break;
    case RECORD_POD_GONE:
        assert(record->pod.name[0]);
        break;
    case RECORD_CALL:
        assert(record->call.call_sid[0] && record->call.pod[0] && record->call.pool[0]);
        break;
    case RECORD_CALL_GONE:
        assert(record->call.call_sid[0]);
        break;
    case RECORD_RENEWED:
        assert(record->renewed.call_sid[0]);
        break;
    case RECORD_RENEWED_BY:
        assert(record->renewed.call_sid[0] && record->renewed.by > 0 && record->renewed.by < RENEWERS);
        break;
    case RECORD_TOMBSTONE:
        assert(record->tombstone.call_sid[0] && record->tombstone.why < FINISH_REASONS);
        break;
    case RECORD_PLACED:
        assert(record->placed.call_sid[0]);
        break;
    case RECORD_WAITING:
    case RECORD_WAITING_GONE:
        assert(record->waiting.call_sid[0]);
        break;
    case RECORD_GRANTED:
        assert(record->granted.call_sid[0]);
        break;
    case RECORD_CONNECTED:
        assert(record->connected.call_sid[0]);
        break;
    case RECORD_VERSION:
        assert(record->version.number > 0);
        assert(record->version.text[0] || record->version.merchant_id[0]); /* there are always tiers */
        break;
    }
}

void core_report(struct core *core, const struct record *record)
{
    assert_well_formed(record);
    core->records++;
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

size_t core_waiting_count(const struct core *core)
{
    return core->line.all.count;
}

size_t core_freed_slots(const struct core *core)
{
    MAP_FOR_EACH (node, &core->pools) {
        const struct pool *pool = CONTAINER_OF(node, struct pool, node);

        if (!pool->is_configured && pool->pod_count)
            return TIER_CONCURRENT_MAX;
    }
    return 1;
}

size_t core_untaken_count(const struct core *core)
{
    return core->line.untaken_count;
}

size_t core_movable_count(const struct core *core)
{
    return core->movable_count;
}

int fail_invalid(struct arena *arena, struct result *result, const char *message)
{
    return result_refuse(result, arena, OUTCOME_INVALID, message);
}

int fail_conflict(struct arena *arena, struct result *result, const char *message)
{
    return result_refuse(result, arena, OUTCOME_CONFLICT, message);
}

/* The outcomes that a command may have, and what comes with them. */
static void assert_answer(enum command_type type, const struct result *result)
{
    switch (result->outcome) {
    case OUTCOME_OK:
    case OUTCOME_NOT_FOUND:
        assert(!result->error);
        break;
    case OUTCOME_NO_PODS:
        assert(type == COMMAND_ALLOCATE || type == COMMAND_MOVE_CALL);
        assert(!result->error);
        break;
    case OUTCOME_WAITING:
        assert(type == COMMAND_ALLOCATE || type == COMMAND_MOVE_CALL || type == COMMAND_HOLD ||
               type == COMMAND_CALL);
        assert(!result->error);
        break;
    case OUTCOME_INVALID:
    case OUTCOME_CONFLICT:
    case OUTCOME_FORBIDDEN:
        assert(result->error);
        break;
    }
}

/*
 * The end of every command that changes something: slots that became free go to the calls in front. Without
 * memory for that, the next command does it.
 */
static void finish_step(struct core *core)
{
    if (!list_is_empty(&core->closed))
        pods_open(core);
    if (!list_is_empty(&core->line.marked) && line_serve(core) < 0)
        assert(!list_is_empty(&core->line.marked));
}

int core_execute(struct core *core, const struct command *command, uint64_t now_ms, struct arena *arena,
                 struct result *ret_result)
{
#define EXECUTE(TYPE, name, ...) [COMMAND_##TYPE] = core_##name,
    static int (*const execute[COMMAND_TYPES])(struct core *, const struct command *, struct arena *,
                                               struct result *) = {COMMAND_TABLE(EXECUTE)};
    uint64_t records = core->records;
    uint64_t lost_calls = core->lost_calls;
    const char *fault;
    int err;

    assert(command->type < COMMAND_TYPES);
    core->now_ms = max_u64(core->now_ms, now_ms);
    memset(ret_result, 0, sizeof(*ret_result));
    fault = command_validate(command, core->tiers);
    if (fault)
        return fail_invalid(arena, ret_result, fault);
    err = execute[command->type](core, command, arena, ret_result);
    if (!command_only_looks(command->type))
        finish_step(core);
    /* It has done what core/command_table.h says of it, and nothing else. */
    assert(core->records == records || !command_only_looks(command->type));
    assert(core->lost_calls == lost_calls || command_ended(command->type, ret_result));
    assert(err == 0 || err == -ENOMEM);
    if (err == 0)
        assert_answer(command->type, ret_result);
    return err;
}
