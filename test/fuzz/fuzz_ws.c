/*
 * fuzz_ws.c - WebSocket frames: tracker, reader and a simple parser agree, wherever the bytes are cut.
 *
 * An input is four bytes of settings, a byte that says where the stream is cut, and the stream: its bytes as
 * they are, or a list of frames to write (opcode, flags, length, some payload). What is found must not depend
 * on the cuts, and every message that was found is found again when it is written anew.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "ws/reader.h"
#include "ws/tracker.h"

enum {
    STREAM_MAX = 1 << 17,
    FOUND_MAX = 1 << 21,
};

struct settings {
    bool is_masked;
    bool drops_large;
    size_t message_max;
    size_t head_want;
    uint8_t cut;
};

/* A text with everything that was found, to be compared. */
struct found {
    char *text;
    size_t len;
};

static void note(struct found *found, const void *data, size_t len)
{
    assert(found->len + len <= FOUND_MAX);
    if (len > 0)
        memcpy(found->text + found->len, data, len);
    found->len += len;
}

static void note_message(struct found *found, unsigned opcode, size_t end, const char *data, size_t len)
{
    uint64_t numbers[] = {opcode, end, len};

    note(found, numbers, sizeof(numbers));
    note(found, data, len);
}

/* The header at `at`, read as the standard draws it. 1, 0 and -EPROTO as ws_header_parse. */
static int simple_header(const uint8_t *at, size_t len, struct ws_header *ret_header)
{
    unsigned opcode, bits;
    size_t need = 2;

    if (len == 0)
        return 0;
    opcode = at[0] % 16;
    if (at[0] / 16 % 8 || (opcode > 2 && opcode < 8) || opcode > 10 || (opcode >= 8 && at[0] < 128))
        return -EPROTO;
    if (len == 1)
        return 0;
    bits = at[1] % 128;
    if (opcode >= 8 && bits > 125)
        return -EPROTO;
    if (bits == 127 && len > 2 && at[2] >= 128)
        return -EPROTO;
    need += bits == 127 ? 8 : bits == 126 ? 2 : 0;
    need += at[1] >= 128 ? 4 : 0;
    if (len < need)
        return 0;
    *ret_header = (struct ws_header){.opcode = (enum ws_opcode)opcode,
                                     .is_final = at[0] >= 128,
                                     .is_masked = at[1] >= 128,
                                     .len = bits,
                                     .size = need};
    if (bits == 126)
        ret_header->len = (uint64_t)at[2] * 256 + at[3];
    if (bits == 127) {
        ret_header->len = 0;
        for (size_t i = 2; i < 10; i++)
            ret_header->len = ret_header->len * 256 + at[i];
    }
    if (ret_header->is_masked)
        memcpy(ret_header->mask, at + need - 4, 4);
    return 1;
}

/* The result of the simple parser. */
struct simple {
    struct found messages; /* as a reader without a limit sees them */
    struct found events;   /* as a tracker sees them */
    struct found dropped;  /* as a reader with the limit sees them */
    int tracker_result;
    int reader_result; /* with the limit */
    bool is_inside;
};

static void simple_message(struct simple *simple, const struct settings *settings, unsigned opcode,
                           size_t end, const char *data, size_t len, bool is_control)
{
    bool is_large = !is_control && len > settings->message_max;

    note_message(&simple->messages, opcode, end, data, len);
    note_message(&simple->events, opcode, end, data,
                 is_control          ? len
                 : opcode == WS_TEXT ? min_u64(len, settings->head_want)
                                     : 0);
    if (simple->reader_result == 0)
        note_message(&simple->dropped, is_large ? opcode + 100 : opcode, end, data, is_large ? 0 : len);
}

/* Reads the stream as a whole; what stands there is never changed. */
static void simple_parse(const struct settings *settings, const uint8_t *bytes, size_t len,
                         struct simple *simple)
{
    static char message[STREAM_MAX], payload[STREAM_MAX];
    size_t at = 0, message_len = 0;
    unsigned opcode = 0;
    struct ws_header header;
    int r;

