/*
 * ws.c - encodes and decodes WebSocket frames, and computes the keys of the handshake.
 */
#include "ws.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/random.h"

#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum {
    FRAME_FIN = 0x80,
    FRAME_RESERVED = 0x70,
    FRAME_OPCODE = 0x0f,
    FRAME_MASKED = 0x80,
    FRAME_LEN = 0x7f,
    FRAME_LEN_16 = 126,
    FRAME_LEN_64 = 127,
};

void ws_make_key(char ret_key[WS_KEY_LEN + 1])
{
    unsigned char bytes[16];

    if (!random_bytes_wait(bytes, sizeof(bytes)))
        abort();
    EVP_EncodeBlock((unsigned char *)ret_key, bytes, sizeof(bytes));
}

void ws_accept_key(struct slice key, char ret_accept[WS_ACCEPT_LEN + 1])
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    struct strbuf text;

    strbuf_init(&text, NULL, 1024);
    strbuf_append(&text, key.data, key.len);
    strbuf_append_str(&text, WS_GUID);
    SHA1((const unsigned char *)(text.data ? text.data : ""), text.len, digest);
    strbuf_release(&text);
    EVP_EncodeBlock((unsigned char *)ret_accept, digest, sizeof(digest));
}

/* Eight bytes at a time: it is most of what a simulated caller does. */
static void ws_mask(char *data, size_t len, const uint8_t mask[4])
{
    uint64_t wide, word;
    size_t i = 0;
    uint32_t narrow;

    memcpy(&narrow, mask, sizeof(narrow));
    wide = (uint64_t)narrow << 32 | narrow;
    for (; i + sizeof(word) <= len; i += sizeof(word)) {
        memcpy(&word, data + i, sizeof(word));
        word ^= wide;
        memcpy(data + i, &word, sizeof(word));
    }
    for (; i < len; i++)
        data[i] = (char)(data[i] ^ mask[i % 4]);
}

char *ws_frame(enum ws_opcode opcode, char *payload, size_t len, const uint8_t mask[4], size_t *ret_len)
{
    uint8_t header[WS_HEADER_MAX] = {(uint8_t)(FRAME_FIN | opcode)};
    size_t used = 2;

    if (len < FRAME_LEN_16) {
        header[1] = (uint8_t)len;
    } else if (len <= UINT16_MAX) {
        header[1] = FRAME_LEN_16;
        header[used++] = (uint8_t)(len >> 8);
        header[used++] = (uint8_t)len;
    } else {
        header[1] = FRAME_LEN_64;
        for (int shift = 56; shift >= 0; shift -= 8)
            header[used++] = (uint8_t)((uint64_t)len >> shift);
    }
    if (mask) {
        header[1] |= FRAME_MASKED;
        memcpy(header + used, mask, 4);
        used += 4;
        ws_mask(payload, len, mask);
    }
    memcpy(payload - used, header, used);
    *ret_len = used + len;
    return payload - used;
}

void ws_decoder_init(struct ws_decoder *decoder, bool is_server)
{
    *decoder = (struct ws_decoder){.is_server = is_server};
    /* Beside a frame there may be the rest of what was read with it. */
    strbuf_init(&decoder->pending, NULL, WS_MESSAGE_MAX + (1 << 17));
    strbuf_init(&decoder->message, NULL, WS_MESSAGE_MAX + 1);
}

void ws_decoder_release(struct ws_decoder *decoder)
{
    strbuf_release(&decoder->pending);
    strbuf_release(&decoder->message);
}

struct frame {
    enum ws_opcode opcode;
    bool is_final;
    const uint8_t *mask; /* NULL: none */
    size_t header_len;
    size_t len;
};

/* 1: *ret_frame is complete within `len` bytes. 0: more bytes are needed. */
static int frame_parse(const struct ws_decoder *decoder, const char *data, size_t len,
                       struct frame *ret_frame)
{
    const uint8_t *at = (const uint8_t *)data;
    struct frame frame = {.header_len = 2};
    uint64_t payload = 0;
    size_t wide;

