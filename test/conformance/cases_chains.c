/* cases_chains.c - which pools a merchant's calls try, and how the tiers are stored: the same in every store.
 */
#include "../support/world.h"

/* There are no pods: the refusal names every pool that was tried. */
static void assert_chain(struct world *world, const char *merchant, const char *expected)
{
    const struct refusal *refusal;
    char chain[512] = "";
    size_t len = 0;

    if (merchant)
        assert_int_equal(merchant_set(world, "m", merchant)->outcome, OUTCOME_OK);
    assert_int_equal(allocate_for(world, "CA1", "m")->outcome, OUTCOME_NO_PODS);
    assert_false(world->result.allocate.merchant_unreadable);
    refusal = world->result.allocate.refusal;
    for (size_t i = 0; i < refusal->count; i++)
        len += (size_t)snprintf(chain + len, sizeof(chain) - len, "%s%s%s", i ? " " : "",
                                refusal->steps[i].is_configured ? "" : "?", refusal->steps[i].pool);
    if (strcmp(chain, expected) != 0)
        fail_msg("%s: %s instead of %s", merchant ? merchant : "none", chain, expected);
}

#define DEFAULT "pool:gold pool:standard pool:basic"

/* The table of SPEC section 3, and what follows from it. */
static void chains__are_those_of_the_specification(void **state)
{
    static const struct {
        const char *merchant, *chain;
    } rows[] = {
        {NULL, DEFAULT},
        {"{}", DEFAULT},
        {"{\"tier\":\"gold\"}", DEFAULT},
        {"{\"tier\":\"standard\"}", "pool:standard pool:basic"},
        {"{\"tier\":\"vip\"}", "merchant:vip " DEFAULT},
        {"{\"tier\":\"merchant:vip\"}", "merchant:vip " DEFAULT},
        {"{\"tier\":\"hall\"}", "pool:hall " DEFAULT},
        {"{\"tier\":\"a@b:c\"}", "merchant:a@b:c " DEFAULT},
        {"{\"tier\":\"nowhere\"}", DEFAULT},
        {"{\"pool\":\"9shines\"}", "merchant:9shines " DEFAULT},
        {"{\"pool\":\"9shines\",\"tier\":\"dedicated\"}", "merchant:9shines " DEFAULT},
        {"{\"pool\":\"nobody\"}", "?merchant:nobody " DEFAULT},
        {"{\"fallback\":[\"standard\",\"basic\"]}", "pool:standard pool:basic"},
        {"{\"fallback\":[\"standard\",\"what\",\"night\"]}", "pool:standard pool:night"},
        {"{\"fallback\":[\"acme\",\"merchant:vip\",\"hall\"]}", "merchant:acme merchant:vip pool:hall"},
        {"{\"fallback\":[\"what\",\"none\"]}", ""},
        {"{\"tier\":\"gold\",\"fallback\":[\"none\"]}", ""},
        {"{\"pool\":\"acme\",\"fallback\":[\"none\"]}", "merchant:acme"},
        {"{\"pool\":\"nobody\",\"fallback\":[\"none\"]}", "?merchant:nobody"},
        {"{\"pool\":\"acme\",\"fallback\":[\"gold\"]}", "merchant:acme pool:gold"},
        {"{\"pool\":\"acme\",\"fallback\":[]}", "merchant:acme " DEFAULT},
    };
    struct world world;

    world_init(&world, *state,
               "{\"tiers\":{\"gold\":1,\"standard\":1,\"basic\":{\"type\":\"shared\",\"target\":1},"
               "\"night\":{\"reserved\":true},\"vip\":1,\"hall\":{\"type\":\"shared\"},\"9shines\":2,"
               "\"merchant:acme\":1,\"a@b:c\":1},"
               "\"default_chain\":[\"gold\",\"night\",\"standard\",\"basic\"]}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_chain(&world, rows[i].merchant, rows[i].chain);
    world_release(&world);
}

static void chains__a_tier_wins_over_a_pool_of_the_same_name(void **state)
{
    struct world world;

    world_init(&world, *state,
               "{\"tiers\":{\"gold\":1,\"standard\":1,\"merchant:gold\":1},"
               "\"default_chain\":[\"gold\",\"standard\"]}");
    assert_chain(&world, "{\"tier\":\"gold\"}", "pool:gold pool:standard");
    assert_chain(&world, "{\"tier\":\"merchant:gold\"}", "merchant:gold pool:gold pool:standard");
    assert_chain(&world, "{\"pool\":\"gold\",\"fallback\":[\"gold\"]}", "merchant:gold pool:gold");
    world_release(&world);
}

/* The pods of a pool in the plain spelling serve its merchant, and nobody else. */
static void pools__in_the_plain_spelling_serve_their_merchant(void **state)
{
    struct world world;
    struct pod_seen pinned = seen_of("box-1");

    world_init_pods(&world, *state,
                    "{\"tiers\":{\"gold\":1,\"9shines\":{\"type\":\"exclusive\",\"target\":2}},"
                    "\"default_chain\":[\"gold\"]}",
                    3);
    assert_int_equal(tier(&world, "merchant:9shines")->assigned, 2);
    merchant_set(&world, "m", "{\"pool\":\"9shines\",\"fallback\":[\"__nonexistent__\"]}");
    assert_string_equal(allocate(&world, "CA1")->allocate.call.pool, "pool:gold");
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(allocate_for(&world, "CA3", "m")->allocate.call.pool, "merchant:9shines");
    assert_string_equal(allocate_for(&world, "CA4", "m")->allocate.call.pool, "merchant:9shines");
    assert_int_equal(allocate_for(&world, "CA5", "m")->outcome, OUTCOME_NO_PODS);
    release(&world, "CA1"); /* its fallback says so: it takes no other pod */
    assert_int_equal(allocate_for(&world, "CA5", "m")->outcome, OUTCOME_NO_PODS);
    assert_string_equal(release(&world, "CA3")->release.released_to, "merchant:9shines");
    /* A pod may ask for the pool in either spelling. */
    pinned.tier = "9shines";
    assert_string_equal(see(&world, pinned)->pod_seen.tier, "merchant:9shines");
    pinned = seen_of("box-2");
    pinned.tier = "merchant:9shines";
    assert_string_equal(see(&world, pinned)->pod_seen.tier, "merchant:9shines");
    world_release(&world);
}

static void assert_stored(struct world *world, const char *text, const char *expected)
{
    assert_int_equal(tiers_set(world, text)->outcome, OUTCOME_OK);
    assert_string_equal(run(world, &(struct command){.type = COMMAND_TIERS})->tiers.text, expected);
}

static void tiers__are_stored_in_one_form(void **state)
{
    struct world world;

    world_init(&world, *state, NULL);
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text,
                        "{\"tiers\":{\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":3},"
                        "\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                        "\"standard\":{\"type\":\"exclusive\",\"target\":1}},"
                        "\"default_chain\":[\"gold\",\"standard\",\"basic\"]}");
    assert_stored(&world,
                  "{\"gold\":1,\"merchant:9shines\":2,\"s\":{\"type\":\"shared\",\"max_concurrent\":0}}",
                  "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                  "\"s\":{\"type\":\"shared\",\"target\":0,\"max_concurrent\":5},"
                  "\"9shines\":{\"type\":\"exclusive\",\"target\":2}},\"default_chain\":[\"gold\",\"s\"]}");
    assert_stored(&world,
                  "{\"default_chain\":[\"gold\"],\"tiers\":{\"vip\":{\"reserved\":true},\"gold\":1,"
                  "\"merchant:gold\":{\"reserved\":false}}}",
                  "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                  "\"merchant:gold\":{\"type\":\"exclusive\",\"target\":0},"
                  "\"vip\":{\"type\":\"exclusive\",\"target\":0,\"reserved\":true}},"
                  "\"default_chain\":[\"gold\"]}");
    assert_stored(
        &world, "{\"gold\":{\"max\":9,\"buffer\":2,\"min\":1}}",
        "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":0,\"buffer\":2,\"min\":1,\"max\":9}},"
        "\"default_chain\":[\"gold\"]}");
    world_release(&world);
}

