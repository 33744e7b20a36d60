/*
 * undo.c - takes back allocations that were answered with an error although they may have been carried out.
 *
 * An allocation whose answer was lost, or that too few replicas have, holds a pod that nobody knows of. Each
 * is undone in the background: not before its deadline, because until then the script itself may still be on
 * its way; and again and again until an answer says that it is done. A request that asked for the same call
 * meanwhile keeps it (see scripts/redis/undo.lua). What is left when this process ends is ended by
 * CONNECT_TIMEOUT or by the lease.
 */
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    UNDO_BATCH_MAGIC = 0x756e646f,
    UNDO_MAX = 65536, /* waiting at once; beyond it the oldest is left to its lease */
    UNDO_LOOK_MS = 200,
};

struct undo {
    struct list link;
    uint64_t attempt;
    uint64_t not_before_ms; /* uv_now */
    char call_sid[];
};

struct undo_batch {
    unsigned magic;
    struct redis_store *store;
    struct list undos;
    size_t count;
};

static struct undo *undo_first(const struct list *undos)
{
    return LIST_ENTRY(undos->next, struct undo, link);
}

static void undo_forget(struct undo *undo)
{
    list_remove(&undo->link);
    free(undo);
}

/* SCRIPT_RELEASE_DONE with the pod: the call was ended. */
static void undo_answered(const struct redis_store *store, const struct undo *undo, const redisReply *reply)
{
    bool is_ended = reply->type == REDIS_REPLY_ARRAY && reply->elements > 2 &&
                    reply->element[0]->type == REDIS_REPLY_INTEGER &&
                    reply->element[0]->integer == SCRIPT_RELEASE_DONE;

    if (reply->type == REDIS_REPLY_ERROR)
        (void)redis_link_report(store->link, reply->str);
    else if (is_ended)
        log_info("allocation undone: its client was answered with an error",
                 log_str("call_sid", undo->call_sid), log_str("pod", reply->element[1]->str));
}

static void undo_look(uv_timer_t *timer);

static void undo_batch_answered(void *arg, int err, const redisReply *reply)
{
    struct undo_batch *batch = arg;
    struct redis_store *store;
    redisReply room;
    size_t at = 0;

    MAGIC_CHECK(batch, UNDO_BATCH_MAGIC);
    store = batch->store;
    reply = line_take_more(store, reply, &room);
    store->undo.is_asking = false;
    if (err == -ESTALE)
        tiers_load(store);
    while (!list_is_empty(&batch->undos)) {
        struct undo *undo = undo_first(&batch->undos);

        if (err || !reply) {
            list_remove(&undo->link);
            list_append(&store->undo.waiting, &undo->link);
            continue;
        }
        if (reply->type == REDIS_REPLY_ARRAY && at < reply->elements)
            undo_answered(store, undo, reply->element[at]);
        at++;
        store->undo.count--;
        undo_forget(undo);
    }
    free(batch);
    if (!err && !store->closing.is_begun)
        undo_look(&store->undo.timer); /* there may be thousands: the next ones follow at once */
}

/* Takes those that are due; they come nearly in the order of their deadlines. */
static struct undo_batch *undo_take_due(struct redis_store *store)
{
    struct undo_batch *batch = malloc(sizeof(*batch));

    if (!batch)
        return NULL;
    *batch = (struct undo_batch){.magic = UNDO_BATCH_MAGIC, .store = store};
    list_init(&batch->undos);
    LIST_FOR_EACH (link, &store->undo.waiting) {
        struct undo *undo = LIST_ENTRY(link, struct undo, link);

        if (undo->not_before_ms > uv_now(store->undo.timer.loop) || batch->count == REDIS_CALL_BATCH)
            break;
        list_remove(link);
        list_append(&batch->undos, link);
        batch->count++;
    }
    return batch;
}

static int undo_send(struct redis_store *store, struct undo_batch *batch, struct arena *arena)
{
    struct args args;

    args_begin_with(&args, store, store->tiers, arena, SCRIPT_UNDO_ARGS + SCRIPT_UNDO_EACH * batch->count);
    args_add_text(&args, SCRIPT_YES); /* the client may ask again: its place in line stays */
    LIST_FOR_EACH (link, &batch->undos) {
        const struct undo *undo = LIST_ENTRY(link, struct undo, link);

        args_add_text(&args, undo->call_sid);
        args_add_u64(&args, undo->attempt);
    }
    assert(args.failed || redis_script_takes(redis_script(SCRIPT_UNDO), args.count));
    return args.failed ? -ENOMEM
                       : redis_link_call(store->link, redis_script(SCRIPT_UNDO), store->keys.active,
                                         args.items, args.count, undo_batch_answered, batch);
}

static void undo_look(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct undo_batch *batch;
    struct arena arena;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (list_is_empty(&store->undo.waiting)) {
        if (!store->undo.is_asking)
            (void)uv_timer_stop(timer);
        return;
    }
    if (store->undo.is_asking || !store->tiers || !redis_link_is_up(store->link))
        return;
    batch = undo_take_due(store);
    if (!batch)
        return;
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    store->undo.is_asking = true;
    if (batch->count == 0 || undo_send(store, batch, &arena) < 0)
        undo_batch_answered(batch, -ENOTCONN, NULL);
    arena_release(&arena);
}

void undo_later(struct redis_store *store, const char *call_sid, uint64_t attempt)
{
    size_t size = strlen(call_sid) + 1;
    struct undo *undo = malloc(sizeof(*undo) + size);

    if (store->undo.count >= UNDO_MAX && !list_is_empty(&store->undo.waiting)) {
        log_warn("too many allocations wait to be undone: the oldest is left to its lease",
                 log_str("call_sid", undo_first(&store->undo.waiting)->call_sid));
        undo_forget(undo_first(&store->undo.waiting));
        store->undo.count--;
    }
    if (!undo) {
        log_warn("no memory to undo an allocation: it is left to its lease", log_str("call_sid", call_sid));
        return;
    }
    undo->attempt = attempt;
    undo->not_before_ms = uv_now(store->undo.timer.loop) + store->link_timeout_ms;
    memcpy(undo->call_sid, call_sid, size);
    list_init(&undo->link);
    list_append(&store->undo.waiting, &undo->link);
    store->undo.count++;
    if (!uv_is_active((uv_handle_t *)&store->undo.timer))
        (void)uv_timer_start(&store->undo.timer, undo_look, UNDO_LOOK_MS, UNDO_LOOK_MS);
}

void undo_start(struct redis_store *store, uv_loop_t *loop)
{
    list_init(&store->undo.waiting);
    redis_open_timer(store, loop, &store->undo.timer);
}

void undo_release(struct redis_store *store)
{
    if (store->undo.count > 0)
        log_warn("allocations that were answered with an error could not be undone: their leases end them",
                 log_num("calls", (int64_t)store->undo.count));
    while (store->undo.waiting.next && !list_is_empty(&store->undo.waiting))
        undo_forget(undo_first(&store->undo.waiting));
}
