/*
 * command_table.c - how Redis executes each command: one line for each row of core/command_table.h.
 *
 * A command without a line does not compile. Lines of the first kind name the command and its script;
 * NAME_encode() makes the arguments of the script and NAME_decode() reads its answer. Lines of the
 * second kind name a command with a function of its own, operation_NAME(), that sends several scripts
 * or none.
 */
#include "store/redis/redis_internal.h"

/*
 * If the script meets a list of the wrong type: MENDED: the list is mended, and the script is sent again.
 * FAILS: the command is answered with the error.
 */
enum { FAILS, MENDED };

#define SCRIPT(name, script_name, on_wrong_type)                                                             \
    {                                                                                                        \
        .start = operation_send, .script = script_name, .encode = name##_encode, .decode = name##_decode,    \
        .is_mended = (on_wrong_type) == MENDED                                                               \
    }
#define FUNCTION(name)                                                                                       \
    {                                                                                                        \
        .start = operation_##name                                                                            \
    }

#define REDIS_ALLOCATE SCRIPT(allocate, SCRIPT_RELEASE_AND_ALLOCATE, MENDED)
#define REDIS_UNDO SCRIPT(undo, SCRIPT_UNDO, FAILS)
#define REDIS_RELEASE SCRIPT(release, SCRIPT_RELEASE_AND_ALLOCATE, FAILS)
#define REDIS_HOLD SCRIPT(hold, SCRIPT_HOLD, FAILS)
#define REDIS_KEEP FUNCTION(keep)
#define REDIS_SERVE FUNCTION(serve)
#define REDIS_DEPART FUNCTION(depart)
#define REDIS_LEAVE SCRIPT(leave, SCRIPT_LEAVE, FAILS)
#define REDIS_RENEW FUNCTION(renew)
#define REDIS_PRESENT SCRIPT(present, SCRIPT_PRESENT, FAILS)
#define REDIS_HEARTBEAT FUNCTION(heartbeat)
#define REDIS_DRAIN SCRIPT(drain, SCRIPT_DRAIN, FAILS)
#define REDIS_UNDRAIN SCRIPT(undrain, SCRIPT_UNDRAIN, FAILS)
#define REDIS_MOVE_CALL SCRIPT(move_call, SCRIPT_MOVE_CALL, MENDED)
#define REDIS_POD_SEEN FUNCTION(pod_seen)
#define REDIS_POD_GONE FUNCTION(pod_gone)
#define REDIS_SYNC FUNCTION(sync)
#define REDIS_SWEEP FUNCTION(sweep)
#define REDIS_REBALANCE FUNCTION(rebalance)
#define REDIS_SCALE FUNCTION(scale)
#define REDIS_TIERS_SET FUNCTION(tiers_set)
#define REDIS_MERCHANT_SET FUNCTION(merchant_set)
#define REDIS_MERCHANT_REMOVE FUNCTION(merchant_remove)
/* With sets: several scripts. */
#define REDIS_STATUS                                                                                         \
    {                                                                                                        \
        .start = operation_status, .script = SCRIPT_STATUS, .encode = status_encode,                         \
        .decode = status_decode, .is_mended = true                                                           \
    }
#define REDIS_PODS FUNCTION(pods)
#define REDIS_POD SCRIPT(pod, SCRIPT_PODS, MENDED)
#define REDIS_CALLS FUNCTION(calls)
#define REDIS_CALL SCRIPT(call, SCRIPT_CALLS, MENDED)
#define REDIS_WAITING FUNCTION(waiting)
#define REDIS_STORY SCRIPT(story, SCRIPT_CALLS, MENDED)
#define REDIS_MERCHANTS FUNCTION(merchants)
#define REDIS_MERCHANT FUNCTION(merchant)
#define REDIS_TIERS FUNCTION(tiers)
#define REDIS_HISTORY SCRIPT(history, SCRIPT_HISTORY, FAILS)

#define SPEC(TYPE, ...) [COMMAND_##TYPE] = REDIS_##TYPE,

const struct command_spec *command_spec(enum command_type type)
{
    static const struct command_spec specs[COMMAND_TYPES] = {COMMAND_TABLE(SPEC)};

    assert(type < COMMAND_TYPES);
    return &specs[type];
}
