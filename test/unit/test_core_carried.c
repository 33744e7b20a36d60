/*
 * test_core_carried.c - a process that carries calls: hold, renewals that name the pod, leave, and the word
 * that a call is over.
 */
#include "../support/core_fixture.h"

enum { TOLD_MAX = 128 };

#define POD0 "voice-agent-0"
#define POD1 "voice-agent-1"

static const char one_pod[] = "{\"standard\":1}";

static void lost__call_is_adopted_where_its_carrier_says(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.adopted.count, 1);
    assert_int_equal(world.result.renew.renewed.count, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world.now_ms + LEASE);
    assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.renewed.count, 1);
    assert_true(hold(&world, "CA1")->hold.was_connected);
    world_release(&world);
}

static void lost__call_without_room_is_a_conflict_and_without_a_pod_unknown(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    assert_int_equal(carry(&world, "CA2", POD0)->renew.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA2", "nobody")->renew.unknown.count, 1);
    assert_int_equal(carry(&world, "CA2", NULL)->renew.unknown.count, 1);
    assert_int_equal(renew(&world, "CA2")->renew.unknown.count, 1);
    assert_int_equal(core_call_count(world.core), 1);
    /* Its slot is still another call's, although that call's lease has run out. */
    world.now_ms += 4 * HOUR;
    assert_int_equal(carry(&world, "CA2", POD0)->renew.conflicts.count, 1);
    sweep(&world);
    assert_int_equal(carry(&world, "CA2", POD0)->renew.adopted.count, 1);
    world_release(&world);
}

static void renew__that_names_another_pod_is_a_conflict_and_keeps_nothing(void **state UNUSED)
{
    struct world world;
    uint64_t expires_at_ms;

    world_init(&world, one_pod);
    add_pods(&world, 2);
    expires_at_ms = allocate(&world, "CA1")->allocate.call.expires_at_ms;
    assert_int_equal(carry(&world, "CA1", POD1)->renew.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA1", "nobody")->renew.conflicts.count, 1);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, expires_at_ms);
    assert_false(hold(&world, "CA1")->hold.was_connected);
    world_release(&world);
}

static void renew__puts_each_call_into_one_list(void **state UNUSED)
{
    const char *const sids[] = {"CA1", "CA2", "CA3", "CA4", "CA5", "CA4"};
    const char *const pods[] = {POD0, POD1, "nobody", "voice-agent-2", POD0, "voice-agent-2"};
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 3);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    renew(&world, "CA2");
    release(&world, "CA2");
    run(&world, &(struct command){.type = COMMAND_RENEW, .renew = {sids, ARRAY_LEN(sids), CARRIER, pods}});
    assert_int_equal(world.result.renew.renewed.count, 2);
    assert_string_equal(world.result.renew.renewed.names[0], "CA1");
    assert_string_equal(world.result.renew.renewed.names[1], "CA4"); /* named twice: adopted, then renewed */
    assert_int_equal(world.result.renew.over.count, 1);
    assert_string_equal(world.result.renew.over.names[0], "CA2");
    assert_int_equal(world.result.renew.unknown.count, 1);
    assert_string_equal(world.result.renew.unknown.names[0], "CA3");
    assert_int_equal(world.result.renew.adopted.count, 1);
    assert_string_equal(world.result.renew.adopted.names[0], "CA4");
    assert_int_equal(world.result.renew.conflicts.count, 1);
    assert_string_equal(world.result.renew.conflicts.names[0], "CA5");
    world_release(&world);
}

static void hold__says_where_the_call_is_and_whether_it_was_connected(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_false(world.result.hold.has_ended);
    allocate(&world, "CA1");
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.hold.call.pod, POD0);
    assert_int_equal(world.result.hold.call.expires_at_ms, world.now_ms + LEASE);
    assert_false(world.result.hold.was_connected);
    assert_false(hold(&world, "CA1")->hold.was_connected); /* to be about to connect is not to be connected */
    carry(&world, "CA1", POD0);
    assert_true(hold(&world, "CA1")->hold.was_connected);
    world_release(&world);
}

