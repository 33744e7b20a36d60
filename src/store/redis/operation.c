/*
 * operation.c - carries an operation from the command to its answer.
 *
 * It retries operations whose tiers were out of date, waits for replicas, and reports calls that
 * ended.
 */
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/bulk.h"

void operations_init(struct redis_store *store)
{
    list_init(&store->work.under_way);
    list_init(&store->work.deferred);
}

void operations_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->work.defer_timer);
    uv_ref((uv_handle_t *)&store->work.defer_timer); /* an answer waits for it */
}

static void tell_ended(const struct redis_store *store, const struct ended_array *ended)
{
    for (size_t i = 0; store->hooks.on_ended && ended && i < ended->count; i++)
        store->hooks.on_ended(store->hooks.on_ended_arg, &ended->calls[i]);
}

/* Also when the operation failed half-way: these calls have ended. */
static void operation_tell_ended(const struct operation *operation)
{
    tell_ended(operation->store, &operation->lost);
    if (operation->result->outcome == OUTCOME_OK)
        tell_ended(operation->store, command_ended(operation->command.type, operation->result));
}

/* An allocation that was answered with an error must not hold a pod. */
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
    struct redis_store *store;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    store = operation->store;
    list_remove(&operation->link);
    if (err < 0)
        operation_failed(operation);
    operation_tell_ended(operation);
    bulk_free(operation->bulk);
    operation->done(operation->arg, err, err ? NULL : operation->result);
    free(operation);
    redis_close_if_idle(store);
}

static void redis_deferred(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;
    struct list ready;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    /* Operations that the callbacks start wait for the next turn. */
    list_init(&ready);
    while (!list_is_empty(&store->work.deferred)) {
        struct list *first = store->work.deferred.next;

        list_remove(first);
        list_append(&ready, first);
    }
    while (!list_is_empty(&ready)) {
        struct operation *operation = LIST_ENTRY(ready.next, struct operation, link);

        list_remove(&operation->link);
        list_append(&store->work.under_way, &operation->link);
        operation_finish(operation, 0);
    }
}

void operation_defer(struct operation *operation)
{
    struct redis_store *store = operation->store;

    list_remove(&operation->link);
    list_append(&store->work.deferred, &operation->link);
    uv_timer_start(&store->work.defer_timer, redis_deferred, 0, 0);
}

int operation_refuse(struct operation *operation, enum outcome outcome, const char *message)
{
    return result_refuse(operation->result, operation->arena, outcome, message);
}

int redis_unexpected(const char *script)
{
    log_error("an answer of Redis cannot be read: the request failed. Is there a proxy, or another program "
              "on these keys?",
              log_str("script", script));
    return -EIO;
}

int operation_unexpected(const struct operation *operation)
{
    return redis_unexpected(operation->script);
}

static void operation_waited(void *arg, int err, const redisReply *reply UNUSED)
{
    operation_finish(arg, err);
}

/*
 * Before an answer that its client will rely on: 0 if it comes after the wait, 1 if there is
 * nothing to wait for, or a negative errno.
 *
 * A call that is not there to be released counts as released, and one that has its pod already as
 * allocated. The step that made it so may have been another one, of any router, that no replica has
 * yet.
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
    return redis_link_wait(store->link, is_gone || is_old ? store->keys.waited : NULL, operation_waited,
                           operation);
}

static int operation_mend(struct operation *operation);

/* The tiers have been read. */
static void operation_again(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0) {
        /* The tiers are the known ones, but a list is of another type: it was changed by hand. */
        bool is_bad = operation->stale.err == -EBADMSG && !operation_is_behind(operation);

        err = is_bad ? operation_mend(operation) : operation_send(operation);
    }
    if (err < 0)
        operation_finish(operation, err);
}

/*
 * The tiers are others than those with which it was sent: a script has said so, or met a list of
 * another type. It is sent again with those that hold now.
 */
static int operation_retry(struct operation *operation, int why)
{
    operation->stale.err = why;
    if (operation_is_behind(operation))
        return operation_send(operation);
    return tiers_request(operation->store, operation_again, operation);
}

static void operation_mended(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == -ESTALE && operation_may_repeat(operation)) {
        operation->stale.is_mended = false;
        err = operation_retry(operation, err);
    } else if (err == 0) {
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0)
            log_warn("a pool was of the wrong type; its pods come back with the next sweep");
        err = operation_send(operation);
    }
    if (err < 0)
        operation_finish(operation, err);
}

static int operation_mend(struct operation *operation)
{
    operation->stale.is_mended = true;
    return tiers_mend(operation->store, operation_mended, operation);
}

static bool operation_may_retry(struct operation *operation, int err)
{
    if (err == -ESTALE)
        return operation_may_repeat(operation);
    return err == -EBADMSG && !operation->stale.is_mended &&
           command_spec(operation->command.type)->is_mended && operation_may_repeat(operation);
}

void operation_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    const struct command_spec *spec;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    spec = command_spec(operation->command.type);
    if (operation_may_retry(operation, err)) {
        err = operation_retry(operation, err);
        if (err == 0)
            return;
    }
    if (err == 0)
        err = spec->decode(operation, reply);
    if (err == 0 && command_must_be_sure(operation->command.type) && operation->store->waits_for_replicas) {
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
    int err;

    if (call_batch_takes(operation->command.type)) {
        call_batch_add(operation);
        return 0;
    }
    err = spec->encode(operation, &args);
    return err != 0
               ? err
               : args_call_with_chain(&args, operation, spec->script, operation_answered, operation_send);
}

int operation_execute(struct redis_store *store, const struct command *command, struct arena *arena,
                      store_done_fn done, void *arg)
{
    struct operation *operation;
    const char *fault;
    int err;

    if (store->closing.is_begun)
        return -ECANCELED;
    if (!redis_link_is_up(store->link))
        return -ENOTCONN;
    if (!store->tiers)
        return store->tier_loading.is_refused ? -EACCES : -ENOTCONN;
    operation = malloc(sizeof(*operation));
    if (!operation)
        return -ENOMEM;
    *operation = (struct operation){.magic = OPERATION_MAGIC,
                                    .store = store,
                                    .command = *command,
                                    .arena = arena,
                                    .done = done,
                                    .arg = arg,
                                    .script = ""};
    list_init(&operation->link);
    list_init(&operation->batch_link);
    operation->result = arena_alloc(arena, sizeof(*operation->result));
    if (!operation->result) {
        free(operation);
        return -ENOMEM;
    }
    memset(operation->result, 0, sizeof(*operation->result));
    list_append(&store->work.under_way, &operation->link);
    fault = command_validate(command, store->tiers->config);
    if (fault) {
        err = operation_refuse(operation, OUTCOME_INVALID, fault);
        err = err < 0 ? err : 1;
    } else {
        err = operation_take_fence(operation);
        err = err < 0 ? err : command_spec(command->type)->start(operation);
    }
    /* 1: the result is there already. */
    if (err > 0) {
        operation_defer(operation);
        return 0;
    }
    if (err < 0) {
        list_remove(&operation->link);
        bulk_free(operation->bulk);
        free(operation);
    }
    return err;
}

void operation_take_text(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0 && reply->type == REDIS_REPLY_NIL) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
    } else if (err == 0 && reply->type == REDIS_REPLY_STRING) {
        operation->result->merchant.text = arena_copy(operation->arena, reply->str, reply->len);
        err = operation->result->merchant.text ? 0 : -ENOMEM;
    } else if (err == 0) {
        err = operation_unexpected(operation);
    }
    operation_finish(operation, err);
}
