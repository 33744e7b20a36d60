/*
 * args.c - builds the arguments of a script.
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
    args_init(args, arena, SCRIPT_COMMON_ARGS + room);
    args->tiers = tiers->config;
    args_add_text(args, store->keys.prefix);
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
    size_t size = strlen(store->keys.prefix) + strlen(name) + 1;
    char *key = arena_alloc(args->arena, size);

    if (!key) {
        args->failed = true;
        return;
    }
    snprintf(key, size, "%s%s", store->keys.prefix, name);
    args_add_text(args, key);
}

size_t args_chain_room(const struct redis_store *store)
{
    return store->tiers->chain_count;
}

void args_add_chain(struct args *args, const struct redis_store *store)
{
    args_add(args, store->tiers->merchants);
    args_add_u64(args, store->tiers->chain_count);
    for (size_t i = 0; i < store->tiers->chain_count; i++)
        args_add(args, store->tiers->chain[i]);
}

void args_add_rescue(struct args *args, const struct redis_store *store)
{
    if (!store->core.rescues) {
        for (int i = 0; i < 6; i++)
            args_add(args, SLICE(""));
        args_add_text(args, "0");
        return;
    }
    args_add_text(args, SCRIPT_YES);
    args_add_text(args, store->first.lease);
    args_add_u64(args, store->call_info_ttl_ms);
    args_add_text(args, store->hold.max_wait);
    args_add_text(args, store->hold.ageing);
    args_add_chain(args, store);
}

void args_begin_fenced(struct args *args, const struct operation *operation, struct arena *arena, size_t room)
{
    args_begin(args, operation, arena, room);
    if (operation->fence)
        args_add_u64(args, operation->fence);
    else
        args_add_text(args, "");
}
