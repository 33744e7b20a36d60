/*
 * frame.c - reads and writes the headers of WebSocket frames, masks payloads, judges close codes.
 */
#include "ws/frame.h"

enum {
    FRAME_FINAL = 0x80,
    FRAME_RESERVED = 0x70,
    FRAME_OPCODE = 0x0f,
    FRAME_MASKED = 0x80,
    FRAME_LEN = 0x7f,
    FRAME_LEN_16 = 126,
    FRAME_LEN_64 = 127,
};

static bool opcode_is_known(unsigned opcode)
{
    return opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG);
}

static bool first_byte_is_valid(unsigned first)
{
    unsigned opcode = first & FRAME_OPCODE;

    return !(first & FRAME_RESERVED) && opcode_is_known(opcode) &&
           (opcode < WS_CLOSE || (first & FRAME_FINAL));
}

/* How many bytes the length takes behind the first two. */
static size_t length_size(unsigned len)
{
    return len == FRAME_LEN_16 ? 2 : len == FRAME_LEN_64 ? 8 : 0;
}

static uint64_t read_length(const uint8_t *bytes, size_t size)
{
    uint64_t len = 0;

    for (size_t i = 0; i < size; i++)
        len = len << 8 | bytes[i];
    return len;
}

int ws_header_parse(const char *data, size_t len, struct ws_header *ret_header)
{
    const uint8_t *bytes = (const uint8_t *)data;
    struct ws_header header = {.size = 2};
    size_t wide;

    if (len > 0 && !first_byte_is_valid(bytes[0]))
        return -EPROTO;
    if (len < 2)
        return 0;
    header.opcode = (enum ws_opcode)(bytes[0] & FRAME_OPCODE);
    header.is_final = bytes[0] & FRAME_FINAL;
    header.is_masked = bytes[1] & FRAME_MASKED;
    header.len = bytes[1] & FRAME_LEN;
    if (ws_is_control(header.opcode) && header.len > WS_CONTROL_MAX)
        return -EPROTO;
    wide = length_size((unsigned)header.len);
    if (wide == 8 && len > 2 && (bytes[2] & 0x80))
        return -EPROTO;
    header.size += wide + (header.is_masked ? WS_MASK_LEN : 0);
    if (len < header.size)
        return 0;
    if (wide)
        header.len = read_length(bytes + 2, wide);
    if (header.is_masked)
        memcpy(header.mask, bytes + 2 + wide, WS_MASK_LEN);
    *ret_header = header;
    return 1;
}

size_t ws_header_write(const struct ws_header *header, char ret_bytes[WS_HEADER_MAX])
{
    uint8_t *bytes = (uint8_t *)ret_bytes;
    unsigned short_len = header->len < FRAME_LEN_16  ? (unsigned)header->len
                         : header->len <= UINT16_MAX ? FRAME_LEN_16
                                                     : FRAME_LEN_64;
    size_t wide = length_size(short_len);
    size_t size = 2;

    assert(opcode_is_known(header->opcode));
    assert(header->len <= INT64_MAX);
    assert(!ws_is_control(header->opcode) || (header->is_final && header->len <= WS_CONTROL_MAX));
    bytes[0] = (uint8_t)((header->is_final ? FRAME_FINAL : 0) | header->opcode);
    bytes[1] = (uint8_t)((header->is_masked ? FRAME_MASKED : 0) | short_len);
    for (size_t i = 0; i < wide; i++)
        bytes[size++] = (uint8_t)(header->len >> (8 * (wide - 1 - i)));
    if (header->is_masked) {
        memcpy(bytes + size, header->mask, WS_MASK_LEN);
        size += WS_MASK_LEN;
    }
    return size;
}

/* Eight bytes at a time: for the simulators it is most of the work, and it runs for each frame here. */
void ws_mask(char *data, size_t len, const uint8_t mask[WS_MASK_LEN], uint64_t offset)
{
    uint8_t turned[WS_MASK_LEN];
    uint64_t wide, word;
    uint32_t narrow;
    size_t i = 0;

    for (size_t at = 0; at < WS_MASK_LEN; at++)
        turned[at] = mask[(offset + at) % WS_MASK_LEN];
    memcpy(&narrow, turned, sizeof(narrow));
    wide = (uint64_t)narrow << 32 | narrow;
    for (; i + sizeof(word) <= len; i += sizeof(word)) {
        memcpy(&word, data + i, sizeof(word));
        word ^= wide;
        memcpy(data + i, &word, sizeof(word));
    }
    for (; i < len; i++)
        data[i] = (char)((uint8_t)data[i] ^ turned[i % WS_MASK_LEN]);
}

bool ws_close_code_is_valid(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

int ws_close_code(struct slice payload)
{
    const uint8_t *bytes = (const uint8_t *)payload.data;
    int code;

    if (payload.len == 0)
        return WS_CLOSE_NONE;
    if (payload.len < 2)
        return -EPROTO;
    code = bytes[0] << 8 | bytes[1];
    return ws_close_code_is_valid(code) ? code : -EPROTO;
}

void ws_write_frame(struct strbuf *buf, enum ws_opcode opcode, struct slice payload,
                    const uint8_t mask[WS_MASK_LEN])
{
    struct ws_header header = {
        .opcode = opcode, .is_final = true, .is_masked = mask != NULL, .len = payload.len};
    char bytes[WS_HEADER_MAX];
    size_t start;

    if (mask)
        memcpy(header.mask, mask, WS_MASK_LEN);
    strbuf_append(buf, bytes, ws_header_write(&header, bytes));
    start = buf->len;
    strbuf_append(buf, payload.data, payload.len);
    if (mask && !strbuf_failed(buf))
        ws_mask(buf->data + start, payload.len, mask, 0);
}

void ws_write_close(struct strbuf *buf, int code, struct slice reason, const uint8_t mask[WS_MASK_LEN])
{
    char payload[WS_CONTROL_MAX];
    size_t len = 0;

    if (code != 0 && code != WS_CLOSE_NONE) {
        assert(ws_close_code_is_valid(code));
        payload[0] = (char)(code >> 8);
        payload[1] = (char)code;
        len = min_u64(reason.len, WS_REASON_MAX);
        if (len > 0)
            memcpy(payload + 2, reason.data, len);
        len += 2;
    }
    ws_write_frame(buf, WS_CLOSE, (struct slice){payload, len}, mask);
}

char *ws_frame_in_place(enum ws_opcode opcode, char *payload, size_t len, const uint8_t mask[WS_MASK_LEN],
                        size_t *ret_len)
{
    struct ws_header header = {.opcode = opcode, .is_final = true, .is_masked = mask != NULL, .len = len};
    char bytes[WS_HEADER_MAX];
    size_t size;

    if (mask) {
        memcpy(header.mask, mask, WS_MASK_LEN);
        ws_mask(payload, len, mask, 0);
    }
    size = ws_header_write(&header, bytes);
    memcpy(payload - size, bytes, size);
    *ret_len = size + len;
    return payload - size;
}
