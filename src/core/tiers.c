#include "core/tiers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

static const char default_text[] = "{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                                   "\"standard\":{\"type\":\"exclusive\",\"target\":1},"
                                   "\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":3}}";

enum { TIER_PARSE_ARENA_MAX = 8 * 1024 * 1024 };

/* What the functions below hand around: where to put the result and where to say what is wrong. */
struct tier_parser {
    struct tier_config *config;
    char *error;
    size_t error_size;
};

#define FAIL(parser, ...)                                                                                    \
    __extension__({                                                                                          \
        snprintf((parser)->error, (parser)->error_size, __VA_ARGS__);                                        \
        -EINVAL;                                                                                             \
    })

struct tier_config *tier_config_free(struct tier_config *config)
{
    if (!config)
        return NULL;
    free(config->text);
    free(config->tiers);
    free(config->chain);
    free(config->fill_order);
    free(config);
    return NULL;
}

void tier_config_freep(struct tier_config **config)
{
    tier_config_free(*config);
}

static int tier_compare(const void *a, const void *b)
{
    const struct tier *tier_a = a;
    const struct tier *tier_b = b;

    return strcmp(tier_a->name, tier_b->name);
}

static int tier_compare_name(const void *name, const void *tier)
{
    return strcmp(name, ((const struct tier *)tier)->name);
}

const struct tier *tier_config_find(const struct tier_config *config, const char *name)
{
    return bsearch(name, config->tiers, config->tier_count, sizeof(*config->tiers), tier_compare_name);
}

/* A whole number between `min` and `max`, or the default if the member is absent. */
static int parse_number(struct tier_parser *parser, const cJSON *item, const char *tier, const char *what,
                        double min, double max, uint32_t *ret_value)
{
    if (!item)
        return 0;
    if (!cJSON_IsNumber(item) || item->valuedouble < min || item->valuedouble > max ||
        item->valuedouble != (double)(int64_t)item->valuedouble)
        return FAIL(parser, "tier \"%s\": %s must be a whole number from %.0f to %.0f", tier, what, min, max);
    *ret_value = (uint32_t)item->valuedouble;
    return 0;
}

static int parse_object(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
    const cJSON *reserved = cJSON_GetObjectItemCaseSensitive(item, "reserved");
    uint32_t max_concurrent = TIER_CONCURRENT_DEFAULT;
    int rc;

    if (type) {
        const char *name = cJSON_GetStringValue(type);

        if (!name || (strcmp(name, "exclusive") != 0 && strcmp(name, "shared") != 0))
            return FAIL(parser, "tier \"%s\": type must be \"exclusive\" or \"shared\"", tier->name);
        tier->is_shared = strcmp(name, "shared") == 0;
    }
    if (tier->is_shared && tier->is_merchant)
        return FAIL(parser, "\"%s\": a merchant pool cannot be shared", tier->name);
    if (reserved && !cJSON_IsBool(reserved))
        return FAIL(parser, "tier \"%s\": reserved must be true or false", tier->name);
    tier->is_reserved = cJSON_IsTrue(reserved);
    rc = parse_number(parser, cJSON_GetObjectItemCaseSensitive(item, "target"), tier->name, "target", 0,
                      TIER_TARGET_MAX, &tier->target);
    if (rc)
        return rc;
    rc = parse_number(parser, cJSON_GetObjectItemCaseSensitive(item, "max_concurrent"), tier->name,
                      "max_concurrent", 1, TIER_CONCURRENT_MAX, &max_concurrent);
    if (rc)
        return rc;
    tier->max_concurrent = tier->is_shared ? max_concurrent : 1;
    return 0;
}

static int parse_tier(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    const char *name = item->string;
    size_t len = strlen(name);
    size_t prefix = strlen(MERCHANT_POOL_PREFIX);

    *tier = (struct tier){.max_concurrent = 1};
    if (strncmp(name, MERCHANT_POOL_PREFIX, prefix) == 0) {
        if (!name_is_merchant_id(name + prefix, len - prefix))
            return FAIL(parser, "\"%.150s\" does not name a merchant pool: expected merchant:{id}", name);
        tier->is_merchant = true;
    } else if (!name_is_tier(name, len)) {
        return FAIL(parser, "\"%.150s\" is no name for a tier: use up to 63 of A-Z a-z 0-9 . _ -", name);
    }
    memcpy(tier->name, name, len + 1);
    if (cJSON_IsNumber(item))
        return parse_number(parser, item, name, "target", 0, TIER_TARGET_MAX, &tier->target);
    if (cJSON_IsObject(item))
        return parse_object(parser, item, tier);
    return FAIL(parser, "tier \"%s\" must be an object or a whole number", name);
}

static int parse_tiers(struct tier_parser *parser, const cJSON *map)
{
    struct tier_config *config = parser->config;
    size_t count = (size_t)cJSON_GetArraySize(map);
    const cJSON *item;

    if (count > TIERS_MAX)
        return FAIL(parser, "%zu tiers are more than %d", count, TIERS_MAX);
    config->tiers = calloc(count ? count : 1, sizeof(*config->tiers));
    if (!config->tiers)
        return -ENOMEM;
    cJSON_ArrayForEach(item, map)
    {
        int rc = parse_tier(parser, item, &config->tiers[config->tier_count]);

        if (rc)
            return rc;
        config->tier_count++;
    }
    qsort(config->tiers, config->tier_count, sizeof(*config->tiers), tier_compare);
    for (size_t i = 1; i < config->tier_count; i++) {
        if (strcmp(config->tiers[i - 1].name, config->tiers[i].name) == 0)
            return FAIL(parser, "tier \"%s\" is there twice", config->tiers[i].name);
    }
    return 0;
}

