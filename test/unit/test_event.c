/* test_event.c - the text of each kind of event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "store/event.h"

static const struct event_origin origin = {"router-0_1", 17, 1770000000123};

static const char *written(struct strbuf *buf, const struct event *event)
{
    strbuf_init(buf, NULL, 64 * 1024);
    assert_true(event_write(buf, event, &origin));
    return buf->data;
}

static void write__says_only_what_is_known(void **state UNUSED)
{
    const struct event full = {EVENT_ALLOCATED, "CA1", "pod-0", "pool:gold", "", "m1", "twilio", NULL, 0};
    const struct event count = {.kind = EVENT_DROPPED, .reason = "a \"b\"\n", .count = 3};
    struct strbuf buf;

    assert_string_equal(
        written(&buf, &full),
        "{\"event\":\"allocated\",\"id\":\"router-0_1:17\",\"time\":\"2026-02-02T02:40:00.123Z\","
        "\"replica\":\"router-0_1\",\"call_sid\":\"CA1\",\"pod_name\":\"pod-0\",\"source_pool\":\"pool:"
        "gold\","
        "\"merchant_id\":\"m1\",\"provider\":\"twilio\"}\n");
    strbuf_release(&buf);
    assert_string_equal(
        written(&buf, &count),
        "{\"event\":\"dropped\",\"id\":\"router-0_1:17\",\"time\":\"2026-02-02T02:40:00.123Z\","
        "\"replica\":\"router-0_1\",\"reason\":\"a \\\"b\\\"\\n\",\"count\":3}\n");
    strbuf_release(&buf);
}

static void write__of_too_long_a_line_leaves_no_trace(void **state UNUSED)
{
    char text[EVENT_TEXT_MAX + 1];
    const struct event event = {.kind = EVENT_ENDED, .call_sid = text};
    struct strbuf buf;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    strbuf_init(&buf, NULL, 64 * 1024);
    strbuf_append_str(&buf, "before\n");
    assert_false(event_write(&buf, &event, &origin));
    assert_int_equal(buf.len, strlen("before\n"));
    strbuf_release(&buf);
    /* A buffer without room: what is in it stays, and it can be used again. */
    strbuf_init(&buf, NULL, 20);
    strbuf_append_str(&buf, "before\n");
    assert_false(event_write(&buf, &(struct event){.kind = EVENT_ENDED}, &origin));
    assert_int_equal(buf.len, strlen("before\n"));
    assert_false(strbuf_failed(&buf));
    strbuf_release(&buf);
}

static void read__gives_back_what_was_written(void **state UNUSED)
{
    struct strbuf buf;
    struct slice lines;
    struct event_text text;

    strbuf_init(&buf, NULL, 64 * 1024);
    for (int kind = 0; kind < EVENT_KINDS; kind++)
        assert_true(event_write(&buf, &(struct event){.kind = (enum event_kind)kind, .pod = "p"}, &origin));
    lines = strbuf_slice(&buf);
    for (int kind = 0; kind < EVENT_KINDS; kind++) {
        assert_true(event_read(&lines, &text));
        assert_true(slice_equals(text.kind, event_kind_name((enum event_kind)kind)));
        assert_true(slice_equals(text.id, "router-0_1:17"));
        assert_true(json_is_valid(text.json));
        assert_int_equal(text.json.data[text.json.len], '\n');
    }
    assert_int_equal(lines.len, 0);
    strbuf_release(&buf);
}

static void read__knows_kinds_to_come(void **state UNUSED)
{
    struct slice line = SLICE("{\"event\":\"teleported\",\"id\":\"x:1\",\"to\":[1,2]}");
    struct event_text text;

    assert_true(event_read(&line, &text));
    assert_true(slice_equals(text.kind, "teleported"));
    assert_int_equal(line.len, 0);
}

static void read__refuses_what_somebody_else_wrote(void **state UNUSED)
{
    static const char *const lines[] = {
        "",
        "hello",
        "{}",
        "{\"event\":\"a\"}",
        "{\"event\":\"\",\"id\":\"x\"}",
        "{\"event\":\"a\",\"id\":\"\"}",
        "{\"event\":\"a b\",\"id\":\"x\"}",
        "{\"event\":\"a\",\"id\":\"x\\n\"}",
        "{\"event\":\"a\",\"id\":\"x\"",
        "{\"event\":\"a\",\"id\":\"x\"} {}",
        "{\"event\":\"a\",\"id\":\"x\"\r}",
        "{\"event\":\"a\",\"id\":\"x\",\"y\":\"\x01\"}",
        "{\"event\":\"a\",\"id\":\"x\",\"y\":\"\xff\"}",
        "{\"event\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"id\":\"x\"}",
    };
    struct event_text text;

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char both[256];
        struct slice rest;

        snprintf(both, sizeof(both), "%s\n{\"event\":\"a\",\"id\":\"x\"}", lines[i]);
        rest = slice_of(both);
        assert_false(event_read(&rest, &text));
        /* and goes on behind it */
        assert_true(event_read(&rest, &text));
        assert_true(slice_equals(text.kind, "a"));
    }
}

static void read__refuses_a_line_that_is_too_long(void **state UNUSED)
{
    struct strbuf buf;
    struct event_text text;
    struct slice line;

    strbuf_init(&buf, NULL, 64 * 1024);
    strbuf_append_str(&buf, "{\"event\":\"a\",\"id\":\"x\",\"y\":\"");
    for (int i = 0; i < EVENT_TEXT_MAX; i++)
        strbuf_append_char(&buf, 'y');
    strbuf_append_str(&buf, "\"}");
    line = strbuf_slice(&buf);
    assert_false(event_read(&line, &text));
    assert_int_equal(line.len, 0);
    strbuf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__says_only_what_is_known),
        cmocka_unit_test(write__of_too_long_a_line_leaves_no_trace),
        cmocka_unit_test(read__gives_back_what_was_written),
        cmocka_unit_test(read__knows_kinds_to_come),
        cmocka_unit_test(read__refuses_what_somebody_else_wrote),
        cmocka_unit_test(read__refuses_a_line_that_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
