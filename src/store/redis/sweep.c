#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* SWEEP: whether everybody could be heard; the calls whose lease has run out; the pods whose time may have
 * come. */

static int sweep_calls(struct operation *operation);
static int sweep_pods(struct operation *operation);

static size_t sweep_limit(const struct operation *operation)
{
    return operation->command.sweep.limit ? operation->command.sweep.limit : STEP_LIMIT;
}

static int sweep_grow_gone(struct operation *operation)
{
    struct name_array *gone = &operation->result->sweep.gone;
    size_t room = gone->count ? gone->count * 2 : 1;
    const char **names;

    if (gone->count & (gone->count - 1))
        return 0;
    names = arena_alloc(operation->arena, room * sizeof(*names));
    if (!names)
        return -ENOMEM;
    if (gone->count)
        memcpy(names, gone->names, gone->count * sizeof(*names));
    gone->names = names;
    return 0;
}

static int sweep_take_pods(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;
    size_t gone;
    struct slice cursor;

    answer_init(&answer, reply, operation->arena);
    cursor = answer_slice(&answer);
    if (!answer.err && cursor.len >= sizeof(operation->bulk->cursor))
        return operation_unexpected(operation);
    memcpy(operation->bulk->cursor, cursor.data, cursor.len);
    operation->bulk->cursor[cursor.len] = '\0';
    operation->bulk->more = answer_u64(&answer) != 0;
    result->sweep.recovered += answer_u64(&answer);
    operation->bulk->time_ms = answer_u64(&answer);
    gone = answer_u64(&answer);
    for (size_t i = 0; i < gone && !answer.err; i++) {
        int rc = sweep_grow_gone(operation);

        if (rc)
            return rc;
        result->sweep.gone.names[result->sweep.gone.count++] = answer_text(&answer);
    }
    answer_ended(&answer, answer_left(&answer) / 5, &result->sweep.ended);
    return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
}

static void swept_pods(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    char *cursor = operation->bulk->cursor;

    if (err == 0)
        err = sweep_take_pods(operation, reply);
    if (err == 0 && strcmp(cursor, "0") == 0)
        cursor[0] = '\0'; /* all that are held out have been looked at */
    if (err == 0)
        err = cursor[0] || operation->bulk->more ? sweep_pods(operation) : bulk_done(operation);
    if (err)
        operation_finish(operation, err);
}

static int sweep_pods(struct operation *operation)
{
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 4);
    args_add_u64(&args, operation->bulk->time_ms);
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    args_add_u64(&args, REDIS_SWEEP_BATCH);
    args_add_text(&args, operation->bulk->cursor);
    return args_call(&args, operation, "sweep_pods", swept_pods);
}

static void swept_calls(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct result *result = operation->result;
    struct answer answer;
    uint64_t left = 0;

    if (err == 0) {
        answer_init(&answer, reply, operation->arena);
        left = answer_u64(&answer);
        operation->bulk->time_ms = answer_u64(&answer);
        answer_ended(&answer, answer_left(&answer) / 5, &result->sweep.ended);
        err = answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    }
    result->sweep.more = left > 0 && result->sweep.ended.count >= sweep_limit(operation);
    if (err == 0)
        err = left > 0 && !result->sweep.more ? sweep_calls(operation) : sweep_pods(operation);
    if (err)
        operation_finish(operation, err);
}

static int sweep_calls(struct operation *operation)
{
    size_t left = sweep_limit(operation) - operation->result->sweep.ended.count;
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 2);
    args_add_u64(&args, operation->bulk->time_ms);
    args_add_u64(&args, min_u64(left, REDIS_SWEEP_BATCH));
    return args_call(&args, operation, "sweep_calls", swept_calls);
}

static void sweep_listened(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0 && (reply->type != REDIS_REPLY_STRING || reply->len == 0))
        err = operation_unexpected(operation);
    if (err == 0) {
        operation->bulk->time_ms = strtoull(reply->str, NULL, 10);
        if (operation->bulk->forgives)
            operation->store->must_forgive = false;
        err = sweep_calls(operation);
    }
    if (err)
        operation_finish(operation, err);
}

static int sweep_listen(struct operation *operation)
{
    struct args args;

    hearing_notice_gap(operation->store);
    operation->bulk->forgives = operation->store->must_forgive;
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 1);
    if (operation->bulk->forgives)
        args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    else
        args_add_text(&args, "");
    return args_call(&args, operation, "listen", sweep_listened);
}

int operation_sweep(struct operation *operation)
{
    return bulk_start(operation, sweep_listen);
}
