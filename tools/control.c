/*
 * control.c - the port where agents are told what to do:
 *
 *   GET  /                       how they are, as JSON
 *   POST /agent/NAME/MODE          normal, slow, hang, refuse, reject, crash. NAME may be `all`.
 *   POST /agent/NAME/slow?ms=N
 *   POST /agent/NAME/crash?ms=N    there again after that time
 *   POST /agent/NAME/hangup        also reset, drop, cut, exit, and close?code=N: its streams end like that
 */
#include <stdlib.h>

#include "agent.h"
#include "base/json.h"

struct control {
    struct peer peer;
    struct fleet *fleet;
};

static void put_agent(struct json_writer *json, const struct agent *agent)
{
    json_object_begin(json);
    json_put_string(json, "name", agent->name);
    json_put_u64(json, "port", agent->port);
    json_put_string(json, "mode", agent_mode_name(agent->mode));
    json_put_bool(json, "is_registered", agent->is_registered);
    json_put_u64(json, "connections", agent->session_count);
    json_key(json, "calls");
    json_array_begin(json);
    LIST_FOR_EACH (link, &agent->sessions) {
        const struct session *session = LIST_ENTRY(link, struct session, link);

        if (session->start.call_sid[0] != '\0')
            json_string(json, session->start.call_sid);
    }
    json_array_end(json);
    json_key(json, "resumed");
    json_array_begin(json);
    LIST_FOR_EACH (link, &agent->sessions) {
        const struct session *session = LIST_ENTRY(link, struct session, link);

        if (session->has_state)
            json_string(json, session->start.call_sid);
    }
    json_array_end(json);
    json_object_end(json);
}

static void control_show(struct control *control)
{
    const struct fleet *fleet = control->fleet;
    const struct fleet_counters *counters = &fleet->counters;
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, NULL, 16 << 20);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_u64(&json, "connections", counters->connections);
    json_put_u64(&json, "calls", counters->calls);
    json_put_u64(&json, "messages", counters->messages);
    json_put_u64(&json, "echoed", counters->echoed);
    json_put_u64(&json, "dropped", counters->dropped);
    json_put_u64(&json, "heartbeats", counters->heartbeats);
    json_put_u64(&json, "heartbeats_failed", counters->heartbeats_failed);
    json_put_u64(&json, "released", counters->released);
    json_put_u64(&json, "release_failed", counters->release_failed);
    json_put_u64(&json, "resumed", counters->resumed);
    json_put_u64(&json, "resumed_anew", counters->resumed_anew);
    json_put_u64(&json, "stray_marks", counters->stray_marks);
    json_key(&json, "agents");
    json_array_begin(&json);
    for (int i = 0; i < fleet->settings.count; i++)
        put_agent(&json, &fleet->agents[i]);
    json_array_end(&json);
    json_object_end(&json);
    if (strbuf_failed(&buf))
        peer_answer(&control->peer, 500, "text/plain", SLICE("too many agents to show\n"));
    else
        peer_answer(&control->peer, 200, "application/json", strbuf_slice(&buf));
    strbuf_release(&buf);
}

/* Cuts `text` at the first `c`; returns what is behind it. */
static struct slice slice_cut(struct slice *text, char c)
{
    const char *at = memchr(text->data, c, text->len);
    struct slice rest = {"", 0};

    if (at) {
        rest = (struct slice){at + 1, text->len - (size_t)(at + 1 - text->data)};
        text->len = (size_t)(at - text->data);
    }
    return rest;
}

/* "ms=200" for the name "ms="; `otherwise` where there is none. */
static uint64_t parse_number(struct slice query, const char *name, uint64_t otherwise)
{
    size_t len = strlen(name);
    uint64_t number = 0;

    if (query.len <= len || query.len > len + 7 || memcmp(query.data, name, len) != 0)
        return otherwise;
    for (size_t i = len; i < query.len; i++) {
        if (query.data[i] < '0' || query.data[i] > '9')
            return otherwise;
        number = number * 10 + (uint64_t)(query.data[i] - '0');
    }
    return number;
}

/* A word of the URL, and what one agent does about it. */
struct order {
    enum { ORDER_MODE, ORDER_RESTART, ORDER_FAIL } kind;
    enum agent_mode mode;
    enum agent_failure failure;
    int code;
    struct slice query;
};

