/*
 * test_api_after.c - webhooks of calls that may wait, and those about streams that have ended, with a store
 * that answers what a test tells it to.
 *
 * What they do with a real store is in test/functional.
 */
#include "waiting_api.h"

#include <fcntl.h>

#include "base/log.h"

#define TWILIO "/api/v1/twilio/allocate"
#define EXOTEL "/api/v1/exotel/allocate"
#define TWILIO_AFTER "/api/v1/twilio/after"
#define PLIVO_AFTER "/api/v1/plivo/after"
#define EXOTEL_AFTER "/api/v1/exotel/after"
#define AFTER_QUERY "CallSid=CA1&flow=v2&template=survey&merchant_id=acme&pod=pod-7"
#define PUBLIC "https://public.example.com/api/v1/"
#define BUSY_TWIML "<Response><Say>All agents are &lt;busy&gt;</Say><Hangup/></Response>"
#define HANGUP "<Response><Hangup/></Response>"

static void webhook__says_what_to_ask_when_the_stream_has_ended(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_pod(&world);
    ask(&world, TWILIO, "CallSid=CA1&merchant_id=a%2Bb%40c&template=x%20y%26z&flow=v1", NULL);
    assert_answer(&world, 200,
                  "<Response><Connect action=\"" PUBLIC "twilio/after?flow=v1&amp;template=x%20y%26z&amp;"
                  "merchant_id=a%2Bb%40c&amp;pod=pod-1\" method=\"POST\">"
                  "<Stream url=\"wss://h/ws/pod/pod-1/T-CA1-pod-1-");
    assert_true(world.fake.command.allocate.waits);
    assert_true(world.fake.command.allocate.awaits_stream);
    assert_false(world.fake.command.allocate.is_resume);
    ask(&world, "/api/v1/plivo/allocate", "CallUUID=CA1", NULL);
    assert_answer(&world, 200,
                  "</Stream><Redirect method=\"POST\">" PUBLIC
                  "plivo/after?flow=v2&amp;template=order-confirmation&amp;pod=pod-1</Redirect></Response>");
    ask(&world, "/api/v1/exotel/allocate", "CallSid=CA1", NULL);
    assert_answer(&world, 200, "{\"url\":\"wss://h/ws/pod/pod-1/T-CA1-pod-1-");
    world_release_waiting(&world);
}

static void webhook__a_call_without_a_pod_is_held_at_the_gateway(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_waiting(&world, 1, 7);
    ask(&world, TWILIO, "CallSid=CA1", NULL);
    assert_answer(&world, 200,
                  "<Stream url=\"wss://h/ws/hold/T-CA1-held-29/twilio/order-confirmation/v2\"/>");
    assert_answer(&world, 200, "twilio/after?flow=v2&amp;template=order-confirmation\" method");
    ask(&world, "/api/v1/exotel/allocate", "CallSid=CA1", NULL);
    assert_answer(&world, 200, "{\"url\":\"wss://h/ws/hold/T-CA1-held-");
    world_release_waiting(&world);
}

static void assert_bare(const struct api_settings *settings)
{
    struct world world;

    world_init_waiting(&world, settings);
    say_pod(&world);
    ask(&world, TWILIO, "CallSid=CA1", NULL);
    assert_answer(&world, 200, "<Response><Connect><Stream url=\"");
    assert_false(world.fake.command.allocate.waits);
    ask(&world, "/api/v1/plivo/allocate", "CallUUID=CA1", NULL);
    assert_answer(&world, 200, "</Stream></Response>");
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, HANGUP);
    assert_int_equal(world.fake.commands, 2); /* a call ends with its stream */
    world_release_waiting(&world);
}

static void webhook__is_bare_where_something_is_missing_for_waiting(void **state UNUSED)
{
    struct api_settings settings = waiting_settings();

    settings.rescues = false;
    assert_bare(&settings);
    settings = waiting_settings();
    settings.public_base_url = "";
    assert_bare(&settings);
    settings = waiting_settings();
    settings.make_ticket = NULL;
    assert_bare(&settings);
    settings = waiting_settings();
    settings.ws_url_template = "{base}/agents/{pod}";
    assert_bare(&settings);
}

static void webhook__the_fallback_url_is_the_end(void **state UNUSED)
{
    struct api_settings settings = waiting_settings();
    struct world world;

    settings.fallback_ws_url = "wss://elsewhere";
    world_init_waiting(&world, &settings);
    world.fake.result = (struct result){.outcome = OUTCOME_NO_PODS};
    ask(&world, TWILIO, "CallSid=CA1", NULL);
    assert_answer(&world, 200, "<Response><Connect><Stream url=\"wss://elsewhere\"/></Connect></Response>");
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, "<Response><Connect><Stream url=\"wss://elsewhere\"/></Connect></Response>");
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_int_equal(world.request.status, 200);
    world_release_waiting(&world);
}