    while ((r = simple_header(bytes + at, len - at, &header)) > 0) {
        bool is_control = header.opcode >= 8;

        if (header.is_masked != settings->is_masked ||
            (!is_control && (opcode != 0) != (header.opcode == WS_CONTINUATION)))
            r = -EPROTO;
        if (r < 0)
            break;
        if (!is_control && !settings->drops_large && simple->reader_result == 0 &&
            (header.len > settings->message_max || message_len + header.len > settings->message_max))
            simple->reader_result = -EMSGSIZE;
        at += header.size;
        if (!is_control && opcode == 0)
            opcode = header.opcode;
        if (header.len > len - at) {
            simple->is_inside = true;
            break;
        }
        for (size_t i = 0; i < header.len; i++)
            payload[i] = (char)(bytes[at + i] ^ (header.is_masked ? header.mask[i % 4] : 0));
        at += header.len;
        if (is_control) {
            simple_message(simple, settings, header.opcode, at, payload, header.len, true);
            continue;
        }
        memcpy(message + message_len, payload, header.len);
        message_len += header.len;
        if (!header.is_final)
            continue;
        simple_message(simple, settings, opcode, at, message, message_len, false);
        opcode = 0;
        message_len = 0;
    }
    simple->is_inside = simple->is_inside || opcode != 0 || (r == 0 && at < len);
    simple->tracker_result = r < 0 ? r : 0;
    if (simple->reader_result == 0)
        simple->reader_result = simple->tracker_result;
}

/* How many bytes the next read brings. */
static size_t next_cut(uint8_t cut, size_t *turn, size_t left)
{
    size_t len = cut == 0 ? left : cut < 128 ? cut : 1 + ((*turn)++ * 37 + cut) % 61;

    return min_u64(len, left);
}

static int track(const struct settings *settings, const uint8_t *bytes, size_t len, struct found *found,
                 bool *ret_is_inside)
{
    struct ws_tracker tracker;
    size_t turn = 0, at = 0;
    uint64_t boundary = 0;

    ws_tracker_init(&tracker, settings->is_masked, settings->head_want);
    while (at < len) {
        size_t part = next_cut(settings->cut, &turn, len - at);
        char *copy = malloc(part); /* of its own: a byte too far is seen */
        size_t used = 0;

        memcpy(copy, bytes + at, part);
        while (used < part) {
            struct ws_step step;

            if (ws_tracker_next(&tracker, copy + used, part - used, &step) < 0) {
                free(copy);
                return -EPROTO;
            }
            assert(step.used > 0 && step.used <= part - used);
            used += step.used;
            assert(step.is_boundary == !ws_tracker_is_inside(&tracker));
            assert(step.event != WS_EVENT_NONE || (!step.is_boundary && used == part));
            if (step.event != WS_EVENT_NONE) {
                assert(step.frame_size >= 2 && step.frame_size <= at + used);
                assert(step.event != WS_EVENT_MESSAGE || at + used - boundary >= step.payload_len);
                note_message(found, step.opcode, at + used, step.head.data, step.head.len);
            }
            if (step.is_boundary)
                boundary = at + used;
        }
        assert(memcmp(copy, bytes + at, part) == 0);
        free(copy);
        at += part;
    }
    *ret_is_inside = ws_tracker_is_inside(&tracker);
    return 0;
}

static int read_stream(const struct settings *settings, size_t message_max, const uint8_t *bytes, size_t len,
                       struct found *found, bool *ret_is_inside)
{
    struct ws_reader reader;
    size_t turn = 0;
    int r = 0;

    ws_reader_init(&reader, settings->is_masked, message_max, settings->drops_large);
    for (size_t at = 0; r == 0 && at < len;) {
        size_t part = next_cut(settings->cut, &turn, len - at);
        char *copy = malloc(part);
        struct ws_input input = {copy, part};
        struct ws_message message;

        memcpy(copy, bytes + at, part);
        at += part;
        while ((r = ws_reader_next(&reader, &input, &message)) > 0) {
            assert(message.data && message.opcode != WS_CONTINUATION);
            assert(message.len <= message_max || ws_is_control(message.opcode));
            assert(!message.is_dropped || message.len == 0);
            note_message(found, message.is_dropped ? message.opcode + 100u : message.opcode, at - input.len,
                         message.data, message.len);
        }
        assert(reader.message.len <= message_max);
        assert(r < 0 || input.len == 0);
        free(copy);
    }
    *ret_is_inside = ws_reader_is_inside(&reader);
    if (r < 0) {
        struct ws_input input = {NULL, 0};
        struct ws_message message;

        assert(ws_reader_next(&reader, &input, &message) == -EPROTO);
    }
    ws_reader_release(&reader);
    return r;
}

static void expect_same(const struct found *found, const struct found *expected)
{
    assert(found->len == expected->len && memcmp(found->text, expected->text, found->len) == 0);
}

