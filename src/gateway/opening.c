/*
 * opening.c - one handshake of a client: finds its call, and has a pod dialled.
 *
 * The client's request stays unanswered until the pod has accepted or refused. So a call can move
 * to another pod meanwhile, and every refusal is an ordinary answer. If the call waits for a pod, the
 * router itself accepts, and holds the client. An opening waits for one thing
 * at a time: its phase says for which. It does not end while the store or a dial still has to come
 * back to it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/log_text.h"
#include "base/slice.h"
#include "gateway/dial.h"
#include "gateway/gateway_internal.h"
#include "gateway/head.h"
#include "gateway/ticket.h"
#include "ws/handshake.h"

enum { OPENING_MAGIC = 0x6f70656e };

#define CLIENT_GONE "the client has gone"
#define CALL_ENDED "the call has ended"
#define CALL_FULL "the call has too many connections"

/* What an opening waits for. opening_enter changes it. */
enum opening_phase {
    OPENING_BEGINNING, /* nothing: its function is still running */
    OPENING_ASKING,    /* an answer of the store */
    OPENING_DIALING,   /* the dial */
    OPENING_ENDED,     /* the request was answered or handed over */
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
    struct dial *dial;  /* while OPENING_DIALING */
    struct strbuf head; /* the request to the pod, without its end; in the request's arena */
    bool is_held;       /* the URL is that of a held stream */
    bool is_followed;   /* its frames will be followed */
    bool is_aborted;
    bool is_forsaken; /* its client has gone, and another one of the call needs its place */
    bool has_looked;  /* at the pod that the URL names */
    char call_sid[CALL_SID_MAX + 1];
    char pod[POD_NAME_MAX + 1]; /* the one that the URL names; later the one that has the call */
    const char *pod_answer;     /* the first line of the pod's refusal, during the answer to the client */
};

struct opening *opening_of(struct list *link)
{
    return LIST_ENTRY(link, struct opening, link);
}

