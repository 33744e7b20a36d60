/* cases_history.c - changes of configuration: strict reading, warnings, trials and versions, in every store.
 */
#include "../support/world.h"

#include <inttypes.h>

#define GOLD_2 "{\"gold\":2}"
#define TEXT_OF(target)                                                                                      \
    "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":" target "}},\"default_chain\":[\"gold\"]}"

static struct result *history(struct world *world, const char *merchant)
{
    return run(world, &(struct command){.type = COMMAND_HISTORY, .history = {.merchant_id = merchant}});
}

static struct result *tiers_change(struct world *world, const char *text, struct change change)
{
    return run(world,
               &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {.text = text, .change = change}});
}

static struct result *merchant_change(struct world *world, const char *text, struct change change)
{
    return run(world,
               &(struct command){.type = COMMAND_MERCHANT_SET,
                                 .merchant_set = {.merchant_id = "m", .text = text, .change = change}});
}

static struct result *merchant_remove(struct world *world, const char *id, struct change change)
{
    return run(world, &(struct command){.type = COMMAND_MERCHANT_REMOVE,
                                        .merchant_remove = {.merchant_id = id, .change = change}});
}

static void assert_version(const struct version_info *version, uint64_t number, uint64_t at_ms,
                           const char *by, const char *text)
{
    assert_int_equal(version->number, number);
    assert_true(version->at_ms == at_ms);
    assert_string_equal(version->by, by);
    assert_string_equal(version->text, text);
}

static void history__begins_with_the_tiers_before_the_first_change(void **state)
{
    const struct version_info *versions;
    struct world world;
    const char *first;

    world_init_pods(&world, *state, NULL, 5); /* pods move after the change: the answer is about the tiers */
    first = run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text;
    assert_int_equal(history(&world, NULL)->history.count, 1);
    assert_version(&world.result.history.versions[0], 1, 0, "", first);
    world_advance(&world, MINUTE);
    assert_int_equal(tiers_change(&world, GOLD_2, (struct change){.by = "API_KEY 2"})->outcome, OUTCOME_OK);
    assert_int_equal(world.result.change.version, 2);
    assert_true(world.result.change.is_changed);
    assert_string_equal(world.result.change.old_text, first);
    assert_string_equal(world.result.change.new_text, TEXT_OF("2"));
    assert_int_equal(history(&world, NULL)->history.count, 2);
    versions = world.result.history.versions;
    assert_version(&versions[0], 2, world_now(&world), "API_KEY 2", TEXT_OF("2"));
    assert_version(&versions[1], 1, 0, "", first);
    world_release(&world);
}

static void history__keeps_the_last_versions_and_counts_on(void **state)
{
    struct world world;
    char text[64];

    world_init(&world, *state, NULL);
    for (int i = 0; i < HISTORY_MAX + 5; i++) {
        snprintf(text, sizeof(text), "{\"gold\":%d}", i);
        assert_int_equal(tiers_set(&world, text)->change.version, i + 2);
    }
    assert_int_equal(history(&world, NULL)->history.count, HISTORY_MAX);
    assert_int_equal(world.result.history.versions[0].number, HISTORY_MAX + 6);
    assert_int_equal(world.result.history.versions[HISTORY_MAX - 1].number, 7);
    world_release(&world);
}

/* A job that sends the same configuration every minute must not push all others out. */
static void history__does_not_grow_if_nothing_changes(void **state)
{
    struct world world;

    world_init(&world, *state, NULL);
    tiers_set(&world, GOLD_2);
    assert_int_equal(tiers_set(&world, "{\"gold\":{\"target\":2}}")->outcome, OUTCOME_OK);
    assert_false(world.result.change.is_changed);
    assert_int_equal(world.result.change.version, 2);
    assert_int_equal(history(&world, NULL)->history.count, 2);
    merchant_set(&world, "m", "{}");
    assert_int_equal(merchant_set(&world, "m", "{}")->change.version, 1);
    assert_false(world.result.change.is_changed);
    assert_int_equal(history(&world, "m")->history.count, 1);
    world_release(&world);
}

