/*
 * dial.c - finds the pod of a call, connects to it, and does the handshake.
 *
 * A dial waits for one thing at a time: its phase says for which. It does not end while the store or a
 * connection attempt still has to come back to it.
 */
#include "gateway/dial.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "gateway/head.h"
#include "ws/handshake.h"

enum {
    DIAL_MAGIC = 0x6469616c,
    DIAL_ARENA_MAX = 1024 * 1024,
    ANSWER_PATIENCE = 5, /* times the connect timeout, for the pod to answer */
    ANSWER_STEP = 2048,  /* room for one read of the answer */
    ANSWER_MAX = HEAD_ANSWER_MAX + 2 * ANSWER_STEP,
    POD_ANSWER_MAX = 64, /* of a refusal's first line, in the log */
};

/* All that a client learns of a pod that does not agree; the log has the rest. */
#define NOT_ACCEPTED "the pod did not accept the connection"
#define CALL_ENDED "the call has ended"

/* What a dial waits for. dial_enter changes it. */
enum dial_phase {
    DIAL_BEGINNING,  /* nothing: dial_start is still running */
    DIAL_ASKING,     /* an answer of the store */
    DIAL_CONNECTING, /* a connection to the pod */
    DIAL_GREETING,   /* the pod's answer to the handshake */
    DIAL_ENDED,      /* its timer to be closed; the answer is known */
    DIAL_PHASES,
};

struct dial {
    unsigned magic;
    enum dial_phase phase;
    struct dial_order order;
    struct dial_answer answer;
    struct ask ask;
    struct arena arena;            /* for all that is not fixed in size */
    struct connecting *connecting; /* while DIAL_CONNECTING */
    uv_tcp_t *pod_tcp;             /* while DIAL_GREETING; else NULL */
    uv_timer_t timer;              /* for the pod's answer */
    struct strbuf said;            /* by the pod, so far */
    bool is_canceled;
    bool has_broken;        /* the pod that the call is moved away from is not out of reach */
    enum pod_source source; /* of the pod that has the call */
    unsigned moves;
    char pod[POD_NAME_MAX + 1]; /* the one that has the call */
    char address[ADDRESS_MAX + 1];
    char pod_answer[POD_ANSWER_MAX + 1];
};

/* Each phase, and the phases that may follow it. */
static void dial_enter(struct dial *dial, enum dial_phase phase)
{
    static const unsigned may_follow[DIAL_PHASES] = {
        [DIAL_BEGINNING] = 1U << DIAL_ASKING | 1U << DIAL_ENDED,
        [DIAL_ASKING] = 1U << DIAL_ASKING | 1U << DIAL_CONNECTING | 1U << DIAL_ENDED,
        [DIAL_CONNECTING] = 1U << DIAL_ASKING | 1U << DIAL_GREETING | 1U << DIAL_ENDED,
        [DIAL_GREETING] = 1U << DIAL_ASKING | 1U << DIAL_ENDED,
    };

    MAGIC_CHECK(dial, DIAL_MAGIC);
    assert(may_follow[dial->phase] & 1U << phase);
    dial->phase = phase;
}

/* At the beginning of every callback: it comes in the phase that waits for it. */
static void dial_check(const struct dial *dial, enum dial_phase phase)
{
    MAGIC_CHECK(dial, DIAL_MAGIC);
    assert(dial->phase == phase);
}

static void dial_socket_closed(uv_handle_t *handle)
{
    free(handle);
}

static void dial_drop_pod(struct dial *dial)
{
    if (dial->pod_tcp)
        uv_close((uv_handle_t *)TAKE(dial->pod_tcp), dial_socket_closed);
}

static void dial_closed(uv_handle_t *handle)
{
    struct dial *dial = handle->data;

    dial_check(dial, DIAL_ENDED);
    dial->answer.pod = dial->pod;
    dial->answer.pod_answer = dial->pod_answer;
    dial->order.done(dial->order.arg, &dial->answer);
    arena_release(&dial->arena);
    dial->magic = 0;
    free(dial);
}

static void dial_end(struct dial *dial, enum dial_outcome outcome)
{
    dial_enter(dial, DIAL_ENDED);
    dial->answer.outcome = outcome;
    if (outcome != DIAL_ACCEPTED)
        dial_drop_pod(dial);
    uv_close((uv_handle_t *)&dial->timer, dial_closed);
}

