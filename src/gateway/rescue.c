/*
 * rescue.c - a stream without a pod: it is held while its call waits, gets a pod, and goes on.
 *
 * The pod broke, or the call was moved, or the call never had one. Whatever it was, the client stays. One
 * dial at a time looks for a pod; while there is none the call waits in line. At the splice the pod gets the
 * client's first messages, as they came, and from then on everything as it comes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/head.h"
#include "gateway/stream_internal.h"

enum {
    LOST_TRIES_MAX = 10,      /* for the store to know a call again that it has lost */
    BREAK_QUICK_MS = 2000,    /* an agent that fails so soon may have failed because of this very call */
    BREAK_AT_ONCE_MS = 250,   /* the same of one that is just gone: agents go for reasons of their own, too */
    BREAKS_AT_ONCE = 3,       /* of such breaks in a row: the next pod is dialled at once */
    BREAK_REST_MS = 250,      /* from then on after a rest, */
    BREAK_REST_MAX_MS = 2000, /* that doubles up to this */
    BREAKS_MAX = 8,           /* and in the end no more: of agents that were mute, or told of a failure */
    BREAKS_QUICK_MAX = 20,    /* the same, with those that were just gone, or did not take the stream */
};

bool rescue_is_possible(const struct stream *stream)
{
    const struct follow *follow = stream->follow;

    return follow && stream->phase == STREAM_CARRIED && !stream->is_ending && !stream->has_parted &&
           !follow->has_lost_start && !passage_is_torn(&follow->from_pod) && !stream->client->has_ended &&
           !stream->client->is_finishing && !calls_is_finished(stream->call) &&
           calls_open(stream->call) == 1 && !stream->gateway->is_stopping;
}

static void rescue_count(struct stream *stream, enum rescue_result result)
{
    if (stream->is_rescue)
        metrics_add(stream->gateway->metrics.rescues[result], 1);
}

/* No pod can be had. The call may come back, as after every break. */
static void rescue_give_up(struct stream *stream, enum rescue_result result, const char *reason)
{
    rescue_count(stream, result);
    log_warn("a stream has lost its pod, and cannot go on", log_str("call_sid", stream->call_sid),
             log_str("pod", stream->pod_name), log_str("reason", reason),
             log_str("request_id", stream->request_id));
    stream_part(stream, STREAM_POD_FAILED,
                ws_close_code_is_valid(stream->pod_code) ? stream->pod_code : WS_CLOSE_ERROR,
                "the agent is gone");
}

/* May its call have this stream, beside those that are open? One that waited is nobody's guest at the pod
 * yet. */
static bool rescue_has_room(const struct stream *stream)
{
    return stream->is_open || stream_has_room(stream->gateway, stream->call, 0);
}

static void rescue_refuse_full(struct stream *stream)
{
    metrics_add(stream->gateway->metrics.refusals[REFUSED_CALL_FULL], 1);
    stream_part(stream, STREAM_REPLACED, WS_CLOSE_TRY_LATER, "the call has too many connections");
}

/* The splice. */

