/*
 * opening.c - one handshake: finds the call and its pod, connects to the pod, and asks it to
 * accept.
 *
 * The client's request stays unanswered until the pod has accepted or refused. So a call can move
 * to another pod meanwhile, and every refusal is an ordinary answer. An opening waits for one thing
 * at a time: its phase says for which. It does not end while the store or a connection attempt
 * still has to come back to it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/log_text.h"
#include "base/slice.h"
#include "gateway/gateway_internal.h"
#include "gateway/head.h"
#include "gateway/ticket.h"

enum {
    OPENING_MAGIC = 0x6f70656e,
    MOVES_MAX = 3,       /* pods that may turn out to be out of reach for one client */
    ANSWER_PATIENCE = 5, /* times the connect timeout, for the pod to answer */
    ANSWER_STEP = 2048,  /* room for one read of the answer */
    ANSWER_MAX = HEAD_ANSWER_MAX + 2 * ANSWER_STEP,
    POD_ANSWER_MAX = 64, /* of a refusal's first line, in the log */
};

/* All that a client learns of a pod that does not agree; the log has the rest. */
#define NOT_ACCEPTED "the pod did not accept the connection"
#define CLIENT_GONE "the client has gone"
#define CALL_FULL "the call has too many connections"

/* What an opening waits for. opening_enter changes it. */
enum opening_phase {
    OPENING_BEGINNING,  /* nothing: its function is still running */
    OPENING_ASKING,     /* an answer of the store */
    OPENING_CONNECTING, /* a connection to the pod */
    OPENING_GREETING,   /* the pod's answer to the handshake */
    OPENING_ENDED,      /* its timer to be closed; the request was answered or handed over */
    OPENING_PHASES,
};

struct opening {
    unsigned magic;
    enum opening_phase phase;
    struct gateway *gateway;
    struct http_request *request;
    struct list link;
    struct slice path; /* what the pod is asked for */
    struct held_call *call;
    struct ask ask;
    struct connecting *connecting; /* while OPENING_CONNECTING */
    uv_tcp_t *pod_tcp;             /* while OPENING_GREETING; else NULL */
    uv_timer_t timer;              /* for the pod's answer */
    struct strbuf answer;          /* in the request's arena, as all that is not fixed in size */
    bool is_aborted;
    bool is_forsaken;       /* its client has gone, and another one of the call needs its place */
    enum pod_source source; /* of the pod that has the call */
    unsigned moves;
    char call_sid[CALL_SID_MAX + 1];
    const char *merchant_id;        /* in the request's arena; "": none */
    char url_pod[POD_NAME_MAX + 1]; /* the one that the URL names */
    char pod[POD_NAME_MAX + 1];     /* the one that has the call */
    char address[ADDRESS_MAX + 1];
    char pod_answer[POD_ANSWER_MAX + 1]; /* "": it has not refused */
};

struct opening *opening_of(struct list *link)
{
    return LIST_ENTRY(link, struct opening, link);
}

/* Each phase, and the phases that may follow it. */
static void opening_enter(struct opening *opening, enum opening_phase phase)
{
    static const unsigned may_follow[OPENING_PHASES] = {
        [OPENING_BEGINNING] = 1U << OPENING_ASKING | 1U << OPENING_ENDED,
        [OPENING_ASKING] = 1U << OPENING_ASKING | 1U << OPENING_CONNECTING | 1U << OPENING_ENDED,
        [OPENING_CONNECTING] = 1U << OPENING_ASKING | 1U << OPENING_GREETING | 1U << OPENING_ENDED,
        [OPENING_GREETING] = 1U << OPENING_ENDED,
    };

    MAGIC_CHECK(opening, OPENING_MAGIC);
    assert(may_follow[opening->phase] & 1U << phase);
    opening->phase = phase;
}

/* At the beginning of every callback: it comes in the phase that waits for it. */
static void opening_check(const struct opening *opening, enum opening_phase phase)
{
    MAGIC_CHECK(opening, OPENING_MAGIC);
    assert(opening->phase == phase);
}

