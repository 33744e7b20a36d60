/* cases_calls.c - what every store answers: calls, merchants, pages. */
#include "../support/world.h"

static void pods__five_fill_the_default_tiers_and_carry_seven_calls(void **state)
{
    struct world world;

    world_init_pods(&world, *state, NULL, 5);
    assert_int_equal(tier(&world, "gold")->assigned, 1);
    assert_int_equal(tier(&world, "basic")->assigned, 1);
    assert_int_equal(tier(&world, "standard")->assigned, 3);
    allocate_many(&world, 7);
    assert_int_equal(allocate(&world, "CA7")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(world.result.allocate.refusal->count, 3);
    assert_string_equal(world.result.allocate.refusal->steps[2].pool, "pool:basic");
    assert_int_equal(world.result.allocate.refusal->steps[1].by_state[POD_BUSY], 3);
    assert_int_equal(tier(&world, "basic")->calls, 3);
    assert_int_equal(tier(&world, "basic")->free, 0);
    world_release(&world);
}

static void allocate__same_call_gets_the_same_pod(void **state)
{
    struct world world;
    const char *first;

    world_init_pods(&world, *state, NULL, 3);
    first = allocate_for(&world, "CA1", "acme")->allocate.call.pod;
    assert_false(world.result.allocate.was_existing);
    assert_string_equal(allocate_for(&world, "CA1", "other")->allocate.call.pod, first);
    assert_true(world.result.allocate.was_existing);
    assert_string_equal(world.result.allocate.call.merchant_id, "acme");
    world_release(&world);
}

static void allocate__refuses_names_that_are_none(void **state)
{
    struct world world;
    char long_sid[CALL_SID_MAX + 2];

    world_init_pods(&world, *state, NULL, 1);
    memset(long_sid, 'x', sizeof(long_sid));
    long_sid[CALL_SID_MAX + 1] = '\0';
    assert_int_equal(allocate(&world, "")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, long_sid)->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, "a b")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate(&world, "a\nb")->outcome, OUTCOME_INVALID);
    assert_int_equal(allocate_for(&world, "CA1", "a/b")->outcome, OUTCOME_INVALID);
    assert_int_equal(call_count(&world), 0);
    long_sid[CALL_SID_MAX] = '\0';
    assert_int_equal(allocate(&world, long_sid)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void shared__least_loaded_pod_is_taken(void **state)
{
    struct world world;
    char first[POD_NAME_MAX + 1];

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":2}}", 2);
    snprintf(first, sizeof(first), "%s", allocate(&world, "CA1")->allocate.call.pod);
    assert_string_not_equal(allocate(&world, "CA2")->allocate.call.pod, first);
    allocate(&world, "CA3");
    allocate(&world, "CA4");
    assert_int_equal(pod(&world, "voice-agent-0")->calls.count, 2);
    assert_int_equal(pod(&world, "voice-agent-1")->calls.count, 2);
    world_release(&world);
}

static void release__unknown_or_repeated_is_not_found_and_frees_nothing(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    allocate(&world, "CA1");
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.released_to, "pool:standard");
    /* The pod now belongs to another call: a late second release of the first must not touch it. */
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(allocate(&world, "CA3")->outcome, OUTCOME_NO_PODS);
    world_release(&world);
}

