/*
 * sweep.c - the command sweep, phase by phase.
 *
 * It reads the tiers; notes a gap in which pods could not be heard; looks for calls whose router has
 * died; ends calls whose lease ran out;
 * looks at pods whose time may have come; settles pods in doubt, if need be after an import of all
 * calls; checks the places of the next thousand pods, and the records of the next thousand calls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

struct sweep {
    uint64_t time_ms;  /* of Redis, in its last answer */
    bool keeps_leases; /* leases that ran out in a gap do not count as run out */
    char cursor[REDIS_CURSOR_MAX];
    bool has_more_pods;
    size_t unexplained;      /* pods with a score that only calls without a record can explain */
    uint64_t imported_at_ms; /* when the import began; 0: there was none */
    size_t looked;           /* pods or calls, in this phase */
};

/*
 * A gap in which pods could not be heard: begin_sweep.lua notes that no lease counts as run out for a
 * while.
 */

static int listen_send(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;
    struct args args;

    outage_notice_gap(operation->store);
    sweep->keeps_leases = operation->store->outage.must_keep_leases;
    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_BEGIN_SWEEP_ARGS);
    if (sweep->keeps_leases)
        args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    else
        args_add_text(&args, "");
    return bulk_call(&args, operation, SCRIPT_BEGIN_SWEEP);
}

static int listen_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;

    if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
        return operation_unexpected(operation);
    sweep->time_ms = strtoull(reply->str, NULL, 10);
    if (sweep->keeps_leases)
        outage_noted(operation->store);
    return BULK_NEXT;
}

static const struct bulk_phase listen_again = {
    .name = "note a gap", .send = listen_send, .take = listen_take};

/* Calls whose lease ran out */

static size_t sweep_limit(const struct operation *operation)
{
    return step_limit(operation->command.sweep.limit);
}

static int calls_send(struct operation *operation)
{
    const struct sweep *sweep = operation->bulk->state;
    size_t left = sweep_limit(operation) - operation->result->sweep.ended.count;
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_SWEEP_CALLS_ARGS);
    args_add_u64(&args, sweep->time_ms);
    args_add_u64(&args, min_u64(left, REDIS_SWEEP_BATCH));
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    return bulk_call(&args, operation, SCRIPT_SWEEP_CALLS);
}

static int calls_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;
    struct result *result = operation->result;
    struct answer answer;
    uint64_t left;

    answer_init(&answer, reply, operation->arena);
    left = answer_u64(&answer);
    sweep->time_ms = answer_u64(&answer);
    answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &result->sweep.ended);
    if (answer.err)
        return operation_checked(operation, answer.err);
    result->sweep.more = left > 0 && result->sweep.ended.count >= sweep_limit(operation);
    return left > 0 && !result->sweep.more ? BULK_SEND : BULK_NEXT;
}

static const struct bulk_phase end_calls = {.name = "end calls", .send = calls_send, .take = calls_take};

/*
 * Pods whose time may have come: those held out, page by page, and those that stopped heartbeating
 */

static int pods_begin(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;

    snprintf(sweep->cursor, sizeof(sweep->cursor), "0");
    return BULK_SEND;
}

static int pods_send(struct operation *operation)
{
    const struct sweep *sweep = operation->bulk->state;
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch,
                      SCRIPT_SWEEP_PODS_ARGS + args_chain_room(operation->store));
    args_add_u64(&args, sweep->time_ms);
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    args_add_u64(&args, REDIS_SWEEP_BATCH);
    args_add_text(&args, sweep->cursor);
    args_add_rescue(&args, operation->store);
    return bulk_call_with_chain(&args, operation, SCRIPT_SWEEP_PODS);
}

static int pods_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;
    struct result *result = operation->result;
    struct answer answer;
    struct slice cursor;
    size_t gone;

    answer_init(&answer, reply, operation->arena);
    cursor = answer_slice(&answer);
    if (cursor.len >= sizeof(sweep->cursor))
        return operation_unexpected(operation);
    snprintf(sweep->cursor, sizeof(sweep->cursor), "%.*s", (int)cursor.len, cursor.data);
    sweep->has_more_pods = answer_u64(&answer) != 0;
    result->sweep.recovered += answer_u64(&answer);
    sweep->time_ms = answer_u64(&answer);
    gone = answer_u64(&answer);
    for (size_t i = 0; i < gone && !answer.err; i++) {
        int err = name_array_append(&result->sweep.gone, operation->arena, answer_text(&answer));

        if (err < 0)
            return err;
    }
    answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &result->sweep.ended);
    if (answer.err)
        return operation_checked(operation, answer.err);
    if (strcmp(sweep->cursor, "0") == 0)
        sweep->cursor[0] = '\0'; /* all pods that are held out have been looked at */
    return sweep->cursor[0] || sweep->has_more_pods ? BULK_SEND : BULK_NEXT;
}

static const struct bulk_phase look_at_pods = {
    .name = "look at pods", .begin = pods_begin, .send = pods_send, .take = pods_take};

/* mend.lua: the pods in doubt (SCRIPT_MEND_DOUBTS), or the next ones of all (SCRIPT_MEND_ALL) */

static int mend_send(struct operation *operation, const char *what, const char *cursor)
{
    const struct sweep *sweep = operation->bulk->state;
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_MEND_ARGS);
    args_add_u64(&args, sweep->time_ms);
    args_add_text(&args, what);
    args_add_text(&args, cursor);
    args_add_u64(&args, REDIS_SWEEP_BATCH);
    args_add_u64(&args, sweep->imported_at_ms);
    return bulk_call(&args, operation, SCRIPT_MEND);
}

