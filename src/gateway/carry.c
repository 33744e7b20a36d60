/*
 * carry.c - the sides of a stream, and the bytes between them.
 *
 * What is read from one side is sent to the other at once. While a part of it waits, the side that sent it
 * is not read: so a slow reader holds back whoever writes to it, and nobody else.
 */
#include "base/random.h"
#include "gateway/stream_internal.h"

static bool side_is_client(const struct side *side)
{
    const struct stream *stream = side->settings.arg;

    return side == stream->client;
}

/* NULL: there is none. */
static struct side *other_side(const struct side *side)
{
    const struct stream *stream = side->settings.arg;

    return side == stream->client ? stream->pod : stream->client;
}

static void carry_close_if_done(struct stream *stream)
{
    if (stream->client->is_finished && (!stream->pod || stream->pod->is_finished) &&
        stream->phase == STREAM_CARRIED)
        stream_close(stream, stream->end);
}

/* Nothing more comes for this side. */
static void carry_finish(struct side *side)
{
    side_finish(side);
    carry_close_if_done(side->settings.arg);
}

/* The client has gone, and there is no pod that would have to know. */
static void carry_lost_client(struct stream *stream)
{
    if (stream->phase == STREAM_PARTING)
        stream_close(stream, stream->end);
    else
        rescue_lost_client(stream);
}

/* The socket is broken. What it has sent still goes to the other side, and then both are closed. */
static void carry_failed(struct side *side)
{
    struct stream *stream = side->settings.arg;
    struct side *other = other_side(side);
    bool is_client = side_is_client(side);

    if (stream->phase == STREAM_CLOSING)
        return;
    if (!is_client && rescue_is_possible(stream)) {
        rescue_begin(stream, 0);
        return;
    }
    stream_note_end(stream, is_client ? STREAM_CLIENT_FAILED : STREAM_POD_FAILED);
    if (!other) {
        carry_lost_client(stream);
        return;
    }
    stream->pod_broke |= !is_client;
    side_stop_reading(side);
    side_stop_reading(other);
    side->has_ended = true;
    other->has_ended = true;
    side->is_finished = true;
    carry_finish(other);
}

static void carry_ended(struct side *side, int err)
{
    struct stream *stream = side->settings.arg;
    bool is_client = side_is_client(side);

    MAGIC_CHECK(stream, STREAM_MAGIC);
    if (stream->follow && !stream->is_ending && !stream->has_parted)
        follow_count_code(stream, is_client, WS_CLOSE_ABNORMAL);
    if (err < 0) {
        carry_failed(side);
    } else if (!is_client && rescue_is_possible(stream)) {
        rescue_begin(stream, 0);
    } else if (!other_side(side)) {
        stream_note_end(stream, STREAM_CLOSED_BY_CLIENT);
        carry_lost_client(stream);
    } else {
        stream_note_end(stream, is_client ? STREAM_CLOSED_BY_CLIENT : STREAM_CLOSED_BY_POD);
        /* An agent that has crashed may look like one that has finished: the caller has a moment to close. */
        if (!is_client && stream->follow && stream->part_by_ms == 0) {
            stream->part_by_ms = stream_now(stream) + STREAM_PART_MS;
            stream_await(stream);
        }
        carry_finish(other_side(side));
    }
}

bool carry_send(struct side *side, const struct side_part *parts, size_t count)
{
    struct stream *stream = side->settings.arg;
    bool is_client = side_is_client(side);
    size_t len = 0;

    if (side->is_finishing || side->is_closing)
        return false;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    metrics_add(is_client ? stream->gateway->metrics.to_client : stream->gateway->metrics.to_pod,
                (double)len);
    if (is_client)
        stream->to_client_bytes += len;
    else
        stream->to_pod_bytes += len;
    if (side_send(side, parts, count) == 0)
        return true;
    carry_failed(side);
    return false;
}

