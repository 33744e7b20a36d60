/*
 * test_api_waiting.c - requests for a pod whose calls wait, and what the API tells of them, with a store that
 * answers what a test tells it to, and a clock that the test owns.
 *
 * What they do with a real store is in test/functional.
 */
#include "waiting_api.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/log.h"

static struct kept_call kept;

/* The store's answer to the next word of a request that is kept open. */
static void answer_kept(struct world *world, enum keep_answer answered)
{
    assert_int_equal(world->fake.command.type, COMMAND_KEEP);
    assert_int_equal(world->fake.command.keep.count, 1);
    assert_string_equal(world->fake.command.keep.holder, "router-0");
    assert_string_equal(world->fake.command.keep.calls[0].call.call_sid, "CA1");
    assert_int_equal(world->fake.command.keep.calls[0].call.since_ms, 50000);
    assert_int_equal(world->fake.command.keep.calls[0].call.until_ms, 170000);
    assert_int_equal(world->fake.command.keep.calls[0].attempt, world->fake.result.allocate.attempt);
    kept.answer = answered;
    kept.call = world->fake.command.keep.calls[0].call;
    world->fake.result = (struct result){.outcome = OUTCOME_OK};
    world->fake.result.keep.calls = &kept;
    world->fake.result.keep.count = 1;
    answer(world);
    say_waiting(world, 3, 7);
}

#define ALLOCATE "/api/v1/allocate"
#define WAIT_BODY "{\"call_sid\":\"CA1\",\"wait\":true}"
#define POLL_BODY "{\"call_sid\":\"CA1\",\"wait_ms\":20000}"

static void begin_poll(struct world *world)
{
    begin(world, "POST", ALLOCATE, NULL, POLL_BODY);
    assert_true(world->fake.command.allocate.waits);
    assert_string_equal(world->fake.command.allocate.holder, "router-0");
    say_waiting(world, 3, 7);
    answer(world);
    assert_int_equal(world->request.answers, 0);
    assert_true(world->request.is_held);
}

static void wait__answers_202_with_the_place_in_line(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_waiting(&world, 3, 7);
    ask(&world, ALLOCATE, NULL, WAIT_BODY);
    assert_answer(&world, 202,
                  "{\"success\":true,\"waiting\":true,\"position\":3,\"waited_seconds\":4,"
                  "\"retry_after_ms\":1000}");
    assert_true(world.fake.command.allocate.waits);
    assert_false(world.fake.command.allocate.awaits_stream);
    assert_null(world.fake.command.allocate.holder);
    world.fake.result.allocate.waiting.estimate_ms = 11001;
    ask(&world, ALLOCATE, NULL, "{\"call_sid\":\"CA1\",\"wait\":true,\"wait_ms\":0}");
    assert_answer(&world, 202, "\"waited_seconds\":4,\"estimated_wait_seconds\":12,\"retry_after_ms\":1000}");
    assert_false(world.request.is_held);
    world_release_waiting(&world);
}

static void wait__is_false_unless_it_is_asked_for(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result.outcome = OUTCOME_NO_PODS;
    ask(&world, ALLOCATE, NULL, "{\"call_sid\":\"CA1\"}");
    assert_false(world.fake.command.allocate.waits);
    assert_answer(&world, 503, "{\"success\":false,\"error\":\"no pods available\",\"code\":\"no_pods\"}");
    ask(&world, ALLOCATE, NULL, "{\"call_sid\":\"CA1\",\"wait\":false}");
    assert_false(world.fake.command.allocate.waits);
    ask(&world, ALLOCATE, NULL, "{\"call_sid\":\"CA1\",\"wait\":null,\"wait_ms\":null}");
    assert_false(world.fake.command.allocate.waits);
    world_release_waiting(&world);
}

