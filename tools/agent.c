/*
 * agent.c - simulated agents: their listeners, their sessions, their modes (slow, hang, crash,
 * ...), and the echo.
 */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const failure_names[FAILURES] = {"reset", "drop", "cut", "close", "exit"};

bool agent_failure_parse(struct slice text, enum agent_failure *ret_failure)
{
    for (int failure = 0; failure < FAILURES; failure++) {
        if (slice_equals(text, failure_names[failure])) {
            *ret_failure = (enum agent_failure)failure;
            return true;
        }
    }
    return false;
}

static const char *const mode_names[AGENT_MODES] = {"normal", "slow", "hang", "refuse", "reject", "crash"};

const char *agent_mode_name(enum agent_mode mode)
{
    return mode_names[mode];
}

bool agent_mode_parse(struct slice text, enum agent_mode *ret_mode)
{
    for (int mode = 0; mode < AGENT_MODES; mode++) {
        if (slice_equals(text, mode_names[mode])) {
            *ret_mode = (enum agent_mode)mode;
            return true;
        }
    }
    return false;
}

/* Something that a slow agent will do when its time has come. */
struct delayed {
    struct list link;
    struct session *session;
    uint64_t due_ms;
    bool is_handshake;
    enum ws_opcode opcode;
    size_t len;
    char room[WS_HEADER_MAX];
    char data[];
};

static struct session *session_of(struct peer *peer)
{
    return CONTAINER_OF(peer, struct session, peer);
}

static void session_unthrottle(struct session *session)
{
    if (!session->is_throttled || link_is_full(&session->peer.link) ||
        session->agent->delayed_bytes > AGENT_DELAYED_MAX || session->agent->mode == AGENT_HANG)
        return;
    session->is_throttled = false;
    link_read_start(&session->peer.link);
}

static void session_throttle(struct session *session)
{
    session->is_throttled = true;
    link_read_stop(&session->peer.link);
}

/* Something about a session, for those who compare. */
static void session_note(const struct session *session, const char *event, int code)
{
    struct journal *journal = &session->agent->fleet->journal;
    struct json_writer *json = journal_begin(journal, event);

    if (!json)
        return;
    json_put_string(json, "agent", session->agent->name);
    json_put_string(json, "call_sid", session->start.call_sid);
    json_put_u64(json, "resumed", session->resumed);
    json_put_bool(json, "has_state", session->has_state);
    json_put_u64(json, "echoed", session->echoed);
    if (code != 0)
        json_put_u64(json, "code", (uint64_t)code);
    journal_end(journal);
}

static void session_fail(struct session *session, enum agent_failure how, int code);

/* The stream has said enough: this message is its last one, or half of it is. */
static bool session_is_to_fail(const struct session *session)
{
    uint64_t after = session->agent->fleet->settings.fail_after;

    return after > 0 && session->echoed + 1 >= after;
}

static void session_send(struct session *session, enum ws_opcode opcode, char *data, size_t len)
{
    struct fleet_counters *counters = &session->agent->fleet->counters;
    const struct fleet_settings *settings = &session->agent->fleet->settings;

    if (session_is_to_fail(session)) {
        if (settings->fail_how == FAIL_CUT || settings->fail_how == FAIL_EXIT)
            peer_send_half(&session->peer, opcode, data, len);
        session_fail(session, settings->fail_how, settings->close_code);
        return;
    }
    session->echoed++;
    if (peer_send(&session->peer, opcode, data, len) == 0)
        counters->echoed++;
    else
        counters->dropped++;
    if (link_is_full(&session->peer.link))
        session_throttle(session);
}

static void delayed_free(struct agent *agent, struct delayed *delayed)
{
    list_remove(&delayed->link);
    agent->delayed_bytes -= delayed->len;
    free(delayed);
}

