/*
 * test_embedded_line.c - calls that wait, in the files of the embedded store; and the space that is reserved
 * for the records of commands that grant and rescue.
 */
#include "../support/embedded_fixture.h"

#include "store/embedded/log_size.h"

static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_ALWAYS, EMBEDDED_FSYNC_EVERYSEC,
                                            EMBEDDED_FSYNC_NO};

static int fixture_wait_for(struct fixture *f, const char *sid)
{
    return fixture_execute(
        f, &(struct command){.type = COMMAND_ALLOCATE,
                             .allocate = {sid, "merchant", "twilio", .waits = true, .holder = "router-0"}});
}

static void allocate_all(struct fixture *f)
{
    char sid[16];

    do {
        snprintf(sid, sizeof(sid), "CA%zu", core_call_count(embedded_core(f->store)));
        assert_int_equal(fixture_allocate(f, sid), 0);
    } while (f->result.outcome == OUTCOME_OK);
    assert_int_equal(f->result.outcome, OUTCOME_NO_PODS);
}

static void open__again_keeps_calls_that_wait_and_grants(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct fixture f;

        fixture_init(&f, modes[i]);
        f.settings.core.hold_max_wait_ms = 60000;
        f.settings.core.hold_max_calls = 10;
        f.settings.core.rescues = true;
        fixture_open(&f);
        fixture_add_pods(&f);
        allocate_all(&f);
        assert_int_equal(fixture_wait_for(&f, "CB1"), 0);
        assert_int_equal(fixture_wait_for(&f, "CB2"), 0);
        assert_int_equal(fixture_wait_for(&f, "CB3"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_WAITING);
        assert_int_equal(fixture_release_call(&f, "CB2"), 0);
        assert_int_equal(fixture_release_call(&f, "CA0"), 0); /* CB1 is granted its pod */
        fixture_close(&f);
        fixture_open(&f);
        assert_int_equal(f.report.waiting, 1);
        assert_int_equal(fixture_call(&f, "CB3"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_WAITING);
        assert_string_equal(f.result.call.waiting.merchant_id, "merchant");
        assert_int_equal(fixture_call(&f, "CB1"), 0);
        assert_true(f.result.outcome == OUTCOME_OK && f.result.call.call.activity.is_granted);
        assert_int_equal(fixture_wait_for(&f, "CB1"), 0);
        assert_true(f.result.allocate.was_taken);
        assert_int_equal(fixture_release_call(&f, "CA1"), 0);
        assert_int_equal(fixture_call(&f, "CB3"), 0);
        assert_true(f.result.outcome == OUTCOME_OK && f.result.call.call.activity.is_granted);
        fixture_release(&f);
    }
}

static void full_disk__gives_the_pod_of_a_released_call_to_the_next(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f, EMBEDDED_FSYNC_NO);
    f.settings.core.hold_max_wait_ms = 60000;
    f.settings.core.hold_max_calls = 1000;
    fixture_open(&f);
    fixture_add_pods(&f);
    allocate_all(&f);
    for (int i = 0; i < 1000; i++) {
        char sid[CALL_SID_MAX + 1];

        snprintf(sid, sizeof(sid), "CB%0*d", CALL_SID_MAX - 2, i);
        assert_int_equal(fixture_wait_for(&f, sid), 0);
        assert_int_equal(f.result.outcome, OUTCOME_WAITING);
    }
    /* A thousand calls wait, and no more space can be reserved: what a release needs is there. */
    faults.reserve = -1;
    for (int i = 0; i < 5; i++) {
        char sid[16];

        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(fixture_release_call(&f, sid), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
    }
    assert_int_equal(core_waiting_count(embedded_core(f.store)), 995);
    fixture_release(&f);
}

/* A core whose records are measured. */
struct measured {
    struct core *core;
    struct arena arena;
    struct result result;
    uint64_t now_ms;
    size_t bytes; /* of the records of one command */
};

static void measure(void *arg, const struct record *record)
{
    struct measured *measured = arg;
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1024 * 1024);
    record_encode(&buf, record);
    assert_false(strbuf_failed(&buf));
    measured->bytes += buf.len;
    strbuf_release(&buf);
}