static bool order_parse(struct slice word, struct slice query, struct order *ret_order)
{
    struct order order = {.kind = ORDER_FAIL, .failure = FAIL_CLOSE, .code = WS_CLOSE_NORMAL, .query = query};

    if (!slice_equals(word, "hangup") && !agent_failure_parse(word, &order.failure)) {
        if (!agent_mode_parse(word, &order.mode))
            return false;
        order.kind = order.mode == AGENT_CRASH && query.len > 0 ? ORDER_RESTART : ORDER_MODE;
    }
    if (slice_equals(word, "close"))
        order.code = (int)parse_number(query, "code=", WS_CLOSE_NORMAL);
    *ret_order = order;
    return order.kind != ORDER_FAIL || ws_close_code_is_valid(order.code);
}

static int order_obey(const struct order *order, struct agent *agent)
{
    switch (order->kind) {
    case ORDER_FAIL:
        agent_fail(agent, order->failure, order->code);
        return 0;
    case ORDER_RESTART:
        agent_restart(agent, parse_number(order->query, "ms=", 1000));
        return 0;
    case ORDER_MODE:
        break;
    }
    return agent_set_mode(agent, order->mode, parse_number(order->query, "ms=", agent->slow_ms));
}

static void control_tell(struct control *control, struct slice name, struct slice word, struct slice query)
{
    struct fleet *fleet = control->fleet;
    struct order order;
    int told = 0, r = 0;

    if (!order_parse(word, query, &order)) {
        peer_answer(&control->peer, 400, "text/plain", SLICE("no such mode\n"));
        return;
    }
    for (int i = 0; i < fleet->settings.count; i++) {
        struct agent *agent = &fleet->agents[i];

        if (!slice_equals(name, "all") && !slice_equals(name, agent->name))
            continue;
        told++;
        if (order_obey(&order, agent) != 0)
            r = -EAGAIN;
    }
    if (told == 0)
        peer_answer(&control->peer, 404, "text/plain", SLICE("no such agent\n"));
    else if (r != 0)
        peer_answer(&control->peer, 409, "text/plain", SLICE("cannot listen\n"));
    else
        peer_answer(&control->peer, 200, "text/plain", SLICE("done\n"));
}

static void control_request(struct peer *peer, struct slice method, struct slice target)
{
    struct control *control = CONTAINER_OF(peer, struct control, peer);
    struct slice query = slice_cut(&target, '?');
    struct slice name, word;

    if (slice_equals(target, "/")) {
        control_show(control);
        return;
    }
    if (target.len < 7 || memcmp(target.data, "/agent/", 7) != 0) {
        peer_answer(peer, 404, "text/plain", SLICE("try / or /agent/NAME/MODE\n"));
        return;
    }
    if (!slice_equals(method, "POST")) {
        peer_answer(peer, 405, "text/plain", SLICE("POST, please\n"));
        return;
    }
    name = (struct slice){target.data + 7, target.len - 7};
    word = slice_cut(&name, '/');
    control_tell(control, name, word, query);
}

static void control_message(struct peer *peer UNUSED, enum ws_opcode opcode UNUSED, char *data UNUSED,
                            size_t len UNUSED)
{
}

static void control_drop(struct peer *peer)
{
    peer_close(peer);
}

static void control_ended(struct peer *peer, int code UNUSED, int err, int status UNUSED)
{
    /* A long answer is still on its way; the peer closes when it is sent. */
    if (err != 0 || peer->link.tcp.write_queue_size == 0)
        control_drop(peer);
}

static void control_closed(struct peer *peer)
{
    free(CONTAINER_OF(peer, struct control, peer));
}

static const struct peer_ops control_ops = {
    .request = control_request,
    .message = control_message,
    .ended = control_ended,
    .closed = control_closed,
};

static void control_on_connection(uv_stream_t *listener, int status)
{
    struct fleet *fleet = CONTAINER_OF(listener, struct fleet, control);
    struct control *control;

    if (status != 0)
        return;
    control = calloc(1, sizeof(*control));
    if (!control)
        return;
    control->fleet = fleet;
    if (peer_take(&control->peer, fleet->net, &control_ops, listener) != 0)
        peer_close(&control->peer);
}

int control_start(struct fleet *fleet)
{
    if (fleet->settings.control_port < 0)
        return 0;
    return fleet_listen(fleet, &fleet->control, (uint16_t)fleet->settings.control_port, control_on_connection,
                        &fleet->control_port);
}

void control_stop(struct fleet *fleet)
{
    uv_handle_t *handle = (uv_handle_t *)&fleet->control;

    if (handle->loop && !uv_is_closing(handle))
        uv_close(handle, NULL);
}