/* Every message, written anew as one frame, is the same message. */
static void check_written(const struct found *messages, bool is_masked)
{
    static const uint8_t mask[WS_MASK_LEN] = {0xa5, 0x00, 0xff, 0x3c};

    for (size_t at = 0; at < messages->len;) {
        struct ws_input input;
        struct ws_message message;
        struct ws_reader reader;
        struct strbuf buf;
        uint64_t numbers[3];

        memcpy(numbers, messages->text + at, sizeof(numbers));
        at += sizeof(numbers);
        strbuf_init(&buf, NULL, STREAM_MAX + WS_HEADER_MAX);
        ws_reader_init(&reader, is_masked, STREAM_MAX, false);
        ws_write_frame(&buf, (enum ws_opcode)numbers[0], (struct slice){messages->text + at, numbers[2]},
                       is_masked ? mask : NULL);
        input = (struct ws_input){buf.data, buf.len};
        assert(ws_reader_next(&reader, &input, &message) == 1);
        assert(message.opcode == (enum ws_opcode)numbers[0] && message.len == numbers[2]);
        assert(memcmp(message.data, messages->text + at, message.len) == 0);
        assert(ws_reader_next(&reader, &input, &message) == 0);
        if (numbers[0] == WS_CLOSE) {
            int code = ws_close_code((struct slice){messages->text + at, numbers[2]});

            assert(code == -EPROTO || code == WS_CLOSE_NONE || ws_close_code_is_valid(code));
        }
        ws_reader_release(&reader);
        strbuf_release(&buf);
        at += numbers[2];
    }
}

/* Frames as the input lists them: mostly right ones, so that long streams are reached. */
static size_t write_stream(struct input *input, bool is_masked, uint8_t *ret_bytes)
{
    static const enum ws_opcode opcodes[] = {WS_TEXT,  WS_CONTINUATION, WS_BINARY, WS_PING,
                                             WS_CLOSE, WS_PONG,         WS_TEXT,   WS_CONTINUATION};
    size_t len = 0;

    while (input->size > 0) {
        uint8_t kind = input_byte(input);
        size_t size = input_byte(input) * (kind & 0x10 ? 300u : 1u);
        struct slice text = input_take(input, min_u64(size, 40));
        struct ws_header header = {
            .opcode = opcodes[kind % 8], .is_final = !(kind & 8), .is_masked = is_masked};
        char head[WS_HEADER_MAX];
        size_t head_len;

        if (ws_is_control(header.opcode)) {
            size = min_u64(size, WS_CONTROL_MAX);
            header.is_final = true;
        }
        header.len = size;
        memset(header.mask, kind, is_masked ? 3 : 0);
        head_len = ws_header_write(&header, head);
        if (len + head_len + size > STREAM_MAX)
            break;
        if ((kind & 0xe0) == 0xe0)
            head[kind & 1] = (char)(head[kind & 1] ^ (1 << (size % 8)));
        memcpy(ret_bytes + len, head, head_len);
        len += head_len;
        for (size_t i = 0; i < size; i++)
            ret_bytes[len++] = (uint8_t)(text.len ? text.data[i % text.len] : (char)i);
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char texts[6][FOUND_MAX];
    static uint8_t stream[STREAM_MAX];
    struct input input = {data, size};
    uint8_t flags = input_byte(&input);
    struct settings settings = {.is_masked = flags & 1, .drops_large = flags & 2};
    struct simple simple = {.messages = {texts[0], 0}, .events = {texts[1], 0}, .dropped = {texts[2], 0}};
    struct found events = {texts[3], 0}, messages = {texts[4], 0}, dropped = {texts[5], 0};
    bool is_inside = false;
    struct slice rest;
    size_t len;
    int r;

    settings.message_max = input_byte(&input) * (flags & 4 ? 256u : 1u);
    settings.head_want = min_u64(input_byte(&input) * 2u, WS_HEAD_MAX);
    settings.cut = input_byte(&input);
    if (flags & 8) {
        len = write_stream(&input, settings.is_masked, stream);
    } else {
        rest = input_rest(&input);
        len = min_u64(rest.len, STREAM_MAX);
        if (len > 0)
            memcpy(stream, rest.data, len);
    }
    if (len > 4096 && settings.cut > 0 && settings.cut < 64)
        settings.cut += 64; /* byte by byte it would take long */
    simple_parse(&settings, stream, len, &simple);

    r = track(&settings, stream, len, &events, &is_inside);
    assert(r == simple.tracker_result && (r < 0 || is_inside == simple.is_inside));
    expect_same(&events, &simple.events);
    r = read_stream(&settings, STREAM_MAX, stream, len, &messages, &is_inside);
    /* A frame that says more than any stream has is too long even without a limit, unless it is dropped. */
    if (r != -EMSGSIZE) {
        assert(r == simple.tracker_result && (r < 0 || is_inside == simple.is_inside));
    }
    expect_same(&messages, &simple.messages);
    r = read_stream(&settings, settings.message_max, stream, len, &dropped, &is_inside);
    assert(r == simple.reader_result);
    expect_same(&dropped, &simple.dropped);
    check_written(&messages, settings.is_masked);
    return 0;
}
