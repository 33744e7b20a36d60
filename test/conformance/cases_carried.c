/*
 * cases_carried.c - what every store answers to a process that carries calls: hold, renewals that name the
 * pod, leave, and the word that a call is over.
 */
#include "../support/world.h"

static void lost__call_is_adopted_where_its_carrier_says(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.adopted.count, 1);
    assert_string_equal(world.result.renew.adopted.names[0], "CA1");
    assert_int_equal(world.result.renew.renewed.count, 0);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_string_equal(call_of(&world, "CA1")->pool, "pool:standard");
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world_now(&world) + LEASE);
    assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.renewed.count, 1);
    assert_true(hold(&world, "CA1")->hold.was_connected);
    world_advance(&world, LEASE);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    world_release(&world);
}

static void lost__call_without_room_is_a_conflict_and_without_a_pod_unknown(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(carry(&world, "CA2", POD0)->renew.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA2", "nobody")->renew.unknown.count, 1);
    assert_int_equal(carry(&world, "CA2", NULL)->renew.unknown.count, 1);
    assert_int_equal(renew(&world, "CA2")->renew.unknown.count, 1);
    assert_int_equal(call_count(&world), 1);
    /* Its slot is still another call's, although that call's lease has run out. */
    world_advance(&world, 4 * HOUR);
    assert_int_equal(carry(&world, "CA2", POD0)->renew.conflicts.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA2")->heartbeat.conflicts.count, 1);
    sweep(&world);
    assert_int_equal(carry(&world, "CA2", POD0)->renew.adopted.count, 1);
    world_release(&world);
}

static void lost__calls_fill_a_shared_pod_and_no_more(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":2,\"target\":1}}", 1);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.adopted.count, 1);
    assert_int_equal(carry(&world, "CA2", POD0)->renew.adopted.count, 1);
    assert_int_equal(carry(&world, "CA3", POD0)->renew.conflicts.count, 1);
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    release(&world, "CA1");
    assert_int_equal(carry(&world, "CA1", POD0)->renew.finished.count, 1);
    assert_int_equal(carry(&world, "CA3", POD0)->renew.adopted.count, 1);
    assert_int_equal(tier(&world, "s")->calls, 2);
    world_release(&world);
}

static void renew__that_names_another_pod_is_a_conflict_and_keeps_nothing(void **state)
{
    struct world world;
    uint64_t expires_at_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    expires_at_ms = allocate(&world, "CA1")->allocate.call.expires_at_ms;
    see(&world, seen_of(POD1));
    assert_int_equal(carry(&world, "CA1", POD1)->renew.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA1", "nobody")->renew.conflicts.count, 1);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, expires_at_ms);
    assert_false(hold(&world, "CA1")->hold.was_connected);
    world_release(&world);
}

static void renew__puts_each_call_into_one_list(void **state)
{
    const char *const sids[] = {"CA1", "CA2", "CA3", "CA4", "CA5", "CA4"};
    const char *const pods[] = {POD0, POD0, "nobody", POD1, POD0, POD1};
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA2");
    renew(&world, "CA2");
    release(&world, "CA2");
    allocate(&world, "CA1");
    see(&world, seen_of(POD1));
    run(&world, &(struct command){.type = COMMAND_RENEW, .renew = {sids, ARRAY_LEN(sids), CARRIER, pods}});
    assert_int_equal(world.result.renew.renewed.count, 2);
    assert_string_equal(world.result.renew.renewed.names[0], "CA1");
    assert_string_equal(world.result.renew.renewed.names[1], "CA4"); /* named twice: adopted, then renewed */
    assert_int_equal(world.result.renew.finished.count, 1);
    assert_string_equal(world.result.renew.finished.names[0], "CA2");
    assert_int_equal(world.result.renew.unknown.count, 1);
    assert_string_equal(world.result.renew.unknown.names[0], "CA3");
    assert_int_equal(world.result.renew.adopted.count, 1);
    assert_string_equal(world.result.renew.adopted.names[0], "CA4");
    assert_int_equal(world.result.renew.conflicts.count, 1);
    assert_string_equal(world.result.renew.conflicts.names[0], "CA5");
    world_release(&world);
}

static void hold__says_where_the_call_is_and_whether_it_was_connected(void **state)
{
    struct world world;
    uint64_t expires_at_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_false(world.result.hold.has_ended);
    expires_at_ms = allocate(&world, "CA1")->allocate.call.expires_at_ms;
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.hold.call.pod, POD0);
    assert_string_equal(world.result.hold.call.address, "10.0.0.1:8000");
    assert_true(world.result.hold.call.expires_at_ms < expires_at_ms);
    assert_int_equal(world.result.hold.call.expires_at_ms, world_now(&world) + LEASE);
    assert_false(world.result.hold.was_connected);
    assert_false(hold(&world, "CA1")->hold.was_connected); /* to be about to connect is not to be connected */
    carry(&world, "CA1", POD0);
    assert_true(hold(&world, "CA1")->hold.was_connected);
    world_release(&world);
}

