/*
 * mail.c - what other routers did to the calls that this one carries.
 *
 * A script that ends a carried call leaves its name in the mailbox of each router that carries it (see
 * scripts/redis/lib/ended.lua). While this router carries anything it looks there a few times a second. What
 * it has read is taken out by the next look, so that an answer that is lost is read again. It may be told
 * twice.
 */
#include <stdio.h>

#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    MAIL_LOOK_MS = 250,
    MAIL_IDLE_LOOKS = 240, /* without a word from the carrier: it has nothing to carry any more */
};

static void mail_tell(const struct redis_store *store, redisReply *const *notes, size_t count)
{
    for (size_t i = 0; i < count && store->on_over; i++) {
        if (notes[i]->type == REDIS_REPLY_STRING)
            store->on_over(store->on_over_arg, notes[i]->str);
    }
}

static void mail_read(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    store->mail.is_asking = false;
    if (err)
        return;
    store->mail.read = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return;
    store->mail.read = reply->elements - 1;
    if (store->mail.read > 0 && reply->element[1]->type == REDIS_REPLY_STRING)
        snprintf(store->mail.first, sizeof(store->mail.first), "%s", reply->element[1]->str);
    mail_tell(store, reply->element + 1, store->mail.read);
    /* Somebody has emptied it: as after an outage, what is carried must be said again. */
    if (reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer == 0 &&
        store->store.on_back)
        store->store.on_back(store->store.on_back_arg);
}

static int mail_ask(struct redis_store *store, struct arena *arena)
{
    struct args args;

    args_begin_with(&args, store, store->tiers, arena, 3);
    args_add_text(&args, store->mail.carrier);
    args_add_u64(&args, store->mail.read);
    args_add_text(&args, store->mail.first);
    return args.failed ? -ENOMEM
                       : redis_link_call(store->link, redis_script("mail"), store->key, args.items,
                                         args.count, mail_read, store);
}

static void mail_look(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct arena arena;

    if (store->is_closing || store->mail.is_asking || !store->tiers || !redis_link_is_up(store->link))
        return;
    if (store->mail.looks_left == 0 && store->mail.read == 0) {
        (void)uv_timer_stop(timer);
        return;
    }
    if (store->mail.looks_left > 0)
        store->mail.looks_left--;
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    store->mail.is_asking = mail_ask(store, &arena) == 0;
    arena_release(&arena);
}

void mail_expect(struct redis_store *store, const char *carrier)
{
    if (!carrier || store->is_closing)
        return;
    assert(strlen(carrier) <= CARRIER_MAX);
    memcpy(store->mail.carrier, carrier, strlen(carrier) + 1);
    store->mail.looks_left = MAIL_IDLE_LOOKS + store->core.lease_ttl_ms / MAIL_LOOK_MS;
    if (!uv_is_active((uv_handle_t *)&store->mail.timer))
        (void)uv_timer_start(&store->mail.timer, mail_look, MAIL_LOOK_MS, MAIL_LOOK_MS);
}

void mail_start(struct redis_store *store, uv_loop_t *loop)
{
    (void)uv_timer_init(loop, &store->mail.timer);
    store->mail.timer.data = store;
    uv_unref((uv_handle_t *)&store->mail.timer);
}
