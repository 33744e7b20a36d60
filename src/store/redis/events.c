/*
 * events.c - publishes events to a Redis channel, and receives them through a second link.
 */
#include "store/feed.h"
#include "store/redis/redis_internal.h"

/* `reply` is the number of subscribers on this node, which is not needed. */
static void events_published(void *arg, int err, const redisReply *reply UNUSED)
{
    struct redis_store *store = arg;
    store_published_fn published;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    published = TAKE(store->events.published);
    published(store->events.published_arg, err);
}

int redis_publish(struct store *store, struct slice lines, store_published_fn done, void *arg)
{
    struct redis_store *redis = redis_of(store);
    const struct slice args[] = {SLICE("PUBLISH"), slice_of(redis->keys.channel), lines};
    int err;

    assert(!redis->events.published);
    err = redis_link_command(redis->link, args, ARRAY_LEN(args), 1, events_published, redis);
    if (err < 0)
        return err;
    redis->events.published = done;
    redis->events.published_arg = arg;
    return 0;
}

static void events_heard(void *arg, struct slice message)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    /* A link that is being closed may still deliver messages. */
    if (!store->store.feed || !store->events.link)
        return;
    if (message.data)
        feed_received(store->store.feed, message);
    else
        feed_listening(store->store.feed);
}

void redis_listen(struct store *store, bool is_wanted)
{
    struct redis_store *redis = redis_of(store);

    if (!is_wanted) {
        if (redis->events.link)
            redis_link_close(TAKE(redis->events.link), redis_link_closed, redis);
        return;
    }
    /* Without memory there are no events, until the next call. */
    if (redis->events.link ||
        redis_link_subscribe(redis->link, redis->keys.channel, events_heard, redis, &redis->events.link))
        return;
    redis_opened_link(redis);
}