/* The pod has accepted: it gets what the client said at first, and the client what the pod says. */
static void rescue_splice(struct stream *stream, const struct dial_answer *answer)
{
    struct slice kept = strbuf_slice(&stream->follow->kept);
    uint64_t held_ms = stream_now(stream) - stream->held_ms;
    const struct side_part part = {kept.data, kept.len, false};

    rescue_count(stream, stream->has_waited ? RESCUE_WAITED : RESCUE_MOVED);
    log_info(stream->is_rescue ? "stream rescued: it goes on with another pod" : "held stream has its pod",
             log_str("call_sid", stream->call_sid), log_str("pod", answer->pod),
             log_str("from_pod", stream->pod_name), log_num("held_ms", (int64_t)held_ms),
             log_str("request_id", stream->request_id));
    snprintf(stream->pod_name, sizeof(stream->pod_name), "%s", answer->pod);
    if (stream->wait)
        waits_leave(TAKE(stream->wait), WAIT_GOES_ON);
    stream->pod_code = 0;
    stream->lost_tries = 0;
    stream->carried_ms = stream_now(stream);
    stream_enter(stream, STREAM_CARRIED);
    follow_take_pod(stream);
    if (stream->is_open) {
        calls_reopened(stream->call);
    } else {
        stream->is_open = true;
        stream->could_move = true;
        metrics_add(stream->gateway->metrics.opened, 1);
        calls_opened(stream->call, true);
        stream_make_room(stream->gateway, stream->call, 0);
    }
    stream->resumed = calls_resumed(stream->call);
    play_end(stream);
    /* Each step may find out that its socket is broken, and then the stream is somewhere else already. */
    if (stream->phase == STREAM_CARRIED && kept.len > 0 && !carry_send(stream->pod, &part, 1))
        return;
    if (stream->phase == STREAM_CARRIED && answer->early.len > 0)
        carry_take(stream->pod, (char *)(uintptr_t)answer->early.data, answer->early.len);
    if (stream->phase == STREAM_CARRIED)
        carry_read(stream->pod);
    if (stream->phase == STREAM_CARRIED)
        carry_read(stream->client);
}

static void rescue_socket_closed(uv_handle_t *handle)
{
    free(handle);
}

static void rescue_accepted(struct stream *stream, const struct dial_answer *answer)
{
    if (calls_is_finished(stream->call)) {
        uv_close((uv_handle_t *)answer->tcp, rescue_socket_closed);
        rescue_count(stream, RESCUE_ENDED);
        stream_part(stream, STREAM_OVER, WS_CLOSE_NORMAL, "the call has ended");
    } else if (!calls_is_on(stream->call, answer->pod)) {
        /* It was moved while this pod made up its mind: a slot there is another call's by now. */
        uv_close((uv_handle_t *)answer->tcp, rescue_socket_closed);
        rescue_dial(stream, false);
    } else if (!rescue_has_room(stream)) {
        uv_close((uv_handle_t *)answer->tcp, rescue_socket_closed);
        rescue_refuse_full(stream);
    } else if (carry_attach(stream, answer->tcp, &stream->pod) < 0) {
        uv_close((uv_handle_t *)answer->tcp, rescue_socket_closed);
        rescue_give_up(stream, RESCUE_FAILED, "out of memory");
    } else {
        rescue_splice(stream, answer);
    }
}

/* Dialling. */

static void rescue_dial_in(struct stream *stream, bool moves, uint64_t delay_ms)
{
    stream->retry_moves = moves;
    stream->retry_at_ms = stream_now(stream) + delay_ms;
    stream_await(stream);
}

static void rescue_later(struct stream *stream, bool moves)
{
    rescue_dial_in(stream, moves, STREAM_RETRY_MS);
}

/*
 * The store has lost the call, and nothing brings it back to a pod: it is as one that has none yet, and gets
 * the next one that is free.
 */
static void rescue_wait_anew(struct stream *stream)
{
    const struct waiting_call lost = {.call_sid = stream->call_sid,
                                      .merchant_id = stream->merchant_id,
                                      .provider = stream->provider,
                                      .holder = "",
                                      .since_ms = stream->began_ms};

    log_warn("the store does not know a call whose pod broke: it waits for another one",
             log_str("call_sid", stream->call_sid), log_str("request_id", stream->request_id));
    stream->lost_tries = 0;
    rescue_hold(stream, &lost);
}

/* The store does not know the call, and has recorded no end of it: it has lost it. */
static void rescue_unknown(struct stream *stream, bool moves)
{
    if (stream->wait) {
        stream_enter(stream, STREAM_HELD);
        wait_keep(stream->wait); /* brings it back to its place in line */
    } else if (stream->lost_tries++ < LOST_TRIES_MAX) {
        calls_lost(stream->gateway->calls, stream->call_sid); /* brings it back to the pod that it had */
        rescue_later(stream, moves);
    } else {
        rescue_wait_anew(stream);
    }
}

