/*
 * redis.c - opens and closes the Redis store, and counts the handles that must close with it.
 *
 * The life of each command is in operation.c.
 */
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/redis/redis_internal.h"

enum {
    /* All routers notice a failover, and come to the new server, within a second of one another. */
    REDIS_SETTLE_MS = 2000,
};

struct redis_link *redis_store_link(struct store *store)
{
    return redis_of(store)->link;
}

void redis_store_set_guard(struct store *store, redis_guard_fn may_lead, void *arg)
{
    redis_of(store)->hooks.may_lead = may_lead;
    redis_of(store)->hooks.may_lead_arg = arg;
}

static int redis_execute(struct store *store, const struct command *command, struct arena *arena,
                         store_done_fn done, void *arg)
{
    struct redis_store *redis = redis_of(store);
    int err;

    redis->stats.commands++;
    err = operation_execute(redis, command, arena, done, arg);
    if (err < 0)
        redis->stats.errors++;
    return err;
}

static void redis_health(const struct store *store, struct store_health *ret_health)
{
    const struct redis_store *redis = CONTAINER_OF(store, struct redis_store, store);
    bool is_up = !redis->closing.is_begun && redis_link_is_up(redis->link);

    *ret_health = (struct store_health){
        .is_ready = is_up && redis->tiers,
        .is_shared = true,
        .name = "redis",
        .detail = redis->closing.is_begun          ? "the store is closing"
                  : !is_up                         ? redis_link_detail(redis->link)
                  : redis->tiers                   ? ""
                  : redis->tier_loading.bad_text   ? "the stored tier configuration is not valid"
                  : redis->tier_loading.is_refused ? store_error_text(-EACCES)
                                                   : "the tier configuration has not been read yet",
    };
}

static void redis_stats(const struct store *store, struct store_stats *ret_stats)
{
    *ret_stats = CONTAINER_OF(store, const struct redis_store, store)->stats;
}

static void redis_free(struct redis_store *store)
{
    undo_release(store);
    past_release(store);
    mailbox_release(store);
    tiers_release(store);
    free(store->keys.prefix);
    free(store->keys.active);
    free(store->keys.waited);
    free(store->keys.channel);
    free(store->keys.settling);
    free(store->keys.ended);
    free(store);
}

static void redis_closed_one(struct redis_store *store)
{
    store_closed_fn closed;
    void *arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    closed = store->closing.closed;
    arg = store->closing.closed_arg;
    assert(store->closing.open_handles > 0);
    if (--store->closing.open_handles > 0)
        return;
    assert(store->closing.are_handles_closing);
    redis_free(store);
    closed(arg);
}

static void redis_timer_closed(uv_handle_t *handle)
{
    redis_closed_one(handle->data);
}

void redis_open_timer(struct redis_store *store, uv_loop_t *loop, uv_timer_t *timer)
{
    (void)uv_timer_init(loop, timer);
    timer->data = store;
    uv_unref((uv_handle_t *)timer);
    store->closing.open_handles++;
}

static void redis_close_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, redis_timer_closed);
}

void redis_opened_link(struct redis_store *store)
{
    store->closing.open_handles++;
}

void redis_link_closed(void *arg)
{
    redis_closed_one(arg);
}

void redis_close_if_idle(struct redis_store *store)
{
    if (!store->closing.is_begun || store->closing.are_handles_closing ||
        !list_is_empty(&store->work.under_way) || !list_is_empty(&store->work.deferred))
        return;
    past_flush(store);
    if (store->past.under_way > 0)
        return;
    store->closing.are_handles_closing = true;
    redis_listen(&store->store, false);
    mailbox_close(store);
    redis_close_timer(&store->work.defer_timer);
    redis_close_timer(&store->tier_loading.timer);
    redis_close_timer(&store->outage.timer);
    redis_close_timer(&store->wipe.timer);
    redis_close_timer(&store->mailbox.timer);
    redis_close_timer(&store->undo.timer);
    redis_close_timer(&store->past.timer);
    redis_close_timer(&store->turn.timer);
    redis_link_close(store->link, redis_link_closed, store);
}

static void redis_close(struct store *store, store_closed_fn closed, void *arg)
{
    struct redis_store *redis = redis_of(store);

    assert(!redis->closing.is_begun);
    redis->closing.is_begun = true;
    redis->closing.closed = closed;
    redis->closing.closed_arg = arg;
    redis_close_if_idle(redis);
}

static void redis_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    redis_of(store)->hooks.on_ended = fn;
    redis_of(store)->hooks.on_ended_arg = arg;
}

static void redis_on_finished(struct store *store, call_finished_fn fn, void *arg)
{
    redis_of(store)->hooks.on_finished = fn;
    redis_of(store)->hooks.on_finished_arg = arg;
}