/* Each phase, and the phases that may follow it. */
static void opening_enter(struct opening *opening, enum opening_phase phase)
{
    static const unsigned may_follow[OPENING_PHASES] = {
        [OPENING_BEGINNING] = 1U << OPENING_ASKING | 1U << OPENING_DIALING | 1U << OPENING_ENDED,
        [OPENING_ASKING] = 1U << OPENING_ASKING | 1U << OPENING_DIALING | 1U << OPENING_ENDED,
        [OPENING_DIALING] = 1U << OPENING_ASKING | 1U << OPENING_ENDED,
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

/* The request has been answered or handed over. */
static void opening_end(struct opening *opening)
{
    struct gateway *gateway = opening->gateway;

    opening_enter(opening, OPENING_ENDED);
    if (opening->call)
        calls_drop(TAKE(opening->call), (struct call_drop){0});
    list_remove(&opening->link);
    gateway->opening_count--;
    opening->magic = 0;
    free(opening);
    gateway_lost_one(gateway);
}

static void log_refusal(const struct gateway *gateway UNUSED, struct http_request *request,
                        const struct opening *opening, int status, enum stream_refusal reason,
                        const char *message)
{
    const char *pod = opening ? opening->pod : http_request_param(request, "pod"); /* NULL: it names none */
    char pod_text[LOG_CUT_SIZE];

    /* Anybody can come without a good ticket; a 5xx of an opening is about a call that is there. */
    if ((status < 500 || !opening) && !log_limit_passes(LOG_OF_GATEWAY, LOG_INFO))
        return;
    LOG_AT(status >= 500 ? LOG_WARN : LOG_INFO, "connection refused", log_str("error", message),
           log_str("reason", stream_refusal_name(reason)), log_num("status", status),
           log_str("pod", log_cut(pod_text, slice_of(pod ? pod : ""))),
           log_str("call_sid", opening ? opening->call_sid : NULL),
           log_str("pod_answer", opening ? opening->pod_answer : NULL),
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

static void opening_socket_closed(uv_handle_t *handle)
{
    free(handle);
}

static size_t opening_count_of_call(const struct opening *opening);
static bool opening_has_room(const struct opening *opening);

static struct stream_names opening_names_of_stream(const struct opening *opening, const char *provider,
                                                   const char *merchant_id)
{
    return (struct stream_names){
        .call_sid = opening->call_sid,
        .provider = provider,
        .merchant_id = merchant_id,
        .request_id = http_request_id(opening->request),
        .traceparent = traceparent_text(opening->request),
    };
}

/* What the stream needs for its next pod. */
static struct stream_kept opening_kept(const struct opening *opening)
{
    struct slice key = http_request_header(opening->request, "sec-websocket-key");

    return (struct stream_kept){.head = strbuf_slice(&opening->head), .key = key.data ? key : SLICE("")};
}

/* The client cannot be handed over. */
static void opening_refuse_upgrade(struct opening *opening, int err)
{
    /* A client that has gone does not see this; but every request is answered. */
    opening_refuse(opening, err == -ENOMEM ? 503 : 400,
                   err == -ENOMEM ? REFUSED_NO_MEMORY : REFUSED_CLIENT_GONE,
                   err == -ENOMEM ? "out of memory" : CLIENT_GONE);
}

/* The pod has agreed: from here on the two sockets are all that is left. */
static void opening_carry(struct opening *opening, const struct dial_answer *answer)
{
    const struct stream_names names = opening_names_of_stream(opening, answer->provider, answer->merchant_id);
    const struct stream_pod pod = {
        .name = opening->pod,
        .call = opening->call,
        .tcp = answer->tcp,
        .to_client = {answer->head.data, answer->head.len + answer->early.len},
        .head_len = answer->head.len,
    };
    struct slice subprotocol = head_find(answer->head, "sec-websocket-protocol");
    struct stream_kept kept = opening_kept(opening);
    size_t others = opening_count_of_call(opening) - 1;
    uv_tcp_t *client;
    struct slice early;
    int err = http_upgrade(opening->request, &client, &early);

    if (err < 0) {
        uv_close((uv_handle_t *)answer->tcp, opening_socket_closed);
        opening_refuse_upgrade(opening, err);
        return;
    }
    kept.subprotocol = subprotocol.data ? subprotocol : SLICE("");
    err = stream_start(opening->gateway, &names, client, early, &pod, opening->is_followed ? &kept : NULL);
    if (err < 0) {
        log_warn("connection dropped: out of memory", log_str("call_sid", opening->call_sid));
        uv_close((uv_handle_t *)client, opening_socket_closed);
        uv_close((uv_handle_t *)answer->tcp, opening_socket_closed);
    } else {
        opening->call = NULL;
        stream_make_room(opening->gateway, pod.call, others);
    }
    opening_end(opening);
}

/*
 * The call has no pod, and waits for one; or has just got one, and its URL is that of a held stream. The
 * router accepts the client itself.
 */
static void opening_hold_client(struct opening *opening, const struct waiting_call *waiting,
                                enum stream_holding holding)
{
    const struct stream_names names =
        opening_names_of_stream(opening, waiting->provider, waiting->merchant_id);
    const struct stream_kept kept = opening_kept(opening);
    struct strbuf answer;
    uv_tcp_t *client;
    struct slice early;
    int err;

    strbuf_init(&answer, http_request_arena(opening->request), HEAD_ANSWER_MAX);
    if (kept.head.len == 0 || ws_write_accept(&answer, kept.key, "") < 0 || strbuf_failed(&answer)) {
        opening_refuse(opening, 400, REFUSED_REQUEST, "only a WebSocket can be opened here");
        return;
    }
    if (kept.head.len > STREAM_HEAD_MAX) {
        opening_refuse(opening, 431, REFUSED_REQUEST, "header too large");
        return;
    }
    err = http_upgrade(opening->request, &client, &early);
    if (err < 0) {
        opening_refuse_upgrade(opening, err);
        return;
    }
    if (opening->call)
        calls_drop(TAKE(opening->call), (struct call_drop){.waits = true});
    err = stream_start_held(opening->gateway, &names, client, strbuf_slice(&answer), early, &kept, waiting,
                            holding);
    if (err < 0) {
        log_warn("connection dropped: out of memory", log_str("call_sid", opening->call_sid));
        uv_close((uv_handle_t *)client, opening_socket_closed);
    }
    opening_end(opening);
}

static void opening_accepted(struct opening *opening, const struct dial_answer *answer)
{
    if (calls_is_finished(opening->call)) {
        uv_close((uv_handle_t *)answer->tcp, opening_socket_closed);
        opening_refuse(opening, 409, REFUSED_NO_CALL, CALL_ENDED);
    } else if (!opening_has_room(opening)) {
        /* A connection that was silent when this one began may have spoken since. */
        uv_close((uv_handle_t *)answer->tcp, opening_socket_closed);
        opening_refuse(opening, 429, REFUSED_CALL_FULL, CALL_FULL);
    } else {
        opening_carry(opening, answer);
    }
}

static void opening_look_at_pod(struct opening *opening);

static void opening_dialed(void *arg, const struct dial_answer *answer)
{
    struct opening *opening = arg;

    opening_check(opening, OPENING_DIALING);
    opening->dial = NULL;
    if (answer->pod[0])
        snprintf(opening->pod, sizeof(opening->pod), "%s", answer->pod);
    /* A pod that its call has waited for is given back if the client never gets there. */
    if (answer->was_taken)
        calls_own(opening->call);
    if (answer->outcome == DIAL_CANCELED) {
        (void)opening_is_ending(opening);
    } else if (answer->outcome == DIAL_ACCEPTED) {
        opening_accepted(opening, answer);
    } else if (answer->outcome == DIAL_WAITING) {
        opening_hold_client(opening, answer->waiting, STREAM_IS_NEW);
    } else if (answer->is_unknown && !opening->has_looked) {
        opening_look_at_pod(opening); /* says why */
    } else {
        opening->pod_answer = answer->pod_answer[0] ? answer->pod_answer : NULL;
        opening_refuse(opening, answer->status, answer->reason, answer->message);
    }
}

static void opening_write_head(void *arg, const struct dial_answer *found, struct strbuf *buf)
{
    struct opening *opening = arg;
    struct slice head = strbuf_slice(&opening->head);
    struct head_call call = {.call_sid = opening->call_sid, .merchant_id = found->merchant_id};
    struct strbuf subprotocols;

    strbuf_init(&subprotocols, http_request_arena(opening->request), HTTP_HEADER_MAX);
    if (opening->is_followed) {
        head_write_subprotocols(opening->request, &subprotocols);
        call.subprotocols = strbuf_slice(&subprotocols);
        call.resumed = calls_resumed(opening->call);
    }
    strbuf_append(buf, head.data, head.len);
    head_end_request(&call, buf);
}

static void opening_dial(struct opening *opening)
{
    const struct dial_order order = {
        .gateway = opening->gateway,
        .call = opening->call,
        .call_sid = opening->call_sid,
        .request_id = http_request_id(opening->request),
        .write_head = opening_write_head,
        .done = opening_dialed,
        .arg = opening,
        .standing = {.is_new = true},
        .can_wait = opening->is_followed,
    };

    if (dial_start(&order, &opening->dial) < 0)
        opening_refuse(opening, 503, REFUSED_NO_MEMORY, "out of memory");
    else
        opening_enter(opening, OPENING_DIALING);
}

/* Gives it up as soon as that is possible. */
static void opening_give_up(struct opening *opening)
{
    if (opening->phase == OPENING_DIALING)
        dial_cancel(opening->dial);
    /* Else the store is being asked, and its answer ends it. */
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
           stream_has_room(gateway, opening->call, opening_count_of_call(opening));
}

/* Nothing is connected before the store knows of it: what is being opened must not be released meanwhile. */
static void opening_hold(struct opening *opening)
{
    int err = calls_hold(opening->gateway->calls, opening->call_sid, &opening->call);

    if (err == -EALREADY) {
        opening_refuse(opening, 409, REFUSED_NO_CALL, CALL_ENDED);
    } else if (err < 0) {
        opening_refuse(opening, 503, REFUSED_NO_MEMORY, "out of memory");
    } else if (!opening_has_room(opening)) {
        opening_refuse(opening, 429, REFUSED_CALL_FULL, CALL_FULL);
    } else {
        opening_dial(opening);
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

    opening->has_looked = true;
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
        opening_refuse(opening, 409, REFUSED_NO_CALL, has_ticket ? CALL_ENDED : "the pod has no live call");
    } else {
        snprintf(opening->call_sid, sizeof(opening->call_sid), "%s", call_sid);
        opening_hold(opening);
    }
}

static void opening_look_at_pod(struct opening *opening)
{
    const struct command command = {.type = COMMAND_POD, .pod = {.name = opening->pod}};

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

/* Cuts /ws/pod/{pod} or /ws/hold, and the ticket, off the path. *ret_ticket is empty if there is none. */
static void opening_take_path(struct opening *opening, struct slice *ret_ticket)
{
    struct slice path = http_request_path(opening->request);

    for (unsigned i = 0; i < (opening->is_held ? 2 : 3) && path.len > 0; i++)
        (void)take_segment(&path);
    *ret_ticket = (struct slice){"", 0};
    if (opening->gateway->secret_count > 0 && path.len > 0)
        *ret_ticket = take_segment(&path);
    opening->path = path.len > 0 ? path : SLICE("/");
}

/* The caller is there, and nobody is hung up on because the store is away: it is asked again. */
static void opening_hold_unheard(struct opening *opening, const char *cause)
{
    const struct waiting_call unknown = {
        .call_sid = opening->call_sid, .merchant_id = "", .provider = "", .holder = ""};

    log_warn("a caller is held, but the store cannot answer: it is asked again",
             log_str("call_sid", opening->call_sid), log_str("cause", cause));
    opening_hold_client(opening, &unknown, STREAM_IS_NEW);
}

/* The first word of a held stream. */
static void opening_kept_call(void *arg, int err, const struct result *result)
{
    struct opening *opening = arg;
    struct waiting_call unknown = {.call_sid = opening->call_sid,
                                   .merchant_id = "",
                                   .provider = "",
                                   .holder = opening->gateway->settings.identity};
    const struct kept_call *kept = err == 0 && result->outcome == OUTCOME_OK ? result->keep.calls : NULL;

    opening_check(opening, OPENING_ASKING);
    if (kept)
        waits_note_kept(opening->gateway->waits, kept);
    if (opening_is_ending(opening))
        return;
    if (!kept) {
        opening_hold_unheard(opening, err < 0 ? store_error_text(err) : result->error);
        return;
    }
    switch (kept->answer) {
    case KEEP_WAITING:
    case KEEP_REJOINED:
        opening_hold_client(opening, &kept->call, STREAM_WAITS);
        break;
    case KEEP_GRANTED:
        unknown.claim = kept->call.claim;
        opening_hold_client(opening, &unknown, STREAM_IS_GRANTED);
        break;
    case KEEP_TIMED_OUT:
    case KEEP_ENDED:
    case KEEP_UNKNOWN:
    case KEEP_ELSEWHERE: /* never of a first word */
        opening_refuse(opening, 409, REFUSED_NO_CALL, CALL_ENDED);
        break;
    }
}

static void opening_keep(struct opening *opening)
{
    struct keep_call *call = arena_alloc(http_request_arena(opening->request), sizeof(*call));
    struct command command = {.type = COMMAND_KEEP};
    int err;

    if (!call) {
        opening_refuse(opening, 503, REFUSED_NO_MEMORY, "out of memory");
        return;
    }
    *call = (struct keep_call){.call = {.call_sid = opening->call_sid, .merchant_id = "", .provider = ""},
                               .is_first = true};
    command.keep.calls = call;
    command.keep.count = 1;
    command.keep.holder = opening->gateway->settings.identity;
    err = ask_store(&opening->gateway->asker, &opening->ask, &command, http_request_arena(opening->request),
                    opening_kept_call, opening);
    if (err < 0)
        opening_hold_unheard(opening, store_error_text(err));
    else
        opening_enter(opening, OPENING_ASKING);
}

static void opening_look_for_call(struct opening *opening)
{
    struct gateway *gateway = opening->gateway;
    struct ticket_use use = {.purpose = opening->is_held ? TICKET_HOLD : TICKET_STREAM, .pod = opening->pod};
    struct slice ticket;
    int err;

    opening_take_path(opening, &ticket);
    opening->is_followed = gateway->secret_count > 0 && gateway->settings.rescues;
    strbuf_init(&opening->head, http_request_arena(opening->request), HEAD_REQUEST_MAX);
    head_write_request(gateway->settings.trusted, opening->request, opening->path, opening->is_followed,
                       &opening->head);
    if (strbuf_failed(&opening->head)) {
        opening_refuse(opening, 431, REFUSED_REQUEST, "header too large");
        return;
    }
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
    else if (opening->is_held)
        opening_keep(opening);
    else
        opening_hold(opening);
}

/* What can be said without looking any further. True: it was refused. */
static bool refuse_at_once(struct gateway *gateway, struct http_request *request, bool is_held)
{
    const char *pod = is_held ? NULL : http_request_param(request, "pod");

    if (!http_request_wants_upgrade(request))
        refuse(gateway, request, NULL, 426, REFUSED_REQUEST, "this path is for WebSockets");
    else if (!slice_is_word(http_request_header(request, "upgrade"), "websocket") ||
             http_request_body(request).len > 0 || !slice_equals(http_request_method(request), "GET"))
        refuse(gateway, request, NULL, 400, REFUSED_REQUEST, "only a WebSocket can be opened here");
    else if (gateway->is_draining || gateway->is_stopping)
        refuse(gateway, request, NULL, 503, REFUSED_STOPPING, "the router is stopping");
    else if (gateway->stream_count + gateway->opening_count >= gateway->settings.max_connections)
        refuse(gateway, request, NULL, 503, REFUSED_TOO_MANY, "too many connections");
    else if (is_held && (gateway->secret_count == 0 || !gateway->settings.rescues))
        refuse(gateway, request, NULL, 404, REFUSED_NO_CALL, "no stream is held here");
    else if (!is_held && !name_is_pod(pod, strlen(pod)))
        refuse(gateway, request, NULL, 404, REFUSED_UNKNOWN_POD, "unknown pod");
    else
        return false;
    return true;
}

void opening_start(struct gateway *gateway, struct http_request *request, bool is_held)
{
    struct opening *opening;

    if (refuse_at_once(gateway, request, is_held))
        return;
    opening = calloc(1, sizeof(*opening));
    if (!opening) {
        refuse(gateway, request, NULL, 503, REFUSED_NO_MEMORY, "out of memory");
        return;
    }
    opening->magic = OPENING_MAGIC;
    opening->gateway = gateway;
    opening->request = request;
    opening->is_held = is_held;
    if (!is_held)
        snprintf(opening->pod, sizeof(opening->pod), "%s", http_request_param(request, "pod"));
    list_append(&gateway->openings, &opening->link);
    gateway->opening_count++;
    opening_look_for_call(opening);
}

void opening_abort(struct opening *opening)
{
    opening->is_aborted = true;
    opening_give_up(opening);
}
