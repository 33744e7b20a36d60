/*
 * cases_edges.c - what every store answers where calls begin and end: leases that have run out, recorded
 * ends, lost calls that come back, requests that are undone.
 */
#include "../support/world.h"

/* The ways to keep a call on POD0 whose lease has run out; each leaves it with the lease that it says. */
static uint64_t kept_by_allocate(struct world *world)
{
    assert_true(allocate(world, "CA1")->allocate.was_existing);
    assert_string_equal(world->result.allocate.call.pod, POD0);
    return 4 * HOUR;
}

static uint64_t kept_by_renew(struct world *world)
{
    assert_int_equal(renew(world, "CA1")->renew.renewed.count, 1);
    return LEASE;
}

static uint64_t kept_by_carrier(struct world *world)
{
    assert_int_equal(carry(world, "CA1", POD0)->renew.renewed.count, 1);
    return LEASE;
}

static uint64_t kept_by_hold(struct world *world)
{
    assert_int_equal(hold(world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world->result.hold.call.pod, POD0);
    return LEASE;
}

static uint64_t kept_by_heartbeat(struct world *world)
{
    assert_int_equal(heartbeat(world, POD0, "CA1")->heartbeat.renewed.count, 1);
    return LEASE;
}

static uint64_t kept_by_move(struct world *world)
{
    see(world, seen_of(POD1));
    assert_true(move(world, "CA1", POD0, MINUTE)->move.was_moved);
    return 4 * HOUR;
}

static uint64_t kept_by_move_from_elsewhere(struct world *world)
{
    assert_int_equal(move(world, "CA1", POD1, MINUTE)->outcome, OUTCOME_OK);
    assert_false(world->result.move.was_moved);
    return 4 * HOUR;
}

static uint64_t kept_by_move_to_nowhere(struct world *world)
{
    assert_int_equal(move(world, "CA1", POD0, MINUTE)->outcome, OUTCOME_NO_PODS);
    return 4 * HOUR;
}

static void check_kept(struct world_kind *kind, uint64_t (*keep)(struct world *), bool was_renewed)
{
    struct world world;
    uint64_t lease_ms;

    world_init_pods(&world, kind, ONE_TIER, 1);
    allocate(&world, "CA1");
    if (was_renewed)
        renew(&world, "CA1");
    world_advance(&world, 5 * HOUR);
    lease_ms = keep(&world);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world_now(&world) + lease_ms);
    world_advance(&world, lease_ms - 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 0);
    assert_int_equal(world.told, 0);
    world_advance(&world, 1);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_EXPIRED);
    assert_int_equal(world.told, 1);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

static void expired__call_is_kept_by_whoever_speaks_of_it_and_ended_by_the_sweep(void **state)
{
    uint64_t (*const ways[])(struct world *) = {
        kept_by_allocate,
        kept_by_renew,
        kept_by_carrier,
        kept_by_hold,
        kept_by_heartbeat,
        kept_by_move,
        kept_by_move_from_elsewhere,
        kept_by_move_to_nowhere,
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        check_kept(*state, ways[i], false);
        check_kept(*state, ways[i], true);
    }
}

static void expired__call_gets_the_connect_timeout_when_it_is_asked_for_again(void **state)
{
    struct world world;

    world_init_with(&world, *state, ONE_TIER, MINUTE);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    world_advance(&world, HOUR);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    assert_int_equal(world.result.allocate.call.expires_at_ms, world_now(&world) + MINUTE);
    /* Once more while the lease runs: that changes nothing. */
    world_advance(&world, 1000);
    assert_int_equal(allocate(&world, "CA1")->allocate.call.expires_at_ms, world_now(&world) + MINUTE - 1000);
    world_release(&world);
}

