/*
 * sweep.c - the command sweep, as a chain of scripts.
 *
 * In order: note a gap in which pods could not be heard; end calls whose lease ran out; look at
 * pods whose time may have come; settle pods in doubt, if need be after a walk through all calls;
 * check the places of the next thousand pods, and the records of the next thousand calls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

static int sweep_calls(struct operation *operation);
static int sweep_pods(struct operation *operation);
static int sweep_doubts(struct operation *operation);
static int sweep_all(struct operation *operation);
static int sweep_tidy(struct operation *operation);

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

/* mend.lua: the pods that are in doubt ("doubts"), or the next ones of all ("pods") */

static int sweep_take_mended(struct operation *operation, const redisReply *reply, char cursor[24],
                             bool *ret_is_last)
{
    struct bulk *bulk = operation->bulk;
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, &bulk->scratch);
    *ret_is_last = answer_cursor(&answer, cursor);
    bulk->time_ms = answer_u64(&answer);
    operation->at += answer_u64(&answer);
    result->sweep.recovered += answer_u64(&answer);
    if (answer_u64(&answer) > 0)
        result->sweep.look_again_ms = REDIS_MEND_AGAIN_MS;
    bulk->unexplained += answer_u64(&answer);
    return answer.err ? operation_unexpected(operation) : 0;
}

static int sweep_mend(struct operation *operation, const char *what, const char *cursor, redis_reply_fn done)
{
    struct bulk *bulk = operation->bulk;
    struct args args;

    arena_reset(&bulk->scratch);
    args_begin_fenced(&args, operation, &bulk->scratch, 5);
    args_add_u64(&args, bulk->time_ms);
    args_add_text(&args, what);
    args_add_text(&args, cursor);
    args_add_u64(&args, REDIS_SWEEP_BATCH);
    args_add_u64(&args, bulk->imported_at_ms);
    return args_call(&args, operation, "mend", done);
}

/* tidy.lua: the next calls, whether they still have a record */

static void sweep_tidied(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;
    bool is_last = true;

    if (err == 0) {
        answer_init(&answer, reply, &operation->bulk->scratch);
        is_last = answer_cursor(&answer, operation->store->tidy_cursor);
        if (answer.err)
            err = operation_unexpected(operation);
    }
    operation->at += REDIS_PAGE_BATCH;
    if (err == 0)
        err = is_last || operation->at >= REDIS_MEND_LOOK ? bulk_done(operation) : sweep_tidy(operation);
    if (err)
        operation_finish(operation, err);
}

static int sweep_tidy(struct operation *operation)
{
    const char *cursor = operation->store->tidy_cursor;
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 2);
    args_add_text(&args, cursor[0] ? cursor : "0");
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return args_call(&args, operation, "tidy", sweep_tidied);
}

static int sweep_tidy_start(struct operation *operation)
{
    operation->at = 0;
    return sweep_tidy(operation);
}

static void swept_all(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    bool is_last = true;

    if (err == 0)
        err = sweep_take_mended(operation, reply, operation->store->mend_cursor, &is_last);
    if (err == 0)
        err =
            is_last || operation->at >= REDIS_MEND_LOOK ? sweep_tidy_start(operation) : sweep_all(operation);
    if (err)
        operation_finish(operation, err);
}

static int sweep_all(struct operation *operation)
{
    const char *cursor = operation->store->mend_cursor;

    return sweep_mend(operation, "pods", cursor[0] ? cursor : "0", swept_all);
}

static int sweep_all_start(struct operation *operation)
{
    operation->at = 0;
    return sweep_all(operation);
}

static int sweep_doubts_start(struct operation *operation)
{
    snprintf(operation->bulk->cursor, sizeof(operation->bulk->cursor), "0");
    operation->bulk->unexplained = 0;
    return sweep_doubts(operation);
}

static void swept_doubts(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct bulk *bulk = operation->bulk;
    bool is_last = true;

    if (err == 0)
        err = sweep_take_mended(operation, reply, bulk->cursor, &is_last);
    if (err == 0 && !is_last) {
        err = sweep_doubts(operation);
    } else if (err == 0 && bulk->unexplained > 0 && bulk->imported_at_ms == 0) {
        bulk->imported_at_ms = bulk->time_ms;
        err = bulk_walk(operation, "import", "", sweep_doubts_start);
    } else if (err == 0) {
        err = sweep_all_start(operation);
    }
    if (err)
        operation_finish(operation, err);
}

static int sweep_doubts(struct operation *operation)
{
    return sweep_mend(operation, "doubts", operation->bulk->cursor, swept_doubts);
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
        err = cursor[0] || operation->bulk->more ? sweep_pods(operation) : sweep_doubts_start(operation);
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
