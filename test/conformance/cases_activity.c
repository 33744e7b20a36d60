/* cases_activity.c - what every store says of a call: its state, its last renewal, its carriers, its refusal.
 */
#include "../support/world.h"
#include "core/page.h"
#include "core/refusals.h"

/* The call was renewed now, by this one. */
static void assert_renewed(struct world *world, const char *sid, enum renewer by)
{
    const struct call_activity *activity = &call_of(world, sid)->activity;

    assert_int_equal(activity->renewed_by, by);
    assert_true(activity->renewed_at_ms == world_now(world));
    assert_true(activity->was_renewed);
}

static void assert_carried(struct world *world, const char *sid, bool is_carried, bool is_connected)
{
    const struct call_activity *activity = &call_of(world, sid)->activity;

    assert_int_equal(activity->carriers.count, is_carried);
    if (is_carried)
        assert_string_equal(activity->carriers.names[0], CARRIER);
    assert_int_equal(activity->is_connected, is_connected);
}

static void renewal__the_last_one_is_shown_with_its_author(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(call_of(&world, "CA1")->activity.renewed_by, RENEWED_BY_NOBODY);
    assert_true(call_of(&world, "CA1")->activity.renewed_at_ms == 0);
    world_advance(&world, MINUTE);
    renew(&world, "CA1");
    assert_renewed(&world, "CA1", RENEWED_BY_CLIENT);
    heartbeat(&world, POD0, "CA1"); /* in the same millisecond */
    assert_renewed(&world, "CA1", RENEWED_BY_POD);
    world_advance(&world, MINUTE);
    carry(&world, "CA1", POD0);
    assert_renewed(&world, "CA1", RENEWED_BY_GATEWAY);
    world_advance(&world, MINUTE);
    heartbeat(&world, POD0, "CA1");
    assert_renewed(&world, "CA1", RENEWED_BY_POD);
    world_advance(&world, MINUTE);
    hold(&world, "CA1");
    assert_renewed(&world, "CA1", RENEWED_BY_GATEWAY);
    world_release(&world);
}

static void renewal__that_changes_nothing_is_not_shown(void **state)
{
    struct world world;
    uint64_t renewed_at_ms;

    world_init_pods(&world, *state, "{\"standard\":2}", 2);
    allocate(&world, "CA1");
    renew(&world, "CA1");
    renewed_at_ms = world_now(&world);
    world_advance(&world, MINUTE);
    allocate(&world, "CA1");           /* asks again */
    carry(&world, "CA1", "elsewhere"); /* a conflict */
    assert_true(call_of(&world, "CA1")->activity.renewed_at_ms == renewed_at_ms);
    assert_int_equal(call_of(&world, "CA1")->activity.renewed_by, RENEWED_BY_CLIENT);
    move(&world, "CA1", call_of(&world, "CA1")->pod, 0);
    assert_true(call_of(&world, "CA1")->activity.renewed_at_ms == renewed_at_ms);
    world_release(&world);
}

static void adoption__counts_as_a_renewal_of_who_adopts(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}", 1);
    heartbeat(&world, POD0, "CA1");
    assert_renewed(&world, "CA1", RENEWED_BY_POD);
    assert_carried(&world, "CA1", false, false);
    carry(&world, "CA2", POD0);
    assert_renewed(&world, "CA2", RENEWED_BY_GATEWAY);
    assert_carried(&world, "CA2", true, true);
    world_release(&world);
}

static void carrier__is_shown_while_it_carries_the_call(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":2}", 2);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    assert_carried(&world, "CA1", false, false);
    hold(&world, "CA1");
    assert_carried(&world, "CA1", true, false); /* the connection is being opened */
    carry(&world, "CA1", call_of(&world, "CA1")->pod);
    assert_carried(&world, "CA1", true, true);
    assert_carried(&world, "CA2", false, false);
    assert_int_equal(leave(&world, "CA1", 0)->outcome, OUTCOME_CONFLICT);
    assert_carried(&world, "CA1", false, false);
    world_release(&world);
}

/* The process died without a word, or is cut off. */
static void carrier__that_is_silent_does_not_count(void **state)
{
    struct world world;
    struct command present = {.type = COMMAND_PRESENT, .present = {.carrier = CARRIER}};

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    carry(&world, "CA1", POD0);
    world_advance(&world, CARRIER_TTL_MS);
    assert_carried(&world, "CA1", true, true);
    world_advance(&world, 1);
    assert_carried(&world, "CA1", false, false);
    run(&world, &present);
    assert_carried(&world, "CA1", true, true);
    present.present.is_leaving = true;
    run(&world, &present);
    assert_carried(&world, "CA1", false, false);
    world_release(&world);
}