static void dial_refuse(struct dial *dial, int status, enum stream_refusal reason, const char *message)
{
    dial->answer.status = status;
    dial->answer.reason = reason;
    dial->answer.message = message;
    dial_end(dial, DIAL_REFUSED);
}

/* True: the dial was to end as soon as something came back, and has ended. */
static bool dial_is_ending(struct dial *dial)
{
    if (dial->is_canceled)
        dial_end(dial, DIAL_CANCELED);
    return dial->is_canceled;
}

static void dial_refuse_store(struct dial *dial, int err)
{
    log_error("a stream cannot be connected: the store cannot answer",
              log_str("call_sid", dial->order.call_sid), log_str("cause", store_error_text(err)),
              log_str("request_id", dial->order.request_id));
    dial_refuse(dial, 503, REFUSED_STORE, "the store is out of reach");
}

/* The store has answered: true if the dial cannot go on, and has ended. */
static bool dial_has_failed(struct dial *dial, int err)
{
    dial_check(dial, DIAL_ASKING);
    if (dial_is_ending(dial))
        return true;
    if (err < 0)
        dial_refuse_store(dial, err);
    return err < 0;
}

/* False: it cannot be asked, and the dial has ended. */
static bool dial_ask(struct dial *dial, const struct command *command, store_done_fn done)
{
    int err = ask_store(&dial->order.gateway->asker, &dial->ask, command, &dial->arena, done, dial);

    if (err < 0)
        dial_refuse_store(dial, err);
    else
        dial_enter(dial, DIAL_ASKING);
    return err == 0;
}

/* The handshake. */

static void dial_leave_pod(struct dial *dial, bool has_broken);

/*
 * The pod has not accepted. Its answer goes only to the log: a client that may register pods must
 * not be able to read the answers of other services through the router.
 */
static void dial_refuse_by_pod(struct dial *dial, int status, enum stream_refusal reason, const char *message)
{
    if (!dial->order.stream) {
        dial_refuse(dial, status, reason, message);
        return;
    }
    /* Nobody can be told, and the caller is there: another pod may accept it. */
    log_warn("a pod did not accept a stream that goes on", log_str("pod", dial->pod),
             log_str("reason", stream_refusal_name(reason)), log_str("call_sid", dial->order.call_sid),
             log_str("pod_answer", dial->pod_answer[0] ? dial->pod_answer : NULL));
    dial_leave_pod(dial, reason == REFUSED_BY_POD);
}

/* The client of a stream has agreed to something before: does this pod agree to the same? */
static bool dial_is_agreed(const struct dial *dial, struct slice head)
{
    struct slice accept = head_find(head, "sec-websocket-accept");
    struct slice subprotocol = head_find(head, "sec-websocket-protocol");
    char expected[WS_ACCEPT_LEN + 1];

    ws_accept_key(slice_of(dial->order.key), expected);
    return accept.data && slice_equals(accept, expected) &&
           slice_equals(subprotocol.data ? subprotocol : SLICE(""), dial->order.subprotocol) &&
           !head_find(head, "sec-websocket-extensions").data;
}

static void dial_accept(struct dial *dial, size_t head_len)
{
    struct slice said = strbuf_slice(&dial->said);

    if (dial->order.stream && !dial_is_agreed(dial, (struct slice){said.data, head_len})) {
        log_warn("a pod does not agree to what the client has agreed to: it cannot go on with its stream",
                 log_str("pod", dial->pod), log_str("call_sid", dial->order.call_sid),
                 log_str("subprotocol", dial->order.subprotocol));
        dial_leave_pod(dial, true);
        return;
    }
    (void)uv_timer_stop(&dial->timer);
    (void)uv_read_stop((uv_stream_t *)dial->pod_tcp);
    dial->answer.head = (struct slice){said.data, head_len};
    dial->answer.early = (struct slice){said.data + head_len, said.len - head_len};
    dial->answer.tcp = TAKE(dial->pod_tcp);
    dial_end(dial, DIAL_ACCEPTED);
}

/* Looks at what has come of the answer so far. */
static void dial_look(struct dial *dial, bool is_end)
{
    struct head_answer answer;
    int some = head_read_answer(strbuf_slice(&dial->said), &answer);

    if (some > 0 && answer.status == 101) {
        dial_accept(dial, answer.len);
    } else if (some > 0) {
        snprintf(dial->pod_answer, sizeof(dial->pod_answer), "%.*s",
                 (int)min_u64(answer.said.len, POD_ANSWER_MAX), answer.said.data);
        dial_refuse_by_pod(dial, 502, REFUSED_BY_POD, NOT_ACCEPTED);
    } else if (some < 0 || is_end) {
        dial_refuse_by_pod(dial, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
    }
}

static void dial_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct dial *dial = handle->data;
    char *room;

    dial_check(dial, DIAL_GREETING);
    room = strbuf_grow(&dial->said, ANSWER_STEP);

    *ret_buf = uv_buf_init(room, room ? ANSWER_STEP : 0);
}