static void expired__call_that_another_pod_speaks_of_is_a_conflict(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    see(&world, seen_of(POD1));
    world_advance(&world, HOUR);
    assert_int_equal(heartbeat(&world, POD1, "CA1")->heartbeat.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA1", POD1)->renew.conflicts.count, 1);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    world_release(&world);
}

static void tombstone__is_recorded_for_calls_that_somebody_has_renewed(void **state)
{
    static const enum finish_reason whys[] = {FINISH_RELEASED, FINISH_CLOSED, FINISH_TIMED_OUT};
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    for (size_t i = 0; i < ARRAY_LEN(whys); i++) {
        allocate(&world, "CA1");
        renew(&world, "CA1");
        assert_int_equal(release_as(&world, "CA1", NULL, whys[i])->outcome, OUTCOME_OK);
        assert_int_equal(renew(&world, "CA1")->renew.finished.count, 1);
        assert_int_equal(world.result.renew.unknown.count, 0);
        assert_int_equal(carry(&world, "CA1", POD0)->renew.finished.count, 1);
        assert_int_equal(carry(&world, "CA1", "nobody")->renew.finished.count, 1);
        assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.finished.count, 1);
        assert_int_equal(world.result.heartbeat.adopted.count, 0);
        assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
        assert_true(world.result.hold.has_ended);
        assert_int_equal(call_count(&world), 0);
    }
    world_release(&world);
}

