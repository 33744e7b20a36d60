/* test_address_rule.c - where a pod that registered itself may be, and who the headers of proxies name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/address_rule.h"
#include "http/proxy_headers.h"

static enum address_kind kind_of(const char *text)
{
    struct address address;

    assert_int_equal(address_parse(slice_of(text), &address), 0);
    return address_kind(&address);
}

static void kind__is_that_of_the_block_and_of_the_address_inside(void **state UNUSED)
{
    static const struct {
        const char *text;
        enum address_kind kind;
    } rows[] = {
        {"0.0.0.0", ADDRESS_UNSPECIFIED},
        {"0.255.255.255", ADDRESS_UNSPECIFIED},
        {"1.0.0.0", ADDRESS_ORDINARY},
        {"126.255.255.255", ADDRESS_ORDINARY},
        {"127.0.0.0", ADDRESS_LOOPBACK},
        {"127.255.255.255", ADDRESS_LOOPBACK},
        {"128.0.0.0", ADDRESS_ORDINARY},
        {"169.253.255.255", ADDRESS_ORDINARY},
        {"169.254.0.0", ADDRESS_LINK_LOCAL},
        {"169.254.255.255", ADDRESS_LINK_LOCAL},
        {"169.255.0.0", ADDRESS_ORDINARY},
        {"223.255.255.255", ADDRESS_ORDINARY},
        {"224.0.0.0", ADDRESS_MULTICAST},
        {"239.255.255.255", ADDRESS_MULTICAST},
        {"240.0.0.0", ADDRESS_ORDINARY},
        {"255.255.255.254", ADDRESS_ORDINARY},
        {"255.255.255.255", ADDRESS_BROADCAST},
        {"::", ADDRESS_UNSPECIFIED},
        {"::1", ADDRESS_LOOPBACK},
        {"::2", ADDRESS_UNSPECIFIED}, /* ::0.0.0.2 */
        {"::127.0.0.1", ADDRESS_LOOPBACK},
        {"::10.0.0.1", ADDRESS_ORDINARY},
        {"::1:0:0", ADDRESS_ORDINARY},
        {"::ffff:169.254.169.254", ADDRESS_LINK_LOCAL},
        {"64:ff9b::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b::169.254.1.1", ADDRESS_LINK_LOCAL},
        {"64:ff9b::10.0.0.1", ADDRESS_ORDINARY},
        {"64:ff9b:0:1::127.0.0.1", ADDRESS_ORDINARY},
        {"64:ff9b:1::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b:1:ffff:ffff:ffff:169.254.169.254", ADDRESS_LINK_LOCAL},
        {"64:ff9b:1::10.0.0.1", ADDRESS_ORDINARY},
        {"64:ff9b:2::127.0.0.1", ADDRESS_ORDINARY},
        {"2002:7f00:1::1", ADDRESS_LOOPBACK},
        {"2002:a00:1::1", ADDRESS_ORDINARY},
        {"fe7f:ffff::1", ADDRESS_ORDINARY},
        {"fe80::", ADDRESS_LINK_LOCAL},
        {"febf:ffff::1", ADDRESS_LINK_LOCAL},
        {"fec0::1", ADDRESS_ORDINARY},
        {"feff::1", ADDRESS_ORDINARY},
        {"ff00::", ADDRESS_MULTICAST},
        {"ff02::1", ADDRESS_MULTICAST},
        {"fd00::1", ADDRESS_ORDINARY},
        {"2001:db8::1", ADDRESS_ORDINARY},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (kind_of(rows[i].text) != rows[i].kind)
            fail_msg("%s is %d, not %d", rows[i].text, kind_of(rows[i].text), rows[i].kind);
    }
}

/* With this list, may it be there, if it comes from loopback and if it does not? "yes", "local" or "no". */
static const char *judge(const char *list, const char *text)
{
    struct trusted *allow = NULL;
    char error[256];
    bool is_fine, is_fine_locally;

    assert_int_equal(trusted_new(list, &allow, error, sizeof(error)), 0);
    is_fine = !address_text_forbidden_by(allow, text, false);
    is_fine_locally = !address_text_forbidden_by(allow, text, true);
    trusted_free(allow);
    assert_true(is_fine_locally || !is_fine);
    return is_fine ? "yes" : is_fine_locally ? "local" : "no";
}

