/* test_core_absent.c - pods that start anew, and pods that their source does not show: to the millisecond. */
#include "../support/world.h"

/* A new incarnation of the pod: does its only call end? */
static bool restart_ends(struct world *world, const char *name, uint64_t started_at_ms)
{
    static unsigned uid = 1;
    char incarnation[16];
    struct pod_seen seen = seen_of(name);

    snprintf(incarnation, sizeof(incarnation), "uid-%u", ++uid);
    seen.incarnation = incarnation;
    seen.started_at_ms = started_at_ms;
    see(world, seen);
    assert_int_equal(world->result.outcome, OUTCOME_OK);
    return world->result.pod_seen.ended.count > 0;
}

static void restart__compares_whole_seconds_of_the_call_with_the_start(void **state UNUSED)
{
    for (uint64_t ms = 0; ms < 1000; ms += 333) {
        struct world world;
        uint64_t second_ms;

        world_init_pods(&world, &world_core, "{\"standard\":1}", 1);
        second_ms = world.now_ms;
        world.now_ms += ms;
        allocate(&world, "CA1");
        world.now_ms += MINUTE;
        assert_false(restart_ends(&world, POD0, 1));
        assert_false(restart_ends(&world, POD0, second_ms));
        assert_false(restart_ends(&world, POD0, second_ms + RESTART_SKEW_MS - 1));
        assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
        assert_true(restart_ends(&world, POD0, second_ms + RESTART_SKEW_MS));
        assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
        world_release(&world);
    }
}

static void restart__in_the_far_future_or_at_no_known_time_ends_every_call(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    assert_true(restart_ends(&world, POD0, UINT64_MAX));
    allocate(&world, "CA1");
    assert_true(restart_ends(&world, POD0, 0));
    world_release(&world);
}

static void restart__knows_after_a_reload_when_a_call_was_moved(void **state UNUSED)
{
    struct world world;
    uint64_t moved_at_ms;

    world_init_pods(&world, &world_core, "{\"standard\":1}", 2);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world.now_ms += 10 * MINUTE;
    moved_at_ms = world.now_ms;
    assert_true(move(&world, "CA1", POD0, MINUTE)->move.was_moved);
    for (int i = 0; i < 2; i++) {
        world_reload(&world);
        assert_false(restart_ends(&world, POD1, moved_at_ms + RESTART_SKEW_MS - 1));
    }
    /* One that is asked for again, and gets another lease, is told anew. */
    world.now_ms += HOUR;
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    assert_false(restart_ends(&world, POD1, moved_at_ms + RESTART_SKEW_MS - 1));
    world_reload(&world);
    assert_true(restart_ends(&world, POD1, moved_at_ms + RESTART_SKEW_MS));
    world_release(&world);
}

static void restart__of_the_same_incarnation_or_another_source_is_none(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, &world_core, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    seen.started_at_ms = world.now_ms + HOUR;
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 0);
    seen.source = POD_SOURCE_STATIC;
    seen.incarnation = "uid-2";
    assert_int_equal(see(&world, seen)->pod_seen.ended.count, 0);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void absent__pod_still_drains_after_a_reload_and_leaves_without_its_call(void **state UNUSED)
{
    struct world world;

    world_init_pods(&world, &world_core, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    assert_true(miss_pod(&world, POD0)->pod_gone.has_stayed);
    world_reload(&world);
    assert_int_equal(pod(&world, POD0)->state, POD_DRAINING);
    world.now_ms += 24 * HOUR;
    sweep(&world);
    sweep(&world);
    assert_false(call_exists(&world, "CA1"));
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_false(miss_pod(&world, POD0)->pod_gone.has_stayed);
    assert_false(pod_exists(&world, POD0));
    world_release(&world);
}

static void counted(void *arg, const struct record *record)
{
    *(size_t *)arg += record->type == RECORD_POD;
}

static void absent__is_recorded_once(void **state UNUSED)
{
    struct world world;
    size_t records = 0;

    world_init_pods(&world, &world_core, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    core_on_record(world.core, counted, &records);
    miss_pod(&world, POD0);
    miss_pod(&world, POD0);
    assert_int_equal(records, 1);
    world_release(&world);
}

static void seen__alone_is_never_kept(void **state UNUSED)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    /* Only in a sync: an observation by itself says how the pod is. */
    world_init(&world, &world_core, "{\"standard\":1}");
    seen.is_kept = true;
    assert_true(see(&world, seen)->pod_seen.is_new);
    seen.address = "no address";
    assert_int_equal(see(&world, seen)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart__compares_whole_seconds_of_the_call_with_the_start),
        cmocka_unit_test(restart__in_the_far_future_or_at_no_known_time_ends_every_call),
        cmocka_unit_test(restart__knows_after_a_reload_when_a_call_was_moved),
        cmocka_unit_test(restart__of_the_same_incarnation_or_another_source_is_none),
        cmocka_unit_test(absent__pod_still_drains_after_a_reload_and_leaves_without_its_call),
        cmocka_unit_test(absent__is_recorded_once),
        cmocka_unit_test(seen__alone_is_never_kept),
    };

    return cmocka_run_group_tests_name("core_absent", tests, NULL, NULL);
}
