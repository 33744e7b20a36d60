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

int args_call(const struct args *args, struct operation *operation, const char *script, redis_reply_fn done)
{
    struct redis_store *store = operation->store;
    int rc = args_may_send(args, operation);

    if (rc)
        return rc;
    operation->script = script;
    store->stats.writes++;
    return redis_link_call(store->link, redis_script(script), store->key, args->items, args->count, done,
                           operation);
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