static void note_over(void *arg, const char *call_sid)
{
    char *told = arg;
    size_t len = strlen(told);

    snprintf(told + len, TOLD_MAX - len, "%s ", call_sid);
}

static void leave__with_no_lease_releases_nothing(void **state UNUSED)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init(&world, one_pod);
    core_on_over(world.core, note_over, told);
    add_pods(&world, 1);
    assert_int_equal(leave(&world, "CA1", 0)->outcome, OUTCOME_NOT_FOUND);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    assert_int_equal(leave(&world, "CA1", 0)->outcome, OUTCOME_CONFLICT);
    assert_false(world.result.release.is_carried);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world.now_ms + LEASE);
    /* It is not carried any more: of its end nobody is told. */
    release(&world, "CA1");
    assert_string_equal(told, "");
    world_release(&world);
}

static void leave__with_the_lease_ends_the_call_for_good(void **state UNUSED)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init(&world, one_pod);
    core_on_over(world.core, note_over, told);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    assert_int_equal(leave(&world, "CA1", world.now_ms + LEASE)->outcome, OUTCOME_OK);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.over.count, 1);
    assert_string_equal(told, ""); /* the process itself has left it */
    world_release(&world);
}

static void leave__with_an_older_lease_releases_nothing(void **state UNUSED)
{
    struct world world;
    uint64_t held_until_ms;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    held_until_ms = hold(&world, "CA1")->hold.call.expires_at_ms;
    world.now_ms += 1000;
    renew(&world, "CA1"); /* somebody else keeps it */
    assert_int_equal(leave(&world, "CA1", held_until_ms)->outcome, OUTCOME_CONFLICT);
    assert_true(call_exists(&world, "CA1"));
    assert_int_equal(leave(&world, "CA1", held_until_ms + 1000)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void on_over__is_told_for_carried_calls_that_are_ended_on_purpose(void **state UNUSED)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":9,\"target\":1}}");
    core_on_over(world.core, note_over, told);
    add_pods(&world, 1);
    allocate(&world, "CA1"); /* held */
    hold(&world, "CA1");
    allocate(&world, "CA2"); /* carried */
    carry(&world, "CA2", POD0);
    carry(&world, "CA3", POD0); /* adopted */
    allocate(&world, "CA4");    /* kept alive by others alone */
    renew(&world, "CA4");
    heartbeat(&world, POD0, "CA4");
    allocate(&world, "CA5"); /* renewed by its carrier after it was left */
    hold(&world, "CA5");
    leave(&world, "CA5", 0);
    carry(&world, "CA5", POD0);
    release(&world, "CA1");
    release(&world, "CA2");
    release(&world, "CA3");
    release(&world, "CA4");
    release(&world, "CA5");
    assert_string_equal(told, "CA1 CA2 CA3 CA5 ");
    world_release(&world);
}

static void on_over__is_not_told_of_calls_that_are_lost(void **state UNUSED)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init(&world, one_pod);
    core_on_over(world.core, note_over, told);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    world.now_ms += LEASE;
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    carry(&world, "CA1", POD0);
    lose_calls_of(&world, POD0);
    assert_string_equal(told, "");
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost__call_is_adopted_where_its_carrier_says),
        cmocka_unit_test(lost__call_without_room_is_a_conflict_and_without_a_pod_unknown),
        cmocka_unit_test(renew__that_names_another_pod_is_a_conflict_and_keeps_nothing),
        cmocka_unit_test(renew__puts_each_call_into_one_list),
        cmocka_unit_test(hold__says_where_the_call_is_and_whether_it_was_connected),
        cmocka_unit_test(leave__with_no_lease_releases_nothing),
        cmocka_unit_test(leave__with_the_lease_ends_the_call_for_good),
        cmocka_unit_test(leave__with_an_older_lease_releases_nothing),
        cmocka_unit_test(on_over__is_told_for_carried_calls_that_are_ended_on_purpose),
        cmocka_unit_test(on_over__is_not_told_of_calls_that_are_lost),
    };

    return cmocka_run_group_tests_name("core_carried", tests, NULL, NULL);
}
