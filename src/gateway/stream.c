/*
 * stream.c - the life of a stream: its call, its log lines and its counts, and which streams a call may have.
 */
#include "gateway/stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/stream_internal.h"

const char *stream_end_name(enum stream_end end)
{
    static const char *const names[STREAM_ENDS] = {
        [STREAM_CLOSED_BY_CLIENT] = "client_closed",
        [STREAM_CLOSED_BY_POD] = "pod_closed",
        [STREAM_CLIENT_FAILED] = "client_failed",
        [STREAM_POD_FAILED] = "pod_failed",
        [STREAM_IDLE] = "idle",
        [STREAM_CUT] = "cut",
        [STREAM_OVER] = "call_over",
        [STREAM_REPLACED] = "replaced",
        [STREAM_TIMED_OUT] = "timed_out",
    };

    assert(end < STREAM_ENDS);
    return names[end];
}

void stream_note_end(struct stream *stream, enum stream_end end)
{
    if (!stream->has_end)
        stream->end = end;
    stream->has_end = true;
}

static struct stream *stream_of(struct list *link)
{
    struct stream *stream = LIST_ENTRY(link, struct stream, link);

    MAGIC_CHECK(stream, STREAM_MAGIC);
    return stream;
}

static bool phase_is_held(enum stream_phase phase)
{
    return phase == STREAM_HELD || phase == STREAM_DIALING;
}

static void stream_count(struct gateway *gateway)
{
    metrics_set(gateway->metrics.connections, (double)(gateway->stream_count - gateway->held_count));
    metrics_set(gateway->metrics.held, (double)gateway->held_count);
}

/* Each phase, and the phases that may follow it. */
void stream_enter(struct stream *stream, enum stream_phase phase)
{
    static const unsigned may_follow[STREAM_PHASES] = {
        [STREAM_CARRIED] = 1U << STREAM_DIALING | 1U << STREAM_PARTING | 1U << STREAM_CLOSING,
        [STREAM_HELD] = 1U << STREAM_DIALING | 1U << STREAM_PARTING | 1U << STREAM_CLOSING,
        [STREAM_DIALING] =
            1U << STREAM_CARRIED | 1U << STREAM_HELD | 1U << STREAM_PARTING | 1U << STREAM_CLOSING,
        [STREAM_PARTING] = 1U << STREAM_CLOSING,
    };
    bool was_held = phase_is_held(stream->phase);
    bool is_held = phase_is_held(phase);
    struct gateway *gateway = stream->gateway;

    MAGIC_CHECK(stream, STREAM_MAGIC);
    assert(may_follow[stream->phase] & 1U << phase);
    stream->phase = phase;
    /* Whatever else it becomes: a client that rests is read again, because nobody else may remember it. */
    if (phase == STREAM_CLOSING)
        list_remove(&stream->rest_link);
    if (was_held == is_held)
        return;
    gateway->held_count += is_held ? 1 : (size_t)-1;
    stream_count(gateway);
    if (was_held)
        metrics_observe(gateway->metrics.hold_seconds, (double)(stream_now(stream) - stream->held_ms) / 1000);
}

static void stream_ended(struct stream *stream)
{
    struct gateway *gateway = stream->gateway;
    uint64_t duration_ms = stream_now(stream) - stream->started_ms;

    assert(!stream->dial && !stream->wait);
    list_remove(&stream->link);
    gateway->stream_count--;
    stream_count(gateway);
    metrics_add(gateway->metrics.ends[stream->end], 1);
    metrics_observe(gateway->metrics.durations, (double)duration_ms / 1000);
    log_info("connection closed", log_str("call_sid", stream->call_sid), log_str("pod", stream->pod_name),
             log_str("reason", stream_end_name(stream->end)),
             log_num("bytes_to_pod", (int64_t)stream->to_pod_bytes),
             log_num("bytes_to_client", (int64_t)stream->to_client_bytes),
             log_num("duration_ms", (int64_t)duration_ms), log_str("request_id", stream->request_id),
             log_str("traceparent", stream->traceparent));
    if (stream->call)
        calls_drop(stream->call, (struct call_drop){.was_open = stream->is_open,
                                                    .could_move = stream->could_move,
                                                    .comes_back = stream->departs && !stream->is_ending});
    if (stream->pod_broke)
        probe_start(gateway, stream->pod_name);
    follow_free(stream->follow);
    stream->magic = 0;
    free(stream);
    gateway_lost_one(gateway);
}