static void history__of_a_merchant_survives_its_removal(void **state)
{
    const struct version_info *versions;
    struct world world;

    world_init(&world, *state, NULL);
    assert_int_equal(history(&world, "m")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(
        merchant_change(&world, "{\"tier\":\"gold\"}", (struct change){.by = "ops"})->change.version, 1);
    assert_string_equal(world.result.change.old_text, "");
    assert_int_equal(merchant_remove(&world, "m", (struct change){.by = "night"})->outcome, OUTCOME_OK);
    assert_string_equal(world.result.change.old_text, "{\"tier\":\"gold\"}");
    assert_string_equal(world.result.change.new_text, "");
    assert_int_equal(world.result.change.version, 2);
    assert_int_equal(history(&world, "m")->history.count, 2);
    versions = world.result.history.versions;
    assert_version(&versions[0], 2, world_now(&world), "night", "");
    assert_version(&versions[1], 1, world_now(&world), "ops", "{\"tier\":\"gold\"}");
    assert_int_equal(merchant_set(&world, "m", "{\"tier\":\"gold\"}")->change.version, 3);
    assert_int_equal(history(&world, "m")->history.count, 3);
    world_release(&world);
}

static void history__forgets_the_merchants_that_were_removed_first(void **state)
{
    struct world world;
    char id[32];

    world_init(&world, *state, NULL);
    for (int i = 0; i <= HISTORY_REMOVED_MAX + 1; i++) {
        snprintf(id, sizeof(id), "m%d", i);
        merchant_set(&world, id, "{}");
        merchant_remove(&world, id, (struct change){0});
        if (i == 2)
            merchant_set(&world, "m1", "{}"); /* it is back: its removal is none any more */
    }
    assert_int_equal(history(&world, "m0")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(history(&world, "m1")->history.count, 3);
    assert_int_equal(history(&world, "m2")->outcome, OUTCOME_OK);
    merchant_set(&world, "another", "{}");
    merchant_remove(&world, "another", (struct change){0});
    assert_int_equal(history(&world, "m2")->outcome, OUTCOME_NOT_FOUND);
    world_release(&world);
}

static void trial__says_what_would_change_and_changes_nothing(void **state)
{
    const struct change trial = {.is_trial = true};
    struct world world;
    const char *before;

    world_init(&world, *state, NULL);
    before = run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text;
    merchant_set(&world, "m", "{}");
    assert_int_equal(tiers_change(&world, GOLD_2, trial)->change.version, 2);
    assert_string_equal(world.result.change.old_text, before);
    assert_string_equal(world.result.change.new_text, TEXT_OF("2"));
    assert_int_equal(tiers_change(&world, "{\"gold\":{\"targt\":2}}", trial)->outcome, OUTCOME_INVALID);
    assert_int_equal(merchant_change(&world, "{\"tier\":\"glod\"}", trial)->change.version, 2);
    assert_int_equal(world.result.change.warnings.count, 1);
    assert_int_equal(merchant_remove(&world, "m", trial)->change.version, 2);
    assert_string_equal(world.result.change.old_text, "{}");
    assert_int_equal(merchant_remove(&world, "nobody", trial)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(history(&world, NULL)->history.count, 1);
    assert_int_equal(history(&world, "m")->history.count, 1);
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, before);
    assert_string_equal(
        run(&world, &(struct command){.type = COMMAND_MERCHANT, .merchant = {"m"}})->merchant.text, "{}");
    world_release(&world);
}

static void change__of_another_version_is_a_conflict(void **state)
{
    struct world world;

    world_init(&world, *state, NULL);
    assert_int_equal(tiers_change(&world, GOLD_2, (struct change){.if_version = 1})->outcome, OUTCOME_OK);
    assert_int_equal(tiers_change(&world, "{\"gold\":3}", (struct change){.if_version = 1})->outcome,
                     OUTCOME_CONFLICT);
    assert_non_null(strstr(world.result.error, "changed meanwhile"));
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, TEXT_OF("2"));
    merchant_set(&world, "m", "{}");
    assert_int_equal(
        merchant_change(&world, "{\"tier\":\"gold\"}", (struct change){.if_version = 2})->outcome,
        OUTCOME_CONFLICT);
    assert_int_equal(merchant_remove(&world, "m", (struct change){.if_version = 2})->outcome,
                     OUTCOME_CONFLICT);
    assert_int_equal(merchant_remove(&world, "m", (struct change){.if_version = 1})->outcome, OUTCOME_OK);
    world_release(&world);
}

/* A version is read as stored texts are: it may be older than a rule, or written by hand. */
static void change__back_to_a_stored_text_takes_what_no_request_could_send(void **state)
{
    const struct change back = {.is_stored = true};
    const char *odd = "{\"gold\":{\"target\":3,\"colour\":\"red\"}}";
    struct world world;

    world_init(&world, *state, NULL);
    assert_int_equal(tiers_set(&world, odd)->outcome, OUTCOME_INVALID);
    assert_int_equal(tiers_change(&world, odd, back)->outcome, OUTCOME_OK);
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, odd);
    assert_int_equal(tier(&world, "gold")->target, 3);
    assert_int_equal(tiers_change(&world, "{\"gold\":-1}", back)->outcome, OUTCOME_INVALID);
    assert_int_equal(merchant_set(&world, "m", "{\"note\":1}")->outcome, OUTCOME_INVALID);
    assert_int_equal(merchant_change(&world, "{\"note\":1}", back)->outcome, OUTCOME_OK);
    assert_int_equal(merchant_change(&world, "[]", back)->outcome, OUTCOME_INVALID);
    world_release(&world);
}

