/*
 * test_agent.c - an agent beside a router that the test plays: registration, heartbeats, calls that end or
 * break.
 */
#include "agent_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void agent__registers_and_beats_as_often_as_the_router_wants(void **state)
{
    (void)state;
    assert_false(smartrouter_agent_is_ready(world.agent, 0));
    advance(0);
    assert_true(smartrouter_agent_is_ready(world.agent, 0));
    assert_non_null(strstr(world.play.registration_body, "\"address\":\"10.0.0.1:8000\""));
    assert_int_equal(world.play.registrations, 1);
    assert_int_equal(world.play.heartbeats, 1);
    advance(9999);
    assert_int_equal(world.play.heartbeats, 1);
    advance(1);
    assert_int_equal(world.play.heartbeats, 2);
    assert_string_equal(world.play.heartbeat_body, "{\"call_sids\":[]}");
    assert_int_equal(world.play.registrations, 1);
}

static void agent__tries_every_second_while_the_router_is_away(void **state)
{
    (void)state;
    world.play.is_away = true;
    advance(0);
    assert_false(smartrouter_agent_is_ready(world.agent, 0));
    world.play.is_away = false;
    advance(1500);
    assert_true(smartrouter_agent_is_ready(world.agent, 0));
}

static void agent__an_open_breaker_is_waited_for(void **state)
{
    (void)state;
    advance(0);
    world.play.is_away = true;
    advance(20000);
    assert_int_equal(smartrouter_breaker(world.client), SMARTROUTER_BREAKER_OPEN);
    world.play.is_away = false;
    advance(30000);
    assert_int_equal(world.play.heartbeats > 1, 1);
    assert_int_equal(world.play.registrations, 1);
}

static void agent__lists_its_calls_and_registers_again_with_the_same_incarnation(void **state)
{
    char first[512];

    (void)state;
    advance(0);
    memcpy(first, world.play.registration_body, sizeof(first));
    assert_int_equal(smartrouter_agent_call_began(world.agent, "CA1"), SMARTROUTER_OK);
    assert_int_equal(smartrouter_agent_call_began(world.agent, "CA1"), SMARTROUTER_OK);
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
    world.play.knows_pod = false; /* the router has lost its data */
    advance(12000);
    assert_int_equal(world.play.registrations, 2);
    assert_string_equal(world.play.registration_body, first);
    assert_string_equal(world.play.heartbeat_body, "{\"call_sids\":[\"CA1\"]}");
}

static void agent__is_told_which_calls_are_over_and_does_not_release_them(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA2");
    world.play.heartbeat = "{\"renewed\":[],\"ended\":[\"CA1\",\"CA9\"],\"conflicts\":[\"CA2\"]}";
    advance(10000);
    assert_int_equal(world.play.overs, 2);
    assert_string_equal(world.play.over, "CA2 conflict");
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    assert_int_equal(smartrouter_agent_call_ended(world.agent, "CA1", NULL), SMARTROUTER_NOT_FOUND);
    assert_int_equal(world.play.releases, 0);
}

static void agent__releases_a_call_that_was_hung_up_with_its_own_name(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1000), SMARTROUTER_OK);
    assert_string_equal(world.play.release_body,
                        "{\"call_sid\":\"CA1\",\"pod_name\":\"agent-1\",\"reason\":\"stream_closed\"}");
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1006), SMARTROUTER_NOT_FOUND);
}

static void agent__keeps_a_call_that_broke_for_a_minute(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1006), SMARTROUTER_OK);
    advance(999);
    assert_int_equal(world.play.heartbeats, 1);
    advance(1); /* the router must hear of the call before its grace is over */
    assert_int_equal(world.play.heartbeats, 2);
    assert_string_equal(world.play.heartbeat_body, "{\"call_sids\":[\"CA1\"]}");
    advance(58999);
    assert_int_equal(world.play.releases, 0);
    advance(1);
    assert_int_equal(world.play.releases, 1);
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
}

static void agent__a_call_that_came_back_is_not_released_for_its_first_stream(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_closed(world.agent, "CA1", 1012);
    advance(30000);
    smartrouter_agent_call_began(world.agent, "CA1");
    advance(120000);
    assert_int_equal(world.play.releases, 0);
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
}

