/*
 * store.c - the functions of store.h: each calls the embedded or the Redis store, through the
 * event feed if there is one.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/random.h"
#include "store/feed.h"

/*
 * No two requests of all processes on one store have the same number: half of it is random, half
 * counts.
 */
static uint64_t store_next_attempt(struct store *store)
{
    uint32_t random;

    if (!store->attempts) {
        if (!random_bytes(&random, sizeof(random)))
            random = (uint32_t)clock_wall_ms();
        store->attempts = (uint64_t)random << 32;
    }
    return ++store->attempts;
}

int store_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                  void *arg)
{
    struct command named;

    if (command->type == COMMAND_ALLOCATE && !command->allocate.attempt) {
        named = *command;
        named.allocate.attempt = store_next_attempt(store);
        command = &named;
    }
    return store->feed ? feed_execute(store, command, arena, done, arg)
                       : store->ops->execute(store, command, arena, done, arg);
}

void store_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    if (store->feed)
        feed_on_ended(store->feed, fn, arg);
    else
        store->ops->on_ended(store, fn, arg);
}

void store_on_finished(struct store *store, call_finished_fn fn, void *arg)
{
    store->ops->on_finished(store, fn, arg);
}

void store_on_changed(struct store *store, call_changed_fn fn, void *arg)
{
    store->ops->on_changed(store, fn, arg);
}

void store_on_back(struct store *store, store_back_fn fn, void *arg)
{
    store->on_back = fn;
    store->on_back_arg = arg;
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

int store_ask_facts(struct store *store, struct arena *arena, struct store_facts *ret_facts,
                    store_facts_fn done, void *arg)
{
    return store->ops->ask_facts ? store->ops->ask_facts(store, arena, ret_facts, done, arg) : -ENOTSUP;
}

static void store_feed_closed(void *arg)
{
    struct store *store = arg;

    assert(!store->feed && store->closed);
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
