/*
 * agent_play.c - an agent, and a router that the test plays.
 */
#include "agent_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char REGISTERED[] = "{\"success\":true,\"heartbeat_interval_seconds\":10}";

struct world world;

static int reply(struct smartrouter_answer *answer, int status, const char *body)
{
    answer->body = strdup(body);
    return answer->status = status;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static bool play_answer(struct fake_router *router, const struct sr_exchange *exchange,
                        struct smartrouter_answer *answer, bool *ret_may_have_arrived)
{
    struct play *play = router->arg;

    *ret_may_have_arrived = true;
    if (play->is_away)
        return false;
    if (ends_with(exchange->path, "/pods")) {
        play->registrations++;
        play->knows_pod = true;
        snprintf(play->registration_body, sizeof(play->registration_body), "%s", exchange->body);
        return reply(answer, 200, REGISTERED);
    }
    if (ends_with(exchange->path, "/heartbeat")) {
        play->heartbeats++;
        snprintf(play->heartbeat_body, sizeof(play->heartbeat_body), "%s", exchange->body);
        if (play->reopens)
            smartrouter_agent_call_began(world.agent, "CA1");
        return play->knows_pod ? reply(answer, 200, play->heartbeat)
                               : reply(answer, 404, "{\"error\":\"pod not found\"}");
    }
    if (ends_with(exchange->path, "/allocate"))
        return reply(answer, 200, "{\"pod_name\":\"agent-1\",\"ws_url\":\"wss://a/1\"}");
    if (ends_with(exchange->path, "/release")) {
        play->releases++;
        snprintf(play->release_body, sizeof(play->release_body), "%s", exchange->body);
        return reply(answer, 200, "{}");
    }
    if (ends_with(exchange->path, "/drain")) {
        play->drains++;
        return reply(answer, 200, "{\"has_active_call\":false}");
    }
    if (strcmp(exchange->method, "DELETE") == 0) {
        play->removals++;
        return reply(answer, 200, "{}");
    }
    return reply(answer, 200, "{\"is_drained\":true,\"calls\":[]}");
}

static void call_over(void *arg, const char *call_sid, bool is_conflict)
{
    struct play *play = arg;

    play->overs++;
    snprintf(play->over, sizeof(play->over), "%s%s", call_sid, is_conflict ? " conflict" : "");
}

static void session_free(void *session)
{
    world.play.sessions_freed += *(int *)session;
}

int play_start(void **state)
{
    const struct smartrouter_agent_options options = {.size = sizeof(options),
                                                      .pod_name = "agent-1",
                                                      .address = "10.0.0.1:8000",
                                                      .call_over = call_over,
                                                      .call_over_arg = &world.play,
                                                      .session_free = session_free};
    struct smartrouter_settings *settings = smartrouter_settings_new();

    (void)state;
    world =
        (struct world){.play = {.heartbeat = QUIET}, .router = {.answer = play_answer, .now_ms = 1000000}};
    world.router.arg = &world.play;
    fake_router_attach(&world.router, settings);
    assert_int_equal(smartrouter_client_new(settings, &world.client), SMARTROUTER_OK);
    smartrouter_settings_free(settings);
    sr_breaker_reset(world.client->breaker);
    assert_int_equal(smartrouter_agent_new(world.client, &options, &world.agent), SMARTROUTER_OK);
    return 0;
}

int play_stop(void **state)
{
    (void)state;
    smartrouter_agent_free(world.agent);
    smartrouter_client_free(world.client);
    return 0;
}

void advance(int64_t ms)
{
    fake_router_advance(&world.router, world.client, ms);
}