static int parse_chain(struct tier_parser *parser, const cJSON *array)
{
    struct tier_config *config = parser->config;
    const cJSON *item;

    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) == 0)
        return FAIL(parser, "default_chain must be an array with at least one tier");
    if (cJSON_GetArraySize(array) > TIER_CHAIN_MAX)
        return FAIL(parser, "default_chain has more than %d tiers", TIER_CHAIN_MAX);
    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_GetStringValue(item);
        const struct tier *tier = name ? tier_config_find(config, name) : NULL;

        if (!name)
            return FAIL(parser, "default_chain must hold names of tiers");
        if (!tier || tier->is_merchant)
            return FAIL(parser, "default_chain names \"%.150s\", which is not a tier", name);
        for (size_t i = 0; i < config->chain_len; i++) {
            if (config->chain[i] == (size_t)(tier - config->tiers))
                return FAIL(parser, "default_chain names \"%s\" twice", tier->name);
        }
        config->chain[config->chain_len++] = (size_t)(tier - config->tiers);
    }
    return 0;
}

/* Exclusive tiers by name, then shared tiers by name; the tiers are sorted already. */
static int derive_chain(struct tier_parser *parser)
{
    struct tier_config *config = parser->config;

    for (int shared = 0; shared <= 1; shared++) {
        for (size_t i = 0; i < config->tier_count; i++) {
            if (config->tiers[i].is_merchant || config->tiers[i].is_shared != (shared == 1))
                continue;
            if (config->chain_len == TIER_CHAIN_MAX)
                return FAIL(parser, "more than %d tiers: say which ones to try in default_chain",
                            TIER_CHAIN_MAX);
            config->chain[config->chain_len++] = i;
        }
    }
    if (config->chain_len == 0)
        return FAIL(parser, "the chain is empty: configure at least one tier beside the merchant pools");
    return 0;
}

/* In which order new pods fill the tiers; equal ranks go by name. */
static int fill_rank(const struct tier *tier)
{
    if (tier->is_merchant)
        return 0;
    if (strcmp(tier->name, "gold") == 0)
        return 1;
    if (tier->is_shared)
        return 2;
    if (strcmp(tier->name, "standard") == 0)
        return 3;
    if (strcmp(tier->name, "overflow") == 0)
        return 4;
    return 5;
}

static void derive_fill_order(struct tier_config *config)
{
    size_t at = 0;

    for (int rank = 0; rank <= 5; rank++) {
        for (size_t i = 0; i < config->tier_count; i++) {
            if (fill_rank(&config->tiers[i]) == rank)
                config->fill_order[at++] = i;
        }
    }
}

static void derive_default_tier(struct tier_config *config)
{
    const struct tier *standard = tier_config_find(config, "standard");

    config->default_tier = config->chain[config->chain_len - 1];
    for (size_t i = 0; i < config->chain_len; i++) {
        if (!config->tiers[config->chain[i]].is_shared)
            config->default_tier = config->chain[i];
    }
    if (standard)
        config->default_tier = (size_t)(standard - config->tiers);
}

static int parse_root(struct tier_parser *parser, const cJSON *root)
{
    struct tier_config *config = parser->config;
    const cJSON *tiers = cJSON_GetObjectItemCaseSensitive(root, "tiers");
    const cJSON *chain = NULL;
    bool is_envelope = cJSON_IsObject(tiers);
    int rc;

    /* A tier cannot be called "tiers": an object of that name makes an envelope. */
    if (is_envelope)
        chain = cJSON_GetObjectItemCaseSensitive(root, "default_chain");
    rc = parse_tiers(parser, is_envelope ? tiers : root);
    if (rc)
        return rc;
    config->chain = calloc(TIER_CHAIN_MAX, sizeof(*config->chain));
    config->fill_order = calloc(config->tier_count ? config->tier_count : 1, sizeof(*config->fill_order));
    if (!config->chain || !config->fill_order)
        return -ENOMEM;
    rc = chain ? parse_chain(parser, chain) : derive_chain(parser);
    if (rc)
        return rc;
    derive_fill_order(config);
    derive_default_tier(config);
    return 0;
}

int tier_config_parse(const char *text, size_t len, struct tier_config **ret_config, char *error,
                      size_t error_size)
{
    CLEANUP(tier_config_freep) struct tier_config *config = calloc(1, sizeof(*config));
    struct tier_parser parser = {config, error, error_size};
    struct arena arena;
    cJSON *root;
    int rc;

    if (!config)
        return -ENOMEM;
    if (!text)
        len = 0;
    if (len > TIER_CONFIG_TEXT_MAX)
        return FAIL(&parser, "the configuration is longer than %d bytes", TIER_CONFIG_TEXT_MAX);
    arena_init(&arena, TIER_PARSE_ARENA_MAX);
    root = len ? json_parse(&arena, (struct slice){text, len}) : NULL;
    if (len == 0 || (cJSON_IsObject(root) && cJSON_GetArraySize(root) == 0)) {
        text = default_text;
        len = sizeof(default_text) - 1;
        root = json_parse(&arena, SLICE(default_text));
    }
    config->text = strndup(text, len);
    if (!config->text)
        rc = -ENOMEM;
    else if (!root)
        rc = FAIL(&parser, "not valid JSON");
    else if (!cJSON_IsObject(root))
        rc = FAIL(&parser, "must be a JSON object");
    else
        rc = parse_root(&parser, root);
    arena_release(&arena);
    if (rc)
        return rc;
    *ret_config = TAKE(config);
    return 0;
}
