/* test_ticket.c - tickets: what is signed is what comes back, and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log_text.h"
#include "gateway/gateway.h"
#include "gateway/ticket.h"

static const struct ticket_use stream = {TICKET_STREAM, "voice-agent-0", {"/agent/a%20b", 12}};
static const struct slice secret = {"first secret", 12};
static const struct slice other = {"second secret", 13};

static int check(struct slice key, const char *ticket, uint64_t now_s, char *ret_call_sid)
{
    return ticket_check(&key, 1, slice_of(ticket), &stream, now_s, ret_call_sid);
}

static void check__gives_back_the_call_until_its_expiry(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1] = "";

    assert_int_equal(ticket_make(secret, "CA:1@x+y=z", &stream, 1000, ticket), 0);
    assert_int_equal(check(secret, ticket, 999, call_sid), 0);
    assert_string_equal(call_sid, "CA:1@x+y=z");
    assert_int_equal(check(secret, ticket, 1000, call_sid), 0);
    assert_int_equal(check(secret, ticket, 1001, call_sid), -ETIME);
}

/* As written by Python's hmac and base64: what others may make and check as well. */
static void make__writes_what_the_format_says(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", &stream, 1000, ticket), 0);
    assert_string_equal(ticket, "AgAAAAAAAAPojqTmEHSqJwZUFhQwLNKGIUNBMQ");
}

/* The log hides tickets by their beginning, which is the same until the year 4147. */
static void make__begins_as_the_log_expects(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char text[LOG_CUT_SIZE];

    for (uint64_t expiry_s = 1; expiry_s < UINT64_C(1) << 36; expiry_s *= 2) {
        assert_int_equal(ticket_make(secret, "CA1", &stream, expiry_s, ticket), 0);
        assert_memory_equal(ticket, LOG_TICKET_BEGINS, strlen(LOG_TICKET_BEGINS));
        assert_int_equal(strspn(log_cut(text, slice_of(ticket)), "*"), strlen(ticket));
    }
}

static void make__is_one_path_segment_for_calls_of_every_length(void **state UNUSED)
{
    char sid[CALL_SID_MAX + 1];
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    for (size_t len = 1; len <= CALL_SID_MAX; len++) {
        memset(sid, 'z', len);
        sid[len] = '\0';
        assert_int_equal(ticket_make(secret, sid, &stream, UINT64_MAX, ticket), 0);
        assert_int_equal(strspn(ticket, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                         strlen(ticket));
        assert_true(strlen(ticket) < GATEWAY_TICKET_SIZE);
        assert_int_equal(check(secret, ticket, 1, call_sid), 0);
        assert_string_equal(call_sid, sid);
    }
}

static void check__refuses_another_use_and_another_secret(void **state UNUSED)
{
    static const struct ticket_use uses[] = {
        {TICKET_STREAM, "voice-agent-1", {"/agent/a%20b", 12}},
        {TICKET_STREAM, "", {"/agent/a%20b", 12}},
        {TICKET_STREAM, "voice-agent-0", {"/agent/a%20", 11}},
        {TICKET_STREAM, "voice-agent-0", {"", 0}},
        {TICKET_STREAM, "voice-agent-0", {"/agent/a b", 10}},
        {TICKET_HOLD, "voice-agent-0", {"/agent/a%20b", 12}},
        {TICKET_HOLD, "", {"/agent/a%20b", 12}},
    };
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1] = "untouched";

    assert_int_equal(ticket_make(secret, "CA1", &stream, 1000, ticket), 0);
    for (size_t i = 0; i < ARRAY_LEN(uses); i++)
        assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &uses[i], 1, call_sid), -EBADMSG);
    assert_int_equal(check(other, ticket, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_check(NULL, 0, slice_of(ticket), &stream, 1, call_sid), -EBADMSG);
    assert_string_equal(call_sid, "untouched");
}

static void check__of_a_held_stream_has_no_pod(void **state UNUSED)
{
    static const struct ticket_use hold = {TICKET_HOLD, "", {"/agent", 6}};
    static const struct ticket_use opened = {TICKET_STREAM, "a", {"/agent", 6}};
    static const struct ticket_use at_pod = {TICKET_HOLD, "a", {"/agent", 6}};
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1] = "";

    assert_int_equal(ticket_make(secret, "CA1", &hold, 1000, ticket), 0);
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &hold, 1, call_sid), 0);
    assert_string_equal(call_sid, "CA1");
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &opened, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &at_pod, 1, call_sid), -EBADMSG);
}

/* A pod and a path cannot be cut at another place: neither can hold the NUL between them. */
static void check__path_and_pod_do_not_run_into_each_other(void **state UNUSED)
{
    static const struct ticket_use one = {TICKET_STREAM, "a", {"b/c", 3}};
    static const struct ticket_use two = {TICKET_STREAM, "ab", {"/c", 2}};
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", &one, 1000, ticket), 0);
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &two, 1, call_sid), -EBADMSG);
}

