/*
 * peer.c - a WebSocket connection: reads and writes the handshake, and exchanges messages.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/random.h"
#include "url.h"

static struct peer *peer_of(struct link *link)
{
    return CONTAINER_OF(link, struct peer, link);
}

static void peer_end(struct peer *peer, int code, int err, int status)
{
    if (peer->has_ended)
        return;
    peer->has_ended = true;
    peer->ops->ended(peer, code, err, status);
}

/* The value of a header line without the white space around it; .data is NULL if there is none. */
static struct slice head_value(struct slice head, const char *name)
{
    size_t name_len = strlen(name);
    const char *at = head.data;
    const char *end = head.data + head.len;

    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        struct slice value;
        const char *eol;

        at++;
        if ((size_t)(end - at) <= name_len || strncasecmp(at, name, name_len) != 0 || at[name_len] != ':')
            continue;
        value.data = at + name_len + 1;
        eol = memchr(value.data, '\r', (size_t)(end - value.data));
        if (!eol)
            break;
        while (value.data < eol && *value.data == ' ')
            value.data++;
        value.len = (size_t)(eol - value.data);
        while (value.len > 0 && value.data[value.len - 1] == ' ')
            value.len--;
        return value;
    }
    return (struct slice){NULL, 0};
}

struct slice peer_header(const struct peer *peer, const char *name)
{
    return head_value(strbuf_slice(&peer->head), name);
}

static bool value_is(struct slice value, const char *text)
{
    return value.len == strlen(text) && strncasecmp(value.data, text, value.len) == 0;
}

/* "GET /path HTTP/1.1" */
static void peer_read_request(struct peer *peer, struct slice head)
{
    const char *line_end = memchr(head.data, '\r', head.len);
    const char *space = memchr(head.data, ' ', (size_t)(line_end - head.data));
    const char *last = memrchr(head.data, ' ', (size_t)(line_end - head.data));
    struct slice key = head_value(head, "Sec-WebSocket-Key");

    if (!space || space == last) {
        peer_answer(peer, 400, "text/plain", SLICE("that is no request\n"));
        return;
    }
    peer->is_upgrade = key.data && value_is(head_value(head, "Upgrade"), "websocket") && ws_key_is_valid(key);
    if (peer->is_upgrade) {
        memcpy(peer->key, key.data, key.len);
        peer->key[key.len] = '\0';
    }
    peer->ops->request(peer, (struct slice){head.data, (size_t)(space - head.data)},
                       (struct slice){space + 1, (size_t)(last - space - 1)});
}

static void peer_read_answer(struct peer *peer, struct slice head)
{
    struct slice accept = head_value(head, "Sec-WebSocket-Accept");
    char expected[WS_ACCEPT_LEN + 1];
    char status_text[4] = "";
    int status;

    if (head.len < 12 || memcmp(head.data, "HTTP/1.1 ", 9) != 0) {
        peer_end(peer, WS_CLOSE_ABNORMAL, -EPROTO, 0);
        return;
    }
    memcpy(status_text, head.data + 9, 3);
    status = (int)strtol(status_text, NULL, 10);
    ws_accept_key(slice_of(peer->key), expected);
    if (status != 101) {
        peer_end(peer, WS_CLOSE_ABNORMAL, -ECONNREFUSED, status);
    } else if (!accept.data || !slice_equals(accept, expected)) {
        peer_end(peer, WS_CLOSE_ABNORMAL, -EPROTO, status);
    } else {
        peer->is_open = true;
        peer->ops->open(peer);
    }
}

static int peer_take_close(struct peer *peer, struct slice payload)
{
    int code = ws_close_code(payload);

    if (code < 0)
        return code;
    if (!peer->has_sent_close)
        peer_say_goodbye(peer, code == WS_CLOSE_NONE ? WS_CLOSE_NORMAL : code);
    peer_end(peer, code, 0, 0);
    return 0;
}

