/* test_providers.c - answers that a telephony provider can read, whatever the values hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/providers/provider.h"
#include "api/providers/xml.h"
#include "base/utf8.h"

#define DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
#define UNREADABLE "\xef\xbf\xbd"

static void assert_escaped(struct slice text, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    xml_escape(&buf, text);
    assert_string_equal(buf.data ? buf.data : "", expected);
    strbuf_release(&buf);
}

static void xml_escape__replaces_what_has_a_meaning(void **state UNUSED)
{
    assert_escaped(SLICE("plain"), "plain");
    assert_escaped(SLICE(""), "");
    assert_escaped(SLICE("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&apos;c");
    assert_escaped(SLICE("]]>"), "]]&gt;");
    assert_escaped(SLICE("a\tb\nc\rd"), "a&#9;b&#10;c&#13;d");
}

static void xml_escape__control_characters_become_unreadable(void **state UNUSED)
{
    assert_escaped(SLICE("a\x01"
                         "b\x1f"
                         "c"),
                   "a" UNREADABLE "b" UNREADABLE "c");
    assert_escaped(SLICE("a\0b"), "a" UNREADABLE "b");
    assert_escaped(SLICE("\xef\xbf\xbe\xef\xbf\xbf"), UNREADABLE UNREADABLE);
}

static void xml_escape__what_is_not_utf8_becomes_unreadable(void **state UNUSED)
{
    assert_escaped(SLICE("\xff"), UNREADABLE);
    assert_escaped(SLICE("a\xc3"), "a" UNREADABLE);
    assert_escaped(SLICE("\xc0\xaf"), UNREADABLE UNREADABLE);
    assert_escaped(SLICE("\xed\xa0\x80"), UNREADABLE UNREADABLE UNREADABLE);
    assert_escaped(SLICE("\xf4\x90\x80\x80"), UNREADABLE UNREADABLE UNREADABLE UNREADABLE);
}

static void xml_escape__keeps_every_language(void **state UNUSED)
{
    assert_escaped(SLICE("h\xc3\xa9llo \xe0\xa4\xa8 \xf0\x9f\x98\x80"),
                   "h\xc3\xa9llo \xe0\xa4\xa8 \xf0\x9f\x98\x80");
}

static void utf8_is_valid__tells_text_from_bytes(void **state UNUSED)
{
    assert_true(utf8_is_valid(SLICE("")));
    assert_true(utf8_is_valid(SLICE("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
    assert_false(utf8_is_valid(SLICE("\x80")));
    assert_false(utf8_is_valid(SLICE("\xe2\x82")));
    assert_false(utf8_is_valid(SLICE("\xf0\x8f\xbf\xbf")));
    assert_false(utf8_is_valid(SLICE("\xe0\x9f\xbf")));
    assert_false(utf8_is_valid(SLICE("\xf5\x80\x80\x80")));
}

static void assert_stream_with(const struct provider *provider, struct slice url, struct slice after,
                               const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    provider->render_stream(&buf, url, after);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void assert_stream(const struct provider *provider, struct slice url, const char *expected)
{
    assert_stream_with(provider, url, SLICE(""), expected);
}

static void assert_later(const struct provider *provider, struct slice url, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    provider->render_later(&buf, url, 1);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void assert_hangup(const struct provider *provider, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    provider->render_hangup(&buf);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void assert_failure(const struct provider *provider, const char *message, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4096);
    provider->render_failure(&buf, message, "no \"pods\"", "no_pods");
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void twilio__connects_or_says_why_not(void **state UNUSED)
{
    assert_stream(&provider_twilio, SLICE("wss://h/a?b=\"1\"&c"),
                  DECLARATION "<Response><Connect><Stream url=\"wss://h/a?b=&quot;1&quot;&amp;c\"/></Connect>"
                              "</Response>");
    assert_failure(&provider_twilio, "All <busy> & gone",
                   DECLARATION "<Response><Say>All &lt;busy&gt; &amp; gone</Say><Hangup/></Response>");
    assert_int_equal(provider_twilio.failure_status, 200);
}

static void plivo__connects_or_says_why_not(void **state UNUSED)
{
    assert_stream(&provider_plivo, SLICE("wss://h/a&b"),
                  DECLARATION "<Response><Stream bidirectional=\"true\" keepCallAlive=\"true\" "
                              "contentType=\"audio/x-mulaw;rate=8000\">wss://h/a&amp;b</Stream></Response>");
    assert_failure(&provider_plivo, "Busy", DECLARATION "<Response><Speak>Busy</Speak><Hangup/></Response>");
    assert_int_equal(provider_plivo.failure_status, 200);
}

static void twilio__asks_when_the_stream_has_ended(void **state UNUSED)
{
    assert_stream_with(&provider_twilio, SLICE("wss://h/a"), SLICE("https://h/after?a=1&b=\"2\""),
                       DECLARATION "<Response><Connect action=\"https://h/after?a=1&amp;b=&quot;2&quot;\" "
                                   "method=\"POST\"><Stream url=\"wss://h/a\"/></Connect></Response>");
    assert_later(&provider_twilio, SLICE("https://h/after?a=1&b"),
                 DECLARATION "<Response><Pause length=\"1\"/><Redirect method=\"POST\">"
                             "https://h/after?a=1&amp;b</Redirect></Response>");
    assert_hangup(&provider_twilio, DECLARATION "<Response><Hangup/></Response>");
}

static void plivo__asks_when_the_stream_has_ended(void **state UNUSED)
{
    assert_stream_with(&provider_plivo, SLICE("wss://h/a"), SLICE("https://h/after?a=1&b"),
                       DECLARATION
                       "<Response><Stream bidirectional=\"true\" keepCallAlive=\"true\" "
                       "contentType=\"audio/x-mulaw;rate=8000\">wss://h/a</Stream>"
                       "<Redirect method=\"POST\">https://h/after?a=1&amp;b</Redirect></Response>");
    assert_later(&provider_plivo, SLICE("https://h/after"),
                 DECLARATION
                 "<Response><Wait length=\"1\"/><Redirect method=\"POST\">https://h/after</Redirect>"
                 "</Response>");
    assert_hangup(&provider_plivo, DECLARATION "<Response><Hangup/></Response>");
}

static void exotel__cannot_be_told_what_to_ask(void **state UNUSED)
{
    assert_stream_with(&provider_exotel, SLICE("wss://h/a"), SLICE("https://h/after"),
                       "{\"url\":\"wss://h/a\"}");
    assert_null(provider_exotel.render_later);
    assert_hangup(&provider_exotel, "{\"success\":true}");
}

static void exotel__connects_or_fails_in_json(void **state UNUSED)
{
    assert_stream(&provider_exotel, SLICE("wss://h/\"\xff"), "{\"url\":\"wss://h/\\\"" UNREADABLE "\"}");
    assert_failure(&provider_exotel, "Busy",
                   "{\"success\":false,\"error\":\"no \\\"pods\\\"\",\"code\":\"no_pods\"}");
    assert_int_equal(provider_exotel.failure_status, 503);
}

static void default_template__exotel_has_its_own(void **state UNUSED)
{
    assert_string_equal(provider_default_template("twilio"), "order-confirmation");
    assert_string_equal(provider_default_template("plivo"), "order-confirmation");
    assert_string_equal(provider_default_template("exotel"), "template");
    assert_string_equal(provider_default_template("EXOTEL"), "order-confirmation");
    assert_string_equal(provider_default_template("somebody"), "order-confirmation");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_escape__replaces_what_has_a_meaning),
        cmocka_unit_test(xml_escape__control_characters_become_unreadable),
        cmocka_unit_test(xml_escape__what_is_not_utf8_becomes_unreadable),
        cmocka_unit_test(xml_escape__keeps_every_language),
        cmocka_unit_test(utf8_is_valid__tells_text_from_bytes),
        cmocka_unit_test(twilio__connects_or_says_why_not),
        cmocka_unit_test(plivo__connects_or_says_why_not),
        cmocka_unit_test(twilio__asks_when_the_stream_has_ended),
        cmocka_unit_test(plivo__asks_when_the_stream_has_ended),
        cmocka_unit_test(exotel__cannot_be_told_what_to_ask),
        cmocka_unit_test(exotel__connects_or_fails_in_json),
        cmocka_unit_test(default_template__exotel_has_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
