/*
 * fuzz_head.c - the two headers of the gateway's handshake.
 *
 * 'A' and bytes: what a pod answers. It is understood the same however it is cut, and whatever is passed on
 * to the client is a header like any other, that holds no other one. 'R' and bytes: what a client asks,
 * through the real server. What the pod is asked then is one request without a body, whatever the client
 * sent, and in which nobody but us says who the client is and which call it is.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/slice.h"
#include "client.h"
#include "fuzz.h"
#include "gateway/head.h"
#include "http/proxy_headers.h"

static struct {
    uv_loop_t loop;
    struct http_server *server;
} world;

static bool is_token(struct slice text)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!is_letter && !(c >= '0' && c <= '9') && !(c && strchr(marks, c)))
            return false;
    }
    return text.len > 0;
}

static bool is_value(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (((unsigned char)text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] == 127)
            return false;
    }
    return true;
}

/* Takes the next header line; *at begins at 0, and the first line is none. False: there is none any more. */
static bool next_header(struct slice head, size_t *at, struct slice *ret_name, struct slice *ret_value)
{
    const char *line, *end, *colon;

    do {
        line = head.data + *at;
        end = memmem(line, head.len - *at, "\r\n", 2);
        if (!end || end == line)
            return false;
        *at = (size_t)(end + 2 - head.data);
    } while (line == head.data);
    colon = memchr(line, ':', (size_t)(end - line));
    assert(colon);
    *ret_name = (struct slice){line, (size_t)(colon - line)};
    *ret_value = (struct slice){colon + 1, (size_t)(end - colon - 1)};
    return true;
}

static void check_headers(struct slice head)
{
    struct slice name, value;
    size_t at = 0;

    while (next_header(head, &at, &name, &value))
        assert(is_token(name) && is_value(value));
}

/* In memory of its own, so that AddressSanitizer sees its end. */
static int read_head(struct slice data, size_t len, struct head_answer *ret_answer)
{
    char *copy = malloc(len + 1);
    int rc;

    assert(copy);
    memcpy(copy, data.data, len);
    rc = head_read_answer((struct slice){copy, len}, ret_answer);
    if (rc == 1) {
        assert(ret_answer->len <= len && ret_answer->len <= HEAD_ANSWER_MAX);
        assert(ret_answer->status == 101 || (ret_answer->status >= 200 && ret_answer->status <= 599));
        assert(is_value(ret_answer->said) && ret_answer->said.data == copy + 9 &&
               ret_answer->said.len + 13 <= ret_answer->len);
        ret_answer->said.data = NULL; /* it goes with the copy */
        check_headers((struct slice){copy, ret_answer->len});
    }
    free(copy);
    return rc;
}

static void check_answer(struct slice data)
{
    struct head_answer answer = {0}, early = {0};
    int rc = read_head(data, data.len, &answer);
    size_t step = 1 + data.len / 64;

    for (size_t len = 0; len < data.len; len += step) {
        int some = read_head(data, len, &early);

        if (some == 0)
            continue;
        assert(some == rc);
        if (some == 1)
            assert(early.status == answer.status && early.len == answer.len &&
                   early.said.len == answer.said.len);
        break;
    }
}

static const struct head_call call = {.call_sid = "CA1", .merchant_id = "shop"};

/* Is it one request, to the last byte? */
static void check_request(struct slice text)
{
    const char *end = memmem(text.data, text.len, "\r\n\r\n", 4);
    struct slice name, value;
    unsigned hosts = 0, upgrades = 0, claims = 0, calls = 0, merchants = 0, ids = 0, traces = 0;
    size_t at = 0;

    assert(end && end + 4 == text.data + text.len);
    assert(memcmp(text.data, "GET /agent", 10) == 0);
    for (const char *c = text.data; c < end; c++)
        assert(*c != '\0' && (*c != '\r' || c[1] == '\n') && (*c != '\n' || c[-1] == '\r'));
    while (next_header(text, &at, &name, &value)) {
        assert(is_token(name));
        /* The client is no proxy, and no router: the only word on these is ours. */
        assert(!header_is(name, "x-real-ip") && !header_is(name, "x-call-resumed"));
        assert(!header_is(name, "x-call-sid") || slice_equals(value, " CA1"));
        assert(!header_is(name, "x-merchant-id") || slice_equals(value, " shop"));
        calls += header_is(name, "x-call-sid");
        merchants += header_is(name, "x-merchant-id");
        ids += slice_is_word(name, "x-request-id");
        traces += slice_is_word(name, "traceparent");
        claims += header_names_client(name);
        hosts += slice_is_word(name, "host");
        upgrades += slice_is_word(name, "upgrade");
        assert(!slice_is_word(name, "content-length") && !slice_is_word(name, "transfer-encoding"));
    }
    assert(hosts == 1 && upgrades == 1 && (claims == 2 || claims == 3));
    assert(calls == 1 && merchants == 1 && ids == 1 && traces <= 1);
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, http_request_arena(request), HEAD_REQUEST_MAX);
    head_write_request(NULL, request, SLICE("/agent"), false, &buf);
    head_end_request(&call, &buf);
    if (!strbuf_failed(&buf))
        check_request(strbuf_slice(&buf));
    http_respond(request, 200, "text/plain", SLICE("seen"));
}

static void world_init(void)
{
    static const struct http_route route = {"GET", "/{rest...}", handle};
    int rc;

    client_server_init(&world.loop, &world.server);
    rc = http_server_route(world.server, &route, NULL);
    assert(rc == 0);
}

static void ask(struct slice bytes)
{
    struct client client = {&world.loop, world.server, "192.0.2.7", false, NULL, NULL};
    struct strbuf buf;

    strbuf_init(&buf, NULL, CLIENT_ANSWER_MAX);
    client_talk(&client, bytes, CLIENT_WHOLE, &buf);
    strbuf_release(&buf);
    log_flush();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char kind = (char)input_byte(&input);
    struct slice rest = input_rest(&input);

    if (!world.server)
        world_init();
    if (kind == 'R')
        ask(rest);
    else if (size > 0)
        check_answer(rest);
    return 0;
}