static void after__a_live_call_gets_its_pod_again(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_pod(&world);
    world.fake.result.allocate.was_existing = true;
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, "<Stream url=\"wss://h/ws/pod/pod-1/T-CA1-pod-1-");
    assert_answer(&world, 200, "merchant_id=acme&amp;pod=pod-1\" method=\"POST\"");
    assert_true(world.fake.command.allocate.is_resume);
    assert_true(world.fake.command.allocate.waits);
    assert_true(world.fake.command.allocate.awaits_stream);
    assert_true(world.fake.command.allocate.is_webhook);
    assert_string_equal(world.fake.command.allocate.resume_pod, "pod-7");
    assert_string_equal(world.fake.command.allocate.merchant_id, "acme");
    ask(&world, PLIVO_AFTER, "CallUUID=CA1&pod=", "");
    assert_answer(&world, 200, "</Stream><Redirect method=\"POST\">" PUBLIC "plivo/after?");
    assert_null(world.fake.command.allocate.resume_pod);
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 302, "{\"success\":true}");
    assert_metric(&world, "smart_router_resumes_total{provider=\"twilio\",result=\"resumed\"} 1");
    world_release_waiting(&world);
}

static void after__a_call_that_waits_is_held(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_waiting(&world, 1, 7);
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, "<Stream url=\"wss://h/ws/hold/");
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_int_equal(world.request.status, 302);
    assert_metric(&world, "smart_router_resumes_total{provider=\"exotel\",result=\"waiting\"} 1");
    world_release_waiting(&world);
}

static void say_ended(struct world *world, enum finish_reason why)
{
    world->fake.result = (struct result){.outcome = OUTCOME_NOT_FOUND};
    world->fake.result.allocate.has_ended = true;
    world->fake.result.allocate.why = why;
}

static void after__a_recorded_end_is_a_hangup(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_ended(&world, FINISH_CLOSED);
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, HANGUP);
    say_ended(&world, FINISH_RELEASED);
    ask(&world, PLIVO_AFTER, "CallUUID=CA1", NULL);
    assert_answer(&world, 200, HANGUP);
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, "{\"success\":true}");
    assert_metric(&world, "smart_router_resumes_total{provider=\"plivo\",result=\"ended\"} 1");
    world_release_waiting(&world);
}

static void after__who_waited_too_long_or_resumed_too_often_hears_the_busy_message(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_ended(&world, FINISH_TIMED_OUT);
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, BUSY_TWIML);
    world.fake.result = (struct result){.outcome = OUTCOME_CONFLICT, .error = REFUSED_RESUME};
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, BUSY_TWIML);
    world.fake.result = (struct result){.outcome = OUTCOME_NO_PODS};
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200, BUSY_TWIML);
    assert_metric(&world, "smart_router_resumes_total{provider=\"twilio\",result=\"timed_out\"} 1");
    assert_metric(&world, "smart_router_resumes_total{provider=\"twilio\",result=\"too_often\"} 1");
    assert_metric(&world, "smart_router_resumes_total{provider=\"twilio\",result=\"no_pods\"} 1");
    world_release_waiting(&world);
}

static void after__another_owner_s_call_is_forbidden(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_FORBIDDEN, .error = "not yours"};
    ask(&world, PLIVO_AFTER, "CallUUID=CA1", NULL);
    assert_int_equal(world.request.status, 403);
    ask(&world, PLIVO_AFTER, "CallUUID=CA1&CallStatus=completed", NULL);
    assert_int_equal(world.fake.command.type, COMMAND_RELEASE);
    assert_int_equal(world.request.status, 403);
    world_release_waiting(&world);
}

static void after__a_final_status_releases(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_pod(&world);
    world.fake.result.release.call =
        (struct call_info){.pod = "pod-1", .pool = "pool:gold", .merchant_id = ""};
    world.fake.result.release.released_to = "gold";
    ask(&world, TWILIO_AFTER, AFTER_QUERY "&CallStatus=completed", NULL);
    assert_int_equal(world.fake.command.type, COMMAND_RELEASE);
    assert_int_equal(world.fake.command.release.why, FINISH_CLOSED);
    assert_string_equal(world.fake.command.release.provider, "twilio");
    assert_answer(&world, 200, HANGUP);
    world.fake.err = -ENOTCONN;
    ask(&world, PLIVO_AFTER, NULL, "CallUUID=CA1&Event=Hangup");
    assert_answer(&world, 200, HANGUP);
    world_release_waiting(&world);
}