static void run_measured(struct measured *measured, const struct command *command)
{
    size_t bound = log_size_max(command, measured->core);

    measured->bytes = 0;
    assert_int_equal(
        core_execute(measured->core, command, measured->now_ms, &measured->arena, &measured->result), 0);
    if (measured->bytes > bound)
        fail_msg("%s made %zu bytes of records, %zu were reserved", command_name(command->type),
                 measured->bytes, bound);
}

enum { LONG_CALLS = 800, HALF = LONG_CALLS / 2 };

static char long_sids[LONG_CALLS][CALL_SID_MAX + 1];
static char long_merchant[MERCHANT_ID_MAX + 1];
static char long_provider[PROVIDER_MAX + 1];
static char long_pods[LONG_CALLS][POD_NAME_MAX + 1];

static void make_names(void)
{
    memset(long_merchant, 'm', MERCHANT_ID_MAX);
    memset(long_provider, 'p', PROVIDER_MAX);
    for (int i = 0; i < LONG_CALLS; i++) {
        snprintf(long_sids[i], sizeof(long_sids[i]), "%0*d", CALL_SID_MAX, i);
        snprintf(long_pods[i], sizeof(long_pods[i]), "%0*d", POD_NAME_MAX, i);
    }
}

static void see_measured(struct measured *measured, int at, const char *incarnation)
{
    run_measured(measured, &(struct command){.type = COMMAND_POD_SEEN,
                                             .pod_seen = {.pod = {.name = long_pods[at],
                                                                  .address = "10.0.0.1:80",
                                                                  .incarnation = incarnation,
                                                                  .source = POD_SOURCE_KUBERNETES,
                                                                  .is_ready = true}}});
}

/* So many calls ask for a pod, all with the longest names. */
static void ask_measured(struct measured *measured, int from, int until)
{
    for (int i = from; i < until; i++)
        run_measured(measured, &(struct command){.type = COMMAND_ALLOCATE,
                                                 .allocate = {long_sids[i], long_merchant, long_provider,
                                                              .waits = true, .holder = "router-0"}});
}

static void carry_measured(struct measured *measured, int count)
{
    const char *sids[LONG_CALLS], *pods[LONG_CALLS];
    bool can_move[LONG_CALLS];

    for (int i = 0; i < count; i++) {
        run_measured(measured, &(struct command){.type = COMMAND_HOLD, .hold = {long_sids[i], "router-0"}});
        sids[i] = long_sids[i];
        pods[i] = measured->result.hold.call.pod;
        can_move[i] = true;
    }
    run_measured(measured,
                 &(struct command){.type = COMMAND_RENEW,
                                   .renew = {sids, (size_t)count, "router-0", pods, .can_move = can_move}});
    assert_int_equal(measured->result.renew.renewed.count, count);
}

static void sizes__of_grants_and_rescues_are_reserved(void **state UNUSED)
{
    const struct core_settings settings = {.lease_ttl_ms = 900000,
                                           .call_max_duration_ms = 3600000,
                                           .draining_ttl_ms = 360000,
                                           .heartbeat_ttl_ms = 90000,
                                           .hold_max_wait_ms = 60000,
                                           .hold_max_calls = 1000,
                                           .rescues = true};
    static const char tiers[] = "{\"s\":{\"type\":\"shared\",\"max_concurrent\":400,\"target\":9}}";
    struct keep_call kept[LONG_CALLS];
    struct measured measured = {.now_ms = 1770000000000};

    make_names();
    arena_init(&measured.arena, 64 * 1024 * 1024);
    assert_int_equal(core_new(&settings, &measured.core), 0);
    core_on_record(measured.core, measure, &measured);
    run_measured(&measured, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {tiers}});
    see_measured(&measured, 0, "1");
    ask_measured(&measured, 0, HALF); /* have the pod */
    carry_measured(&measured, HALF);
    ask_measured(&measured, HALF, LONG_CALLS); /* wait */
    assert_int_equal(core_waiting_count(measured.core), HALF);
    measured.now_ms += 1000;
    see_measured(&measured, 1, "1"); /* which grants as many */
    assert_int_equal(core_waiting_count(measured.core), 0);
    see_measured(&measured, 0, "2"); /* which rescues the others: nobody has room but the pod itself */
    assert_int_equal(core_call_count(measured.core), LONG_CALLS);
    carry_measured(&measured, HALF);
    run_measured(&measured, &(struct command){.type = COMMAND_POD_GONE,
                                              .pod_gone = {long_pods[0], POD_SOURCE_KUBERNETES}});
    assert_int_equal(core_waiting_count(measured.core), HALF); /* nobody has room */
    for (int i = 0; i < LONG_CALLS; i++)
        kept[i] = (struct keep_call){.call = {.call_sid = long_sids[i],
                                              .merchant_id = long_merchant,
                                              .provider = long_provider,
                                              .since_ms = 1,
                                              .until_ms = measured.now_ms + 5000}};
    run_measured(&measured, &(struct command){.type = COMMAND_KEEP, .keep = {kept, LONG_CALLS, "router-0"}});
    run_measured(&measured, &(struct command){.type = COMMAND_DRAIN, .drain = {long_pods[1]}});
    for (int i = 0; i < 50; i++)
        run_measured(&measured, &(struct command){.type = COMMAND_RELEASE, .release = {long_sids[HALF + i]}});
    run_measured(&measured, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {long_pods[1]}});
    assert_int_equal(core_waiting_count(measured.core), HALF - 50);
    run_measured(&measured, &(struct command){.type = COMMAND_TIERS_SET,
                                              .tiers_set = {"{\"s\":{\"type\":\"shared\",\"max_concurrent\":"
                                                            "999,\"target\":9}}"}});
    assert_int_equal(core_waiting_count(measured.core), 0);
    measured.now_ms += WAIT_TAKE_MS;
    run_measured(&measured, &(struct command){.type = COMMAND_SERVE});
    assert_true(measured.result.serve.ended_count > 50);
    run_measured(&measured, &(struct command){.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES}});
    run_measured(&measured, &(struct command){.type = COMMAND_SWEEP});
    core_free(measured.core);
    arena_release(&measured.arena);
}

