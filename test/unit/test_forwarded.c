/* test_forwarded.c - whose word counts when a proxy stands between the client and us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "http/connection.h"
#include "http/forwarded.h"

/* A request that was really parsed, on a connection without a socket. */
struct world {
    struct http_server *server;
    struct http_connection connection;
    struct http_request *request;
    struct trusted *trusted;
    struct forwarded seen;
    char text[HTTP_HEADER_MAX];
};

static void world_read(struct world *world, const char *trusted, const char *peer, const char *headers)
{
    char error[256] = "";

    *world = (struct world){.server = calloc(1, sizeof(*world->server))};
    assert_non_null(world->server);
    snprintf(world->text, sizeof(world->text), "GET / HTTP/1.1\r\nHost: inside:8080\r\n%s\r\n", headers);
    world->connection = (struct http_connection){.magic = CONNECTION_MAGIC,
                                                 .server = world->server,
                                                 .tls_fd = -1,
                                                 .buffer = world->text,
                                                 .room = sizeof(world->text),
                                                 .len = strlen(world->text)};
    snprintf(world->connection.peer, sizeof(world->connection.peer), "%s", peer);
    parser_init(&world->connection);
    world->request = world->connection.request = http_request_get(&world->connection);
    assert_non_null(world->request);
    assert_int_equal(parser_run(&world->connection), 1);
    assert_int_equal(trusted_new(trusted, &world->trusted, error, sizeof(error)), 0);
    forwarded_read(world->trusted, world->request, &world->seen);
}

static void world_release(struct world *world)
{
    trusted_free(world->trusted);
    http_request_free(world->request);
    free(world->server);
}

static void expect_client(const char *trusted, const char *peer, const char *headers, const char *client)
{
    struct world world;

    world_read(&world, trusted, peer, headers);
    assert_string_equal(world.seen.client, client);
    world_release(&world);
}

static void expect_url(const char *peer, const char *headers, bool is_https, const char *host)
{
    struct world world;

    world_read(&world, "10.0.0.0/8", peer, headers);
    assert_int_equal(world.seen.is_https, is_https);
    if (!slice_equals(world.seen.host, host))
        fail_msg("the host is %.*s", (int)world.seen.host.len, world.seen.host.data);
    world_release(&world);
}

static void client__is_the_peer_when_nobody_is_trusted(void **state UNUSED)
{
    expect_client("", "10.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n", "10.0.0.1");
    expect_client("10.0.0.2,2001:db8::/32", "10.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n", "10.0.0.1");
    expect_client("::/0", "10.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n", "10.0.0.1");
    expect_client("0.0.0.0/0", "", "X-Forwarded-For: 192.0.2.1\r\n", "");
}

static void client__is_whom_the_trusted_proxy_saw(void **state UNUSED)
{
    expect_client("10.0.0.1", "10.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1");
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: 192.0.2.1:4711\r\n", "192.0.2.1");
    expect_client("10.0.0.0/8", "10.0.0.1", "x-forwarded-for: [2001:DB8::1]:4711\r\n", "2001:db8::1");
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1");
    expect_client("fd00::/8", "fd00::7", "X-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1");
    expect_client("10.0.0.0/8", "10.0.0.1", "", "10.0.0.1");
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For:\r\n", "10.0.0.1");
}

static void client__what_it_says_of_itself_does_not_count(void **state UNUSED)
{
    /* It sent 198.51.100.9 itself; the outer proxy saw 192.0.2.1, the inner one the outer one. */
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: 198.51.100.9, 192.0.2.1,10.0.0.2\r\n",
                  "192.0.2.1");
    expect_client(
        "10.0.0.0/8", "10.0.0.1",
        "X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.2\r\n",
        "192.0.2.1");
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: 10.9.9.9, 192.0.2.1\r\n", "192.0.2.1");
}

static void client__all_trusted_is_the_first_of_them(void **state UNUSED)
{
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3");
}

static void client__what_is_no_address_ends_the_search(void **state UNUSED)
{
    static const char *const bad[] = {"unknown", "192.0.2.1x", "[192.0.2.1", "999.0.0.1", "evil, ", "1"};
    char headers[128];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(headers, sizeof(headers), "X-Forwarded-For: 192.0.2.1, %s, 10.0.0.2\r\n", bad[i]);
        expect_client("10.0.0.0/8", "10.0.0.1", headers, "10.0.0.2");
    }
    expect_client("10.0.0.0/8", "10.0.0.1", "X-Forwarded-For: me\r\n", "10.0.0.1");
}

static void client__a_list_without_end_is_followed_for_a_while(void **state UNUSED)
{
    struct strbuf headers;

    strbuf_init(&headers, NULL, 4096);
    strbuf_append_str(&headers, "X-Forwarded-For: 192.0.2.1");
    for (int i = 0; i < 200; i++)
        strbuf_append_str(&headers, ",10.0.0.2");
    strbuf_append_str(&headers, "\r\n");
    assert_false(strbuf_failed(&headers));
    expect_client("10.0.0.0/8", "10.0.0.1", headers.data, "10.0.0.2");
    strbuf_release(&headers);
}

