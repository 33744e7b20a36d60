/* test_head.c - what a pod answers to a handshake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

static void answer__that_refuses_says_so_in_its_first_line(void **state UNUSED)
{
    struct head_answer answer = {0};

    assert_int_equal(
        head_read_answer(SLICE("HTTP/1.1 403 No way\r\nContent-Length: 9\r\n\r\nthe body"), &answer), 1);
    assert_int_equal(answer.status, 403);
    assert_true(slice_equals(answer.said, "403 No way"));
    assert_int_equal(head_read_answer(SLICE("HTTP/1.0 500\r\nA: b\r\n\r\n"), &answer), 1);
    assert_true(slice_equals(answer.said, "500"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer__is_complete_with_its_last_byte_only),
        cmocka_unit_test(answer__that_is_no_http_is_refused),
        cmocka_unit_test(answer__that_refuses_says_so_in_its_first_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
