/*
 * test_line.c - calls that wait, as far as the table of behaviours cannot say it: stopped by another thread,
 * by a release or in the callback; two at once; programs of an older version.
 */
#include "fake_router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BODIES_MAX = 64 };

/* A router that lets every call wait until it has `pods`. Any thread may ask it. */
static struct world {
    struct smartrouter_client *client;
    pthread_mutex_t lock;
    atomic_int asks;
    atomic_int pods;
    char releases[BODIES_MAX][128];
    size_t release_count;
    bool stops_in_callback;
    int callbacks;
    double waited_s; /* of the metric */
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool answer(void *arg, const struct sr_exchange *exchange, struct smartrouter_answer *answer,
                   bool *ret_may_have_arrived)
{
    (void)arg;
    *ret_may_have_arrived = true;
    if (strstr(exchange->path, "/release")) {
        pthread_mutex_lock(&world.lock);
        assert_true(world.release_count < BODIES_MAX);
        snprintf(world.releases[world.release_count++], sizeof(world.releases[0]), "%s", exchange->body);
        pthread_mutex_unlock(&world.lock);
        answer->body = strdup("{}");
        answer->status = 200;
        return true;
    }
    atomic_fetch_add(&world.asks, 1);
    if (atomic_load(&world.pods) > 0) {
        answer->body = strdup("{\"pod_name\":\"agent-1\",\"ws_url\":\"wss://a/1\"}");
        answer->status = 200;
    } else {
        answer->body = strdup("{\"waiting\":true,\"position\":7,\"retry_after_ms\":20}");
        answer->status = 202;
    }
    return true;
}

static void see_metric(void *arg, const char *name, const char *operation, const char *outcome, double value)
{
    (void)arg, (void)operation, (void)outcome;
    if (strcmp(name, "wait_seconds") == 0)
        world.waited_s = value;
}

static int start(void **state)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();

    (void)state;
    world = (struct world){.lock = PTHREAD_MUTEX_INITIALIZER, .waited_s = -1};
    settings->test.transport = answer;
    smartrouter_settings_set(settings, "ENABLE_VOICE_AGENT_POD_ISOLATION", "true", NULL, 0);
    smartrouter_settings_set(settings, "SMART_ROUTER_PERCENTAGE", "100", NULL, 0);
    smartrouter_settings_set_metric(settings, see_metric, NULL);
    assert_int_equal(smartrouter_client_new(settings, &world.client), SMARTROUTER_OK);
    smartrouter_settings_free(settings);
    sr_breaker_reset(world.client->breaker);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    smartrouter_client_free(world.client);
    return 0;
}

/* An allocation on a thread of its own. */
struct waiter {
    pthread_t thread;
    int wait_ms;
    enum smartrouter_result result;
    char reason[32];
    int position;
};

static void hear(void *arg, const struct smartrouter_answer *heard)
{
    (void)arg;
    world.callbacks++;
    assert_true(smartrouter_answer_number(heard, "position") == 7);
    if (world.stops_in_callback)
        assert_true(smartrouter_stop_waiting(world.client, "CA1"));
}

static void *waiter_run(void *arg)
{
    struct waiter *waiter = arg;
    const struct smartrouter_call_request request = {
        .size = sizeof(request), .call_sid = "CA1", .wait_ms = waiter->wait_ms};
    struct smartrouter_answer *got;

    waiter->result = smartrouter_allocate(world.client, &request, &got);
    snprintf(waiter->reason, sizeof(waiter->reason), "%s", smartrouter_answer_text(got, "reason"));
    waiter->position = (int)smartrouter_answer_number(got, "position");
    smartrouter_answer_free(got);
    return NULL;
}

static void waiter_start(struct waiter *waiter, int wait_ms)
{
    const int asks = atomic_load(&world.asks);

    *waiter = (struct waiter){.wait_ms = wait_ms};
    assert_int_equal(pthread_create(&waiter->thread, NULL, waiter_run, waiter), 0);
    while (atomic_load(&world.asks) < asks + 2)
        usleep(1000);
}

static void waiter_join(struct waiter *waiter, enum smartrouter_result result, const char *reason)
{
    pthread_join(waiter->thread, NULL);
    assert_int_equal(waiter->result, result);
    assert_string_equal(waiter->reason, reason);
}

