/*
 * ws.h - WebSocket (RFC 6455) as bytes: the key of the handshake, frames out, frames in.
 *
 * Does no I/O. The simulators have a codec of their own, because they check a router that carries the
 * bytes through unread.
 */
#ifndef TOOLS_WS_H
#define TOOLS_WS_H

#include "base/strbuf.h"

enum ws_opcode {
    WS_CONTINUATION = 0x0,
    WS_TEXT = 0x1,
    WS_BINARY = 0x2,
    WS_CLOSE = 0x8,
    WS_PING = 0x9,
    WS_PONG = 0xa,
};

enum {
    WS_KEY_LEN = 24,    /* of Sec-WebSocket-Key: 16 bytes in base64 */
    WS_ACCEPT_LEN = 28, /* of Sec-WebSocket-Accept */
    WS_HEADER_MAX = 14,
    WS_CONTROL_MAX = 125,
    WS_MESSAGE_MAX = 1 << 20, /* a longer message ends the connection */
    WS_CLOSE_NORMAL = 1000,
    WS_CLOSE_PROTOCOL = 1002,
    WS_CLOSE_NONE = 1005,     /* a close frame without a code */
    WS_CLOSE_ABNORMAL = 1006, /* no close frame at all */
};

/* A random key for a client. */
void ws_make_key(char ret_key[WS_KEY_LEN + 1]);

/* What the server must answer to this key. */
void ws_accept_key(struct slice key, char ret_accept[WS_ACCEPT_LEN + 1]);

/*
 * Makes one final frame in place: `payload` has WS_HEADER_MAX bytes of room in front of it, and is masked
 * where it lies if `mask` is not NULL. Returns where the frame begins; *ret_len is its whole length.
 */
char *ws_frame(enum ws_opcode opcode, char *payload, size_t len, const uint8_t mask[4], size_t *ret_len);

/*
 * A whole message or control frame. The bytes may be changed, and are gone after the return. Anything but 0
 * stops the decoder; ws_decoder_feed returns it.
 */
typedef int (*ws_message_fn)(void *arg, enum ws_opcode opcode, char *data, size_t len);

struct ws_decoder {
    bool is_server;        /* a server gets masked frames, a client unmasked ones */
    struct strbuf pending; /* the beginning of a frame */
    struct strbuf message; /* the beginning of a message in fragments */
    enum ws_opcode opcode; /* of that message; WS_CONTINUATION: there is none */
};

void ws_decoder_init(struct ws_decoder *decoder, bool is_server);
void ws_decoder_release(struct ws_decoder *decoder);

/*
 * Hands over every message that is complete with these bytes, which are changed.
 *
 * -EPROTO: that is no WebSocket. -EMSGSIZE: a message is too long. -ENOMEM.
 */
int ws_decoder_feed(struct ws_decoder *decoder, char *data, size_t len, ws_message_fn fn,
                    void *arg) MUST_CHECK;

#endif
