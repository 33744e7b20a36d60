/*
 * events.c - publishes events to a Redis channel, and receives them through a second link.
 */
#include "store/feed.h"
#include "store/redis/redis_internal.h"

/* `reply` says how many heard it on this node; nobody needs to. */
static void events_published(void *arg, int err, const redisReply *reply UNUSED)
{
    struct redis_store *store = arg;
    store_published_fn published = TAKE(store->published);

    published(store->published_arg, err);
}

int redis_publish(struct store *store, struct slice lines, store_published_fn done, void *arg)
{
    struct redis_store *redis = redis_of(store);
    const struct slice args[] = {SLICE("PUBLISH"), slice_of(redis->channel), lines};
    int rc;

    assert(!redis->published);
    rc = redis_link_command(redis->link, args, ARRAY_LEN(args), 1, events_published, redis);
    if (rc)
        return rc;
    redis->published = done;
    redis->published_arg = arg;
    return 0;
}

static void events_heard(void *arg, struct slice message)
{
    struct redis_store *store = arg;

    /* Nobody listens any more to a link that is on its way out. */
    if (!store->store.feed || !store->events)
        return;
    if (message.data)
        feed_received(store->store.feed, message);
    else
        feed_listening(store->store.feed);
}

static void events_closed(void *arg)
{
    redis_closed_one(arg);
}

void redis_listen(struct store *store, bool is_wanted)
{
    struct redis_store *redis = redis_of(store);

    if (!is_wanted) {
        if (redis->events)
            redis_link_close(TAKE(redis->events), events_closed, redis);
        return;
    }
    /* Without memory for it nobody is told anything; the next one who asks may have more luck. */
    if (redis->events ||
        redis_link_subscribe(redis->link, redis->channel, events_heard, redis, &redis->events))
        return;
    redis->open_handles++;
}
