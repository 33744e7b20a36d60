/*
 * test_core_edges.c - where calls begin and end, in core alone: recorded ends and undone requests
 * after a reload and beyond a limit, reports to a carrier, records.
 *
 * test/conformance/cases_edges.c has the cases that are the same for core and for every store.
 */
#include "../support/world.h"
#include "core/tombstones.h"

static void tombstone__outlives_the_process_with_its_age(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, ONE_TIER, 2);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    renew(&world, "CA1");
    renew(&world, "CA2");
    release(&world, "CA1");
    world.now_ms += 5 * MINUTE;
    world_reload(&world);
    world_reload(&world);   /* the dump of one that was loaded says the same */
    release(&world, "CA2"); /* that it was renewed is not forgotten either */
    hold(&world, "CA2");
    assert_true(world.result.hold.has_ended);
    world.now_ms += 5 * MINUTE - 1;
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.finished.count, 1);
    world.now_ms += 1;
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    assert_int_equal(heartbeat(&world, POD1, "CA2")->heartbeat.finished.count, 1);
    world_release(&world);
}

static void tombstone__oldest_are_forgotten_beyond_the_limit(void **state UNUSED)
{
    struct world world;
    char sid[32];

    world_init_pods(&world, &world_core, ONE_TIER, 1);
    for (int i = 0; i < TOMBSTONES_MAX; i++) {
        struct record record = {.type = RECORD_TOMBSTONE, .tombstone = {sid, FINISH_CLOSED, world.now_ms}};

        snprintf(sid, sizeof(sid), "CB%d", i);
        assert_int_equal(core_apply(world.core, &record), 0);
    }
    assert_int_equal(renew(&world, "CB0")->renew.finished.count, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(renew(&world, "CA1")->renew.finished.count, 1);
    assert_int_equal(renew(&world, "CB0")->renew.unknown.count, 1);
    assert_int_equal(renew(&world, "CB1")->renew.finished.count, 1);
    snprintf(sid, sizeof(sid), "CB%d", TOMBSTONES_MAX - 1);
    assert_int_equal(renew(&world, sid)->renew.finished.count, 1);
    world_release(&world);
}

static void undo__never_ends_a_call_that_a_nameless_request_asked_for(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, ONE_TIER, 1);
    ask(&world, "CA1", 1);
    ask(&world, "CA1", 0);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void undo__never_ends_a_call_after_a_restart(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, ONE_TIER, 1);
    ask(&world, "CA1", 1);
    world_reload(&world);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    /* Whoever asked for it before is not known any more. */
    ask(&world, "CA1", 2);
    assert_int_equal(undo(&world, "CA1", 2)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void on_finished__is_not_told_of_calls_that_are_lost(void **state UNUSED)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init(&world, &world_core, ONE_TIER);
    core_on_finished(world.core, note_told, told);
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

static void applied(void *arg, const struct record *record)
{
    assert_int_equal(core_apply(arg, record), 0);
}

static void note_record(void *arg, const struct record *record)
{
    char *text = arg;
    size_t len = strlen(text);

    if (record->type == RECORD_CALL)
        snprintf(text + len, 4096 - len, "C %s %s %llu\n", record->call.call_sid, record->call.pod,
                 (unsigned long long)record->call.expires_at_ms);
    else if (record->type == RECORD_RENEWED_BY)
        snprintf(text + len, 4096 - len, "R %s %llu %llu %llu\n", record->renewed.call_sid,
                 (unsigned long long)record->renewed.expires_at_ms, (unsigned long long)record->renewed.at_ms,
                 (unsigned long long)record->renewed.by);
    else if (record->type == RECORD_TOMBSTONE)
        snprintf(text + len, 4096 - len, "O %s %llu %llu\n", record->tombstone.call_sid,
                 (unsigned long long)record->tombstone.why, (unsigned long long)record->tombstone.at_ms);
    else if (record->type == RECORD_POD)
        snprintf(text + len, 4096 - len, "P %s\n", record->pod.name);
}

static void records__of_all_this_lead_to_the_same_state(void **state UNUSED)
{
    char state_text[4096] = "";
    char replica_text[4096] = "";
    struct core *replica;
    struct world world;
    char error[256];

    world_init(&world, &world_core, NULL);
    replica = world_new_core();
    core_on_record(world.core, applied, replica);
    tiers_set(&world, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":9,\"target\":1}}");
    add_pods(&world, 1);
    ask(&world, "CA1", 1); /* revived, never renewed */
    ask(&world, "CA2", 2); /* renewed, revived */
    ask(&world, "CA3", 3); /* undone */
    ask(&world, "CA4", 4); /* released, for good */
    ask(&world, "CA5", 5); /* the same, and begun anew */
    renew(&world, "CA2");
    undo(&world, "CA3", 3);
    hold(&world, "CA4");
    renew(&world, "CA5");
    world.now_ms += 5 * HOUR;
    ask(&world, "CA1", 6);
    ask(&world, "CA2", 7);
    release_as(&world, "CA4", NULL, FINISH_CLOSED);
    release(&world, "CA5");
    ask(&world, "CA5", 8);
    renew(&world, "CA5");
    carry(&world, "CA6", POD0);
    heartbeat(&world, POD0, "CA7");
    leave(&world, "CA6", world.now_ms + LEASE);
    core_dump(world.core, note_record, state_text);
    core_dump(replica, note_record, replica_text);
    assert_string_equal(state_text, replica_text);
    assert_non_null(strstr(state_text, "R CA2 "));
    assert_null(strstr(state_text, "R CA1 "));
    assert_non_null(strstr(state_text, "O CA4 "));
    assert_non_null(strstr(state_text, "O CA6 "));
    assert_null(strstr(state_text, "O CA5 "));
    assert_true(core_check(replica, error, sizeof(error)));
    core_free(replica);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tombstone__outlives_the_process_with_its_age),
        cmocka_unit_test(tombstone__oldest_are_forgotten_beyond_the_limit),
        cmocka_unit_test(undo__never_ends_a_call_that_a_nameless_request_asked_for),
        cmocka_unit_test(undo__never_ends_a_call_after_a_restart),
        cmocka_unit_test(on_finished__is_not_told_of_calls_that_are_lost),
        cmocka_unit_test(records__of_all_this_lead_to_the_same_state),
    };

    return cmocka_run_group_tests_name("core_edges", tests, NULL, NULL);
}
