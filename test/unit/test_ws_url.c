/* test_ws_url.c - the URL at which a call reaches its pod. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/ws_url.h"

#define DEFAULT_TEMPLATE                                                                                     \
    "{base}/ws/pod/{pod}/agent/voice/breeze-buddy/{provider}/callback/{template}{flow_suffix}"

static const struct ws_url_values ordinary = {
    .pod = "voice-agent-0",
    .provider = "twilio",
    .template = "order-confirmation",
    .flow = "v2",
    .call_sid = "CA1",
    .merchant = "",
    .ticket = "T1",
};

static void assert_url_with(bool has_tickets, const char *url_template, const char *base,
                            const struct ws_url_values *values, const char *expected)
{
    struct ws_url *url = NULL;
    struct strbuf buf;

    assert_int_equal(ws_url_new(url_template, base, has_tickets, &url), 0);
    strbuf_init(&buf, NULL, WS_URL_MAX);
    ws_url_write(url, values, &buf);
    assert_string_equal(buf.data ? buf.data : "", expected);
    strbuf_release(&buf);
    ws_url_free(url);
}

static void assert_url(const char *url_template, const char *base, const struct ws_url_values *values,
                       const char *expected)
{
    assert_url_with(false, url_template, base, values, expected);
}

static void write__ticket_goes_where_the_gateway_looks_for_it(void **state UNUSED)
{
    assert_url_with(true, "{base}/ws/pod/{pod}/{template}", "ws://h", &ordinary,
                    "ws://h/ws/pod/voice-agent-0/T1/order-confirmation");
    assert_url_with(true, "{base}/ws/pod/{pod}", "ws://h", &ordinary, "ws://h/ws/pod/voice-agent-0/T1");
    assert_url_with(false, "{base}/ws/pod/{pod}", "ws://h", &ordinary, "ws://h/ws/pod/voice-agent-0");
}

static void assert_hold_url(const char *url_template, const char *expected)
{
    struct ws_url *url = NULL;
    struct strbuf buf;

    assert_true(api_template_can_hold(url_template));
    assert_int_equal(ws_url_new(url_template, "wss://h/b", true, &url), 0);
    assert_true(ws_url_can_hold(url));
    strbuf_init(&buf, NULL, WS_URL_MAX);
    ws_url_write_hold(url, &ordinary, &buf);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
    ws_url_free(url);
}

static void hold__has_the_ticket_in_place_of_the_pod(void **state UNUSED)
{
    assert_hold_url("{base}/ws/pod/{pod}/{template}{flow_suffix}",
                    "wss://h/b/ws/hold/T1/order-confirmation/v2");
    assert_hold_url("{base}/ws/pod/{pod}/{ticket}/x?y={call_sid}", "wss://h/b/ws/hold/T1/x?y=CA1");
    assert_hold_url("{base}/ws/pod/{pod}", "wss://h/b/ws/hold/T1");
    assert_hold_url("wss://other/ws/pod/{pod}/{provider}", "wss://other/ws/hold/T1/twilio");
}

static void hold__needs_a_template_that_leads_to_the_gateway_and_names_the_pod_once(void **state UNUSED)
{
    struct ws_url *url = NULL;

    assert_false(api_template_can_hold("{base}/agent/{pod}"));
    assert_false(api_template_can_hold("{base}/x?/ws/pod/{pod}"));
    assert_false(api_template_can_hold("{base}/ws/pod/{pod}/{pod}"));
    assert_false(api_template_can_hold("wss://{pod}.example.com/ws/pod/{pod}/x"));
    assert_false(api_template_can_hold("{nothing}"));
    assert_int_equal(ws_url_new("{base}/ws/pod/{pod}", "wss://h", false, &url), 0);
    assert_false(ws_url_can_hold(url)); /* without tickets nobody could hold it */
    ws_url_free(url);
}

static void write__ticket_is_written_once_where_the_template_says(void **state UNUSED)
{
    assert_url_with(true, "{base}/ws/pod/{pod}/{ticket}/x", "ws://h", &ordinary,
                    "ws://h/ws/pod/voice-agent-0/T1/x");
    /* Not to the gateway: whoever gets it knows what it is. */
    assert_url_with(true, "{base}/x/{ticket}/{pod}", "ws://h", &ordinary, "ws://h/x/T1/voice-agent-0");
}