static void dial_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf UNUSED)
{
    struct dial *dial = stream->data;

    dial_check(dial, DIAL_GREETING);
    if (count == 0)
        return;
    if (count > 0)
        dial->said.len += (size_t)count;
    if (count == UV_ENOBUFS)
        dial_refuse_by_pod(dial, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
    else
        dial_look(dial, count < 0);
}

static void dial_not_answered(uv_timer_t *timer)
{
    struct dial *dial = timer->data;

    dial_check(dial, DIAL_GREETING);
    dial_refuse_by_pod(dial, 504, REFUSED_NO_ANSWER, "the pod does not answer");
}

/* Connected: asks the pod what the client asked us. */
static void dial_greet(struct dial *dial)
{
    uv_stream_t *stream = (uv_stream_t *)dial->pod_tcp;
    struct strbuf head;
    uv_buf_t buf;

    strbuf_init(&head, &dial->arena, HEAD_REQUEST_MAX);
    strbuf_init(&dial->said, &dial->arena, ANSWER_MAX);
    dial->order.write_head(dial->order.arg, &dial->answer, &head);
    if (strbuf_failed(&head)) {
        dial_refuse(dial, 431, REFUSED_REQUEST, "header too large");
        return;
    }
    dial->pod_tcp->data = dial;
    (void)uv_tcp_nodelay(dial->pod_tcp, 1);
    buf = uv_buf_init(head.data, (unsigned)head.len);
    /* A fresh socket's buffer has room for every header that was accepted. */
    if (uv_try_write(stream, &buf, 1) != (int)head.len || uv_read_start(stream, dial_alloc, dial_read)) {
        dial_refuse_by_pod(dial, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
        return;
    }
    (void)uv_timer_start(&dial->timer, dial_not_answered,
                         dial->order.gateway->settings.connect_timeout_ms * ANSWER_PATIENCE, 0);
}

/* Finding the pod, and connecting to it. */

static void dial_connect(struct dial *dial);

/* Where the call is, and whose it is. */
static void dial_found(struct dial *dial, const struct call_info *call)
{
    dial->source = call->pod_source;
    dial->answer.merchant_id = call->merchant_id;
    dial->answer.provider = call->provider;
    snprintf(dial->pod, sizeof(dial->pod), "%s", call->pod);
    snprintf(dial->address, sizeof(dial->address), "%s", call->address);
}

static void dial_wait(struct dial *dial, const struct waiting_call *waiting)
{
    if (!dial->order.can_wait) {
        dial_refuse(dial, 503, REFUSED_NO_PODS, "the call waits for a pod");
        return;
    }
    dial->answer.waiting = waiting;
    dial_end(dial, DIAL_WAITING);
}

/* It came out of the line. */
static void dial_taken(struct dial *dial, const struct result *result)
{
    dial->answer.was_taken = true;
    dial->answer.waited_ms = result->hold.waited_ms;
    /* The wait of a rescued call begins with its first pod, which says nothing of how long its caller waited.
     */
    if (!dial->order.is_rescue)
        metrics_observe(dial->order.gateway->metrics.granted, (double)result->hold.waited_ms / 1000);
    log_info("waiting call has a pod", log_str("call_sid", dial->order.call_sid),
             log_str("pod", result->hold.call.pod), log_str("pool", result->hold.call.pool),
             log_num("waited_ms", (int64_t)result->hold.waited_ms),
             log_str("request_id", dial->order.request_id));
}

/* The store knows that we carry the call, and says where it is: it may have moved since its URL was made. */
static void dial_held(void *arg, int err, const struct result *result)
{
    struct dial *dial = arg;

    /* Whatever comes next: it is ours now. */
    if (err == 0 && result->outcome == OUTCOME_OK && result->hold.was_taken)
        dial_taken(dial, result);
    if (err < 0)
        dial->answer.may_be_taken = true;
    if (dial_has_failed(dial, err))
        return;
    if (result->outcome == OUTCOME_OK) {
        calls_found(dial->order.call, &result->hold.call, result->hold.was_connected);
        dial_found(dial, &result->hold.call);
        dial_connect(dial);
    } else if (result->outcome == OUTCOME_WAITING) {
        dial_wait(dial, &result->hold.waiting);
    } else {
        dial->answer.is_unknown = result->outcome == OUTCOME_NOT_FOUND && !result->hold.has_ended;
        dial->answer.is_elsewhere = result->outcome == OUTCOME_CONFLICT;
        dial_refuse(dial, 409, REFUSED_NO_CALL, CALL_ENDED);
    }
}

static void dial_hold(struct dial *dial)
{
    struct command command = calls_hold_command(dial->order.call);

    command.hold.is_held = dial->order.standing.is_held;
    command.hold.is_new = dial->order.standing.is_new;
    command.hold.claim = dial->order.standing.claim;
    if (dial_ask(dial, &command, dial_held))
        calls_hold_asked(dial->order.call);
}

/* How long the pod that the call is moved away from gets no new call; 0: it only loses this one. */
static uint64_t dial_aside_ms(const struct dial *dial)
{
    bool is_first = dial->order.from_pod && dial->moves == 0;

    return is_first ? dial->order.aside_ms : dial->has_broken ? 0 : GATEWAY_ASIDE_MS;
}

static void dial_moved(void *arg, int err, const struct result *result)
{
    struct dial *dial = arg;
    struct gateway *gateway = dial->order.gateway;

    if (dial_has_failed(dial, err))
        return;
    switch (result->outcome) {
    case OUTCOME_OK:
        if (result->move.was_moved) {
            metrics_add(gateway->metrics.moves[0], 1);
            log_warn(dial->has_broken ? "call moved: its pod broke its stream"
                                      : "call moved: its pod cannot be reached and is put aside",
                     log_str("call_sid", dial->order.call_sid), log_str("from_pod", dial->pod),
                     log_str("pod", result->move.call.pod), log_str("pool", result->move.call.pool),
                     log_num("aside_ms", (int64_t)dial_aside_ms(dial)),
                     log_str("request_id", dial->order.request_id));
        }
        calls_moved(dial->order.call, result->move.call.pod);
        dial_hold(dial); /* a move gives it the lease of a call that nobody is about to open */
        break;
    case OUTCOME_NO_PODS:
        metrics_add(gateway->metrics.moves[1], 1);
        dial_refuse(dial, 503, REFUSED_NO_PODS, "the pod cannot be reached, and no other is free");
        break;
    case OUTCOME_WAITING:
        dial_wait(dial, &result->move.waiting);
        break;
    case OUTCOME_NOT_FOUND:
        dial_hold(dial); /* says whether it has ended, or is merely lost */
        break;
    case OUTCOME_INVALID:
    case OUTCOME_CONFLICT:
    case OUTCOME_FORBIDDEN:
        dial_refuse(dial, 409, REFUSED_NO_CALL, CALL_ENDED);
        break;
    }
}

/* The call has open streams: if it was another handshake that moved it meanwhile, this one follows. */
static void dial_looked_again(void *arg, int err, const struct result *result)
{
    struct dial *dial = arg;

    if (dial_has_failed(dial, err))
        return;
    if (result->outcome != OUTCOME_OK) {
        dial_refuse(dial, 409, REFUSED_NO_CALL, CALL_ENDED);
    } else if (strcmp(result->call.call.pod, dial->pod) == 0) {
        /* A pod that carries this very call cannot be gone, and its other streams would stay behind. */
        dial_refuse(dial, 502, REFUSED_UNREACHABLE, "the pod takes no more connections");
    } else {
        calls_moved(dial->order.call, result->call.call.pod);
        dial_found(dial, &result->call.call);
        dial_connect(dial);
    }
}

static void dial_move(struct dial *dial)
{
    const struct command move = {
        .type = COMMAND_MOVE_CALL,
        .move = {.call_sid = dial->order.call_sid,
                 .from_pod = dial->pod,
                 .aside_ms = dial_aside_ms(dial),
                 .spares_pod = dial_aside_ms(dial) == 0,
                 .carrier = dial->order.can_wait ? dial->order.gateway->settings.identity : NULL}};
    const struct command look = {.type = COMMAND_CALL, .call = {.call_sid = dial->order.call_sid}};

    if (dial->moves > DIAL_MOVES_MAX)
        dial_refuse(dial, 503, REFUSED_UNREACHABLE, "no pod can be reached");
    else if (stream_has_client(dial->order.gateway, dial->order.call, dial->order.stream))
        (void)dial_ask(dial, &look, dial_looked_again);
    else
        (void)dial_ask(dial, &move, dial_moved);
}

/* The pod is there, but cannot have the stream. */
static void dial_leave_pod(struct dial *dial, bool has_broken)
{
    (void)uv_timer_stop(&dial->timer);
    dial_drop_pod(dial);
    dial->has_broken = has_broken;
    dial->answer.refusals++;
    dial->moves++;
    dial_move(dial);
}

static void dial_connected(void *arg, int err, uv_tcp_t *tcp)
{
    struct dial *dial = arg;

    dial_check(dial, DIAL_CONNECTING);
    dial->connecting = NULL;
    dial->pod_tcp = tcp;
    if (dial_is_ending(dial))
        return;
    if (err == 0) {
        dial_enter(dial, DIAL_GREETING);
        dial_greet(dial);
        return;
    }
    if (connect_failed_here(err)) {
        log_error("no pod can be reached: the router has run out of descriptors, ports, memory or lookups",
                  log_str("error", uv_strerror(err)), log_str("pod", dial->pod),
                  log_str("call_sid", dial->order.call_sid));
        dial_refuse(dial, 503, REFUSED_EXHAUSTED, "the router cannot open another connection");
        return;
    }
    gateway_count_failure(dial->order.gateway, err);
    log_warn(err == -EACCES ? "a pod cannot be reached: its address is not allowed"
                            : "a pod cannot be reached",
             log_str("pod", dial->pod), log_str("address", dial->address), log_str("error", uv_strerror(err)),
             log_str("call_sid", dial->order.call_sid), log_str("request_id", dial->order.request_id));
    dial->has_broken = false;
    dial->moves++;
    dial_move(dial);
}

static void dial_connect(struct dial *dial)
{
    const struct connect_target target = gateway_target(dial->order.gateway, dial->address, dial->source);
    int err;

    if (!dial->address[0]) {
        dial_refuse(dial, 502, REFUSED_NO_ADDRESS, "the pod has no address");
        return;
    }
    err = connect_start(dial->order.gateway->loop, &target, dial_connected, dial, &dial->connecting);
    if (err < 0)
        dial_refuse(dial, err == -ENOMEM ? 503 : 502, err == -ENOMEM ? REFUSED_NO_MEMORY : REFUSED_NO_ADDRESS,
                    err == -ENOMEM ? "out of memory" : "the pod's address cannot be used");
    else
        dial_enter(dial, DIAL_CONNECTING);
}

bool dial_is_past(const struct dial *dial, const char *pod)
{
    MAGIC_CHECK(dial, DIAL_MAGIC);
    return dial->phase != DIAL_BEGINNING && dial->phase != DIAL_ASKING &&
           (!pod || strcmp(dial->pod, pod) != 0);
}

void dial_cancel(struct dial *dial)
{
    MAGIC_CHECK(dial, DIAL_MAGIC);
    dial->is_canceled = true;
    switch (dial->phase) {
    case DIAL_CONNECTING:
        connect_cancel(dial->connecting); /* its end comes back with -ECANCELED */
        break;
    case DIAL_GREETING:
        (void)dial_is_ending(dial);
        break;
    case DIAL_ENDED: /* a pod that has accepted is left again */
        dial->pod_tcp = TAKE(dial->answer.tcp);
        dial_drop_pod(dial);
        dial->answer.outcome = DIAL_CANCELED;
        break;
    case DIAL_BEGINNING:
    case DIAL_ASKING: /* the answer ends it */
    case DIAL_PHASES:
        break;
    }
}

int dial_start(const struct dial_order *order, struct dial **ret_dial)
{
    struct dial *dial = calloc(1, sizeof(*dial));
    int err;

    if (!dial)
        return -ENOMEM;
    dial->magic = DIAL_MAGIC;
    dial->order = *order;
    dial->answer.merchant_id = "";
    dial->answer.provider = "";
    arena_init(&dial->arena, DIAL_ARENA_MAX);
    err = uv_timer_init(order->gateway->loop, &dial->timer);
    assert(err == 0); /* it never fails */
    dial->timer.data = dial;
    *ret_dial = dial;
    if (order->from_pod) {
        snprintf(dial->pod, sizeof(dial->pod), "%s", order->from_pod);
        dial->has_broken = true;
        dial_move(dial);
    } else {
        dial_hold(dial);
    }
    return 0;
}