void stream_lost_handle(struct stream *stream)
{
    MAGIC_CHECK(stream, STREAM_MAGIC);
    assert(stream->handles > 0);
    if (--stream->handles == 0)
        stream_ended(stream);
}

static void stream_timer_closed(uv_handle_t *handle)
{
    stream_lost_handle(handle->data);
}

/* Nothing is looked for any more. */
static void stream_stop_looking(struct stream *stream)
{
    stream->retry_at_ms = 0;
    if (stream->dial)
        dial_cancel(stream->dial);
    if (stream->wait)
        waits_leave(TAKE(stream->wait), WAIT_GOES_ON);
}

void stream_close(struct stream *stream, enum stream_end end)
{
    stream_note_end(stream, end);
    if (stream->phase == STREAM_CLOSING)
        return;
    stream_stop_looking(stream);
    stream_enter(stream, STREAM_CLOSING);
    side_close(stream->client);
    if (stream->pod)
        side_close(stream->pod);
    uv_close((uv_handle_t *)&stream->timer, stream_timer_closed);
}

void stream_part(struct stream *stream, enum stream_end end, int code, const char *reason)
{
    struct strbuf frame;
    bool is_sent;

    stream_note_end(stream, end);
    if (stream->phase == STREAM_PARTING || stream->phase == STREAM_CLOSING)
        return;
    /* Bytes that nobody has looked at may end in the middle of a frame. */
    if (!stream->follow || stream->client->is_finishing || passage_is_torn(&stream->follow->from_pod)) {
        stream_close(stream, end);
        return;
    }
    stream_stop_looking(stream);
    stream->has_parted = true;
    if (stream->pod)
        carry_leave_pod(stream, code);
    stream_enter(stream, STREAM_PARTING);
    arena_reset(&stream->gateway->words);
    strbuf_init(&frame, &stream->gateway->words, WS_HEADER_MAX + WS_CONTROL_MAX);
    ws_write_close(&frame, code, slice_of(reason), NULL);
    is_sent = !strbuf_failed(&frame) &&
              carry_send(stream->client, &(struct side_part){frame.data, frame.len, false}, 1);
    if (!is_sent || stream->client->has_ended) {
        stream_close(stream, end);
        return;
    }
    side_finish(stream->client);
    stream->part_by_ms = stream_now(stream) + STREAM_PART_MS;
    carry_read(stream->client);
    stream_await(stream);
}

/* Has its call another open stream, one that goes on? */
static bool stream_has_fellow(const struct stream *stream)
{
    if (calls_open(stream->call) == (stream->is_open ? 1 : 0))
        return false;
    LIST_FOR_EACH (link, &stream->gateway->streams) {
        const struct stream *other = stream_of(link);

        if (other != stream && other->call == stream->call && other->is_open && !other->is_ending &&
            !other->has_parted)
            return true;
    }
    return false;
}

void stream_end_call(struct stream *stream, enum stream_end end, const char *reason)
{
    if (stream->is_ending)
        return;
    stream->is_ending = true;
    stream_note_end(stream, end);
    /* One that never had its pod is none of those, and one that ends as well does not go on. */
    if (stream->call && !stream_has_fellow(stream))
        calls_finish(stream->call, reason);
    if (stream->phase == STREAM_CARRIED) {
        stream->part_by_ms = stream_now(stream) + STREAM_PART_MS;
        stream_await(stream);
        return;
    }
    if (stream->wait)
        waits_leave(TAKE(stream->wait), stream->call ? WAIT_GOES_ON : WAIT_HUNG_UP);
    stream_part(stream, end, WS_CLOSE_NORMAL, "");
}