static void write__url_that_does_not_lead_to_the_gateway_gets_no_ticket(void **state UNUSED)
{
    assert_url_with(true, "{base}/agent/{pod}/x", "ws://h", &ordinary, "ws://h/agent/voice-agent-0/x");
}

static void write__default_template_gives_the_agents_path(void **state UNUSED)
{
    struct ws_url_values values = ordinary;

    assert_url(DEFAULT_TEMPLATE, "wss://example.com", &values,
               "wss://example.com/ws/pod/voice-agent-0/agent/voice/breeze-buddy/twilio/callback/"
               "order-confirmation/v2");
    values.flow = "v1";
    assert_url(DEFAULT_TEMPLATE, "wss://example.com", &values,
               "wss://example.com/ws/pod/voice-agent-0/agent/voice/breeze-buddy/twilio/callback/"
               "order-confirmation");
}

static void write__every_value_is_percent_encoded(void **state UNUSED)
{
    struct ws_url_values values = ordinary;

    values.template = "a/b c?d#e%\"<\xff\xf0\x9f\x98\x80";
    values.call_sid = "CA:1@x+y=z";
    values.merchant = "m/1";
    assert_url("{base}/{template}/{call_sid}/{merchant}", "ws://h", &values,
               "ws://h/a%2Fb%20c%3Fd%23e%25%22%3C%FF%F0%9F%98%80/CA%3A1%40x%2By%3Dz/m%2F1");
}

static void write__a_flow_is_never_written_itself(void **state UNUSED)
{
    struct ws_url_values values = ordinary;

    values.flow = "/v2/../../x";
    assert_url("{base}{flow_suffix}", "ws://h", &values, "ws://h");
}

static void write__base_is_taken_as_it_is(void **state UNUSED)
{
    assert_url("{base}/{pod}", "ws://h/a%20b", &ordinary, "ws://h/a%20b/voice-agent-0");
    assert_url("{base}{pod}", "ws://h/", &ordinary, "ws://h/voice-agent-0");
}

static void write__same_placeholder_may_come_twice(void **state UNUSED)
{
    assert_url("{pod}.{pod}", "", &ordinary, "voice-agent-0.voice-agent-0");
}

static void assert_path(const char *url_template, const struct ws_url_values *values, const char *expected)
{
    struct ws_url *url = NULL;
    struct strbuf buf, whole;
    struct slice path;

    assert_int_equal(ws_url_new(url_template, "ws://h", true, &url), 0);
    strbuf_init(&buf, NULL, WS_URL_MAX);
    strbuf_init(&whole, NULL, WS_URL_MAX);
    path = ws_url_path(url, values, &buf);
    assert_int_equal(path.len, strlen(expected));
    assert_memory_equal(path.data, expected, path.len);
    /* What is signed is what stands in the URL. */
    ws_url_write(url, values, &whole);
    if (strcmp(expected, "/") != 0)
        assert_non_null(memmem(whole.data, whole.len, expected, strlen(expected)));
    strbuf_release(&buf);
    strbuf_release(&whole);
    ws_url_free(url);
}

static void path__is_what_stands_behind_the_ticket(void **state UNUSED)
{
    struct ws_url_values values = ordinary;

    values.template = "a/b c?";
    assert_path("{base}/ws/pod/{pod}/x/{template}{flow_suffix}", &values, "/x/a%2Fb%20c%3F/v2");
    assert_path("{base}/ws/pod/{pod}/{ticket}/{call_sid}?t={template}", &values, "/CA1");
    assert_path("{base}/ws/pod/{pod}/{ticket}/{call_sid}#x?y", &values, "/CA1");
    assert_path("{base}/ws/pod/{pod}/{ticket}", &values, "/");
    assert_path("{base}/ws/pod/{pod}", &values, "/");
    assert_path("{base}/ws/pod/{pod}?a=/b", &values, "/");
    assert_path("{base}/elsewhere/{pod}", &values, "/");
}

static void assert_refused(const char *url_template, const char *sentence)
{
    struct ws_url *url = NULL;
    char error[256] = "";

    assert_false(api_check_template(url_template, error, sizeof(error)));
    assert_non_null(strstr(error, sentence));
    assert_int_equal(ws_url_new(url_template, "ws://h", false, &url), -EINVAL);
    assert_null(url);
}

