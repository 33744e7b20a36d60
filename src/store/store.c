#include "store/store.h"

#include "store/feed.h"

int store_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                  void *arg)
{
    return store->feed ? observe_execute(store, command, arena, done, arg)
                       : store->ops->execute(store, command, arena, done, arg);
}

void store_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    if (store->feed)
        feed_on_ended(store->feed, fn, arg);
    else
        store->ops->on_ended(store, fn, arg);
}

int store_start_events(struct store *store, uv_loop_t *loop, const char *replica)
{
    assert(!store->feed);
    return feed_new(store, loop, replica, &store->feed);
}

void store_publish(struct store *store, const struct event *event)
{
    if (store->feed)
        feed_publish(store->feed, event);
}

void store_on_event(struct store *store, store_event_fn fn, void *arg)
{
    if (store->feed)
        feed_on_event(store->feed, fn, arg);
}

void store_health(const struct store *store, struct store_health *ret_health)
{
    store->ops->health(store, ret_health);
}

void store_stats(const struct store *store, struct store_stats *ret_stats)
{
    store->ops->stats(store, ret_stats);
    ret_stats->events_dropped = store->feed ? feed_dropped(store->feed) : 0;
}

static void store_feed_closed(void *arg)
{
    struct store *store = arg;

    store->ops->close(store, store->closed, store->closed_arg);
}

void store_close(struct store *store, store_closed_fn closed, void *arg)
{
    if (!store->feed) {
        store->ops->close(store, closed, arg);
        return;
    }
    store->closed = closed;
    store->closed_arg = arg;
    feed_close(store->feed, store_feed_closed, store);
}
