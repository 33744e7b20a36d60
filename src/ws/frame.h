/*
 * frame.h - the headers of WebSocket frames (RFC 6455), masking, and close codes.
 *
 * Pure functions on bytes; no memory, no I/O, no log. Reserved bits, unknown opcodes and control frames that
 * are fragmented or longer than WS_CONTROL_MAX are refused. A length that is written with more bytes than it
 * needs is accepted, because it means the same to everybody. Text is not checked to be UTF-8: the agents do.
 */
#ifndef WS_FRAME_H
#define WS_FRAME_H

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
    WS_MASK_LEN = 4,
    WS_HEADER_MAX = 14,
    WS_CONTROL_MAX = 125, /* of a control frame's payload */
    WS_REASON_MAX = WS_CONTROL_MAX - 2,
};

/* RFC 6455, 7.4.1, and the registry behind it. */
enum {
    WS_CLOSE_NORMAL = 1000,
    WS_CLOSE_GOING_AWAY = 1001,
    WS_CLOSE_PROTOCOL = 1002,
    WS_CLOSE_NONE = 1005,     /* a close frame without a code; never sent */
    WS_CLOSE_ABNORMAL = 1006, /* no close frame at all; never sent */
    WS_CLOSE_TOO_BIG = 1009,
    WS_CLOSE_ERROR = 1011,
    WS_CLOSE_RESTART = 1012,
    WS_CLOSE_TRY_LATER = 1013,
};

struct ws_header {
    enum ws_opcode opcode;
    bool is_final;
    bool is_masked;
    uint8_t mask[WS_MASK_LEN];
    uint64_t len; /* of the payload; below 2^63 */
    size_t size;  /* of the header itself, 2 to WS_HEADER_MAX */
};

static inline bool ws_is_control(enum ws_opcode opcode)
{
    return opcode >= WS_CLOSE;
}

/*
 * Reads the header at the beginning of `data`.
 *
 * 1: it is complete; *ret_header is set, and only then. 0: more bytes are needed. -EPROTO: that is none; said
 * as soon as the bytes that are there show it.
 */
int ws_header_parse(const char *data, size_t len, struct ws_header *ret_header) MUST_CHECK;

/* Writes the header for opcode, is_final, is_masked, mask and len, and returns its size. */
size_t ws_header_write(const struct ws_header *header, char ret_bytes[WS_HEADER_MAX]);

/* Masks or unmasks in place. `offset`: how many bytes of the same payload came before `data`. */
void ws_mask(char *data, size_t len, const uint8_t mask[WS_MASK_LEN], uint64_t offset);

/* May this code stand in a close frame? 1000-1003, 1007-1014, 3000-4999. */
bool ws_close_code_is_valid(int code);

/* The code of a close frame's payload (unmasked): WS_CLOSE_NONE if it is empty; -EPROTO: not a valid one. */
int ws_close_code(struct slice payload);

/*
 * Append a whole, final frame. `mask` NULL: unmasked, as a server sends it; else masked with these bytes.
 * Control frames: the payload has at most WS_CONTROL_MAX bytes (asserted). Check with strbuf_failed.
 */
void ws_write_frame(struct strbuf *buf, enum ws_opcode opcode, struct slice payload,
                    const uint8_t mask[WS_MASK_LEN]);

/* `code` 0 or WS_CLOSE_NONE: without a code, and the reason is left out. A longer reason is cut. */
void ws_write_close(struct strbuf *buf, int code, struct slice reason, const uint8_t mask[WS_MASK_LEN]);

/*
 * Makes a final frame in place: `payload` has WS_HEADER_MAX bytes of room in front of it, and is masked where
 * it lies if `mask` is not NULL. Returns where the frame begins; *ret_len is its whole length.
 */
char *ws_frame_in_place(enum ws_opcode opcode, char *payload, size_t len, const uint8_t mask[WS_MASK_LEN],
                        size_t *ret_len);

#endif
