/*
 * command.c - what core/command_table.h says of each command, as functions.
 */
#include "core/command.h"

enum command_kind { LOOKS, CHANGES, URGENT };
enum command_answer { PLAIN, SURE };

struct command_facts {
    const char *name;
    enum command_kind kind;
    enum command_answer answer;
    bool (*is_for_leader)(const struct command *command);
    size_t ended_at; /* where the ended calls are in the result; 0: it ends none */
};

static bool leader_never(const struct command *command UNUSED)
{
    return false;
}

static bool leader_always(const struct command *command UNUSED)
{
    return true;
}

/* Pods register themselves through any router. All other sources of pods are the leader's. */
static bool leader_pod_seen(const struct command *command)
{
    return command->pod_seen.pod.source != POD_SOURCE_API;
}

static bool leader_pod_gone(const struct command *command)
{
    return command->pod_gone.source != POD_SOURCE_API;
}

#define ENDED_AT_KEEPS(member) 0
#define ENDED_AT_ENDS(member) offsetof(struct result, member.ended)

#define FACTS(TYPE, lower, the_kind, leader, check, records, ends, events, the_answer)                       \
    [COMMAND_##TYPE] = {                                                                                     \
        .name = #lower,                                                                                      \
        .kind = the_kind,                                                                                    \
        .answer = the_answer,                                                                                \
        .is_for_leader = leader_##leader,                                                                    \
        .ended_at = ENDED_AT_##ends(lower),                                                                  \
    },

static const struct command_facts *command_facts(enum command_type type)
{
    static const struct command_facts facts[COMMAND_TYPES] = {COMMAND_TABLE(FACTS)};

    assert(type < COMMAND_TYPES);
    return &facts[type];
}

const char *command_name(enum command_type type)
{
    return command_facts(type)->name;
}

bool command_only_looks(enum command_type type)
{
    return command_facts(type)->kind == LOOKS;
}

bool command_is_urgent(enum command_type type)
{
    return command_facts(type)->kind == URGENT;
}

bool command_must_be_sure(enum command_type type)
{
    return command_facts(type)->answer == SURE;
}

bool command_is_for_leader(const struct command *command)
{
    return command_facts(command->type)->is_for_leader(command);
}

const struct ended_array *command_ended(enum command_type type, const struct result *result)
{
    size_t at = command_facts(type)->ended_at;

    return at ? (const struct ended_array *)(const void *)((const char *)result + at) : NULL;
}

const char *renewer_name(enum renewer renewer)
{
    static const char *const names[RENEWERS] = {
        [RENEWED_BY_NOBODY] = "",
        [RENEWED_BY_CLIENT] = "client",
        [RENEWED_BY_POD] = "pod",
        [RENEWED_BY_GATEWAY] = "gateway",
    };

    assert(renewer < RENEWERS);
    return names[renewer];
}

const char *call_state_name(enum call_state state)
{
    static const char *const names[CALL_STATES] = {
        [CALL_IS_ANY] = "",
        [CALL_IS_ALLOCATED] = "allocated",
        [CALL_IS_ACTIVE] = "active",
        [CALL_IS_CONNECTED] = "connected",
        [CALL_IS_EXPIRED] = "expired",
        [CALL_IS_GRANTED] = "granted",
    };

    assert(state < CALL_STATES);
    return names[state];
}

void call_set_state(struct call_info *call, uint64_t now_ms)
{
    struct call_activity *activity = &call->activity;

    activity->state = activity->is_granted            ? CALL_IS_GRANTED
                      : call->expires_at_ms <= now_ms ? CALL_IS_EXPIRED
                      : activity->is_connected        ? CALL_IS_CONNECTED
                      : activity->was_renewed         ? CALL_IS_ACTIVE
                                                      : CALL_IS_ALLOCATED;
}

const char *finish_reason_name(enum finish_reason reason)
{
    static const char *const names[FINISH_REASONS] = {
        [FINISH_RELEASED] = "released",
        [FINISH_CLOSED] = "closed",
        [FINISH_TIMED_OUT] = "timed_out",
    };

    assert(reason < FINISH_REASONS);
    return names[reason];
}

bool release_ends_wait(const struct result *result)
{
    return result->release.was_waiting || result->release.was_granted;
}

const char *wait_end_name(enum wait_end end)
{
    static const char *const names[WAIT_ENDS] = {
        [WAIT_GRANTED] = "granted",
        [WAIT_ABANDONED] = "abandoned",
        [WAIT_TIMED_OUT] = "timed_out",
        [WAIT_FULL] = "full",
    };

    assert(end < WAIT_ENDS);
    return names[end];
}
