/* test_head.c - what a pod answers to a handshake, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gateway/head.h"

#define AGREED "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

static void answer__is_complete_with_its_last_byte_only(void **state UNUSED)
{
    const char text[] = AGREED "\x81\x05hello";
    size_t head_len = strlen(AGREED);
    struct head_answer answer = {0};

    for (size_t len = 0; len < head_len; len++)
        assert_int_equal(head_read_answer((struct slice){text, len}, &answer), 0);
    assert_int_equal(head_read_answer(slice_of(text), &answer), 1);
    assert_int_equal(answer.status, 101);
    assert_int_equal(answer.len, head_len);
}

static void answer__that_is_no_http_is_refused(void **state UNUSED)
{
    static const char *const bad[] = {
        "SSH-2.0-x\r\n\r\n",
        "\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 600 What\r\n\r\n",
        "HTTP/1.1 4x4 What\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: 1\r\n folded: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\nSet-Cookie: a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: 1\nB: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    };
    struct head_answer answer;
    char endless[HEAD_ANSWER_MAX + 100];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(head_read_answer(slice_of(bad[i]), &answer), -EPROTO);
    memset(endless, 'a', sizeof(endless));
    assert_int_equal(head_read_answer((struct slice){endless, sizeof(endless)}, &answer), -EPROTO);
}

static void next__gives_each_header_trimmed(void **state UNUSED)
{
    struct slice head = SLICE("HTTP/1.1 403 No: way\r\nA: 1\r\nno colon\r\nB:\t two words \r\nC:\r\n\r\n");
    struct slice name, value;
    size_t at = 0;

    assert_true(head_next(head, &at, &name, &value));
    assert_true(slice_equals(name, "A") && slice_equals(value, "1"));
    assert_true(head_next(head, &at, &name, &value));
    assert_true(slice_equals(name, "B") && slice_equals(value, "two words"));
    assert_true(head_next(head, &at, &name, &value));
    assert_true(slice_equals(name, "C") && value.len == 0);
    assert_false(head_next(head, &at, &name, &value));
}

/* The body of `text` whatever its pieces; `ends` says whether it takes the end of the connection. */
static void assert_body(const char *head, const char *text, bool ends, const char *expected)
{
    size_t text_len = strlen(text);
    struct head_answer answer;
    struct slice body;
    char copy[256];

    assert_int_equal(head_read_answer(slice_of(head), &answer), 1);
    for (size_t len = 0; len < text_len || (len == text_len && ends); len++) {
        snprintf(copy, sizeof(copy), "%s", text);
        assert_int_equal(head_read_body(&answer, copy, len, false, &body), 0);
    }
    snprintf(copy, sizeof(copy), "%s", text);
    assert_int_equal(head_read_body(&answer, copy, text_len, ends, &body), 1);
    assert_int_equal(body.len, strlen(expected));
    assert_memory_equal(body.data, expected, body.len);
}

static void body__ends_where_its_framing_says(void **state UNUSED)
{
    assert_body("HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\n", "hello", false, "hello");
    assert_body("HTTP/1.0 403 No\r\n\r\n", "hello", true, "hello");
    assert_body("HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n",
                false, "hello");
}

static void body__that_breaks_off_is_refused(void **state UNUSED)
{
    struct head_answer chunked, sized;
    struct slice body;
    char text[] = "5\r\nhel";
    char huge[] = "fffffffffffffff\r\n";
    char none[] = "x\r\n";

    assert_int_equal(
        head_read_answer(SLICE("HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n"), &chunked), 1);
    assert_int_equal(head_read_answer(SLICE("HTTP/1.1 403 No\r\nContent-Length: 99\r\n\r\n"), &sized), 1);
    assert_int_equal(head_read_body(&chunked, text, strlen(text), true, &body), -EPROTO);
    assert_int_equal(head_read_body(&sized, text, strlen(text), true, &body), -EPROTO);
    assert_int_equal(head_read_body(&chunked, huge, strlen(huge), false, &body), -EPROTO);
    assert_int_equal(head_read_body(&chunked, none, strlen(none), false, &body), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer__is_complete_with_its_last_byte_only),
        cmocka_unit_test(answer__that_is_no_http_is_refused),
        cmocka_unit_test(next__gives_each_header_trimmed),
        cmocka_unit_test(body__ends_where_its_framing_says),
        cmocka_unit_test(body__that_breaks_off_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
