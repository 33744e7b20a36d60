/*
 * fake_router.h - a router inside the test: it says what to answer, and a clock that the test owns.
 *
 * The client under test has no background thread: fake_advance() does its work.
 */
#ifndef SR_FAKE_ROUTER_H
#define SR_FAKE_ROUTER_H

#include "client.h"

enum { FAKE_WAITS_MAX = 32 };

struct fake_router {
    /* Answers one request. Returns as a sr_transport_fn. */
    bool (*answer)(struct fake_router *router, const struct sr_exchange *exchange,
                   struct smartrouter_answer *answer, bool *ret_may_have_arrived);
    void *arg;
    int64_t now_ms;
    int64_t waits_ms[FAKE_WAITS_MAX];
    size_t wait_count;
};

/* Gives the settings this router, its clock, and no jitter. */
void fake_router_attach(struct fake_router *router, struct smartrouter_settings *settings);

/* Moves the clock, and does all work of the background that is due until then, in the order of its time. */
void fake_router_advance(struct fake_router *router, struct smartrouter_client *client, int64_t ms);

#endif
