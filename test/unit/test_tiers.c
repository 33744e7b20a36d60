/* test_tiers.c - the tier configuration in its three forms, and the chains that follow from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/merchant.h"
#include "core/tiers.h"

static struct tier_config *parse(const char *text)
{
    struct tier_config *config = NULL;
    char error[256] = "";
    int rc = tier_config_parse(text, text ? strlen(text) : 0, &config, error, sizeof(error));

    if (rc)
        print_error("%s: %s\n", text, error);
    assert_int_equal(rc, 0);
    return config;
}

static struct tier_config *parse_stored(const char *text)
{
    struct tier_config *config = NULL;
    char error[256] = "";
    int rc = tier_config_parse_stored(text, strlen(text), &config, error, sizeof(error));

    if (rc)
        print_error("%s: %s\n", text, error);
    assert_int_equal(rc, 0);
    return config;
}

static void refuses_strictly(const char *text, const char *because)
{
    struct tier_config *config = NULL;
    char error[256] = "";

    assert_int_equal(tier_config_parse(text, strlen(text), &config, error, sizeof(error)), -EINVAL);
    assert_null(config);
    if (!strstr(error, because))
        fail_msg("%s: expected \"%s\" in \"%s\"", text, because, error);
}

/* Whoever wrote it: also as a stored one. */
static void refuses(const char *text, const char *because)
{
    struct tier_config *config = NULL;
    char error[256] = "";

    refuses_strictly(text, because);
    assert_int_equal(tier_config_parse_stored(text, strlen(text), &config, error, sizeof(error)), -EINVAL);
    assert_null(config);
    assert_true(strlen(error) > 10);
}

static void chain_of(const struct tier_config *config, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < config->chain_len; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s", i ? " " : "",
                                config->tiers[config->chain[i]].name);
}

static void assert_chain(const char *config_text, const char *expected)
{
    struct tier_config *config = parse(config_text);
    char text[256];

    chain_of(config, text, sizeof(text));
    assert_string_equal(text, expected);
    tier_config_free(config);
}

static void defaults__give_gold_standard_basic(void **state UNUSED)
{
    const char *nothing[] = {NULL, "", "{}", " {} "};

    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        struct tier_config *config = parse(nothing[i]);
        const struct tier *basic = tier_config_find(config, "basic");

        assert_int_equal(config->tier_count, 3);
        assert_true(basic->is_shared);
        assert_int_equal(basic->max_concurrent, 3);
        assert_int_equal(tier_config_find(config, "gold")->target, 1);
        assert_string_equal(config->tiers[config->default_tier].name, "standard");
        tier_config_free(config);
        assert_chain(nothing[i], "gold standard basic");
    }
}

static void forms__envelope_map_and_integers(void **state UNUSED)
{
    struct tier_config *config;

    assert_chain(
        "{\"tiers\":{\"a\":{\"target\":2},\"b\":{\"type\":\"shared\"}},\"default_chain\":[\"b\",\"a\"]}",
        "b a");
    assert_chain("{\"z\":{\"type\":\"exclusive\"},\"a\":{\"type\":\"shared\"},\"m\":{}}", "m z a");
    assert_chain("{\"standard\":3,\"gold\":1}", "gold standard");
    config = parse("{\"s\":{\"type\":\"shared\"},\"merchant:9shines\":{\"target\":2},\"x\":7}");
    assert_int_equal(tier_config_find(config, "s")->max_concurrent, TIER_CONCURRENT_DEFAULT);
    assert_int_equal(tier_config_find(config, "s")->target, 0);
    assert_int_equal(tier_config_find(config, "x")->target, 7);
    assert_true(tier_config_find(config, "merchant:9shines")->is_merchant);
    assert_int_equal(tier_config_find(config, "merchant:9shines")->max_concurrent, 1);
    assert_null(tier_config_find(config, "y"));
    tier_config_free(config);
}

