/*
 * follow.c - what the frames of a followed stream mean: the first messages are kept for the next pod, the end
 * of the call is seen, and what concerns only us is not passed on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/stream_internal.h"
#include "ws/reader.h"

enum {
    LOOKS_MAX =
        8, /* messages that are decoded to find `start`, if their beginnings do not say what they are */
};

/* Room for the first messages. */
static size_t follow_room(const struct follow *follow)
{
    size_t used = follow->head.len + follow->kept.len;

    return used < STREAM_KEPT_MAX ? STREAM_KEPT_MAX - used : 0;
}

struct follow *follow_new(const struct stream_kept *kept)
{
    struct follow *follow;

    if (kept->head.len > STREAM_HEAD_MAX || kept->key.len > STREAM_KEY_MAX ||
        kept->subprotocol.len > STREAM_SUBPROTOCOL_MAX)
        return NULL;
    follow = calloc(1, sizeof(*follow));
    if (!follow)
        return NULL;
    passage_init(&follow->from_client, true, WS_HEAD_MAX);
    passage_init(&follow->from_pod, false, 0);
    strbuf_init(&follow->head, NULL, STREAM_KEPT_MAX);
    strbuf_init(&follow->kept, NULL, STREAM_KEPT_MAX);
    strbuf_append(&follow->head, kept->head.data, kept->head.len);
    memcpy(follow->key, kept->key.data, kept->key.len);
    if (kept->subprotocol.len > 0)
        memcpy(follow->subprotocol, kept->subprotocol.data, kept->subprotocol.len);
    follow->looks = LOOKS_MAX;
    return strbuf_failed(&follow->head) ? follow_free(follow) : follow;
}

struct follow *follow_free(struct follow *follow)
{
    if (!follow)
        return NULL;
    passage_release(&follow->from_client);
    passage_release(&follow->from_pod);
    strbuf_release(&follow->head);
    strbuf_release(&follow->kept);
    free(follow);
    return NULL;
}

void follow_count_code(struct stream *stream, bool is_client, int code)
{
    enum close_code_kind kind = close_code_kind(code);

    metrics_add(stream->gateway->metrics.close_codes[is_client ? 0 : 1][kind], 1);
}

/* The client. */

/*
 * Decodes a message of the client from its frames, of which it has a copy. False: it is none, or there is
 * no memory. *ret_text is valid until the reader is released.
 */
static bool decode(const struct passage_unit *unit, struct strbuf *copy, struct ws_reader *reader,
                   struct slice *ret_text)
{
    struct ws_input input;
    struct ws_message message;

    strbuf_append(copy, unit->before.data, unit->before.len);
    strbuf_append(copy, unit->now.data, unit->now.len);
    if (strbuf_failed(copy) || copy->len == 0)
        return false;
    input = (struct ws_input){copy->data, copy->len};
    while (ws_reader_next(reader, &input, &message) > 0) {
        if (message.opcode == WS_TEXT && !message.is_dropped) {
            *ret_text = (struct slice){message.data, message.len};
            return true;
        }
    }
    return false;
}

static void follow_understand(struct stream *stream, struct slice text)
{
    struct follow *follow = stream->follow;
    const struct dialect *dialect = dialect_find(stream->provider);

    follow->has_start = true;
    if (media_read_start(dialect, text, &follow->start) < 0 &&
        (!dialect || media_read_start(NULL, text, &follow->start) < 0)) {
        follow->start.dialect = NULL;
        log_info("a provider's start is not understood: while its caller has no pod there is no sound",
                 log_str("call_sid", stream->call_sid));
    }
    if (stream->wait && follow->start.dialect)
        wait_set_provider(stream->wait, follow->start.dialect->name);
    /* Of what comes from here on only the beginning is of interest, and nothing is kept without a pod. */
    if (stream->phase == STREAM_CARRIED)
        follow->from_client.tracker.head_want = WS_HEAD_STOP;
    else
        follow->from_client.tail_max = 0; /* and marks of ours come back, which are looked at whole */
}