static void make__refuses_a_path_that_nobody_can_ask_for(void **state UNUSED)
{
    static char path[TICKET_PATH_MAX + 1];
    struct ticket_use use = {TICKET_STREAM, "voice-agent-0", {path, TICKET_PATH_MAX}};
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    memset(path, 'a', sizeof(path));
    assert_int_equal(ticket_make(secret, "CA1", &use, 1000, ticket), 0);
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &use, 1, call_sid), 0);
    use.path.len++;
    assert_int_equal(ticket_check(&secret, 1, slice_of(ticket), &use, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_make(secret, "CA1", &use, 1000, ticket), -ENAMETOOLONG);
}

/* What a router of the version before has signed: the call may come back to one of this version. */
static void check__takes_an_old_ticket_for_its_pod_whatever_the_path(void **state UNUSED)
{
    static const char old[] = "AQAAAAAAAAPoyHS7HnecU1jhiTciIRLlekNBMQ";
    static const struct ticket_use elsewhere = {TICKET_STREAM, "voice-agent-1", {"/agent/a%20b", 12}};
    static const struct ticket_use hold = {TICKET_HOLD, "", {"/agent/a%20b", 12}};
    char call_sid[CALL_SID_MAX + 1] = "";
    char as_new[sizeof(old)];

    assert_int_equal(check(secret, old, 1000, call_sid), 0);
    assert_string_equal(call_sid, "CA1");
    assert_int_equal(check(secret, old, 1001, call_sid), -ETIME);
    assert_int_equal(check(other, old, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_check(&secret, 1, slice_of(old), &elsewhere, 1, call_sid), -EBADMSG);
    assert_int_equal(ticket_check(&secret, 1, slice_of(old), &hold, 1, call_sid), -EBADMSG);
    memcpy(as_new, old, sizeof(old));
    as_new[1] = 'g'; /* version 2 */
    assert_int_equal(check(secret, as_new, 1, call_sid), -EBADMSG);
}

/* Nor does a new one become an old one, which would be good for every path. */
static void check__refuses_a_new_ticket_that_says_that_it_is_old(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", &stream, 1000, ticket), 0);
    assert_int_equal(ticket[1], 'g');
    ticket[1] = 'Q';
    assert_int_equal(check(secret, ticket, 1, call_sid), -EBADMSG);
}

static void check__takes_either_of_two_secrets(void **state UNUSED)
{
    const struct slice both[] = {other, secret};
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];

    assert_int_equal(ticket_make(secret, "CA1", &stream, 1000, ticket), 0);
    assert_int_equal(ticket_check(both, 2, slice_of(ticket), &stream, 1, call_sid), 0);
    assert_int_equal(ticket_make(other, "CA2", &stream, 1000, ticket), 0);
    assert_int_equal(ticket_check(both, 2, slice_of(ticket), &stream, 1, call_sid), 0);
    assert_string_equal(call_sid, "CA2");
}

static void check__refuses_every_changed_character_and_every_length(void **state UNUSED)
{
    char ticket[TICKET_MAX + 1];
    char call_sid[CALL_SID_MAX + 1];
    size_t len;

    assert_int_equal(ticket_make(secret, "CA12", &stream, 1000, ticket), 0);
    len = strlen(ticket);
    for (size_t i = 0; i < len; i++) {
        char was = ticket[i];

        for (int c = 1; c < 256; c++) {
            if ((char)c == was)
                continue;
            ticket[i] = (char)c;
            assert_int_equal(ticket_check(&secret, 1, (struct slice){ticket, len}, &stream, 1, call_sid),
                             -EBADMSG);
        }
        ticket[i] = was;
        assert_int_equal(ticket_check(&secret, 1, (struct slice){ticket, i}, &stream, 1, call_sid), -EBADMSG);
    }
    assert_int_equal(check(secret, ticket, 1, call_sid), 0);
}

static void check__refuses_what_is_no_ticket(void **state UNUSED)
{
    char call_sid[CALL_SID_MAX + 1];
    char text[4096];

    assert_int_equal(check(secret, "", 1, call_sid), -EBADMSG);
    assert_int_equal(check(secret, "agent", 1, call_sid), -EBADMSG);
    memset(text, 'A', sizeof(text));
    for (size_t len = 0; len < sizeof(text); len += 7)
        assert_int_equal(ticket_check(&secret, 1, (struct slice){text, len}, &stream, 1, call_sid), -EBADMSG);
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
        cmocka_unit_test(make__begins_as_the_log_expects),
        cmocka_unit_test(make__is_one_path_segment_for_calls_of_every_length),
        cmocka_unit_test(check__refuses_another_use_and_another_secret),
        cmocka_unit_test(check__of_a_held_stream_has_no_pod),
        cmocka_unit_test(check__path_and_pod_do_not_run_into_each_other),
        cmocka_unit_test(make__refuses_a_path_that_nobody_can_ask_for),
        cmocka_unit_test(check__takes_an_old_ticket_for_its_pod_whatever_the_path),
        cmocka_unit_test(check__refuses_a_new_ticket_that_says_that_it_is_old),
        cmocka_unit_test(check__takes_either_of_two_secrets),
        cmocka_unit_test(check__refuses_every_changed_character_and_every_length),
        cmocka_unit_test(check__refuses_what_is_no_ticket),
        cmocka_unit_test(secret__is_one_or_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