static void leave__releases_a_call_that_nobody_has_renewed_since(void **state)
{
    struct world world;
    const char *const sids[] = {"CA1"};
    uint64_t before_ms, after_ms;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    assert_int_equal(leave(&world, "CA1", 1)->outcome, OUTCOME_NOT_FOUND);
    before_ms = allocate(&world, "CA1")->allocate.call.expires_at_ms;
    after_ms = run(&world, &(struct command){.type = COMMAND_RENEW, .renew = {.call_sids = sids, .count = 1}})
                   ->renew.expires_at_ms;
    assert_true(before_ms != after_ms);
    assert_int_equal(leave(&world, "CA1", before_ms)->outcome, OUTCOME_CONFLICT);
    assert_false(world.result.release.is_carried);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(leave(&world, "CA1", after_ms)->outcome, OUTCOME_OK);
    assert_string_equal(world.result.release.call.call_sid, "CA1");
    assert_string_equal(world.result.release.released_to, "pool:standard");
    assert_int_equal(leave(&world, "CA1", after_ms)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void drain__released_call_does_not_make_the_pod_available(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 1);
    allocate(&world, "CA1");
    drain(&world, "voice-agent-0", 0);
    assert_true(release(&world, "CA1")->release.was_draining);
    assert_string_equal(world.result.release.released_to, "");
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_int_equal(undrain(&world, "voice-agent-0")->outcome, OUTCOME_OK);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_OK);
    assert_int_equal(undrain(&world, "nobody")->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void move__takes_the_call_to_another_pod_and_puts_the_first_aside(void **state)
{
    struct world world;
    struct call_info before;
    char from[POD_NAME_MAX + 1];

    world_init_pods(&world, *state, "{\"standard\":1}", 2);
    before = allocate_for(&world, "CA1", "acme")->allocate.call;
    snprintf(from, sizeof(from), "%s", before.pod);
    renew(&world, "CA1");
    world_advance(&world, 10 * MINUTE);
    assert_int_equal(move(&world, "CA1", from, MINUTE)->outcome, OUTCOME_OK);
    assert_true(world.result.move.was_moved);
    assert_string_equal(world.result.move.call.call_sid, "CA1");
    assert_string_not_equal(world.result.move.call.pod, from);
    assert_string_equal(world.result.move.call.address, "10.0.0.1:8000");
    assert_string_equal(world.result.move.call.pool, "pool:standard");
    assert_string_equal(world.result.move.call.merchant_id, "acme");
    assert_string_equal(world.result.move.call.provider, "twilio");
    assert_int_equal(world.result.move.call.allocated_at_ms, before.allocated_at_ms);
    /* Nobody has renewed it on its new pod: the lease is that of a new call. */
    assert_true(world.result.move.call.expires_at_ms >= before.expires_at_ms + 10 * MINUTE);
    assert_int_equal(call_count(&world), 1);
    assert_int_equal(pod(&world, from)->state, POD_DRAINING);
    assert_int_equal(world.result.pod.calls.count, 0);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_string_not_equal(allocate(&world, "CA1")->allocate.call.pod, from);
    assert_int_equal(world.result.allocate.call.allocated_at_ms, before.allocated_at_ms);
    world_advance(&world, MINUTE);
    assert_int_equal(sweep(&world)->sweep.recovered, 1);
    assert_string_equal(allocate(&world, "CA2")->allocate.call.pod, from);
    /* The slot that it left is no longer its own to free. */
    assert_string_not_equal(release(&world, "CA1")->release.call.pod, from);
    assert_int_equal(pod(&world, from)->calls.count, 1);
    world_release(&world);
}

static void move__repeated_or_too_late_changes_nothing(void **state)
{
    struct world world;
    char from[POD_NAME_MAX + 1];
    char to[POD_NAME_MAX + 1];
    uint64_t until;

    world_init_pods(&world, *state, "{\"standard\":1}", 3);
    assert_int_equal(move(&world, "CA1", "voice-agent-0", MINUTE)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    snprintf(from, sizeof(from), "%s", allocate(&world, "CA1")->allocate.call.pod);
    snprintf(to, sizeof(to), "%s", move(&world, "CA1", from, MINUTE)->move.call.pod);
    until = world.result.move.call.expires_at_ms;
    world_advance(&world, 1000);
    assert_int_equal(move(&world, "CA1", from, MINUTE)->outcome, OUTCOME_OK);
    assert_false(world.result.move.was_moved);
    assert_string_equal(world.result.move.call.pod, to);
    assert_int_equal(world.result.move.call.expires_at_ms, until);
    assert_int_equal(move(&world, "CA1", "nobody", MINUTE)->outcome, OUTCOME_OK);
    assert_false(world.result.move.was_moved);
    assert_int_equal(pod(&world, to)->state, POD_BUSY);
    renew(&world, "CA1");
    world_advance(&world, 15 * MINUTE);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(move(&world, "CA1", to, MINUTE)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(world.told, 1);
    assert_int_equal(pod(&world, to)->state, POD_AVAILABLE);
    world_release(&world);
}

static void move__without_another_pod_leaves_the_call_but_puts_its_pod_aside(void **state)
{
    struct world world;
    uint64_t until;

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":3,\"target\":1}}", 1);
    until = allocate(&world, "CA1")->allocate.call.expires_at_ms;
    allocate(&world, "CA2");
    world_advance(&world, 1000);
    assert_int_equal(move(&world, "CA1", "voice-agent-0", 0)->outcome, OUTCOME_NO_PODS);
    assert_int_equal(world.result.move.refusal->count, 1);
    assert_int_equal(world.result.move.refusal->steps[0].by_state[POD_DRAINING], 1);
    assert_int_equal(pod(&world, "voice-agent-0")->calls.count, 2);
    assert_int_equal(world.result.pod.state, POD_DRAINING);
    assert_int_equal(allocate(&world, "CA3")->outcome, OUTCOME_NO_PODS);
    assert_true(allocate(&world, "CA1")->allocate.was_existing);
    assert_int_equal(world.result.allocate.call.expires_at_ms, until);
    /* Another pod comes: one of the two calls goes there, the other stays. */
    see(&world, seen_of("voice-agent-1"));
    assert_string_equal(move(&world, "CA1", "voice-agent-0", 1000)->move.call.pod, "voice-agent-1");
    assert_int_equal(pod(&world, "voice-agent-0")->calls.count, 1);
    assert_string_equal(world.result.pod.newest_call, "CA2");
    assert_string_equal(pod(&world, "voice-agent-1")->newest_call, "CA1");
    assert_int_equal(tier(&world, "s")->calls, 2);
    assert_int_equal(tier(&world, "s")->free, 2);
    /* The default that was given first is longer, and was not cut short. */
    world_advance(&world, 5 * MINUTE);
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_DRAINING);
    world_advance(&world, MINUTE);
    sweep(&world);
    assert_int_equal(pod(&world, "voice-agent-0")->state, POD_AVAILABLE);
    world_release(&world);
}

static void move__follows_the_chain_of_the_merchant(void **state)
{
    struct world world;

    world_init(&world, *state, "{\"gold\":1,\"standard\":1,\"merchant:9shines\":1}");
    merchant_set(&world, "own", "{\"pool\":\"9shines\",\"fallback\":[\"standard\"]}");
    add_pods(&world, 3);
    assert_string_equal(allocate_for(&world, "CA1", "own")->allocate.call.pool, "merchant:9shines");
    assert_string_equal(move(&world, "CA1", world.result.allocate.call.pod, 0)->move.call.pool,
                        "pool:standard");
    assert_int_equal(move(&world, "CA1", world.result.move.call.pod, 0)->outcome, OUTCOME_NO_PODS);
    assert_int_equal(tier(&world, "gold")->free, 1);
    world_release(&world);
}

static void heartbeat__adopts_what_was_lost_and_reports_what_does_not_fit(void **state)
{
    struct world world;

    world_init_pods(&world, *state, "{\"standard\":1}", 2);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA1")->heartbeat.adopted.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA1")->heartbeat.renewed.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-0", "CA2")->heartbeat.conflicts.count, 1);
    assert_int_equal(heartbeat(&world, "voice-agent-1", "CA1")->heartbeat.conflicts.count, 1);
    assert_int_equal(call_count(&world), 1);
    assert_string_equal(allocate(&world, "CA3")->allocate.call.pod, "voice-agent-1");
    assert_int_equal(allocate(&world, "CA4")->outcome, OUTCOME_NO_PODS);
    world_release(&world);
}

static void merchants__choose_their_chain(void **state)
{
    struct world world;
    const struct {
        const char *id, *text;
    } merchants[] = {{"gold-one", "{\"tier\":\"gold\"}"},
                     {"plain", "{\"tier\":\"standard\"}"},
                     {"vip", "{\"tier\":\"night\"}"},
                     {"own", "{\"pool\":\"9shines\"}"},
                     {"lost", "{\"pool\":\"nobody\",\"fallback\":[\"gold\"]}"}};

    world_init_pods(
        &world, *state,
        "{\"tiers\":{\"gold\":1,\"standard\":1,\"night\":{\"target\":1,\"reserved\":true},"
        "\"merchant:9shines\":{\"target\":1}},\"default_chain\":[\"gold\",\"standard\",\"night\"]}",
        4);
    for (size_t i = 0; i < ARRAY_LEN(merchants); i++)
        assert_int_equal(merchant_set(&world, merchants[i].id, merchants[i].text)->outcome, OUTCOME_OK);
    assert_string_equal(allocate_for(&world, "CA1", "own")->allocate.call.pool, "merchant:9shines");
    assert_string_equal(allocate_for(&world, "CA2", "plain")->allocate.call.pool, "pool:standard");
    assert_int_equal(allocate_for(&world, "CA3", "plain")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(allocate_for(&world, "CA4", "unknown")->allocate.call.pool, "pool:gold");
    assert_int_equal(allocate_for(&world, "CA5", "lost")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(world.result.allocate.refusal->steps[0].pool, "merchant:nobody");
    assert_false(world.result.allocate.refusal->steps[0].is_configured);
    assert_int_equal(allocate(&world, "CA6")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(allocate_for(&world, "CA7", "vip")->allocate.call.pool, "pool:night");
    assert_int_equal(merchant_set(&world, "plain", "{\"tier\":1}")->outcome, OUTCOME_INVALID);
    run(&world, &(struct command){.type = COMMAND_MERCHANT, .merchant = {.merchant_id = "plain"}});
    assert_string_equal(world.result.merchant.text, "{\"tier\":\"standard\"}");
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_MERCHANT_REMOVE,
                                                   .merchant_remove = {.merchant_id = "plain"}})
                         ->outcome,
                     OUTCOME_OK);
    assert_int_equal(run(&world, &(struct command){.type = COMMAND_MERCHANT_REMOVE,
                                                   .merchant_remove = {.merchant_id = "plain"}})
                         ->outcome,
                     OUTCOME_NOT_FOUND);
    run(&world, &(struct command){.type = COMMAND_MERCHANTS});
    assert_int_equal(world.result.merchants.ids.count, 4);
    assert_string_equal(world.result.merchants.ids.names[0], "gold-one");
    world_release(&world);
}

static void refusals__are_remembered_up_to_a_limit(void **state)
{
    struct world world;
    char sid[16];

    world_init(&world, *state, NULL);
    for (int i = 0; i < 1500; i++) {
        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(allocate(&world, sid)->outcome, OUTCOME_NO_PODS);
        arena_reset(&world.arena);
    }
    allocate(&world, "CA1499");
    run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1499"}});
    assert_int_equal(world.result.outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(world.result.call.refusal->count, 3);
    assert_string_equal(world.result.call.refusal->steps[0].pool, "pool:gold");
    run(&world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = "CA1"}});
    assert_null(world.result.call.refusal);
    world_release(&world);
}