/* Keeps the frames of a first message. */
static void follow_keep(struct stream *stream, const struct passage_unit *unit)
{
    struct follow *follow = stream->follow;
    size_t len = unit->before.len + unit->now.len;

    if (len == 0 || len > follow_room(follow)) {
        follow->has_lost_start = true;
        stream->said.is_too_big |= stream->phase != STREAM_CARRIED;
        return;
    }
    strbuf_append(&follow->kept, unit->before.data, unit->before.len);
    strbuf_append(&follow->kept, unit->now.data, unit->now.len);
    follow->has_lost_start |= strbuf_failed(&follow->kept);
}

/* A text of the client, before its `start`. */
static enum media_event follow_first(struct stream *stream, const struct passage_unit *unit)
{
    struct follow *follow = stream->follow;
    enum media_event event = media_event(unit->step->head);
    struct ws_reader reader;
    struct strbuf copy;
    struct slice text;

    if (event == MEDIA_CONNECTED)
        follow_keep(stream, unit);
    /* A start is looked at in any case: it is the last one that is. */
    if (event != MEDIA_START && (event != MEDIA_OTHER || follow->looks == 0))
        return event;
    if (event == MEDIA_OTHER)
        follow->looks--;
    strbuf_init(&copy, NULL, PASSAGE_TAIL_MAX + SIDE_BUFFER);
    ws_reader_init(&reader, true, STREAM_KEPT_MAX, true);
    if (decode(unit, &copy, &reader, &text)) {
        event = media_event(text);
        if (event == MEDIA_CONNECTED || event == MEDIA_START)
            follow_keep(stream, unit);
        if (event == MEDIA_START)
            follow_understand(stream, text);
    } else if (event == MEDIA_START) {
        follow_keep(stream, unit); /* it is too large: says so */
        follow->has_start = true;
    }
    ws_reader_release(&reader);
    strbuf_release(&copy);
    return event;
}

/* Is it the return of one of our marks? They are nobody's business but ours. */
static bool follow_is_mark(struct stream *stream, const struct ws_step *step)
{
    struct follow *follow = stream->follow;
    uint64_t number;

    if (follow->marks == 0 || !follow->start.dialect || step->payload_len > step->head.len ||
        !media_is_our_mark(follow->start.dialect, step->head, &number))
        return false;
    /* They come back once, and in order: every other one of such a name is an agent's. */
    if (number > follow->marks || number <= follow->marks_back)
        return false;
    follow->marks_back = number;
    if (number == follow->marks)
        play_mark_back(stream);
    if (follow->marks_back == follow->marks && stream->phase == STREAM_CARRIED)
        follow->from_client.tracker.head_want = WS_HEAD_STOP; /* none is on its way any more */
    return true;
}

/* Is it the answer to one of our clears? Marks of what was cleared do not come back then. */
static bool follow_is_cleared(struct stream *stream)
{
    struct follow *follow = stream->follow;

    if (follow->clears == 0)
        return false;
    follow->clears--;
    follow->marks_back = follow->marks;
    if (stream->phase == STREAM_CARRIED)
        follow->from_client.tracker.head_want = WS_HEAD_STOP;
    return true;
}

static void follow_pong(struct stream *stream, struct slice payload)
{
    struct strbuf frame;

    /* A client that does not read what it was sent does not get answers on top. */
    if (stream->client->pending > 0)
        return;
    arena_reset(&stream->gateway->words);
    strbuf_init(&frame, &stream->gateway->words, WS_HEADER_MAX + WS_CONTROL_MAX);
    ws_write_frame(&frame, WS_PONG, payload, NULL);
    if (!strbuf_failed(&frame))
        (void)carry_send(stream->client, &(struct side_part){frame.data, frame.len, false}, 1);
}

static enum passage_verdict follow_client_control(struct stream *stream, const struct ws_step *step)
{
    bool is_carried = stream->phase == STREAM_CARRIED;

