/*
 * call_queries.c - the commands that read calls: one call, its story, or a page of them.
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
    call->activity.is_granted = answer_u64(answer) != 0;
    if (answer->err)
        return;
    carriers_read(answer, &call->activity.carriers);
    call->activity.is_connected = was_connected && call->activity.carriers.count > 0;
    call_set_state(call, now_ms);
}

/*
 * Without an end it has no claim on its pod. One whose lease has run out has it until a sweep ends
 * it.
 */
static bool call_is_there(const struct call_info *call)
{
    return call->pod[0] && call->expires_at_ms > 0;
}

/* True: the call waits. */
static bool call_read_waiting(struct answer *answer, const struct call_info *call,
                              struct waiting_call *waiting)
{
    if (answer_u64(answer) == 0)
        return false;
    waiting->call_sid = call->call_sid;
    answer_waiting(answer, waiting);
    return true;
}

/*
 * The refusal, and behind it whose call it was: an older version did not say so; then the free pods of each
 * step, if there could be any. NULL after a failure.
 */
static const struct refusal *refusal_read(struct answer *answer)
{
    bool is_unreadable;
    const struct refusal *read = answer_refusal(answer, &is_unreadable);
    struct refusal *refusal;
    struct slice merchant;
    struct slice provider;

    if (!read || answer_left(answer) < 2)
        return read;
    merchant = answer_slice(answer);
    provider = answer_slice(answer);
    if (answer->err || merchant.len > MERCHANT_ID_MAX || provider.len > PROVIDER_MAX)
        return read;
    refusal = arena_alloc(answer->arena, sizeof(*refusal));
    if (!refusal) {
        answer->err = -ENOMEM;
        return NULL;
    }
    *refusal = *read;
    snprintf(refusal->merchant_id, sizeof(refusal->merchant_id), "%.*s", (int)merchant.len, merchant.data);
    snprintf(refusal->provider, sizeof(refusal->provider), "%.*s", (int)provider.len, provider.data);
    if (answer_left(answer) > 0)
        answer_free_pods(answer, refusal);
    return refusal;
}

int call_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct waiting_call waiting = {0};
    struct call_info call;
    struct answer answer;
    uint64_t now_ms;
    bool is_waiting;

    answer_init(&answer, reply, operation->arena);
    (void)answer_u64(&answer);
    now_ms = answer_u64(&answer);
    call_read(&answer, &call, now_ms);
    is_waiting = call_read_waiting(&answer, &call, &waiting);
    if (answer.err)
        return operation_checked(operation, answer.err);
    if (call_is_there(&call)) {
        result->call.call = call;
        return 0;
    }
    if (is_waiting) {
        result->outcome = OUTCOME_WAITING;
        result->call.waiting = waiting;
        result->call.now_ms = now_ms;
        return 0;
    }
    result->outcome = OUTCOME_NOT_FOUND;
    if (answer_left(&answer) > 0)
        result->call.refusal = refusal_read(&answer);
    /* A refusal that was damaged by hand counts as none. */
    return answer.err == -ENOMEM ? -ENOMEM : 0;
}

/* STORY: the call, the pods that it has left, and its last refusal. */

int story_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_CALLS_ARGS);
    args_add_text(args, "");
    args_add_text(args, operation->command.call.call_sid);
    args_add_u64(args, PAST_SHOWN_MAX);
    past_flush(operation->store); /* the script finds what this router has answered */
    return 0;
}

/* How a call has left its pod: the value of a tombstone, and what the scripts call it. */
static int past_end_read(struct slice word, enum past_end *ret_end)
{
    static const char *const words[PAST_ENDS] = {
        [PAST_UNDONE] = SCRIPT_PAST_UNDONE,      [PAST_MOVED] = SCRIPT_PAST_MOVED,
        [PAST_EXPIRED] = SCRIPT_END_EXPIRED,     [PAST_POD_GONE] = SCRIPT_END_POD_GONE,
        [PAST_RESTARTED] = SCRIPT_END_RESTARTED, [PAST_UNMENTIONED] = SCRIPT_END_UNMENTIONED,
    };

    for (int end = 0; end < PAST_ENDS; end++) {
        if (slice_equals(word, words[end] ? words[end] : past_end_name((enum past_end)end))) {
            *ret_end = (enum past_end)end;
            return 0;
        }
    }
    return -EIO;
}

