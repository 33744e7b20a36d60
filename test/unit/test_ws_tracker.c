/* test_ws_tracker.c - following a WebSocket: where messages end, what passes by, wherever the bytes are cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ws/tracker.h"

static const uint8_t mask[WS_MASK_LEN] = {0x01, 0xfe, 0x80, 0x7f};

/*
 * Follows the bytes in reads of `step` and writes down each event: its letter, where it ended, whether that
 * is a boundary ('|'), its length, its frame's size, and its head.
 */
static int follow(struct ws_tracker *tracker, struct slice bytes, size_t step, struct strbuf *said)
{
    for (size_t at = 0; at < bytes.len; at += step) {
        size_t len = step < bytes.len - at ? step : bytes.len - at;
        char *copy = malloc(len);
        size_t used = 0;
        int r = 0;

        memcpy(copy, bytes.data + at, len);
        while (used < len) {
            struct ws_step found = {.used = 77};

            r = ws_tracker_next(tracker, copy + used, len - used, &found);
            if (r < 0)
                break;
            assert_in_range(found.used, 1, len - used);
            used += found.used;
            assert_int_equal(found.is_boundary, !ws_tracker_is_inside(tracker));
            if (found.event == WS_EVENT_NONE) {
                assert_int_equal(used, len);
                continue;
            }
            strbuf_printf(said, "%c%zu%s(%llu/%llu)", "_TB_____CPp"[found.opcode], at + used,
                          found.is_boundary ? "|" : "", (unsigned long long)found.payload_len,
                          (unsigned long long)found.frame_size);
            strbuf_append(said, found.head.data, found.head.len);
            strbuf_append_char(said, ' ');
        }
        assert_memory_equal(copy, bytes.data + at, len);
        free(copy);
        if (r < 0)
            return r;
    }
    return 0;
}

static void expect(bool is_masked, size_t head_want, struct slice bytes, int result, const char *said)
{
    for (size_t step = 1; step <= bytes.len; step++) {
        struct ws_tracker tracker;
        struct strbuf buf;

        strbuf_init(&buf, NULL, 1 << 16);
        ws_tracker_init(&tracker, is_masked, head_want);
        assert_int_equal(follow(&tracker, bytes, step, &buf), result);
        assert_string_equal(buf.data ? buf.data : "", said);
        strbuf_release(&buf);
    }
}

static void next__finds_every_message_and_control_frame(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    ws_write_frame(&buf, WS_TEXT, SLICE("{\"event\":\"stop\"}"), mask);
    ws_write_frame(&buf, WS_TEXT, SLICE(""), mask);
    ws_write_frame(&buf, WS_PING, SLICE("?"), mask);
    ws_write_frame(&buf, WS_BINARY, SLICE("binary"), mask);
    ws_write_close(&buf, WS_CLOSE_GOING_AWAY, SLICE("bye"), mask);
    expect(true, 8, strbuf_slice(&buf), 0,
           "T22|(16/22){\"event\" T28|(0/6) P35|(1/7)? B47|(6/12) C58|(5/11)\x03\xe9"
           "bye ");
    strbuf_release(&buf);
}

static void next__is_inside_a_message_between_its_fragments(void **state UNUSED)
{
    static const char bytes[] =
        "\x01\x03one\x89\x01?\x00\x00\x00\x03two\x8a\x00\x80\x05three\x88\x02\x03\xe8";

    expect(false, 256, (struct slice){bytes, sizeof(bytes) - 1}, 0,
           "P8(1/3)? p17(0/2) T24|(11/7)onetwothree C28|(2/4)\x03\xe8 ");
}

static void next__keeps_the_head_across_fragments_and_no_more_than_is_wanted(void **state UNUSED)
{
    static const char bytes[] = "\x01\x03one\x80\x05three\x81\x02ok\x02\x03two\x80\x00";

    expect(false, 5, (struct slice){bytes, sizeof(bytes) - 1}, 0, "T12|(8/7)oneth T16|(2/4)ok B23|(3/2) ");
    expect(false, 0, (struct slice){bytes, sizeof(bytes) - 1}, 0, "T12|(8/7) T16|(2/4) B23|(3/2) ");
}

