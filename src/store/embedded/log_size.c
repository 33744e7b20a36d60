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
    LOG_SIZE_SMALL = 2 * (LOG_SIZE_CALL + LOG_SIZE_POD) + LOG_SIZE_TOMBSTONE + LOG_SIZE_RENEWED,
    LOG_SIZE_POD_CALLS = TIER_CONCURRENT_MAX * LOG_SIZE_CALL_GONE,
};

static size_t log_size_of_text(const char *text)
{
    return text ? strlen(text) : 0;
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

/* Each call is renewed, or adopted, or recorded again because its provider is known now. */
static size_t log_size_renew(const struct command *command, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL +
           command->renew.count * (LOG_SIZE_CALL_GONE + LOG_SIZE_CALL + 2 * LOG_SIZE_RENEWED + LOG_SIZE_POD);
}

/* Each listed call is renewed or adopted. All others of the pod may end. */
static size_t log_size_heartbeat(const struct command *command, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL + LOG_SIZE_POD_CALLS +
           command->heartbeat.count * (LOG_SIZE_CALL + LOG_SIZE_RENEWED + LOG_SIZE_POD);
}

/* One pod changes, and all its calls may end. */
static size_t log_size_pod_calls(const struct command *command UNUSED, const struct core *core UNUSED)
{
    return LOG_SIZE_SMALL + LOG_SIZE_POD_CALLS;
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
    return LOG_SIZE_SMALL + size;
}

static size_t log_size_sweep(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->sweep.limit, core_pod_count(core), core_call_count(core));
}

static size_t log_size_rebalance(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->rebalance.limit, core_pod_count(core), 0);
}

static size_t log_size_scale(const struct command *command, const struct core *core)
{
    return log_size_of_step(command->scale.limit, core_pod_count(core), 0);
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
           core_pod_count(core) * LOG_SIZE_POD;
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
