/*
 * call_queries.c - the commands that read calls: one call, or a page of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

/* CALL */

int call_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_CALLS_ARGS);
    args_add_text(args, "");
    args_add_text(args, operation->command.call.call_sid);
    return 0;
}

/* "client 1770000000000"; anything else was written by an older version, which noted neither. */
static void renewal_read(struct slice text, struct call_activity *activity)
{
    const char *space = memchr(text.data, ' ', text.len);
    struct slice who = {text.data, space ? (size_t)(space - text.data) : 0};
    struct slice when = {space ? space + 1 : text.data, space ? text.len - who.len - 1 : 0};
    uint64_t at_ms;

    activity->was_renewed = text.len > 0;
    if (!space || record_digits(when, &at_ms) || at_ms == 0)
        return;
    for (int by = RENEWED_BY_NOBODY + 1; by < RENEWERS; by++) {
        if (slice_equals(who, renewer_name((enum renewer)by))) {
            activity->renewed_by = (enum renewer)by;
            activity->renewed_at_ms = at_ms;
        }
    }
}

/* Names with commas between them. */
static void carriers_read(struct answer *answer, struct name_array *carriers)
{
    char *text = arena_strdup(answer->arena, answer_text(answer));
    char *name;

    if (!text) {
        answer->err = -ENOMEM;
        return;
    }
    if (!text[0])
        return;
    answer->err = name_array_init(carriers, answer->arena, 1);
    while (!answer->err && (name = strsep(&text, ",")))
        answer->err = name_array_add(carriers, answer->arena, name);
}

static void call_read(struct answer *answer, struct call_info *call, uint64_t now_ms)
{
    bool was_connected;

    *call = (struct call_info){.call_sid = answer_text(answer)};
    answer_call(answer, call);
    renewal_read(answer_slice(answer), &call->activity);
    was_connected = answer_u64(answer) != 0;
    if (answer->err)
        return;
    carriers_read(answer, &call->activity.carriers);
    call->activity.is_connected = was_connected && call->activity.carriers.count > 0;
    call_set_state(call, now_ms);
}

int call_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct call_info call;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    (void)answer_u64(&answer);
    call_read(&answer, &call, answer_u64(&answer));
    if (answer.err)
        return operation_checked(operation, answer.err);
    /*
     * Without an end it has no claim on its pod. One whose lease has run out has it until a sweep
     * ends it.
     */
    if (call.pod[0] && call.expires_at_ms > 0) {
        result->call.call = call;
        return 0;
    }
    result->outcome = OUTCOME_NOT_FOUND;
    if (answer_left(&answer) > 0) {
        bool is_unreadable;

        result->call.refusal = answer_refusal(&answer, &is_unreadable);
    }
    /* A refusal that was damaged by hand counts as none. */
    return answer.err == -ENOMEM ? -ENOMEM : 0;
}

/* CALLS: in the order in which leases end. The cursor is that end, and the number of calls with
 * just that end that were seen. */

struct calls_cursor {
    uint64_t end_ms;
    uint64_t skip;
};

struct calls_query {
    struct calls_cursor cursor;
    size_t looked; /* at calls, for this page */
};

static int calls_cursor_parse(const char *text, struct calls_cursor *ret_cursor)
{
    struct calls_cursor cursor = {0};
    char *end = NULL;

    *ret_cursor = cursor;
    if (!text || !text[0])
        return 0;
    if (strlen(text) > 40 || text[0] < '0' || text[0] > '9')
        return -EINVAL;
    cursor.end_ms = strtoull(text, &end, 10);
    if (*end != ':' || end[1] < '0' || end[1] > '9')
        return -EINVAL;
    cursor.skip = strtoull(end + 1, &end, 10);
    if (*end)
        return -EINVAL;
    *ret_cursor = cursor;
    return 0;
}

/* How many calls one script reads. */
static size_t calls_wanted(const struct operation *operation)
{
    size_t left = page_limit(operation->command.calls.limit) - operation->result->calls.count;

    return page_filters_calls(&operation->command) ? REDIS_PAGE_BATCH
                                                   : (size_t)min_u64(left, REDIS_PAGE_BATCH);
}