static void redis_on_changed(struct store *store, call_changed_fn fn, void *arg)
{
    redis_of(store)->hooks.on_changed = fn;
    redis_of(store)->hooks.on_changed_arg = arg;
}

static const struct store_ops redis_ops = {
    .execute = redis_execute,
    .on_ended = redis_on_ended,
    .on_finished = redis_on_finished,
    .on_changed = redis_on_changed,
    .health = redis_health,
    .stats = redis_stats,
    .close = redis_close,
    .publish = redis_publish,
    .listen = redis_listen,
    .ask_facts = redis_ask_facts,
};

static void redis_changed(void *arg, bool is_up)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    outage_changed(store, is_up);
    if (is_up && store->tiers && store->store.on_back)
        store->store.on_back(store->store.on_back_arg);
    if (is_up)
        tiers_load(store);
}

static void redis_init_lives(struct redis_store *store)
{
    unsigned long long lease_ms =
        store->core.connect_timeout_ms ? store->core.connect_timeout_ms : store->core.call_max_duration_ms;
    unsigned long long record_ms = lease_ms > store->call_info_ttl_ms ? lease_ms : store->call_info_ttl_ms;

    snprintf(store->first.lease, sizeof(store->first.lease), "%llu", lease_ms);
    snprintf(store->first.lease_life, sizeof(store->first.lease_life), "%llu", lease_ms + SCRIPT_GRACE_MS);
    snprintf(store->first.record_life, sizeof(store->first.record_life), "%llu",
             record_ms + SCRIPT_RECORD_GRACE_MS);
}

static void redis_init_hold(struct redis_store *store)
{
    snprintf(store->hold.max_wait, sizeof(store->hold.max_wait), "%llu",
             (unsigned long long)store->core.hold_max_wait_ms);
    snprintf(store->hold.max_calls, sizeof(store->hold.max_calls), "%llu",
             (unsigned long long)store->core.hold_max_calls);
    snprintf(store->hold.ageing, sizeof(store->hold.ageing), "%llu",
             (unsigned long long)store->core.hold_ageing_ms);
}

static int redis_init(struct redis_store *store, const struct redis_settings *settings)
{
    size_t size = strlen(settings->key_prefix) + sizeof(SCRIPT_KEY_CALLS_ACTIVE);

    store->magic = REDIS_STORE_MAGIC;
    store->store.ops = &redis_ops;
    store->core = settings->core;
    store->call_info_ttl_ms = settings->call_info_ttl_ms;
    store->tier_refresh_ms = settings->tier_refresh_ms ? settings->tier_refresh_ms : 30000;
    store->mailbox_look_ms = settings->mailbox_look_ms;
    store->waits_for_replicas = settings->link.wait_replicas > 0;
    store->link_timeout_ms = settings->link.timeout_ms;
    redis_init_lives(store);
    redis_init_hold(store);
    operations_init(store);
    call_batch_init(store);
    store->keys.prefix = strdup(settings->key_prefix);
    store->keys.active = malloc(size);
    store->keys.waited = malloc(size);
    store->keys.channel = malloc(size);
    store->keys.settling = malloc(size);
    store->keys.ended = malloc(size);
    if (!store->keys.prefix || !store->keys.active || !store->keys.waited || !store->keys.channel ||
        !store->keys.settling || !store->keys.ended)
        return -ENOMEM;
    snprintf(store->keys.active, size, "%s" SCRIPT_KEY_CALLS_ACTIVE, settings->key_prefix);
    snprintf(store->keys.waited, size, "%swaited", settings->key_prefix);
    snprintf(store->keys.ended, size, "%s" SCRIPT_KEY_CALLS_ENDED, settings->key_prefix);
    snprintf(store->keys.settling, size, "%s" SCRIPT_KEY_SETTLING, settings->key_prefix);
    snprintf(store->keys.channel, size, "%sevents", settings->key_prefix);
    return tiers_init(store, settings->tier_config);
}

int redis_open(uv_loop_t *loop, const struct redis_settings *settings, struct store **ret_store)
{
    struct redis_store *store = calloc(1, sizeof(*store));
    struct redis_link_settings link = settings->link;
    int err;

    if (!store)
        return -ENOMEM;
    err = redis_init(store, settings);
    if (err == 0) {
        link.settle_key = store->keys.settling;
        link.settle_ms = REDIS_SETTLE_MS;
        link.on_change = redis_changed;
        link.on_change_arg = store;
        link.on_turn = call_batch_send;
        link.on_turn_arg = store;
        err = redis_link_new(loop, &link, &store->link);
    }
    if (err < 0) {
        redis_free(store);
        return err;
    }
    redis_opened_link(store);
    operations_start(store, loop);
    tiers_start(store, loop);
    outage_start(store, loop);
    wipe_start(store, loop);
    mailbox_start(store, loop);
    undo_start(store, loop);
    past_start(store, loop);
    call_batch_start(store, loop);
    *ret_store = &store->store;
    return 0;
}