static int mend_take(struct operation *operation, const redisReply *reply, char cursor[REDIS_CURSOR_MAX],
                     bool *ret_is_last)
{
    struct sweep *sweep = operation->bulk->state;
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, &operation->bulk->scratch);
    *ret_is_last = answer_cursor(&answer, cursor);
    sweep->time_ms = answer_u64(&answer);
    sweep->looked += answer_u64(&answer);
    result->sweep.recovered += answer_u64(&answer);
    if (answer_u64(&answer) > 0)
        result->sweep.look_again_ms = REDIS_MEND_AGAIN_MS;
    sweep->unexplained += answer_u64(&answer);
    return answer.err ? operation_unexpected(operation) : 0;
}

/* Pods in doubt */

static int doubts_begin(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;

    snprintf(sweep->cursor, sizeof(sweep->cursor), "0");
    sweep->unexplained = 0;
    return BULK_SEND;
}

static int doubts_send(struct operation *operation)
{
    const struct sweep *sweep = operation->bulk->state;

    return mend_send(operation, SCRIPT_MEND_DOUBTS, sweep->cursor);
}

static int doubts_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;
    bool is_last;
    int err = mend_take(operation, reply, sweep->cursor, &is_last);

    if (err < 0)
        return err;
    return is_last ? BULK_NEXT : BULK_SEND;
}

static const struct bulk_phase settle_doubts = {
    .name = "settle doubts", .begin = doubts_begin, .send = doubts_send, .take = doubts_take};

/* An import of all calls explains the pods in doubt that nothing else explains. */

static int import_begin(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;

    if (sweep->unexplained == 0)
        return BULK_NEXT;
    sweep->imported_at_ms = sweep->time_ms;
    return bulk_walk_begin(operation, SCRIPT_IMPORT, "");
}

static const struct bulk_phase import_calls = {
    .name = "import calls", .begin = import_begin, .send = bulk_walk_send, .take = bulk_walk_take};

static int doubts_again_begin(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;

    if (sweep->imported_at_ms == 0)
        return BULK_NEXT;
    sweep->time_ms = operation->bulk->walk.time_ms;
    return doubts_begin(operation);
}

static const struct bulk_phase settle_doubts_again = {.name = "settle doubts after the import",
                                                      .begin = doubts_again_begin,
                                                      .send = doubts_send,
                                                      .take = doubts_take};

/* The places of the next pods; the next sweep goes on after them */

static int start_counting(struct operation *operation)
{
    struct sweep *sweep = operation->bulk->state;

    sweep->looked = 0;
    return BULK_SEND;
}

static int places_send(struct operation *operation)
{
    const char *cursor = operation->store->sweep.mend_cursor;

    return mend_send(operation, SCRIPT_MEND_ALL, cursor[0] ? cursor : "0");
}

static int places_take(struct operation *operation, const redisReply *reply)
{
    const struct sweep *sweep = operation->bulk->state;
    bool is_last;
    int err = mend_take(operation, reply, operation->store->sweep.mend_cursor, &is_last);

    if (err < 0)
        return err;
    return is_last || sweep->looked >= REDIS_MEND_LOOK ? BULK_NEXT : BULK_SEND;
}

static const struct bulk_phase check_places = {
    .name = "check places", .begin = start_counting, .send = places_send, .take = places_take};

/* The records of the next calls; the next sweep goes on after them */

static int records_send(struct operation *operation)
{
    const char *cursor = operation->store->sweep.tidy_cursor;
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_TIDY_ARGS);
    args_add_text(&args, cursor[0] ? cursor : "0");
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return bulk_call(&args, operation, SCRIPT_TIDY);
}

static int records_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;
    struct answer answer;
    bool is_last;

    answer_init(&answer, reply, &operation->bulk->scratch);
    is_last = answer_cursor(&answer, operation->store->sweep.tidy_cursor);
    if (answer.err)
        return operation_unexpected(operation);
    sweep->looked += REDIS_PAGE_BATCH;
    return is_last || sweep->looked >= REDIS_MEND_LOOK ? BULK_NEXT : BULK_SEND;
}

static const struct bulk_phase check_records = {
    .name = "check records", .begin = start_counting, .send = records_send, .take = records_take};

/* The calls of routers that have died, which have a while to come back */

static int departed_send(struct operation *operation)
{
    const struct sweep *sweep = operation->bulk->state;
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_DEPARTED_ARGS);
    args_add_u64(&args, sweep->time_ms);
    args_add_u64(&args, REDIS_DEPART_BATCH);
    args_add_text(&args, operation->store->core.rescues ? SCRIPT_YES : "");
    return bulk_call(&args, operation, SCRIPT_DEPARTED);
}

static int departed_take(struct operation *operation, const redisReply *reply)
{
    struct sweep *sweep = operation->bulk->state;
    struct answer answer;
    uint64_t count;
    bool has_more;

    answer_init(&answer, reply, &operation->bulk->scratch);
    has_more = answer_u64(&answer) != 0;
    sweep->time_ms = answer_u64(&answer);
    count = answer_u64(&answer);
    if (answer.err)
        return operation_unexpected(operation);
    if (count > 0)
        log_warn("a router has died: the calls that it carried have a minute to come back",
                 log_num("calls", (int64_t)count));
    return has_more ? BULK_SEND : BULK_NEXT;
}

static const struct bulk_phase look_for_departed = {
    .name = "look for calls of dead routers", .send = departed_send, .take = departed_take};

static const struct bulk_phase *const sweep_phases[] = {
    &bulk_read_tiers, &listen_again,        &look_for_departed, &end_calls,     &look_at_pods, &settle_doubts,
    &import_calls,    &settle_doubts_again, &check_places,      &check_records, NULL,
};

int operation_sweep(struct operation *operation)
{
    int err = bulk_new(operation, sizeof(struct sweep), NULL);

    return err < 0 ? err : bulk_start(operation, sweep_phases);
}