    if (len < 2)
        return 0;
    frame.opcode = (enum ws_opcode)(at[0] & FRAME_OPCODE);
    frame.is_final = at[0] & FRAME_FIN;
    if ((at[0] & FRAME_RESERVED) || !!(at[1] & FRAME_MASKED) != decoder->is_server)
        return -EPROTO;
    payload = at[1] & FRAME_LEN;
    wide = payload == FRAME_LEN_16 ? 2 : payload == FRAME_LEN_64 ? 8 : 0;
    if (frame.opcode >= WS_CLOSE && (frame.opcode > WS_PONG || wide || !frame.is_final))
        return -EPROTO;
    if (frame.opcode > WS_BINARY && frame.opcode < WS_CLOSE)
        return -EPROTO;
    if (len < frame.header_len + wide)
        return 0;
    if (wide) {
        payload = 0;
        for (size_t i = 0; i < wide; i++)
            payload = payload << 8 | at[2 + i];
        frame.header_len += wide;
    }
    if (payload > WS_MESSAGE_MAX)
        return -EMSGSIZE;
    if (decoder->is_server) {
        frame.mask = at + frame.header_len;
        frame.header_len += 4;
    }
    frame.len = (size_t)payload;
    if (len < frame.header_len + frame.len)
        return 0;
    *ret_frame = frame;
    return 1;
}

static int decoder_take_fragment(struct ws_decoder *decoder, const struct frame *frame, const char *payload,
                                 ws_message_fn fn, void *arg)
{
    int r;

    if (frame->opcode != WS_CONTINUATION)
        decoder->opcode = frame->opcode;
    if (decoder->message.len + frame->len > WS_MESSAGE_MAX)
        return -EMSGSIZE;
    strbuf_append(&decoder->message, payload, frame->len);
    if (strbuf_failed(&decoder->message))
        return -ENOMEM;
    if (!frame->is_final)
        return 0;
    r = fn(arg, decoder->opcode, decoder->message.data, decoder->message.len);
    decoder->opcode = WS_CONTINUATION;
    strbuf_reset(&decoder->message);
    return r;
}

static int decoder_take(struct ws_decoder *decoder, const struct frame *frame, char *payload,
                        ws_message_fn fn, void *arg)
{
    bool is_inside = decoder->opcode != WS_CONTINUATION;

    if (frame->mask)
        ws_mask(payload, frame->len, frame->mask);
    if (frame->opcode >= WS_CLOSE)
        return fn(arg, frame->opcode, payload, frame->len);
    if (is_inside != (frame->opcode == WS_CONTINUATION))
        return -EPROTO;
    if (!is_inside && frame->is_final)
        return fn(arg, frame->opcode, payload, frame->len);
    return decoder_take_fragment(decoder, frame, payload, fn, arg);
}

int ws_decoder_feed(struct ws_decoder *decoder, char *data, size_t len, ws_message_fn fn, void *arg)
{
    bool is_kept = decoder->pending.len > 0;
    struct frame frame;
    size_t used = 0;
    int r;

    if (is_kept) {
        strbuf_append(&decoder->pending, data, len);
        if (strbuf_failed(&decoder->pending))
            return -ENOMEM;
        data = decoder->pending.data;
        len = decoder->pending.len;
    }
    while ((r = frame_parse(decoder, data + used, len - used, &frame)) > 0) {
        char *payload = data + used + frame.header_len;

        used += frame.header_len + frame.len;
        r = decoder_take(decoder, &frame, payload, fn, arg);
        if (r != 0)
            return r;
    }
    if (r < 0)
        return r;
    if (is_kept) {
        memmove(data, data + used, len - used);
        decoder->pending.len = len - used;
        return 0;
    }
    if (used < len)
        strbuf_append(&decoder->pending, data + used, len - used);
    return strbuf_failed(&decoder->pending) ? -ENOMEM : 0;
}