/* What `text` is stored as. Read again, in either way, it must be the same. */
static void assert_stored_as(const char *text, const char *expected)
{
    struct tier_config *config = parse(text);
    struct tier_config *again = parse(config->text);
    struct tier_config *stored = parse_stored(config->text);
    struct strbuf buf;

    assert_string_equal(config->text, expected);
    assert_string_equal(again->text, expected);
    assert_string_equal(stored->text, expected);
    strbuf_init(&buf, NULL, TIER_CONFIG_STORED_MAX);
    tier_config_write(stored, &buf);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
    assert_int_equal(again->tier_count, config->tier_count);
    for (size_t i = 0; i < config->tier_count; i++) {
        assert_string_equal(again->tiers[i].name, config->tiers[i].name);
        assert_int_equal(again->tiers[i].is_merchant, config->tiers[i].is_merchant);
    }
    tier_config_free(config);
    tier_config_free(again);
    tier_config_free(stored);
}

static void text__is_an_envelope_with_plain_names(void **state UNUSED)
{
    assert_stored_as("{\"s\":{\"type\":\"shared\"},\"merchant:9shines\":{\"target\":2},\"x\":7}",
                     "{\"tiers\":{\"s\":{\"type\":\"shared\",\"target\":0,\"max_concurrent\":5},"
                     "\"x\":{\"type\":\"exclusive\",\"target\":7},"
                     "\"9shines\":{\"type\":\"exclusive\",\"target\":2}},\"default_chain\":[\"x\",\"s\"]}");
    assert_stored_as("{\"tiers\":{\"vip\":{\"reserved\":true,\"target\":1},\"n\":{\"type\":\"shared\"},"
                     "\"gold\":{\"max_concurrent\":4}},\"default_chain\":[\"gold\"]}",
                     "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":0},"
                     "\"n\":{\"type\":\"shared\",\"target\":0,\"max_concurrent\":5},"
                     "\"vip\":{\"type\":\"exclusive\",\"target\":1,\"reserved\":true}},"
                     "\"default_chain\":[\"gold\"]}");
    assert_stored_as("", "{\"tiers\":{\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":3},"
                         "\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                         "\"standard\":{\"type\":\"exclusive\",\"target\":1}},"
                         "\"default_chain\":[\"gold\",\"standard\",\"basic\"]}");
}

/* Its plain name is taken, or looks like the other spelling. */
static void text__keeps_the_prefix_of_a_pool_where_it_is_needed(void **state UNUSED)
{
    assert_stored_as(
        "{\"tiers\":{\"gold\":1,\"merchant:gold\":2},\"default_chain\":[\"gold\"]}",
        "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
        "\"merchant:gold\":{\"type\":\"exclusive\",\"target\":2}},\"default_chain\":[\"gold\"]}");
    assert_stored_as("{\"gold\":1,\"merchant:merchant:x\":2,\"merchant:tiers\":3}",
                     "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                     "\"merchant:merchant:x\":{\"type\":\"exclusive\",\"target\":2},"
                     "\"tiers\":{\"type\":\"exclusive\",\"target\":3}},\"default_chain\":[\"gold\"]}");
}

static void text__of_a_stored_configuration_is_what_was_read(void **state UNUSED)
{
    const char *texts[] = {"{}", " {\"gold\":1 }", "{\"tiers\":{\"a\":1,\"b\":1},\"default_chain\":[\"a\"]}"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct tier_config *config = parse_stored(texts[i]);

        assert_string_equal(config->text, texts[i]);
        assert_string_equal(config->skipped, "");
        tier_config_free(config);
    }
}

