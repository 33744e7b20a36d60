/*
 * call_batch.c - sends releases and allocations together in one script.
 *
 * A script costs Redis much before it begins, so operations are gathered. But Redis must not wait while
 * this process gathers, and this process must not wait while Redis works:
 *
 * - At most BATCHES_MAX batches are in Redis at a time: one on which it works, and the next one. Redis
 *   answers when it has worked through all that it has received, so with more of them both sides
 *   would take turns.
 * - As long as there are fewer, a batch is sent as soon as it has half of the operations that are
 *   under way, at most BATCH_EARLY; and at the end of the turn of the loop at the latest. So Redis
 *   works on one half while the clients of the other half are answered and ask again.
 * - Else operations are gathered until Redis has answered a batch. The busier Redis is, the larger the
 *   batches are, and the cheaper each operation.
 * - They go out in the order in which they came: if releases were preferred, those that keep coming would
 *   hold up an allocation for ever.
 *
 * Requests per second beside batches of a whole turn, one script for releases and one for allocations
 * (wrk, Redis on its own core): 1.3 times with 8 connections, 1.4 with 16, 1.5 with 64 and 256.
 *
 * Each command has its own answer, and an error of one is not an error of another. Each is answered within
 * REDIS_TIMEOUT after it was asked for: one that could not be sent by then never is, and one that was sent
 * late leaves the connection standing, because it was not Redis that held it up.
 */
#include <stdlib.h>

#include "store/redis/redis_internal.h"

enum {
    BATCH_MAGIC = 0x62746368,
    BATCHES_MAX = 2,
    BATCH_EARLY = 16,
    BATCH_GRACE_MS = 2, /* after a stall of the process: answers may be there, unread */
};

struct batch {
    unsigned magic;
    struct list link; /* in turn.sent, or in turn.failed: it could not be sent, because of `err` */
    int err;
    bool is_in_redis;
    struct redis_store *store;
    size_t releases; /* the first operations; the others are allocations */
    size_t count;
    struct operation *operations[]; /* NULL: its deadline has passed, and it was answered */
};

void call_batch_init(struct redis_store *store)
{
    list_init(&store->turn.waiting);
    list_init(&store->turn.sent);
    list_init(&store->turn.failed);
    list_init(&store->turn.late);
}

void call_batch_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->turn.timer);
    store->turn.earliest_ms = UINT64_MAX;
}

bool call_batch_takes(enum command_type type)
{
    return type == COMMAND_ALLOCATE || type == COMMAND_RELEASE;
}

static void batches_send(struct redis_store *store);

/* Goes up at once with the number of operations under way, and down slowly. */
static void note_concurrency(struct redis_store *store)
{
    size_t now = store->turn.sent_count + store->turn.count;
    size_t before = store->turn.concurrency;

    store->turn.concurrency = now >= before ? now : before - (before - now + 7) / 8;
}

static void batch_entered_redis(struct batch *batch)
{
    struct redis_store *store = batch->store;

    batch->is_in_redis = true;
    list_append(&store->turn.sent, &batch->link);
    store->turn.in_redis++;
    store->turn.sent_count += batch->count;
    note_concurrency(store);
}

/* Redis gets its next work before the answers are passed on. */
static void batch_left_redis(struct batch *batch)
{
    struct redis_store *store = batch->store;

    assert(store->turn.in_redis > 0 && store->turn.sent_count >= batch->count);
    batch->is_in_redis = false;
    list_remove(&batch->link);
    store->turn.in_redis--;
    store->turn.sent_count -= batch->count;
    if (store->turn.count == 0)
        return;
    batches_send(store);
    redis_link_flush(store->link);
    redis_link_wake(store->link);
}

/*
 * The last one may be the one that the store was waiting for to close: nothing of it is touched
 * afterwards.
 */