static void tombstone__is_not_recorded_for_a_call_that_nobody_has_renewed(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_false(world.result.hold.has_ended);
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static uint64_t renewed_and_moved(struct world *world)
{
    renew(world, "CA1");
    return kept_by_move(world);
}

static uint64_t renewed_and_revived(struct world *world)
{
    renew(world, "CA1");
    world_advance(world, LEASE);
    assert_true(ask(world, "CA1", 9)->allocate.was_existing); /* core alone gives no number to a request */
    return 4 * HOUR;
}

static uint64_t adopted_by_heartbeat(struct world *world)
{
    lose_calls_of(world, POD0);
    assert_int_equal(heartbeat(world, POD0, "CA1")->heartbeat.adopted.count, 1);
    return LEASE;
}

static uint64_t adopted_by_carrier(struct world *world)
{
    lose_calls_of(world, POD0);
    assert_int_equal(carry(world, "CA1", POD0)->renew.adopted.count, 1);
    return LEASE;
}

static void tombstone__is_recorded_whoever_has_renewed_the_call(void **state)
{
    uint64_t (*const ways[])(struct world *) = {
        kept_by_renew,     kept_by_carrier,     kept_by_hold,         kept_by_heartbeat,
        renewed_and_moved, renewed_and_revived, adopted_by_heartbeat, adopted_by_carrier,
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct world world;

        world_init_pods(&world, *state, ONE_TIER, 1);
        allocate(&world, "CA1");
        (void)ways[i](&world);
        release(&world, "CA1");
        hold(&world, "CA1");
        assert_true(world.result.hold.has_ended);
        world_release(&world);
    }
}

static void tombstone__is_no_end_that_nobody_intended(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world_advance(&world, LEASE);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    hold(&world, "CA1");
    assert_false(world.result.hold.has_ended);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    lose_calls_of(&world, POD0);
    hold(&world, "CA1");
    assert_false(world.result.hold.has_ended);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world_advance(&world, MINUTE);
    heartbeat(&world, POD0, NULL);
    assert_int_equal(heartbeat(&world, POD0, NULL)->heartbeat.ended.count, 1);
    hold(&world, "CA1");
    assert_false(world.result.hold.has_ended);
    world_release(&world);
}

static void tombstone__is_known_for_ten_minutes(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    world_advance(&world, ENDED_KEEP_MS - 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.finished.count, 1);
    world_advance(&world, 1);
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static void tombstone__is_forgotten_when_the_call_has_begun_anew(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK);
    assert_false(world.result.allocate.was_existing);
    assert_int_equal(renew(&world, "CA1")->renew.renewed.count, 1);
    lose_calls_of(&world, POD0);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    /* A call that nobody has renewed changes nothing: the end before it still counts. */
    release(&world, "CA1");
    allocate(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(renew(&world, "CA1")->renew.finished.count, 1);
    world_release(&world);
}

static void undo__of_the_only_attempt_ends_the_call(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_int_equal(ask(&world, "CA1", 7)->allocate.attempt, 7);
    assert_int_equal(undo(&world, "CA1", 7)->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.call.pod, POD0);
    assert_string_equal(world.result.release.released_to, "pool:standard");
    assert_false(call_exists(&world, "CA1"));
    assert_int_equal(undo(&world, "CA1", 7)->outcome, OUTCOME_NOT_FOUND);
    /* Nobody ever had the call, so that there is no end to remember. */
    hold(&world, "CA1");
    assert_false(world.result.hold.has_ended);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    assert_int_equal(world.told, 0);
    world_release(&world);
}

static void undo__works_with_the_number_that_the_store_gave(void **state)
{
    struct world world;
    uint64_t first, second;

    world_init_pods(&world, *state, ONE_TIER, 1);
    first = allocate(&world, "CA1")->allocate.attempt;
    second = allocate(&world, "CA1")->allocate.attempt;
    assert_true(first != 0 && second != 0 && first != second);
    assert_int_equal(undo(&world, "CA1", second)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(undo(&world, "CA1", first)->outcome, OUTCOME_OK);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

static void undo__of_one_attempt_leaves_the_call_to_the_others(void **state)
{
    struct world world;

    for (uint64_t first = 1; first <= 3; first++) {
        world_init_pods(&world, *state, ONE_TIER, 1);
        for (uint64_t attempt = 1; attempt <= 3; attempt++)
            ask(&world, "CA1", attempt);
        ask(&world, "CA1", first); /* repeated: still one attempt */
        assert_int_equal(undo(&world, "CA1", first)->outcome, OUTCOME_CONFLICT);
        assert_int_equal(undo(&world, "CA1", first)->outcome, OUTCOME_NOT_FOUND);
        assert_int_equal(undo(&world, "CA1", first % 3 + 1)->outcome, OUTCOME_CONFLICT);
        assert_true(call_exists(&world, "CA1"));
        assert_int_equal(undo(&world, "CA1", (first + 1) % 3 + 1)->outcome, OUTCOME_OK);
        assert_false(call_exists(&world, "CA1"));
        world_release(&world);
    }
}

static void undo__of_an_attempt_that_was_never_there_is_not_found(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    ask(&world, "CA1", 1);
    assert_int_equal(undo(&world, "CA1", 2)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(undo(&world, "CA1", 0)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    /* A call of the same name that somebody else has asked for since is another one. */
    release(&world, "CA1");
    ask(&world, "CA1", 3);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void undo__knows_as_many_attempts_as_it_may_and_no_more(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    for (uint64_t attempt = 1; attempt <= ATTEMPTS_MAX; attempt++)
        ask(&world, "CA1", attempt);
    for (uint64_t attempt = 1; attempt < ATTEMPTS_MAX; attempt++)
        assert_int_equal(undo(&world, "CA1", attempt)->outcome, OUTCOME_CONFLICT);
    assert_int_equal(undo(&world, "CA1", ATTEMPTS_MAX)->outcome, OUTCOME_OK);
    for (uint64_t attempt = 1; attempt <= ATTEMPTS_MAX + 1; attempt++)
        ask(&world, "CA1", attempt);
    for (uint64_t attempt = 1; attempt <= ATTEMPTS_MAX + 1; attempt++)
        assert_int_equal(undo(&world, "CA1", attempt)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void undo__never_ends_a_call_that_somebody_keeps(void **state)
{
    uint64_t (*const ways[])(struct world *) = {kept_by_renew,     kept_by_carrier,   kept_by_hold,
                                                kept_by_heartbeat, renewed_and_moved, renewed_and_revived};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct world world;

        world_init_pods(&world, *state, ONE_TIER, 1);
        ask(&world, "CA1", 1);
        (void)ways[i](&world);
        assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_CONFLICT);
        assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
        /* Nor does a later attempt that is taken back. */
        ask(&world, "CA1", 2);
        assert_int_equal(undo(&world, "CA1", 2)->outcome, OUTCOME_CONFLICT);
        assert_true(call_exists(&world, "CA1"));
        world_release(&world);
    }
}

static void undo__ends_a_call_that_was_only_asked_for_and_moved(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    ask(&world, "CA1", 1);
    see(&world, seen_of(POD1));
    assert_true(move(&world, "CA1", POD0, MINUTE)->move.was_moved);
    world_advance(&world, 5 * HOUR);
    ask(&world, "CA1", 1); /* kept although its lease has run out */
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.call.pod, POD1);
    assert_int_equal(call_count(&world), 0);
    world_release(&world);
}

static void release__with_another_pods_name_is_not_found(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    see(&world, seen_of(POD1));
    move(&world, "CA1", POD0, MINUTE);
    assert_int_equal(release_as(&world, "CA1", POD0, FINISH_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(release_as(&world, "CA1", "nobody", FINISH_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_int_equal(release_as(&world, "CA1", POD1, FINISH_RELEASED)->outcome, OUTCOME_OK);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

const struct world_case cases_edges[] = {
    {"expired__call_is_kept_by_whoever_speaks_of_it_and_ended_by_the_sweep",
     expired__call_is_kept_by_whoever_speaks_of_it_and_ended_by_the_sweep},
    {"expired__call_gets_the_connect_timeout_when_it_is_asked_for_again",
     expired__call_gets_the_connect_timeout_when_it_is_asked_for_again},
    {"expired__call_that_another_pod_speaks_of_is_a_conflict",
     expired__call_that_another_pod_speaks_of_is_a_conflict},
    {"tombstone__is_recorded_for_calls_that_somebody_has_renewed",
     tombstone__is_recorded_for_calls_that_somebody_has_renewed},
    {"tombstone__is_not_recorded_for_a_call_that_nobody_has_renewed",
     tombstone__is_not_recorded_for_a_call_that_nobody_has_renewed},
    {"tombstone__is_recorded_whoever_has_renewed_the_call",
     tombstone__is_recorded_whoever_has_renewed_the_call},
    {"tombstone__is_no_end_that_nobody_intended", tombstone__is_no_end_that_nobody_intended},
    {"tombstone__is_known_for_ten_minutes", tombstone__is_known_for_ten_minutes},
    {"tombstone__is_forgotten_when_the_call_has_begun_anew",
     tombstone__is_forgotten_when_the_call_has_begun_anew},
    {"undo__of_the_only_attempt_ends_the_call", undo__of_the_only_attempt_ends_the_call},
    {"undo__of_one_attempt_leaves_the_call_to_the_others",
     undo__of_one_attempt_leaves_the_call_to_the_others},
    {"undo__of_an_attempt_that_was_never_there_is_not_found",
     undo__of_an_attempt_that_was_never_there_is_not_found},
    {"undo__knows_as_many_attempts_as_it_may_and_no_more",
     undo__knows_as_many_attempts_as_it_may_and_no_more},
    {"undo__never_ends_a_call_that_somebody_keeps", undo__never_ends_a_call_that_somebody_keeps},
    {"undo__ends_a_call_that_was_only_asked_for_and_moved",
     undo__ends_a_call_that_was_only_asked_for_and_moved},
    {"release__with_another_pods_name_is_not_found", release__with_another_pods_name_is_not_found},
    {NULL, NULL},
};

const struct world_case cases_attempts[] = {
    {"undo__works_with_the_number_that_the_store_gave", undo__works_with_the_number_that_the_store_gave},
    {NULL, NULL},
};