static void pools__are_the_exclusive_tiers_outside_an_explicit_chain(void **state UNUSED)
{
    struct tier_config *config =
        parse("{\"tiers\":{\"gold\":1,\"9shines\":{\"type\":\"exclusive\",\"target\":2},\"a@b:c+d=\":3,"
              "\"merchant:m\":4,\"merchant:gold\":5,\"night\":{\"type\":\"shared\"}},"
              "\"default_chain\":[\"gold\"]}");
    char name[MERCHANT_ID_MAX + 1];
    char text[512];

    assert_int_equal(config->tier_count, 6);
    assert_null(tier_config_find(config, "9shines"));
    assert_true(tier_config_find(config, "merchant:9shines")->is_merchant);
    assert_int_equal(tier_config_find(config, "merchant:9shines")->target, 2);
    assert_int_equal(tier_config_find(config, "merchant:a@b:c+d=")->target, 3);
    assert_false(tier_config_find(config, "night")->is_merchant);
    assert_int_equal(tier_config_resolve(config, "9shines")->target, 2);
    assert_int_equal(tier_config_resolve(config, "merchant:9shines")->target, 2);
    assert_int_equal(tier_config_resolve(config, "m")->target, 4);
    assert_int_equal(tier_config_resolve(config, "gold")->target, 1);
    assert_int_equal(tier_config_resolve(config, "merchant:gold")->target, 5);
    assert_null(tier_config_resolve(config, "nobody"));
    tier_config_free(config);

    config = parse("{\"tiers\":{\"gold\":1,\"9shines\":2}}"); /* no explicit chain */
    assert_false(tier_config_find(config, "9shines")->is_merchant);
    tier_config_free(config);

    memset(name, 'x', MERCHANT_ID_MAX);
    name[MERCHANT_ID_MAX] = '\0';
    snprintf(text, sizeof(text), "{\"tiers\":{\"gold\":1,\"%s\":2},\"default_chain\":[\"gold\"]}", name);
    config = parse(text);
    assert_int_equal(tier_config_resolve(config, name)->target, 2);
    tier_config_free(config);
}

static void resolve__cuts_no_name_that_is_too_long(void **state UNUSED)
{
    char text[512], pool[MERCHANT_ID_MAX + 1], name[POOL_LABEL_MAX + 1];
    struct tier_config *config;

    memset(pool, 'x', MERCHANT_ID_MAX);
    memcpy(pool, "merchant:", 9);
    pool[MERCHANT_ID_MAX] = '\0';
    snprintf(text, sizeof(text), "{\"gold\":1,\"merchant:%s\":2}", pool);
    config = parse(text);
    snprintf(name, sizeof(name), "%sxxxxxxxxx", pool);
    assert_int_equal(tier_config_resolve(config, pool)->target, 2);
    assert_null(tier_config_resolve(config, name));
    tier_config_free(config);
}

static void stored__unknown_names_in_the_chain_are_skipped_and_told(void **state UNUSED)
{
    struct tier_config *config =
        parse_stored("{\"tiers\":{\"gold\":1,\"basic\":{\"type\":\"shared\",\"max_concurrent\":0},\"m\":1,"
                     "\"merchant:n\":1},\"default_chain\":[\"gold\",\"sliver\",\"merchant:n\",\"gold\","
                     "\"basic\"]}");
    char chain[64];

    chain_of(config, chain, sizeof(chain));
    assert_string_equal(chain, "gold basic");
    assert_string_equal(config->skipped, "sliver, merchant:n");
    assert_true(tier_config_find(config, "merchant:m")->is_merchant);
    assert_int_equal(tier_config_find(config, "basic")->max_concurrent, TIER_CONCURRENT_DEFAULT);
    tier_config_free(config);
    refuses("{\"tiers\":{\"gold\":1},\"default_chain\":[\"sliver\",\"basic\"]}", "which is not a tier");
}

static void stored__unknown_members_are_ignored(void **state UNUSED)
{
    struct tier_config *config = parse_stored("{\"tiers\":{\"gold\":{\"target\":2,\"colour\":\"red\"}},"
                                              "\"default_chain\":[\"gold\"],\"version\":7}");

    assert_int_equal(tier_config_find(config, "gold")->target, 2);
    tier_config_free(config);
}