static void batch_answered(void *arg, int err, const redisReply *reply)
{
    struct batch *batch = arg;
    redisReply room;

    MAGIC_CHECK(batch, BATCH_MAGIC);
    reply = line_take_more(batch->store, reply, &room);
    if (batch->is_in_redis)
        batch_left_redis(batch);
    if (reply && (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->count)) {
        err = redis_unexpected(SCRIPT_RELEASE_AND_ALLOCATE);
        reply = NULL;
    }
    for (size_t i = 0; i < batch->count; i++) {
        const redisReply *one = reply ? reply->element[i] : NULL;
        int one_err = err;

        if (!batch->operations[i])
            continue;

        if (one && one->type == REDIS_REPLY_ERROR) {
            one_err = redis_link_report(batch->store->link, one->str);
            one = NULL;
        }
        operation_answered(batch->operations[i], one_err, one);
    }
    free(batch);
}

/* Nearly always the names are all there is to say: each argument costs Redis something. */
static void batch_begin_releases(const struct batch *batch, struct args *args)
{
    bool is_detailed = false;

    for (size_t i = 0; i < batch->releases; i++) {
        const struct command *command = &batch->operations[i]->command;

        is_detailed |=
            command->release.pod || command->release.provider || command->release.why != FINISH_RELEASED;
    }
    for (size_t i = 0; i < batch->releases; i++)
        batch->operations[i]->is_detailed = is_detailed;
    args_add_u64(args, batch->releases);
    args_add_u64(args, is_detailed ? SCRIPT_RELEASE_DETAILS : SCRIPT_RELEASE_NAME);
}

/* What all allocations of the batch have in common. */
static void batch_begin_allocates(const struct batch *batch, struct args *args)
{
    const struct redis_store *store = batch->store;
    /* A call that waits may have one. */
    bool has_merchant = store->core.hold_max_wait_ms > 0 || store->line.is_used;

    for (size_t i = batch->releases; i < batch->count; i++)
        has_merchant |= batch->operations[i]->command.allocate.merchant_id[0] != '\0' ||
                        batch->operations[i]->command.allocate.waits;
    args_add_text(args, store->first.lease);
    args_add_text(args, store->first.lease_life);
    args_add_text(args, store->first.record_life);
    args_add(args, has_merchant ? store->tiers->merchants : SLICE(""));
    args_add_u64(args, store->tiers->chain_count);
    for (size_t i = 0; i < store->tiers->chain_count; i++)
        args_add(args, store->tiers->chain[i]);
}

static void batch_begin_no_allocates(struct args *args)
{
    for (int i = 0; i < 4; i++)
        args_add(args, SLICE(""));
    args_add_text(args, "0");
}

static int batch_send(struct batch *batch)
{
    struct redis_store *store = batch->store;
    const struct redis_script *script = redis_script(SCRIPT_RELEASE_AND_ALLOCATE);
    uint64_t deadline_ms = UINT64_MAX;
    struct args args;
    int err = 0;

    /* The arena of the first one will do: the arguments are copied when they are sent. */
    args_begin(&args, batch->operations[0], batch->operations[0]->arena,
               SCRIPT_RELEASE_AND_ALLOCATE_ARGS + store->tiers->chain_count +
                   SCRIPT_RELEASE_DETAILS * batch->releases +
                   SCRIPT_RELEASE_AND_ALLOCATE_EACH * (batch->count - batch->releases));
    batch_begin_releases(batch, &args);
    if (batch->releases < batch->count)
        batch_begin_allocates(batch, &args);
    else
        batch_begin_no_allocates(&args);
    for (size_t i = 0; i < batch->count && err == 0; i++) {
        const struct command_spec *spec = command_spec(batch->operations[i]->command.type);

        batch->operations[i]->script = spec->script;
        deadline_ms = min_u64(deadline_ms, batch->operations[i]->deadline_ms);
        operation_note_version(batch->operations[i]);
        err = spec->encode(batch->operations[i], &args);
    }
    if (err == 0 && args.failed)
        err = -ENOMEM;
    if (err < 0)
        return err;
    assert(redis_script_takes(script, args.count));
    store->stats.writes++;
    err = redis_link_call_until(store->link, script, store->keys.active, args.items, args.count, deadline_ms,
                                batch_answered, batch);
    for (size_t i = 0; i < batch->count && err == 0; i++)
        batch->operations[i]->is_sent = true;
    return err;
}

