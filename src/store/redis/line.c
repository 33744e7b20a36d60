/*
 * line.c - the commands of the line: keep, serve, depart, waiting; and the work that a script has left.
 *
 * A script that makes room serves the lines of the pools concerned itself, but makes WAIT_GRANTS_MAX grants
 * at most. If there is more to do it says so behind its answer, and the router that sent it sends serve.lua
 * at once. If that fails, the leader's next serve does it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

/* What a script has left */

static void line_go_on(struct redis_store *store);

static void line_served(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;
    redisReply room;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    store->line.is_serving = false;
    if (err < 0)
        store->line.must_serve = false; /* the leader does it */
    else
        (void)line_take_more(store, reply, &room);
    if (store->line.must_serve)
        line_go_on(store);
}

/* Only serves, without a fence: every router may do that. */
static void line_go_on(struct redis_store *store)
{
    const struct redis_script *script = redis_script(SCRIPT_SERVE);
    struct arena arena;
    struct args args;

    store->line.must_serve = true;
    if (store->line.is_serving || !store->tiers || store->closing.is_begun)
        return;
    store->line.must_serve = false;
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    args_begin_with(&args, store, store->tiers, &arena, SCRIPT_SERVE_ARGS);
    args_add_text(&args, "");
    args_add_text(&args, "");
    args_add_text(&args, "0");
    assert(args.failed || redis_script_takes(script, args.count));
    store->line.is_serving = !args.failed && redis_link_call(store->link, script, store->keys.active,
                                                             args.items, args.count, line_served, store) == 0;
    arena_release(&arena);
}

const redisReply *line_take_more(struct redis_store *store, const redisReply *reply, redisReply *room)
{
    const redisReply *last;

    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return reply;
    last = reply->element[reply->elements - 1];
    if (last->type != REDIS_REPLY_STATUS ||
        !slice_equals((struct slice){last->str, last->len}, SCRIPT_LINE_MORE))
        return reply;
    line_go_on(store);
    *room = *reply;
    room->elements--;
    return room;
}

/* KEEP, a bounded number of calls at a time */

static int keep_next(struct operation *operation);

static int keep_read(struct operation *operation, struct answer *answer)
{
    const struct waiting_call *asked = &operation->command.keep.calls[operation->at].call;
    struct kept_call *kept = &operation->result->keep.calls[operation->at];
    struct slice what = answer_slice(answer);

    *kept = (struct kept_call){.answer = slice_equals(what, SCRIPT_KEEP_WAITING)         ? KEEP_WAITING
                                         : slice_equals(what, SCRIPT_KEEP_REJOINED)      ? KEEP_REJOINED
                                         : slice_equals(what, SCRIPT_KEEP_GRANTED)       ? KEEP_GRANTED
                                         : slice_equals(what, SCRIPT_KEEP_TIMED_OUT)     ? KEEP_TIMED_OUT
                                         : slice_equals(what, SCRIPT_KEEP_WAS_TIMED_OUT) ? KEEP_TIMED_OUT
                                         : slice_equals(what, SCRIPT_KEEP_ENDED)         ? KEEP_ENDED
                                         : slice_equals(what, SCRIPT_KEEP_ELSEWHERE)     ? KEEP_ELSEWHERE
                                                                                         : KEEP_UNKNOWN,
                               .ended_now = slice_equals(what, SCRIPT_KEEP_TIMED_OUT)};
    if (kept->answer == KEEP_UNKNOWN && !slice_equals(what, SCRIPT_KEEP_UNKNOWN) && !answer->err)
        answer->err = -EIO;
    operation->at++;
    operation->result->keep.count = operation->at;
    if (kept->answer == KEEP_GRANTED)
        kept->call.claim = answer_u64(answer);
    if (kept->answer != KEEP_WAITING && kept->answer != KEEP_REJOINED && kept->answer != KEEP_TIMED_OUT)
        return 0;
    kept->call.call_sid = arena_strdup(operation->arena, asked->call_sid);
    answer_waiting(answer, &kept->call);
    return kept->call.call_sid ? 0 : -ENOMEM;
}

static size_t keep_end(const struct operation *operation)
{
    return (size_t)min_u64(operation->command.keep.count, operation->at + (uint64_t)REDIS_KEEP_BATCH);
}

static void keep_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;
    size_t end;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0) {
        end = keep_end(operation);
        answer_init(&answer, reply, operation->arena);
        while (operation->at < end && err == 0 && !answer.err)
            err = keep_read(operation, &answer);
        if (err == 0)
            err = answer_end(operation, &answer);
    }
    if (err == 0 && operation->at < operation->command.keep.count) {
        err = keep_next(operation);
        if (err == 0)
            return;
    }
    operation_finish(operation, err);
}