static void state__follows_the_call(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_ALLOCATED);
    hold(&world, "CA1");
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_ACTIVE);
    carry(&world, "CA1", POD0);
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_CONNECTED);
    leave(&world, "CA1", 0);
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_ACTIVE);
    world_advance(&world, LEASE);
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_EXPIRED);
    renew(&world, "CA1");
    assert_int_equal(state_of(&world, "CA1"), CALL_IS_ACTIVE);
    world_release(&world);
}

static const struct refusal *refusal_of(struct world *world, const char *sid)
{
    assert_int_equal(run(world, &(struct command){.type = COMMAND_CALL, .call = {sid}})->outcome,
                     OUTCOME_NOT_FOUND);
    return world->result.call.refusal;
}

static void refusal__is_known_for_ten_minutes_after_the_last_one(void **state)
{
    struct world world;
    const struct refusal *refusal;
    uint64_t refused_at_ms;

    world_init_pods(&world, *state, "{\"gold\":1,\"standard\":1}", 2);
    merchant_set(&world, "m", "{\"pool\":\"acme\",\"fallback\":[\"gold\",\"standard\"]}");
    allocate_many(&world, 2);
    drain(&world, call_of(&world, "CA0")->pod, HOUR);
    assert_null(refusal_of(&world, "CA9"));
    assert_int_equal(allocate(&world, "CA9")->outcome, OUTCOME_NO_PODS);
    world_advance(&world, REFUSAL_KEEP_MS / 2);
    assert_int_equal(allocate_for(&world, "CA9", "m")->outcome, OUTCOME_NO_PODS);
    refused_at_ms = world_now(&world);
    world_advance(&world, REFUSAL_KEEP_MS - 1);
    refusal = refusal_of(&world, "CA9");
    assert_non_null(refusal);
    assert_true(refusal->at_ms == refused_at_ms);
    assert_int_equal(refusal->count, 3);
    assert_string_equal(refusal->steps[0].pool, "merchant:acme");
    assert_false(refusal->steps[0].is_configured);
    assert_string_equal(refusal->steps[1].pool, "pool:gold");
    assert_int_equal(refusal->steps[1].pods, 1);
    assert_int_equal(refusal->steps[1].by_state[POD_DRAINING] + refusal->steps[2].by_state[POD_DRAINING], 1);
    assert_int_equal(refusal->steps[1].by_state[POD_BUSY] + refusal->steps[2].by_state[POD_BUSY], 1);
    assert_null(refusal_of(&world, "CA8"));
    world_advance(&world, 1);
    assert_null(refusal_of(&world, "CA9"));
    world_release(&world);
}

static void refusal__is_shown_while_there_is_no_call_only(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    allocate(&world, "CA2");
    assert_non_null(refusal_of(&world, "CA2"));
    release(&world, "CA1");
    allocate(&world, "CA2");
    assert_string_equal(call_of(&world, "CA2")->pod, POD0);
    world_release(&world);
}

/* The names of the calls that pass the filters, in the order of names; all pages. */
static const char *filtered(struct world *world, struct command command)
{
    static char text[256];
    bool is_there[10] = {0};

    command.type = COMMAND_CALLS;
    do {
        run(world, &command);
        assert_int_equal(world->result.calls.total, call_count(world));
        for (size_t i = 0; i < world->result.calls.count; i++) {
            size_t at = strtoul(world->result.calls.calls[i].call_sid + strlen("CA"), NULL, 10);

            assert_false(is_there[at]); /* each comes once */
            is_there[at] = true;
        }
        command.calls.cursor = world->result.calls.next_cursor;
    } while (command.calls.cursor[0]);
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(is_there); i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), is_there[i] ? "%zu" : "", i);
    return text;
}

