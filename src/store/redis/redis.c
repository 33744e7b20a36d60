/*
 * redis.c - opens and closes the Redis store, and carries each operation from the command to its
 * answer.
 *
 * It retries operations whose tiers were out of date, waits for replicas, and reports calls that
 * ended.
 */
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/redis_internal.h"

static void redis_close_now(struct redis_store *store);

struct redis_link *redis_store_link(struct store *store)
{
    return redis_of(store)->link;
}

void redis_store_set_guard(struct store *store, redis_guard_fn may_lead, void *arg)
{
    redis_of(store)->may_lead = may_lead;
    redis_of(store)->may_lead_arg = arg;
}

/* The calls that the answer names as ended, or NULL. */
static const struct ended_array *operation_ended(const struct operation *operation)
{
    switch (operation->command.type) {
    case COMMAND_HEARTBEAT:
        return &operation->result->heartbeat.ended;
    case COMMAND_POD_SEEN:
        return &operation->result->pod_seen.ended;
    case COMMAND_POD_GONE:
        return &operation->result->pod_gone.ended;
    case COMMAND_SYNC:
        return &operation->result->sync.ended;
    case COMMAND_SWEEP:
        return &operation->result->sweep.ended;
    default:
        return NULL;
    }
}

static void tell_ended(const struct redis_store *store, const struct ended_array *ended)
{
    for (size_t i = 0; store->on_ended && ended && i < ended->count; i++)
        store->on_ended(store->on_ended_arg, &ended->calls[i]);
}

/* Also when the operation failed half-way: what has ended has ended. */
static void operation_tell_ended(const struct operation *operation)
{
    tell_ended(operation->store, &operation->lost);
    if (operation->result->outcome == OUTCOME_OK)
        tell_ended(operation->store, operation_ended(operation));
}

/* What was answered with an error must hold nothing. */
static void operation_failed(const struct operation *operation)
{
    const struct command *command = &operation->command;

    operation->store->stats.errors++;
    if (command->type == COMMAND_ALLOCATE && operation->is_sent)
        undo_later(operation->store, command->allocate.call_sid, command->allocate.attempt);
    else if (command->type == COMMAND_UNDO)
        undo_later(operation->store, command->undo.call_sid, command->undo.attempt);
}

void operation_finish(struct operation *operation, int err)
{
    struct redis_store *store = operation->store;

    list_remove(&operation->link);
    if (err)
        operation_failed(operation);
    operation_tell_ended(operation);
    bulk_free(operation->bulk);
    operation->done(operation->arg, err, err ? NULL : operation->result);
    free(operation);
    if (store->is_closing && list_is_empty(&store->operations) && list_is_empty(&store->deferred))
        redis_close_now(store);
}

static void redis_deferred(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct list ready;

    /* What the callbacks start waits for the next turn. */
    list_init(&ready);
    while (!list_is_empty(&store->deferred)) {
        struct list *first = store->deferred.next;

        list_remove(first);
        list_append(&ready, first);
    }
    while (!list_is_empty(&ready)) {
        struct operation *operation = LIST_ENTRY(ready.next, struct operation, link);

        list_remove(&operation->link);
        list_append(&store->operations, &operation->link);
        operation_finish(operation, 0);
    }
}

void operation_defer(struct operation *operation)
{
    struct redis_store *store = operation->store;

    list_remove(&operation->link);
    list_append(&store->deferred, &operation->link);
    uv_timer_start(&store->defer, redis_deferred, 0, 0);
}

int operation_invalid(struct operation *operation, enum outcome outcome, const char *message)
{
    operation->result->outcome = outcome;
    operation->result->error = arena_strdup(operation->arena, message);
    return operation->result->error ? 0 : -ENOMEM;
}

int operation_unexpected(const struct operation *operation)
{
    log_error("unexpected answer from Redis", log_str("script", operation->script));
    return -EIO;
}

static void operation_waited(void *arg, int err, const redisReply *reply UNUSED)
{
    operation_finish(arg, err);
}