void rescue_lose_call(struct stream *stream)
{
    stream->lost_tries = LOST_TRIES_MAX;
    if (stream->dial)
        dial_cancel(stream->dial); /* its end asks the store once more */
    else
        rescue_dial_in(stream, false, 0);
}

/* A newer stream, here or at another router, has the call. */
static void rescue_replaced(struct stream *stream)
{
    if (stream->wait)
        waits_leave(TAKE(stream->wait), WAIT_GOES_ON);
    rescue_count(stream, RESCUE_ENDED);
    stream_part(stream, STREAM_REPLACED, WS_CLOSE_NORMAL, "the call has another stream");
}

/* Its call has ended; if it has waited for too long, the provider gets another answer afterwards. */
static void rescue_end(struct stream *stream, bool has_timed_out)
{
    rescue_count(stream, RESCUE_ENDED);
    stream_part(stream, has_timed_out ? STREAM_TIMED_OUT : STREAM_OVER, WS_CLOSE_NORMAL,
                has_timed_out ? "no agent was free in time" : "the call has ended");
}

static void rescue_refused(struct stream *stream, const struct dial_answer *answer, bool moves)
{
    switch (answer->reason) {
    case REFUSED_STORE:
    case REFUSED_NO_MEMORY:
    case REFUSED_EXHAUSTED:
        rescue_later(stream, moves);
        break;
    case REFUSED_NO_CALL:
        if (answer->is_unknown) {
            rescue_unknown(stream, moves);
        } else if (answer->is_elsewhere) {
            rescue_replaced(stream);
        } else {
            rescue_end(stream, stream->wait && wait_is_over(stream->wait));
        }
        break;
    case REFUSED_NO_PODS:
        rescue_give_up(stream, RESCUE_NO_PODS, answer->message);
        break;
    default:
        rescue_give_up(stream, RESCUE_FAILED, answer->message);
        break;
    }
}

static void rescue_dialed(void *arg, const struct dial_answer *answer)
{
    struct stream *stream = arg;
    bool moves = stream->retry_moves;

    MAGIC_CHECK(stream, STREAM_MAGIC);
    stream->dial = NULL;
    if (answer->provider[0])
        snprintf(stream->provider, sizeof(stream->provider), "%s", answer->provider);
    if (answer->merchant_id[0])
        snprintf(stream->merchant_id, sizeof(stream->merchant_id), "%s", answer->merchant_id);
    /* A pod that it has waited for is given back if it never gets there. */
    if (answer->was_taken || answer->may_be_taken)
        calls_own(stream->call);
    stream->quick_breaks += answer->refusals;
    if (stream->phase != STREAM_DIALING) {
        if (answer->outcome == DIAL_ACCEPTED)
            uv_close((uv_handle_t *)answer->tcp, rescue_socket_closed);
    } else if (answer->outcome == DIAL_ACCEPTED) {
        rescue_accepted(stream, answer);
    } else if (answer->outcome == DIAL_WAITING) {
        rescue_hold(stream, answer->waiting);
    } else if (answer->outcome == DIAL_CANCELED) {
        rescue_dial(stream, false); /* see rescue_dial_anew */
    } else if (answer->outcome == DIAL_REFUSED) {
        /* A move that was carried out is not repeated: the pod may have another call by now. */
        rescue_refused(stream, answer, moves && strcmp(answer->pod, stream->pod_name) == 0);
    }
    stream_lost_handle(stream);
}

static void rescue_write_head(void *arg, const struct dial_answer *found, struct strbuf *buf)
{
    const struct stream *stream = arg;
    struct slice head = strbuf_slice(&stream->follow->head);
    const struct head_call call = {.call_sid = stream->call_sid,
                                   .merchant_id = found->merchant_id,
                                   .subprotocols = slice_of(stream->follow->subprotocol),
                                   .resumed = calls_resumed(stream->call)};

    strbuf_append(buf, head.data, head.len);
    head_end_request(&call, buf);
}

