/*
 * fault.c - finds what is not valid in a command, before it is executed.
 */
#include "core/command.h"

static bool sids_are_valid(const char *const *call_sids, size_t count)
{
    if (count > SIDS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!name_is_call_sid(call_sids[i], strlen(call_sids[i])))
            return false;
    }
    return true;
}

/* It stands in keys and, between commas, in records. */
static bool carrier_is_valid(const char *carrier)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(carrier);

    return len > 0 && len <= CARRIER_MAX && strspn(carrier, allowed) == len;
}

static const char *renew_fault(const struct command *command)
{
    if (!sids_are_valid(command->renew.call_sids, command->renew.count))
        return "call_sids are not valid";
    for (size_t i = 0; command->renew.providers && i < command->renew.count; i++) {
        const char *provider = command->renew.providers[i];

        if (provider[0] && !name_is_provider(provider, strlen(provider)))
            return "provider is not valid";
    }
    return NULL;
}

static const char *allocate_fault(const struct command *command)
{
    const char *call_sid = command->allocate.call_sid;
    const char *merchant_id = command->allocate.merchant_id;
    const char *provider = command->allocate.provider;

    if (!name_is_call_sid(call_sid, strlen(call_sid)))
        return "call_sid is not valid";
    if (merchant_id[0] && !name_is_merchant_id(merchant_id, strlen(merchant_id)))
        return "merchant_id is not valid";
    if (provider[0] && !name_is_provider(provider, strlen(provider)))
        return "provider is not valid";
    return NULL;
}

static const char *seen_fault(const struct pod_seen *seen, bool is_sync, const struct tier_config *tiers)
{
    if (!name_is_pod(seen->name, strlen(seen->name)))
        return "pod_name " POD_NAME_RULE;
    if (is_sync && seen->is_kept)
        return NULL; /* the name is all that counts */
    if (!name_is_address(seen->address, strlen(seen->address)))
        return "address must be host:port";
    if (seen->incarnation && !name_is_incarnation(seen->incarnation, strlen(seen->incarnation)))
        return "incarnation must be 1 to 127 printable characters";
    if (seen->tier && !tier_config_resolve(tiers, seen->tier))
        return "tier is not configured";
    return NULL;
}

static const char *sync_fault(const struct command *command, const struct tier_config *tiers)
{
    for (size_t i = 0; i < command->sync.count; i++) {
        const char *fault = seen_fault(&command->sync.pods[i], true, tiers);

        if (fault)
            return fault;
    }
    return NULL;
}

const char *command_fault(const struct command *command, const struct tier_config *tiers)
{
    switch (command->type) {
    case COMMAND_ALLOCATE:
        return allocate_fault(command);
    case COMMAND_RENEW:
        return renew_fault(command);
    case COMMAND_PRESENT:
        return carrier_is_valid(command->present.carrier) ? NULL : "carrier is not valid";
    case COMMAND_HEARTBEAT:
        return sids_are_valid(command->heartbeat.call_sids, command->heartbeat.count)
                   ? NULL
                   : "call_sids are not valid";
    case COMMAND_POD_SEEN:
        return seen_fault(&command->pod_seen.pod, false, tiers);
    case COMMAND_SYNC:
        return sync_fault(command, tiers);
    case COMMAND_MERCHANT_SET:
        return name_is_merchant_id(command->merchant_set.merchant_id,
                                   strlen(command->merchant_set.merchant_id))
                   ? NULL
                   : "merchant_id is not valid";
    default:
        return NULL;
    }
}