static bool is_allocate(const struct operation *operation)
{
    return operation->command.type == COMMAND_ALLOCATE;
}

/* Does an allocation of the same call wait before it? */
static bool is_behind_its_allocation(const struct redis_store *store, const struct operation *release)
{
    for (struct list *at = store->turn.waiting.next; at != &release->batch_link; at = at->next) {
        const struct operation *before = LIST_ENTRY(at, struct operation, batch_link);

        if (is_allocate(before) &&
            strcmp(before->command.allocate.call_sid, release->command.release.call_sid) == 0)
            return true;
    }
    return false;
}

/*
 * The oldest ones, so that nothing waits for ever. A batch ends before a release that would overtake the
 * allocation of its own call: nobody would release that call again.
 */
static size_t batch_size(const struct redis_store *store)
{
    size_t size = 0;

    for (struct list *at = store->turn.waiting.next; at != &store->turn.waiting && size < REDIS_CALL_BATCH;
         at = at->next) {
        const struct operation *operation = LIST_ENTRY(at, struct operation, batch_link);

        if (!is_allocate(operation) && is_behind_its_allocation(store, operation))
            break;
        size++;
    }
    return size;
}

/* Moves the operations of one kind among the first ones that wait. */
static void batch_fill(struct batch *batch, size_t size, bool wants_allocates)
{
    struct list *at = batch->store->turn.waiting.next;

    for (size_t left = size - batch->count; left > 0; left--) {
        struct operation *operation = LIST_ENTRY(at, struct operation, batch_link);

        at = at->next;
        if (is_allocate(operation) != wants_allocates)
            continue;
        list_remove(&operation->batch_link);
        batch->operations[batch->count++] = operation;
    }
}

/*
 * Takes operations that wait. Releases come first in it: the pods that they free are there for the
 * allocations. NULL: no memory; all is as it was.
 */
static struct batch *batch_take(struct redis_store *store)
{
    size_t size = batch_size(store);
    struct batch *batch = malloc(sizeof(*batch) + size * sizeof(struct operation *));

    assert(size > 0); /* nobody asks for an empty list */
    if (!batch)
        return NULL;
    *batch = (struct batch){.magic = BATCH_MAGIC, .store = store};
    list_init(&batch->link);
    batch_fill(batch, size, false);
    batch->releases = batch->count;
    batch_fill(batch, size, true);
    assert(batch->count == size && store->turn.count >= size);
    store->turn.count -= size;
    return batch;
}

/* Those that are late. Their answers come at the end of the turn. */
static void batch_late_waiting(struct redis_store *store, uint64_t now_ms)
{
    LIST_FOR_EACH (at, &store->turn.waiting) {
        struct operation *operation = LIST_ENTRY(at, struct operation, batch_link);

        if (operation->deadline_ms > now_ms)
            continue;
        list_remove(at);
        list_append(&store->turn.late, at);
        store->turn.count--;
    }
}

/* Redis's answer to the batch will not be theirs. What it did for them is undone later. */
static void batch_late_sent(struct redis_store *store, uint64_t now_ms)
{
    LIST_FOR_EACH (at, &store->turn.sent) {
        struct batch *batch = LIST_ENTRY(at, struct batch, link);

        for (size_t i = 0; i < batch->count; i++) {
            struct operation *operation = batch->operations[i];

            if (!operation || operation->deadline_ms > now_ms)
                continue;
            list_append(&store->turn.late, &operation->batch_link);
            batch->operations[i] = NULL;
        }
    }
}

static uint64_t batch_earliest(const struct redis_store *store)
{
    uint64_t earliest_ms = UINT64_MAX;

    LIST_FOR_EACH (at, &store->turn.waiting) {
        earliest_ms = min_u64(earliest_ms, LIST_ENTRY(at, struct operation, batch_link)->deadline_ms);
    }
    LIST_FOR_EACH (at, &store->turn.sent) {
        const struct batch *batch = LIST_ENTRY(at, struct batch, link);

        for (size_t i = 0; i < batch->count; i++) {
            if (batch->operations[i])
                earliest_ms = min_u64(earliest_ms, batch->operations[i]->deadline_ms);
        }
    }
    return earliest_ms;
}