    if (step->opcode == WS_CLOSE) {
        follow_count_code(stream, true, ws_close_code(step->head));
        stream->said.client_ends = true;
    } else if (step->opcode == WS_PING && !is_carried) {
        follow_pong(stream, step->head);
    }
    return is_carried ? PASSAGE_PASS : step->opcode == WS_CLOSE ? PASSAGE_STOP : PASSAGE_DROP;
}

static enum passage_verdict follow_client_look(void *arg, const struct passage_unit *unit)
{
    struct stream *stream = arg;
    const struct ws_step *step = unit->step;
    enum media_event event = MEDIA_OTHER;
    bool was_started = stream->follow->has_start;

    if (stream->phase == STREAM_CLOSING)
        return PASSAGE_STOP;
    if (step->event == WS_EVENT_CONTROL)
        return follow_client_control(stream, step);
    if (step->opcode == WS_TEXT)
        event = was_started ? media_event(step->head) : follow_first(stream, unit);
    if (event == MEDIA_STOP)
        stream->said.client_ends = true;
    if ((event == MEDIA_MARK && follow_is_mark(stream, step)) ||
        (event == MEDIA_CLEARED && follow_is_cleared(stream)))
        return PASSAGE_DROP;
    if (stream->phase != STREAM_CARRIED) {
        if (!was_started && stream->follow->has_start)
            play_begin(stream);
        return PASSAGE_DROP;
    }
    return PASSAGE_PASS;
}

static bool follow_client_pass(void *arg, struct slice before, struct slice now)
{
    struct stream *stream = arg;
    const struct side_part parts[] = {{before.data, before.len, false}, {now.data, now.len, false}};

    if (stream->phase != STREAM_CARRIED)
        return true; /* the rest of what a broken pod should have got */
    if (before.len == 0)
        return carry_send(stream->pod, &parts[1], 1);
    return carry_send(stream->pod, parts, 2);
}

/* From here on nothing is known any more: what was kept is passed on, and everything after it, unseen. */
static void follow_give_up(struct stream *stream, const char *data, size_t len)
{
    struct follow *follow = stream->follow;
    struct slice tail = strbuf_slice(&follow->from_client.tail);
    struct slice back = strbuf_slice(&follow->from_pod.tail);
    const struct side_part to_pod[] = {{tail.data, tail.len, false}, {data, len, false}};
    const struct side_part to_client = {back.data, back.len, false};

    log_info("a client does not speak WebSocket any more: its stream is carried as it is",
             log_str("call_sid", stream->call_sid), log_str("request_id", stream->request_id));
    stream->follow = NULL;
    if (carry_send(stream->pod, to_pod, 2))
        (void)carry_send(stream->client, &to_client, 1);
    follow_free(follow);
}

/* What was found is dealt with when all bytes were looked at. */
static void follow_client_said(struct stream *stream)
{
    struct stream_said said = stream->said;

    stream->said.client_ends = false;
    if (stream->phase == STREAM_CLOSING)
        return;
    if (said.client_ends && stream->phase == STREAM_PARTING)
        stream_close(stream, stream->end); /* its answer to our close frame */
    else if (said.client_ends && !stream->has_parted)
        stream_end_call(stream, STREAM_CLOSED_BY_CLIENT, "its client has ended it");
    else if (said.is_wrong && stream->phase != STREAM_PARTING)
        stream_part(stream, STREAM_CLIENT_FAILED, WS_CLOSE_PROTOCOL, "not a WebSocket frame of a client");
    else if (said.is_too_big && stream->phase != STREAM_PARTING)
        stream_part(stream, STREAM_CLIENT_FAILED, WS_CLOSE_TOO_BIG, "start is too large");
}

void follow_client(struct stream *stream, char *data, size_t len)
{
    const struct passage_to to = {.pass = follow_client_pass, .look = follow_client_look, .arg = stream};
    size_t used;
    int err = passage_feed(&stream->follow->from_client, data, len, &to, &used);

    if (err < 0 && stream->phase == STREAM_CARRIED && err == -EPROTO) {
        follow_give_up(stream, data + used, len - used);
        return;
    }
    stream->said.is_wrong |= err < 0;
    follow_client_said(stream);
}