/* Its times. */

static void stream_look_at_times(uv_timer_t *timer);

/* The earlier one; 0 is none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 ? b : b == 0 ? a : min_u64(a, b);
}

void stream_await(struct stream *stream)
{
    uint64_t now_ms = stream_now(stream);
    uint64_t at_ms = stream->active_ms + stream->gateway->settings.idle_timeout_ms;

    if (stream->phase == STREAM_CLOSING)
        return;
    at_ms = earlier(at_ms, stream->part_by_ms);
    at_ms = earlier(at_ms, stream->retry_at_ms);
    if (stream->follow && stream->client->pending == 0 && phase_is_held(stream->phase))
        at_ms = earlier(at_ms, stream->follow->clip_at_ms);
    (void)uv_timer_start(&stream->timer, stream_look_at_times, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

static bool is_due(const struct stream *stream, uint64_t at_ms)
{
    return at_ms > 0 && stream_now(stream) >= at_ms;
}

/* The timer is not moved by every byte: when it fires it looks how long it has really been quiet. */
static void stream_look_at_times(uv_timer_t *timer)
{
    struct stream *stream = timer->data;

    MAGIC_CHECK(stream, STREAM_MAGIC);
    if (is_due(stream, stream->part_by_ms)) {
        stream_close(stream, stream->end);
    } else if (is_due(stream, stream->active_ms + stream->gateway->settings.idle_timeout_ms)) {
        stream_close(stream, STREAM_IDLE);
    } else {
        play_on(stream);
        if (is_due(stream, stream->retry_at_ms))
            rescue_again(stream);
        stream_await(stream);
    }
}

void stream_wake_all(uv_timer_t *timer)
{
    struct gateway *gateway = timer->data;
    struct list now;

    list_init(&now);
    list_move(&now, &gateway->resting);
    while (!list_is_empty(&now)) {
        struct stream *stream = LIST_ENTRY(now.next, struct stream, rest_link);

        list_remove(&stream->rest_link);
        carry_read(stream->client);
    }
}

void stream_retry_all(struct gateway *gateway)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (stream->retry_at_ms > 0)
            rescue_again(stream);
    }
}

/* Beginning. */

static struct stream *stream_new(struct gateway *gateway, const struct stream_names *names)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    int err;

    if (!stream)
        return NULL;
    stream->magic = STREAM_MAGIC;
    stream->gateway = gateway;
    list_init(&stream->link);
    list_init(&stream->rest_link);
    snprintf(stream->call_sid, sizeof(stream->call_sid), "%s", names->call_sid);
    snprintf(stream->provider, sizeof(stream->provider), "%s", names->provider);
    snprintf(stream->merchant_id, sizeof(stream->merchant_id), "%s", names->merchant_id);
    snprintf(stream->request_id, sizeof(stream->request_id), "%s", names->request_id);
    snprintf(stream->traceparent, sizeof(stream->traceparent), "%s",
             names->traceparent ? names->traceparent : "");
    err = uv_timer_init(gateway->loop, &stream->timer);
    assert(err == 0); /* it never fails */
    stream->timer.data = stream;
    stream->handles = 1;
    stream->began_ms = clock_wall_ms();
    stream->started_ms = stream_now(stream);
    stream->active_ms = stream->started_ms;
    stream->client_ms = stream->started_ms;
    return stream;
}

static void stream_freed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;

    MAGIC_CHECK(stream, STREAM_MAGIC);
    stream->magic = 0;
    free(stream);
}

/* It has never begun; its sockets are the caller's again. */
static void stream_discard(struct stream *stream)
{
    if (stream->client)
        side_give_back(stream->client);
    if (stream->pod)
        side_give_back(stream->pod);
    follow_free(stream->follow);
    uv_close((uv_handle_t *)&stream->timer, stream_freed);
}

static void stream_begin(struct stream *stream)
{
    struct gateway *gateway = stream->gateway;

    list_append(&gateway->streams, &stream->link);
    gateway->stream_count++;
    gateway->held_count += phase_is_held(stream->phase);
    stream_count(gateway);
    stream_await(stream);
    depart_soon(gateway);
}

