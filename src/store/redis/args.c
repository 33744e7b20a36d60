/*
 * args.c - builds the arguments of a script, sends them, and sends them again if the tiers have
 * changed.
 *
 * It also takes the leader's fence number for commands that only a leader may send.
 */
#include <stdio.h>

#include "store/redis/redis_internal.h"

void args_init(struct args *args, struct arena *arena, size_t room)
{
    *args = (struct args){.arena = arena, .room = room};
    args->items = arena_alloc(arena, room * sizeof(*args->items));
    args->failed = !args->items;
}

void args_begin_with(struct args *args, const struct redis_store *store, const struct tier_cache *tiers,
                     struct arena *arena, size_t room)
{
    args_init(args, arena, room + 3);
    args->tiers = tiers->config;
    args_add_text(args, store->prefix);
    args_add(args, tiers->tiers);
    args_add(args, tiers->default_tier);
}

void args_begin(struct args *args, const struct operation *operation, struct arena *arena, size_t room)
{
    args_begin_with(args, operation->store, operation->store->tiers, arena, room);
}

void args_add(struct args *args, struct slice item)
{
    if (args->failed)
        return;
    assert(args->count < args->room);
    args->items[args->count++] = item;
}

void args_add_text(struct args *args, const char *text)
{
    args_add(args, slice_of(text));
}

void args_add_copy(struct args *args, const char *text)
{
    const char *copy = arena_strdup(args->arena, text);

    if (copy)
        args_add_text(args, copy);
    else
        args->failed = true;
}

void args_add_u64(struct args *args, uint64_t number)
{
    char *text = arena_alloc(args->arena, 24);

    if (!text) {
        args->failed = true;
        return;
    }
    snprintf(text, 24, "%llu", (unsigned long long)number);
    args_add_text(args, text);
}

void args_add_key(struct args *args, const struct redis_store *store, const char *name)
{
    size_t size = strlen(store->prefix) + strlen(name) + 1;
    char *key = arena_alloc(args->arena, size);

    if (!key) {
        args->failed = true;
        return;
    }
    snprintf(key, size, "%s%s", store->prefix, name);
    args_add_text(args, key);
}

void args_begin_fenced(struct args *args, const struct operation *operation, struct arena *arena, size_t room)
{
    args_begin(args, operation, arena, 1 + room);
    if (operation->fence)
        args_add_u64(args, operation->fence);
    else
        args_add_text(args, "");
}

/* What pods say of themselves comes through any router; all else that is observed comes from the leader. */
static bool is_for_leaders(const struct command *command)
{
    switch (command->type) {
    case COMMAND_SYNC:
    case COMMAND_SWEEP:
    case COMMAND_REBALANCE:
        return true;
    case COMMAND_POD_SEEN:
        return command->pod_seen.pod.source != POD_SOURCE_API;
    case COMMAND_POD_GONE:
        return command->pod_gone.source != POD_SOURCE_API;
    default:
        return false;
    }
}

int operation_take_fence(struct operation *operation)
{
    const struct redis_store *store = operation->store;

    if (!store->may_lead || !is_for_leaders(&operation->command))
        return 0;
    return store->may_lead(store->may_lead_arg, &operation->fence) ? 0 : -ECANCELED;
}

/* Do we still lead, and without having been replaced in between? */
static bool operation_may_act(const struct operation *operation)
{
    const struct redis_store *store = operation->store;
    uint64_t fence;

    if (!store->may_lead || !is_for_leaders(&operation->command))
        return true;
    return store->may_lead(store->may_lead_arg, &fence) && fence == operation->fence;
}

/*
 * Bulk work is given up at its next step when the store closes, or when it is the leader's and we no longer
 * lead; it can be done again at any time.
 */
static int args_may_send(const struct args *args, const struct operation *operation)
{
    const struct redis_store *store = operation->store;

    if (args->failed)
        return -ENOMEM;
    if (!operation_may_act(operation))
        return -ECANCELED;
    return store->is_closing && operation->bulk ? -ECANCELED : 0;
}

void operation_note_version(struct operation *operation)
{
    memcpy(operation->sent_version, operation->store->tiers->version, REDIS_VERSION_LEN);
}

bool operation_is_behind(const struct operation *operation)
{
    return memcmp(operation->sent_version, operation->store->tiers->version, REDIS_VERSION_LEN) != 0;
}

bool operation_may_repeat(struct operation *operation)
{
    return ++operation->stale_tries < REDIS_STALE_TRIES;
}

static void args_answered(void *arg, int err, const redisReply *reply);

static int args_send(struct operation *operation)
{
    struct redis_store *store = operation->store;
    const struct args *args = &operation->sent;
    int rc = args_may_send(args, operation);

    if (rc)
        return rc;
    operation_note_version(operation);
    store->stats.writes++;
    return redis_link_call(store->link, redis_script(operation->script), store->key, args->items, args->count,
                           args_answered, operation);
}

/* The same with the tiers as they are now, which stand in front. Those of a moved call stand all over. */
static int args_send_again(struct operation *operation)
{
    if (operation->command.type == COMMAND_MOVE_CALL)
        return operation_send(operation);
    operation->sent.items[1] = operation->store->tiers->tiers;
    operation->sent.items[2] = operation->store->tiers->default_tier;
    return args_send(operation);
}

static void args_fresh(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0)
        err = args_send_again(operation);
    if (err)
        operation->sent_done(operation, err, NULL);
}

/* A plan, and what a new configuration leaves out, follow from the tiers: they cannot just be sent again. */
static bool args_may_be_sent_again(const struct operation *operation)
{
    return strcmp(operation->script, "move") != 0 && operation->sent_done != tiers_stored;
}

static void args_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == -ESTALE && args_may_be_sent_again(operation) && operation_may_repeat(operation)) {
        if (operation_is_behind(operation))
            err = args_send_again(operation);
        else
            err = tiers_request(operation->store, args_fresh, operation);
        if (err == 0)
            return;
        reply = NULL;
    }
    if (err != -ESTALE)
        operation->stale_tries = 0;
    operation->sent_done(operation, err, reply);
}

int args_call(const struct args *args, struct operation *operation, const char *script, redis_reply_fn done)
{
    operation->script = script;
    operation->sent = *args;
    operation->sent_done = done;
    return args_send(operation);
}

int args_command(const struct args *args, struct operation *operation, redis_reply_fn done)
{
    struct redis_store *store = operation->store;
    int rc = args_may_send(args, operation);

    if (rc)
        return rc;
    operation->script = args->items[0].data;
    return redis_link_command(store->link, args->items, args->count, 1, done, operation);
}