/*
 * Before an answer that its client will rely on: 0 if it comes after the wait, 1 if there is nothing to wait
 * for, or a negative errno.
 *
 * A call that is not there to be released counts as released, and one that has its pod already as allocated.
 * The step that made it so may have been another one, of any router, that no replica has yet.
 */
static int operation_wait(struct operation *operation)
{
    const struct redis_store *store = operation->store;
    enum command_type type = operation->command.type;
    enum outcome outcome = operation->result->outcome;
    bool is_gone = type == COMMAND_RELEASE && outcome == OUTCOME_NOT_FOUND;
    bool is_old = (type == COMMAND_ALLOCATE && operation->result->allocate.was_existing) ||
                  (type == COMMAND_MOVE_CALL && !operation->result->move.was_moved);

    if (outcome != OUTCOME_OK && !is_gone)
        return 1;
    return redis_link_wait(store->link, is_gone || is_old ? store->mark_key : NULL, operation_waited,
                           operation);
}

static int operation_mend(struct operation *operation);

/* The tiers have been read. */
static void operation_again(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0) {
        /* A list is of another type though the tiers are those that we knew: somebody has made it so. */
        bool is_bad = operation->stale_err == -EBADMSG && !operation_is_behind(operation);

        err = is_bad ? operation_mend(operation) : operation_send(operation);
    }
    if (err)
        operation_finish(operation, err);
}

/*
 * The tiers are others than those with which it was sent: a script has said so, or met a list of another
 * type. It is sent again with those that hold now.
 */
static int operation_retry(struct operation *operation, int why)
{
    operation->stale_err = why;
    if (operation_is_behind(operation))
        return operation_send(operation);
    return tiers_request(operation->store, operation_again, operation);
}

static void operation_mended(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == -ESTALE && operation_may_repeat(operation)) {
        operation->is_mended = false;
        err = operation_retry(operation, err);
    } else if (err == 0) {
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0)
            log_warn("a pool was of the wrong type; its pods come back with the next sweep");
        err = operation_send(operation);
    }
    if (err)
        operation_finish(operation, err);
}

static int operation_mend(struct operation *operation)
{
    operation->is_mended = true;
    return tiers_mend(operation->store, operation_mended, operation);
}

static bool operation_may_retry(struct operation *operation, int err)
{
    enum command_type type = operation->command.type;

    if (err == -ESTALE)
        return operation_may_repeat(operation);
    return err == -EBADMSG && !operation->is_mended &&
           (type == COMMAND_ALLOCATE || type == COMMAND_MOVE_CALL || command_only_looks(type)) &&
           operation_may_repeat(operation);
}

void operation_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    const struct command_spec *spec = command_spec(operation->command.type);

    if (operation_may_retry(operation, err)) {
        err = operation_retry(operation, err);
        if (err == 0)
            return;
    }
    if (err == 0)
        err = spec->decode(operation, reply);
    if (err == 0 && spec->waits && operation->store->waits_for_replicas) {
        err = operation_wait(operation);
        if (err == 0)
            return;
        err = err > 0 ? 0 : err;
    }
    operation_finish(operation, err);
}

int operation_send(struct operation *operation)
{
    const struct command_spec *spec = command_spec(operation->command.type);
    struct args args;
    int rc;

    if (turn_takes(operation->command.type)) {
        turn_add(operation);
        return 0;
    }
    rc = spec->encode(operation, &args);
    return rc ? rc : args_call(&args, operation, spec->script, operation_answered);
}

static int operation_start(struct operation *operation)
{
    switch (operation->command.type) {
    case COMMAND_RENEW:
        return operation_renew(operation);
    case COMMAND_HEARTBEAT:
        return operation_heartbeat(operation);
    case COMMAND_SYNC:
        return operation_sync(operation);
    case COMMAND_SWEEP:
        return operation_sweep(operation);
    case COMMAND_REBALANCE:
        return operation_rebalance(operation);
    case COMMAND_TIERS_SET:
        return operation_tiers_set(operation);
    case COMMAND_MERCHANT_SET:
        return operation_merchant_set(operation);
    case COMMAND_MERCHANT_REMOVE:
        return operation_merchant_remove(operation);
    case COMMAND_PODS:
        return operation_pods(operation);
    case COMMAND_CALLS:
        return operation_calls(operation);
    case COMMAND_MERCHANTS:
        return operation_merchants(operation);
    case COMMAND_MERCHANT:
        return operation_merchant(operation);
    case COMMAND_TIERS:
        return operation_tiers(operation);
    default:
        return operation_send(operation);
    }
}

