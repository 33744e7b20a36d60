/*
 * mailbox.c - reads the notes for this router about calls that it carries or holds.
 *
 * A script that ends, moves or grants such a call leaves its name in the mailbox of each router concerned
 * (see scripts/redis/lib/notes.lua), and wakes the router up through a channel of its own. While this
 * router carries or holds anything it reads its mailbox then, and a few times a second anyway. What it has
 * read is taken out by the next look, so that an answer that is lost is read again. It may be told twice.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    MAILBOX_LOOK_MS = 250,
    MAILBOX_IDLE_LOOKS = 240, /* without a word from the carrier: it has nothing to carry any more */
};

static void mailbox_look(struct redis_store *store);

/* The name of a carried call that has ended; or something else has happened to the call: see notes.lua. */
static void mailbox_tell_one(const struct redis_store *store, const char *note)
{
    size_t mark = strlen(SCRIPT_NOTE_CHANGED);

    if (strncmp(note, SCRIPT_NOTE_CHANGED, mark) != 0) {
        if (store->hooks.on_finished)
            store->hooks.on_finished(store->hooks.on_finished_arg, note);
    } else if (store->hooks.on_changed) {
        store->hooks.on_changed(store->hooks.on_changed_arg, note + mark);
    }
}

static void mailbox_tell(const struct redis_store *store, redisReply *const *notes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (notes[i]->type == REDIS_REPLY_STRING)
            mailbox_tell_one(store, notes[i]->str);
    }
}

static void mailbox_read(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;
    bool must_look;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    must_look = store->mailbox.must_look;
    store->mailbox.is_asking = false;
    store->mailbox.must_look = false;
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
    /* A note that came meanwhile, or did not fit into this answer. */
    if (must_look || store->mailbox.read >= SCRIPT_MAIL_NOTES)
        mailbox_look(store);
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

static void mailbox_look(struct redis_store *store)
{
    struct arena arena;

    if (store->closing.is_begun || !store->tiers || !redis_link_is_up(store->link))
        return;
    if (store->mailbox.is_asking) {
        store->mailbox.must_look = true;
        return;
    }
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    store->mailbox.is_asking = mailbox_ask(store, &arena) == 0;
    arena_release(&arena);
}

static void mailbox_tick(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (store->mailbox.looks_left == 0 && store->mailbox.read == 0) {
        (void)uv_timer_stop(timer);
        mailbox_close(store);
        return;
    }
    if (store->mailbox.looks_left > 0)
        store->mailbox.looks_left--;
    if (!store->mailbox.is_asking)
        mailbox_look(store);
}

/* Somebody has left a note; data NULL: from here on no word is missed, but one may have been before. */
static void mailbox_woken(void *arg, struct slice message UNUSED)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    /* A link that is being closed may still deliver messages. */
    if (store->mailbox.link)
        mailbox_look(store);
}

/* Without memory, or without the right, notes are read a little later. */
static void mailbox_listen(struct redis_store *store)
{
    if (store->mailbox.link || store->mailbox_look_ms > MAILBOX_LOOK_MS)
        return;
    if (!store->mailbox.channel)
        store->mailbox.channel =
            malloc(strlen(store->keys.prefix) + strlen(SCRIPT_KEY_WAKE) + CARRIER_MAX + 1);
    if (!store->mailbox.channel)
        return;
    snprintf(store->mailbox.channel, strlen(store->keys.prefix) + strlen(SCRIPT_KEY_WAKE) + CARRIER_MAX + 1,
             "%s" SCRIPT_KEY_WAKE "%s", store->keys.prefix, store->mailbox.carrier);
    if (redis_link_subscribe(store->link, store->mailbox.channel, mailbox_woken, store,
                             &store->mailbox.link) < 0)
        return;
    redis_opened_link(store);
}

void mailbox_expect(struct redis_store *store, const char *carrier, bool is_urgent)
{
    if (!carrier || store->closing.is_begun)
        return;
    assert(strlen(carrier) <= CARRIER_MAX);
    if (strcmp(store->mailbox.carrier, carrier) != 0)
        mailbox_close(store);
    memcpy(store->mailbox.carrier, carrier, strlen(carrier) + 1);
    store->mailbox.looks_left = MAILBOX_IDLE_LOOKS + store->core.lease_ttl_ms / MAILBOX_LOOK_MS;
    if (!uv_is_active((uv_handle_t *)&store->mailbox.timer))
        (void)uv_timer_start(&store->mailbox.timer, mailbox_tick, store->mailbox_look_ms,
                             store->mailbox_look_ms);
    if (is_urgent)
        mailbox_listen(store);
}

void mailbox_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->mailbox.timer);
    if (store->mailbox_look_ms == 0)
        store->mailbox_look_ms = MAILBOX_LOOK_MS;
}

void mailbox_close(struct redis_store *store)
{
    if (store->mailbox.link)
        redis_link_close(TAKE(store->mailbox.link), redis_link_closed, store);
}

void mailbox_release(struct redis_store *store)
{
    free(store->mailbox.channel);
}
