/*
 * validate.c - finds invalid arguments of a command, before it is executed.
 */
#include "core/state.h"

/* Redis keeps the places in line as doubles: larger ones would not be exact. */
#define KEEP_TIME_MAX (UINT64_C(1) << 52)

const char *validate_nothing(const struct command *command UNUSED, const struct tier_config *tiers UNUSED)
{
    return NULL;
}

static const char *validate_sids(const char *const *call_sids, size_t count)
{
    static const char not_valid[] = "call_sids are not valid";

    if (count > SIDS_MAX)
        return not_valid;
    for (size_t i = 0; i < count; i++) {
        if (!name_is_call_sid(call_sids[i], strlen(call_sids[i])))
            return not_valid;
    }
    return NULL;
}

/* "" is allowed: the provider is not known. */
static const char *validate_provider(const char *provider)
{
    return provider[0] && !name_is_provider(provider, strlen(provider)) ? "provider is not valid" : NULL;
}

/* The name of a carrier is part of keys, and stands between commas in the data of a call. */
static bool is_carrier(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len <= CARRIER_MAX && strspn(name, allowed) == len;
}

const char *validate_allocate(const struct command *command, const struct tier_config *tiers UNUSED)
{
    const char *call_sid = command->allocate.call_sid;
    const char *merchant_id = command->allocate.merchant_id;

    if (!name_is_call_sid(call_sid, strlen(call_sid)))
        return "call_sid is not valid";
    if (merchant_id[0] && !name_is_merchant_id(merchant_id, strlen(merchant_id)))
        return "merchant_id is not valid";
    if (command->allocate.holder && !is_carrier(command->allocate.holder))
        return "holder is not valid";
    return validate_provider(command->allocate.provider);
}

const char *validate_renew(const struct command *command, const struct tier_config *tiers UNUSED)
{
    const char *fault = validate_sids(command->renew.call_sids, command->renew.count);

    for (size_t i = 0; !fault && command->renew.providers && i < command->renew.count; i++)
        fault = validate_provider(command->renew.providers[i]);
    return fault;
}

const char *validate_present(const struct command *command, const struct tier_config *tiers UNUSED)
{
    return is_carrier(command->present.carrier) ? NULL : "carrier is not valid";
}

const char *validate_keep(const struct command *command, const struct tier_config *tiers UNUSED)
{
    const char *fault = command->keep.count > SIDS_MAX ? "too many call_sids" : NULL;

    if (!fault && !is_carrier(command->keep.holder))
        fault = "holder is not valid";

    for (size_t i = 0; !fault && i < command->keep.count; i++) {
        const struct waiting_call *call = &command->keep.calls[i].call;

        if (!name_is_call_sid(call->call_sid, strlen(call->call_sid)))
            fault = "call_sid is not valid";
        else if (call->merchant_id[0] && !name_is_merchant_id(call->merchant_id, strlen(call->merchant_id)))
            fault = "merchant_id is not valid";
        else if (call->since_ms > KEEP_TIME_MAX || call->until_ms > KEEP_TIME_MAX ||
                 call->claim > KEEP_TIME_MAX)
            fault = "the time of a waiting call is not valid";
        else
            fault = validate_provider(call->provider);
    }
    return fault;
}

const char *validate_depart(const struct command *command, const struct tier_config *tiers UNUSED)
{
    return validate_sids(command->depart.call_sids, command->depart.count);
}

const char *validate_heartbeat(const struct command *command, const struct tier_config *tiers UNUSED)
{
    return validate_sids(command->heartbeat.call_sids, command->heartbeat.count);
}

static const char *validate_seen(const struct pod_seen *seen, const struct tier_config *tiers)
{
    if (!name_is_address(seen->address, strlen(seen->address)))
        return "address must be host:port";
    if (seen->incarnation && !name_is_incarnation(seen->incarnation, strlen(seen->incarnation)))
        return "incarnation must be 1 to 127 printable characters";
    if (seen->tier && !tier_config_resolve(tiers, seen->tier))
        return "tier is not configured";
    return NULL;
}

static const char *validate_pod_name(const char *name)
{
    return name_is_pod(name, strlen(name)) ? NULL : "pod_name " POD_NAME_RULE;
}

const char *validate_pod_seen(const struct command *command, const struct tier_config *tiers)
{
    const struct pod_seen *seen = &command->pod_seen.pod;
    const char *fault = validate_pod_name(seen->name);

    return fault ? fault : validate_seen(seen, tiers);
}

const char *validate_sync(const struct command *command, const struct tier_config *tiers)
{
    for (size_t i = 0; i < command->sync.count; i++) {
        const struct pod_seen *seen = &command->sync.pods[i];
        const char *fault = validate_pod_name(seen->name);

        /* Only the name of a pod that is kept as it is counts. */
        if (!fault && !seen->is_kept)
            fault = validate_seen(seen, tiers);
        if (fault)
            return fault;
    }
    return NULL;
}

const char *validate_merchant_set(const struct command *command, const struct tier_config *tiers UNUSED)
{
    const char *id = command->merchant_set.merchant_id;

    return name_is_merchant_id(id, strlen(id)) ? NULL : "merchant_id is not valid";
}

const char *command_validate(const struct command *command, const struct tier_config *tiers)
{
#define VALIDATE(TYPE, name, kind, leader, check, ...) [COMMAND_##TYPE] = validate_##check,
    static const char *(*const validate[COMMAND_TYPES])(
        const struct command *, const struct tier_config *) = {COMMAND_TABLE(VALIDATE)};

    assert(command->type < COMMAND_TYPES);
    return validate[command->type](command, tiers);
}
