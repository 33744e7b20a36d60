/*
 * test_core_edges.c - where calls begin and end: leases that have run out, recorded ends, requests that are
 * undone.
 */
#include "../support/core_fixture.h"
#include "core/overs.h"

#define POD0 "voice-agent-0"
#define POD1 "voice-agent-1"

static const char one_pod[] = "{\"standard\":1}";

static void applied(void *arg, const struct record *record)
{
    assert_int_equal(core_apply(arg, record), 0);
}

static struct core *core_new_empty(void)
{
    struct core_settings settings = {.lease_ttl_ms = LEASE,
                                     .call_max_duration_ms = 4 * HOUR,
                                     .draining_ttl_ms = 6 * MINUTE,
                                     .heartbeat_ttl_ms = 90000};
    struct core *core = NULL;

    assert_int_equal(core_new(&settings, &core), 0);
    return core;
}

/* Another process goes on from a dump. */
static void restart(struct world *world)
{
    struct core *next = core_new_empty();

    core_dump(world->core, applied, next);
    core_free(world->core);
    world->core = next;
    core_loaded(next, world->now_ms);
}

/* The ways to keep a call whose lease has run out; each leaves it with the lease that it says. */
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
    assert_true(move(world, "CA1", POD0)->move.was_moved);
    return 4 * HOUR;
}

static uint64_t kept_by_move_from_elsewhere(struct world *world)
{
    assert_int_equal(move(world, "CA1", POD1)->outcome, OUTCOME_OK);
    assert_false(world->result.move.was_moved);
    return 4 * HOUR;
}

static uint64_t kept_by_move_to_nowhere(struct world *world)
{
    assert_int_equal(move(world, "CA1", POD0)->outcome, OUTCOME_NO_PODS);
    return 4 * HOUR;
}

static void expired__call_is_kept_by_whoever_speaks_of_it_and_ended_by_the_sweep(void **state UNUSED)
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
        for (int was_renewed = 0; was_renewed < 2; was_renewed++) {
            struct world world;
            uint64_t lease_ms;

            world_init(&world, one_pod);
            add_pods(&world, 1);
            allocate(&world, "CA1");
            if (was_renewed)
                renew(&world, "CA1");
            world.now_ms += 5 * HOUR;
            lease_ms = ways[i](&world);
            assert_int_equal(call_of(&world, "CA1")->expires_at_ms, world.now_ms + lease_ms);
            world.now_ms += lease_ms - 1;
            assert_int_equal(sweep(&world)->sweep.ended.count, 0);
            world.now_ms += 1;
            assert_int_equal(sweep(&world)->sweep.ended.count, 1);
            assert_int_equal(world.result.sweep.ended.calls[0].why, CALL_END_EXPIRED);
            assert_false(call_exists(&world, "CA1"));
            world_release(&world);
        }
    }
}

static void expired__call_gets_the_connect_timeout_when_it_is_asked_for_again(void **state UNUSED)
{
    struct world world;

    world_init_with(&world, one_pod, MINUTE);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    world.now_ms += HOUR;
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    assert_int_equal(world.result.allocate.call.expires_at_ms, world.now_ms + MINUTE);
    /* Once more while the lease runs: that changes nothing. */
    world.now_ms += 1000;
    assert_int_equal(allocate(&world, "CA1")->allocate.call.expires_at_ms, world.now_ms + MINUTE - 1000);
    world_release(&world);
}

static void expired__call_that_another_pod_speaks_of_is_a_conflict(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 2);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world.now_ms += HOUR;
    assert_int_equal(heartbeat(&world, POD1, "CA1")->heartbeat.conflicts.count, 1);
    assert_int_equal(carry(&world, "CA1", POD1)->renew.conflicts.count, 1);
    assert_string_equal(call_of(&world, "CA1")->pod, POD0);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    world_release(&world);
}

static void over__is_recorded_for_calls_that_somebody_has_renewed(void **state UNUSED)
{
    static const enum call_over whys[] = {CALL_OVER_RELEASED, CALL_OVER_CLOSED, CALL_OVER_TIMED_OUT};
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    for (size_t i = 0; i < ARRAY_LEN(whys); i++) {
        allocate(&world, "CA1");
        renew(&world, "CA1");
        assert_int_equal(release_as(&world, "CA1", NULL, whys[i])->outcome, OUTCOME_OK);
        assert_int_equal(renew(&world, "CA1")->renew.over.count, 1);
        assert_int_equal(world.result.renew.unknown.count, 0);
        assert_int_equal(carry(&world, "CA1", POD0)->renew.over.count, 1);
        assert_int_equal(carry(&world, "CA1", "nobody")->renew.over.count, 1);
        assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.over.count, 1);
        assert_int_equal(world.result.heartbeat.adopted.count, 0);
        assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
        assert_true(world.result.hold.has_ended);
        assert_int_equal(core_call_count(world.core), 0);
    }
    world_release(&world);
}