static int peer_take_message(struct peer *peer, const struct ws_message *message)
{
    char answer[WS_HEADER_MAX + WS_CONTROL_MAX];

    switch (message->opcode) {
    case WS_PING:
        memcpy(answer + WS_HEADER_MAX, message->data, message->len);
        return peer_send(peer, WS_PONG, answer + WS_HEADER_MAX, message->len) == 0 ? 0 : -EPIPE;
    case WS_CLOSE:
        return peer_take_close(peer, (struct slice){message->data, message->len});
    case WS_PONG:
    case WS_CONTINUATION:
        break;
    case WS_TEXT:
    case WS_BINARY:
        peer->ops->message(peer, message->opcode, message->data, message->len);
        break;
    }
    return 0;
}

static void peer_feed(struct peer *peer, char *data, size_t len)
{
    struct ws_input input = {data, len};
    struct ws_message message;
    int r = 0;

    /* A message may end the peer; its memory goes later. */
    while (r == 0 && !peer->has_ended && !link_is_closing(&peer->link)) {
        r = ws_reader_next(&peer->reader, &input, &message);
        if (r == 0)
            return;
        if (r > 0)
            r = peer_take_message(peer, &message);
    }
    if (r >= 0)
        return;
    peer_say_goodbye(peer, WS_CLOSE_PROTOCOL);
    peer_end(peer, WS_CLOSE_ABNORMAL, r, 0);
}

/* Until the handshake is done, what comes is kept; what came behind its head is already frames. */
static void peer_read_head(struct peer *peer, const char *data, size_t len)
{
    char *end;
    size_t head_len, rest;

    strbuf_append(&peer->head, data, len);
    if (strbuf_failed(&peer->head)) {
        peer_end(peer, WS_CLOSE_ABNORMAL, -EMSGSIZE, 0);
        return;
    }
    end = memmem(peer->head.data, peer->head.len, "\r\n\r\n", 4);
    if (!end || peer->has_request)
        return;
    head_len = (size_t)(end + 4 - peer->head.data);
    rest = peer->head.len - head_len;
    if (peer->is_server) {
        /* A client that sends frames before it has an answer has to wait for it like everybody. */
        link_read_stop(&peer->link);
        peer->has_request = true;
        peer_read_request(peer, (struct slice){peer->head.data, head_len});
        return;
    }
    peer_read_answer(peer, (struct slice){peer->head.data, head_len});
    if (peer->is_open)
        peer_feed(peer, peer->head.data + head_len, rest);
    strbuf_release(&peer->head);
}

static void peer_link_data(struct link *link, char *data, size_t len)
{
    struct peer *peer = peer_of(link);

    if (peer->is_open)
        peer_feed(peer, data, len);
    else if (!peer->has_ended)
        peer_read_head(peer, data, len);
}

static void peer_link_connected(struct link *link)
{
    struct peer *peer = peer_of(link);
    int r = link_write(link, peer->head.data, peer->head.len);

    strbuf_reset(&peer->head);
    if (r != 0)
        peer_end(peer, WS_CLOSE_ABNORMAL, r, 0);
}

static void peer_link_drained(struct link *link)
{
    struct peer *peer = peer_of(link);

    if (peer->has_ended)
        link_close(link);
    else if (peer->ops->drained)
        peer->ops->drained(peer);
}

static void peer_link_ended(struct link *link, int err)
{
    peer_end(peer_of(link), WS_CLOSE_ABNORMAL, err, 0);
}

static void peer_link_closed(struct link *link)
{
    struct peer *peer = peer_of(link);

    ws_reader_release(&peer->reader);
    strbuf_release(&peer->head);
    peer->ops->closed(peer);
}

static const struct link_ops peer_link_ops = {
    .connected = peer_link_connected,
    .data = peer_link_data,
    .drained = peer_link_drained,
    .ended = peer_link_ended,
    .closed = peer_link_closed,
};

static void peer_init(struct peer *peer, const struct peer_ops *ops, bool is_server)
{
    *peer = (struct peer){.ops = ops, .is_server = is_server};
    ws_reader_init(&peer->reader, is_server, PEER_MESSAGE_MAX, false);
    strbuf_init(&peer->head, NULL, PEER_HEAD_MAX + NET_READ_MAX);
}