static void check__refuses_what_cannot_be_filled_in(void **state UNUSED)
{
    char long_template[WS_URL_TEMPLATE_MAX + 2];

    assert_refused("", "1 to 1024");
    assert_refused("{base}/{nothing}", "{nothing} is not a placeholder");
    assert_refused("{base}/{pod", "'{' has no '}'");
    assert_refused("{base}/{{pod}}", "'{' has no '}'");
    assert_refused("{base}/pod}", "'}' has no '{'");
    assert_refused("{base}/{}", "{} is not a placeholder");
    assert_refused("{base}/{POD}", "{POD} is not a placeholder");
    assert_refused("{base}/ws/pod/{pod}/{ticket}/x/{ticket}", "{ticket} twice");
    assert_refused("{base}/a b", "no spaces");
    assert_refused("{base}/\n", "no spaces");
    memset(long_template, 'x', sizeof(long_template));
    long_template[sizeof(long_template) - 1] = '\0';
    assert_refused(long_template, "1 to 1024");
}

static void check__refuses_a_ticket_where_the_gateway_does_not_look(void **state UNUSED)
{
    static const char *const bad[] = {
        "{base}/ws/pod/{pod}/x/{ticket}/y", "{base}/ws/pod/{pod}/{call_sid}/{ticket}",
        "{base}/ws/pod/{pod}{ticket}",      "{base}/ws/pod/{pod}/x{ticket}",
        "{base}/ws/pod/{pod}/{ticket}x",    "{base}/ws/pod/{pod}/{ticket}{call_sid}",
        "{base}/ws/pod/{pod}?t={ticket}",   "{base}/x/{ticket}/ws/pod/{pod}",
        "{base}/ws/pod/{pod}x/{ticket}",
    };
    static const char *const good[] = {
        "{base}/ws/pod/{pod}/{ticket}",
        "{base}/voice/ws/pod/{pod}/{ticket}/x",
        "{base}/ws/pod/{pod}/{ticket}{flow_suffix}",
        "{base}/ws/pod/{pod}/{ticket}?call={call_sid}",
        /* Elsewhere a ticket may stand anywhere. */
        "{base}/agents/{pod}/x/{ticket}/y",
        "{base}/x?ticket={ticket}&to=/ws/pod/{pod}",
    };
    char error[256];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_refused(bad[i], "{ticket} in a place where the gateway does not look for it");
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(api_check_template(good[i], error, sizeof(error)));
}

static void check__refuses_too_many_placeholders(void **state UNUSED)
{
    char text[(WS_URL_FIELDS_MAX + 1) * 5 + 1];
    char error[256];

    for (size_t i = 0; i <= WS_URL_FIELDS_MAX; i++)
        memcpy(text + i * 5, "{pod}", 6);
    assert_false(api_check_template(text, error, sizeof(error)));
    text[WS_URL_FIELDS_MAX * 5] = '\0';
    assert_true(api_check_template(text, error, sizeof(error)));
}

static void check__takes_the_default(void **state UNUSED)
{
    char error[256];

    assert_true(api_check_template(DEFAULT_TEMPLATE, error, sizeof(error)));
    assert_true(api_check_template("{base}/x/{call_sid}/{merchant}/{ticket}", error, sizeof(error)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__default_template_gives_the_agents_path),
        cmocka_unit_test(write__ticket_goes_where_the_gateway_looks_for_it),
        cmocka_unit_test(hold__has_the_ticket_in_place_of_the_pod),
        cmocka_unit_test(hold__needs_a_template_that_leads_to_the_gateway_and_names_the_pod_once),
        cmocka_unit_test(write__ticket_is_written_once_where_the_template_says),
        cmocka_unit_test(write__url_that_does_not_lead_to_the_gateway_gets_no_ticket),
        cmocka_unit_test(write__every_value_is_percent_encoded),
        cmocka_unit_test(write__a_flow_is_never_written_itself),
        cmocka_unit_test(write__base_is_taken_as_it_is),
        cmocka_unit_test(write__same_placeholder_may_come_twice),
        cmocka_unit_test(path__is_what_stands_behind_the_ticket),
        cmocka_unit_test(check__refuses_what_cannot_be_filled_in),
        cmocka_unit_test(check__refuses_a_ticket_where_the_gateway_does_not_look),
        cmocka_unit_test(check__refuses_too_many_placeholders),
        cmocka_unit_test(check__takes_the_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