static void wait__bad_values_are_refused_by_name(void **state UNUSED)
{
    static const char *const bad[][2] = {
        {"\"wait\":1", "wait must be true or false"},
        {"\"wait\":\"true\"", "wait must be true or false"},
        {"\"wait\":[]", "wait must be true or false"},
        {"\"wait_ms\":-1", "wait_ms must be a whole number from 0 to 20000"},
        {"\"wait_ms\":20001", "wait_ms must be a whole number from 0 to 20000"},
        {"\"wait_ms\":1.5", "wait_ms must be a whole number"},
        {"\"wait_ms\":1e300", "wait_ms must be a whole number"},
        {"\"wait_ms\":\"5\"", "wait_ms must be a whole number"},
        {"\"wait_ms\":true", "wait_ms must be a whole number"},
        {"\"wait\":false,\"wait_ms\":5", "wait is false, but there is a wait_ms"},
    };
    struct world world;

    world_init_waiting(&world, NULL);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char body[128];

        snprintf(body, sizeof(body), "{\"call_sid\":\"CA1\",%s}", bad[i][0]);
        ask(&world, ALLOCATE, NULL, body);
        assert_answer(&world, 400, bad[i][1]);
    }
    assert_int_equal(world.fake.commands, 0);
    world_release_waiting(&world);
}

static void poll__answers_when_the_store_says_that_something_changed(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    pass(2000);
    api_call_changed(world.api, "CA2");
    pass(1);
    assert_int_equal(world.fake.commands, 1);
    api_call_changed(world.api, "CA1");
    assert_int_equal(world.fake.commands, 1); /* not inside the call */
    pass(1);
    assert_int_equal(world.fake.commands, 2);
    answer_kept(&world, KEEP_GRANTED);
    assert_int_equal(world.fake.command.type, COMMAND_ALLOCATE);
    say_pod(&world);
    world.fake.result.allocate.was_taken = true;
    world.fake.result.allocate.waited_ms = 2500;
    answer(&world);
    finish(&world);
    assert_answer(&world, 200, "\"pod_name\":\"pod-1\"");
    assert_metric(&world, "smart_router_wait_seconds_sum{outcome=\"granted\"} 2.5");
    world_release_waiting(&world);
}

static void poll__a_change_while_the_store_is_asked_is_not_missed(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin(&world, "POST", ALLOCATE, NULL, POLL_BODY);
    api_call_changed(world.api, "CA1"); /* the mailbox was faster than the answer */
    say_waiting(&world, 1, 7);
    answer(&world);
    pass(1);
    answer_kept(&world, KEEP_GRANTED);
    say_pod(&world);
    answer(&world);
    finish(&world);
    assert_answer(&world, 200, "\"pod_name\":\"pod-1\"");
    world_release_waiting(&world);
}

static void poll__asks_every_five_seconds_and_the_last_time_without_a_holder(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    for (int asked = 2; asked <= 4; asked++) {
        pass(4999);
        assert_int_equal(world.fake.commands, asked - 1);
        pass(1);
        assert_int_equal(world.fake.commands, asked);
        answer_kept(&world, asked == 3 ? KEEP_REJOINED : KEEP_WAITING);
        assert_int_equal(world.request.answers, 0);
    }
    pass(5000);
    answer_kept(&world, KEEP_WAITING);
    assert_int_equal(world.fake.commands, 6);
    assert_true(world.fake.command.allocate.waits);
    assert_null(world.fake.command.allocate.holder);
    say_waiting(&world, 2, 11);
    answer(&world);
    finish(&world);
    assert_answer(&world, 202, "\"position\":2");
    world_release_waiting(&world);
}

static void poll__a_wait_that_is_over_is_refused(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    for (int i = 0; i < 2; i++) {
        begin_poll(&world);
        api_call_changed(world.api, "CA1");
        pass(1);
        kept.ended_now = i == 0; /* the second time the leader was faster, and has counted it */
        answer_kept(&world, KEEP_TIMED_OUT);
        finish(&world);
        assert_answer(&world, 503, "\"code\":\"no_pods\"");
    }
    assert_metric(&world, "smart_router_wait_seconds_sum{outcome=\"timed_out\"} 120");
    world_release_waiting(&world);
}

