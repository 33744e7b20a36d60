/*
 * mailbox.c - reads the ends of calls that this router carries and that other routers have ended.
 *
 * A script that ends a carried call leaves its name in the mailbox of each router that carries it
 * (see scripts/redis/lib/notes.lua). While this router carries anything it looks there a few times
 * a second. What it has read is taken out by the next look, so that an answer that is lost is read
 * again. It may be told twice.
 */
#include <stdio.h>

#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    MAILBOX_LOOK_MS = 250,
    MAILBOX_IDLE_LOOKS = 240, /* without a word from the carrier: it has nothing to carry any more */
};

static void mailbox_tell(const struct redis_store *store, redisReply *const *notes, size_t count)
{
    for (size_t i = 0; i < count && store->hooks.on_finished; i++) {
        if (notes[i]->type == REDIS_REPLY_STRING)
            store->hooks.on_finished(store->hooks.on_finished_arg, notes[i]->str);
    }
}

static void mailbox_read(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    store->mailbox.is_asking = false;
    if (err < 0)
        return;
    store->mailbox.read = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return;
    store->mailbox.read = reply->elements - 1;
    if (store->mailbox.read > 0 && reply->element[1]->type == REDIS_REPLY_STRING)
        snprintf(store->mailbox.first, sizeof(store->mailbox.first), "%s", reply->element[1]->str);
    mailbox_tell(store, reply->element + 1, store->mailbox.read);
    /* The store was emptied: as after an outage, the calls that are carried must be renewed. */
    if (reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer == 0 &&
        store->store.on_back)
        store->store.on_back(store->store.on_back_arg);
}

static int mailbox_ask(struct redis_store *store, struct arena *arena)
{
    struct args args;

    args_begin_with(&args, store, store->tiers, arena, SCRIPT_MAIL_ARGS);
    args_add_text(&args, store->mailbox.carrier);
    args_add_u64(&args, store->mailbox.read);
    args_add_text(&args, store->mailbox.first);
    assert(args.failed || redis_script_takes(redis_script(SCRIPT_MAIL), args.count));
    return args.failed ? -ENOMEM
                       : redis_link_call(store->link, redis_script(SCRIPT_MAIL), store->keys.active,
                                         args.items, args.count, mailbox_read, store);
}

static void mailbox_look(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct arena arena;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (store->closing.is_begun || store->mailbox.is_asking || !store->tiers ||
        !redis_link_is_up(store->link))
        return;
    if (store->mailbox.looks_left == 0 && store->mailbox.read == 0) {
        (void)uv_timer_stop(timer);
        return;
    }
    if (store->mailbox.looks_left > 0)
        store->mailbox.looks_left--;
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    store->mailbox.is_asking = mailbox_ask(store, &arena) == 0;
    arena_release(&arena);
}

void mailbox_expect(struct redis_store *store, const char *carrier)
{
    if (!carrier || store->closing.is_begun)
        return;
    assert(strlen(carrier) <= CARRIER_MAX);
    memcpy(store->mailbox.carrier, carrier, strlen(carrier) + 1);
    store->mailbox.looks_left = MAILBOX_IDLE_LOOKS + store->core.lease_ttl_ms / MAILBOX_LOOK_MS;
    if (!uv_is_active((uv_handle_t *)&store->mailbox.timer))
        (void)uv_timer_start(&store->mailbox.timer, mailbox_look, MAILBOX_LOOK_MS, MAILBOX_LOOK_MS);
}

void mailbox_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->mailbox.timer);
}