static void agent_delay_timer(uv_timer_t *timer)
{
    struct agent *agent = CONTAINER_OF(timer, struct agent, delay_timer);
    uint64_t now_ms = uv_now(timer->loop);

    while (!list_is_empty(&agent->delayed)) {
        struct delayed *delayed = LIST_ENTRY(agent->delayed.next, struct delayed, link);
        struct session *session = delayed->session;

        if (delayed->due_ms > now_ms || agent->mode == AGENT_HANG) {
            uv_timer_start(timer, agent_delay_timer,
                           delayed->due_ms > now_ms ? delayed->due_ms - now_ms : 100, 0);
            return;
        }
        /* Out of the list first: a session that ends now takes away what it has there. */
        list_remove(&delayed->link);
        if (delayed->is_handshake)
            peer_accept(&session->peer);
        else
            session_send(session, delayed->opcode, delayed->data, delayed->len);
        delayed_free(agent, delayed);
        session_unthrottle(session);
    }
}

static void session_delay(struct session *session, bool is_handshake, enum ws_opcode opcode, const char *data,
                          size_t len)
{
    struct agent *agent = session->agent;
    uint64_t now_ms = uv_now(&agent->fleet->net->loop);
    struct delayed *delayed = calloc(1, sizeof(*delayed) + len);

    if (!delayed) {
        agent->fleet->counters.dropped++;
        return;
    }
    delayed->session = session;
    delayed->is_handshake = is_handshake;
    delayed->opcode = opcode;
    delayed->len = len;
    if (len > 0)
        memcpy(delayed->data, data, len);
    delayed->due_ms = now_ms + agent->slow_ms;
    if (list_is_empty(&agent->delayed))
        uv_timer_start(&agent->delay_timer, agent_delay_timer, agent->slow_ms, 0);
    list_append(&agent->delayed, &delayed->link);
    agent->delayed_bytes += len;
    if (agent->delayed_bytes > AGENT_DELAYED_MAX)
        session_throttle(session);
}

/* What was held back goes first, also when the agent is not slow any more. */
static void session_say(struct session *session, enum ws_opcode opcode, char *data, size_t len)
{
    struct agent *agent = session->agent;

    if (agent->mode == AGENT_SLOW || !list_is_empty(&agent->delayed))
        session_delay(session, false, opcode, data, len);
    else
        session_send(session, opcode, data, len);
}

static void session_started(struct session *session)
{
    struct fleet_counters *counters = &session->agent->fleet->counters;

    counters->calls++;
    if (session->resumed > 0) {
        session->has_state = kept_take(session->agent, session->start.call_sid);
        if (session->has_state)
            counters->resumed++;
        else
            counters->resumed_anew++;
    }
    session_note(session, "start", 0);
}

static bool is_stray(struct slice name)
{
    size_t len = strlen(MEDIA_MARK_OURS);

    return name.len >= len && memcmp(name.data, MEDIA_MARK_OURS, len) == 0;
}

static void session_echo_text(struct session *session, const char *data, size_t len)
{
    struct media_start *start = &session->start;
    struct slice payload = {NULL, 0};
    struct strbuf *buf = &session->agent->fleet->scratch;

    strbuf_reset(buf);
    strbuf_append(buf, "..............", WS_HEADER_MAX);
    switch (media_read((struct slice){data, len}, start, &payload)) {
    case MEDIA_START:
        session_started(session);
        break;
    case MEDIA_MARK:
        if (is_stray(payload))
            session->agent->fleet->counters.stray_marks++;
        else
            strbuf_append(buf, data, len);
        break;
    case MEDIA_MEDIA:
        if (!session->has_media)
            session_note(session, "first_media", 0);
        session->has_media = true;
        if (start->dialect == MEDIA_UNKNOWN)
            strbuf_append(buf, data, len);
        else
            media_write_audio(buf, start, payload);
        break;
    case MEDIA_CONNECTED:
    case MEDIA_DTMF:
    case MEDIA_STOP:
        break;
    case MEDIA_CLEARED: /* the answer to a clear, and this agent never asks for one */
        session->agent->fleet->counters.stray_marks++;
        break;
    case MEDIA_CLEAR:
    case MEDIA_OTHER:
        strbuf_append(buf, data, len);
        break;
    }
    if (strbuf_failed(buf))
        session->agent->fleet->counters.dropped++;
    else if (buf->len > WS_HEADER_MAX)
        session_say(session, WS_TEXT, buf->data + WS_HEADER_MAX, buf->len - WS_HEADER_MAX);
}