static int calls_send(struct operation *operation)
{
    const struct calls_cursor *cursor = &((struct calls_query *)operation->bulk->state)->cursor;
    struct args args;

    args_begin(&args, operation, &operation->bulk->scratch, SCRIPT_CALLS_ARGS);
    args_add_u64(&args, cursor->end_ms);
    args_add_u64(&args, cursor->skip);
    args_add_u64(&args, calls_wanted(operation) + 1); /* one more says whether there is more */
    return bulk_call(&args, operation, SCRIPT_CALLS);
}

static int calls_end(struct operation *operation, bool has_more)
{
    const struct calls_cursor *cursor = &((struct calls_query *)operation->bulk->state)->cursor;
    char text[48] = "";

    if (has_more)
        snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)cursor->end_ms,
                 (unsigned long long)cursor->skip);
    operation->result->calls.next_cursor = arena_strdup(operation->arena, text);
    return operation->result->calls.next_cursor ? BULK_NEXT : -ENOMEM;
}

/* Reads the next call, and puts it into the result if it is one and passes the filters. */
static void calls_read_one(struct operation *operation, struct answer *answer, uint64_t now_ms)
{
    struct calls_cursor *cursor = &((struct calls_query *)operation->bulk->state)->cursor;
    struct result *result = operation->result;
    size_t start = answer->at;
    struct call_info call;

    /* As for pods: what the filters leave out must not fill the arena of the caller. */
    arena_reset(&operation->bulk->scratch);
    answer->arena = &operation->bulk->scratch;
    call_read(answer, &call, now_ms);
    answer->arena = operation->arena;
    if (answer->err)
        return;
    cursor->skip = call.expires_at_ms == cursor->end_ms ? cursor->skip + 1 : 1;
    cursor->end_ms = call.expires_at_ms;
    /* A call without a record was deleted by hand. */
    if (!call.pod[0] || !page_wants_call(&operation->command, &call, now_ms))
        return;
    answer->at = start;
    call_read(answer, &result->calls.calls[result->calls.count], now_ms);
    if (!answer->err)
        result->calls.count++;
}

static int calls_take(struct operation *operation, const redisReply *reply)
{
    struct calls_query *query = operation->bulk->state;
    struct result *result = operation->result;
    size_t limit = page_limit(operation->command.calls.limit);
    size_t wanted = calls_wanted(operation);
    struct answer answer;
    uint64_t now_ms;
    bool has_more;

    answer_init(&answer, reply, operation->arena);
    result->calls.total = answer_u64(&answer);
    now_ms = answer_u64(&answer);
    for (size_t taken = 0; answer_left(&answer) > 0 && taken < wanted && result->calls.count < limit;
         taken++) {
        calls_read_one(operation, &answer, now_ms);
        query->looked++;
    }
    if (answer.err)
        return operation_checked(operation, answer.err);
    has_more = answer_left(&answer) > 0;
    return has_more && result->calls.count < limit && query->looked < PAGE_LOOK_MAX
               ? BULK_SEND
               : calls_end(operation, has_more);
}

static const struct bulk_phase calls_pages = {
    .name = "read the calls", .send = calls_send, .take = calls_take};

static const struct bulk_phase *const calls_phases[] = {&calls_pages, NULL};

int operation_calls(struct operation *operation)
{
    size_t limit = page_limit(operation->command.calls.limit);
    struct result *result = operation->result;
    int err = bulk_new(operation, sizeof(struct calls_query), NULL);

    if (err < 0)
        return err;
    result->calls.calls = arena_alloc(operation->arena, limit * sizeof(*result->calls.calls));
    if (!result->calls.calls)
        return -ENOMEM;
    if (calls_cursor_parse(operation->command.calls.cursor,
                           &((struct calls_query *)operation->bulk->state)->cursor) < 0) {
        err = operation_refuse(operation, OUTCOME_INVALID, REFUSED_CURSOR);
        return err < 0 ? err : 1;
    }
    return bulk_start(operation, calls_phases);
}