void rescue_dial(struct stream *stream, bool moves)
{
    struct gateway *gateway = stream->gateway;
    struct dial_order order = {
        .gateway = gateway,
        .call_sid = stream->call_sid,
        .request_id = stream->request_id,
        .write_head = rescue_write_head,
        .done = rescue_dialed,
        .arg = stream,
        .can_wait = true,
        .stream = stream,
        .key = stream->follow->key,
        .subprotocol = stream->follow->subprotocol,
        .from_pod = moves ? stream->pod_name : NULL,
        .aside_ms = stream->aside_ms,
        .is_rescue = stream->is_rescue,
    };

    assert(stream->phase == STREAM_DIALING && !stream->dial);
    /* -EALREADY: it is being released, or was a moment ago; the store says how that ended. */
    if (!stream->call && calls_hold(gateway->calls, stream->call_sid, &stream->call) < 0) {
        rescue_later(stream, moves);
        return;
    }
    if (!rescue_has_room(stream)) {
        rescue_refuse_full(stream);
        return;
    }
    if (stream->resumed > 0)
        calls_recall(stream->call, stream->resumed);
    if (stream->wait)
        order.standing = wait_standing(stream->wait);
    order.call = stream->call;
    stream->retry_moves = moves;
    if (dial_start(&order, &stream->dial) < 0)
        rescue_later(stream, moves);
    else
        stream->handles++;
}

void rescue_dial_anew(struct stream *stream, const char *pod)
{
    if (stream->dial && dial_is_past(stream->dial, pod))
        dial_cancel(stream->dial);
}

void rescue_again(struct stream *stream)
{
    stream->retry_at_ms = 0;
    if (stream->phase == STREAM_DIALING && !stream->dial)
        rescue_dial(stream, stream->retry_moves);
}

/* How long the next pod is spared. */
static uint64_t rescue_rest_ms(const struct stream *stream)
{
    uint64_t rest_ms = BREAK_REST_MS;

    if (stream->quick_breaks <= BREAKS_AT_ONCE)
        return 0;
    for (unsigned i = BREAKS_AT_ONCE + 1; i < stream->quick_breaks && rest_ms < BREAK_REST_MAX_MS; i++)
        rest_ms *= 2;
    return min_u64(rest_ms, BREAK_REST_MAX_MS);
}

/* The next pod, unless there were too many: at once, or after a rest. */
static void rescue_dial_next(struct stream *stream, bool moves)
{
    uint64_t rest_ms = rescue_rest_ms(stream);

    if (stream->breaks > BREAKS_MAX || stream->quick_breaks > BREAKS_QUICK_MAX) {
        if (stream->wait)
            waits_leave(TAKE(stream->wait), WAIT_BROKE_OFF);
        rescue_give_up(stream, RESCUE_FAILED, "one pod after the other has failed");
    } else if (rest_ms > 0) {
        rescue_dial_in(stream, moves, rest_ms);
    } else {
        rescue_dial(stream, moves);
    }
}

/* Losing the pod. */

static void rescue_lose_pod(struct stream *stream, int code)
{
    stream->held_ms = stream_now(stream);
    stream->is_rescue = true;
    stream->has_waited = false;
    if (stream->broke_ms == 0)
        stream->broke_ms = stream->held_ms;
    carry_leave_pod(stream, code);
    follow_lose_pod(stream);
    stream_enter(stream, STREAM_DIALING);
    carry_read(stream->client);
}

/*
 * A call whose words make every agent fail would go round all pods as fast as they can fail. So quick breaks
 * are counted: of pods that have not said a word yet, that tell of a failure right away, or that have just
 * got the call.
 */
static void rescue_count_break(struct stream *stream, bool is_gone)
{
    bool was_mute = stream->broke_ms > 0;
    uint64_t carried_for_ms = stream_now(stream) - stream->carried_ms;
    bool was_quick = carried_for_ms < (is_gone ? BREAK_AT_ONCE_MS : BREAK_QUICK_MS);

    stream->breaks = was_mute || (was_quick && !is_gone) ? stream->breaks + 1 : 0;
    stream->quick_breaks = was_mute || was_quick ? stream->quick_breaks + 1 : 0;
}