/* Sends what was read ahead, and begins to read. */
static void stream_carry(struct stream *stream, struct slice to_pod, const struct stream_pod *pod)
{
    /* The answer to the handshake is no frame, and goes through unseen. */
    const struct side_part head = {pod->to_client.data, pod->head_len, false};
    struct slice early = {pod->to_client.data + pod->head_len, pod->to_client.len - pod->head_len};

    if (!carry_send(stream->client, &head, 1))
        return;
    if (early.len > 0)
        carry_take(stream->pod, (char *)(uintptr_t)early.data, early.len);
    if (to_pod.len > 0 && stream->phase != STREAM_CLOSING && !stream->client->has_ended)
        carry_take(stream->client, (char *)(uintptr_t)to_pod.data, to_pod.len);
    if (stream->phase == STREAM_CARRIED)
        carry_read(stream->pod);
    if (stream->phase != STREAM_CLOSING)
        carry_read(stream->client);
}

int stream_start(struct gateway *gateway, const struct stream_names *names, uv_tcp_t *client,
                 struct slice to_pod, const struct stream_pod *pod, const struct stream_kept *kept)
{
    struct stream *stream = stream_new(gateway, names);
    int err;

    if (!stream)
        return -ENOMEM;
    /* Without memory for it, or with a header that is too large, it is carried as it is. */
    stream->follow = kept ? follow_new(kept) : NULL;
    err = carry_attach(stream, client, &stream->client);
    if (err == 0)
        err = carry_attach(stream, pod->tcp, &stream->pod);
    if (err < 0) {
        stream_discard(stream);
        return err;
    }
    snprintf(stream->pod_name, sizeof(stream->pod_name), "%s", pod->name);
    stream->call = pod->call;
    stream->is_open = true;
    stream->could_move = stream->follow != NULL;
    stream->carried_ms = stream->started_ms;
    stream_begin(stream);
    metrics_add(gateway->metrics.opened, 1);
    calls_opened(stream->call, stream->could_move);
    stream->resumed = calls_resumed(stream->call);
    log_info("connection opened", log_str("call_sid", stream->call_sid), log_str("pod", stream->pod_name),
             log_str("request_id", stream->request_id), log_str("traceparent", stream->traceparent));
    stream_carry(stream, to_pod, pod);
    return 0;
}

int stream_start_held(struct gateway *gateway, const struct stream_names *names, uv_tcp_t *client,
                      struct slice answer, struct slice early, const struct stream_kept *kept,
                      const struct waiting_call *waiting, enum stream_holding holding)
{
    const struct side_part head = {answer.data, answer.len, false};
    struct stream *stream = stream_new(gateway, names);
    int err = -ENOMEM;

    if (!stream)
        return -ENOMEM;
    stream->phase = STREAM_HELD;
    stream->held_ms = stream->started_ms;
    stream->follow = follow_new(kept);
    if (stream->follow)
        err = carry_attach(stream, client, &stream->client);
    if (err == 0)
        err = waits_join(gateway->waits, waiting, stream, holding == STREAM_IS_NEW, &stream->wait);
    if (err < 0) {
        stream_discard(stream);
        return err;
    }
    follow_lose_pod(stream);
    stream_begin(stream);
    log_info("caller is held: the call waits for a pod", log_str("call_sid", stream->call_sid),
             log_position(waiting), log_str("request_id", stream->request_id),
             log_str("traceparent", stream->traceparent));
    if (!carry_send(stream->client, &head, 1))
        return 0;
    if (early.len > 0)
        carry_take(stream->client, (char *)(uintptr_t)early.data, early.len);
    if (stream->phase != STREAM_CLOSING)
        carry_read(stream->client);
    if (holding == STREAM_IS_GRANTED)
        stream_told_of_wait(stream, WAIT_HAS_CHANGED);
    return 0;
}

/* The streams of a call. */

