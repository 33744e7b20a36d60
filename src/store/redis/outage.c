/*
 * outage.c - notices gaps in which this router had no connection to Redis or did not run.
 *
 * Pods and calls that were silent in such a gap must not end because of it. After a gap, and before
 * its first sweep, a router notes in Redis that for HEARTBEAT_TTL no pod counts as silent and no
 * lease counts as run out.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    OUTAGE_LOOK_MS = 500,
    OUTAGE_GAP_MS = SCRIPT_OUTAGE_MS, /* only longer gaps count; as for the embedded store */
};

static void outage_log(uint64_t gap_ms, bool was_connected)
{
    char message[128];

    snprintf(message, sizeof(message),
             "%s for %.1f s: leases that ran out meanwhile are kept for HEARTBEAT_TTL",
             was_connected ? "this process was paused" : "Redis was unreachable", (double)gap_ms / 1000);
    log_warn(message, log_num("gap_ms", (int64_t)gap_ms));
}

static void outage_look_back(struct redis_store *store, bool was_connected)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t gap_ms = now_ms - store->outage.last_connected_ms;

    if (gap_ms > OUTAGE_GAP_MS && !store->outage.must_keep_leases) {
        outage_log(gap_ms, was_connected);
        store->outage.must_keep_leases = true;
    }
    if (store->outage.is_connected)
        store->outage.last_connected_ms = now_ms;
}

void outage_notice_gap(struct redis_store *store)
{
    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    outage_look_back(store, store->outage.is_connected);
}

void outage_noted(struct redis_store *store)
{
    store->outage.must_keep_leases = false;
}

static void outage_look(uv_timer_t *timer)
{
    outage_notice_gap(timer->data);
}

/*
 * A store that is empty at the first connection has no leases to keep. Later requests are answered
 * later.
 */
static void outage_found(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (err == 0 && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        store->outage.must_keep_leases = false;
}

static void outage_ask(struct redis_store *store)
{
    struct arena arena;
    struct args args;

    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    args_init(&args, &arena, 3);
    args_add_text(&args, "EXISTS");
    args_add_key(&args, store, SCRIPT_KEY_CALLS_ACTIVE);
    args_add_key(&args, store, SCRIPT_KEY_HEARTBEATS);
    if (args.failed || redis_link_command(store->link, args.items, args.count, 1, outage_found, store))
        log_debug("could not ask whether the store is empty");
    arena_release(&arena);
}

void outage_changed(struct redis_store *store, bool is_up)
{
    store->outage.is_connected = is_up;
    if (is_up) {
        if (store->outage.last_connected_ms)
            outage_look_back(store, false);
        else
            outage_ask(store); /* the first connection */
        store->outage.last_connected_ms = clock_elapsed_ms();
    } else if (store->outage.last_connected_ms > store->link_timeout_ms) {
        /* It may have taken that long to notice that no answer came. */
        store->outage.last_connected_ms -= store->link_timeout_ms;
    }
}

void outage_start(struct redis_store *store, uv_loop_t *loop)
{
    store->outage.must_keep_leases = true;
    redis_open_timer(store, loop, &store->outage.timer);
    uv_timer_start(&store->outage.timer, outage_look, OUTAGE_LOOK_MS, OUTAGE_LOOK_MS);
}
