/*
 * feed.c - the queue of events: gathers them, sends them to the other routers, and hands received
 * ones to the listener.
 */
#include "store/feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    FEED_SEND_MS = 100,          /* between two messages to the others: many events share one */
    FEED_REFUSED_MS = 60 * 1000, /* how long not to try after it was forbidden */
    FEED_QUEUE_MAX = 128 * 1024, /* of lines that wait; what comes then is dropped, counted and told */
    FEED_TOLD_MAX = 128,         /* events in one call of the listener */
    FEED_REPLICA_MAX = 255,
    FEED_MAGIC = 0x66656564,
};

struct feed {
    unsigned magic;
    struct store *store;
    uv_timer_t timer; /* active: there is something to do */
    char replica[FEED_REPLICA_MAX + 1];
    uint64_t number;
    struct strbuf gathering;
    size_t gathered;       /* events in it */
    size_t on_way;         /* events that were sent and not confirmed */
    struct strbuf telling; /* the lines of a store that is alone, while they are told */
    uint64_t dropped;
    uint64_t dropped_told;
    store_event_fn fn;
    void *arg;
    call_ended_fn on_ended;
    void *on_ended_arg;
    bool is_sending;
    bool is_new; /* the listener does not know yet that it will be told */
    bool is_closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void feed_turn(uv_timer_t *timer);

/* The feed behind the argument of a callback. */
static struct feed *feed_from(void *arg)
{
    struct feed *feed = arg;

    MAGIC_CHECK(feed, FEED_MAGIC);
    return feed;
}

static bool feed_is_shared(const struct feed *feed)
{
    return feed->store->ops->publish != NULL;
}

static void feed_ended(void *arg, const struct ended_call *call)
{
    struct feed *feed = feed_from(arg);
    const struct event event = {
        .kind = EVENT_ENDED,
        .call_sid = call->call_sid,
        .pod = call->pod,
        .pool = call->pool,
        .merchant_id = call->merchant_id,
        .reason = call_end_name(call->why),
    };

    feed_publish(feed, &event);
    if (feed->on_ended)
        feed->on_ended(feed->on_ended_arg, call);
}

int feed_new(struct store *store, uv_loop_t *loop, const char *replica, struct feed **ret_feed)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (!feed)
        return -ENOMEM;
    feed->magic = FEED_MAGIC;
    feed->store = store;
    snprintf(feed->replica, sizeof(feed->replica), "%s", replica);
    /* Room for the line that says how many were dropped. */
    strbuf_init(&feed->gathering, NULL, FEED_QUEUE_MAX + EVENT_TEXT_MAX);
    strbuf_init(&feed->telling, NULL, FEED_QUEUE_MAX + EVENT_TEXT_MAX);
    uv_timer_init(loop, &feed->timer);
    feed->timer.data = feed;
    store->ops->on_ended(store, feed_ended, feed);
    *ret_feed = feed;
    return 0;
}

bool feed_is_wanted(const struct feed *feed)
{
    return !feed->is_closing && (feed->fn || feed_is_shared(feed));
}

static void feed_wake(struct feed *feed)
{
    if (!uv_is_active((uv_handle_t *)&feed->timer))
        uv_timer_start(&feed->timer, feed_turn, feed_is_shared(feed) ? FEED_SEND_MS : 0, 0);
}

static bool feed_write(struct feed *feed, const struct event *event)
{
    const struct event_origin origin = {feed->replica, feed->number + 1, clock_wall_ms()};

    if (!event_write(&feed->gathering, event, &origin))
        return false;
    feed->number++;
    feed->gathered++;
    return true;
}

void feed_publish(struct feed *feed, const struct event *event)
{
    if (!feed_is_wanted(feed))
        return;
    if (feed->gathering.len + EVENT_TEXT_MAX > FEED_QUEUE_MAX || !feed_write(feed, event))
        feed->dropped++;
    feed_wake(feed);
}

uint64_t feed_dropped(const struct feed *feed)
{
    return feed->dropped;
}

void feed_on_ended(struct feed *feed, call_ended_fn fn, void *arg)
{
    feed->on_ended = fn;
    feed->on_ended_arg = arg;
}