static void after__a_store_that_is_away_is_asked_three_times_more(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.refuse = -ENOTCONN;
    ask(&world, TWILIO_AFTER, AFTER_QUERY, NULL);
    assert_answer(&world, 200,
                  "<Response><Pause length=\"1\"/><Redirect method=\"POST\">" PUBLIC
                  "twilio/after?flow=v2&amp;template=survey&amp;merchant_id=acme&amp;pod=pod-7&amp;try=1"
                  "</Redirect></Response>");
    ask(&world, PLIVO_AFTER, "CallUUID=CA1&try=2", NULL);
    assert_answer(&world, 200,
                  "<Response><Wait length=\"1\"/><Redirect method=\"POST\">" PUBLIC "plivo/after?");
    assert_answer(&world, 200, "&amp;try=3</Redirect></Response>");
    ask(&world, TWILIO_AFTER, AFTER_QUERY "&try=3", NULL);
    assert_answer(&world, 200, BUSY_TWIML);
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_int_equal(world.request.status, 302); /* back to the stream, */
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_int_equal(world.request.status, 200); /* but not in circles */
    assert_metric(&world, "smart_router_resumes_total{provider=\"twilio\",result=\"given_up\"} 1");
    world_release_waiting(&world);
}

static void after__a_router_that_departs_lets_the_provider_ask_again(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_pod(&world);
    api_set_departing(world.api, 60 * 1000);
    ask(&world, TWILIO_AFTER, AFTER_QUERY "&try=3", NULL);
    assert_answer(&world, 200, "pod=pod-7&amp;try=3</Redirect>"); /* that is no try */
    assert_answer(&world, 200, "<Pause length=\"61\"/>");         /* until this process has gone */
    /* New calls, too. Exotel cannot be told so. */
    ask(&world, TWILIO, "CallSid=CA2", NULL);
    assert_answer(&world, 200, "/api/v1/twilio/after?flow=");
    assert_int_equal(world.fake.commands, 0);
    ask(&world, EXOTEL_AFTER, AFTER_QUERY, NULL);
    assert_int_equal(world.request.status, 302);
    assert_int_equal(world.fake.commands, 1);
    ask(&world, EXOTEL, "CallSid=CA3", NULL);
    assert_answer(&world, 200, "wss://h/ws/pod/pod-1/");
    world_release_waiting(&world);
}

static void after__odd_parameters_change_nothing(void **state UNUSED)
{
    static const char *const odd[] = {
        "",           "CallSid=",           "CallSid=a%20b",           "CallSid=CA1&pod=Not-A-Pod",
        "pod=pod-1",  "CallSid=CA1&try=4",  "CallSid=CA1&try=-1",      "CallSid=CA1&try=1e1",
        "CallSid=..", "CallSid=CA1&pod=..", "CallSid=CA1&template=..", "CallSid=CA1&merchant_id=%2F",
    };
    struct world world;

    world_init_waiting(&world, NULL);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        ask(&world, TWILIO_AFTER, odd[i], NULL);
        assert_answer(&world, 200, BUSY_TWIML);
        ask(&world, EXOTEL_AFTER, odd[i], NULL);
        assert_int_equal(world.request.status, 400);
    }
    /* What the router wrote counts, not what the provider's body says: a caller may have chosen it. */
    say_pod(&world);
    ask(&world, TWILIO_AFTER, "merchant_id=acme", "CallSid=CA1&merchant_id=other&pod=pod-9&try=2");
    assert_string_equal(world.fake.command.allocate.merchant_id, "acme");
    assert_null(world.fake.command.allocate.resume_pod);
    assert_int_equal(world.fake.commands, 1);
    world_release_waiting(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(webhook__says_what_to_ask_when_the_stream_has_ended),
        cmocka_unit_test(webhook__a_call_without_a_pod_is_held_at_the_gateway),
        cmocka_unit_test(webhook__is_bare_where_something_is_missing_for_waiting),
        cmocka_unit_test(webhook__the_fallback_url_is_the_end),
        cmocka_unit_test(after__a_live_call_gets_its_pod_again),
        cmocka_unit_test(after__a_call_that_waits_is_held),
        cmocka_unit_test(after__a_recorded_end_is_a_hangup),
        cmocka_unit_test(after__who_waited_too_long_or_resumed_too_often_hears_the_busy_message),
        cmocka_unit_test(after__another_owner_s_call_is_forbidden),
        cmocka_unit_test(after__a_final_status_releases),
        cmocka_unit_test(after__a_store_that_is_away_is_asked_three_times_more),
        cmocka_unit_test(after__a_router_that_departs_lets_the_provider_ask_again),
        cmocka_unit_test(after__odd_parameters_change_nothing),
    };
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    log_set_fd(nowhere);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