static void next__wants_another_head_from_the_next_message_on(void **state UNUSED)
{
    struct ws_tracker tracker;
    struct ws_step step;

    ws_tracker_init(&tracker, false, 2);
    assert_int_equal(ws_tracker_next(&tracker,
                                     "\x01\x02"
                                     "ab",
                                     4, &step),
                     0);
    tracker.head_want = WS_HEAD_MAX;
    assert_int_equal(ws_tracker_next(&tracker,
                                     "\x80\x02"
                                     "cd",
                                     4, &step),
                     0);
    assert_int_equal(step.event, WS_EVENT_MESSAGE);
    assert_int_equal(step.head.len, 2);
    assert_int_equal(ws_tracker_next(&tracker,
                                     "\x81\x04"
                                     "efgh",
                                     6, &step),
                     0);
    assert_int_equal(step.head.len, 4);
    assert_memory_equal(step.head.data, "efgh", 4);
}

static void next__follows_frames_of_any_length(void **state UNUSED)
{
    struct ws_tracker tracker;
    char part[1000] = {0};
    uint64_t left = UINT64_C(1) << 33;
    struct ws_step step;

    ws_tracker_init(&tracker, false, 64);
    assert_int_equal(ws_tracker_next(&tracker, "\x82\x7f\x00\x00\x00\x02\x00\x00\x00\x00", 10, &step), 0);
    assert_int_equal(step.event, WS_EVENT_NONE);
    /* 8 GiB would take long; the frame is the same with most of it left out. */
    tracker.left = left = 2500;
    while (left > 0) {
        size_t len = left < sizeof(part) ? left : sizeof(part);

        assert_true(ws_tracker_is_inside(&tracker));
        assert_int_equal(ws_tracker_next(&tracker, part, len, &step), 0);
        assert_int_equal(step.used, len);
        left -= len;
    }
    assert_int_equal(step.event, WS_EVENT_MESSAGE);
    assert_true(step.is_boundary && step.payload_len == UINT64_C(1) << 33);
}

static void next__says_what_came_before_bytes_that_are_no_websocket(void **state UNUSED)
{
    expect(false, 64, SLICE("\x81\x02ok\xc1\x00"), -EPROTO, "T4|(2/4)ok ");
    expect(false, 64, SLICE("\x81\x02ok\x81\x80"), 0,
           "T4|(2/4)ok "); /* masked: seen when the header is complete */
    expect(false, 64, SLICE("\x81\x02ok\x81\x80\x01\x02\x03\x04"), -EPROTO, "T4|(2/4)ok ");
    expect(true, 64, SLICE("\x81\x02ok"), -EPROTO, "");
    expect(false, 64, SLICE("\x81\x02ok\x80\x01x"), -EPROTO, "T4|(2/4)ok ");
    expect(false, 64, SLICE("\x01\x02ok\x81\x01x"), -EPROTO, "");
    expect(false, 64, SLICE("\x88\x7e\x00\x7e"), -EPROTO, "");
}

static void next__stays_broken(void **state UNUSED)
{
    struct ws_tracker tracker;
    struct ws_step step;

    ws_tracker_init(&tracker, false, 64);
    assert_int_equal(ws_tracker_next(&tracker, "\x83", 1, &step), -EPROTO);
    assert_int_equal(ws_tracker_next(&tracker, "\x81\x00", 2, &step), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next__finds_every_message_and_control_frame),
        cmocka_unit_test(next__is_inside_a_message_between_its_fragments),
        cmocka_unit_test(next__keeps_the_head_across_fragments_and_no_more_than_is_wanted),
        cmocka_unit_test(next__wants_another_head_from_the_next_message_on),
        cmocka_unit_test(next__follows_frames_of_any_length),
        cmocka_unit_test(next__says_what_came_before_bytes_that_are_no_websocket),
        cmocka_unit_test(next__stays_broken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