static void over__is_not_recorded_for_a_call_that_nobody_has_renewed(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(hold(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_false(world.result.hold.has_ended);
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static uint64_t renewed_by_move(struct world *world)
{
    renew(world, "CA1");
    return kept_by_move(world);
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

static void over__is_recorded_whoever_has_renewed_the_call(void **state UNUSED)
{
    uint64_t (*const ways[])(struct world *) = {kept_by_renew,     kept_by_carrier, kept_by_hold,
                                                kept_by_heartbeat, renewed_by_move, adopted_by_heartbeat,
                                                adopted_by_carrier};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct world world;

        world_init(&world, one_pod);
        add_pods(&world, 1);
        allocate(&world, "CA1");
        (void)ways[i](&world);
        release(&world, "CA1");
        hold(&world, "CA1");
        assert_true(world.result.hold.has_ended);
        world_release(&world);
    }
}

static void over__is_no_end_that_nobody_intended(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    world.now_ms += LEASE;
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
    world.now_ms += MINUTE;
    heartbeat(&world, POD0, NULL);
    assert_int_equal(heartbeat(&world, POD0, NULL)->heartbeat.ended.count, 1);
    hold(&world, "CA1");
    assert_false(world.result.hold.has_ended);
    world_release(&world);
}

static void over__is_known_for_ten_minutes(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    world.now_ms += ENDED_KEEP_MS - 1;
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.over.count, 1);
    world.now_ms += 1;
    assert_int_equal(renew(&world, "CA1")->renew.unknown.count, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static void over__is_forgotten_when_the_call_has_begun_anew(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(allocate(&world, "CA1")->outcome, OUTCOME_OK);
    assert_false(world.result.allocate.was_existing);
    assert_int_equal(renew(&world, "CA1")->renew.renewed.count, 1);
    lose_calls_of(&world, POD0);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    world_release(&world);
}

static void over__outlives_the_process_with_its_age(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 2);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    renew(&world, "CA1");
    renew(&world, "CA2");
    release(&world, "CA1");
    world.now_ms += 5 * MINUTE;
    restart(&world);
    restart(&world);        /* the dump of one that was loaded says the same */
    release(&world, "CA2"); /* that it was renewed is not forgotten either */
    hold(&world, "CA2");
    assert_true(world.result.hold.has_ended);
    world.now_ms += 5 * MINUTE - 1;
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.over.count, 1);
    world.now_ms += 1;
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    assert_int_equal(heartbeat(&world, POD1, "CA2")->heartbeat.over.count, 1);
    world_release(&world);
}

static void over__oldest_are_forgotten_beyond_the_limit(void **state UNUSED)
{
    struct world world;
    char sid[32];

    world_init(&world, one_pod);
    add_pods(&world, 1);
    for (int i = 0; i < OVERS_MAX; i++) {
        struct record record = {.type = RECORD_OVER, .over = {sid, CALL_OVER_CLOSED, world.now_ms}};

        snprintf(sid, sizeof(sid), "CB%d", i);
        assert_int_equal(core_apply(world.core, &record), 0);
    }
    assert_int_equal(renew(&world, "CB0")->renew.over.count, 1);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(renew(&world, "CA1")->renew.over.count, 1);
    assert_int_equal(renew(&world, "CB0")->renew.unknown.count, 1);
    assert_int_equal(renew(&world, "CB1")->renew.over.count, 1);
    snprintf(sid, sizeof(sid), "CB%d", OVERS_MAX - 1);
    assert_int_equal(renew(&world, sid)->renew.over.count, 1);
    world_release(&world);
}

static void undo__of_the_only_attempt_ends_the_call(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
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
    world_release(&world);
}

static void undo__of_one_attempt_leaves_the_call_to_the_others(void **state UNUSED)
{
    struct world world;

    for (uint64_t first = 1; first <= 3; first++) {
        world_init(&world, one_pod);
        add_pods(&world, 1);
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

static void undo__of_an_attempt_that_was_never_there_is_not_found(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
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

static void undo__knows_as_many_attempts_as_it_may_and_no_more(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
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

static void undo__never_ends_a_call_that_a_nameless_request_asked_for(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    ask(&world, "CA1", 1);
    ask(&world, "CA1", 0);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void undo__never_ends_a_call_that_somebody_keeps(void **state UNUSED)
{
    uint64_t (*const ways[])(struct world *) = {kept_by_renew, kept_by_carrier, kept_by_hold,
                                                kept_by_heartbeat, renewed_by_move};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct world world;

        world_init(&world, one_pod);
        add_pods(&world, 1);
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

static void undo__never_ends_a_call_after_a_restart(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 1);
    ask(&world, "CA1", 1);
    restart(&world);
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    /* Whoever asked for it before is not known any more. */
    ask(&world, "CA1", 2);
    assert_int_equal(undo(&world, "CA1", 2)->outcome, OUTCOME_NOT_FOUND);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void undo__ends_a_call_that_was_only_asked_for_and_moved(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 2);
    ask(&world, "CA1", 1);
    assert_true(move(&world, "CA1", POD0)->move.was_moved);
    world.now_ms += 5 * HOUR;
    ask(&world, "CA1", 1); /* kept although its lease has run out */
    assert_int_equal(undo(&world, "CA1", 1)->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.call.pod, POD1);
    world_release(&world);
}

static void release__with_another_pods_name_is_not_found(void **state UNUSED)
{
    struct world world;

    world_init(&world, one_pod);
    add_pods(&world, 2);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    move(&world, "CA1", POD0);
    assert_int_equal(release_as(&world, "CA1", POD0, CALL_OVER_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(release_as(&world, "CA1", "nobody", CALL_OVER_RELEASED)->outcome, OUTCOME_NOT_FOUND);
    assert_string_equal(call_of(&world, "CA1")->pod, POD1);
    assert_int_equal(release_as(&world, "CA1", POD1, CALL_OVER_RELEASED)->outcome, OUTCOME_OK);
    assert_false(call_exists(&world, "CA1"));
    world_release(&world);
}

static void note_record(void *arg, const struct record *record)
{
    char *text = arg;
    size_t len = strlen(text);

    if (record->type == RECORD_CALL)
        snprintf(text + len, 4096 - len, "C %s %s %llu\n", record->call.call_sid, record->call.pod,
                 (unsigned long long)record->call.expires_at_ms);
    else if (record->type == RECORD_RENEWED)
        snprintf(text + len, 4096 - len, "R %s %llu\n", record->renewed.call_sid,
                 (unsigned long long)record->renewed.expires_at_ms);
    else if (record->type == RECORD_OVER)
        snprintf(text + len, 4096 - len, "O %s %llu %llu\n", record->over.call_sid,
                 (unsigned long long)record->over.why, (unsigned long long)record->over.at_ms);
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

    world_init(&world, NULL);
    replica = core_new_empty();
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
    release_as(&world, "CA4", NULL, CALL_OVER_CLOSED);
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
        cmocka_unit_test(expired__call_is_kept_by_whoever_speaks_of_it_and_ended_by_the_sweep),
        cmocka_unit_test(expired__call_gets_the_connect_timeout_when_it_is_asked_for_again),
        cmocka_unit_test(expired__call_that_another_pod_speaks_of_is_a_conflict),
        cmocka_unit_test(over__is_recorded_for_calls_that_somebody_has_renewed),
        cmocka_unit_test(over__is_not_recorded_for_a_call_that_nobody_has_renewed),
        cmocka_unit_test(over__is_recorded_whoever_has_renewed_the_call),
        cmocka_unit_test(over__is_no_end_that_nobody_intended),
        cmocka_unit_test(over__is_known_for_ten_minutes),
        cmocka_unit_test(over__is_forgotten_when_the_call_has_begun_anew),
        cmocka_unit_test(over__outlives_the_process_with_its_age),
        cmocka_unit_test(over__oldest_are_forgotten_beyond_the_limit),
        cmocka_unit_test(undo__of_the_only_attempt_ends_the_call),
        cmocka_unit_test(undo__of_one_attempt_leaves_the_call_to_the_others),
        cmocka_unit_test(undo__of_an_attempt_that_was_never_there_is_not_found),
        cmocka_unit_test(undo__knows_as_many_attempts_as_it_may_and_no_more),
        cmocka_unit_test(undo__never_ends_a_call_that_a_nameless_request_asked_for),
        cmocka_unit_test(undo__never_ends_a_call_that_somebody_keeps),
        cmocka_unit_test(undo__never_ends_a_call_after_a_restart),
        cmocka_unit_test(undo__ends_a_call_that_was_only_asked_for_and_moved),
        cmocka_unit_test(release__with_another_pods_name_is_not_found),
        cmocka_unit_test(records__of_all_this_lead_to_the_same_state),
    };

    return cmocka_run_group_tests_name("core_edges", tests, NULL, NULL);
}
