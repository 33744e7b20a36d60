/*
 * hearing.c - notices gaps in which this router had no connection to Redis or did not run.
 *
 * Pods and calls that were silent in such a gap must not end because of it. After a gap, and
 * before its first sweep, a router has it noted in Redis that for HEARTBEAT_TTL no pod counts as
 * silent and no lease as run out.
 */
#include "base/clock.h"
#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    HEARING_LOOK_MS = 500,
    HEARING_GAP_MS = 3000, /* what is longer counts; as for the embedded store */
};

void hearing_notice_gap(struct redis_store *store)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t gap_ms = now_ms - store->heard_at_ms;

    if (gap_ms > HEARING_GAP_MS && !store->must_forgive) {
        log_warn("nobody could be heard for a while: nobody is taken for silent because of that",
                 log_num("gap_ms", (int64_t)gap_ms));
        store->must_forgive = true;
    }
    if (store->is_hearing)
        store->heard_at_ms = now_ms;
}

static void hearing_look(uv_timer_t *timer)
{
    hearing_notice_gap(timer->data);
}

/* A store that is empty when we come has nobody to forgive. What we ask of it later is asked behind this. */
static void hearing_found(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    if (err == 0 && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        store->must_forgive = false;
}

static void hearing_ask(struct redis_store *store)
{
    struct arena arena;
    struct args args;

    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    args_init(&args, &arena, 3);
    args_add_text(&args, "EXISTS");
    args_add_key(&args, store, "calls:active");
    args_add_key(&args, store, "heartbeats");
    if (args.failed || redis_link_command(store->link, args.items, args.count, 1, hearing_found, store))
        log_debug("it is not known whether the store is empty");
    arena_release(&arena);
}

void hearing_changed(struct redis_store *store, bool is_up)
{
    store->is_hearing = is_up;
    if (is_up) {
        if (store->heard_at_ms)
            hearing_notice_gap(store);
        else
            hearing_ask(store); /* the first connection */
        store->heard_at_ms = clock_elapsed_ms();
    } else if (store->heard_at_ms > store->link_timeout_ms) {
        /* It may have taken that long to notice that no answers came. */
        store->heard_at_ms -= store->link_timeout_ms;
    }
}

void hearing_start(struct redis_store *store, uv_loop_t *loop)
{
    store->must_forgive = true;
    uv_timer_init(loop, &store->hearing);
    store->hearing.data = store;
    uv_timer_start(&store->hearing, hearing_look, HEARING_LOOK_MS, HEARING_LOOK_MS);
    uv_unref((uv_handle_t *)&store->hearing);
}