static void filters__let_through_what_fits_all_of_them(void **state)
{
    struct world world;
    struct command all = {.calls = {.limit = 0}};

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":9,\"target\":2}}", 2);
    allocate_for(&world, "CA1", "acme");
    allocate_for(&world, "CA2", "acme");
    allocate_for(&world, "CA3", "other");
    drain(&world, POD1, HOUR);
    world_advance(&world, 10 * MINUTE);
    allocate_for(&world, "CA4", "acme");
    allocate(&world, "CA5");
    renew(&world, "CA3");
    carry(&world, "CA4", POD0);
    assert_string_equal(filtered(&world, all), "12345");
    assert_string_equal(filtered(&world, (struct command){.calls = {.merchant_id = "acme"}}), "124");
    assert_string_equal(filtered(&world, (struct command){.calls = {.merchant_id = "nobody"}}), "");
    assert_string_equal(filtered(&world, (struct command){.calls = {.state = CALL_IS_ALLOCATED}}), "125");
    assert_string_equal(filtered(&world, (struct command){.calls = {.state = CALL_IS_ACTIVE}}), "3");
    assert_string_equal(filtered(&world, (struct command){.calls = {.state = CALL_IS_CONNECTED}}), "4");
    assert_string_equal(filtered(&world, (struct command){.calls = {.state = CALL_IS_EXPIRED}}), "");
    assert_string_equal(filtered(&world, (struct command){.calls = {.older_than_ms = 10 * MINUTE}}), "123");
    assert_string_equal(filtered(&world, (struct command){.calls = {.older_than_ms = 11 * MINUTE}}), "");
    assert_string_equal(filtered(&world, (struct command){.calls = {.pod = "nobody"}}), "");
    assert_string_equal(
        filtered(&world,
                 (struct command){.calls = {.merchant_id = "acme", .older_than_ms = MINUTE, .limit = 1}}),
        "12");
    all.calls.pod = POD0;
    assert_int_equal(strlen(filtered(&world, all)), pod(&world, POD0)->calls.count);
    world_advance(&world, LEASE);
    assert_string_equal(filtered(&world, (struct command){.calls = {.state = CALL_IS_EXPIRED}}), "34");
    world_release(&world);
}

enum { MANY_PODS = 6, CALLS_EACH = 900 }; /* more calls than one page looks at */

/* The pod carries calls that nobody has allocated here. */
static void adopt_many(struct world *world, const char *pod_name)
{
    char names[CALLS_EACH][48];
    const char *sids[CALLS_EACH];
    struct command command = {.type = COMMAND_HEARTBEAT,
                              .heartbeat = {.pod = pod_name, .call_sids = sids, .count = CALLS_EACH}};

    for (int i = 0; i < CALLS_EACH; i++) {
        snprintf(names[i], sizeof(names[i]), "%s-%d", pod_name, i);
        sids[i] = names[i];
    }
    assert_int_equal(run(world, &command)->heartbeat.adopted.count, CALLS_EACH);
}

static void filters__end_a_page_that_finds_too_little_with_a_cursor(void **state)
{
    struct world world;
    struct command command = {.type = COMMAND_CALLS, .calls = {.state = CALL_IS_ALLOCATED, .limit = 4}};
    size_t found = 0;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":1000,\"target\":6}}",
                    MANY_PODS);
    for (int i = 0; i < MANY_PODS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "voice-agent-%d", i);
        adopt_many(&world, name);
        snprintf(name, sizeof(name), "CA%d", i);
        allocate(&world, name);
    }
    assert_true(call_count(&world) > PAGE_LOOK_MAX);
    do {
        run(&world, &command);
        assert_true(world.result.calls.count <= 4);
        found += world.result.calls.count;
        command.calls.cursor = world.result.calls.next_cursor;
    } while (command.calls.cursor[0]);
    assert_int_equal(found, MANY_PODS);
    command = (struct command){.type = COMMAND_CALLS, .calls = {.merchant_id = "nobody"}};
    run(&world, &command);
    assert_int_equal(world.result.calls.count, 0);
    assert_true(world.result.calls.next_cursor[0]);
    command.calls.cursor = world.result.calls.next_cursor;
    assert_string_equal(run(&world, &command)->calls.next_cursor, "");
    world_release(&world);
}

const struct world_case cases_activity[] = {
    {"renewal__the_last_one_is_shown_with_its_author", renewal__the_last_one_is_shown_with_its_author},
    {"renewal__that_changes_nothing_is_not_shown", renewal__that_changes_nothing_is_not_shown},
    {"adoption__counts_as_a_renewal_of_who_adopts", adoption__counts_as_a_renewal_of_who_adopts},
    {"carrier__is_shown_while_it_carries_the_call", carrier__is_shown_while_it_carries_the_call},
    {"carrier__that_is_silent_does_not_count", carrier__that_is_silent_does_not_count},
    {"state__follows_the_call", state__follows_the_call},
    {"refusal__is_known_for_ten_minutes_after_the_last_one",
     refusal__is_known_for_ten_minutes_after_the_last_one},
    {"refusal__is_shown_while_there_is_no_call_only", refusal__is_shown_while_there_is_no_call_only},
    {"filters__let_through_what_fits_all_of_them", filters__let_through_what_fits_all_of_them},
    {"filters__end_a_page_that_finds_too_little_with_a_cursor",
     filters__end_a_page_that_finds_too_little_with_a_cursor},
    {NULL, NULL},
};
