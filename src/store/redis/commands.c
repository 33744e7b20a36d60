/*
 * commands.c - the arguments and the answer of each command with which processes and pods say what goes on:
 * leave, renew, heartbeat, present, drain.
 *
 * Renewals and heartbeats of many calls go in batches. The other commands of calls are in call_commands.c
 * and line.c, those of pods in pod_commands.c, queries in queries.c, call_queries.c and merchants.c, bulk
 * commands in files of their own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/version.h"
#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* LEAVE */

int leave_encode(struct operation *operation, struct args *args)
{
    const char *carrier = operation->command.leave.carrier;

    args_begin(args, operation, operation->arena, SCRIPT_LEAVE_ARGS);
    args_add_text(args, operation->command.leave.call_sid);
    args_add_text(args, carrier ? carrier : "");
    args_add_u64(args, operation->command.leave.expires_at_ms);
    args_add_text(args, redis_link_up_ms(operation->store->link) < CARRIER_TTL_MS ? SCRIPT_YES : "");
    return 0;
}

int leave_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case SCRIPT_RELEASE_NOT_FOUND:
        result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_DONE:
        return released_read(operation, &answer, operation->command.leave.call_sid, PAST_CLOSED);
    case SCRIPT_LEAVE_RENEWED:
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_LEAVE;
        return answer_end(operation, &answer);
    default:
        result->outcome = OUTCOME_CONFLICT;
        result->error = "another router carries the call";
        result->release.is_carried = true;
        return answer_end(operation, &answer);
    }
}

/* RENEW, a bounded number of calls at a time */

static int renew_next(struct operation *operation);

/* Where the call belongs whose letter comes next; NULL: that is none of renew.lua's. */
static struct name_array *renew_list(struct answer *answer, struct result *result)
{
    struct slice what = answer_slice(answer);

    return slice_equals(what, SCRIPT_CALL_RENEWED)    ? &result->renew.renewed
           : slice_equals(what, SCRIPT_CALL_ADOPTED)  ? &result->renew.adopted
           : slice_equals(what, SCRIPT_CALL_UNKNOWN)  ? &result->renew.unknown
           : slice_equals(what, SCRIPT_CALL_ENDED)    ? &result->renew.finished
           : slice_equals(what, SCRIPT_CALL_CONFLICT) ? &result->renew.conflicts
                                                      : NULL;
}

static void renew_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct result *result;
    struct answer answer;
    size_t end;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    result = operation->result;
    if (err < 0) {
        operation_finish(operation, err);
        return;
    }
    end = (size_t)min_u64(operation->command.renew.count, operation->at + (uint64_t)REDIS_RENEW_BATCH);
    answer_init(&answer, reply, operation->arena);
    result->renew.expires_at_ms = answer_u64(&answer);
    while (operation->at < end && err == 0) {
        struct name_array *list = renew_list(&answer, result);

        err =
            list ? name_array_add(list, operation->arena, operation->command.renew.call_sids[operation->at++])
                 : operation_unexpected(operation);
    }
    answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    if (err == 0)
        err = answer_end(operation, &answer);
    if (err < 0 || operation->at == operation->command.renew.count) {
        operation_finish(operation, err);
        return;
    }
    err = renew_next(operation);
    if (err < 0)
        operation_finish(operation, err);
}

static int renew_next(struct operation *operation)
{
    size_t end = (size_t)min_u64(operation->command.renew.count, operation->at + (uint64_t)REDIS_RENEW_BATCH);
    const struct command *command = &operation->command;
    struct args args;

    args_begin(&args, operation, operation->arena,
               SCRIPT_RENEW_ARGS + SCRIPT_RENEW_EACH * (end - operation->at));
    args_add_u64(&args, operation->store->core.lease_ttl_ms);
    args_add_u64(&args, operation->store->call_info_ttl_ms);
    args_add_text(&args, command->renew.carrier ? command->renew.carrier : "");
    for (size_t i = operation->at; i < end; i++) {
        args_add_text(&args, command->renew.call_sids[i]);
        args_add_text(&args, command->renew.pods      ? command->renew.pods[i]
                             : command->renew.pattern ? command->renew.pattern
                                                      : "");
        args_add_text(&args, command->renew.providers ? command->renew.providers[i] : "");
        args_add_text(&args, command->renew.pods && command->renew.can_move && command->renew.can_move[i]
                                 ? SCRIPT_YES
                                 : "");
    }
    mailbox_expect(operation->store, command->renew.carrier, operation->store->core.rescues);
    return args_call(&args, operation, SCRIPT_RENEW, renew_answered);
}

int operation_renew(struct operation *operation)
{
    struct result *result = operation->result;
    struct name_array *lists[] = {&result->renew.renewed, &result->renew.adopted, &result->renew.unknown,
                                  &result->renew.finished, &result->renew.conflicts};
    int err = 0;

    for (size_t i = 0; err == 0 && i < ARRAY_LEN(lists); i++)
        err = name_array_init(lists[i], operation->arena, operation->command.renew.count);
    return err < 0 ? err : renew_next(operation);
}

/*
 * HEARTBEAT, a bounded number of calls at a time. Whether the pod has left one out, only the last part can
 * tell: it names all of them.
 */

static int heartbeat_next(struct operation *operation);

