/* test_clients.c - how many connections each client has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/clients.h"

enum { MANY = 5000 };

static struct client *enter(struct clients *clients, const char *peer, int expected)
{
    struct client *client = NULL;

    assert_int_equal(clients_enter(clients, peer, &client), expected);
    return client;
}

static void enter__one_address_has_so_many_and_no_more(void **state UNUSED)
{
    struct clients clients;
    struct client *first, *second, *other;

    clients_init(&clients, 2, NULL);
    first = enter(&clients, "192.0.2.1", 0);
    second = enter(&clients, "192.0.2.1", 0);
    assert_ptr_equal(first, second);
    enter(&clients, "192.0.2.1", -EAGAIN);
    enter(&clients, "::ffff:192.0.2.1", -EAGAIN); /* the same in other clothes */
    other = enter(&clients, "192.0.2.2", 0);
    assert_ptr_not_equal(first, other);
    clients_leave(&clients, first);
    assert_ptr_equal(enter(&clients, "192.0.2.1", 0), second);
    clients_leave(&clients, second);
    clients_leave(&clients, second);
    clients_leave(&clients, other);
    clients_release(&clients);
}

static void enter__an_ipv6_client_is_its_block(void **state UNUSED)
{
    struct clients clients;
    struct client *one, *next;

    clients_init(&clients, 1, NULL);
    one = enter(&clients, "2001:db8:0:1::1", 0);
    enter(&clients, "2001:db8:0:1:ffff::2", -EAGAIN);
    next = enter(&clients, "2001:db8:0:2::1", 0);
    clients_leave(&clients, one);
    clients_leave(&clients, next);
    clients_release(&clients);
}

static void enter__who_is_trusted_or_unknown_is_not_counted(void **state UNUSED)
{
    struct trusted *trusted = NULL;
    struct clients clients;
    char error[128];

    assert_int_equal(trusted_new("10.0.0.0/8", &trusted, error, sizeof(error)), 0);
    clients_init(&clients, 1, trusted);
    for (unsigned i = 0; i < 3; i++) {
        assert_null(enter(&clients, "10.1.2.3", 0));
        assert_null(enter(&clients, "", 0));
    }
    assert_int_equal(clients.map.count, 0);
    clients_leave(&clients, NULL);
    clients_release(&clients);
    trusted_free(trusted);
}

static void enter__without_a_limit_nothing_is_remembered(void **state UNUSED)
{
    struct clients clients;

    clients_init(&clients, 0, NULL);
    assert_null(enter(&clients, "192.0.2.1", 0));
    assert_int_equal(clients.map.count, 0);
    clients_release(&clients);
}

static void leave__only_those_with_connections_are_remembered(void **state UNUSED)
{
    static struct client *known[MANY];
    struct clients clients;

    clients_init(&clients, 3, NULL);
    for (unsigned i = 0; i < MANY; i++) {
        char peer[ADDRESS_TEXT_SIZE];

        snprintf(peer, sizeof(peer), "10.0.%u.%u", i / 250, i % 250);
        known[i] = enter(&clients, peer, 0);
        if (i >= 100)
            clients_leave(&clients, known[i - 100]);
        assert_true(clients.map.count <= 101);
    }
    for (unsigned i = MANY - 100; i < MANY; i++)
        clients_leave(&clients, known[i]);
    assert_int_equal(clients.map.count, 0);
    clients_release(&clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enter__one_address_has_so_many_and_no_more),
        cmocka_unit_test(enter__an_ipv6_client_is_its_block),
        cmocka_unit_test(enter__who_is_trusted_or_unknown_is_not_counted),
        cmocka_unit_test(enter__without_a_limit_nothing_is_remembered),
        cmocka_unit_test(leave__only_those_with_connections_are_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