static void tiers__that_are_wrong_are_refused_and_change_nothing(void **state)
{
    static const struct {
        const char *text, *because;
    } wrong[] = {
        {"{\"gold\":{\"targt\":2}}", "unknown member \"targt\" in tier \"gold\"; did you mean \"target\"?"},
        {"{\"gold\":{\"colour\":2}}",
         "known are type, target, max_concurrent, reserved, buffer, min and max"},
        {"{\"gold\":{\"target\":2,\"target\":3}}", "member \"target\" is there twice in tier \"gold\""},
        {"{\"gold\":1,\"gold\":2}", "tier \"gold\" is there twice"},
        {"{\"gold\":{\"min\":3,\"max\":2}}", "min is greater than max"},
        {"{\"gold\":{\"buffer\":-1}}", "buffer must be a whole number"},
        {"{\"tiers\":{\"gold\":1},\"chain\":[\"gold\"]}", "unknown member \"chain\" beside \"tiers\""},
        {"{\"tiers\":{\"gold\":1},\"tiers\":{\"silver\":1}}", "member \"tiers\" is there twice"},
        {"{\"gold\":1,\"default_chain\":[\"gold\"]}", "default_chain needs the tiers in \"tiers\" beside it"},
        {"{\n\"gold\": 1,\n}", "not valid JSON: line 3, column 1"},
        {"{\"tiers\":{\"gold\":1},\"default_chain\":[\"gold\",\"sliver\"]}",
         "\"sliver\", which is not a tier"},
        {"{\"tiers\":{\"gold\":1,\"m\":1,\"merchant:m\":1},\"default_chain\":[\"gold\"]}", "is there twice"},
        {"{\"gold\":-1}", "target must be"},
    };
    struct world world;
    const char *before;

    world_init(&world, *state, NULL);
    before = run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(tiers_set(&world, wrong[i].text)->outcome, OUTCOME_INVALID);
        assert_non_null(strstr(world.result.error, wrong[i].because));
    }
    assert_string_equal(run(&world, &(struct command){.type = COMMAND_TIERS})->tiers.text, before);
    world_release(&world);
}

const struct world_case cases_chains[] = {
    {"chains__are_those_of_the_specification", chains__are_those_of_the_specification},
    {"chains__a_tier_wins_over_a_pool_of_the_same_name", chains__a_tier_wins_over_a_pool_of_the_same_name},
    {"pools__in_the_plain_spelling_serve_their_merchant", pools__in_the_plain_spelling_serve_their_merchant},
    {"tiers__are_stored_in_one_form", tiers__are_stored_in_one_form},
    {"tiers__that_are_wrong_are_refused_and_change_nothing",
     tiers__that_are_wrong_are_refused_and_change_nothing},
    {NULL, NULL},
};