static void wait__that_is_over_is_refused(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_NO_PODS};
    world.fake.result.allocate.has_ended = true;
    world.fake.result.allocate.why = FINISH_TIMED_OUT;
    world.fake.result.allocate.waited_ms = 120000;
    ask(&world, ALLOCATE, NULL, WAIT_BODY);
    assert_answer(&world, 503, "\"code\":\"no_pods\"");
    assert_metric(&world, "smart_router_wait_seconds_sum{outcome=\"timed_out\"} 120");
    world_release_waiting(&world);
}

static void poll__ends_with_its_call(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    api_call_changed(world.api, "CA1");
    pass(1);
    answer_kept(&world, KEEP_ENDED); /* somebody has released it: it does not begin anew */
    finish(&world);
    assert_answer(&world, 409, "the call has ended");
    assert_int_equal(world.fake.commands, 2);
    world_release_waiting(&world);
}

static void wait__a_full_line_is_counted(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_NO_PODS};
    world.fake.result.allocate.is_full = true;
    ask(&world, ALLOCATE, NULL, POLL_BODY);
    assert_answer(&world, 503, "\"code\":\"no_pods\"");
    assert_metric(&world, "smart_router_wait_seconds_count{outcome=\"full\"} 1");
    world_release_waiting(&world);
}

static void poll__leaves_the_line_when_its_client_has_gone(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    client_waits_for = 0;
    pass(1000);
    assert_int_equal(world.fake.command.type, COMMAND_UNDO);
    assert_string_equal(world.fake.command.undo.call_sid, "CA1");
    assert_int_equal(world.fake.command.undo.attempt, 7);
    assert_false(world.fake.command.undo.spares_place);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.release.was_waiting = true;
    world.fake.result.release.waited_ms = 6000;
    assert_null(world.request.unsent); /* or it would be undone twice */
    answer(&world);
    finish(&world);
    assert_metric(&world, "smart_router_wait_seconds_sum{outcome=\"abandoned\"} 6");
    api_call_changed(world.api, "CA1"); /* nobody hears it any more */
    pass(30000);
    assert_int_equal(world.fake.commands, 2);
    world_release_waiting(&world);
}

/* Neither is the pod taken for a client that has gone: another call waits for it. */
static void poll__a_grant_for_a_client_that_has_gone_is_given_back(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    client_waits_for = 0;
    api_call_changed(world.api, "CA1");
    pass(1);
    assert_int_equal(world.fake.commands, 2);
    assert_int_equal(world.fake.command.type, COMMAND_UNDO);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    answer(&world);
    finish(&world);
    world_release_waiting(&world);
}

static void poll__an_answer_that_nobody_gets_leaves_the_line(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_waiting(&world, 3, 7);
    ask(&world, ALLOCATE, NULL, WAIT_BODY);
    assert_non_null(world.request.unsent);
    world.request.unsent(world.request.unsent_arg);
    assert_int_equal(world.fake.command.type, COMMAND_UNDO);
    assert_int_equal(world.fake.command.undo.attempt, 7);
    world.fake.done(world.fake.arg, -ENOTCONN, NULL);
    world_release_waiting(&world);
}

static void poll__survives_a_store_that_is_away_for_a_moment(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    pass(5000);
    world.fake.err = -ETIMEDOUT;
    answer(&world);
    assert_int_equal(world.request.answers, 0);
    world.fake.refuse = -ENOTCONN;
    pass(3000);
    assert_int_equal(world.request.answers, 0);
    assert_int_equal(world.fake.commands, 5);
    world.fake.refuse = world.fake.err = 0;
    pass(1000);
    answer_kept(&world, KEEP_GRANTED);
    say_pod(&world);
    answer(&world);
    finish(&world);
    assert_answer(&world, 200, "\"pod_name\":\"pod-1\"");
    world_release_waiting(&world);
}

