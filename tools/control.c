/*
 * control.c - the port where agents are told what to do:
 *
 *   GET  /                       how they are, as JSON
 *   POST /agent/NAME/MODE        normal, slow, hang, refuse, reject, crash; also hangup. NAME may be `all`.
 *   POST /agent/NAME/slow?ms=N
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

/* "ms=200"; `otherwise` where there is none. */
static uint64_t parse_ms(struct slice query, uint64_t otherwise)
{
    uint64_t ms = 0;

    if (query.len < 4 || query.len > 10 || memcmp(query.data, "ms=", 3) != 0)
        return otherwise;
    for (size_t i = 3; i < query.len; i++) {
        if (query.data[i] < '0' || query.data[i] > '9')
            return otherwise;
        ms = ms * 10 + (uint64_t)(query.data[i] - '0');
    }
    return ms;
}

static void control_tell(struct control *control, struct slice name, struct slice word, struct slice query)
{
    struct fleet *fleet = control->fleet;
    enum agent_mode mode = AGENT_NORMAL;
    bool is_hangup = slice_equals(word, "hangup");
    int told = 0, r = 0;

    if (!is_hangup && !agent_mode_parse(word, &mode)) {
        peer_answer(&control->peer, 400, "text/plain", SLICE("no such mode\n"));
        return;
    }
    for (int i = 0; i < fleet->settings.count; i++) {
        struct agent *agent = &fleet->agents[i];

        if (!slice_equals(name, "all") && !slice_equals(name, agent->name))
            continue;
        told++;
        if (is_hangup)
            agent_hang_up(agent);
        else if (agent_set_mode(agent, mode, parse_ms(query, agent->slow_ms)) != 0)
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
