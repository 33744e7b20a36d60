/*
 * fake_router.c - a router inside the test, and its clock.
 */
#include "fake_router.h"

static bool fake_transport(void *arg, const struct sr_exchange *exchange, struct smartrouter_answer *answer,
                           bool *ret_may_have_arrived)
{
    struct fake_router *router = arg;

    return router->answer(router, exchange, answer, ret_may_have_arrived);
}

static int64_t fake_clock(void *arg)
{
    const struct fake_router *router = arg;

    return router->now_ms;
}

static void fake_sleep(void *arg, int64_t ms)
{
    struct fake_router *router = arg;

    if (router->wait_count < FAKE_WAITS_MAX)
        router->waits_ms[router->wait_count++] = ms;
    router->now_ms += ms;
}

static double fake_random(void *arg)
{
    (void)arg;
    return 0;
}

void fake_router_attach(struct fake_router *router, struct smartrouter_settings *settings)
{
    settings->test.transport = fake_transport;
    settings->test.transport_arg = router;
    smartrouter_settings_set_clock(settings, fake_clock, fake_sleep, router);
    smartrouter_settings_set_random(settings, fake_random, NULL);
}

void fake_router_advance(struct fake_router *router, struct smartrouter_client *client, int64_t ms)
{
    const int64_t until_ms = router->now_ms + ms;
    int64_t due_ms;

    pthread_mutex_lock(&client->lock);
    while ((due_ms = sr_work_due_ms(client)) <= until_ms) {
        if (due_ms > router->now_ms)
            router->now_ms = due_ms;
        sr_work_once(client);
    }
    if (router->now_ms < until_ms)
        router->now_ms = until_ms;
    pthread_mutex_unlock(&client->lock);
}