static void opening_freed(uv_handle_t *handle)
{
    struct opening *opening = handle->data;
    struct gateway *gateway = opening->gateway;

    opening_check(opening, OPENING_ENDED);
    gateway->opening_count--;
    opening->magic = 0;
    free(opening);
    gateway_lost_one(gateway);
}

static void opening_socket_closed(uv_handle_t *handle)
{
    free(handle);
}

static void opening_drop_pod(struct opening *opening)
{
    if (opening->pod_tcp)
        uv_close((uv_handle_t *)TAKE(opening->pod_tcp), opening_socket_closed);
}

/* The request has been answered or handed over. */
static void opening_end(struct opening *opening)
{
    opening_enter(opening, OPENING_ENDED);
    opening_drop_pod(opening);
    if (opening->call)
        calls_drop(TAKE(opening->call), false);
    list_remove(&opening->link);
    uv_close((uv_handle_t *)&opening->timer, opening_freed);
}

static void log_refusal(const struct gateway *gateway UNUSED, struct http_request *request,
                        const struct opening *opening, int status, enum stream_refusal reason,
                        const char *message)
{
    const char *pod = !opening          ? http_request_param(request, "pod")
                      : opening->pod[0] ? opening->pod
                                        : opening->url_pod;
    char pod_text[LOG_CUT_SIZE];

    /* Anybody can come without a good ticket; a 5xx of an opening is about a call that is there. */
    if ((status < 500 || !opening) && !log_limit_passes(LOG_OF_GATEWAY, LOG_INFO))
        return;
    LOG_AT(status >= 500 ? LOG_WARN : LOG_INFO, "connection refused", log_str("error", message),
           log_str("reason", stream_refusal_name(reason)), log_num("status", status),
           log_str("pod", log_cut(pod_text, slice_of(pod ? pod : ""))),
           log_str("call_sid", opening ? opening->call_sid : NULL),
           log_str("pod_answer", opening && opening->pod_answer[0] ? opening->pod_answer : NULL),
           log_str("client", http_request_peer(request)), log_str("request_id", http_request_id(request)),
           log_str("traceparent", traceparent_text(request)));
}

static void refuse(struct gateway *gateway, struct http_request *request, struct opening *opening, int status,
                   enum stream_refusal reason, const char *message)
{
    metrics_add(gateway->metrics.refusals[reason], 1);
    log_refusal(gateway, request, opening, status, reason, message);
    if (status == 426)
        http_response_header(request, "Upgrade", "websocket");
    if (opening)
        opening_end(opening);
    http_respond_error(request, status, message);
}

static void opening_refuse(struct opening *opening, int status, enum stream_refusal reason,
                           const char *message)
{
    refuse(opening->gateway, opening->request, opening, status, reason, message);
}

/* True: the opening was to end as soon as something came back, and has ended. */
static bool opening_is_ending(struct opening *opening)
{
    if (opening->is_forsaken) {
        opening_refuse(opening, 400, REFUSED_CLIENT_GONE, CLIENT_GONE);
        return true;
    }
    if (opening->is_aborted)
        opening_refuse(opening, 503, REFUSED_STOPPING, "the router is stopping");
    return opening->is_aborted;
}

static void opening_refuse_store(struct opening *opening, int err)
{
    log_error("a stream was refused: the store cannot answer",
              log_str("route", http_request_route(opening->request)->pattern),
              log_str("cause", store_error_text(err)),
              log_str("request_id", http_request_id(opening->request)));
    opening_refuse(opening, 503, REFUSED_STORE, "the store is out of reach");
}

/* The store has answered: true if the opening cannot go on, and has ended. */
static bool opening_has_failed(struct opening *opening, int err)
{
    opening_check(opening, OPENING_ASKING);
    if (opening_is_ending(opening))
        return true;
    if (err < 0)
        opening_refuse_store(opening, err);
    return err < 0;
}

/* False: it cannot be asked, and the opening has ended. */
static bool opening_ask(struct opening *opening, const struct command *command, store_done_fn done)
{
    int err = ask_store(&opening->gateway->asker, &opening->ask, command,
                        http_request_arena(opening->request), done, opening);

    if (err < 0)
        opening_refuse_store(opening, err);
    else
        opening_enter(opening, OPENING_ASKING);
    return err == 0;
}