static void pages__visit_every_pod_and_every_call_once(void **state)
{
    struct world world;
    struct command command = {.type = COMMAND_PODS, .pods = {.state = -1, .limit = 7}};
    size_t seen = 0;
    char last[POD_NAME_MAX + 1] = "";

    world_init_pods(&world, *state, "{\"standard\":100}", 50);
    allocate_many(&world, 30);
    do {
        run(&world, &command);
        assert_int_equal(world.result.pods.total, 50);
        for (size_t i = 0; i < world.result.pods.count; i++) {
            assert_true(strcmp(last, world.result.pods.pods[i].name) < 0);
            snprintf(last, sizeof(last), "%s", world.result.pods.pods[i].name);
        }
        seen += world.result.pods.count;
        command.pods.cursor = world.result.pods.next_cursor;
    } while (command.pods.cursor[0]);
    assert_int_equal(seen, 50);
    command = (struct command){.type = COMMAND_PODS, .pods = {.state = POD_BUSY, .tier = "standard"}};
    assert_int_equal(run(&world, &command)->pods.count, 30);
    assert_int_equal(world.result.pods.total, 30);
    command.pods.tier = "gold";
    assert_int_equal(run(&world, &command)->pods.count, 0);
    command = (struct command){.type = COMMAND_CALLS, .calls = {.limit = 4}};
    seen = 0;
    do {
        run(&world, &command);
        seen += world.result.calls.count;
        command.calls.cursor = world.result.calls.next_cursor;
    } while (command.calls.cursor[0]);
    assert_int_equal(seen, 30);
    command.calls.cursor = "x";
    assert_int_equal(run(&world, &command)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

static void merchants__come_in_pages_sorted_by_id(void **state)
{
    struct command command = {.type = COMMAND_MERCHANTS, .merchants = {.limit = 7}};
    char last[MERCHANT_ID_MAX + 1] = "";
    size_t seen = 0;
    struct world world;

    world_init(&world, *state, NULL);
    for (int i = 0; i < 50; i++) {
        char id[16];

        snprintf(id, sizeof(id), "m%d", i);
        merchant_set(&world, id, "{}");
    }
    do {
        run(&world, &command);
        assert_int_equal(world.result.merchants.total, 50);
        assert_int_equal(world.result.merchants.ids.count, world.result.merchants.texts.count);
        assert_in_range(world.result.merchants.ids.count, 1, 7);
        for (size_t i = 0; i < world.result.merchants.ids.count; i++) {
            assert_true(strcmp(last, world.result.merchants.ids.names[i]) < 0);
            snprintf(last, sizeof(last), "%s", world.result.merchants.ids.names[i]);
        }
        seen += world.result.merchants.ids.count;
        command.merchants.cursor = world.result.merchants.next_cursor;
    } while (command.merchants.cursor[0]);
    assert_int_equal(seen, 50);
    command = (struct command){.type = COMMAND_MERCHANTS};
    assert_int_equal(run(&world, &command)->merchants.ids.count, 50);
    command.merchants.cursor = "z"; /* need not exist */
    assert_int_equal(run(&world, &command)->merchants.ids.count, 0);
    assert_string_equal(world.result.merchants.next_cursor, "");
    world_release(&world);
}

static void merchants__page_ends_early_when_its_texts_are_long(void **state)
{
    enum { LONG = MERCHANT_CONFIG_TEXT_MAX, FIT = PAGE_TEXTS_MAX / LONG };
    struct command command = {.type = COMMAND_MERCHANTS};
    char text[LONG + 1];
    struct world world;

    memset(text, ' ', LONG);
    text[0] = '{';
    text[LONG - 1] = '}';
    text[LONG] = '\0';
    world_init(&world, *state, NULL);
    for (int i = 0; i < FIT + 10; i++) {
        char id[16];

        snprintf(id, sizeof(id), "m%d", i);
        assert_int_equal(merchant_set(&world, id, text)->outcome, OUTCOME_OK);
        arena_reset(&world.arena);
    }
    assert_int_equal(run(&world, &command)->merchants.ids.count, FIT + 1);
    command.merchants.cursor = world.result.merchants.next_cursor;
    assert_int_equal(run(&world, &command)->merchants.ids.count, 9);
    assert_string_equal(world.result.merchants.next_cursor, "");
    world_release(&world);
}

const struct world_case cases_calls[] = {
    {"pods__five_fill_the_default_tiers_and_carry_seven_calls",
     pods__five_fill_the_default_tiers_and_carry_seven_calls},
    {"allocate__same_call_gets_the_same_pod", allocate__same_call_gets_the_same_pod},
    {"allocate__refuses_names_that_are_none", allocate__refuses_names_that_are_none},
    {"shared__least_loaded_pod_is_taken", shared__least_loaded_pod_is_taken},
    {"release__unknown_or_repeated_is_not_found_and_frees_nothing",
     release__unknown_or_repeated_is_not_found_and_frees_nothing},
    {"leave__releases_a_call_that_nobody_has_renewed_since",
     leave__releases_a_call_that_nobody_has_renewed_since},
    {"drain__released_call_does_not_make_the_pod_available",
     drain__released_call_does_not_make_the_pod_available},
    {"move__takes_the_call_to_another_pod_and_puts_the_first_aside",
     move__takes_the_call_to_another_pod_and_puts_the_first_aside},
    {"move__repeated_or_too_late_changes_nothing", move__repeated_or_too_late_changes_nothing},
    {"move__without_another_pod_leaves_the_call_but_puts_its_pod_aside",
     move__without_another_pod_leaves_the_call_but_puts_its_pod_aside},
    {"move__follows_the_chain_of_the_merchant", move__follows_the_chain_of_the_merchant},
    {"heartbeat__adopts_what_was_lost_and_reports_what_does_not_fit",
     heartbeat__adopts_what_was_lost_and_reports_what_does_not_fit},
    {"merchants__choose_their_chain", merchants__choose_their_chain},
    {"refusals__are_remembered_up_to_a_limit", refusals__are_remembered_up_to_a_limit},
    {"pages__visit_every_pod_and_every_call_once", pages__visit_every_pod_and_every_call_once},
    {"merchants__come_in_pages_sorted_by_id", merchants__come_in_pages_sorted_by_id},
    {"merchants__page_ends_early_when_its_texts_are_long",
     merchants__page_ends_early_when_its_texts_are_long},
    {NULL, NULL},
};