/* Nothing was reported so far: the end of the next call is the first report. */
static void assert_only_next_is_told(struct world *world, const char *told)
{
    allocate(world, "CA2");
    hold(world, "CA2");
    release(world, "CA2");
    wait_until_told(world, told, "CA2 ");
}

static void leave__with_no_lease_releases_nothing(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;
    uint64_t expires_at_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    world_on_finished(&world, note_told, told);
    see(&world, seen_of(POD1));
    assert_int_equal(leave(&world, "CA1", 0)->outcome, OUTCOME_NOT_FOUND);
    allocate(&world, "CA1");
    expires_at_ms = hold(&world, "CA1")->hold.call.expires_at_ms;
    assert_int_equal(expires_at_ms, world_now(&world) + LEASE);
    assert_int_equal(leave(&world, "CA1", 0)->outcome, OUTCOME_CONFLICT);
    assert_false(world.result.release.is_carried);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, expires_at_ms);
    /* It is not carried any more, so its end is not reported. */
    release(&world, "CA1");
    assert_only_next_is_told(&world, told);
    world_release(&world);
}

static void leave__with_the_lease_ends_the_call_for_good(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;
    uint64_t expires_at_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    world_on_finished(&world, note_told, told);
    allocate(&world, "CA1");
    expires_at_ms = hold(&world, "CA1")->hold.call.expires_at_ms;
    assert_int_equal(leave(&world, "CA1", expires_at_ms)->outcome, OUTCOME_OK);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.finished.count, 1);
    assert_int_equal(carry(&world, "CA1", POD0)->renew.finished.count, 1);
    assert_only_next_is_told(&world, told); /* the process itself has left the first one */
    world_release(&world);
}

static void leave__with_an_older_lease_releases_nothing(void **state)
{
    struct world world;
    uint64_t held_until_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    held_until_ms = hold(&world, "CA1")->hold.call.expires_at_ms;
    world_advance(&world, 1000);
    renew(&world, "CA1"); /* another caller keeps it */
    assert_int_equal(leave(&world, "CA1", held_until_ms)->outcome, OUTCOME_CONFLICT);
    assert_true(call_exists(&world, "CA1"));
    assert_int_equal(leave(&world, "CA1", held_until_ms + 1000)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void on_finished__is_told_for_carried_calls_that_are_ended_on_purpose(void **state)
{
    char told[TOLD_MAX] = "";
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":9,\"target\":1}}", 1);
    world_on_finished(&world, note_told, told);
    allocate(&world, "CA1"); /* held */
    hold(&world, "CA1");
    allocate(&world, "CA2"); /* kept alive by others alone */
    renew(&world, "CA2");
    heartbeat(&world, POD0, "CA2");
    allocate(&world, "CA3"); /* lost, and brought back by its carrier */
    hold(&world, "CA3");
    lose_calls_of(&world, POD0);
    carry(&world, "CA3", POD0);
    carry(&world, "CA1", POD0);
    allocate(&world, "CA4"); /* left, and carried again */
    hold(&world, "CA4");
    leave(&world, "CA4", 0);
    carry(&world, "CA4", POD0);
    allocate(&world, "CA5"); /* carried, never held */
    carry(&world, "CA5", POD0);
    carry(&world, "CA6", POD0); /* adopted */
    release(&world, "CA2");
    release(&world, "CA1");
    release(&world, "CA3");
    release(&world, "CA4");
    release(&world, "CA5");
    release(&world, "CA6");
    /* Redis reports lost calls too, so that every carrier asks for their state. */
    wait_until_told(&world, told,
                    world.kind->type == WORLD_REDIS ? "CA1 CA3 CA1 CA3 CA4 CA5 CA6 "
                                                    : "CA1 CA3 CA4 CA5 CA6 ");
    world_release(&world);
}

const struct world_case cases_carried[] = {
    {"lost__call_is_adopted_where_its_carrier_says", lost__call_is_adopted_where_its_carrier_says},
    {"lost__call_without_room_is_a_conflict_and_without_a_pod_unknown",
     lost__call_without_room_is_a_conflict_and_without_a_pod_unknown},
    {"lost__calls_fill_a_shared_pod_and_no_more", lost__calls_fill_a_shared_pod_and_no_more},
    {"renew__that_names_another_pod_is_a_conflict_and_keeps_nothing",
     renew__that_names_another_pod_is_a_conflict_and_keeps_nothing},
    {"renew__puts_each_call_into_one_list", renew__puts_each_call_into_one_list},
    {"hold__says_where_the_call_is_and_whether_it_was_connected",
     hold__says_where_the_call_is_and_whether_it_was_connected},
    {"leave__with_no_lease_releases_nothing", leave__with_no_lease_releases_nothing},
    {"leave__with_the_lease_ends_the_call_for_good", leave__with_the_lease_ends_the_call_for_good},
    {"leave__with_an_older_lease_releases_nothing", leave__with_an_older_lease_releases_nothing},
    {"on_finished__is_told_for_carried_calls_that_are_ended_on_purpose",
     on_finished__is_told_for_carried_calls_that_are_ended_on_purpose},
    {NULL, NULL},
};