/* The old stream ends after the new one has opened, in any way. */
static void agent__an_old_stream_that_closes_late_does_not_end_its_call(void **state)
{
    static const int CODES[] = {1006, 1012, 1000, 1001, 1005};

    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    for (size_t i = 0; i < sizeof(CODES) / sizeof(*CODES); i++) {
        smartrouter_agent_call_began(world.agent, "CA1");
        assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", CODES[i]), SMARTROUTER_OK);
        advance(120000);
        assert_int_equal(world.play.releases, 0);
        assert_int_equal(smartrouter_agent_calls(world.agent), 1);
    }
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1000), SMARTROUTER_OK);
    assert_int_equal(world.play.releases, 1);
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
}

static void agent__the_last_stream_that_breaks_keeps_the_call_for_a_minute(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_closed(world.agent, "CA1", 1000);
    smartrouter_agent_stream_closed(world.agent, "CA1", 1006);
    advance(59999);
    assert_int_equal(world.play.releases, 0);
    advance(1);
    assert_int_equal(world.play.releases, 1);
}

static void agent__the_end_of_a_call_does_not_wait_for_its_streams(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA1");
    assert_int_equal(smartrouter_agent_call_ended(world.agent, "CA1", "completed"), SMARTROUTER_OK);
    assert_int_equal(world.play.releases, 1);
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1000), SMARTROUTER_NOT_FOUND);
    assert_int_equal(world.play.releases, 1);
}

/* An agent may ask again where its call is. */
static void agent__a_failed_allocation_does_not_release_its_call(void **state)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"},
                                          other = {.size = sizeof(other), .call_sid = "CA2"};

    (void)state;
    smartrouter_client_set(world.client, "ENABLE_VOICE_AGENT_POD_ISOLATION", "true", NULL, 0);
    smartrouter_client_set(world.client, "SMART_ROUTER_PERCENTAGE", "100", NULL, 0);
    smartrouter_agent_call_began(world.agent, "CA1");
    world.play.is_away = true;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 0);
    assert_int_equal(smartrouter_allocate(world.client, &other, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 1);
}

