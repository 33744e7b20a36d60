/*
 * test_sessions.c - calls of an agent whose streams end or break: close codes, sessions, failures of the
 * agent.
 */
#include "agent_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void agent__close_codes_that_somebody_meant_end_the_call(void **state)
{
    static const int ENDS[] = {1000, 1005, 3000, 4000, 4999},
                     BREAKS[] = {0, 999, 1001, 1002, 1006, 1009, 1011, 1012, 1013, 2999, 5000};

    (void)state;
    for (size_t i = 0; i < sizeof(ENDS) / sizeof(*ENDS); i++) {
        assert_true(smartrouter_close_ends_call(ENDS[i]));
        smartrouter_agent_call_began(world.agent, "CA1");
        assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", ENDS[i]), SMARTROUTER_OK);
        assert_int_equal(world.play.releases, i + 1);
        assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    }
    world.play.releases = 0;
    for (size_t i = 0; i < sizeof(BREAKS) / sizeof(*BREAKS); i++) {
        assert_false(smartrouter_close_ends_call(BREAKS[i]));
        smartrouter_agent_call_began(world.agent, "CA1");
        assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", BREAKS[i]), SMARTROUTER_OK);
        assert_int_equal(smartrouter_agent_calls(world.agent), 1);
    }
    assert_int_equal(world.play.releases, 0);
}

/* ---- Sessions ---- */

static void session__of_a_broken_call_comes_back_with_its_next_stream(void **state)
{
    int session = 1;
    void *found = &session;

    (void)state;
    advance(0);
    assert_int_equal(smartrouter_agent_stream_opened(world.agent, "CA1", &found), SMARTROUTER_OK);
    assert_null(found);
    assert_int_equal(smartrouter_agent_stream_ended(world.agent, "CA1", 1012, &session), SMARTROUTER_OK);
    advance(59999);
    assert_int_equal(smartrouter_agent_stream_opened(world.agent, "CA1", &found), SMARTROUTER_OK);
    assert_ptr_equal(found, &session);
    /* Now it is the program's: the end of the agent's time with the call does not free it. */
    advance(120000);
    smartrouter_agent_call_ended(world.agent, "CA1", NULL);
    assert_int_equal(world.play.sessions_freed, 0);
}

static void session__is_freed_when_the_call_does_not_come_back(void **state)
{
    int session = 1;
    void *found;

    (void)state;
    advance(0);
    smartrouter_agent_stream_opened(world.agent, "CA1", &found);
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &session);
    advance(59999);
    assert_int_equal(world.play.sessions_freed, 0);
    advance(1);
    assert_int_equal(world.play.sessions_freed, 1);
    assert_int_equal(world.play.releases, 1);
    smartrouter_agent_stream_opened(world.agent, "CA1", &found);
    assert_null(found);
}

/* A rescued call is a conflict for the pod that it has left. */
static void session__is_freed_when_a_heartbeat_says_that_another_pod_has_the_call(void **state)
{
    int one = 1, other = 10;

    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA2");
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &one);
    smartrouter_agent_stream_ended(world.agent, "CA2", 1006, &other);
    world.play.heartbeat = "{\"renewed\":[],\"ended\":[\"CA2\"],\"conflicts\":[\"CA1\"]}";
    advance(1000);
    assert_int_equal(world.play.sessions_freed, 11);
    assert_int_equal(world.play.overs, 2);
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    advance(120000);
    assert_int_equal(world.play.releases, 0);
    assert_string_equal(world.play.heartbeat_body, "{\"call_sids\":[]}");
}

static void session__is_freed_at_once_if_nothing_can_come_back(void **state)
{
    int one = 1, two = 10, three = 100, four = 1000;

    (void)state;
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_ended(world.agent, "CA1", 1000, &one);
    assert_int_equal(world.play.sessions_freed, 1);
    assert_int_equal(smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &two), SMARTROUTER_NOT_FOUND);
    assert_int_equal(world.play.sessions_freed, 11);
    /* The stream that came back has begun without it. */
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &three);
    assert_int_equal(world.play.sessions_freed, 111);
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
    /* The provider's stop came: the program says so, and the session goes with the call. */
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &four);
    assert_int_equal(smartrouter_agent_call_ended(world.agent, "CA1", "stop"), SMARTROUTER_OK);
    assert_int_equal(world.play.sessions_freed, 1111);
}