static size_t heartbeat_end(const struct operation *operation)
{
    return (size_t)min_u64(operation->command.heartbeat.count,
                           operation->at + (uint64_t)REDIS_HEARTBEAT_BATCH);
}

static int heartbeat_read_calls(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    size_t end = heartbeat_end(operation);
    int err = 0;

    for (; err == 0 && operation->at < end && answer->err == 0; operation->at++) {
        struct slice what = answer_slice(answer);
        struct name_array *array = slice_equals(what, SCRIPT_CALL_RENEWED)    ? &result->heartbeat.renewed
                                   : slice_equals(what, SCRIPT_CALL_ADOPTED)  ? &result->heartbeat.adopted
                                   : slice_equals(what, SCRIPT_CALL_CONFLICT) ? &result->heartbeat.conflicts
                                   : slice_equals(what, SCRIPT_CALL_ENDED)    ? &result->heartbeat.finished
                                                                              : NULL;

        if (!array)
            return operation_unexpected(operation);
        err = name_array_add(array, operation->arena, operation->command.heartbeat.call_sids[operation->at]);
    }
    return err;
}

static int heartbeat_read_ended(struct operation *operation, struct answer *answer)
{
    int err = 0;

    while (err == 0 && answer_left(answer) >= SCRIPT_ENDED_TEXTS) {
        struct ended_array one = {0};

        answer_ended(answer, 1, &one);
        if (one.count)
            err =
                ended_array_add(one.calls[0].why == CALL_END_UNMENTIONED ? &operation->result->heartbeat.ended
                                                                         : &operation->lost,
                                operation->arena, &one.calls[0]);
    }
    return err < 0 ? err : answer_end(operation, answer);
}

static void heartbeat_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err < 0) {
        operation_finish(operation, err);
        return;
    }
    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == SCRIPT_POD_UNKNOWN) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        operation_finish(operation, answer_end(operation, &answer));
        return;
    }
    err = heartbeat_read_calls(operation, &answer);
    if (err == 0)
        err = heartbeat_read_ended(operation, &answer);
    if (err < 0 || operation->at == operation->command.heartbeat.count) {
        operation_finish(operation, err);
        return;
    }
    err = heartbeat_next(operation);
    if (err < 0)
        operation_finish(operation, err);
}

static int heartbeat_next(struct operation *operation)
{
    const struct command *command = &operation->command;
    size_t end = heartbeat_end(operation);
    bool is_last = end == command->heartbeat.count;
    size_t from = is_last ? 0 : operation->at;
    struct args args;

    args_begin(&args, operation, operation->arena, SCRIPT_HEARTBEAT_ARGS + end - from);
    args_add_text(&args, command->heartbeat.pod);
    args_add_u64(&args, operation->store->core.lease_ttl_ms);
    args_add_u64(&args, operation->store->call_info_ttl_ms);
    if (is_last)
        args_add_u64(&args, HEARTBEAT_MISSES);
    else
        args_add_text(&args, "");
    args_add_u64(&args, HEARTBEAT_YOUNG_MS);
    args_add_u64(&args, operation->at);
    for (size_t i = from; i < end; i++)
        args_add_text(&args, command->heartbeat.call_sids[i]);
    return args_call(&args, operation, SCRIPT_HEARTBEAT, heartbeat_answered);
}

int operation_heartbeat(struct operation *operation)
{
    struct result *result = operation->result;
    size_t count = operation->command.heartbeat.count;
    int err = name_array_init(&result->heartbeat.renewed, operation->arena, count);

    if (err == 0)
        err = name_array_init(&result->heartbeat.adopted, operation->arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.finished, operation->arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.conflicts, operation->arena, count);
    return err < 0 ? err : heartbeat_next(operation);
}

/* PRESENT */

int present_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_PRESENT_ARGS);
    args_add_text(args, operation->command.present.carrier);
    args_add_text(args, operation->command.present.is_leaving ? SCRIPT_YES : "");
    args_add_text(args, SMART_ROUTER_VERSION);
    return 0;
}

int present_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->present.others = answer_u64(&answer);
    return answer_end(operation, &answer);
}

/* DRAIN, UNDRAIN */

int drain_encode(struct operation *operation, struct args *args)
{
    uint64_t ttl_ms = operation->command.drain.ttl_ms;

    args_begin(args, operation, operation->arena, SCRIPT_DRAIN_ARGS);
    args_add_text(args, operation->command.drain.pod);
    if (ttl_ms == DRAIN_WITHOUT_END)
        args_add_text(args, "");
    else
        args_add_u64(args, ttl_ms ? ttl_ms : operation->store->core.draining_ttl_ms);
    return 0;
}

int drain_decode(struct operation *operation, const redisReply *reply)
{
    bool is_surplus; /* never, right after a drain */
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == SCRIPT_POD_UNKNOWN) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    }
    operation->result->drain.calls_left = answer_u64(&answer);
    operation->result->drain.until_ms = answer_drain_end(&answer, &is_surplus);
    return answer_end(operation, &answer);
}

int undrain_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_UNDRAIN_ARGS);
    args_add_text(args, operation->command.undrain.pod);
    return 0;
}

int undrain_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->outcome = answer_u64(&answer) == SCRIPT_POD_UNKNOWN ? OUTCOME_NOT_FOUND : OUTCOME_OK;
    return answer_end(operation, &answer);
}