static size_t opening_count_of_call(const struct opening *opening);
static bool opening_has_room(const struct opening *opening);

/* The pod has agreed: from here on the two sockets are all that is left. */
static void opening_carry(struct opening *opening)
{
    struct held_call *call = opening->call;
    size_t others;
    const struct call_connection_names names = {
        .call_sid = opening->call_sid,
        .pod = opening->pod,
        .request_id = http_request_id(opening->request),
        .traceparent = traceparent_text(opening->request),
    };
    uv_tcp_t *client;
    struct slice early;
    int err;

    (void)uv_timer_stop(&opening->timer);
    (void)uv_read_stop((uv_stream_t *)opening->pod_tcp);
    if (calls_is_finished(opening->call)) {
        opening_refuse(opening, 409, REFUSED_NO_CALL, "the call has ended");
        return;
    }
    /* A connection that was silent when this one began may have spoken since. */
    if (!opening_has_room(opening)) {
        opening_refuse(opening, 429, REFUSED_CALL_FULL, CALL_FULL);
        return;
    }
    others = opening_count_of_call(opening) - 1;
    err = http_upgrade(opening->request, &client, &early);
    if (err < 0) {
        /* A client that has gone does not see this; but every request is answered. */
        opening_refuse(opening, err == -ENOMEM ? 503 : 400,
                       err == -ENOMEM ? REFUSED_NO_MEMORY : REFUSED_CLIENT_GONE,
                       err == -ENOMEM ? "out of memory" : CLIENT_GONE);
        return;
    }
    err = call_connection_start(opening->gateway, &names, opening->call, client, opening->pod_tcp,
                                strbuf_slice(&opening->answer), early);
    if (err < 0) {
        log_warn("connection dropped: out of memory", log_str("call_sid", opening->call_sid));
        uv_close((uv_handle_t *)client, opening_socket_closed);
    } else {
        opening->pod_tcp = NULL;
        opening->call = NULL;
        call_connection_make_room(opening->gateway, call, others);
    }
    opening_end(opening);
}

/*
 * The pod has not accepted. Its answer goes only to the log: a client that may register pods must
 * not be able to read the answers of other services through the router.
 */
static void opening_refuse_by_pod(struct opening *opening, struct slice said)
{
    snprintf(opening->pod_answer, sizeof(opening->pod_answer), "%.*s", (int)min_u64(said.len, POD_ANSWER_MAX),
             said.data);
    opening_refuse(opening, 502, REFUSED_BY_POD, NOT_ACCEPTED);
}

/* Looks at what has come of the answer so far. */
static void opening_look(struct opening *opening, bool is_end)
{
    struct head_answer answer;
    int some = head_read_answer(strbuf_slice(&opening->answer), &answer);

    if (some > 0 && answer.status == 101)
        opening_carry(opening);
    else if (some > 0)
        opening_refuse_by_pod(opening, answer.said);
    else if (some < 0 || is_end)
        opening_refuse(opening, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
}

static void opening_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct opening *opening = handle->data;
    char *room;

    opening_check(opening, OPENING_GREETING);
    room = strbuf_grow(&opening->answer, ANSWER_STEP);

    *ret_buf = uv_buf_init(room, room ? ANSWER_STEP : 0);
}

