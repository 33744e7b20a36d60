/*
 * fuzz_config.c - the tier configuration and a merchant's configuration, as somebody may write them.
 *
 * An input is a tier configuration, the byte 0xff, and a merchant's. It is read as a stored one and as a
 * request. What is accepted keeps every limit, and written down in the long form it is read as the same
 * again, in both ways. The chain that follows from both has no pool twice and none that is not configured.
 */
#include <stdlib.h>

#include "base/json.h"
#include "core/merchant.h"
#include "fuzz.h"

enum {
    ARENA_MAX = 16 * 1024 * 1024,
    TEXT_MAX = 1024 * 1024,
};

static void check_tiers(const struct tier_config *config)
{
    static bool was_filled[TIERS_MAX];

    assert(config->tier_count >= 1 && config->tier_count <= TIERS_MAX);
    assert(config->chain_len >= 1 && config->chain_len <= TIER_CHAIN_MAX);
    assert(config->default_tier < config->tier_count);
    memset(was_filled, 0, sizeof(was_filled));
    for (size_t i = 0; i < config->tier_count; i++) {
        const struct tier *tier = &config->tiers[i];

        assert(name_is_pool(tier->name, strlen(tier->name)));
        assert(tier->is_merchant == (strncmp(tier->name, MERCHANT_POOL_PREFIX, 9) == 0));
        assert(tier->target <= TIER_TARGET_MAX);
        assert(tier->max_concurrent >= 1 && tier->max_concurrent <= TIER_CONCURRENT_MAX);
        assert(tier->is_shared || tier->max_concurrent == 1);
        assert(!tier->is_shared || !tier->is_merchant);
        assert(i == 0 || strcmp(config->tiers[i - 1].name, tier->name) < 0);
        assert(tier_config_find(config, tier->name) == tier);
        assert(config->fill_order[i] < config->tier_count && !was_filled[config->fill_order[i]]);
        was_filled[config->fill_order[i]] = true;
    }
    for (size_t i = 0; i < config->chain_len; i++)
        assert(!config->tiers[config->chain[i]].is_merchant);
}

static void check_same(const struct tier_config *a, const struct tier_config *b)
{
    assert(a->tier_count == b->tier_count && a->chain_len == b->chain_len);
    assert(a->default_tier == b->default_tier);
    for (size_t i = 0; i < a->tier_count; i++) {
        const struct tier *x = &a->tiers[i];
        const struct tier *y = &b->tiers[i];

        assert(strcmp(x->name, y->name) == 0 && x->target == y->target);
        assert(x->is_shared == y->is_shared && x->is_reserved == y->is_reserved);
        assert(x->max_concurrent == y->max_concurrent && x->is_merchant == y->is_merchant);
        assert(x->buffer == y->buffer && x->min_pods == y->min_pods && x->max_pods == y->max_pods);
        assert(a->fill_order[i] == b->fill_order[i]);
    }
    for (size_t i = 0; i < a->chain_len; i++)
        assert(a->chain[i] == b->chain[i]);
}

/* Written down, and read again in both ways, it is the same. */
static void check_written(const struct tier_config *config)
{
    struct tier_config *again = NULL;
    char error[256] = "";
    struct strbuf buf;
    int rc;

    strbuf_init(&buf, NULL, TIER_CONFIG_STORED_MAX);
    tier_config_write(config, &buf);
    /* What is stored by others may be longer than what we store. */
    if (strbuf_failed(&buf)) {
        strbuf_release(&buf);
        return;
    }
    rc = tier_config_parse_stored(buf.data, buf.len, &again, error, sizeof(error));
    assert(rc == 0 && again->skipped[0] == '\0' && strcmp(again->text, buf.data) == 0);
    check_same(config, again);
    again = tier_config_free(again);
    if (buf.len <= TIER_CONFIG_TEXT_MAX) {
        rc = tier_config_parse(buf.data, buf.len, &again, error, sizeof(error));
        assert(rc == 0 && strcmp(again->text, buf.data) == 0);
        check_same(config, again);
        again = tier_config_free(again);
    }
    strbuf_release(&buf);
}

/* NULL: it was refused, with a sentence. */
static struct tier_config *read_stored_tiers(struct slice text)
{
    struct tier_config *config = NULL;
    char error[256] = "";
    int rc = tier_config_parse_stored(text.data, text.len, &config, error, sizeof(error));