static void session__is_freed_with_the_agent_and_when_a_newer_one_replaces_it(void **state)
{
    int one = 1, two = 10;

    (void)state;
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &one);
    smartrouter_agent_call_began(world.agent, "CA1"); /* does not ask for it */
    smartrouter_agent_stream_ended(world.agent, "CA1", 1006, &two);
    assert_int_equal(world.play.sessions_freed, 1);
    world.agent = smartrouter_agent_free(world.agent);
    assert_int_equal(world.play.sessions_freed, 11);
}

static void agent__an_answer_to_an_older_heartbeat_does_not_end_a_stream_that_came_after_it(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_closed(world.agent, "CA1", 1006);
    world.play.reopens = true;
    world.play.heartbeat = "{\"renewed\":[],\"ended\":[],\"conflicts\":[\"CA1\"]}";
    advance(1000);
    assert_int_equal(world.play.overs, 0);
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
    world.play.reopens = false;
    advance(10000);
    assert_int_equal(world.play.overs, 1);
}

/* ---- Failures of the agent itself ---- */

static void failed__the_call_is_not_listed_and_is_released_later_with_the_pods_name(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    assert_int_equal(smartrouter_agent_stream_failed(world.agent, "CA1"), SMARTROUTER_OK);
    assert_int_equal(smartrouter_agent_stream_failed(world.agent, "CA1"), SMARTROUTER_NOT_FOUND);
    assert_int_equal(smartrouter_agent_calls(world.agent), 0);
    advance(4999); /* the router moves the call in this time */
    assert_int_equal(world.play.releases, 0);
    advance(1);
    assert_int_equal(world.play.releases, 1);
    assert_string_equal(world.play.release_body,
                        "{\"call_sid\":\"CA1\",\"pod_name\":\"agent-1\",\"reason\":\"agent_failed\"}");
    advance(10000);
    assert_string_equal(world.play.heartbeat_body, "{\"call_sids\":[]}");
}

static void failed__a_call_that_comes_back_is_not_released(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_stream_failed(world.agent, "CA1");
    advance(4999);
    smartrouter_agent_call_began(world.agent, "CA1");
    advance(60000);
    assert_int_equal(world.play.releases, 0);
    assert_int_equal(smartrouter_agent_calls(world.agent), 1);
}

static void failed__another_stream_of_the_call_goes_on(void **state)
{
    (void)state;
    advance(0);
    smartrouter_agent_call_began(world.agent, "CA1");
    smartrouter_agent_call_began(world.agent, "CA1");
    assert_int_equal(smartrouter_agent_stream_failed(world.agent, "CA1"), SMARTROUTER_OK);
    advance(60000);
    assert_int_equal(world.play.releases, 0);
    assert_int_equal(smartrouter_agent_stream_closed(world.agent, "CA1", 1000), SMARTROUTER_OK);
    assert_int_equal(world.play.releases, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_TEST(agent__close_codes_that_somebody_meant_end_the_call),
        AGENT_TEST(session__of_a_broken_call_comes_back_with_its_next_stream),
        AGENT_TEST(session__is_freed_when_the_call_does_not_come_back),
        AGENT_TEST(session__is_freed_when_a_heartbeat_says_that_another_pod_has_the_call),
        AGENT_TEST(session__is_freed_at_once_if_nothing_can_come_back),
        AGENT_TEST(session__is_freed_with_the_agent_and_when_a_newer_one_replaces_it),
        AGENT_TEST(agent__an_answer_to_an_older_heartbeat_does_not_end_a_stream_that_came_after_it),
        AGENT_TEST(failed__the_call_is_not_listed_and_is_released_later_with_the_pods_name),
        AGENT_TEST(failed__a_call_that_comes_back_is_not_released),
        AGENT_TEST(failed__another_stream_of_the_call_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
