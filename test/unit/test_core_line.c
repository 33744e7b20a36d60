/*
 * test_core_line.c - the line in core alone: what a restart keeps of it, what it does after an outage, its
 * records, and the merchants' numbers.
 *
 * test/conformance/cases_line.c and cases_rescue.c have the cases that are the same for core and for every
 * store.
 */
#include "../support/world.h"
#include "core/merchant.h"

/* One pod, which CA1 has, and three calls in line. */
static void init_line(struct world *world)
{
    world_init_waiting(world, &world_core, ONE_TIER, 1);
    merchant_set(world, "vip", "{\"priority\":9}");
    allocate(world, "CA1");
    wait_held(world, "CB1");
    world->now_ms += 1000;
    wait_for(world, "CB2", "");
    wait_for(world, "CB3", "vip");
}

static void reload__keeps_the_line_in_its_order(void **state UNUSED)
{
    struct world world;
    struct waiting_call before;

    init_line(&world);
    before = *waiting_of(&world, "CB3");
    world.now_ms += 10 * MINUTE; /* as long as the process was away, nobody could be heard */
    world_reload(&world);
    world_reload(&world); /* the dump of one that was loaded says the same */
    assert_int_equal(waiting_count(&world), 3);
    assert_int_equal(waiting_of(&world, "CB3")->position, 1);
    assert_int_equal(world.result.call.waiting.since_ms, before.since_ms);
    assert_int_equal(world.result.call.waiting.until_ms, before.until_ms);
    assert_int_equal(world.result.call.waiting.priority, 9);
    assert_string_equal(world.result.call.waiting.merchant_id, "vip");
    assert_string_equal(world.result.call.waiting.pools[0], "pool:standard");
    assert_int_equal(waiting_of(&world, "CB1")->position, 2);
    assert_string_equal(world.result.call.waiting.holder, ""); /* it has gone with the process */
    assert_int_equal(waiting_of(&world, "CB2")->position, 3);
    assert_int_equal(world.result.call.waiting.heard_at_ms, world.now_ms);
    world_release(&world);
}

static void reload__another_ageing_does_not_change_places(void **state UNUSED)
{
    struct world world;

    init_line(&world);
    world.settings.hold_ageing_ms = 0;
    world_reload(&world);
    assert_int_equal(waiting_of(&world, "CB3")->position, 1);
    world_release(&world);
}

static void reload__nobody_is_ended_for_the_silence_but_for_the_time(void **state UNUSED)
{
    struct world world;

    init_line(&world);
    world.now_ms += MINUTE;
    world_reload(&world);
    assert_int_equal(serve(&world)->serve.ended_count, 0);
    world.now_ms += WAIT_SILENT_MS;
    assert_int_equal(serve(&world)->serve.ended_count, 3);
    assert_int_equal(world.result.serve.ended[0].how, WAIT_ABANDONED);
    world_release(&world);
    init_line(&world);
    world.now_ms += WAIT_MAX;
    world_reload(&world);
    assert_int_equal(serve(&world)->serve.ended_count, 3);
    assert_int_equal(world.result.serve.ended[0].how, WAIT_TIMED_OUT);
    world_release(&world);
}

static void reload__a_grant_has_its_time_again(void **state UNUSED)
{
    struct world world;

    init_line(&world);
    release(&world, "CA1"); /* CB3 is granted */
    world.now_ms += HOUR;
    world_reload(&world);
    assert_true(call_of(&world, "CB3")->activity.is_granted);
    assert_int_equal(world.result.call.call.expires_at_ms, world.now_ms + WAIT_TAKE_MS);
    world.now_ms += 1000;
    assert_true(hold(&world, "CB3")->hold.was_taken);
    assert_int_equal(world.result.hold.waited_ms, HOUR + 1000);
    world_reload(&world);
    assert_false(call_of(&world, "CB3")->activity.is_granted); /* that it was taken is not forgotten either */
    world_release(&world);
}

static void reload__a_granted_call_keeps_its_place_in_case_its_pod_goes(void **state UNUSED)
{
    struct waiting_call before;
    struct world world;

    init_line(&world);
    before = *waiting_of(&world, "CB3");
    release(&world, "CA1"); /* CB3 is granted */
    world_reload(&world);
    world_reload(&world);
    assert_int_equal(remove_pod(&world, POD0)->pod_gone.ended.count, 0);
    assert_int_equal(waiting_count(&world), 3);
    assert_int_equal(waiting_of(&world, "CB3")->position, 1);
    assert_int_equal(world.result.call.waiting.since_ms, before.since_ms);
    assert_int_equal(world.result.call.waiting.until_ms, before.until_ms);
    assert_int_equal(world.result.call.waiting.priority, 9);
    world_reload(&world);
    assert_int_equal(waiting_of(&world, "CB3")->position, 1);
    world_release(&world);
}

