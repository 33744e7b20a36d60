/* test_ws.c - the WebSocket codec: keys, frame headers, close codes, whole messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ws/frame.h"
#include "ws/handshake.h"
#include "ws/reader.h"

static const uint8_t mask[WS_MASK_LEN] = {0x37, 0xfa, 0x21, 0x3d};

/* The example of RFC 6455, 1.3. */
static void accept_key__is_that_of_the_standard(void **state UNUSED)
{
    char accept[WS_ACCEPT_LEN + 1];

    ws_accept_key(SLICE("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void key__is_valid_only_as_sixteen_bytes_in_base64(void **state UNUSED)
{
    char key[WS_KEY_LEN + 1];

    ws_make_key(key);
    assert_true(ws_key_is_valid(slice_of(key)));
    assert_true(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25jZQ==")));
    assert_false(ws_key_is_valid(SLICE("")));
    assert_false(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25jZQ=")));
    assert_false(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25jZQ===")));
    assert_false(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25jZQAA")));
    assert_false(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25j-Q==")));
    assert_false(ws_key_is_valid(SLICE("dGhlIHNhbXBsZSBub25j\r\n==")));
}

static void accept__has_no_extension_and_no_subprotocol(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1024);
    assert_int_equal(ws_write_accept(&buf, SLICE("not a key"), ""), -EINVAL);
    assert_int_equal(buf.len, 0);
    assert_int_equal(ws_write_accept(&buf, SLICE("dGhlIHNhbXBsZSBub25jZQ=="), "X-Request-Id: 1\r\n"), 0);
    assert_string_equal(buf.data, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                                  "Connection: Upgrade\r\n"
                                  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                                  "X-Request-Id: 1\r\n\r\n");
    strbuf_release(&buf);
}

/* The examples of RFC 6455, 5.7. */
static void frames__are_those_of_the_standard(void **state UNUSED)
{
    static const char masked[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    struct ws_header header;
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1024);
    ws_write_frame(&buf, WS_TEXT, SLICE("Hello"), NULL);
    assert_int_equal(buf.len, 7);
    assert_memory_equal(buf.data, "\x81\x05Hello", 7);
    strbuf_reset(&buf);
    ws_write_frame(&buf, WS_TEXT, SLICE("Hello"), mask);
    assert_int_equal(buf.len, sizeof(masked) - 1);
    assert_memory_equal(buf.data, masked, sizeof(masked) - 1);
    assert_int_equal(ws_header_parse(buf.data, buf.len, &header), 1);
    assert_int_equal(header.opcode, WS_TEXT);
    assert_true(header.is_final && header.is_masked);
    assert_int_equal(header.size, 6);
    assert_int_equal(header.len, 5);
    ws_mask(buf.data + 6, 5, header.mask, 0);
    assert_memory_equal(buf.data + 6, "Hello", 5);
    strbuf_release(&buf);
}

static void header__of_every_length_is_read_as_it_was_written(void **state UNUSED)
{
    static const uint64_t lengths[] = {0,     1,     124,   125,     126,        127,      128,
                                       65534, 65535, 65536, 1 << 20, UINT32_MAX, INT64_MAX};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        for (int is_masked = 0; is_masked < 2; is_masked++) {
            struct ws_header written = {.opcode = WS_BINARY, .is_masked = is_masked, .len = lengths[i]};
            struct ws_header header;
            char bytes[WS_HEADER_MAX];
            size_t size;

            memcpy(written.mask, mask, is_masked ? WS_MASK_LEN : 0);
            size = ws_header_write(&written, bytes);
            for (size_t len = 0; len < size; len++)
                assert_int_equal(ws_header_parse(bytes, len, &header), 0);
            assert_int_equal(ws_header_parse(bytes, size, &header), 1);
            assert_int_equal(header.size, size);
            assert_true(header.len == lengths[i]);
            assert_false(header.is_final);
            assert_int_equal(header.is_masked, is_masked);
            assert_memory_equal(header.mask, written.mask, WS_MASK_LEN);
        }
    }
}

static void header__that_breaks_a_rule_is_refused_at_its_first_byte_that_shows_it(void **state UNUSED)
{
    static const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {
        {"\xc1", 1},                                       /* a reserved bit, as of an extension */
        {"\xa1", 1},         {"\x91", 1},     {"\x83", 1}, /* and a reserved opcode */
        {"\x87", 1},         {"\x8b", 1},     {"\x8f", 1},
        {"\x08", 1},         {"\x09", 1},     {"\x0a", 1}, /* a control frame in fragments */
        {"\x89\x7e", 2},     {"\x88\xff", 2},              /* a control frame that is too long */
        {"\x82\x7f\x80", 3},                               /* a length of 2^63 */
    };
    struct ws_header header;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        for (size_t len = 0; len < wrong[i].len; len++)
            assert_int_equal(ws_header_parse(wrong[i].bytes, len, &header), 0);
        assert_int_equal(ws_header_parse(wrong[i].bytes, wrong[i].len, &header), -EPROTO);
    }
    /* Written with more bytes than it needs. */
    assert_int_equal(ws_header_parse("\x82\x7e\x00\x05", 4, &header), 1);
    assert_int_equal(header.len, 5);
}

static void mask__in_parts_is_as_in_one(void **state UNUSED)
{
    char whole[64], parts[64];

    for (size_t i = 0; i < sizeof(whole); i++)
        whole[i] = parts[i] = (char)(i * 7);
    ws_mask(whole, sizeof(whole), mask, 0);
    for (size_t at = 0, len = 1; at < sizeof(parts); at += len, len = len % 11 + 1) {
        if (len > sizeof(parts) - at)
            len = sizeof(parts) - at;
        ws_mask(parts + at, len, mask, at);
    }
    assert_memory_equal(whole, parts, sizeof(whole));
}

static void close_code__is_valid_as_the_standard_says(void **state UNUSED)
{
    static const int good[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009,
                               1010, 1011, 1012, 1013, 1014, 3000, 4999};
    static const int bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535};

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        char payload[2] = {(char)(good[i] >> 8), (char)good[i]};

        assert_int_equal(ws_close_code((struct slice){payload, 2}), good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char payload[2] = {(char)(bad[i] >> 8), (char)bad[i]};

        assert_int_equal(ws_close_code((struct slice){payload, 2}), -EPROTO);
    }
    assert_int_equal(ws_close_code(SLICE("")), WS_CLOSE_NONE);
    assert_int_equal(ws_close_code(SLICE("\x03")), -EPROTO);
    assert_int_equal(ws_close_code(SLICE("\x03\xf4"
                                         "a reason")),
                     WS_CLOSE_RESTART);
}

static void write_close__cuts_a_long_reason(void **state UNUSED)
{
    char reason[200];
    struct strbuf buf;

    memset(reason, 'x', sizeof(reason));
    strbuf_init(&buf, NULL, 1024);
    ws_write_close(&buf, WS_CLOSE_RESTART, (struct slice){reason, sizeof(reason)}, NULL);
    assert_int_equal(buf.len, 2 + WS_CONTROL_MAX);
    assert_memory_equal(buf.data, "\x88\x7d\x03\xf4xxx", 7);
    strbuf_reset(&buf);
    ws_write_close(&buf, WS_CLOSE_NONE, SLICE("unsaid"), NULL);
    assert_int_equal(buf.len, 2);
    assert_memory_equal(buf.data, "\x88\x00", 2);
    strbuf_release(&buf);
}

static void frame_in_place__is_as_a_written_one(void **state UNUSED)
{
    static const size_t lengths[] = {0, 5, 125, 126, 65535, 65536};
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        char *room = calloc(1, WS_HEADER_MAX + lengths[i] + 1);
        char *text = calloc(1, lengths[i] + 1);
        char *frame;
        size_t len;

        memset(text, 'a', lengths[i]);
        memcpy(room + WS_HEADER_MAX, text, lengths[i]);
        strbuf_reset(&buf);
        ws_write_frame(&buf, WS_BINARY, (struct slice){text, lengths[i]}, mask);
        frame = ws_frame_in_place(WS_BINARY, room + WS_HEADER_MAX, lengths[i], mask, &len);
        assert_int_equal(len, buf.len);
        assert_memory_equal(frame, buf.data, len);
        free(room);
        free(text);
    }
    strbuf_release(&buf);
}

/* What came out of a reader: "T:text", "B:…", "P:…" for pings, "d" for a message that was dropped. */
static int read_all(struct ws_reader *reader, const char *bytes, size_t len, size_t step, struct strbuf *said)
{
    int r = 0;

    for (size_t at = 0; r >= 0 && at < len; at += step) {
        size_t size = step < len - at ? step : len - at;
        char *copy = malloc(size); /* of its own, so that a sanitizer sees a read behind it */
        struct ws_input input = {copy, size};
        struct ws_message message;

        memcpy(copy, bytes + at, size);
        while ((r = ws_reader_next(reader, &input, &message)) > 0) {
            strbuf_append_char(said, message.is_dropped ? 'd' : "_TB_____CPp"[message.opcode]);
            strbuf_append_char(said, ':');
            strbuf_append(said, message.data, message.len);
            strbuf_append_char(said, ' ');
        }
        assert_true(r < 0 || input.len == 0);
        free(copy);
    }
    return r;
}

static void expect(bool is_masked, size_t max, bool drops, struct slice bytes, const char *said)
{
    for (size_t step = 1; step <= bytes.len; step++) {
        struct ws_reader reader;
        struct strbuf buf;

        ws_reader_init(&reader, is_masked, max, drops);
        strbuf_init(&buf, NULL, 1 << 20);
        assert_int_equal(read_all(&reader, bytes.data, bytes.len, step, &buf), 0);
        assert_false(ws_reader_is_inside(&reader));
        assert_string_equal(buf.data ? buf.data : "", said);
        strbuf_release(&buf);
        ws_reader_release(&reader);
    }
}

static void reader__finds_the_messages_wherever_the_bytes_are_cut(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    ws_write_frame(&buf, WS_TEXT, SLICE("one"), mask);
    ws_write_frame(&buf, WS_TEXT, SLICE(""), mask);
    ws_write_frame(&buf, WS_PING, SLICE("?"), mask);
    ws_write_frame(&buf, WS_BINARY, SLICE("two"), mask);
    ws_write_close(&buf, WS_CLOSE_NORMAL, SLICE("bye"), mask);
    expect(true, 100, false, strbuf_slice(&buf),
           "T:one T: P:? B:two C:\x03\xe8"
           "bye ");
    strbuf_release(&buf);
}

static void reader__joins_fragments_with_control_frames_between_them(void **state UNUSED)
{
    static const char bytes[] = "\x01\x03one\x89\x01?\x00\x00\x00\x03two\x8a\x00\x80\x05three\x82\x01x";

    expect(false, 11, false, (struct slice){bytes, sizeof(bytes) - 1}, "P:? p: T:onetwothree B:x ");
}

static void reader__passes_over_a_message_that_is_too_long(void **state UNUSED)
{
    static const char bytes[] = "\x81\x05"
                                "12345"
                                "\x81\x04"
                                "1234"
                                "\x01\x03"
                                "123"
                                "\x89\x01?"
                                "\x80\x02"
                                "45"
                                "\x02\x05"
                                "12345"
                                "\x80\x00"
                                "\x81\x02ok";

    expect(false, 4, true, (struct slice){bytes, sizeof(bytes) - 1}, "d: T:1234 P:? d: d: T:ok ");
}

static void reader__fails_on_a_message_that_is_too_long_unless_told(void **state UNUSED)
{
    static const char *const bytes[] = {"\x81\x05", "\x01\x03"
                                                    "123"
                                                    "\x80\x02"};

    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
        struct ws_reader reader;
        struct strbuf buf;

        strbuf_init(&buf, NULL, 100);
        ws_reader_init(&reader, false, 4, false);
        assert_int_equal(read_all(&reader, bytes[i], strlen(bytes[i]), 100, &buf), -EMSGSIZE);
        assert_int_equal(read_all(&reader, "\x81\x01x", 3, 100, &buf), -EPROTO);
        assert_int_equal(buf.len, 0);
        ws_reader_release(&reader);
        strbuf_release(&buf);
    }
}

static void reader__refuses_what_is_no_websocket_of_its_direction(void **state UNUSED)
{
    static const struct {
        bool is_masked;
        struct slice bytes;
    } wrong[] = {
        {true, {"\x81\x05Hello", 7}},                   /* a client must mask */
        {false, {"\x81\x85\x01\x01\x01\x01Hello", 11}}, /* a server must not */
        {false, {"\x80\x01x", 3}},                      /* no message goes on */
        {false, {"\x01\x01x\x81\x01y", 6}},             /* one goes on */
        {false, {"\xc1\x01x", 3}},
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        for (size_t step = 1; step <= wrong[i].bytes.len; step++) {
            struct ws_reader reader;
            struct strbuf buf;

            strbuf_init(&buf, NULL, 100);
            ws_reader_init(&reader, wrong[i].is_masked, 100, true);
            assert_int_equal(read_all(&reader, wrong[i].bytes.data, wrong[i].bytes.len, step, &buf), -EPROTO);
            assert_int_equal(buf.len, 0);
            ws_reader_release(&reader);
            strbuf_release(&buf);
        }
    }
}

static void reader__gives_its_memory_back_after_a_long_message(void **state UNUSED)
{
    char text[20000];
    struct ws_reader reader;
    struct strbuf frame, said;

    memset(text, 'x', sizeof(text));
    strbuf_init(&frame, NULL, 1 << 16);
    strbuf_init(&said, NULL, 1 << 16);
    ws_write_frame(&frame, WS_TEXT, (struct slice){text, sizeof(text)}, NULL);
    ws_write_frame(&frame, WS_PING, SLICE(""), NULL);
    ws_reader_init(&reader, false, 1 << 16, false);
    assert_int_equal(read_all(&reader, frame.data, frame.len, 1000, &said), 0);
    assert_int_equal(said.len, sizeof(text) + 6);
    assert_null(reader.message.data);
    ws_reader_release(&reader);
    strbuf_release(&frame);
    strbuf_release(&said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_key__is_that_of_the_standard),
        cmocka_unit_test(key__is_valid_only_as_sixteen_bytes_in_base64),
        cmocka_unit_test(accept__has_no_extension_and_no_subprotocol),
        cmocka_unit_test(frames__are_those_of_the_standard),
        cmocka_unit_test(header__of_every_length_is_read_as_it_was_written),
        cmocka_unit_test(header__that_breaks_a_rule_is_refused_at_its_first_byte_that_shows_it),
        cmocka_unit_test(mask__in_parts_is_as_in_one),
        cmocka_unit_test(close_code__is_valid_as_the_standard_says),
        cmocka_unit_test(write_close__cuts_a_long_reason),
        cmocka_unit_test(frame_in_place__is_as_a_written_one),
        cmocka_unit_test(reader__finds_the_messages_wherever_the_bytes_are_cut),
        cmocka_unit_test(reader__joins_fragments_with_control_frames_between_them),
        cmocka_unit_test(reader__passes_over_a_message_that_is_too_long),
        cmocka_unit_test(reader__fails_on_a_message_that_is_too_long_unless_told),
        cmocka_unit_test(reader__refuses_what_is_no_websocket_of_its_direction),
        cmocka_unit_test(reader__gives_its_memory_back_after_a_long_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
