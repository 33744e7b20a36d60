#include "store/store.h"

int store_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                  void *arg)
{
    return store->ops->execute(store, command, arena, done, arg);
}

void store_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    store->ops->on_ended(store, fn, arg);
}

void store_health(const struct store *store, struct store_health *ret_health)
{
    store->ops->health(store, ret_health);
}

void store_stats(const struct store *store, struct store_stats *ret_stats)
{
    store->ops->stats(store, ret_stats);
}

void store_close(struct store *store, store_closed_fn closed, void *arg)
{
    store->ops->close(store, closed, arg);
}
