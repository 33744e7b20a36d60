/*
 * command.c - the names of commands, and of the ways in which a call was ended on purpose.
 */
#include "core/command.h"

const char *command_name(enum command_type type)
{
    static const char *const names[COMMAND_TYPES] = {
        [COMMAND_ALLOCATE] = "allocate",
        [COMMAND_UNDO] = "undo",
        [COMMAND_RELEASE] = "release",
        [COMMAND_HOLD] = "hold",
        [COMMAND_LEAVE] = "leave",
        [COMMAND_RENEW] = "renew",
        [COMMAND_PRESENT] = "present",
        [COMMAND_HEARTBEAT] = "heartbeat",
        [COMMAND_DRAIN] = "drain",
        [COMMAND_UNDRAIN] = "undrain",
        [COMMAND_MOVE_CALL] = "move_call",
        [COMMAND_POD_SEEN] = "pod_seen",
        [COMMAND_POD_GONE] = "pod_gone",
        [COMMAND_SYNC] = "sync",
        [COMMAND_SWEEP] = "sweep",
        [COMMAND_REBALANCE] = "rebalance",
        [COMMAND_TIERS_SET] = "tiers_set",
        [COMMAND_MERCHANT_SET] = "merchant_set",
        [COMMAND_MERCHANT_REMOVE] = "merchant_remove",
        [COMMAND_STATUS] = "status",
        [COMMAND_PODS] = "pods",
        [COMMAND_POD] = "pod",
        [COMMAND_CALLS] = "calls",
        [COMMAND_CALL] = "call",
        [COMMAND_MERCHANTS] = "merchants",
        [COMMAND_MERCHANT] = "merchant",
        [COMMAND_TIERS] = "tiers",
    };

    assert(type < COMMAND_TYPES);
    return names[type];
}

const char *call_over_name(enum call_over over)
{
    static const char *const names[CALL_OVERS] = {
        [CALL_OVER_RELEASED] = "released",
        [CALL_OVER_CLOSED] = "closed",
        [CALL_OVER_TIMED_OUT] = "timed_out",
    };

    assert(over < CALL_OVERS);
    return names[over];
}