static void merchants__that_are_wrong_are_refused_and_change_nothing(void **state)
{
    static const struct {
        const char *text, *because;
    } wrong[] = {
        {"{\"teir\":\"gold\"}",
         "unknown member \"teir\" in the merchant's configuration; did you mean \"tier\"?"},
        {"{\"colour\":1}", "known are tier, pool, fallback, priority, hold_seconds and max_waiting"},
        {"{\"fallback\":\"gold\"}", "fallback must be an array"},
        {"{\"tier\":7}", "tier must be the name"},
        {"{\"tier\":\"gold\",\"tier\":\"gold\"}", "member \"tier\" is there twice"},
        {"{\"priority\":10}", "priority must be a whole number from 0 to 9"},
        {"{\"priority\":1.5}", "priority must be"},
        {"{\"hold_seconds\":-1}", "hold_seconds must be"},
        {"{\"max_waiting\":\"3\"}", "max_waiting must be"},
        {"{\"tier\":\n \"gold\",}", "not valid JSON: line 2, column 9"},
        {"[]", "must be a JSON object"},
    };
    struct world world;

    world_init(&world, *state, NULL);
    merchant_set(&world, "m", "{\"tier\":\"basic\"}");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(merchant_set(&world, "m", wrong[i].text)->outcome, OUTCOME_INVALID);
        if (!strstr(world.result.error, wrong[i].because))
            fail_msg("%s: %s", wrong[i].text, world.result.error);
    }
    assert_string_equal(
        run(&world, &(struct command){.type = COMMAND_MERCHANT, .merchant = {"m"}})->merchant.text,
        "{\"tier\":\"basic\"}");
    assert_int_equal(
        merchant_set(&world, "m", "{\"priority\":9,\"hold_seconds\":0,\"max_waiting\":50,\"pool\":null}")
            ->outcome,
        OUTCOME_OK);
    world_release(&world);
}

static void merchants__with_names_that_are_not_configured_get_warnings(void **state)
{
    static const struct {
        const char *text, *warning; /* NULL: none */
    } rows[] = {
        {"{\"tier\":\"gold\",\"pool\":\"9shines\",\"fallback\":[\"standard\",\"merchant:9shines\"]}", NULL},
        {"{\"tier\":\"glod\"}", "tier \"glod\" is not configured; did you mean \"gold\"?"},
        {"{\"pool\":\"9shine\"}", "pool \"9shine\" is not configured; did you mean \"9shines\"?"},
        {"{\"pool\":\"gold\"}", "pool \"gold\" is not configured; calls skip it until it is"},
        {"{\"fallback\":[\"gold\",\"platinum\"]}",
         "fallback \"platinum\" is not configured; calls skip it until it is"},
        {"{\"pool\":\"9shines\",\"tier\":\"dedicated\",\"fallback\":[\"none\"]}", NULL},
        {"{\"tier\":\"dedicated\"}", "tier \"dedicated\" is not configured; calls skip it until it is"},
    };
    struct world world;

    world_init(&world, *state, "{\"gold\":1,\"standard\":1,\"merchant:9shines\":1}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(merchant_set(&world, "m", rows[i].text)->outcome, OUTCOME_OK);
        assert_int_equal(world.result.change.warnings.count, rows[i].warning ? 1 : 0);
        if (rows[i].warning)
            assert_string_equal(world.result.change.warnings.names[0], rows[i].warning);
    }
    world_release(&world);
}

#define CASE(name)                                                                                           \
    {                                                                                                        \
#name, name                                                                                          \
    }

const struct world_case cases_history[] = {
    CASE(history__begins_with_the_tiers_before_the_first_change),
    CASE(history__keeps_the_last_versions_and_counts_on),
    CASE(history__does_not_grow_if_nothing_changes),
    CASE(history__of_a_merchant_survives_its_removal),
    CASE(history__forgets_the_merchants_that_were_removed_first),
    CASE(trial__says_what_would_change_and_changes_nothing),
    CASE(change__of_another_version_is_a_conflict),
    CASE(change__back_to_a_stored_text_takes_what_no_request_could_send),
    CASE(merchants__that_are_wrong_are_refused_and_change_nothing),
    CASE(merchants__with_names_that_are_not_configured_get_warnings),
    {NULL, NULL},
};