/* Has the client said that it sends nothing more, or gone? */
static bool stream_client_has_ended(const struct stream *stream)
{
    return stream->phase == STREAM_CLOSING || stream->phase == STREAM_PARTING || stream->client->has_ended;
}

bool stream_has_client(const struct gateway *gateway, const struct held_call *call, const struct stream *but)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        const struct stream *stream = stream_of(link);

        if (stream != but && stream->call == call && !stream_client_has_ended(stream))
            return true;
    }
    return false;
}

/* For how long the client has sent nothing, although it was listened to. UINT64_MAX if it has ended. */
static uint64_t stream_client_silence_ms(const struct stream *stream)
{
    if (stream->client->has_ended)
        return UINT64_MAX;
    /* While the pod does not take what it has, nobody listens to the client. */
    return stream->pod && stream->pod->pending > 0 ? 0 : stream_now(stream) - stream->client_ms;
}

/* How many the call has; *ret_silent of them do not count, *ret_longest has been silent longest. */
static size_t stream_count_of(const struct gateway *gateway, const struct held_call *call, size_t *ret_silent,
                              struct stream **ret_longest)
{
    uint64_t longest_ms = 0;
    size_t count = 0;

    *ret_silent = 0;
    *ret_longest = NULL;
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);
        uint64_t ms;

        if (stream->call != call || stream->phase == STREAM_CLOSING || stream->phase == STREAM_PARTING)
            continue;
        count++;
        ms = stream_client_silence_ms(stream);
        if (ms < GATEWAY_SILENCE_MS || (gateway->secret_count == 0 && !stream_client_has_ended(stream)))
            continue;
        (*ret_silent)++;
        if (ms >= longest_ms) {
            longest_ms = ms;
            *ret_longest = stream;
        }
    }
    return count;
}

bool stream_has_room(const struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct stream *longest;
    size_t silent;
    size_t count = stream_count_of(gateway, call, &silent, &longest);

    return count - silent + openings <= gateway->settings.streams_per_call;
}

void stream_make_room(struct gateway *gateway, const struct held_call *call, size_t openings)
{
    struct stream *longest;
    size_t silent;

    while (stream_count_of(gateway, call, &silent, &longest) + openings >
               gateway->settings.streams_per_call &&
           longest) {
        log_info("connection closed for another one of its call: its client has been silent",
                 log_str("call_sid", longest->call_sid), log_str("pod", longest->pod_name),
                 log_str("request_id", longest->request_id));
        stream_close(longest, STREAM_REPLACED);
    }
}

void stream_cut_all(struct gateway *gateway)
{
    if (gateway->stream_count > 0)
        log_warn("connections cut: the router stops", log_num("connections", (int64_t)gateway->stream_count));
    LIST_FOR_EACH (link, &gateway->streams) {
        stream_close(stream_of(link), STREAM_CUT);
    }
}

void stream_cut_call(struct gateway *gateway, const struct held_call *call)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (stream->call == call && stream->phase == STREAM_DIALING && calls_is_displaced(call))
            rescue_lose_call(stream);
        else if (stream->call == call)
            stream_part(stream, STREAM_OVER, WS_CLOSE_NORMAL, "the call has ended");
    }
}

void stream_move_call(struct gateway *gateway, const struct held_call *call, const char *pod)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (stream->call == call && stream->phase == STREAM_DIALING)
            rescue_dial_anew(stream, pod);
        if (stream->call != call || stream->phase != STREAM_CARRIED || strcmp(stream->pod_name, pod) == 0)
            continue;
        if (rescue_is_possible(stream))
            rescue_follow(stream);
        else
            stream_close(stream, STREAM_OVER);
    }
}

void stream_hold_call(struct gateway *gateway, const struct held_call *call,
                      const struct waiting_call *waiting)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (stream->call == call && stream->phase == STREAM_DIALING)
            rescue_dial_anew(stream, NULL);
        if (stream->call != call || stream->phase != STREAM_CARRIED)
            continue;
        if (rescue_is_possible(stream))
            rescue_hold(stream, waiting);
        else
            stream_close(stream, STREAM_OVER);
    }
}