static void poll__is_unavailable_if_the_store_stays_away(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    world.fake.refuse = -ENOTCONN;
    pass(20000);
    finish(&world);
    assert_answer(&world, 503, "store unavailable");
    world_release_waiting(&world);
}

static void poll__is_unavailable_at_once_if_the_call_never_joined(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.refuse = -ENOTCONN;
    ask(&world, ALLOCATE, NULL, POLL_BODY);
    assert_answer(&world, 503, "store unavailable");
    world.fake.refuse = 0;
    world.fake.err = -ETIMEDOUT;
    ask(&world, ALLOCATE, NULL, POLL_BODY);
    assert_answer(&world, 503, "store unavailable");
    world_release_waiting(&world);
}

static void poll__is_answered_at_once_when_too_many_wait(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    can_hold = false;
    say_waiting(&world, 3, 7);
    ask(&world, ALLOCATE, NULL, POLL_BODY);
    assert_answer(&world, 202, "\"position\":3");
    world_release_waiting(&world);
}

static void poll__is_answered_when_the_router_stops(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    api_set_stopping(world.api);
    answer_kept(&world, KEEP_WAITING);
    assert_null(world.fake.command.allocate.holder);
    answer(&world);
    finish(&world);
    assert_answer(&world, 202, "\"position\":3");
    /* A new one is not kept either. */
    ask(&world, ALLOCATE, NULL, POLL_BODY);
    assert_answer(&world, 202, "\"position\":3");
    assert_null(world.fake.command.allocate.holder);
    world_release_waiting(&world);
}

static void poll__does_not_outlive_the_key_that_it_came_with(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    begin_poll(&world);
    assert_int_equal(api_set_secrets(world.api, (const char *const[SECRET_KINDS]){"", "", "", ""}, ""), 0);
    pass(1);
    answer_kept(&world, KEEP_WAITING);
    answer(&world);
    finish(&world);
    assert_answer(&world, 202, "\"position\":3");
    world_release_waiting(&world);
}

static void poll__a_newer_one_for_the_same_call_takes_its_place(void **state UNUSED)
{
    struct http_request newer = {0};
    struct world world;

    world_init_waiting(&world, NULL);
    arena_init(&newer.arena, HTTP_ARENA_MAX);
    begin_poll(&world);
    begin_request(&world, &newer, "POST", ALLOCATE, NULL, POLL_BODY);
    say_waiting(&world, 2, 8);
    answer(&world);
    pass(1);
    assert_int_equal(world.fake.commands, 2); /* the older one says what it knows: asking would be a sign */
    finish(&world);
    assert_int_equal(world.request.status, 202);
    assert_int_equal(newer.answers, 0);
    api_call_changed(world.api, "CA1");
    pass(1);
    answer_kept(&world, KEEP_GRANTED);
    say_pod(&world);
    answer(&world);
    assert_int_equal(newer.status, 200);
    arena_release(&newer.arena);
    world_release_waiting(&world);
}

static void release__says_what_became_of_a_call_that_waited_or_is_kept(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.release.call = (struct call_info){.pod = "", .pool = "", .merchant_id = ""};
    world.fake.result.release.released_to = "";
    world.fake.result.release.was_waiting = true;
    world.fake.result.release.waited_ms = 3000;
    ask(&world, "/api/v1/release", NULL, "{\"call_sid\":\"CA1\"}");
    assert_answer(&world, 200,
                  "{\"success\":true,\"pod_name\":\"\",\"released_to_pool\":\"\",\"was_draining\":false,"
                  "\"was_waiting\":true}");
    assert_metric(&world, "smart_router_wait_seconds_sum{outcome=\"abandoned\"} 3");
    world.fake.result.release.was_waiting = false;
    world.fake.result.release.is_kept = true;
    world.fake.result.release.call =
        (struct call_info){.pod = "pod-1", .pool = "pool:gold", .merchant_id = ""};
    ask(&world, "/api/v1/release", NULL, "{\"call_sid\":\"CA1\"}");
    assert_answer(&world, 200,
                  "{\"success\":true,\"pod_name\":\"pod-1\",\"released_to_pool\":\"\",\"was_draining\":false,"
                  "\"is_kept\":true}");
    assert_metric(&world, "smart_router_releases_total{pool=\"pool:gold\",status=\"kept\",tier=\"gold\"} 1");
    world_release_waiting(&world);
}