static int redis_start(struct redis_store *store, const struct command *command, struct arena *arena,
                       store_done_fn done, void *arg)
{
    struct operation *operation;
    const char *fault;
    int rc;

    if (store->is_closing)
        return -ECANCELED;
    if (!store->tiers || !redis_link_is_up(store->link))
        return -ENOTCONN;
    operation = malloc(sizeof(*operation));
    if (!operation)
        return -ENOMEM;
    *operation = (struct operation){
        .store = store, .command = *command, .arena = arena, .done = done, .arg = arg, .script = ""};
    list_init(&operation->link);
    list_init(&operation->turn);
    operation->result = arena_alloc(arena, sizeof(*operation->result));
    if (!operation->result) {
        free(operation);
        return -ENOMEM;
    }
    memset(operation->result, 0, sizeof(*operation->result));
    list_append(&store->operations, &operation->link);
    fault = command_fault(command, store->tiers->config);
    if (fault) {
        rc = operation_invalid(operation, OUTCOME_INVALID, fault);
        rc = rc ? rc : 1;
    } else {
        rc = operation_take_fence(operation);
        rc = rc ? rc : operation_start(operation);
    }
    if (rc > 0) {
        operation_defer(operation);
        return 0;
    }
    if (rc < 0) {
        list_remove(&operation->link);
        bulk_free(operation->bulk);
        free(operation);
    }
    return rc;
}

static int redis_execute(struct store *store, const struct command *command, struct arena *arena,
                         store_done_fn done, void *arg)
{
    struct redis_store *redis = redis_of(store);
    int rc;

    redis->stats.commands++;
    rc = redis_start(redis, command, arena, done, arg);
    if (rc < 0)
        redis->stats.errors++;
    return rc;
}

static void redis_health(const struct store *store, struct store_health *ret_health)
{
    const struct redis_store *redis = CONTAINER_OF(store, struct redis_store, store);
    bool is_up = !redis->is_closing && redis_link_is_up(redis->link);

    *ret_health = (struct store_health){
        .is_ready = is_up && redis->tiers,
        .name = "redis",
        .detail = redis->is_closing  ? "the store is closing"
                  : !is_up           ? redis_link_detail(redis->link)
                  : redis->tiers     ? ""
                  : redis->bad_tiers ? "the stored tier configuration is not valid"
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
    refusals_release(&store->refusals);
    tier_cache_free(store->tiers);
    tier_cache_free(store->seed);
    free(store->bad_tiers);
    free(store->prefix);
    free(store->key);
    free(store->mark_key);
    free(store->channel);
    free(store);
}

void redis_closed_one(struct redis_store *store)
{
    store_closed_fn closed = store->closed;
    void *arg = store->closed_arg;

    if (--store->open_handles > 0 || !store->is_link_closed)
        return;
    redis_free(store);
    closed(arg);
}

static void redis_handle_closed(uv_handle_t *handle)
{
    redis_closed_one(handle->data);
}

static void redis_link_closed(void *arg)
{
    redis_closed_one(arg);
}

static void redis_close_now(struct redis_store *store)
{
    if (store->is_link_closed)
        return;
    store->is_link_closed = true;
    store->open_handles += 6;
    redis_listen(&store->store, false);
    uv_close((uv_handle_t *)&store->refresh, redis_handle_closed);
    uv_close((uv_handle_t *)&store->defer, redis_handle_closed);
    uv_close((uv_handle_t *)&store->hearing, redis_handle_closed);
    uv_close((uv_handle_t *)&store->mail.timer, redis_handle_closed);
    uv_close((uv_handle_t *)&store->undo.timer, redis_handle_closed);
    redis_link_close(store->link, redis_link_closed, store);
}

static void redis_close(struct store *store, store_closed_fn closed, void *arg)
{
    struct redis_store *redis = redis_of(store);

    assert(!redis->is_closing);
    redis->is_closing = true;
    redis->closed = closed;
    redis->closed_arg = arg;
    if (list_is_empty(&redis->operations) && list_is_empty(&redis->deferred))
        redis_close_now(redis);
}

static void redis_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    redis_of(store)->on_ended = fn;
    redis_of(store)->on_ended_arg = arg;
}