static void reload__a_slot_that_is_free_then_goes_to_the_first_in_line(void **state UNUSED)
{
    struct world world;

    init_line(&world);
    drain(&world, POD0, 30000);
    release(&world, "CA1");
    assert_int_equal(waiting_count(&world), 3);
    world.now_ms += 40000; /* the drain ends while the process is away */
    world_reload(&world);
    assert_int_equal(waiting_count(&world), 3); /* a look changes nothing */
    allocate(&world, "CA9");                    /* it does not overtake */
    assert_int_equal(world.result.outcome, OUTCOME_NO_PODS);
    assert_true(call_of(&world, "CB3")->activity.is_granted);
    world_release(&world);
}

static void reload__calls_of_streams_have_a_minute_to_come_back(void **state UNUSED)
{
    struct world world;

    world_init_waiting(&world, &world_core, "{\"standard\":3}", 3);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    allocate(&world, "CA2");
    hold(&world, "CA2");
    heartbeat(&world, call_of(&world, "CA2")->pod, "CA2"); /* the last word was the pod's */
    allocate(&world, "CA3");
    world_reload(&world);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world.now_ms + RESUME_MS);
    assert_int_equal(call_of(&world, "CA2")->expires_at_ms, world.now_ms + LEASE);
    assert_int_equal(call_of(&world, "CA3")->expires_at_ms, world.now_ms + 4 * HOUR);
    world.settings.rescues = false;
    world_reload(&world);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world.now_ms + LEASE);
    world_release(&world);
}

static void outage__who_waits_is_heard_again(void **state UNUSED)
{
    struct world world;

    init_line(&world);
    world.now_ms += WAIT_SILENT_MS;
    core_after_outage(world.core, world.now_ms);
    assert_int_equal(serve(&world)->serve.ended_count, 0);
    world_release(&world);
}