static void opening_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf UNUSED)
{
    struct opening *opening = stream->data;

    opening_check(opening, OPENING_GREETING);
    if (count == 0)
        return;
    if (count > 0)
        opening->answer.len += (size_t)count;
    if (count == UV_ENOBUFS)
        opening_refuse(opening, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
    else
        opening_look(opening, count < 0);
}

static void opening_not_answered(uv_timer_t *timer)
{
    struct opening *opening = timer->data;

    opening_check(opening, OPENING_GREETING);
    opening_refuse(opening, 504, REFUSED_NO_ANSWER, "the pod does not answer");
}

/* Connected: asks the pod what the client asked us. */
static void opening_greet(struct opening *opening)
{
    struct arena *arena = http_request_arena(opening->request);
    uv_stream_t *stream = (uv_stream_t *)opening->pod_tcp;
    const struct head_call call = {.call_sid = opening->call_sid, .merchant_id = opening->merchant_id};
    struct strbuf head;
    uv_buf_t buf;

    strbuf_init(&head, arena, HEAD_REQUEST_MAX);
    strbuf_init(&opening->answer, arena, ANSWER_MAX);
    head_write_request(opening->gateway->settings.trusted, opening->request, opening->path, &call, &head);
    if (strbuf_failed(&head)) {
        opening_refuse(opening, 431, REFUSED_REQUEST, "header too large");
        return;
    }
    opening->pod_tcp->data = opening;
    (void)uv_tcp_nodelay(opening->pod_tcp, 1);
    buf = uv_buf_init(head.data, (unsigned)head.len);
    /* A fresh socket's buffer has room for every header that was accepted. */
    if (uv_try_write(stream, &buf, 1) != (int)head.len ||
        uv_read_start(stream, opening_alloc, opening_read)) {
        opening_refuse(opening, 502, REFUSED_BAD_ANSWER, NOT_ACCEPTED);
        return;
    }
    (void)uv_timer_start(&opening->timer, opening_not_answered,
                         opening->gateway->settings.connect_timeout_ms * ANSWER_PATIENCE, 0);
}

static void opening_connect(struct opening *opening);

static void opening_found(struct opening *opening, const char *pod, const char *address,
                          enum pod_source source)
{
    opening->source = source;
    snprintf(opening->pod, sizeof(opening->pod), "%s", pod);
    snprintf(opening->address, sizeof(opening->address), "%s", address);
}

/* Where the call is, and whose it is. */
static void opening_found_call(struct opening *opening, const struct call_info *call)
{
    opening_found(opening, call->pod, call->address, call->pod_source);
    opening->merchant_id = call->merchant_id;
}

static void opening_look_at_pod(struct opening *opening);

/* The store knows that we carry the call, and says where it is: it may have moved since its URL was made. */
static void opening_held(void *arg, int err, const struct result *result)
{
    struct opening *opening = arg;

    if (opening_has_failed(opening, err))
        return;
    if (result->outcome == OUTCOME_OK) {
        calls_found(opening->call, &result->hold.call, result->hold.was_connected);
        opening_found_call(opening, &result->hold.call);
        opening_connect(opening);
    } else if (result->hold.has_ended || opening->pod[0]) {
        opening_refuse(opening, 409, REFUSED_NO_CALL, "the call has ended");
    } else {
        opening_look_at_pod(opening);
    }
}

static void opening_ask_hold(struct opening *opening)
{
    const struct command command = calls_hold_command(opening->call);

    if (opening_ask(opening, &command, opening_held))
        calls_hold_asked(opening->call);
}

static void opening_moved(void *arg, int err, const struct result *result)
{
    struct opening *opening = arg;
    struct gateway *gateway = opening->gateway;

    if (opening_has_failed(opening, err))
        return;
    switch (result->outcome) {
    case OUTCOME_OK:
        if (result->move.was_moved) {
            metrics_add(gateway->metrics.moves[0], 1);
            log_warn("call moved: its pod cannot be reached and is put aside",
                     log_str("call_sid", opening->call_sid), log_str("from_pod", opening->pod),
                     log_str("pod", result->move.call.pod), log_str("pool", result->move.call.pool),
                     log_num("aside_ms", GATEWAY_ASIDE_MS),
                     log_str("request_id", http_request_id(opening->request)));
        }
        calls_moved(opening->call, result->move.call.pod);
        opening_ask_hold(opening); /* a move gives it the lease of a call that nobody is about to open */
        break;
    case OUTCOME_NO_PODS:
        metrics_add(gateway->metrics.moves[1], 1);
        opening_refuse(opening, 503, REFUSED_NO_PODS, "the pod cannot be reached, and no other is free");
        break;
    case OUTCOME_NOT_FOUND:
    case OUTCOME_INVALID:
    case OUTCOME_CONFLICT:
    case OUTCOME_FORBIDDEN:
        opening_refuse(opening, 409, REFUSED_NO_CALL, "the call has ended");
        break;
    }
}

/* The call has open connections: if it was another handshake that moved it meanwhile, this one follows. */
static void opening_looked_again(void *arg, int err, const struct result *result)
{
    struct opening *opening = arg;

    if (opening_has_failed(opening, err))
        return;
    if (result->outcome != OUTCOME_OK) {
        opening_refuse(opening, 409, REFUSED_NO_CALL, "the call has ended");
    } else if (strcmp(result->call.call.pod, opening->pod) == 0) {
        /* A pod that carries this very call cannot be gone, and its other connections would stay behind. */
        opening_refuse(opening, 502, REFUSED_UNREACHABLE, "the pod takes no more connections");
    } else {
        calls_moved(opening->call, result->call.call.pod);
        opening_found_call(opening, &result->call.call);
        opening_connect(opening);
    }
}

static void opening_move(struct opening *opening)
{
    const struct command move = {
        .type = COMMAND_MOVE_CALL,
        .move = {.call_sid = opening->call_sid, .from_pod = opening->pod, .aside_ms = GATEWAY_ASIDE_MS}};
    const struct command look = {.type = COMMAND_CALL, .call = {.call_sid = opening->call_sid}};

    if (opening->moves++ == MOVES_MAX)
        opening_refuse(opening, 503, REFUSED_UNREACHABLE, "no pod can be reached");
    else if (call_connection_has_client(opening->gateway, opening->call))
        (void)opening_ask(opening, &look, opening_looked_again);
    else
        (void)opening_ask(opening, &move, opening_moved);
}

static void opening_connected(void *arg, int err, uv_tcp_t *tcp)
{
    struct opening *opening = arg;

    opening_check(opening, OPENING_CONNECTING);
    opening->connecting = NULL;
    opening->pod_tcp = tcp;
    if (opening_is_ending(opening))
        return;
    if (err == 0) {
        opening_enter(opening, OPENING_GREETING);
        opening_greet(opening);
        return;
    }
    if (connect_failed_here(err)) {
        log_error("no pod can be reached: the router has run out of descriptors, ports, memory or lookups",
                  log_str("error", uv_strerror(err)), log_str("pod", opening->pod),
                  log_str("call_sid", opening->call_sid));
        opening_refuse(opening, 503, REFUSED_EXHAUSTED, "the router cannot open another connection");
        return;
    }
    gateway_count_failure(opening->gateway, err);
    log_warn(err == -EACCES ? "a pod cannot be reached: its address is not allowed"
                            : "a pod cannot be reached",
             log_str("pod", opening->pod), log_str("address", opening->address),
             log_str("error", uv_strerror(err)), log_str("call_sid", opening->call_sid),
             log_str("request_id", http_request_id(opening->request)));
    opening_move(opening);
}

static void opening_connect(struct opening *opening)
{
    const struct connect_target target = gateway_target(opening->gateway, opening->address, opening->source);
    int err;

    if (!opening->address[0]) {
        opening_refuse(opening, 502, REFUSED_NO_ADDRESS, "the pod has no address");
        return;
    }
    err = connect_start(opening->gateway->loop, &target, opening_connected, opening, &opening->connecting);
    if (err < 0)
        opening_refuse(opening, err == -ENOMEM ? 503 : 502,
                       err == -ENOMEM ? REFUSED_NO_MEMORY : REFUSED_NO_ADDRESS,
                       err == -ENOMEM ? "out of memory" : "the pod's address cannot be used");
    else
        opening_enter(opening, OPENING_CONNECTING);
}

/* Gives it up as soon as that is possible. */
static void opening_give_up(struct opening *opening)
{
    switch (opening->phase) {
    case OPENING_CONNECTING:
        connect_cancel(opening->connecting); /* its end comes back with -ECANCELED */
        break;
    case OPENING_GREETING:
        (void)opening_is_ending(opening);
        break;
    case OPENING_BEGINNING:
    case OPENING_ASKING: /* the answer ends it */
    case OPENING_ENDED:
    case OPENING_PHASES:
        break;
    }
}

/*
 * How many of the call's connections are being opened, this one among them. A client that did not wait for
 * its pod and asked again must not stand in its own way: what it has left is given up.
 */
static size_t opening_count_of_call(const struct opening *opening)
{
    size_t count = 0;

    LIST_FOR_EACH (link, &opening->gateway->openings) {
        struct opening *other = opening_of(link);

        if (other->call != opening->call || other->is_forsaken)
            continue;
        if (other != opening && http_request_is_abandoned(other->request)) {
            other->is_forsaken = true;
            opening_give_up(other);
            continue;
        }
        count++;
    }
    return count;
}

/* May the call have one more connection, beside those that are open or being opened? */
static bool opening_has_room(const struct opening *opening)
{
    const struct gateway *gateway = opening->gateway;

    return calls_connections(opening->call) <= gateway->settings.streams_per_call ||
           call_connection_has_room(gateway, opening->call, opening_count_of_call(opening));
}

/* Nothing is connected before the store knows of it: what is being opened must not be released meanwhile. */
static void opening_hold(struct opening *opening)
{
    int err = calls_hold(opening->gateway->calls, opening->call_sid, &opening->call);

    if (err == -EALREADY) {
        opening_refuse(opening, 409, REFUSED_NO_CALL, "the call has ended");
    } else if (err < 0) {
        opening_refuse(opening, 503, REFUSED_NO_MEMORY, "out of memory");
    } else if (!opening_has_room(opening)) {
        opening_refuse(opening, 429, REFUSED_CALL_FULL, CALL_FULL);
    } else {
        opening_ask_hold(opening);
    }
}

/* Is `call_sid` a segment of what the pod is asked for? A template can put it there. */
static bool opening_names(const struct opening *opening, const char *call_sid)
{
    const char *rest = http_request_param(opening->request, "rest");
    size_t len = strlen(call_sid);

    while (rest) {
        const char *end = strchrnul(rest, '/');

        if ((size_t)(end - rest) == len && memcmp(rest, call_sid, len) == 0)
            return true;
        rest = *end ? end + 1 : NULL;
    }
    return false;
}

/*
 * Which of the pod's calls a connection without a ticket belongs to: the one that its path names; else the
 * newest that has not connected yet, so that each of several calls on a shared pod gets a connection of its
 * own, and is released after it; else one that may come back; else it is one more of the newest.
 */
static const char *opening_choose(const struct opening *opening, const struct pod_info *pod)
{
    const char *chosen = "";
    enum call_contact chosen_contact = CALL_CONNECTED;

    for (size_t i = pod->calls.count; i-- > 0;) {
        const char *call_sid = pod->calls.names[i];
        enum call_contact contact = calls_contact(opening->gateway->calls, call_sid);

        if (opening_names(opening, call_sid))
            return call_sid;
        if (!chosen[0] || contact < chosen_contact) {
            chosen = call_sid;
            chosen_contact = contact;
        }
    }
    return chosen;
}

/* Without a ticket: finds out whose connection it is. With one whose call is not there: says why. */
static void opening_looked_at_pod(void *arg, int err, const struct result *result)
{
    struct opening *opening = arg;
    bool has_ticket = opening->call_sid[0];
    const char *call_sid;

    if (opening_has_failed(opening, err))
        return;
    if (result->outcome != OUTCOME_OK) {
        opening_refuse(opening, 404, REFUSED_UNKNOWN_POD, "unknown pod");
        return;
    }
    call_sid = has_ticket ? "" : opening_choose(opening, &result->pod);
    if (!call_sid[0] && result->pod.is_draining) {
        opening_refuse(opening, 503, REFUSED_DRAINING, "the pod is draining and has no such call");
    } else if (!call_sid[0]) {
        opening_refuse(opening, 409, REFUSED_NO_CALL,
                       has_ticket ? "the call has ended" : "the pod has no live call");
    } else {
        snprintf(opening->call_sid, sizeof(opening->call_sid), "%s", call_sid);
        opening_found(opening, result->pod.name, result->pod.address, result->pod.source);
        opening_hold(opening);
    }
}

static void opening_look_at_pod(struct opening *opening)
{
    const struct command command = {.type = COMMAND_POD, .pod = {.name = opening->url_pod}};

    (void)opening_ask(opening, &command, opening_looked_at_pod);
}

/* Takes the next segment off `path`, as it was sent. */
static struct slice take_segment(struct slice *path)
{
    struct slice segment = {path->data + 1, 0};
    const char *slash;

    assert(path->len > 0 && path->data[0] == '/');
    slash = memchr(path->data + 1, '/', path->len - 1);
    segment.len = slash ? (size_t)(slash - path->data - 1) : path->len - 1;
    path->data += 1 + segment.len;
    path->len -= 1 + segment.len;
    return segment;
}

/* Cuts /ws/pod/{pod} and the ticket off the path. *ret_ticket is empty if there is none. */
static void opening_take_path(struct opening *opening, struct slice *ret_ticket)
{
    struct slice path = http_request_path(opening->request);

    for (unsigned i = 0; i < 3 && path.len > 0; i++)
        (void)take_segment(&path);
    *ret_ticket = (struct slice){"", 0};
    if (opening->gateway->secret_count > 0 && path.len > 0)
        *ret_ticket = take_segment(&path);
    opening->path = path.len > 0 ? path : SLICE("/");
}

static void opening_look_for_call(struct opening *opening)
{
    struct gateway *gateway = opening->gateway;
    struct ticket_use use = {.purpose = TICKET_STREAM, .pod = opening->url_pod};
    struct slice ticket;
    int err;

    opening_take_path(opening, &ticket);
    if (gateway->secret_count == 0) {
        opening_look_at_pod(opening);
        return;
    }
    use.path = opening->path;
    err = ticket_check(gateway->secrets, gateway->secret_count, ticket, &use, clock_wall_ms() / 1000,
                       opening->call_sid);
    if (err == -ETIME)
        opening_refuse(opening, 403, REFUSED_EXPIRED, "the ticket has expired");
    else if (err < 0)
        opening_refuse(opening, 403, REFUSED_TICKET, "the ticket is not valid");
    else
        opening_hold(opening);
}

/* What can be said without looking any further. True: it was refused. */
static bool refuse_at_once(struct gateway *gateway, struct http_request *request)
{
    const char *pod = http_request_param(request, "pod");

    if (!http_request_wants_upgrade(request))
        refuse(gateway, request, NULL, 426, REFUSED_REQUEST, "this path is for WebSockets");
    else if (!slice_is_word(http_request_header(request, "upgrade"), "websocket") ||
             http_request_body(request).len > 0 || !slice_equals(http_request_method(request), "GET"))
        refuse(gateway, request, NULL, 400, REFUSED_REQUEST, "only a WebSocket can be opened here");
    else if (gateway->is_draining || gateway->is_stopping)
        refuse(gateway, request, NULL, 503, REFUSED_STOPPING, "the router is stopping");
    else if (gateway->connection_count + gateway->opening_count >= gateway->settings.max_connections)
        refuse(gateway, request, NULL, 503, REFUSED_TOO_MANY, "too many connections");
    else if (!name_is_pod(pod, strlen(pod)))
        refuse(gateway, request, NULL, 404, REFUSED_UNKNOWN_POD, "unknown pod");
    else
        return false;
    return true;
}

void opening_start(struct gateway *gateway, struct http_request *request)
{
    struct opening *opening;
    int err;

    if (refuse_at_once(gateway, request))
        return;
    opening = calloc(1, sizeof(*opening));
    if (!opening) {
        refuse(gateway, request, NULL, 503, REFUSED_NO_MEMORY, "out of memory");
        return;
    }
    opening->magic = OPENING_MAGIC;
    opening->gateway = gateway;
    opening->request = request;
    opening->merchant_id = "";
    err = uv_timer_init(gateway->loop, &opening->timer);
    assert(err == 0); /* it never fails */
    opening->timer.data = opening;
    snprintf(opening->url_pod, sizeof(opening->url_pod), "%s", http_request_param(request, "pod"));
    list_append(&gateway->openings, &opening->link);
    gateway->opening_count++;
    opening_look_for_call(opening);
}

void opening_abort(struct opening *opening)
{
    opening->is_aborted = true;
    opening_give_up(opening);
}