static void unknown_members__are_refused_by_name(void **state UNUSED)
{
    refuses_strictly("{\"gold\":{\"targt\":2}}",
                     "unknown member \"targt\" in tier \"gold\"; did you mean \"target\"?");
    refuses_strictly("{\"gold\":{\"Target\":2}}", "unknown member \"Target\" in tier \"gold\"; did you mean");
    refuses_strictly("{\"tiers\":{\"gold\":1},\"defaultchain\":[\"gold\"]}",
                     "unknown member \"defaultchain\" beside \"tiers\"; did you mean \"default_chain\"?");
    refuses_strictly("{\"tiers\":{\"gold\":1},\"standard\":1}",
                     "unknown member \"standard\" beside \"tiers\"; known are tiers and default_chain");
}

/* An upgrade must not stop a router that ran with it. */
static void seed__unknown_members_are_told_and_ignored(void **state UNUSED)
{
    const char *text = "{\"gold\":{\"targt\":2,\"colour\":1,\"max_concurrent\":3}}";
    struct tier_config *config = NULL;
    char error[256];

    assert_int_equal(tier_config_parse_seed(text, strlen(text), &config, error, sizeof(error)), 0);
    assert_string_equal(config->ignored,
                        "unknown member \"targt\" in tier \"gold\"; did you mean \"target\"?");
    assert_int_equal(tier_config_find(config, "gold")->target, 0);
    config = tier_config_free(config);
    assert_int_equal(tier_config_parse_seed("{\"gold\":-1}", 11, &config, error, sizeof(error)), -EINVAL);
}

static void same__is_about_the_meaning(void **state UNUSED)
{
    static const char spaced[] = "{ \"gold\": {\"target\": 1}, \"standard\": 2 }";
    struct tier_config *config = parse("{\"standard\":2,\"gold\":1}");

    assert_true(tier_config_is_same(spaced, strlen(spaced), config));
    assert_false(tier_config_is_same("{\"gold\":1}", 10, config));
    tier_config_free(config);
}

static void max_concurrent__zero_is_the_default(void **state UNUSED)
{
    struct tier_config *config = parse("{\"s\":{\"type\":\"shared\",\"max_concurrent\":0}}");

    assert_int_equal(tier_config_find(config, "s")->max_concurrent, TIER_CONCURRENT_DEFAULT);
    tier_config_free(config);
}

/* As many tiers as there may be, in a text that just fits: what is stored is longer. */
static void long_form__of_the_longest_configuration_is_read_again(void **state UNUSED)
{
    char *text = malloc(TIER_CONFIG_TEXT_MAX + 1);
    struct tier_config *config, *again;
    size_t len;

    assert_non_null(text);
    len = (size_t)snprintf(text, TIER_CONFIG_TEXT_MAX, "{\"gold\":1");
    for (int i = 1; i < TIERS_MAX; i++)
        len += (size_t)snprintf(text + len, TIER_CONFIG_TEXT_MAX - len, ",\"merchant:%043d\":1", i);
    snprintf(text + len, TIER_CONFIG_TEXT_MAX - len, "}");
    config = parse(text);
    assert_true(strlen(config->text) > TIER_CONFIG_TEXT_MAX);
    again = parse_stored(config->text);
    assert_int_equal(again->tier_count, TIERS_MAX);
    tier_config_free(config);
    tier_config_free(again);
    free(text);
}