static void line__a_stop_of_another_thread_ends_the_wait_and_releases_the_call(void **state)
{
    struct waiter waiter;

    (void)state;
    waiter_start(&waiter, 3600000);
    assert_false(smartrouter_stop_waiting(world.client, "CA2"));
    assert_true(smartrouter_stop_waiting(world.client, "CA1"));
    waiter_join(&waiter, SMARTROUTER_BUSY, "stopped");
    assert_int_equal(waiter.position, 7);
    assert_false(smartrouter_stop_waiting(world.client, "CA1"));
    assert_int_equal(world.release_count, 1);
    assert_string_equal(world.releases[0], "{\"call_sid\":\"CA1\",\"reason\":\"wait_stopped\"}");
    assert_true(world.waited_s >= 0);
}

static void line__a_release_stops_the_wait_so_that_it_does_not_join_the_line_again(void **state)
{
    struct waiter waiter;

    (void)state;
    waiter_start(&waiter, 3600000);
    assert_int_equal(smartrouter_handle_status(world.client, "CA1", "completed", NULL), SMARTROUTER_OK);
    waiter_join(&waiter, SMARTROUTER_BUSY, "stopped");
    assert_int_equal(world.release_count, 2);
    assert_int_equal(smartrouter_pending_releases(world.client), 0);
}

static void line__the_first_of_two_waits_that_ends_does_not_take_the_place_of_the_other(void **state)
{
    struct waiter first, second;

    (void)state;
    waiter_start(&second, 3600000);
    waiter_start(&first, 200);
    waiter_join(&first, SMARTROUTER_BUSY, "no_pods");
    assert_int_equal(world.release_count, 0);
    atomic_store(&world.pods, 1);
    waiter_join(&second, SMARTROUTER_OK, "");
    assert_int_equal(world.release_count, 0);
}

static void line__the_callback_hears_the_position_and_may_stop_the_wait(void **state)
{
    const struct smartrouter_call_request request = {
        .size = sizeof(request), .call_sid = "CA1", .wait_ms = 3600000, .waiting = hear};

    (void)state;
    world.stops_in_callback = true;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(world.callbacks, 1);
    assert_int_equal(world.release_count, 1);
}

static void line__a_call_that_the_client_has_again_is_not_released_by_a_wait_that_was_stopped(void **state)
{
    const struct smartrouter_call_request plain = {.size = sizeof(plain), .call_sid = "CA1"};
    struct waiter waiter;

    (void)state;
    waiter_start(&waiter, 3600000);
    atomic_store(&world.pods, 1);
    assert_int_equal(smartrouter_allocate(world.client, &plain, NULL), SMARTROUTER_OK);
    smartrouter_stop_waiting(world.client, "CA1");
    pthread_join(waiter.thread, NULL);
    assert_int_equal(world.release_count, 0);
}

/* A program that was built before calls could wait. */
static void line__a_request_of_an_older_size_does_not_wait(void **state)
{
    const struct smartrouter_call_request request = {.size =
                                                         offsetof(struct smartrouter_call_request, wait_ms),
                                                     .call_sid = "CA1",
                                                     .wait_ms = 3600000,
                                                     .waiting = hear};

    (void)state;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(world.callbacks, 0);
    assert_int_equal(atomic_load(&world.asks), 1);
}

static void line__a_negative_wait_is_none(void **state)
{
    const struct smartrouter_call_request request = {
        .size = sizeof(request), .call_sid = "CA1", .wait_ms = -1, .waiting = hear};

    (void)state;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(atomic_load(&world.asks), 1);
    assert_false(smartrouter_stop_waiting(world.client, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(line__a_stop_of_another_thread_ends_the_wait_and_releases_the_call,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            line__a_release_stops_the_wait_so_that_it_does_not_join_the_line_again, start, stop),
        cmocka_unit_test_setup_teardown(
            line__the_first_of_two_waits_that_ends_does_not_take_the_place_of_the_other, start, stop),
        cmocka_unit_test_setup_teardown(line__the_callback_hears_the_position_and_may_stop_the_wait, start,
                                        stop),
        cmocka_unit_test_setup_teardown(
            line__a_call_that_the_client_has_again_is_not_released_by_a_wait_that_was_stopped, start, stop),
        cmocka_unit_test_setup_teardown(line__a_request_of_an_older_size_does_not_wait, start, stop),
        cmocka_unit_test_setup_teardown(line__a_negative_wait_is_none, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