/* The pod. */

/* Does this close code of a pod end the call? All others say that something went wrong with the pod. */
static bool code_ends_call(int code)
{
    return code == WS_CLOSE_NORMAL || code == WS_CLOSE_NONE || (code >= 3000 && code <= 4999);
}

static enum passage_verdict follow_pod_look(void *arg, const struct passage_unit *unit)
{
    struct stream *stream = arg;
    const struct ws_step *step = unit->step;

    if (stream->phase != STREAM_CARRIED)
        return PASSAGE_STOP;
    if (step->event != WS_EVENT_CONTROL || step->opcode != WS_CLOSE)
        return PASSAGE_PASS;
    stream->pod_code = ws_close_code(step->head);
    follow_count_code(stream, false, stream->pod_code);
    if (stream->is_ending)
        return PASSAGE_PASS; /* the answer to the client's */
    if (code_ends_call(stream->pod_code)) {
        stream->said.pod_ends = true;
        return PASSAGE_PASS;
    }
    stream->said.pod_breaks = rescue_is_possible(stream);
    /* A client that is told to close by a pod that broke answers: that is not the end of the call. */
    stream->has_parted |= !stream->said.pod_breaks;
    return stream->said.pod_breaks ? PASSAGE_STOP : PASSAGE_PASS;
}

static bool follow_pod_pass(void *arg, struct slice before, struct slice now)
{
    struct stream *stream = arg;
    const struct side_part parts[] = {{before.data, before.len, false}, {now.data, now.len, false}};

    if (stream->broke_ms > 0 && stream->phase == STREAM_CARRIED) {
        metrics_observe(stream->gateway->metrics.rescue_seconds,
                        (double)(stream_now(stream) - stream->broke_ms) / 1000);
        stream->broke_ms = 0;
    }
    if (before.len == 0)
        return carry_send(stream->client, &parts[1], 1);
    return carry_send(stream->client, parts, 2);
}

void follow_pod(struct stream *stream, char *data, size_t len)
{
    const struct passage_to to = {.pass = follow_pod_pass, .look = follow_pod_look, .arg = stream};
    struct follow *follow = stream->follow;
    size_t used;
    int err = passage_feed(&follow->from_pod, data, len, &to, &used);

    if (stream->phase != STREAM_CARRIED)
        return;
    if (err == -EPROTO && !rescue_is_possible(stream)) {
        struct slice tail = strbuf_slice(&follow->from_pod.tail);
        const struct side_part parts[] = {{tail.data, tail.len, false}, {data + used, len - used, false}};

        /* The client is to find out, as it would without us. */
        if (carry_send(stream->client, parts, 2) && stream->follow)
            passage_drop_open(&follow->from_pod);
    } else if (err < 0 || stream->said.pod_breaks) {
        stream->said.pod_breaks = false;
        rescue_begin(stream, err < 0 ? 0 : stream->pod_code);
    } else if (stream->said.pod_ends) {
        stream->said.pod_ends = false;
        stream_end_call(stream, STREAM_CLOSED_BY_POD, "its pod has ended it");
    }
}

/* Pods come and go. */

void follow_lose_pod(struct stream *stream)
{
    struct follow *follow = stream->follow;

    passage_release(&follow->from_pod);
    passage_init(&follow->from_pod, false, 0);
    follow->from_client.streams_large = false;
    follow->from_client.tail_max = follow->has_start ? 0 : follow_room(follow);
    if (follow->has_start || passage_is_torn(&follow->from_client) ||
        follow->from_client.tail.len > follow->from_client.tail_max)
        passage_drop_open(&follow->from_client);
    follow->from_client.tracker.head_want = WS_HEAD_MAX;
}

void follow_take_pod(struct stream *stream)
{
    struct follow *follow = stream->follow;

    follow->from_client.streams_large = true;
    follow->from_client.tail_max = PASSAGE_TAIL_MAX;
    if (follow->has_start && follow->marks_back == follow->marks)
        follow->from_client.tracker.head_want = WS_HEAD_STOP;
}