    if (rc) {
        assert(rc == -EINVAL && error[0] && !config);
        return NULL;
    }
    assert(strlen(config->text) == text.len && memcmp(config->text, text.data, text.len) == 0);
    check_tiers(config);
    check_written(config);
    return config;
}

/* As a request would be read. What is accepted means the same when it is stored. */
static void read_tiers(struct slice text, const struct tier_config *stored)
{
    struct tier_config *config = NULL;
    char error[256] = "";
    int rc = tier_config_parse(text.data, text.len, &config, error, sizeof(error));

    if (rc) {
        assert(rc == -EINVAL && error[0] && !config);
        return;
    }
    assert(stored && stored->skipped[0] == '\0');
    check_same(config, stored);
    check_tiers(config);
    assert(strlen(config->text) <= 8 * text.len + 512); /* see bound.c */
    check_written(config);
    tier_config_free(config);
}

static void write_merchant(const struct merchant_config *config, struct strbuf *buf)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_put_string(&json, "tier", config->tier);
    json_put_string(&json, "pool", config->pool);
    json_key(&json, "fallback");
    json_array_begin(&json);
    for (size_t i = 0; i < config->fallback_len; i++)
        json_string(&json, config->fallback[i]);
    json_array_end(&json);
    json_object_end(&json);
    assert(!strbuf_failed(buf));
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool read_merchant(struct arena *arena, struct slice text, struct merchant_config *ret_config)
{
    struct merchant_config again = {0};
    char error[256] = "";
    struct strbuf buf;
    int rc = merchant_config_parse(arena, text.data, text.len, ret_config, error, sizeof(error));

    if (rc) {
        assert(rc == -EINVAL && error[0]);
        return false;
    }
    assert(!ret_config->tier || name_is_pool_or_id(ret_config->tier, strlen(ret_config->tier)));
    assert(!ret_config->pool || name_is_merchant_id(ret_config->pool, strlen(ret_config->pool)));
    assert(ret_config->fallback_len <= TIER_CHAIN_MAX);
    strbuf_init(&buf, arena, TEXT_MAX);
    write_merchant(ret_config, &buf);
    if (buf.len > MERCHANT_CONFIG_TEXT_MAX)
        return true;
    rc = merchant_config_parse(arena, buf.data, buf.len, &again, error, sizeof(error));
    assert(rc == 0);
    assert(is_same(again.tier, ret_config->tier) && is_same(again.pool, ret_config->pool));
    assert(again.fallback_len == ret_config->fallback_len);
    for (size_t i = 0; i < again.fallback_len; i++)
        assert(strcmp(again.fallback[i], ret_config->fallback[i]) == 0);
    return true;
}

/* Whatever a request may set is read as the same when it is stored. */
static void check_strict(struct arena *arena, struct slice text, bool is_read)
{
    struct merchant_config config;
    char error[256] = "";
    int rc = merchant_config_check(arena, text.data, text.len, &config, error, sizeof(error));

    assert(rc == 0 ? is_read : rc == -EINVAL && error[0]);
}

static void check_chain(const struct tier_config *tiers, const struct merchant_config *merchant)
{
    struct chain chain;

    chain_resolve(tiers, merchant, &chain);
    assert(chain.len <= CHAIN_MAX);
    for (size_t i = 0; i < chain.len; i++) {
        assert(chain.steps[i] >= tiers->tiers && chain.steps[i] < tiers->tiers + tiers->tier_count);
        for (size_t j = 0; j < i; j++)
            assert(chain.steps[j] != chain.steps[i]);
    }
    assert(!chain.missing_pool || (merchant && merchant->pool));
    /* Without a list of their own all get something, unless every tier is reserved for others. */
    if (chain.len == 0 && !(merchant && merchant->fallback_len)) {
        for (size_t i = 0; i < tiers->chain_len; i++)
            assert(tiers->tiers[tiers->chain[i]].is_reserved);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct slice tiers_text = input_until(&input, FUZZ_SEPARATOR);
    struct slice merchant_text = input_rest(&input);
    struct tier_config *tiers = read_stored_tiers(tiers_text);
    struct merchant_config merchant = {0};
    struct arena arena;
    bool has_merchant;

    read_tiers(tiers_text, tiers);
    arena_init(&arena, ARENA_MAX);
    has_merchant = read_merchant(&arena, merchant_text, &merchant);
    check_strict(&arena, merchant_text, has_merchant);
    if (tiers)
        check_chain(tiers, NULL);
    if (tiers && has_merchant)
        check_chain(tiers, &merchant);
    arena_release(&arena);
    tier_config_free(tiers);
    return 0;
}