static void bad_configurations__are_refused_with_a_reason(void **state UNUSED)
{
    refuses("{", "not valid JSON");
    refuses("[1]", "must be a JSON object");
    refuses("\"x\"", "must be a JSON object");
    refuses("{\"a\":{\"type\":\"fancy\"}}", "type must be");
    refuses("{\"a\":{\"type\":3}}", "type must be");
    refuses("{\"a\":{\"target\":-1}}", "target must be a whole number");
    refuses("{\"a\":-1}", "target must be a whole number");
    refuses("{\"a\":1.5}", "target must be a whole number");
    refuses("{\"a\":1e30}", "target must be a whole number");
    refuses("{\"a\":{\"target\":\"1\"}}", "target must be a whole number");
    refuses("{\"a\":{\"type\":\"shared\",\"max_concurrent\":-1}}", "max_concurrent must be");
    refuses("{\"a\":{\"type\":\"shared\",\"max_concurrent\":0.5}}", "max_concurrent must be");
    refuses("{\"a\":{\"type\":\"shared\",\"max_concurrent\":1001}}", "max_concurrent must be");
    refuses("{\"a\":{\"reserved\":1}}", "reserved must be");
    refuses("{\"a\":[]}", "must be an object or a whole number");
    refuses("{\"a b\":1}", "no name for a tier");
    refuses("{\"\":1}", "no name for a tier");
    refuses("{\"a\":1,\"a\":2}", "twice");
    refuses("{\"merchant:\":1}", "merchant pool");
    refuses("{\"merchant:x\":{\"type\":\"shared\"}}", "cannot be shared");
    refuses("{\"merchant:x\":1}", "chain is empty");
    refuses("{\"tiers\":{\"a\":1},\"default_chain\":[]}", "at least one");
    refuses("{\"tiers\":{\"a\":1},\"default_chain\":\"a\"}", "must be an array");
    refuses("{\"tiers\":{\"a\":1},\"default_chain\":[\"b\"]}", "not a tier");
    refuses("{\"tiers\":{\"a\":1},\"default_chain\":[1]}", "names of tiers");
    refuses_strictly("{\"tiers\":{\"a\":1},\"default_chain\":[\"a\",\"a\"]}", "twice");
    refuses_strictly("{\"tiers\":{\"a\":1},\"default_chain\":[\"a\",\"b\"]}", "not a tier");
    refuses("{\"tiers\":{\"a\":1,\"m\":1,\"merchant:m\":1},\"default_chain\":[\"a\"]}", "is there twice");
    refuses("{\"tiers\":{\"a\":1,\"b c\":1},\"default_chain\":[\"a\"]}", "no name for a merchant pool");
    refuses("{\"tiers\":{\"a\":1,\"b:c\":{\"type\":\"shared\"}},\"default_chain\":[\"a\"]}",
            "no name for a tier");
    refuses("{\"tiers\":{\"a:b\":1},\"default_chain\":[\"a:b\"]}", "no name for a tier");
    refuses("{\"tiers\":{\"a\":1,\"b:c\":1}}", "no name for a tier");
    refuses("{\"tiers\":{\"a\":1,\"merchant:m\":1},\"default_chain\":[\"merchant:m\"]}", "not a tier");
    refuses("{\"tiers\":{}}", "chain is empty");
}

static void long_configurations__are_refused(void **state UNUSED)
{
    struct tier_config *config = NULL;
    char *text = malloc(TIER_CONFIG_TEXT_MAX + 2);
    char error[256];

    assert_non_null(text);
    memset(text, ' ', TIER_CONFIG_TEXT_MAX + 1);
    assert_int_equal(tier_config_parse(text, TIER_CONFIG_TEXT_MAX + 1, &config, error, sizeof(error)),
                     -EINVAL);
    assert_non_null(strstr(error, "longer than 61440 bytes"));
    free(text);
}

static void default_tier__without_standard_is_the_last_exclusive_of_the_chain(void **state UNUSED)
{
    struct tier_config *config = parse("{\"a\":1,\"b\":1,\"s\":{\"type\":\"shared\"}}");

    assert_string_equal(config->tiers[config->default_tier].name, "b");
    tier_config_free(config);
    config = parse("{\"s\":{\"type\":\"shared\"},\"t\":{\"type\":\"shared\"}}");
    assert_string_equal(config->tiers[config->default_tier].name, "t");
    tier_config_free(config);
}

