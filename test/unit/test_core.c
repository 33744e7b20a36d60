/*
 * test_core.c - what concerns core alone: its clock, its records, its limits.
 *
 * test/conformance has the cases that are the same for core and for every store.
 */
#include "../support/world.h"

static void silence__is_forgiven_when_nobody_could_be_heard(void **state UNUSED)
{
    struct world world;
    struct command command = {
        .type = COMMAND_POD_SEEN,
        .pod_seen = {.pod = {.name = "box-1", .address = "", .source = POD_SOURCE_API, .is_ready = true},
                     .is_registration = true},
    };

    world_init(&world, &world_core, "{\"standard\":1}");
    run(&world, &command);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world.now_ms += HOUR;
    core_after_outage(world.core, world.now_ms);
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    assert_int_equal(heartbeat(&world, "box-1", "CA1")->heartbeat.renewed.count, 1);
    world.now_ms += HOUR;
    core_after_outage(world.core, world.now_ms);
    world.now_ms += 90000 - 1;
    assert_int_equal(sweep(&world)->sweep.gone.count, 0);
    assert_int_equal(renew(&world, "CA1")->renew.renewed.count, 1);
    world.now_ms += 1;
    assert_int_equal(sweep(&world)->sweep.gone.count, 1);
    world_release(&world);
}

static void pods__page_ends_early_when_it_names_many_calls(void **state UNUSED)
{
    enum { PER_POD = 1000, PODS = PAGE_CALLS_MAX / PER_POD + 2 };
    struct command command = {.type = COMMAND_PODS, .pods = {.state = -1}};
    struct command call = {.type = COMMAND_ALLOCATE, .allocate = {.merchant_id = "", .provider = ""}};
    struct world world;
    char sid[16];

    world_init_pods(&world, &world_core,
                    "{\"only\":{\"type\":\"shared\",\"target\":100,\"max_concurrent\":1000}}", PODS);
    call.allocate.call_sid = sid;
    for (int i = 0; i < PODS * PER_POD; i++) {
        /* Without a look at every invariant: there are too many. */
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(core_execute(world.core, &call, world.now_ms, &world.arena, &world.result), 0);
        assert_int_equal(world.result.outcome, OUTCOME_OK);
        arena_reset(&world.arena);
    }
    assert_int_equal(run(&world, &command)->pods.count, PODS - 2);
    assert_int_equal(world.result.pods.pods[0].calls.count, PER_POD);
    assert_int_equal(world.result.pods.total, PODS);
    command.pods.cursor = world.result.pods.next_cursor;
    assert_int_equal(run(&world, &command)->pods.count, 2);
    assert_string_equal(world.result.pods.next_cursor, "");
    world_release(&world);
}

static void calls__cursor_beyond_all_calls_is_an_empty_page(void **state UNUSED)
{
    struct command command = {.type = COMMAND_CALLS, .calls = {.cursor = "99999999999999999999999"}};
    struct world world;

    world_init_pods(&world, &world_core, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(run(&world, &command)->calls.count, 0);
    assert_string_equal(world.result.calls.next_cursor, "");
    world_release(&world);
}

static void every_command_has_a_name(void **state UNUSED)
{
    for (int i = 0; i < COMMAND_TYPES; i++)
        assert_non_null(command_name((enum command_type)i));
    assert_string_equal(command_name(COMMAND_POD_SEEN), "pod_seen");
    assert_string_equal(command_name(COMMAND_TIERS), "tiers");
}

/* An older version may have stored what a PUT would be refused for today. */
static void apply__takes_stored_tiers_as_they_are(void **state UNUSED)
{
    const char *text = "{\"tiers\":{\"gold\":{\"target\":1,\"colour\":\"red\"},\"9shines\":1},"
                       "\"default_chain\":[\"gold\"],\"version\":2}";
    struct world world;

    world_init(&world, &world_core, NULL);
    assert_int_equal(tiers_set(&world, text)->outcome, OUTCOME_INVALID);
    assert_int_equal(core_apply(world.core, &(struct record){.type = RECORD_TIERS, .tiers = {.text = text}}),
                     0);
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, text);
    assert_int_equal(tier(&world, "merchant:9shines")->target, 1);
    world_release(&world);
}