static void waiting__lists_the_line(void **state UNUSED)
{
    struct waiting_call calls[2] = {{.call_sid = "CA1",
                                     .merchant_id = "acme",
                                     .provider = "twilio",
                                     .since_ms = 1000,
                                     .until_ms = 121000,
                                     .holder = "router-1",
                                     .priority = 3,
                                     .position = 1,
                                     .estimate_ms = 500,
                                     .is_rescued = true,
                                     .pools = line_pools,
                                     .pool_count = 2},
                                    {.call_sid = "CA2",
                                     .merchant_id = "",
                                     .provider = "",
                                     .since_ms = 9000,
                                     .until_ms = 129000,
                                     .holder = "",
                                     .position = 2}};
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.waiting.calls = calls;
    world.fake.result.waiting.count = 2;
    world.fake.result.waiting.total = 2;
    world.fake.result.waiting.now_ms = 11900;
    world.fake.result.waiting.next_cursor = "";
    ask(&world, "/api/v1/waiting", "limit=5&cursor=abc", NULL);
    assert_int_equal(world.fake.command.waiting.limit, 5);
    assert_string_equal(world.fake.command.waiting.cursor, "abc");
    assert_answer(
        &world, 200,
        "{\"waiting\":[{\"call_sid\":\"CA1\",\"merchant_id\":\"acme\",\"provider\":\"twilio\","
        "\"state\":\"waiting\",\"priority\":3,\"position\":1,\"since\":\"1970-01-01T00:00:01Z\","
        "\"until\":\"1970-01-01T00:02:01Z\",\"waited_seconds\":10,\"estimated_wait_seconds\":1,"
        "\"pools\":[\"pool:gold\",\"pool:basic\"],\"rescued\":true,\"held_by\":\"router-1\"},"
        "{\"call_sid\":\"CA2\",\"merchant_id\":\"\",\"provider\":\"\",\"state\":\"waiting\",\"priority\":0,"
        "\"position\":2,\"since\":\"1970-01-01T00:00:09Z\",\"until\":\"1970-01-01T00:02:09Z\","
        "\"waited_seconds\":2,\"pools\":[],\"rescued\":false,\"held_by\":\"\"}],"
        "\"total\":2,\"next_cursor\":\"\"}");
    ask(&world, "/api/v1/waiting", "limit=0", NULL);
    assert_int_equal(world.request.status, 400);
    world.fake.result = (struct result){.outcome = OUTCOME_INVALID, .error = REFUSED_CURSOR};
    ask(&world, "/api/v1/waiting", "cursor=x", NULL);
    assert_int_equal(world.request.status, 400);
    world_release_waiting(&world);
}

static void call__shows_a_call_that_waits(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    say_waiting(&world, 4, 7);
    world.fake.result.call.waiting = world.fake.result.allocate.waiting;
    world.fake.result.call.now_ms = 60000;
    ask(&world, "/api/v1/call/{sid}", NULL, NULL);
    assert_answer(&world, 200, "\"state\":\"waiting\",\"priority\":0,\"position\":4");
    assert_answer(&world, 200, "\"waited_seconds\":10");
    world_release_waiting(&world);
}

