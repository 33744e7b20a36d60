/* test_rate.c - how often one client may ask, on a clock that is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/rate.h"

static struct rate *make(const char *text)
{
    struct rate *rate = NULL;

    assert_int_equal(rate_new(text, &rate), 0);
    return rate;
}

/* How many of `tries` at that moment are let through. */
static unsigned passed(struct rate *rate, const char *client, uint64_t now_ms, unsigned tries)
{
    unsigned count = 0;

    for (unsigned i = 0; i < tries; i++)
        count += rate_take(rate, client, now_ms) == 0;
    return count;
}

static void check__takes_rates_and_nothing_else(void **state UNUSED)
{
    static const char *const good[] = {"", "1/s", "10/s", "600/m", "3600/h", "1000000/s"};
    static const char *const bad[] = {"10",    "0/s",   "/s",    "10/",   "10/d",
                                      "10/s ", " 10/s", "-1/s",  "1.5/s", "1000001/s",
                                      "10/ms", "off",   "10 /s", "+1/s",  "99999999999999999999999999/s"};
    char error[256];

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(rate_check(good[i], error, sizeof(error)), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        error[0] = '\0';
        assert_int_equal(rate_check(bad[i], error, sizeof(error)), -EINVAL);
        assert_non_null(strstr(error, bad[i]));
    }
}

static void no_limit__is_no_rate(void **state UNUSED)
{
    struct rate *rate = (struct rate *)1;

    assert_int_equal(rate_new("", &rate), 0);
    assert_null(rate);
    assert_null(rate_free(rate));
}

static void burst__is_the_number_and_no_more(void **state UNUSED)
{
    struct rate *rate = make("10/s");

    assert_int_equal(passed(rate, "192.0.2.1", 5000, 100), 10);
    assert_int_equal(passed(rate, "192.0.2.1", 5099, 100), 0);
    assert_int_equal(passed(rate, "192.0.2.1", 5100, 100), 1);
    assert_int_equal(passed(rate, "192.0.2.1", 5500, 100), 4);
    assert_int_equal(passed(rate, "192.0.2.1", 60000, 100), 10);
    rate_free(rate);
}

static void refused__is_told_when_to_come_back_and_then_passes(void **state UNUSED)
{
    struct rate *rate = make("6/m");
    uint64_t now_ms = 1000;
    uint64_t wait_ms;

    assert_int_equal(passed(rate, "192.0.2.1", now_ms, 6), 6);
    wait_ms = rate_take(rate, "192.0.2.1", now_ms);
    assert_int_equal(wait_ms, 10 * 1000);
    assert_int_equal(rate_take(rate, "192.0.2.1", now_ms + wait_ms - 1), 1);
    assert_int_equal(rate_take(rate, "192.0.2.1", now_ms + wait_ms), 0);
    rate_free(rate);
}

static void refused__does_not_count_against_the_client(void **state UNUSED)
{
    struct rate *rate = make("10/s");

    for (uint64_t now_ms = 1000; now_ms < 11000; now_ms++)
        (void)!passed(rate, "192.0.2.1", now_ms, 3);
    assert_int_equal(passed(rate, "192.0.2.1", 11100, 100), 2);
    rate_free(rate);
}

static void long_run__is_the_rate(void **state UNUSED)
{
    struct rate *rate = make("7/s");
    unsigned count = 0;

    for (uint64_t now_ms = 0; now_ms < 100 * 1000; now_ms += 10)
        count += passed(rate, "192.0.2.1", now_ms, 1);
    assert_in_range(count, 7 * 100, 7 * 100 + 7);
    rate_free(rate);
}

static void clients__have_a_bucket_each(void **state UNUSED)
{
    struct rate *rate = make("2/s");

    assert_int_equal(passed(rate, "192.0.2.1", 1000, 5), 2);
    assert_int_equal(passed(rate, "192.0.2.2", 1000, 5), 2);
    assert_int_equal(passed(rate, "::ffff:192.0.2.2", 1000, 5), 0);
    assert_int_equal(passed(rate, "2001:db8:0:1::1", 1000, 1), 1);
    assert_int_equal(passed(rate, "2001:db8:0:1:ffff::9", 1000, 5), 1); /* the same /64 */
    assert_int_equal(passed(rate, "2001:db8:0:2::1", 1000, 5), 2);
    assert_int_equal(passed(rate, "", 1000, 5), 2);
    assert_int_equal(passed(rate, "nobody", 1000, 5), 0);
    rate_free(rate);
}

static void ask_as(struct rate *rate, unsigned number, uint64_t now_ms)
{
    char text[32];

    snprintf(text, sizeof(text), "10.%u.%u.%u", number >> 16 & 255, number >> 8 & 255, number & 255);
    (void)!rate_take(rate, text, now_ms);
}

static void table__is_bounded_and_the_one_idle_longest_goes(void **state UNUSED)
{
    struct rate *rate = make("1/h");

    assert_int_equal(passed(rate, "192.0.2.1", 1000, 2), 1);
    for (unsigned i = 0; i < RATE_CLIENTS_MAX - 1; i++)
        ask_as(rate, i, 1000);
    assert_int_equal(rate_clients(rate), RATE_CLIENTS_MAX);
    assert_int_equal(passed(rate, "192.0.2.1", 1000, 1), 0); /* still known, and now the latest */
    for (unsigned i = 0; i < 1000; i++)
        ask_as(rate, RATE_CLIENTS_MAX + i, 1000);
    assert_in_range(rate_clients(rate), RATE_CLIENTS_MAX - 1, RATE_CLIENTS_MAX);
    assert_int_equal(passed(rate, "192.0.2.1", 1000, 1), 0);
    assert_int_equal(passed(rate, "10.0.0.0", 1000, 1), 1); /* forgotten */
    rate_free(rate);
}

static void table__forgets_who_may_ask_again_anyway(void **state UNUSED)
{
    struct rate *rate = make("1/s");

    for (unsigned i = 0; i < 1000; i++)
        ask_as(rate, i, 1000);
    assert_int_equal(rate_clients(rate), 1000);
    for (unsigned i = 0; i < 1000; i++)
        ask_as(rate, 5000 + i, 10000 + 2 * i);
    assert_in_range(rate_clients(rate), 1, 600); /* those of the last second, at most */
    rate_free(rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__takes_rates_and_nothing_else),
        cmocka_unit_test(no_limit__is_no_rate),
        cmocka_unit_test(burst__is_the_number_and_no_more),
        cmocka_unit_test(refused__is_told_when_to_come_back_and_then_passes),
        cmocka_unit_test(refused__does_not_count_against_the_client),
        cmocka_unit_test(long_run__is_the_rate),
        cmocka_unit_test(clients__have_a_bucket_each),
        cmocka_unit_test(table__is_bounded_and_the_one_idle_longest_goes),
        cmocka_unit_test(table__forgets_who_may_ask_again_anyway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
