/*
 * agent_play.h - an agent, and a router that the test plays: what it saw, and how it answers.
 */
#ifndef SR_AGENT_PLAY_H
#define SR_AGENT_PLAY_H

#include "fake_router.h"

/* The answer to a heartbeat that changes nothing. */
#define QUIET "{\"renewed\":[],\"adopted\":[],\"ended\":[],\"conflicts\":[]}"

/* What the router saw last, and how it answers. */
struct play {
    bool is_away;
    bool knows_pod;
    const char *heartbeat; /* the answer */
    int registrations, heartbeats, releases, removals, drains;
    char heartbeat_body[512], release_body[512], registration_body[512];
    char over[128];
    int overs;
    bool reopens; /* the call's next stream opens while a heartbeat is under way */
    int sessions_freed;
};

extern struct world {
    struct play play;
    struct fake_router router;
    struct smartrouter_client *client;
    struct smartrouter_agent *agent;
} world;

/* Fixtures: a client with one agent, "agent-1". Sessions are pointers to int, which are added up. */
int play_start(void **state);
int play_stop(void **state);

/* Moves the clock, and does the work of the background. */
void advance(int64_t ms);

#define AGENT_TEST(test) cmocka_unit_test_setup_teardown(test, play_start, play_stop)

#endif