static void status__shows_the_line_only_where_calls_can_wait(void **state UNUSED)
{
    struct tier_status tier = {.name = "gold", .waiting = 2, .is_configured = true};
    struct api_settings settings = waiting_settings();
    struct world world;

    world_init_waiting(&world, &settings);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.status.tiers = &tier;
    world.fake.result.status.tier_count = 1;
    ask(&world, "/api/v1/status", NULL, NULL);
    assert_answer(&world, 200, "\"active_calls\":0,\"waiting\":0,");
    assert_answer(&world, 200, "\"free\":0,\"waiting\":2}");
    world_release_waiting(&world);

    settings.hold_max_wait_ms = 0;
    world_init_waiting(&world, &settings);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.status.tiers = &tier;
    world.fake.result.status.tier_count = 1;
    ask(&world, "/api/v1/status", NULL, NULL);
    assert_null(strstr(world.request.answer, "waiting"));
    world.fake.result.status.waiting = 2; /* a merchant has hold_seconds */
    ask(&world, "/api/v1/status", NULL, NULL);
    assert_answer(&world, 200, "\"active_calls\":0,\"waiting\":2,");
    world_release_waiting(&world);
}

static void story__tells_of_the_wait(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, NULL);
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    world.fake.result.story.is_waiting = true;
    world.fake.result.story.now_ms = 70000;
    world.fake.result.story.waiting = (struct waiting_call){.call_sid = "x",
                                                            .merchant_id = "acme",
                                                            .provider = "twilio",
                                                            .since_ms = 50000,
                                                            .until_ms = 170000,
                                                            .position = 3,
                                                            .pools = line_pools,
                                                            .pool_count = 2};
    ask(&world, "/api/v1/call/{sid}/story", NULL, NULL);
    assert_answer(
        &world, 200,
        "\"state\":\"waiting\",\"summary\":\"x has waited for a pod for 20 seconds, at place 3 of the "
        "line for pool:gold, pool:basic, and is given up in 100 seconds.\"");
    assert_answer(
        &world, 200,
        "{\"time\":\"1970-01-01T00:00:50Z\",\"event\":\"waiting\",\"sentence\":\"Twilio asked for it, "
        "for the merchant acme, and no pod was free: it waits at place 3 of the line for pool:gold, "
        "pool:basic, and is given up in 100 seconds.\"}");
    world_release_waiting(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait__answers_202_with_the_place_in_line),
        cmocka_unit_test(wait__is_false_unless_it_is_asked_for),
        cmocka_unit_test(wait__bad_values_are_refused_by_name),
        cmocka_unit_test(poll__answers_when_the_store_says_that_something_changed),
        cmocka_unit_test(poll__a_change_while_the_store_is_asked_is_not_missed),
        cmocka_unit_test(poll__asks_every_five_seconds_and_the_last_time_without_a_holder),
        cmocka_unit_test(poll__a_wait_that_is_over_is_refused),
        cmocka_unit_test(wait__that_is_over_is_refused),
        cmocka_unit_test(poll__ends_with_its_call),
        cmocka_unit_test(wait__a_full_line_is_counted),
        cmocka_unit_test(poll__leaves_the_line_when_its_client_has_gone),
        cmocka_unit_test(poll__a_grant_for_a_client_that_has_gone_is_given_back),
        cmocka_unit_test(poll__an_answer_that_nobody_gets_leaves_the_line),
        cmocka_unit_test(poll__survives_a_store_that_is_away_for_a_moment),
        cmocka_unit_test(poll__is_unavailable_if_the_store_stays_away),
        cmocka_unit_test(poll__is_unavailable_at_once_if_the_call_never_joined),
        cmocka_unit_test(poll__is_answered_at_once_when_too_many_wait),
        cmocka_unit_test(poll__is_answered_when_the_router_stops),
        cmocka_unit_test(poll__does_not_outlive_the_key_that_it_came_with),
        cmocka_unit_test(poll__a_newer_one_for_the_same_call_takes_its_place),
        cmocka_unit_test(release__says_what_became_of_a_call_that_waited_or_is_kept),
        cmocka_unit_test(waiting__lists_the_line),
        cmocka_unit_test(call__shows_a_call_that_waits),
        cmocka_unit_test(status__shows_the_line_only_where_calls_can_wait),
        cmocka_unit_test(story__tells_of_the_wait),
    };
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    log_set_fd(nowhere);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
