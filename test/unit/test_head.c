/* test_head.c - the headers of a handshake: what a pod is asked, and what it answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gateway/head.h"
#include "http/connection.h"

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define TRACE_LINE "traceparent: " TRACE "\r\n"

/* A request that was really parsed, on a connection without a socket, and what the pod is asked then. */
struct world {
    struct http_server *server;
    struct http_connection connection;
    struct http_request *request;
    struct strbuf asked;
    bool is_followed;
    char text[HTTP_HEADER_MAX];
};

static void world_ask(struct world *world, const struct head_call *call, const char *headers)
{
    *world = (struct world){.server = calloc(1, sizeof(*world->server)), .is_followed = world->is_followed};
    assert_non_null(world->server);
    snprintf(world->text, sizeof(world->text), "GET /ws HTTP/1.1\r\nHost: inside\r\n%s\r\n", headers);
    world->connection = (struct http_connection){.magic = CONNECTION_MAGIC,
                                                 .server = world->server,
                                                 .tls_fd = -1,
                                                 .buffer = world->text,
                                                 .room = sizeof(world->text),
                                                 .len = strlen(world->text)};
    parser_init(&world->connection);
    world->request = world->connection.request = http_request_get(&world->connection);
    assert_non_null(world->request);
    assert_int_equal(parser_run(&world->connection), 1);
    strbuf_init(&world->asked, NULL, HEAD_REQUEST_MAX);
    head_write_request(NULL, world->request, SLICE("/rest"), world->is_followed, &world->asked);
    head_end_request(call, &world->asked);
    assert_false(strbuf_failed(&world->asked));
}

static void world_release(struct world *world)
{
    strbuf_release(&world->asked);
    http_request_free(world->request);
    free(world->server);
}

/* The pod of `call`, asked by a client with `headers`, gets `line` so many times. */
static void expect_times(const struct head_call *call, const char *headers, const char *line, unsigned times)
{
    struct world world = {.is_followed = false};
    unsigned found = 0;

    world_ask(&world, call, headers);
    for (const char *at = world.asked.data; (at = strcasestr(at, line)); at++)
        found++;
    if (found != times)
        fail_msg("%u times, and not %u: %s in\n%s", found, times, line, world.asked.data);
    world_release(&world);
}

static const struct head_call shop = {.call_sid = "CA1", .merchant_id = "shop"};

static void request__tells_the_pod_its_call(void **state UNUSED)
{
    const struct head_call nobody = {.call_sid = "CA1", .merchant_id = ""};

    expect_times(&shop, "", "\r\nX-Call-Sid: CA1\r\n", 1);
    expect_times(&shop, "", "\r\nX-Merchant-Id: shop\r\n", 1);
    expect_times(&nobody, "", "merchant-id", 0);
}

static void request__has_no_other_word_on_the_call_than_ours(void **state UNUSED)
{
    expect_times(&shop, "X-Call-Sid: CA9\r\nx_call_sid: CA9\r\nX-CALL_SID: CA9\r\n", "CA9", 0);
    expect_times(&shop, "X-Merchant-Id: CA9\r\nX_Merchant-Id: CA9\r\nX-Call-Resumed: CA9\r\n", "CA9", 0);
    expect_times(&shop, "Connection: x-call-sid\r\n", "\r\nX-Call-Sid: CA1\r\n", 1);
}

static void request__has_no_names_that_could_be_headers(void **state UNUSED)
{
    const struct head_call forged = {.call_sid = "CA1", .merchant_id = "a\r\nX-Forged: b"};

    expect_times(&forged, "", "forged", 0);
    expect_times(&forged, "", "\r\nX-Call-Sid: CA1\r\n", 1);
}

static void request__of_a_followed_stream_says_what_two_pods_can_agree_to(void **state UNUSED)
{
    static const char headers[] = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
                                  "Sec-WebSocket-Protocol: a\r\nsec-websocket-protocol: b, c\r\n";
    const struct head_call again = {
        .call_sid = "CA1", .merchant_id = "", .subprotocols = SLICE("b"), .resumed = 3};
    struct strbuf offered;
    struct world world = {.is_followed = true};

    expect_times(&shop, headers, "permessage-deflate", 1);
    expect_times(&shop, headers, "sec-websocket-protocol", 2);
    expect_times(&shop, headers, "x-call-resumed", 0);
    world_ask(&world, &again, headers);
    assert_null(strcasestr(world.asked.data, "sec-websocket-extensions"));
    assert_non_null(strstr(world.asked.data, "\r\nSec-WebSocket-Protocol: b\r\n"));
    assert_non_null(strstr(world.asked.data, "\r\nX-Call-Resumed: 3\r\n\r\n"));
    strbuf_init(&offered, NULL, 100);
    head_write_subprotocols(world.request, &offered);
    assert_string_equal(offered.data, "a, b, c");
    strbuf_release(&offered);
    world_release(&world);
}

static void request__passes_a_trace_on(void **state UNUSED)
{
    static const char *const good[] = {TRACE, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                                       "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"};
    char headers[256], line[128];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(headers, sizeof(headers), "TraceParent: %s\r\nTracestate: a=1\r\n", good[i]);
        snprintf(line, sizeof(line), "\r\ntraceparent: %s\r\n", good[i]);
        expect_times(&shop, headers, line, 1);
        expect_times(&shop, headers, "\r\ntracestate: a=1\r\n", 1);
    }
}

static void request__has_no_trace_that_means_nothing(void **state UNUSED)
{
    static const char *const bad[] = {
        "traceparent: \r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x\r\n",
        "traceparent: 00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01\r\n",
        "traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01\r\n",
        "traceparent: ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more\r\n",
        "traceparent: 01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more\r\n",
    };
    char headers[512];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(headers, sizeof(headers), "tracestate: a=1\r\n%s", bad[i]);
        expect_times(&shop, headers, "trace", 0);
    }
    expect_times(&shop, "tracestate: a=1\r\n", "trace", 0);
    expect_times(&shop, TRACE_LINE TRACE_LINE "tracestate: a=1\r\n", "trace", 0);
    expect_times(&shop, TRACE_LINE "Connection: traceparent\r\n", "trace", 0);
}

#define AGREED "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

static void answer__has_headers_by_name(void **state UNUSED)
{
    struct slice head = SLICE("HTTP/1.1 101 Yes\r\nA: 1\r\nSec-WebSocket-Accept:  x y \r\na: 2\r\n\r\n");

    assert_true(slice_equals(head_find(head, "sec-websocket-accept"), "x y"));
    assert_true(slice_equals(head_find(head, "a"), "1"));
    assert_null(head_find(head, "sec-websocket").data);
    assert_null(head_find(head, "http/1.1 101 yes").data);
}

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
        cmocka_unit_test(request__tells_the_pod_its_call),
        cmocka_unit_test(request__has_no_other_word_on_the_call_than_ours),
        cmocka_unit_test(request__has_no_names_that_could_be_headers),
        cmocka_unit_test(request__of_a_followed_stream_says_what_two_pods_can_agree_to),
        cmocka_unit_test(request__passes_a_trace_on),
        cmocka_unit_test(request__has_no_trace_that_means_nothing),
        cmocka_unit_test(answer__has_headers_by_name),
        cmocka_unit_test(answer__is_complete_with_its_last_byte_only),
        cmocka_unit_test(answer__that_is_no_http_is_refused),
        cmocka_unit_test(answer__that_refuses_says_so_in_its_first_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
