/*
 * pod_commands.c - the commands pod_seen and pod_gone: a pod comes, changes or goes.
 *
 * A pod that breaks may have more calls than one script should look at: then the script is sent again.
 */
#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

void args_add_seen(struct args *args, const struct pod_seen *seen)
{
    /* Every combination of the three flags is a text of its own, so that nothing has to be built. */
    static const char *const flags[] = {
        "",
        SCRIPT_SEEN_IS_READY,
        SCRIPT_SEEN_IS_TERMINATING,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_IS_TERMINATING,
        SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_TERMINATING SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_IS_TERMINATING SCRIPT_SEEN_HOLD_BACK,
    };
    const struct tier *tier = seen->tier ? tier_config_resolve(args->tiers, seen->tier) : NULL;

    args_add_text(args, seen->name);
    args_add_text(args, seen->address);
    args_add_text(args, seen->incarnation ? seen->incarnation : "");
    args_add_copy(args, tier ? tier->name : "");
    args_add_text(args, pod_source_name(seen->source));
    args_add_text(
        args, flags[(seen->is_ready ? 1 : 0) | (seen->is_terminating ? 2 : 0) | (seen->hold_back ? 4 : 0)]);
    args_add_u64(args, seen->started_at_ms);
}

/* POD_SEEN */

static int pod_seen_send(struct operation *operation);

static int pod_seen_take(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;
    struct slice what;
    int err;

    answer_init(&answer, reply, operation->arena);
    what = answer_slice(&answer);
    if (slice_equals(what, SCRIPT_SEEN_CONFLICT))
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_REGISTRATION);
    if (slice_equals(what, SCRIPT_SEEN_TOO_MANY))
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_FULL_OF_PODS);
    result->pod_seen.is_new = slice_equals(what, SCRIPT_SEEN_NEW);
    result->pod_seen.tier = answer_text(&answer);
    answer_ended(&answer, answer_u64(&answer), &result->pod_seen.ended);
    err = answer_end(operation, &answer);
    if (err < 0 || !slice_equals(what, SCRIPT_SEEN_MORE))
        return err;
    err = pod_seen_send(operation);
    return err < 0 ? err : 1;
}

static void pod_seen_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0)
        err = pod_seen_take(operation, reply);
    if (err <= 0)
        operation_finish(operation, err);
}

static int pod_seen_send(struct operation *operation)
{
    struct args args;

    args_begin_fenced(&args, operation, operation->arena,
                      SCRIPT_SEEN_ARGS + args_chain_room(operation->store) + SCRIPT_SEEN_EACH);
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    args_add_text(&args, operation->command.pod_seen.is_registration ? SCRIPT_YES : "");
    args_add_rescue(&args, operation->store);
    args_add_seen(&args, &operation->command.pod_seen.pod);
    return args_call_with_chain(&args, operation, SCRIPT_SEEN, pod_seen_answered, pod_seen_send);
}

int operation_pod_seen(struct operation *operation)
{
    return pod_seen_send(operation);
}

/* POD_GONE */

static int pod_gone_send(struct operation *operation);

static int pod_gone_take(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    uint64_t what;
    int err;

    answer_init(&answer, reply, operation->arena);
    what = answer_u64(&answer);
    answer_ended(&answer, answer_u64(&answer), &operation->result->pod_gone.ended);
    operation->result->pod_gone.has_stayed = what == SCRIPT_GONE_STAYS;
    if (what == SCRIPT_GONE_UNKNOWN)
        operation->result->outcome = OUTCOME_NOT_FOUND;
    if (what == SCRIPT_GONE_CONFLICT)
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_REMOVAL);
    err = answer_end(operation, &answer);
    if (err < 0 || what != SCRIPT_GONE_MORE)
        return err;
    err = pod_gone_send(operation);
    return err < 0 ? err : 1;
}

static void pod_gone_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0)
        err = pod_gone_take(operation, reply);
    if (err <= 0)
        operation_finish(operation, err);
}

static int pod_gone_send(struct operation *operation)
{
    struct args args;

    args_begin_fenced(&args, operation, operation->arena,
                      SCRIPT_GONE_ARGS + args_chain_room(operation->store) + SCRIPT_GONE_EACH);
    args_add_text(&args, pod_source_name(operation->command.pod_gone.source));
    args_add_text(&args, operation->command.pod_gone.is_absent ? SCRIPT_GONE_IS_ABSENT : SCRIPT_GONE_IS_GONE);
    args_add_rescue(&args, operation->store);
    args_add_text(&args, operation->command.pod_gone.pod);
    return args_call_with_chain(&args, operation, SCRIPT_GONE, pod_gone_answered, pod_gone_send);
}

int operation_pod_gone(struct operation *operation)
{
    return pod_gone_send(operation);
}
