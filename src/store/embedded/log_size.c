/*
 * log_size.c - computes the upper limit of log bytes for each command.
 */
#include "store/embedded/log_size.h"

#include "base/limits.h"
#include "core/page.h"
#include "core/tiers.h"

enum {
    LOG_SIZE_CALL = CALL_SID_MAX + POD_NAME_MAX + POOL_LABEL_MAX + MERCHANT_ID_MAX + PROVIDER_MAX + 32,
    LOG_SIZE_CALL_GONE = CALL_SID_MAX + 4,
    LOG_SIZE_RENEWED = CALL_SID_MAX + 32,
    LOG_SIZE_POD = POD_NAME_MAX + ADDRESS_MAX + INCARNATION_MAX + POOL_LABEL_MAX + 32,
    LOG_SIZE_TOMBSTONE = CALL_SID_MAX + 32,
    LOG_SIZE_VERSION = MERCHANT_ID_MAX + KEY_NAME_MAX + 32, /* without its text */
    LOG_SIZE_PLACED = CALL_SID_MAX + 16,
    LOG_SIZE_WAITING = CALL_SID_MAX + MERCHANT_ID_MAX + PROVIDER_MAX + 64, /* without its pools */
    LOG_SIZE_WAITING_GONE = CALL_SID_MAX + 4,
    LOG_SIZE_GRANTED = CALL_SID_MAX + 16,
    LOG_SIZE_CONNECTED = CALL_SID_MAX + 4,
    /* A call leaves the line, and gets a pod; without the pools for which it has waited. */
    LOG_SIZE_GRANT = LOG_SIZE_WAITING_GONE + LOG_SIZE_CALL + LOG_SIZE_PLACED + LOG_SIZE_RENEWED +
                     LOG_SIZE_GRANTED + LOG_SIZE_WAITING,
    /* Calls that are granted or rescued by one command. In most installations there are never so many. */
    LOG_GRANTS_MAX = 10000,
    LOG_KEPT_MAX = 50, /* calls that one keep changes */
    LOG_SIZE_SMALL =
        2 * (LOG_SIZE_CALL + LOG_SIZE_POD) + LOG_SIZE_TOMBSTONE + LOG_SIZE_RENEWED + LOG_SIZE_CONNECTED,
    LOG_SIZE_POD_CALLS = TIER_CONCURRENT_MAX * LOG_SIZE_CALL_GONE,
};

static size_t log_size_of_text(const char *text)
{
    return text ? strlen(text) : 0;
}

/* So many slots may become free at once, for the calls that wait. */
static size_t log_size_of_grants(const struct core *core, size_t slots)
{
    /* A granted call whose pod goes waits again, and may be granted another one. */
    size_t waiting = core_waiting_count(core) + core_untaken_count(core);
    size_t count = (size_t)min_u64(min_u64(slots, LOG_GRANTS_MAX), waiting);

    return count ? count * (LOG_SIZE_GRANT + core_chain_size(core)) : 0;
}

/* So many calls may be lost, unless they move to another pod, or into the line, or back into it. */
static size_t log_size_of_rescues(const struct core *core, size_t calls)
{
    size_t movable = core_movable_count(core) + core_untaken_count(core);
    size_t count = (size_t)min_u64(min_u64(calls, LOG_GRANTS_MAX), movable);
    size_t each = LOG_SIZE_CALL + LOG_SIZE_PLACED + LOG_SIZE_RENEWED + LOG_SIZE_CONNECTED + LOG_SIZE_WAITING;

    return count ? count * (each + core_chain_size(core)) : 0;
}

/* A step of a sweep or a rebalance: its limit and the number of pods and calls bound it. */
static size_t log_size_of_step(size_t limit, size_t pods, size_t calls)
{
    limit = step_limit(limit);
    /* A pod may be changed twice: when its last call ends, and when its own time has come. */
    return LOG_SIZE_SMALL + 2 * (size_t)min_u64(limit, pods) * LOG_SIZE_POD +
           (size_t)min_u64(limit + TIER_CONCURRENT_MAX, calls) * LOG_SIZE_CALL_GONE;
}

static size_t log_size_none(const struct command *command UNUSED, const struct core *core UNUSED)
{
    return 0;
}

static size_t log_size_few(const struct command *command UNUSED, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL;
}

/* The call gets a pod, or joins the line, or takes the pod that it was granted. */
static size_t log_size_allocate(const struct command *command, const struct core *core)
{
    size_t joining = command->allocate.waits ? LOG_SIZE_WAITING + WAITING_POOLS_MAX : 0;

    return LOG_SIZE_SMALL + joining + log_size_of_grants(core, 1);
}

/* A call leaves its pod: for the calls in front. */
static size_t log_size_of_freed(const struct core *core)
{
    return core_waiting_count(core) ? log_size_of_grants(core, core_freed_slots(core)) : 0;
}

static size_t log_size_release(const struct command *command UNUSED, const struct core *core)
{
    return LOG_SIZE_SMALL + LOG_SIZE_WAITING_GONE + log_size_of_freed(core);
}

static size_t log_size_undrain(const struct command *command UNUSED, const struct core *core)
{
    return LOG_SIZE_SMALL + log_size_of_grants(core, TIER_CONCURRENT_MAX);
}

static size_t log_size_move_call(const struct command *command UNUSED, const struct core *core)
{
    return LOG_SIZE_SMALL + LOG_SIZE_WAITING + WAITING_POOLS_MAX + log_size_of_freed(core) + LOG_SIZE_GRANT +
           core_chain_size(core);
}