static void fill_order__is_merchants_gold_shared_standard_overflow_others(void **state UNUSED)
{
    const char *expected[] = {"merchant:a", "merchant:b", "gold",  "s1",  "s2",
                              "standard",   "overflow",   "alpha", "zeta"};
    struct tier_config *config =
        parse("{\"zeta\":1,\"alpha\":1,\"overflow\":1,\"standard\":1,\"s2\":{\"type\":\"shared\"},"
              "\"s1\":{\"type\":\"shared\"},\"gold\":1,\"merchant:b\":1,\"merchant:a\":1}");

    assert_int_equal(config->tier_count, ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_string_equal(config->tiers[config->fill_order[i]].name, expected[i]);
    tier_config_free(config);
}

static void assert_merchant_chain(const struct tier_config *tiers, const char *merchant, const char *expected)
{
    struct merchant_config config;
    struct arena arena;
    struct chain chain;
    char error[128] = "";
    char text[256] = "";
    size_t len = 0;

    arena_init(&arena, 65536);
    if (merchant)
        assert_int_equal(
            merchant_config_parse(&arena, merchant, strlen(merchant), &config, error, sizeof(error)), 0);
    chain_resolve(tiers, merchant ? &config : NULL, &chain);
    if (chain.missing_pool)
        len += (size_t)snprintf(text, sizeof(text), "(merchant:%s)", chain.missing_pool);
    for (size_t i = 0; i < chain.len; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "", chain.steps[i]->name);
    if (strcmp(text, expected) != 0)
        fail_msg("%s: %s instead of %s", merchant ? merchant : "none", text, expected);
    arena_release(&arena);
}

/* The table of SPEC section 3, and what follows from it. */
static void chains__are_those_of_the_specification(void **state UNUSED)
{
    struct tier_config *tiers =
        parse("{\"tiers\":{\"gold\":1,\"standard\":1,\"basic\":{\"type\":\"shared\"},\"vip\":1,"
              "\"hall\":{\"type\":\"shared\"},\"night\":{\"reserved\":true},\"9shines\":1,\"acme\":1},"
              "\"default_chain\":[\"gold\",\"night\",\"standard\",\"basic\"]}");

    assert_merchant_chain(tiers, NULL, "gold standard basic");
    assert_merchant_chain(tiers, "{}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"gold\"}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"standard\"}", "standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"basic\"}", "basic");
    assert_merchant_chain(tiers, "{\"tier\":\"vip\"}", "merchant:vip gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"merchant:vip\"}", "merchant:vip gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"hall\"}", "hall gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"night\"}", "night standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"nowhere\"}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\"}", "merchant:9shines gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"tier\":\"dedicated\"}",
                          "merchant:9shines gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"tier\":\"standard\"}",
                          "merchant:9shines standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"tier\":\"9shines\"}",
                          "merchant:9shines gold standard basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"standard\",\"basic\"]}", "standard basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"standard\",\"what\",\"standard\",\"night\"]}",
                          "standard night");
    assert_merchant_chain(tiers, "{\"fallback\":[\"acme\",\"merchant:vip\",\"merchant:acme\",\"hall\"]}",
                          "merchant:acme merchant:vip hall");
    assert_merchant_chain(tiers, "{\"pool\":\"acme\",\"fallback\":[\"gold\"]}", "merchant:acme gold");
    assert_merchant_chain(tiers, "{\"pool\":\"nobody\",\"fallback\":[\"gold\"]}", "(merchant:nobody) gold");
    assert_merchant_chain(tiers, "{\"pool\":\"acme\",\"fallback\":[\"none\"]}", "merchant:acme");
    assert_merchant_chain(tiers, "{\"pool\":\"nobody\",\"fallback\":[\"none\"]}", "(merchant:nobody)");
    assert_merchant_chain(tiers, "{\"tier\":\"gold\",\"fallback\":[\"none\",\"a@b:c\"]}", "");
    assert_merchant_chain(tiers, "{\"fallback\":[]}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"acme\",\"fallback\":[]}", "merchant:acme gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"\",\"pool\":\"\",\"fallback\":null}", "gold standard basic");
    tier_config_free(tiers);
}

static void chains__a_tier_wins_over_a_pool_of_the_same_name(void **state UNUSED)
{
    struct tier_config *tiers = parse(
        "{\"tiers\":{\"gold\":1,\"basic\":1,\"merchant:gold\":1},\"default_chain\":[\"gold\",\"basic\"]}");

    assert_merchant_chain(tiers, "{\"tier\":\"gold\"}", "gold basic");
    assert_merchant_chain(tiers, "{\"tier\":\"merchant:gold\"}", "merchant:gold gold basic");
    assert_merchant_chain(tiers, "{\"pool\":\"gold\"}", "merchant:gold gold basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"gold\",\"merchant:gold\"]}", "gold merchant:gold");
    tier_config_free(tiers);
}

static void bad_merchants__are_refused(void **state UNUSED)
{
    const char *bad[] = {"",
                         "null",
                         "[]",
                         "{\"tier\":1}",
                         "{\"tier\":\"a b\"}",
                         "{\"tier\":\"merchant:\"}",
                         "{\"fallback\":[\"merchant:\"]}",
                         "{\"pool\":[]}",
                         "{\"pool\":\"a b\"}",
                         "{\"fallback\":\"gold\"}",
                         "{\"fallback\":[1]}",
                         "{\"fallback\":[\"\"]}",
                         "{\"tier\":\"gold\",\"tier\":\"basic\"}",
                         "{\"fallback\":[\"gold\"],\"fallback\":[]}",
                         "{\"tier\":\"gold\""};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct merchant_config config;
        struct arena arena;
        char error[128] = "";

        arena_init(&arena, 65536);
        assert_int_equal(merchant_config_parse(&arena, bad[i], strlen(bad[i]), &config, error, sizeof(error)),
                         -EINVAL);
        assert_true(strlen(error) > 10);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults__give_gold_standard_basic),
        cmocka_unit_test(forms__envelope_map_and_integers),
        cmocka_unit_test(text__is_an_envelope_with_plain_names),
        cmocka_unit_test(text__keeps_the_prefix_of_a_pool_where_it_is_needed),
        cmocka_unit_test(text__of_a_stored_configuration_is_what_was_read),
        cmocka_unit_test(pools__are_the_exclusive_tiers_outside_an_explicit_chain),
        cmocka_unit_test(resolve__cuts_no_name_that_is_too_long),
        cmocka_unit_test(stored__unknown_names_in_the_chain_are_skipped_and_told),
        cmocka_unit_test(stored__unknown_members_are_ignored),
        cmocka_unit_test(unknown_members__are_refused_by_name),
        cmocka_unit_test(seed__unknown_members_are_told_and_ignored),
        cmocka_unit_test(same__is_about_the_meaning),
        cmocka_unit_test(max_concurrent__zero_is_the_default),
        cmocka_unit_test(long_form__of_the_longest_configuration_is_read_again),
        cmocka_unit_test(bad_configurations__are_refused_with_a_reason),
        cmocka_unit_test(long_configurations__are_refused),
        cmocka_unit_test(default_tier__without_standard_is_the_last_exclusive_of_the_chain),
        cmocka_unit_test(fill_order__is_merchants_gold_shared_standard_overflow_others),
        cmocka_unit_test(chains__are_those_of_the_specification),
        cmocka_unit_test(chains__a_tier_wins_over_a_pool_of_the_same_name),
        cmocka_unit_test(bad_merchants__are_refused),
    };

    return cmocka_run_group_tests_name("tiers", tests, NULL, NULL);
}