static void session_message(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    struct session *session = session_of(peer);
    char *copy;

    session->agent->fleet->counters.messages++;
    if (opcode == WS_TEXT && len > 0) {
        session_echo_text(session, data, len);
        return;
    }
    /* The frame around the echo needs room in front, which another message may still lie in. */
    copy = malloc(WS_HEADER_MAX + len);
    if (!copy) {
        session->agent->fleet->counters.dropped++;
        return;
    }
    memcpy(copy + WS_HEADER_MAX, data, len);
    session_say(session, opcode, copy + WS_HEADER_MAX, len);
    free(copy);
}

static void session_request(struct peer *peer, struct slice method UNUSED, struct slice target UNUSED)
{
    struct session *session = session_of(peer);
    struct slice resumed = peer_header(peer, "X-Call-Resumed");

    for (size_t i = 0; i < resumed.len && i < 9 && resumed.data[i] >= '0' && resumed.data[i] <= '9'; i++)
        session->resumed = session->resumed * 10 + (uint64_t)(resumed.data[i] - '0');
    if (!peer->is_upgrade)
        peer_answer(peer, 200, "text/plain", SLICE("a voice agent\n"));
    else if (session->agent->mode == AGENT_REJECT)
        peer_answer(peer, 503, "text/plain", SLICE("told to reject\n"));
    else if (session->agent->mode == AGENT_SLOW)
        session_delay(session, true, WS_TEXT, NULL, 0);
    else
        peer_accept(peer);
}

/* The session counts as gone at once; its memory goes when its socket has closed. */
static void session_leave(struct session *session, int code)
{
    struct agent *agent = session->agent;

    if (list_is_empty(&session->link))
        return;
    list_remove(&session->link);
    agent->session_count--;
    LIST_FOR_EACH (link, &agent->delayed) {
        struct delayed *delayed = LIST_ENTRY(link, struct delayed, link);

        if (delayed->session == session)
            delayed_free(agent, delayed);
    }
    if (session->start.call_sid[0] == '\0')
        return;
    session_note(session, "end", code);
    if (agent->mode == AGENT_CRASH)
        return;
    /* A break, or a router that restarts: the call may come back. */
    if (code == WS_CLOSE_ABNORMAL || code == WS_CLOSE_RESTART)
        kept_add(agent, session->start.call_sid);
    if (agent->fleet->settings.releases)
        reporter_release(agent, session->start.call_sid);
}

static void session_ended(struct peer *peer, int code, int err UNUSED, int status UNUSED)
{
    session_leave(session_of(peer), code);
    peer_close(peer);
}

static void session_fail(struct session *session, enum agent_failure how, int code)
{
    switch (how) {
    case FAIL_EXIT:
        _exit(1);
    case FAIL_CLOSE:
        peer_say_goodbye(&session->peer, code);
        break;
    case FAIL_RESET:
    case FAIL_DROP:
    case FAIL_CUT:
        session_leave(session, WS_CLOSE_ABNORMAL);
        if (how == FAIL_RESET)
            peer_reset(&session->peer);
        else
            peer_close(&session->peer);
        break;
    case FAILURES:
        abort();
    }
}

static void session_drained(struct peer *peer)
{
    session_unthrottle(session_of(peer));
}

static void session_closed(struct peer *peer)
{
    free(session_of(peer));
}

static const struct peer_ops session_ops = {
    .request = session_request,
    .message = session_message,
    .drained = session_drained,
    .ended = session_ended,
    .closed = session_closed,
};

static void agent_on_connection(uv_stream_t *listener, int status)
{
    struct agent *agent = CONTAINER_OF(listener, struct agent, listener);
    struct session *session;

    if (status != 0)
        return;
    session = calloc(1, sizeof(*session));
    if (!session)
        return;
    session->agent = agent;
    list_init(&session->link);
    if (peer_take(&session->peer, agent->fleet->net, &session_ops, listener) != 0) {
        peer_close(&session->peer);
        return;
    }
    agent->fleet->counters.connections++;
    list_append(&agent->sessions, &session->link);
    agent->session_count++;
    if (agent->mode == AGENT_HANG)
        session_throttle(session);
}