/* Each call is renewed, or adopted, or recorded again because its provider is known now. */
static size_t log_size_renew(const struct command *command, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL +
           command->renew.count * (LOG_SIZE_CALL_GONE + LOG_SIZE_CALL + 2 * LOG_SIZE_RENEWED + LOG_SIZE_POD +
                                   2 * LOG_SIZE_CONNECTED + LOG_SIZE_WAITING_GONE);
}

/* Each listed call is renewed or adopted. All others of the pod may end. */
static size_t log_size_heartbeat(const struct command *command, const struct core *core)
{
    return LOG_SIZE_SMALL + LOG_SIZE_POD_CALLS + log_size_of_grants(core, TIER_CONCURRENT_MAX) +
           command->heartbeat.count *
               (LOG_SIZE_CALL + LOG_SIZE_RENEWED + LOG_SIZE_POD + LOG_SIZE_WAITING_GONE);
}

/* One pod changes, and all its calls may end or go on elsewhere. */
static size_t log_size_pod_calls(const struct command *command UNUSED, const struct core *core)
{
    return LOG_SIZE_SMALL + LOG_SIZE_POD_CALLS + log_size_of_rescues(core, TIER_CONCURRENT_MAX) +
           log_size_of_grants(core, TIER_CONCURRENT_MAX);
}

/* Uses the real lengths: most names are far below the limits, and a sync lists every pod. */
static size_t log_size_sync(const struct command *command, const struct core *core)
{
    size_t size = core_pod_count(core) * LOG_SIZE_POD + core_call_count(core) * LOG_SIZE_CALL_GONE;

    for (size_t i = 0; i < command->sync.count; i++) {
        const struct pod_seen *pod = &command->sync.pods[i];

        size += 2 * (log_size_of_text(pod->name) + log_size_of_text(pod->address) +
                     log_size_of_text(pod->incarnation) + POOL_LABEL_MAX + 64);
    }
    return LOG_SIZE_SMALL + size + log_size_of_rescues(core, SIZE_MAX) + log_size_of_grants(core, SIZE_MAX);
}

static size_t log_size_sweep(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->sweep.limit, core_pod_count(core), core_call_count(core)) +
           log_size_of_rescues(core, step_limit(command->sweep.limit) + TIER_CONCURRENT_MAX) +
           log_size_of_grants(core, SIZE_MAX);
}

/*
 * A call is recorded again with its chain, or joins again, or its wait is over. Mostly none of them is: a
 * keep of many calls must not fail on a full disk for records that it does not make.
 */
static size_t log_size_keep(const struct command *command, const struct core *core)
{
    size_t count = (size_t)min_u64(command->keep.count, LOG_KEPT_MAX);

    return LOG_SIZE_SMALL +
           count * (LOG_SIZE_WAITING + 2 * core_chain_size(core) + LOG_SIZE_TOMBSTONE + LOG_SIZE_GRANT);
}

/* Waits and granted calls end, and the slots of the latter go to others. */
static size_t log_size_serve(const struct command *command, const struct core *core)
{
    size_t limit =
        (size_t)min_u64(step_limit(command->serve.limit), core_waiting_count(core) + core_call_count(core));

    return LOG_SIZE_SMALL +
           limit * (LOG_SIZE_WAITING_GONE + LOG_SIZE_TOMBSTONE + LOG_SIZE_CALL_GONE + LOG_SIZE_POD) +
           log_size_of_grants(core, SIZE_MAX);
}

static size_t log_size_depart(const struct command *command, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL + command->depart.count * LOG_SIZE_RENEWED;
}

static size_t log_size_rebalance(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->rebalance.limit, core_pod_count(core), 0) +
           log_size_of_grants(core, SIZE_MAX);
}

static size_t log_size_scale(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->scale.limit, core_pod_count(core), 0) +
           log_size_of_grants(core, SIZE_MAX);
}

/*
 * The tiers are recorded in their long form. The shortest tier, "a":1, is 6 times as long there.
 * Every pod may move. Two versions are added at most: the new one, and once the one before it.
 */
static size_t log_size_tiers(const struct command *command, const struct core *core)
{
    size_t text = (size_t)min_u64(8 * log_size_of_text(command->tiers_set.text), TIER_CONFIG_STORED_MAX);

    if (command->tiers_set.change.is_stored)
        text = log_size_of_text(command->tiers_set.text);
    return LOG_SIZE_SMALL + 2 * (LOG_SIZE_VERSION + text) + TIER_CONFIG_STORED_MAX +
           core_pod_count(core) * LOG_SIZE_POD + log_size_of_grants(core, SIZE_MAX);
}

static size_t log_size_merchant(const struct command *command, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL + 2 * (LOG_SIZE_VERSION + log_size_of_text(command->merchant_set.text)) +
           MERCHANT_CONFIG_TEXT_MAX;
}

static size_t log_size_removal(const struct command *command UNUSED, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL + 2 * LOG_SIZE_VERSION + MERCHANT_CONFIG_TEXT_MAX;
}

size_t log_size_max(const struct command *command, const struct core *core)
{
#define LOG_SIZE(TYPE, name, kind, leader, check, records, ...) [COMMAND_##TYPE] = log_size_##records,
    static size_t (*const log_size[COMMAND_TYPES])(const struct command *,
                                                   const struct core *) = {COMMAND_TABLE(LOG_SIZE)};

    assert(command->type < COMMAND_TYPES);
    return log_size[command->type](command, core);
}