/* The pod of the tier that was removed joins another one, and has room for all. */
static void sizes__of_a_release_on_a_removed_tier_are_reserved(void **state UNUSED)
{
    const struct core_settings settings = {.lease_ttl_ms = 900000,
                                           .call_max_duration_ms = 3600000,
                                           .draining_ttl_ms = 360000,
                                           .heartbeat_ttl_ms = 90000,
                                           .hold_max_wait_ms = 60000,
                                           .hold_max_calls = 1000};

    make_names();
    for (int how = 0; how < 3; how++) {
        struct measured measured = {.now_ms = 1770000000000};
        struct command ends[] = {
            {.type = COMMAND_RELEASE, .release = {long_sids[0]}},
            {.type = COMMAND_UNDO, .undo = {long_sids[0], .attempt = 7}},
            {.type = COMMAND_MOVE_CALL,
             .move = {.call_sid = long_sids[0], .from_pod = long_pods[0], .spares_pod = true}},
        };

        arena_init(&measured.arena, 64 * 1024 * 1024);
        assert_int_equal(core_new(&settings, &measured.core), 0);
        core_on_record(measured.core, measure, &measured);
        run_measured(&measured, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {"{\"old\":1}"}});
        see_measured(&measured, 0, "1");
        run_measured(&measured, &(struct command){
                                    .type = COMMAND_ALLOCATE,
                                    .allocate = {long_sids[0], long_merchant, long_provider, .attempt = 7}});
        assert_int_equal(measured.result.outcome, OUTCOME_OK);
        run_measured(&measured, &(struct command){.type = COMMAND_TIERS_SET,
                                                  .tiers_set = {"{\"s\":{\"type\":\"shared\","
                                                                "\"max_concurrent\":200,\"target\":9}}"}});
        ask_measured(&measured, 1, HALF);
        if (how == 2) { /* where the call goes */
            see_measured(&measured, 1, "1");
            ask_measured(&measured, HALF, LONG_CALLS);
            run_measured(&measured, &(struct command){.type = COMMAND_RELEASE, .release = {long_sids[1]}});
        }
        run_measured(&measured, &ends[how]);
        arena_release(&measured.arena);
        if (how < 2)
            assert_int_equal(core_waiting_count(measured.core), HALF - 1 - 200);
        core_free(measured.core);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__again_keeps_calls_that_wait_and_grants),
        cmocka_unit_test(full_disk__gives_the_pod_of_a_released_call_to_the_next),
        cmocka_unit_test(sizes__of_grants_and_rescues_are_reserved),
        cmocka_unit_test(sizes__of_a_release_on_a_removed_tier_are_reserved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