static void redis_on_over(struct store *store, call_over_fn fn, void *arg)
{
    redis_of(store)->on_over = fn;
    redis_of(store)->on_over_arg = arg;
}

static const struct store_ops redis_ops = {
    .execute = redis_execute,
    .on_ended = redis_on_ended,
    .on_over = redis_on_over,
    .health = redis_health,
    .stats = redis_stats,
    .close = redis_close,
    .publish = redis_publish,
    .listen = redis_listen,
};

static void redis_changed(void *arg, bool is_up)
{
    struct redis_store *store = arg;

    hearing_changed(store, is_up);
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

    snprintf(store->first_lease, sizeof(store->first_lease), "%llu", lease_ms);
    snprintf(store->first_lease_life, sizeof(store->first_lease_life), "%llu", lease_ms + REDIS_GRACE_MS);
    snprintf(store->first_record_life, sizeof(store->first_record_life), "%llu",
             record_ms + REDIS_RECORD_GRACE_MS);
}

static int redis_init(struct redis_store *store, const struct redis_settings *settings)
{
    size_t size = strlen(settings->key_prefix) + sizeof("calls:active");
    const char *text = settings->tier_config;
    char error[256] = "";

    store->store.ops = &redis_ops;
    store->core = settings->core;
    store->call_info_ttl_ms = settings->call_info_ttl_ms;
    store->tier_refresh_ms = settings->tier_refresh_ms ? settings->tier_refresh_ms : 30000;
    store->waits_for_replicas = settings->link.wait_replicas > 0;
    store->link_timeout_ms = settings->link.timeout_ms;
    redis_init_lives(store);
    list_init(&store->operations);
    list_init(&store->releases);
    list_init(&store->allocates);
    list_init(&store->deferred);
    refusals_init(&store->refusals);
    store->prefix = strdup(settings->key_prefix);
    store->key = malloc(size);
    store->mark_key = malloc(size);
    store->channel = malloc(size);
    if (!store->prefix || !store->key || !store->mark_key || !store->channel)
        return -ENOMEM;
    snprintf(store->key, size, "%scalls:active", settings->key_prefix);
    snprintf(store->mark_key, size, "%swaited", settings->key_prefix);
    snprintf(store->channel, size, "%sevents", settings->key_prefix);
    return tier_cache_new(text, &store->seed, error, sizeof(error));
}

int redis_open(uv_loop_t *loop, const struct redis_settings *settings, struct store **ret_store)
{
    struct redis_store *store = calloc(1, sizeof(*store));
    struct redis_link_settings link = settings->link;
    int rc;

    if (!store)
        return -ENOMEM;
    rc = redis_init(store, settings);
    if (rc == 0) {
        link.on_change = redis_changed;
        link.on_change_arg = store;
        link.on_turn = turn_send;
        link.on_turn_arg = store;
        rc = redis_link_new(loop, &link, &store->link);
    }
    if (rc) {
        redis_free(store);
        return rc;
    }
    uv_timer_init(loop, &store->refresh);
    uv_timer_init(loop, &store->defer);
    hearing_start(store, loop);
    mail_start(store, loop);
    undo_start(store, loop);
    store->refresh.data = store;
    store->defer.data = store;
    uv_timer_start(&store->refresh, tiers_refresh, store->tier_refresh_ms, store->tier_refresh_ms);
    uv_unref((uv_handle_t *)&store->refresh);
    *ret_store = &store->store;
    return 0;
}
