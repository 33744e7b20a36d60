/*
 * passage.c - finds the ends of messages, and passes whole ones on in one piece.
 */
#include "gateway/passage.h"

enum { TAIL_KEPT = 4096 }; /* a larger memory is given back when it is empty */

void passage_init(struct passage *passage, bool is_masked, size_t head_want)
{
    *passage = (struct passage){.tail_max = PASSAGE_TAIL_MAX, .streams_large = true};
    ws_tracker_init(&passage->tracker, is_masked, head_want);
    strbuf_init(&passage->tail, NULL, PASSAGE_TAIL_MAX);
}

void passage_release(struct passage *passage)
{
    strbuf_release(&passage->tail);
}

static void passage_empty_tail(struct passage *passage)
{
    if (passage->tail.room > TAIL_KEPT)
        strbuf_release(&passage->tail);
    else
        strbuf_reset(&passage->tail);
}

bool passage_is_torn(const struct passage *passage)
{
    return passage->is_streaming;
}

void passage_drop_open(struct passage *passage)
{
    passage_empty_tail(passage);
    passage->is_streaming = false;
    passage->is_skipping = ws_tracker_is_inside(&passage->tracker);
}

/* What of one read is still to be dealt with: the bytes from `begin` on. */
struct feed {
    struct passage *passage;
    const struct passage_to *to;
    const char *data;
    size_t begin;    /* what is before it was passed on or dropped */
    size_t unit;     /* where the open message begins; what is before it is to be passed on */
    bool is_blocked; /* nothing can be passed on any more */
};

/* Passes on the bytes up to `end`, and the tail before them. */
static void feed_pass(struct feed *feed, size_t end)
{
    struct passage *passage = feed->passage;
    struct slice before = strbuf_slice(&passage->tail);
    struct slice now = {feed->data + feed->begin, end - feed->begin};

    if (!feed->is_blocked && before.len + now.len > 0)
        feed->is_blocked = !feed->to->pass(feed->to->arg, before, now);
    passage_empty_tail(passage);
    feed->begin = end;
}

/* A message, or a control frame, that ends at `end`. */
static enum passage_verdict feed_look(const struct feed *feed, const struct ws_step *step, size_t end)
{
    const struct passage *passage = feed->passage;
    struct passage_unit unit = {.step = step, .before = {"", 0}, .now = {"", 0}};

    if (step->is_boundary && !passage->is_streaming && !passage->is_skipping) {
        if (feed->unit == 0)
            unit.before = strbuf_slice(&passage->tail);
        unit.now = (struct slice){feed->data + feed->unit, end - feed->unit};
    }
    return feed->to->look(feed->to->arg, &unit);
}

/* No message is open at `end`. */
static void feed_boundary(struct feed *feed, size_t end, bool is_dropped)
{
    struct passage *passage = feed->passage;

    if (passage->is_skipping || is_dropped) {
        /* Whole messages before it go on; a tail belongs to the message itself. */
        if (feed->unit > feed->begin)
            feed_pass(feed, feed->unit);
        passage_empty_tail(passage);
        feed->begin = end;
    }
    passage->is_skipping = false;
    passage->is_streaming = false;
    feed->unit = end;
}

/* The bytes are used up in the middle of a message, or at its end. */
static int feed_end(struct feed *feed, size_t len)
{
    struct passage *passage = feed->passage;

    if (feed->unit > feed->begin)
        feed_pass(feed, feed->unit);
    if (passage->is_skipping || feed->begin == len)
        return 0;
    if (passage->is_streaming) {
        feed_pass(feed, len);
        return 0;
    }
    if (passage->tail.len + len - feed->begin > passage->tail_max) {
        /* First: passing on may find out that nothing is passed on any more, see passage_drop_open. */
        passage->is_streaming = passage->streams_large;
        passage->is_skipping = !passage->streams_large;
        if (passage->is_streaming)
            feed_pass(feed, len);
        else
            passage_empty_tail(passage);
        return 0;
    }
    strbuf_append(&passage->tail, feed->data + feed->begin, len - feed->begin);
    return strbuf_failed(&passage->tail) ? -ENOMEM : 0;
}

int passage_feed(struct passage *passage, const char *data, size_t len, const struct passage_to *to,
                 size_t *ret_used)
{
    struct feed feed = {.passage = passage, .to = to, .data = data};
    size_t used = 0;

    *ret_used = len;
    while (used < len && !passage->is_stopped) {
        enum passage_verdict verdict = PASSAGE_PASS;
        struct ws_step step;

        if (ws_tracker_next(&passage->tracker, data + used, len - used, &step) < 0) {
            if (feed.unit > feed.begin)
                feed_pass(&feed, feed.unit);
            *ret_used = feed.begin;
            return -EPROTO;
        }
        used += step.used;
        if (step.event != WS_EVENT_NONE)
            verdict = feed_look(&feed, &step, used);
        if (verdict == PASSAGE_STOP) {
            if (feed.unit > feed.begin)
                feed_pass(&feed, feed.unit);
            passage_empty_tail(passage);
            passage->is_stopped = true;
        } else if (step.is_boundary) {
            feed_boundary(&feed, used, verdict == PASSAGE_DROP);
        } else if (step.event == WS_EVENT_CONTROL && step.opcode == WS_CLOSE && !passage->is_skipping) {
            /* The message that is open will not be completed: the close frame does not wait for its end. */
            passage->is_streaming = true;
            feed_pass(&feed, used);
        }
    }
    return passage->is_stopped ? 0 : feed_end(&feed, len);
}
