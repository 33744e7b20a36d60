/*
 * send.c - sends an operation's script, and sends it again if the tiers have changed.
 *
 * It also takes the leader's fence number for commands that only a leader may send.
 */
#include "store/redis/bulk.h"

int operation_take_fence(struct operation *operation)
{
    const struct redis_store *store = operation->store;

    if (!store->hooks.may_lead || !command_is_for_leader(&operation->command))
        return 0;
    return store->hooks.may_lead(store->hooks.may_lead_arg, &operation->fence) ? 0 : -ECANCELED;
}

/* Do we still lead, and without having been replaced in between? */
static bool operation_may_act(const struct operation *operation)
{
    const struct redis_store *store = operation->store;
    uint64_t fence;

    if (!store->hooks.may_lead || !command_is_for_leader(&operation->command))
        return true;
    return store->hooks.may_lead(store->hooks.may_lead_arg, &fence) && fence == operation->fence;
}

/*
 * Bulk work is given up at its next step when the store closes, or when it is the leader's and we
 * no longer lead; it can be done again at any time.
 */
static int args_may_send(const struct args *args, const struct operation *operation)
{
    const struct redis_store *store = operation->store;

    if (args->failed)
        return -ENOMEM;
    if (!operation_may_act(operation))
        return -ECANCELED;
    return store->closing.is_begun && operation->bulk ? -ECANCELED : 0;
}

void operation_note_version(struct operation *operation)
{
    memcpy(operation->sent.version, operation->store->tiers->version, SCRIPT_VERSION_LEN);
}

bool operation_is_behind(const struct operation *operation)
{
    return memcmp(operation->sent.version, operation->store->tiers->version, SCRIPT_VERSION_LEN) != 0;
}

bool operation_may_repeat(struct operation *operation)
{
    return ++operation->stale.tries < REDIS_STALE_TRIES;
}

static void args_answered(void *arg, int err, const redisReply *reply);

static int args_send(struct operation *operation)
{
    struct redis_store *store = operation->store;
    const struct redis_script *script = redis_script(operation->script);
    const struct args *args = &operation->sent.args;
    int err = args_may_send(args, operation);

    if (err < 0)
        return err;
    assert(redis_script_takes(script, args->count));
    operation_note_version(operation);
    store->stats.writes++;
    return redis_link_call(store->link, script, store->keys.active, args->items, args->count, args_answered,
                           operation);
}

/* The same with the new tiers, which come first. */
static int args_send_again(struct operation *operation)
{
    if (operation->sent.again)
        return operation->sent.again(operation);
    operation->sent.args.items[SCRIPT_ARG_TIERS] = operation->store->tiers->tiers;
    operation->sent.args.items[SCRIPT_ARG_DEFAULT_TIER] = operation->store->tiers->default_tier;
    return args_send(operation);
}

static void args_fresh(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0)
        err = args_send_again(operation);
    if (err < 0)
        operation->sent.done(operation, err, NULL);
}

static void args_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    redisReply room;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    reply = line_take_more(operation->store, reply, &room);
    if (err == -ESTALE && !bulk_decides_stale(operation) && operation_may_repeat(operation)) {
        if (operation_is_behind(operation))
            err = args_send_again(operation);
        else
            err = tiers_request(operation->store, args_fresh, operation);
        if (err == 0)
            return;
        reply = NULL;
    }
    if (err != -ESTALE)
        operation->stale.tries = 0;
    operation->sent.done(operation, err, reply);
}

int args_call_with_chain(const struct args *args, struct operation *operation, const char *script,
                         redis_reply_fn done, int (*again)(struct operation *operation))
{
    operation->script = script;
    operation->sent.args = *args;
    operation->sent.done = done;
    operation->sent.again = again;
    return args_send(operation);
}

int args_call(const struct args *args, struct operation *operation, const char *script, redis_reply_fn done)
{
    return args_call_with_chain(args, operation, script, done, NULL);
}

int args_command(const struct args *args, struct operation *operation, redis_reply_fn done)
{
    struct redis_store *store = operation->store;
    int err = args_may_send(args, operation);

    if (err < 0)
        return err;
    operation->script = args->items[0].data;
    return redis_link_command(store->link, args->items, args->count, 1, done, operation);
}