int fleet_listen(struct fleet *fleet, uv_tcp_t *listener, uint16_t port, uv_connection_cb fn,
                 uint16_t *ret_port)
{
    struct sockaddr_storage address;
    int len = sizeof(address);
    int r;

    uv_tcp_init(&fleet->net->loop, listener);
    if (uv_ip4_addr(fleet->settings.host, port, (struct sockaddr_in *)&address) != 0 &&
        uv_ip6_addr(fleet->settings.host, port, (struct sockaddr_in6 *)&address) != 0)
        return -EINVAL;
    r = uv_tcp_bind(listener, (const struct sockaddr *)&address, 0);
    if (r == 0)
        r = uv_listen((uv_stream_t *)listener, NET_BACKLOG, fn);
    if (r == 0)
        r = uv_tcp_getsockname(listener, (struct sockaddr *)&address, &len);
    if (r == 0)
        *ret_port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* in the same place for IPv6 */
    return r;
}

static void agent_listener_closed(uv_handle_t *handle)
{
    /* Not closing any more: may be initialised again. */
    memset(handle, 0, sizeof(uv_tcp_t));
}

static int agent_listen(struct agent *agent)
{
    int r;

    if (agent->is_listening)
        return 0;
    /* Within the turn in which it was closed it cannot be opened again. */
    if (uv_is_closing((uv_handle_t *)&agent->listener))
        return -EAGAIN;
    r = fleet_listen(agent->fleet, &agent->listener, agent->port, agent_on_connection, &agent->port);
    agent->is_listening = r == 0;
    if (r != 0)
        uv_close((uv_handle_t *)&agent->listener, agent_listener_closed);
    return r;
}

static void agent_unlisten(struct agent *agent)
{
    if (!agent->is_listening)
        return;
    agent->is_listening = false;
    uv_close((uv_handle_t *)&agent->listener, agent_listener_closed);
}

static void agent_drop_sessions(struct agent *agent, bool is_reset)
{
    while (!list_is_empty(&agent->sessions)) {
        struct session *session = LIST_ENTRY(agent->sessions.next, struct session, link);

        session_leave(session, WS_CLOSE_ABNORMAL);
        if (is_reset)
            peer_reset(&session->peer);
        else
            peer_close(&session->peer);
    }
}

void agent_fail(struct agent *agent, enum agent_failure how, int code)
{
    LIST_FOR_EACH (link, &agent->sessions) {
        struct session *session = LIST_ENTRY(link, struct session, link);
        char half[WS_HEADER_MAX + 160] = {0};

        if (how == FAIL_CUT || how == FAIL_EXIT)
            peer_send_half(&session->peer, WS_TEXT, half + WS_HEADER_MAX, sizeof(half) - WS_HEADER_MAX);
        if (how != FAIL_EXIT)
            session_fail(session, how, code);
    }
    if (how == FAIL_EXIT)
        _exit(1);
}

static void agent_back_timer(uv_timer_t *timer)
{
    struct agent *agent = CONTAINER_OF(timer, struct agent, back_timer);

    if (agent_set_mode(agent, AGENT_NORMAL, agent->slow_ms) != 0)
        uv_timer_start(timer, agent_back_timer, 50, 0); /* somebody else has its port for the moment */
    else
        reporter_start(agent);
}

void agent_restart(struct agent *agent, uint64_t after_ms)
{
    (void)agent_set_mode(agent, AGENT_CRASH, agent->slow_ms);
    agent->is_registered = false;
    uv_timer_start(&agent->back_timer, agent_back_timer, after_ms, 0);
}