/* An older version did not note who renewed a call, nor when. */
static void apply__takes_a_renewal_without_its_author(void **state UNUSED)
{
    const struct record record = {.type = RECORD_RENEWED, .renewed = {.call_sid = "CA1", .expires_at_ms = 1}};
    struct world world;

    world_init_pods(&world, &world_core, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(core_apply(world.core, &record), 0);
    world_reload(&world);
    assert_true(call_of(&world, "CA1")->activity.was_renewed);
    assert_int_equal(call_of(&world, "CA1")->activity.renewed_by, RENEWED_BY_NOBODY);
    assert_true(call_of(&world, "CA1")->activity.renewed_at_ms == 0);
    heartbeat(&world, POD0, "CA1");
    world_reload(&world);
    assert_int_equal(call_of(&world, "CA1")->activity.renewed_by, RENEWED_BY_POD);
    assert_true(call_of(&world, "CA1")->activity.renewed_at_ms == world_now(&world));
    world_release(&world);
}

static void apply__refuses_what_no_log_of_ours_says(void **state UNUSED)
{
    struct world world;
    const struct record bad[] = {
        {.type = RECORD_TIERS, .tiers = {.text = "{"}},
        {.type = RECORD_MERCHANT, .merchant = {.id = "a b", .text = "{}"}},
        {.type = RECORD_MERCHANT_GONE, .merchant = {.id = "nobody"}},
        {.type = RECORD_POD, .pod = {.name = "A", .address = "", .incarnation = "1", .tier = "gold"}},
        {.type = RECORD_POD, .pod = {.name = "a", .address = "", .incarnation = "1", .tier = "go ld"}},
        {.type = RECORD_POD_GONE, .pod = {.name = "nobody"}},
        {.type = RECORD_CALL,
         .call =
             {.call_sid = "CA2", .pod = "nobody", .pool = "pool:gold", .merchant_id = "", .provider = ""}},
        {.type = RECORD_CALL,
         .call = {.call_sid = "CA1",
                  .pod = "voice-agent-0",
                  .pool = "pool:gold",
                  .merchant_id = "",
                  .provider = ""}},
        {.type = RECORD_CALL,
         .call =
             {.call_sid = "CA2", .pod = "voice-agent-0", .pool = "pool:", .merchant_id = "", .provider = ""}},
        {.type = RECORD_CALL_GONE, .call = {.call_sid = "CA2"}},
        {.type = RECORD_POD_GONE, .pod = {.name = "voice-agent-0"}},
        {.type = RECORD_RENEWED, .renewed = {.call_sid = "CA2"}},
        {.type = RECORD_RENEWED_BY, .renewed = {.call_sid = "CA1", .by = RENEWERS}},
        {.type = RECORD_PLACED, .placed = {.call_sid = "CA2", .at_ms = 1}},
        {.type = RECORD_TOMBSTONE, .tombstone = {.call_sid = "CA1", .why = FINISH_CLOSED, .at_ms = 1}},
        {.type = RECORD_TOMBSTONE, .tombstone = {.call_sid = "CA2", .why = FINISH_REASONS, .at_ms = 1}},
        {.type = RECORD_TOMBSTONE, .tombstone = {.call_sid = "a b", .why = FINISH_CLOSED, .at_ms = 1}},
        {.type = RECORD_VERSION, .version = {.merchant_id = "", .by = "", .text = "{}", .number = 0}},
        {.type = RECORD_VERSION, .version = {.merchant_id = "", .by = "", .text = "", .number = 9}},
        {.type = RECORD_VERSION, .version = {.merchant_id = "a b", .by = "", .text = "{}", .number = 9}},
        {.type = (enum record_type)99},
    };
    char error[256];

    world_init_pods(&world, &world_core, NULL, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(core_apply(world.core, &bad[i]), -EBADMSG);
        assert_true(core_check(world.core, error, sizeof(error)));
    }
    assert_int_equal(core_call_count(world.core), 1);
    world_release(&world);
}

static void time__never_goes_back(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, "{\"standard\":1}", 2);
    allocate(&world, "CA1");
    world.now_ms += HOUR;
    allocate(&world, "CA2");
    world.now_ms -= 2 * HOUR;
    assert_int_equal(renew(&world, "CA1")->renew.expires_at_ms, world.now_ms + 2 * HOUR + 15 * MINUTE);
    world_release(&world);
}

static struct result *merchant_remove(struct world *world, const char *id)
{
    return run(world,
               &(struct command){.type = COMMAND_MERCHANT_REMOVE, .merchant_remove = {.merchant_id = id}});
}

static size_t version_count(struct world *world, const char *merchant_id)
{
    const struct result *result =
        run(world, &(struct command){.type = COMMAND_HISTORY, .history = {.merchant_id = merchant_id}});

    return result->outcome == OUTCOME_OK ? result->history.count : 0;
}

/* A snapshot has the versions, and the order in which merchants were removed. */
static void history__is_part_of_a_snapshot(void **state UNUSED)
{
    struct world world;
    char id[16];

    world_init(&world, &world_core, "{\"gold\":1}");
    tiers_set(&world, "{\"gold\":2}");
    merchant_set(&world, "kept", "{}");
    merchant_set(&world, "kept", "{\"tier\":\"gold\"}");
    for (int i = 0; i < HISTORY_REMOVED_MAX; i++) {
        snprintf(id, sizeof(id), "m%d", i);
        merchant_set(&world, id, "{}");
        merchant_remove(&world, id);
    }
    world_reload(&world);
    assert_int_equal(version_count(&world, NULL), 3);
    assert_int_equal(version_count(&world, "kept"), 2);
    assert_int_equal(version_count(&world, "m0"), 2);
    merchant_remove(&world, "kept"); /* one more than are kept */
    assert_int_equal(version_count(&world, "m0"), 0);
    assert_int_equal(version_count(&world, "m1"), 2);
    assert_int_equal(version_count(&world, "kept"), 3);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence__is_forgiven_when_nobody_could_be_heard),
        cmocka_unit_test(pods__page_ends_early_when_it_names_many_calls),
        cmocka_unit_test(calls__cursor_beyond_all_calls_is_an_empty_page),
        cmocka_unit_test(every_command_has_a_name),
        cmocka_unit_test(apply__takes_stored_tiers_as_they_are),
        cmocka_unit_test(apply__takes_a_renewal_without_its_author),
        cmocka_unit_test(apply__refuses_what_no_log_of_ours_says),
        cmocka_unit_test(time__never_goes_back),
        cmocka_unit_test(history__is_part_of_a_snapshot),
    };

    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