static int keep_next(struct operation *operation)
{
    const struct command *command = &operation->command;
    const struct redis_store *store = operation->store;
    size_t end = keep_end(operation);
    struct args args;

    args_begin(&args, operation, operation->arena,
               SCRIPT_KEEP_ARGS + args_chain_room(store) + SCRIPT_KEEP_EACH * (end - operation->at));
    args_add_text(&args, command->keep.holder);
    args_add_text(&args, store->hold.ageing);
    args_add_text(&args, store->hold.max_wait);
    args_add_chain(&args, store);
    for (size_t i = operation->at; i < end; i++) {
        const struct keep_call *keep = &command->keep.calls[i];
        const struct waiting_call *call = &keep->call;

        args_add_text(&args, call->call_sid);
        args_add_text(&args, call->merchant_id);
        args_add_text(&args, call->provider);
        args_add_u64(&args, call->since_ms);
        args_add_u64(&args, call->until_ms);
        args_add_u64(&args, call->claim);
        args_add_text(&args, keep->is_first ? SCRIPT_YES : "");
        args_add_u64(&args, keep->attempt);
    }
    operation->store->line.is_used = true;
    mailbox_expect(operation->store, command->keep.holder, true);
    return args_call_with_chain(&args, operation, SCRIPT_KEEP, keep_answered, keep_next);
}

int operation_keep(struct operation *operation)
{
    struct result *result = operation->result;
    size_t count = operation->command.keep.count;

    result->keep.calls = arena_alloc(operation->arena, (count + 1) * sizeof(*result->keep.calls));
    if (!result->keep.calls)
        return -ENOMEM;
    return keep_next(operation);
}

/* SERVE, a bounded number of waits at a time */

struct serve {
    bool keeps_silent; /* nobody could be heard for a while: nobody counts as silent */
};

static int serve_send(struct operation *operation)
{
    struct redis_store *store = operation->store;
    struct serve *serve = operation->bulk->state;
    size_t left = step_limit(operation->command.serve.limit) - operation->result->serve.ended_count;
    struct args args;

    outage_notice_gap(store);
    serve->keeps_silent = store->outage.must_keep_leases;
    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_SERVE_ARGS);
    if (serve->keeps_silent)
        args_add_u64(&args, store->core.heartbeat_ttl_ms);
    else
        args_add_text(&args, "");
    args_add_u64(&args, min_u64(left, REDIS_SWEEP_BATCH));
    return bulk_call(&args, operation, SCRIPT_SERVE);
}

static void serve_read_ended(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct ended_wait wait;
    struct slice how;

    wait.call_sid = answer_text(answer);
    wait.merchant_id = answer_text(answer);
    wait.provider = answer_text(answer);
    how = answer_slice(answer);
    wait.how = slice_equals(how, SCRIPT_WAIT_TIMED_OUT) ? WAIT_TIMED_OUT : WAIT_ABANDONED;
    if (!answer->err && wait.how == WAIT_ABANDONED && !slice_equals(how, SCRIPT_WAIT_ABANDONED))
        answer->err = -EIO;
    wait.waited_ms = answer_u64(answer);
    if (!answer->err)
        answer->err = ended_waits_add(&result->serve.ended, &result->serve.ended_count, answer->arena, &wait);
}

static int serve_take(struct operation *operation, const redisReply *reply)
{
    const struct serve *serve = operation->bulk->state;
    struct result *result = operation->result;
    struct answer answer;
    uint64_t count;
    bool has_more;
    int err;

    answer_init(&answer, reply, operation->arena);
    has_more = answer_u64(&answer) != 0;
    result->serve.granted += answer_u64(&answer);
    count = answer_u64(&answer);
    for (uint64_t i = 0; i < count && !answer.err; i++)
        serve_read_ended(operation, &answer);
    err = answer_end(operation, &answer);
    if (err < 0)
        return err;
    if (serve->keeps_silent)
        outage_noted(operation->store);
    result->serve.more = has_more && result->serve.ended_count >= step_limit(operation->command.serve.limit);
    return has_more && !result->serve.more ? BULK_SEND : BULK_NEXT;
}

static const struct bulk_phase serve_lines = {
    .name = "serve the lines", .send = serve_send, .take = serve_take};

static const struct bulk_phase *const serve_phases[] = {&serve_lines, NULL};

int operation_serve(struct operation *operation)
{
    int err = bulk_new(operation, sizeof(struct serve), NULL);

    return err < 0 ? err : bulk_start(operation, serve_phases);
}

/* DEPART, a bounded number of calls at a time */

static int depart_next(struct operation *operation);

static void depart_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0) {
        answer_init(&answer, reply, operation->arena);
        operation->result->depart.count += answer_u64(&answer);
        err = answer_end(operation, &answer);
        operation->at += REDIS_DEPART_BATCH;
    }
    if (err == 0 && operation->at < operation->command.depart.count) {
        err = depart_next(operation);
        if (err == 0)
            return;
    }
    operation_finish(operation, err);
}