static void batch_look(uv_timer_t *timer);

static void batch_look_at(struct redis_store *store, uint64_t earliest_ms)
{
    uint64_t now_ms = uv_now(store->turn.timer.loop);

    store->turn.earliest_ms = earliest_ms;
    if (earliest_ms < UINT64_MAX)
        (void)uv_timer_start(&store->turn.timer, batch_look, earliest_ms - min_u64(earliest_ms, now_ms), 0);
}

/* Runs once per REDIS_TIMEOUT under load: most operations are answered long before it looks at them. */
static void batch_look(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    uint64_t earliest_ms;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    earliest_ms = batch_earliest(store);
    /* Timers run before sockets are read: if it was this process that was held up, look there first. */
    if (earliest_ms <= now_ms && !store->turn.is_late) {
        store->turn.is_late = true;
        (void)uv_timer_start(timer, batch_look, BATCH_GRACE_MS, 0);
        return;
    }
    store->turn.is_late = false;
    if (earliest_ms <= now_ms) {
        batch_late_waiting(store, now_ms);
        batch_late_sent(store, now_ms);
        redis_link_wake(store->link);
        earliest_ms = batch_earliest(store);
    }
    batch_look_at(store, earliest_ms);
}

/*
 * As much as Redis may have. Answers nobody: this may be inside the call that asks. What could not be
 * sent is answered at the end of the turn.
 */
static void batches_send(struct redis_store *store)
{
    if (store->turn.earliest_ms <= uv_now(store->turn.timer.loop))
        batch_late_waiting(store, uv_now(store->turn.timer.loop));
    while (store->turn.count > 0 && store->turn.in_redis < BATCHES_MAX) {
        struct batch *batch = batch_take(store);

        if (!batch)
            return; /* the end of the turn tries again */
        batch->err = batch_send(batch);
        if (batch->err < 0)
            list_append(&store->turn.failed, &batch->link);
        else
            batch_entered_redis(batch);
    }
}

static size_t batch_early(const struct redis_store *store)
{
    return (size_t)min_u64(BATCH_EARLY, (store->turn.concurrency + 1) / 2);
}

void call_batch_add(struct operation *operation)
{
    struct redis_store *store = operation->store;

    if (operation->deadline_ms == 0)
        operation->deadline_ms = uv_now(store->turn.timer.loop) + store->link_timeout_ms;
    list_append(&store->turn.waiting, &operation->batch_link);
    store->turn.count++;
    if (operation->deadline_ms < store->turn.earliest_ms)
        batch_look_at(store, operation->deadline_ms);
    if (store->turn.count >= batch_early(store)) {
        batches_send(store);
        redis_link_flush(store->link);
    }
    redis_link_wake(store->link);
}

static void fail_all(struct list *operations, int err)
{
    while (!list_is_empty(operations)) {
        struct operation *first = LIST_ENTRY(operations->next, struct operation, batch_link);

        list_remove(&first->batch_link);
        operation_finish(first, err);
    }
}

/* The answers may close the store, and free it with the last of them. */
void call_batch_send(void *arg)
{
    struct redis_store *store = arg;
    struct list failed, late, unsent;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    batches_send(store);
    list_init(&failed);
    list_init(&late);
    list_init(&unsent);
    list_move(&failed, &store->turn.failed);
    list_move(&late, &store->turn.late);
    /* There was no memory for a batch, and no batch is in Redis whose answer would lead to another try. */
    if (store->turn.in_redis == 0) {
        list_move(&unsent, &store->turn.waiting);
        store->turn.count = 0;
    }
    while (!list_is_empty(&failed)) {
        struct batch *batch = LIST_ENTRY(failed.next, struct batch, link);

        list_remove(&batch->link);
        batch_answered(batch, batch->err, NULL);
    }
    fail_all(&late, -ETIMEDOUT);
    fail_all(&unsent, -ENOMEM);
}