int agent_set_mode(struct agent *agent, enum agent_mode mode, uint64_t slow_ms)
{
    enum agent_mode before = agent->mode;

    agent->mode = mode;
    agent->slow_ms = slow_ms;
    if (mode == AGENT_CRASH) {
        agent_drop_sessions(agent, true);
        kept_forget(agent);
    }
    if (before == AGENT_HANG || mode == AGENT_HANG) {
        LIST_FOR_EACH (link, &agent->sessions) {
            struct session *session = LIST_ENTRY(link, struct session, link);

            if (mode == AGENT_HANG)
                session_throttle(session);
            else
                session_unthrottle(session);
        }
    }
    if (mode == AGENT_CRASH || mode == AGENT_REFUSE) {
        agent_unlisten(agent);
        return 0;
    }
    return agent_listen(agent);
}

static void fleet_mode_timer(uv_timer_t *timer)
{
    struct fleet *fleet = CONTAINER_OF(timer, struct fleet, mode_timer);

    for (int i = 0; i < fleet->settings.count; i++)
        (void)agent_set_mode(&fleet->agents[i], fleet->settings.mode, fleet->settings.slow_ms);
}

static int agent_start(struct fleet *fleet, int index)
{
    struct agent *agent = &fleet->agents[index];
    uint16_t base_port = fleet->settings.base_port;
    int r;

    agent->fleet = fleet;
    agent->port = base_port ? (uint16_t)(base_port + index) : 0;
    agent->slow_ms = fleet->settings.slow_ms;
    snprintf(agent->name, sizeof(agent->name), "%s%d", fleet->settings.name_prefix, index);
    list_init(&agent->sessions);
    list_init(&agent->delayed);
    list_init(&agent->kept);
    uv_timer_init(&fleet->net->loop, &agent->back_timer);
    uv_timer_init(&fleet->net->loop, &agent->delay_timer);
    uv_timer_init(&fleet->net->loop, &agent->heartbeat_timer);
    r = agent_listen(agent);
    if (r != 0) {
        fprintf(stderr, "agent-sim: cannot listen on %s:%u: %s\n", fleet->settings.host, agent->port,
                uv_strerror(r));
        return r;
    }
    reporter_start(agent);
    return 0;
}

int fleet_start(struct fleet *fleet, struct net *net, const struct fleet_settings *settings)
{
    int r = 0;

    *fleet = (struct fleet){.net = net, .settings = *settings};
    journal_init(&fleet->journal, settings->journal_path);
    strbuf_init(&fleet->scratch, NULL, WS_HEADER_MAX + PEER_MESSAGE_MAX + MEDIA_MESSAGE_MAX);
    fleet->agents = calloc((size_t)settings->count, sizeof(*fleet->agents));
    if (!fleet->agents)
        return -ENOMEM;
    uv_timer_init(&net->loop, &fleet->mode_timer);
    if (settings->has_router)
        r = url_resolve(&settings->router, &fleet->router_address);
    if (r != 0)
        fprintf(stderr, "agent-sim: %s is not known\n", settings->router.host);
    for (int i = 0; r == 0 && i < settings->count; i++)
        r = agent_start(fleet, i);
    if (r == 0)
        r = control_start(fleet);
    if (r == 0 && settings->mode != AGENT_NORMAL)
        uv_timer_start(&fleet->mode_timer, fleet_mode_timer, settings->mode_after_ms, 0);
    return r;
}

void fleet_stop(struct fleet *fleet)
{
    if (fleet->is_stopping)
        return;
    fleet->is_stopping = true;
    uv_close((uv_handle_t *)&fleet->mode_timer, NULL);
    control_stop(fleet);
    for (int i = 0; i < fleet->settings.count; i++) {
        struct agent *agent = &fleet->agents[i];

        if (!agent->fleet)
            break; /* a start that failed got this far */
        agent_unlisten(agent);
        agent_drop_sessions(agent, false);
        kept_forget(agent);
        uv_close((uv_handle_t *)&agent->delay_timer, NULL);
        uv_close((uv_handle_t *)&agent->back_timer, NULL);
        uv_close((uv_handle_t *)&agent->heartbeat_timer, NULL);
        reporter_stop(agent);
    }
}

void fleet_release(struct fleet *fleet)
{
    free(fleet->agents);
    journal_release(&fleet->journal);
    strbuf_release(&fleet->scratch);
}