static int depart_next(struct operation *operation)
{
    const struct command *command = &operation->command;
    size_t end = (size_t)min_u64(command->depart.count, operation->at + (uint64_t)REDIS_DEPART_BATCH);
    struct args args;

    args_begin(&args, operation, operation->arena,
               SCRIPT_DEPART_ARGS + SCRIPT_DEPART_EACH * (end - operation->at));
    args_add_text(&args, command->depart.carrier);
    args_add_text(&args, operation->store->core.rescues ? SCRIPT_YES : "");
    for (size_t i = operation->at; i < end; i++)
        args_add_text(&args, command->depart.call_sids[i]);
    return args_call(&args, operation, SCRIPT_DEPART, depart_answered);
}

int operation_depart(struct operation *operation)
{
    return depart_next(operation);
}

/* WAITING: in the order of the line. The cursor is the place and the name of the last call:
 * "1770000000000:CA1". */

struct waiting_query {
    char place[REDIS_NUMBER_MAX]; /* of the last call; "": none yet */
    char last[CALL_SID_MAX + 1];
};

static bool waiting_cursor_read(const char *text, struct waiting_query *query)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    size_t digits = text[0] == '-' ? 1 : 0;

    if (len <= digits || len >= sizeof(query->place) || !name_is_call_sid(colon + 1, strlen(colon + 1)))
        return false;
    for (size_t i = digits; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    snprintf(query->place, sizeof(query->place), "%.*s", (int)len, text);
    snprintf(query->last, sizeof(query->last), "%s", colon + 1);
    return true;
}

static size_t waiting_wanted(const struct operation *operation)
{
    size_t left = page_limit(operation->command.waiting.limit) - operation->result->waiting.count;

    return (size_t)min_u64(left, REDIS_WAITING_BATCH);
}

static int waiting_send(struct operation *operation)
{
    const struct waiting_query *query = operation->bulk->state;
    struct args args;

    args_begin(&args, operation, &operation->bulk->scratch, SCRIPT_WAITING_ARGS);
    args_add_text(&args, query->place);
    args_add_text(&args, query->last);
    args_add_u64(&args, waiting_wanted(operation) + 1); /* one more says whether there is more */
    return bulk_call(&args, operation, SCRIPT_WAITING);
}

static int waiting_end(struct operation *operation, bool has_more)
{
    const struct waiting_query *query = operation->bulk->state;
    char text[REDIS_NUMBER_MAX + CALL_SID_MAX + 2] = "";

    if (has_more)
        snprintf(text, sizeof(text), "%s:%s", query->place, query->last);
    operation->result->waiting.next_cursor = arena_strdup(operation->arena, text);
    return operation->result->waiting.next_cursor ? BULK_NEXT : -ENOMEM;
}

static int waiting_take(struct operation *operation, const redisReply *reply)
{
    struct waiting_query *query = operation->bulk->state;
    struct result *result = operation->result;
    size_t wanted = waiting_wanted(operation);
    struct answer answer;
    bool has_more;

    answer_init(&answer, reply, operation->arena);
    result->waiting.now_ms = answer_u64(&answer);
    result->waiting.total = answer_u64(&answer);
    for (size_t i = 0; i < wanted && answer_left(&answer) > 0; i++) {
        struct waiting_call *call = &result->waiting.calls[result->waiting.count++];
        struct slice place;

        *call = (struct waiting_call){.call_sid = answer_text(&answer)};
        place = answer_slice(&answer);
        if (place.len >= sizeof(query->place) || strlen(call->call_sid) > CALL_SID_MAX)
            return operation_unexpected(operation);
        snprintf(query->place, sizeof(query->place), "%.*s", (int)place.len, place.data);
        snprintf(query->last, sizeof(query->last), "%s", call->call_sid);
        answer_waiting(&answer, call);
    }
    if (answer.err)
        return operation_checked(operation, answer.err);
    has_more = answer_left(&answer) > 0;
    return has_more && result->waiting.count < page_limit(operation->command.waiting.limit)
               ? BULK_SEND
               : waiting_end(operation, has_more);
}

static const struct bulk_phase waiting_pages = {
    .name = "read the line", .send = waiting_send, .take = waiting_take};

static const struct bulk_phase *const waiting_phases[] = {&waiting_pages, NULL};

int operation_waiting(struct operation *operation)
{
    const char *cursor = operation->command.waiting.cursor;
    size_t limit = page_limit(operation->command.waiting.limit);
    struct result *result = operation->result;
    int err = bulk_new(operation, sizeof(struct waiting_query), NULL);

    if (err < 0)
        return err;
    result->waiting.calls = arena_alloc(operation->arena, limit * sizeof(*result->waiting.calls));
    if (!result->waiting.calls)
        return -ENOMEM;
    if (cursor && cursor[0] && !waiting_cursor_read(cursor, operation->bulk->state)) {
        err = operation_refuse(operation, OUTCOME_INVALID, REFUSED_CURSOR);
        return err < 0 ? err : 1;
    }
    return bulk_start(operation, waiting_phases);
}
