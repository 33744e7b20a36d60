/* test_ticket.c - tickets: what is signed is what comes back, and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/gateway.h"
#include "gateway/ticket.h"

static const char pod[] = "voice-agent-0";
static const struct slice secret = {"first secret", 12};
static const struct slice other = {"second secret", 13};

static int check(struct slice key, const char *ticket, const char *at_pod, uint64_t now_s, char *ret_call_sid)
{
    return ticket_check(&key, 1, slice_of(ticket), at_pod, now_s, ret_call_sid);
}

static void check__gives_back_the_call_until_its_expiry(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1] = "";

    assert_int_equal(ticket_make(secret, "CA:1@x+y=z", pod, 1000, ticket), 0);
    assert_int_equal(check(secret, ticket, pod, 999, call_sid), 0);
    assert_string_equal(call_sid, "CA:1@x+y=z");
    assert_int_equal(check(secret, ticket, pod, 1000, call_sid), 0);
    assert_int_equal(check(secret, ticket, pod, 1001, call_sid), -ETIME);
}

/* As written by Python's hmac and base64: what others may make and check as well. */
static void make__writes_what_the_format_says(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", pod, 1000, ticket), 0);
    assert_string_equal(ticket, "AQAAAAAAAAPoyHS7HnecU1jhiTciIRLlekNBMQ");
}

static void make__is_one_path_segment_for_calls_of_every_length(void **state UNUSED)
{
    char sid[CALL_SID_MAX + 1];
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    for (size_t len = 1; len <= CALL_SID_MAX; len++) {
        memset(sid, 'z', len);
        sid[len] = '\0';
        assert_int_equal(ticket_make(secret, sid, pod, UINT64_MAX, ticket), 0);
        assert_int_equal(strspn(ticket, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                         strlen(ticket));
        assert_true(strlen(ticket) < GATEWAY_TICKET_SIZE);
        assert_int_equal(check(secret, ticket, pod, 1, call_sid), 0);
        assert_string_equal(call_sid, sid);
    }
}

static void check__refuses_another_pod_and_another_secret(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1] = "untouched";

    assert_int_equal(ticket_make(secret, "CA1", pod, 1000, ticket), 0);
    assert_int_equal(check(secret, ticket, "voice-agent-1", 1, call_sid), -EBADMSG);
    assert_int_equal(check(other, ticket, pod, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_check(NULL, 0, slice_of(ticket), pod, 1, call_sid), -EBADMSG);
    assert_string_equal(call_sid, "untouched");
}

static void check__takes_either_of_two_secrets(void **state UNUSED)
{
    const struct slice both[] = {other, secret};
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", pod, 1000, ticket), 0);
    assert_int_equal(ticket_check(both, 2, slice_of(ticket), pod, 1, call_sid), 0);
    assert_int_equal(ticket_make(other, "CA2", pod, 1000, ticket), 0);
    assert_int_equal(ticket_check(both, 2, slice_of(ticket), pod, 1, call_sid), 0);
    assert_string_equal(call_sid, "CA2");
}

static void check__refuses_every_changed_character_and_every_length(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];
    size_t len;

    assert_int_equal(ticket_make(secret, "CA12", pod, 1000, ticket), 0);
    len = strlen(ticket);
    for (size_t i = 0; i < len; i++) {
        char was = ticket[i];

        for (int c = 1; c < 256; c++) {
            if ((char)c == was)
                continue;
            ticket[i] = (char)c;
            assert_int_equal(ticket_check(&secret, 1, (struct slice){ticket, len}, pod, 1, call_sid),
                             -EBADMSG);
        }
        ticket[i] = was;
        assert_int_equal(ticket_check(&secret, 1, (struct slice){ticket, i}, pod, 1, call_sid), -EBADMSG);
    }
    assert_int_equal(check(secret, ticket, pod, 1, call_sid), 0);
}

static void check__refuses_what_is_no_ticket(void **state UNUSED)
{
    char call_sid[CALL_SID_MAX + 1];
    char text[4096];

    assert_int_equal(check(secret, "", pod, 1, call_sid), -EBADMSG);
    assert_int_equal(check(secret, "agent", pod, 1, call_sid), -EBADMSG);
    memset(text, 'A', sizeof(text));
    for (size_t len = 0; len < sizeof(text); len += 7)
        assert_int_equal(ticket_check(&secret, 1, (struct slice){text, len}, pod, 1, call_sid), -EBADMSG);
}

static void secret__is_one_or_two(void **state UNUSED)
{
    static const char *const bad[] = {",", "a,", ",a", "a,,b", "a,b,c"};
    char error[256] = "";

    assert_true(gateway_check_secret("", error, sizeof(error)));
    assert_true(gateway_check_secret("a", error, sizeof(error)));
    assert_true(gateway_check_secret("a,b", error, sizeof(error)));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(gateway_check_secret(bad[i], error, sizeof(error)));
    assert_non_null(strstr(error, "separated by a comma"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__gives_back_the_call_until_its_expiry),
        cmocka_unit_test(make__writes_what_the_format_says),
        cmocka_unit_test(make__is_one_path_segment_for_calls_of_every_length),
        cmocka_unit_test(check__refuses_another_pod_and_another_secret),
        cmocka_unit_test(check__takes_either_of_two_secrets),
        cmocka_unit_test(check__refuses_every_changed_character_and_every_length),
        cmocka_unit_test(check__refuses_what_is_no_ticket),
        cmocka_unit_test(secret__is_one_or_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
