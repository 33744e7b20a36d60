/*
 * wipe.c - notices that Redis has lost all that was stored: FLUSHALL, a restart without persistence,
 * an empty replica that was promoted.
 *
 * Every router stores the tiers if there are none, so a store without tiers that has been used was
 * emptied. The router looks for the tiers once a second, so that an operator is told at once and not
 * with the first call that is refused. The look costs one EXISTS.
 */
#include "base/log.h"
#include "store/redis/redis_internal.h"

enum { WIPE_LOOK_MS = 1000 };

static void wipe_looked(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    store->wipe.is_asking = false;
    if (err == 0 && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0)
        tiers_load(store); /* whoever stores them again says it: wipe_found */
}

static void wipe_look(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct arena arena;
    struct args args;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (store->wipe.is_asking || !store->tiers || store->closing.is_begun || !redis_link_is_up(store->link))
        return;
    arena_init(&arena, REDIS_BULK_ARENA_MAX);
    args_init(&args, &arena, 2);
    args_add_text(&args, "EXISTS");
    args_add_key(&args, store, SCRIPT_KEY_TIER_CONFIG);
    if (!args.failed && redis_link_command(store->link, args.items, args.count, 1, wipe_looked, store) == 0)
        store->wipe.is_asking = true;
    arena_release(&arena);
}

void wipe_found(struct redis_store *store)
{
    store->stats.wipes++;
    log_error("Redis has lost all that was stored: calls are refused until the pods are registered again, by "
              "the next full sync (RECONCILE_INTERVAL) or by themselves. Tiers were stored again from "
              "TIER_CONFIG; store the configurations of merchants again",
              log_str("key_prefix", store->keys.prefix));
}

void wipe_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->wipe.timer);
    uv_timer_start(&store->wipe.timer, wipe_look, WIPE_LOOK_MS, WIPE_LOOK_MS);
}