static void records__that_contradict_the_line_are_refused(void **state UNUSED)
{
    const struct record waits = {.type = RECORD_WAITING,
                                 .waiting = {.call_sid = "CB9",
                                             .merchant_id = "",
                                             .provider = "",
                                             .pools = "pool:standard",
                                             .since_ms = 5,
                                             .until_ms = 10}};
    struct record bad[8];
    struct world world;

    init_line(&world);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = waits;
    bad[0].waiting.call_sid = "CA1"; /* has a pod */
    bad[1].waiting.call_sid = "a b";
    bad[2].waiting.pools = "pool:standard pool:standard";
    bad[3].waiting.pools = "pool:a/b";
    bad[4].waiting.priority = 10;
    bad[5].waiting.flags = 4;
    bad[6] = (struct record){.type = RECORD_WAITING_GONE, .waiting = {.call_sid = "CB9"}};
    bad[7] = (struct record){.type = RECORD_GRANTED, .granted = {.call_sid = "CB1"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(core_apply(world.core, &bad[i]), -EBADMSG);
    assert_int_equal(core_apply(world.core, &waits), 0);
    assert_int_equal(waiting_of(&world, "CB9")->position, 1);
    world_release(&world);
}

static const char *choose(void *arg, const char *call_sid)
{
    assert_string_equal(call_sid, "CB1");
    return arg;
}

static void choice__of_a_replay_counts_among_equals(void **state UNUSED)
{
    static char names[][sizeof(POD0)] = {POD0, POD1, "nobody"};

    for (int i = 0; i < 3; i++) {
        struct world world;
        const char *got;

        world_init_waiting(&world, &world_core, "{\"standard\":2}", 2);
        drain(&world, POD0, 10000);
        drain(&world, POD1, 10000);
        wait_for(&world, "CB1", "");
        core_on_choice(world.core, choose, names[i]);
        world.now_ms += 10000;
        sweep(&world); /* both drains have ended */
        got = call_of(&world, "CB1")->pod;
        assert_true(i == 2 || strcmp(got, names[i]) == 0);
        world_release(&world);
    }
}

static void merchant__numbers_that_no_put_accepts_are_not_given(void **state UNUSED)
{
    static const struct {
        const char *text;
        uint32_t priority, hold_seconds, max_waiting;
    } rows[] = {
        {"{}", MERCHANT_NOT_GIVEN, MERCHANT_NOT_GIVEN, MERCHANT_NOT_GIVEN},
        {"{\"priority\":0,\"hold_seconds\":0,\"max_waiting\":0}", 0, 0, 0},
        {"{\"priority\":9,\"hold_seconds\":3600,\"max_waiting\":100000}", 9, 3600, 100000},
        {"{\"priority\":10,\"hold_seconds\":3601,\"max_waiting\":100001}", MERCHANT_NOT_GIVEN,
         MERCHANT_NOT_GIVEN, MERCHANT_NOT_GIVEN},
        {"{\"priority\":-1,\"hold_seconds\":1.5,\"max_waiting\":\"3\"}", MERCHANT_NOT_GIVEN,
         MERCHANT_NOT_GIVEN, MERCHANT_NOT_GIVEN},
        {"{\"priority\":null,\"hold_seconds\":7,\"hold_seconds\":8,\"max_waiting\":1e3}", MERCHANT_NOT_GIVEN,
         MERCHANT_NOT_GIVEN, 1000},
    };
    struct merchant_config config;
    struct arena arena;
    char error[128];

    arena_init(&arena, 65536);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(
            merchant_config_parse(&arena, rows[i].text, strlen(rows[i].text), &config, error, sizeof(error)),
            0);
        assert_int_equal(config.priority, rows[i].priority);
        assert_int_equal(config.hold_seconds, rows[i].hold_seconds);
        assert_int_equal(config.max_waiting, rows[i].max_waiting);
    }
    arena_release(&arena);
}

static void validate__names_and_times_of_the_line(void **state UNUSED)
{
    struct keep_call call = {.call = {.call_sid = "CA1", .merchant_id = "", .provider = ""}};
    struct command keep = {.type = COMMAND_KEEP, .keep = {&call, 1, "router-0"}};
    struct command asks = {.type = COMMAND_ALLOCATE,
                           .allocate = {"CA1", "", "", .waits = true, .holder = ""}};
    struct world world;

    world_init_waiting(&world, &world_core, ONE_TIER, 0);
    assert_int_equal(run(&world, &asks)->outcome, OUTCOME_INVALID);
    assert_int_equal(run(&world, &keep)->outcome, OUTCOME_OK);
    keep.keep.holder = "a,b";
    assert_int_equal(run(&world, &keep)->outcome, OUTCOME_INVALID);
    keep.keep.holder = "router-0";
    call.call.since_ms = UINT64_MAX;
    assert_int_equal(run(&world, &keep)->outcome, OUTCOME_INVALID);
    call.call.since_ms = 1;
    call.call.claim = UINT64_MAX;
    assert_int_equal(run(&world, &keep)->outcome, OUTCOME_INVALID);
    call.call.claim = 1;
    call.call.merchant_id = "a b";
    assert_int_equal(run(&world, &keep)->outcome, OUTCOME_INVALID);
    assert_int_equal(waiting_count(&world), 0);
    world_release(&world);
}

static void off__nothing_waits_and_nothing_is_rescued(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, "{\"standard\":2}", 2);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    carry_movable(&world, "CA1", call_of(&world, "CA1")->pod);
    assert_int_equal(remove_pod(&world, call_of(&world, "CA1")->pod)->pod_gone.ended.count, 1);
    allocate(&world, "CA2");
    hold(&world, "CA2");
    assert_int_equal(wait_for(&world, "CA3", "")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(move(&world, "CA2", call_of(&world, "CA2")->pod, 1000)->outcome, OUTCOME_NO_PODS);
    resume(&world, "CA2", NULL);
    assert_false(release(&world, "CA2")->release.is_kept);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reload__keeps_the_line_in_its_order),
        cmocka_unit_test(reload__another_ageing_does_not_change_places),
        cmocka_unit_test(reload__nobody_is_ended_for_the_silence_but_for_the_time),
        cmocka_unit_test(reload__a_grant_has_its_time_again),
        cmocka_unit_test(reload__a_granted_call_keeps_its_place_in_case_its_pod_goes),
        cmocka_unit_test(reload__a_slot_that_is_free_then_goes_to_the_first_in_line),
        cmocka_unit_test(reload__calls_of_streams_have_a_minute_to_come_back),
        cmocka_unit_test(outage__who_waits_is_heard_again),
        cmocka_unit_test(records__that_contradict_the_line_are_refused),
        cmocka_unit_test(choice__of_a_replay_counts_among_equals),
        cmocka_unit_test(merchant__numbers_that_no_put_accepts_are_not_given),
        cmocka_unit_test(validate__names_and_times_of_the_line),
        cmocka_unit_test(off__nothing_waits_and_nothing_is_rescued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