void feed_on_event(struct feed *feed, store_event_fn fn, void *arg)
{
    bool had_listener = feed->fn != NULL;

    feed->fn = fn;
    feed->arg = arg;
    if (feed_is_shared(feed)) {
        if (had_listener != (fn != NULL))
            feed->store->ops->listen(feed->store, fn != NULL);
    } else if (fn) {
        feed->is_new = true;
        feed_wake(feed);
    } else {
        feed->gathered = 0;
        strbuf_reset(&feed->gathering);
    }
}

void feed_listening(struct feed *feed)
{
    if (feed->fn)
        feed->fn(feed->arg, NULL, 0);
}

void feed_received(struct feed *feed, struct slice lines)
{
    struct event_text texts[FEED_TOLD_MAX];
    size_t count = 0;

    while (lines.len > 0) {
        count += event_read(&lines, &texts[count]);
        if (count == FEED_TOLD_MAX || (lines.len == 0 && count > 0)) {
            /* The listener may leave at any of them. */
            if (feed->fn)
                feed->fn(feed->arg, texts, count);
            count = 0;
        }
    }
}

static void feed_tell(struct feed *feed)
{
    struct strbuf lines = feed->gathering;

    assert(feed->telling.len == 0);
    feed->gathering = feed->telling;
    feed->telling = lines;
    feed->gathered = 0;
    feed_received(feed, strbuf_slice(&feed->telling));
    strbuf_reset(&feed->telling);
}

static void feed_timer_closed(uv_handle_t *handle)
{
    struct feed *feed = feed_from(handle->data);
    struct store *store = feed->store;
    void (*closed)(void *arg) = feed->closed;
    void *arg = feed->closed_arg;

    assert(feed->is_closing && !feed->is_sending);
    assert(store->feed == feed);
    store->ops->on_ended(store, feed->on_ended, feed->on_ended_arg);
    store->feed = NULL;
    strbuf_release(&feed->gathering);
    strbuf_release(&feed->telling);
    feed->magic = 0;
    free(feed);
    closed(arg);
}

static void feed_finish(struct feed *feed)
{
    uv_close((uv_handle_t *)&feed->timer, feed_timer_closed);
}

static void feed_sent(void *arg, int err)
{
    struct feed *feed = feed_from(arg);

    assert(feed->is_sending);
    feed->is_sending = false;
    if (err < 0)
        feed->dropped += feed->on_way;
    if (feed->is_closing) {
        feed_finish(feed);
    } else if (err == -EACCES) {
        log_warn("events cannot be published: the Redis user may not PUBLISH on the channel",
                 log_num("next_try_s", FEED_REFUSED_MS / 1000));
        uv_timer_start(&feed->timer, feed_turn, FEED_REFUSED_MS, 0);
    } else if (err < 0) {
        feed_wake(feed);
    }
}

/*
 * To the others, and back to us. While that is not possible it waits, and what does not fit is
 * dropped.
 */
static int feed_send(struct feed *feed)
{
    int err;

    assert(feed_is_shared(feed) && feed->gathered > 0);
    if (feed->is_sending)
        return -EBUSY;
    err = feed->store->ops->publish(feed->store, strbuf_slice(&feed->gathering), feed_sent, feed);
    if (err < 0)
        return err;
    feed->is_sending = true;
    feed->on_way = feed->gathered;
    feed->gathered = 0;
    strbuf_reset(&feed->gathering);
    return 0;
}

static void feed_turn(uv_timer_t *timer)
{
    struct feed *feed = feed_from(timer->data);

    if (feed->is_new) {
        feed->is_new = false;
        feed_listening(feed);
    }
    if (feed->dropped > feed->dropped_told && feed->gathering.len <= FEED_QUEUE_MAX) {
        const struct event event = {.kind = EVENT_DROPPED, .count = feed->dropped - feed->dropped_told};

        if (feed_write(feed, &event))
            feed->dropped_told = feed->dropped;
    }
    if (feed->gathering.len == 0)
        return;
    if (!feed_is_shared(feed))
        feed_tell(feed);
    else if (feed_send(feed))
        feed_wake(feed);
}

void feed_close(struct feed *feed, void (*closed)(void *arg), void *arg)
{
    assert(!feed->is_closing);
    feed->is_closing = true;
    feed->closed = closed;
    feed->closed_arg = arg;
    feed->fn = NULL;
    uv_timer_stop(&feed->timer);
    if (feed->is_sending)
        return; /* feed_sent goes on; what has come since then is lost */
    if (feed->gathering.len == 0 || !feed_is_shared(feed) || feed_send(feed))
        feed_finish(feed);
}