/* Of two calls that got their pods from the agent's own client, one ends, and one goes on elsewhere. */
static void agent__a_call_that_the_router_ended_may_be_released_again_and_a_moved_one_not(void **state)
{
    const struct smartrouter_call_request ended = {.size = sizeof(ended), .call_sid = "CA1"},
                                          moved = {.size = sizeof(moved), .call_sid = "CA2"};

    (void)state;
    smartrouter_client_set(world.client, "ENABLE_VOICE_AGENT_POD_ISOLATION", "true", NULL, 0);
    smartrouter_client_set(world.client, "SMART_ROUTER_PERCENTAGE", "100", NULL, 0);
    assert_int_equal(smartrouter_allocate(world.client, &ended, NULL), SMARTROUTER_OK);
    assert_int_equal(smartrouter_allocate(world.client, &moved, NULL), SMARTROUTER_OK);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA2");
    world.play.heartbeat = "{\"renewed\":[],\"ended\":[\"CA1\"],\"conflicts\":[\"CA2\"]}";
    advance(0);
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    world.play.is_away = true;
    assert_int_equal(smartrouter_allocate(world.client, &moved, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 0);
    assert_int_equal(smartrouter_allocate(world.client, &ended, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 1);
}

static void agent__a_call_that_came_back_cancels_its_pending_release(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    world.play.is_away = true;
    assert_int_equal(smartrouter_agent_call_ended(world.agent, "CA1", NULL), SMARTROUTER_PENDING);
    world.play.is_away = false;
    smartrouter_agent_call_began(world.agent, "CA1");
    advance(60000);
    assert_int_equal(world.play.releases, 0);
}

static void agent__returns_a_call_that_was_adopted_after_its_end(void **state)
{
    (void)state;
    smartrouter_agent_call_began(world.agent, "CA1");
    world.play.heartbeat = "{\"renewed\":[],\"adopted\":[\"CA1\",\"CA2\"],\"ended\":[],\"conflicts\":[]}";
    advance(0);
    world.play.heartbeat = QUIET;
    assert_int_equal(smartrouter_pending_releases(world.client), 1);
    advance(1000);
    assert_int_equal(world.play.releases, 1);
    assert_non_null(strstr(world.play.release_body, "\"CA2\""));
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
}

static void agent__has_a_thousand_calls_at_most(void **state)
{
    char call_sid[32];

    (void)state;
    for (int i = 0; i < SR_CALLS_MAX; i++) {
        snprintf(call_sid, sizeof(call_sid), "CA%d", i);
        assert_int_equal(smartrouter_agent_call_began(world.agent, call_sid), SMARTROUTER_OK);
    }
    assert_int_equal(smartrouter_agent_call_began(world.agent, "CA-more"), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_agent_call_began(world.agent, "no sid"), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_agent_calls(world.agent), SR_CALLS_MAX);
}

static void agent__drains_leaves_and_says_nothing_afterwards(void **state)
{
    int heartbeats;

    (void)state;
    advance(0);
    assert_int_equal(smartrouter_agent_stop(world.agent), SMARTROUTER_OK);
    assert_int_equal(world.play.drains, 1);
    assert_int_equal(world.play.removals, 1);
    heartbeats = world.play.heartbeats;
    advance(60000);
    assert_int_equal(world.play.heartbeats, heartbeats);
    assert_false(smartrouter_agent_is_ready(world.agent, 0));
}

static void agent__in_a_hurry_leaves_its_calls_and_is_not_removed(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_hurry(world.agent);
    assert_int_equal(smartrouter_agent_stop(world.agent), SMARTROUTER_NOT_DRAINED);
    assert_int_equal(world.play.removals, 0);
}

static void agent__of_kubernetes_neither_registers_nor_leaves(void **state)
{
    const struct smartrouter_agent_options options = {
        .size = sizeof(options), .pod_name = "managed", .is_managed = true};
    struct smartrouter_agent *agent;

    (void)state;
    advance(0);
    assert_int_equal(smartrouter_agent_new(world.client, &options, &agent), SMARTROUTER_OK);
    advance(0);
    assert_true(smartrouter_agent_is_ready(agent, 0));
    assert_int_equal(smartrouter_agent_stop(agent), SMARTROUTER_OK);
    assert_int_equal(world.play.registrations, 1);
    assert_int_equal(world.play.removals, 0);
    smartrouter_agent_free(agent);
}

static void agent__needs_a_name_and_an_address(void **state)
{
    const struct smartrouter_agent_options nameless = {.size = sizeof(nameless), .address = "10.0.0.1:1"},
                                           homeless = {.size = sizeof(homeless), .pod_name = "agent-2"};
    struct smartrouter_agent *agent;

    (void)state;
    assert_int_equal(smartrouter_agent_new(world.client, &nameless, &agent), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_agent_new(world.client, &homeless, &agent), SMARTROUTER_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_TEST(agent__registers_and_beats_as_often_as_the_router_wants),
        AGENT_TEST(agent__tries_every_second_while_the_router_is_away),
        AGENT_TEST(agent__an_open_breaker_is_waited_for),
        AGENT_TEST(agent__lists_its_calls_and_registers_again_with_the_same_incarnation),
        AGENT_TEST(agent__is_told_which_calls_are_over_and_does_not_release_them),
        AGENT_TEST(agent__releases_a_call_that_was_hung_up_with_its_own_name),
        AGENT_TEST(agent__keeps_a_call_that_broke_for_a_minute),
        AGENT_TEST(agent__a_call_that_came_back_is_not_released_for_its_first_stream),
        AGENT_TEST(agent__an_old_stream_that_closes_late_does_not_end_its_call),
        AGENT_TEST(agent__the_last_stream_that_breaks_keeps_the_call_for_a_minute),
        AGENT_TEST(agent__the_end_of_a_call_does_not_wait_for_its_streams),
        AGENT_TEST(agent__a_failed_allocation_does_not_release_its_call),
        AGENT_TEST(agent__a_call_that_the_router_ended_may_be_released_again_and_a_moved_one_not),
        AGENT_TEST(agent__a_call_that_came_back_cancels_its_pending_release),
        AGENT_TEST(agent__returns_a_call_that_was_adopted_after_its_end),
        AGENT_TEST(agent__has_a_thousand_calls_at_most),
        AGENT_TEST(agent__drains_leaves_and_says_nothing_afterwards),
        AGENT_TEST(agent__in_a_hurry_leaves_its_calls_and_is_not_removed),
        AGENT_TEST(agent__of_kubernetes_neither_registers_nor_leaves),
        AGENT_TEST(agent__needs_a_name_and_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