void rescue_begin(struct stream *stream, int code)
{
    /* A server that goes away or restarts says 1001 or 1012; one that is gone says nothing. */
    bool is_gone = code == 0 || code == WS_CLOSE_GOING_AWAY || code == WS_CLOSE_RESTART;

    rescue_count_break(stream, is_gone);
    log_warn("a pod broke its stream: the caller is kept, and another pod is looked for",
             log_str("call_sid", stream->call_sid), log_str("pod", stream->pod_name),
             log_num("code", code == 0 ? WS_CLOSE_ABNORMAL : code),
             log_str("request_id", stream->request_id));
    stream->aside_ms = is_gone ? GATEWAY_BREAK_ASIDE_MS : 0;
    rescue_lose_pod(stream, code);
    if (code == 0)
        probe_start(stream->gateway, stream->pod_name);
    if (stream->phase != STREAM_DIALING)
        return;
    play_begin(stream);
    if (stream->phase != STREAM_DIALING)
        return;
    rescue_dial_next(stream, true);
}

void rescue_follow(struct stream *stream)
{
    log_info("call is on another pod: its stream follows", log_str("call_sid", stream->call_sid),
             log_str("from_pod", stream->pod_name), log_str("request_id", stream->request_id));
    rescue_lose_pod(stream, WS_CLOSE_GOING_AWAY);
    if (stream->phase != STREAM_DIALING)
        return;
    play_begin(stream);
    if (stream->phase == STREAM_DIALING)
        rescue_dial(stream, false);
}

/* Holding. */

void rescue_hold(struct stream *stream, const struct waiting_call *waiting)
{
    int err = 0;

    if (stream->phase == STREAM_CARRIED)
        rescue_lose_pod(stream, WS_CLOSE_GOING_AWAY);
    if (stream->phase != STREAM_DIALING)
        return;
    if (stream->wait)
        wait_update(stream->wait, waiting);
    else
        err = waits_join(stream->gateway->waits, waiting, stream, false, &stream->wait);
    if (err < 0) {
        rescue_give_up(stream, RESCUE_FAILED, "out of memory");
        return;
    }
    if (stream->call)
        calls_drop(
            TAKE(stream->call),
            (struct call_drop){.was_open = stream->is_open, .could_move = stream->could_move, .waits = true});
    stream->is_open = false;
    stream->has_waited = true;
    stream_enter(stream, STREAM_HELD);
    wait_keep(stream->wait); /* it may have been granted a pod since the store gave that answer */
    log_info("caller is held: the call waits for a pod", log_str("call_sid", stream->call_sid),
             log_position(waiting), log_str("request_id", stream->request_id));
    play_begin(stream);
}

void stream_told_of_wait(void *owner, enum wait_news news)
{
    struct stream *stream = owner;

    MAGIC_CHECK(stream, STREAM_MAGIC);
    switch (news) {
    case WAIT_HAS_CHANGED:
        if (stream->phase != STREAM_HELD)
            return;
        stream_enter(stream, STREAM_DIALING);
        rescue_dial_next(stream, false);
        break;
    case WAIT_IS_OVER:
    case WAIT_HAS_ENDED:
        if (stream->phase != STREAM_HELD)
            return; /* the dial that is under way says what is true */
        rescue_end(stream, news == WAIT_IS_OVER || wait_is_over(stream->wait));
        break;
    case WAIT_IS_ELSEWHERE:
        stream->wait = NULL;
        /* What this one was told, the other one has not heard: the call may have a pod. */
        if (stream->phase == STREAM_DIALING)
            waits_changed(stream->gateway->waits, stream->call_sid);
        rescue_replaced(stream);
        break;
    }
}

void rescue_lost_client(struct stream *stream)
{
    rescue_count(stream, RESCUE_ENDED);
    /* With a call in hand, that is looked after as after every break; else the wait is. */
    if (stream->wait)
        waits_leave(TAKE(stream->wait), stream->call ? WAIT_GOES_ON : WAIT_BROKE_OFF);
    stream_close(stream, STREAM_CLOSED_BY_CLIENT);
}