/* The next line of `text`, which then begins behind it. */
static struct slice next_line(struct slice *text)
{
    const char *end = memchr(text->data, '\n', text->len);
    struct slice line = {text->data, end ? (size_t)(end - text->data) : text->len};
    size_t taken = line.len + (end != NULL);

    *text = (struct slice){text->data + taken, text->len - taken};
    return line;
}

/* NULL: no memory. */
static const char *copy_line(struct arena *arena, struct slice *text)
{
    struct slice line = next_line(text);

    return line.len ? arena_copy(arena, line.data, line.len) : "";
}

/* Two lines: the time as Redis gives it, seconds and microseconds. */
static int redis_time_read(struct slice *text, uint64_t *ret_ms)
{
    uint64_t seconds;
    uint64_t us;

    if (record_digits(next_line(text), &seconds) || record_digits(next_line(text), &us) ||
        seconds > UINT64_MAX / 2000 || us >= 1000000)
        return -EIO;
    *ret_ms = seconds * 1000 + us / 1000;
    return 0;
}

/* As scripts/redis/lib/past.lua writes it. -EIO: made by hand. */
static int past_read(struct slice text, struct arena *arena, struct past_call *ret_call)
{
    struct past_call call = {0};
    struct call_activity activity = {0};
    uint64_t allocated_at_s;

    if (past_end_read(next_line(&text), &call.how) || redis_time_read(&text, &call.ended_at_ms))
        return -EIO;
    call.pod = copy_line(arena, &text);
    call.pool = copy_line(arena, &text);
    call.merchant_id = copy_line(arena, &text);
    call.provider = copy_line(arena, &text);
    if (!call.pod || !call.pool || !call.merchant_id || !call.provider)
        return -ENOMEM;
    /* Another program may have written the time of the call in another form: it is not known then. */
    if (record_digits(next_line(&text), &allocated_at_s) == 0 && allocated_at_s <= UINT64_MAX / 1000)
        call.allocated_at_ms = allocated_at_s * 1000;
    renewal_read(next_line(&text), &activity);
    call.renewed_by = activity.renewed_by;
    call.renewed_at_ms = activity.renewed_at_ms;
    *ret_call = call;
    return 0;
}

/* The newest comes first in the answer, and last in the result. */
static void past_calls_read(struct answer *answer, struct result *result)
{
    size_t count = answer_u64(answer);
    struct past_call *calls;
    size_t kept = 0;

    if (count > PAST_SHOWN_MAX)
        answer->err = -EIO;
    if (answer->err || count == 0)
        return;
    calls = arena_alloc(answer->arena, count * sizeof(*calls));
    if (!calls) {
        answer->err = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < count && answer->err == 0; i++) {
        struct past_call *call = &calls[count - 1 - kept];
        int err = past_read(answer_slice(answer), answer->arena, call);

        if (err == -ENOMEM)
            answer->err = err;
        kept += err == 0 && call->ended_at_ms + PAST_KEEP_MS > result->story.now_ms;
    }
    result->story.past = &calls[count - kept];
    result->story.past_count = kept;
}

int story_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    (void)answer_u64(&answer);
    result->story.now_ms = answer_u64(&answer);
    call_read(&answer, &result->story.call, result->story.now_ms);
    result->story.is_waiting = call_read_waiting(&answer, &result->story.call, &result->story.waiting);
    past_calls_read(&answer, result);
    if (answer.err)
        return operation_checked(operation, answer.err);
    result->story.is_live = call_is_there(&result->story.call);
    if (answer_left(&answer) > 0)
        result->story.refusal = refusal_read(&answer);
    if (!result->story.is_live && !result->story.is_waiting && !result->story.refusal &&
        result->story.past_count == 0)
        result->outcome = OUTCOME_NOT_FOUND;
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