static void rule__without_a_list(void **state UNUSED)
{
    static const char *const yes[] = {
        "10.0.0.1:80", "[fd00::1]:80",          "[fd00::1]",      "a.name:80", "name",
        "127.1:80",    "localhost.example.com", "notlocalhost:1", "240.0.0.1"};
    static const char *const local[] = {"127.0.0.1:80",        "127.3.2.1",     "[::1]:80",
                                        "localhost",           "LOCALHOST.:80", "a.b.localhost:80",
                                        "[::ffff:127.0.0.1]:1"};
    static const char *const no[] = {"169.254.169.254:80", "[fe80::1%eth0]:80", "0.0.0.0",          "[::]:80",
                                     "224.0.0.1:1",        "[ff02::1]:80",      "255.255.255.255:1"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        assert_string_equal(judge("", yes[i]), "yes");
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        assert_string_equal(judge("", local[i]), "local");
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_string_equal(judge("", no[i]), "no");
}

static void rule__a_list_narrows_it(void **state UNUSED)
{
    assert_string_equal(judge("10.0.0.0/8", "10.1.2.3:80"), "yes");
    assert_string_equal(judge("10.0.0.0/8", "11.1.2.3:80"), "no");
    assert_string_equal(judge("10.0.0.0/8", "127.0.0.1:80"), "no");
    assert_string_equal(judge("10.0.0.0/8", "localhost:80"), "no");
    assert_string_equal(judge("10.0.0.0/8", "a.name:80"), "yes");
    assert_string_equal(judge("0.0.0.0/0", "127.0.0.1:80"), "local");
    assert_string_equal(judge("0.0.0.0/0", "169.254.1.1:80"), "no");
    assert_string_equal(judge("::/0", "[::1]:80"), "local");
    assert_string_equal(judge("::/0", "[fe80::1]:80"), "no");
}

static void rule__a_block_inside_of_what_is_refused_was_meant(void **state UNUSED)
{
    assert_string_equal(judge("127.0.0.0/8", "127.0.0.9:80"), "yes");
    assert_string_equal(judge("127.0.0.0/8", "localhost:80"), "yes");
    assert_string_equal(judge("::1", "localhost:80"), "yes");
    assert_string_equal(judge("126.0.0.0/7", "127.0.0.9:80"), "local");
    assert_string_equal(judge("169.254.7.0/24", "169.254.7.1"), "yes");
    assert_string_equal(judge("169.254.7.0/24", "169.254.8.1"), "no");
    assert_string_equal(judge("fe80::/10", "[fe80::1]:80"), "yes");
    assert_string_equal(judge("fe00::/9", "[fe80::1]:80"), "no");
    assert_string_equal(judge("64:ff9b::/96", "[64:ff9b::127.0.0.1]:80"), "local");
    assert_string_equal(judge("64:ff9b::7f00:0/104", "[64:ff9b::127.0.0.1]:80"), "yes");
}

static void text__says_loopback_or_does_not(void **state UNUSED)
{
    assert_true(address_text_is_loopback("127.0.0.1:80"));
    assert_true(address_text_is_loopback("[::1]"));
    assert_true(address_text_is_loopback("localhost:80"));
    assert_false(address_text_is_loopback("127.1:80"));
    assert_false(address_text_is_loopback("2130706433"));
    assert_false(address_text_is_loopback("name:80"));
    assert_false(address_text_is_loopback(""));
    assert_false(address_text_is_loopback("[::1"));
}

static void assert_split(const char *text, const char *host, const char *port)
{
    struct slice got_host, got_port;

    assert_int_equal(address_split(slice_of(text), &got_host, &got_port), 0);
    assert_true(slice_equals(got_host, host));
    assert_true(slice_equals(got_port, port));
}

static void split__takes_host_and_port_apart(void **state UNUSED)
{
    static const char *const bad[] = {"", ":80", "a:", "[]:80", "[::1", "[::1]80", "[::1]:"};
    struct slice host, port;

    assert_split("a:80", "a", "80");
    assert_split("a", "a", "");
    assert_split("[::1]:80", "::1", "80");
    assert_split("[::1]", "::1", "");
    assert_split("::1", "::1", "");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(address_split(slice_of(bad[i]), &host, &port), -EINVAL);
}

static void header__names_the_client_however_it_is_written(void **state UNUSED)
{
    static const char *const yes[] = {
        "X-Real-IP",        "x_real_ip",      "Forwarded",  "X-Forwarded-For", "X-FORWARDED-Anything",
        "CF-Connecting-IP", "X-Original-URL", "X-Forwarded"};
    static const char *const no[] = {
        "X-Real", "X-Real-IP-2", "Forwarded-x", "Host", "X-Twilio-Signature", "Origin", "X-Forward", ""};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        assert_true(header_names_client(slice_of(yes[i])));
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_false(header_names_client(slice_of(no[i])));
    assert_true(header_is(SLICE("X_Call-SID"), "x-call-sid"));
    assert_false(header_is(SLICE("X-Call-Sid2"), "x-call-sid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kind__is_that_of_the_block_and_of_the_address_inside),
        cmocka_unit_test(rule__without_a_list),
        cmocka_unit_test(rule__a_list_narrows_it),
        cmocka_unit_test(rule__a_block_inside_of_what_is_refused_was_meant),
        cmocka_unit_test(text__says_loopback_or_does_not),
        cmocka_unit_test(split__takes_host_and_port_apart),
        cmocka_unit_test(header__names_the_client_however_it_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