static void url__comes_from_the_connection_unless_the_peer_is_trusted(void **state UNUSED)
{
    expect_url("192.0.2.1", "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n", false,
               "inside:8080");
    expect_url("10.0.0.1", "", false, "inside:8080");
    expect_url("10.0.0.1", "X-Forwarded-Proto: https\r\nX-Forwarded-Host: api.example:8443\r\n", true,
               "api.example:8443");
    expect_url("10.0.0.1", "X-Forwarded-Proto: HTTPS , http\r\nX-Forwarded-Host: a.example, b.example\r\n",
               true, "a.example");
    expect_url("10.0.0.1", "X-Forwarded-Proto: http\r\n", false, "inside:8080");
}

static void url__what_is_no_host_is_passed_over(void **state UNUSED)
{
    expect_url("10.0.0.1", "X-Forwarded-Host: a/b\r\n", false, "inside:8080");
    expect_url("10.0.0.1", "X-Forwarded-Host: user@host\r\n", false, "inside:8080");
    expect_url("10.0.0.1", "X-Forwarded-Host: , api.example\r\n", false, "inside:8080");
    expect_url("10.0.0.1", "X-Forwarded-Proto: gopher\r\n", false, "inside:8080");
}

static void trusted__refuses_what_is_no_address(void **state UNUSED)
{
    static const char *const bad[] = {
        "localhost",  "10.0.0.0/33",   "10.0.0/8", "::/129", "10.0.0.1,",         ",",
        "10.0.0.0/x", "10.0.0.0/",     "/8",       "::1/-1", "::ffff:10.0.0.0/8", "10.0.0.1 10.0.0.2",
        "[::1]",      "10.0.0.0/0008",
    };
    struct trusted *trusted = NULL;
    struct strbuf many;
    char error[256];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        error[0] = '\0';
        assert_int_equal(trusted_new(bad[i], &trusted, error, sizeof(error)), -EINVAL);
        assert_true(strlen(error) > 10);
    }
    strbuf_init(&many, NULL, 4096);
    strbuf_append_str(&many, "::1");
    for (int i = 1; i < TRUSTED_MAX; i++)
        strbuf_append_str(&many, ",::1");
    assert_int_equal(trusted_new(many.data, &trusted, error, sizeof(error)), 0);
    trusted = trusted_free(trusted);
    strbuf_append_str(&many, ",::1");
    assert_int_equal(trusted_new(many.data, &trusted, error, sizeof(error)), -EINVAL);
    strbuf_release(&many);
    assert_null(trusted);
}

static bool has(const char *list, const char *text)
{
    struct trusted *trusted = NULL;
    struct address address;
    char error[256];
    bool found;

    assert_int_equal(trusted_new(list, &trusted, error, sizeof(error)), 0);
    assert_int_equal(address_parse(slice_of(text), &address), 0);
    found = trusted_has(trusted, &address);
    trusted_free(trusted);
    return found;
}

static void trusted__knows_blocks_to_the_bit(void **state UNUSED)
{
    assert_true(has("192.0.2.128/25", "192.0.2.128"));
    assert_true(has(" 192.0.2.130/25 ,10.0.0.1", "192.0.2.255"));
    assert_false(has("192.0.2.128/25", "192.0.2.127"));
    assert_true(has("2001:db8:8000::/33", "2001:db8:ffff::1"));
    assert_false(has("2001:db8:8000::/33", "2001:db8:7fff::1"));
    assert_true(has("0.0.0.0/0", "203.0.113.1"));
    assert_false(has("0.0.0.0/0", "::1"));
    assert_false(has("::/0", "203.0.113.1"));
    assert_true(has("::ffff:10.0.0.0/104", "10.1.2.3"));
    assert_true(has("10.0.0.0/8", "::ffff:10.1.2.3"));
    assert_false(has("10.0.0.1", "10.0.0.2"));
    assert_false(has("", "10.0.0.2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__is_the_peer_when_nobody_is_trusted),
        cmocka_unit_test(client__is_whom_the_trusted_proxy_saw),
        cmocka_unit_test(client__what_it_says_of_itself_does_not_count),
        cmocka_unit_test(client__all_trusted_is_the_first_of_them),
        cmocka_unit_test(client__what_is_no_address_ends_the_search),
        cmocka_unit_test(client__a_list_without_end_is_followed_for_a_while),
        cmocka_unit_test(url__comes_from_the_connection_unless_the_peer_is_trusted),
        cmocka_unit_test(url__what_is_no_host_is_passed_over),
        cmocka_unit_test(trusted__refuses_what_is_no_address),
        cmocka_unit_test(trusted__knows_blocks_to_the_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