int peer_connect(struct peer *peer, struct net *net, const struct peer_ops *ops,
                 const struct sockaddr *address, const struct url *url, const char *extra)
{
    peer_init(peer, ops, false);
    ws_make_key(peer->key);
    if (!random_bytes_wait(&peer->mask, sizeof(peer->mask)))
        abort();
    strbuf_printf(&peer->head,
                  "GET %s HTTP/1.1\r\nHost: %s:%u\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s\r\n",
                  url->path, url->host, url->port, peer->key, extra);
    return link_connect(&peer->link, net, &peer_link_ops, address);
}

int peer_take(struct peer *peer, struct net *net, const struct peer_ops *ops, uv_stream_t *listener)
{
    peer_init(peer, ops, true);
    return link_accept(&peer->link, net, &peer_link_ops, listener);
}

void peer_accept(struct peer *peer)
{
    const char *end = memmem(peer->head.data, peer->head.len, "\r\n\r\n", 4);
    size_t head_len = (size_t)(end + 4 - peer->head.data);
    struct strbuf text;
    int r;

    assert(peer->is_server && peer->is_upgrade);
    strbuf_init(&text, NULL, PEER_HEAD_MAX);
    r = ws_write_accept(&text, slice_of(peer->key), "");
    if (r == 0)
        r = strbuf_failed(&text) ? -ENOMEM : link_write(&peer->link, text.data, text.len);
    strbuf_release(&text);
    if (r != 0) {
        peer_end(peer, WS_CLOSE_ABNORMAL, r, 0);
        return;
    }
    peer->is_open = true;
    link_read_start(&peer->link);
    peer_feed(peer, peer->head.data + head_len, peer->head.len - head_len);
    strbuf_release(&peer->head);
}

void peer_answer(struct peer *peer, int status, const char *content_type, struct slice body)
{
    struct strbuf text;

    strbuf_init(&text, NULL, body.len + 1024);
    strbuf_printf(&text,
                  "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                  status, status < 300 ? "OK" : "No", content_type, body.len);
    strbuf_append(&text, body.data, body.len);
    if (!strbuf_failed(&text) && link_write(&peer->link, text.data, text.len) == 0)
        peer_end(peer, WS_CLOSE_ABNORMAL, 0, status);
    else
        peer_end(peer, WS_CLOSE_ABNORMAL, -EPIPE, status);
    strbuf_release(&text);
}

static char *peer_frame(struct peer *peer, enum ws_opcode opcode, char *data, size_t len, size_t *ret_len)
{
    uint8_t mask[WS_MASK_LEN];

    /* The mask must be hard to guess for those who choose the data; here nobody does. */
    peer->mask = peer->mask * 1664525u + 1013904223u;
    memcpy(mask, &peer->mask, sizeof(mask));
    return ws_frame_in_place(opcode, data, len, peer->is_server ? NULL : mask, ret_len);
}

int peer_send(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    size_t frame_len;
    char *frame;

    if (!peer->is_open)
        return -ENOTCONN;
    frame = peer_frame(peer, opcode, data, len, &frame_len);
    return link_write(&peer->link, frame, frame_len);
}

void peer_send_half(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    size_t frame_len;
    char *frame;

    if (!peer->is_open)
        return;
    frame = peer_frame(peer, opcode, data, len, &frame_len);
    (void)!link_write(&peer->link, frame, (frame_len + 1) / 2);
}

void peer_say_goodbye(struct peer *peer, int code)
{
    char frame[WS_HEADER_MAX + 2];

    if (!peer->is_open || peer->has_sent_close)
        return;
    peer->has_sent_close = true;
    frame[WS_HEADER_MAX] = (char)(code >> 8);
    frame[WS_HEADER_MAX + 1] = (char)code;
    (void)!peer_send(peer, WS_CLOSE, frame + WS_HEADER_MAX, 2);
}

void peer_close(struct peer *peer)
{
    peer->has_ended = true;
    link_close(&peer->link);
}

void peer_reset(struct peer *peer)
{
    peer->has_ended = true;
    link_reset(&peer->link);
}
