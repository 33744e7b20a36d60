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

static void refuses(const char *text, const char *because)
{
    struct tier_config *config = NULL;
    char error[256] = "";

    assert_int_equal(tier_config_parse(text, strlen(text), &config, error, sizeof(error)), -EINVAL);
    assert_null(config);
    if (!strstr(error, because))
        fail_msg("%s: expected \"%s\" in \"%s\"", text, because, error);
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
    assert_string_equal(config->text,
                        "{\"s\":{\"type\":\"shared\"},\"merchant:9shines\":{\"target\":2},\"x\":7}");
    tier_config_free(config);
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
    refuses("{\"a\":{\"type\":\"shared\",\"max_concurrent\":0}}", "max_concurrent must be");
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
    refuses("{\"tiers\":{\"a\":1},\"default_chain\":[\"a\",\"a\"]}", "twice");
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

static void chains__are_those_of_the_specification(void **state UNUSED)
{
    struct tier_config *tiers =
        parse("{\"tiers\":{\"gold\":1,\"standard\":1,\"basic\":{\"type\":\"shared\"},\"vip\":1,"
              "\"night\":{\"reserved\":true},\"merchant:9shines\":1},"
              "\"default_chain\":[\"gold\",\"night\",\"standard\",\"basic\"]}");

    assert_merchant_chain(tiers, NULL, "gold standard basic");
    assert_merchant_chain(tiers, "{}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"gold\"}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"standard\"}", "standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"basic\"}", "basic");
    assert_merchant_chain(tiers, "{\"tier\":\"vip\"}", "vip gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"night\"}", "night standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"nowhere\"}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\"}", "merchant:9shines gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"tier\":\"dedicated\"}",
                          "merchant:9shines gold standard basic");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"tier\":\"standard\"}",
                          "merchant:9shines standard basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"standard\",\"basic\"]}", "standard basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"standard\",\"what\",\"standard\",\"night\"]}",
                          "standard night");
    assert_merchant_chain(tiers, "{\"pool\":\"acme\",\"fallback\":[\"gold\"]}", "(merchant:acme) gold");
    assert_merchant_chain(tiers, "{\"pool\":\"9shines\",\"fallback\":[\"gold\"]}", "merchant:9shines gold");
    assert_merchant_chain(tiers, "{\"fallback\":[]}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"fallback\":[\"nothing\"]}", "gold standard basic");
    assert_merchant_chain(tiers, "{\"tier\":\"\",\"pool\":\"\"}", "gold standard basic");
    tier_config_free(tiers);
}

static void bad_merchants__are_refused(void **state UNUSED)
{
    const char *bad[] = {"",
                         "null",
                         "[]",
                         "{\"tier\":1}",
                         "{\"tier\":\"a b\"}",
                         "{\"pool\":[]}",
                         "{\"pool\":\"a b\"}",
                         "{\"fallback\":\"gold\"}",
                         "{\"fallback\":[1]}",
                         "{\"fallback\":[\"\"]}",
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
        cmocka_unit_test(bad_configurations__are_refused_with_a_reason),
        cmocka_unit_test(long_configurations__are_refused),
        cmocka_unit_test(default_tier__without_standard_is_the_last_exclusive_of_the_chain),
        cmocka_unit_test(fill_order__is_merchants_gold_shared_standard_overflow_others),
        cmocka_unit_test(chains__are_those_of_the_specification),
        cmocka_unit_test(bad_merchants__are_refused),
    };

    return cmocka_run_group_tests_name("tiers", tests, NULL, NULL);
}