/* A client without a pod is read in larger pieces: it sends audio many times a second that nobody hears. */
static void carry_rest(struct stream *stream)
{
    struct gateway *gateway = stream->gateway;

    side_stop_reading(stream->client);
    list_remove(&stream->rest_link);
    list_append(&gateway->resting, &stream->rest_link);
    if (!uv_is_active((uv_handle_t *)&gateway->rest_timer))
        (void)uv_timer_start(&gateway->rest_timer, stream_wake_all, STREAM_REST_MS, 0);
}

void carry_take(struct side *side, char *data, size_t len)
{
    struct stream *stream = side->settings.arg;
    bool is_client = side_is_client(side);
    const struct side_part part = {data, len, false};

    if (stream->follow && is_client)
        follow_client(stream, data, len);
    else if (stream->follow)
        follow_pod(stream, data, len);
    else if (stream->phase == STREAM_CARRIED)
        (void)carry_send(other_side(side), &part, 1);
}

static void carry_received(struct side *side, char *data, size_t len)
{
    struct stream *stream = side->settings.arg;
    bool is_client = side_is_client(side);

    MAGIC_CHECK(stream, STREAM_MAGIC);
    stream->active_ms = stream_now(stream);
    if (is_client)
        stream->client_ms = stream->active_ms;
    carry_take(side, data, len);
    /* What was taken may have changed everything. */
    if (stream->phase == STREAM_CARRIED && (is_client || side == stream->pod)) {
        if (other_side(side)->pending > 0)
            side_stop_reading(side);
    } else if (stream->phase == STREAM_HELD && is_client) {
        carry_rest(stream);
    }
}

void carry_read(struct side *side)
{
    struct stream *stream = side->settings.arg;
    const struct side *other = other_side(side);

    list_remove(&stream->rest_link);
    if (side->has_ended || side->is_closing || (other && other->pending > 0))
        return;
    if (side_read(side) < 0)
        carry_failed(side);
}

static void carry_drained(struct side *side, int err)
{
    struct stream *stream = side->settings.arg;
    struct side *other = other_side(side);

    MAGIC_CHECK(stream, STREAM_MAGIC);
    if (err < 0) {
        carry_failed(side);
        return;
    }
    stream->active_ms = stream_now(stream);
    if (!side_is_client(side))
        stream->client_ms = stream->active_ms;
    if (other)
        carry_read(other);
    else
        stream_await(stream); /* the next sound may have waited for this */
}

static void carry_finished(struct side *side)
{
    carry_close_if_done(side->settings.arg);
}

static void carry_closed(void *arg)
{
    stream_lost_handle(arg);
}

static const struct side_events carry_events = {
    .received = carry_received,
    .ended = carry_ended,
    .drained = carry_drained,
    .finished = carry_finished,
    .closed = carry_closed,
};

int carry_attach(struct stream *stream, uv_tcp_t *tcp, struct side **ret_side)
{
    struct gateway *gateway = stream->gateway;
    const struct side_settings settings = {.loop = gateway->loop,
                                           .events = &carry_events,
                                           .arg = stream,
                                           .scratch = gateway->scratch,
                                           .patience_ms = gateway->settings.idle_timeout_ms};
    int err = side_new(&settings, tcp, ret_side);

    if (err == 0)
        stream->handles++;
    return err;
}

void carry_leave_pod(struct stream *stream, int code)
{
    struct side *pod = TAKE(stream->pod);
    uint32_t random = random_u32();
    uint8_t mask[WS_MASK_LEN];
    struct strbuf frame;

    memcpy(mask, &random, sizeof(mask));
    arena_reset(&stream->gateway->words);
    strbuf_init(&frame, &stream->gateway->words, WS_HEADER_MAX + WS_CONTROL_MAX);
    if (code != 0)
        ws_write_close(&frame, code < 0 ? WS_CLOSE_PROTOCOL : code, SLICE(""), mask);
    side_leave(pod, strbuf_failed(&frame) ? SLICE("") : strbuf_slice(&frame));
    stream_lost_handle(stream);
}
