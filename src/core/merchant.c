/*
 * merchant.c - parses a merchant's configuration, and resolves it to a chain of pools.
 */
#include "core/merchant.h"

#include <stdio.h>

#include "core/members.h"

static int parse_fallback(struct arena *arena, const cJSON *array, struct merchant_config *config,
                          char *error, size_t error_size)
{
    size_t count = (size_t)cJSON_GetArraySize(array);
    const cJSON *item;

    if (!cJSON_IsArray(array) || count > TIER_CHAIN_MAX) {
        snprintf(error, error_size, "fallback must be an array of at most %d names", TIER_CHAIN_MAX);
        return -EINVAL;
    }
    config->fallback = arena_alloc(arena, (count + 1) * sizeof(*config->fallback));
    if (!config->fallback)
        return -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_GetStringValue(item);

        if (!name || !name_is_pool_or_id(name, strlen(name))) {
            snprintf(error, error_size, "fallback must hold names of tiers or merchant pools");
            return -EINVAL;
        }
        config->fallback[config->fallback_len++] = name;
    }
    return 0;
}

/* The stores would not agree on which of the two counts. */
static bool is_there_twice(const cJSON *object, const char *name)
{
    const cJSON *item;
    unsigned count = 0;

    cJSON_ArrayForEach(item, object) count += strcmp(item->string, name) == 0;
    return count > 1;
}

/* `item` NULL, null and "": not given. The first implementation wrote "" for what was not set. */
static int parse_name(const cJSON *item, bool (*is_name)(const char *name, size_t len), const char *wrong,
                      const char **ret_name, char *error, size_t error_size)
{
    const char *name = cJSON_GetStringValue(item);

    if (item && !cJSON_IsNull(item) && (!name || (name[0] && !is_name(name, strlen(name))))) {
        snprintf(error, error_size, "%s", wrong);
        return -EINVAL;
    }
    *ret_name = name && name[0] ? name : NULL;
    return 0;
}

static bool is_number(const cJSON *item, int max)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= max &&
           item->valuedouble == (double)(int)item->valuedouble;
}

/* One that no PUT would accept is not given. Nor is one that is there twice: the stores would not agree. */
static uint32_t parse_number(const cJSON *root, const char *name, int max)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    return is_number(item, max) && !is_there_twice(root, name) ? (uint32_t)item->valueint
                                                               : MERCHANT_NOT_GIVEN;
}

static int parse_object(struct arena *arena, const cJSON *root, struct merchant_config *ret_config,
                        char *error, size_t error_size)
{
    struct merchant_config config = {0};
    const cJSON *fallback = cJSON_GetObjectItemCaseSensitive(root, "fallback");
    int err;

    if (is_there_twice(root, "tier") || is_there_twice(root, "pool") || is_there_twice(root, "fallback")) {
        snprintf(error, error_size, "a member is there twice");
        return -EINVAL;
    }
    err =
        parse_name(cJSON_GetObjectItemCaseSensitive(root, "tier"), name_is_pool_or_id,
                   "tier must be the name of a tier or of a merchant pool", &config.tier, error, error_size);
    if (err == 0)
        err = parse_name(cJSON_GetObjectItemCaseSensitive(root, "pool"), name_is_merchant_id,
                         "pool must be a merchant id", &config.pool, error, error_size);
    if (err == 0 && fallback && !cJSON_IsNull(fallback))
        err = parse_fallback(arena, fallback, &config, error, error_size);
    config.priority = parse_number(root, "priority", MERCHANT_PRIORITY_MAX);
    config.hold_seconds = parse_number(root, "hold_seconds", MERCHANT_HOLD_SECONDS_MAX);
    config.max_waiting = parse_number(root, "max_waiting", MERCHANT_WAITING_MAX);
    if (err == 0)
        *ret_config = config;
    return err;
}

static int parse_text(struct arena *arena, const char *text, size_t len, const cJSON **ret_root, char *error,
                      size_t error_size)
{
    if (len > MERCHANT_CONFIG_TEXT_MAX) {
        snprintf(error, error_size, "a merchant's configuration has at most %d bytes",
                 MERCHANT_CONFIG_TEXT_MAX);
        return -EINVAL;
    }
    *ret_root = json_parse(arena, (struct slice){text, len});
    if (cJSON_IsObject(*ret_root))
        return 0;
    if (!*ret_root)
        members_bad_json((struct slice){text, len}, error, error_size);
    else
        snprintf(error, error_size, "a merchant's configuration must be a JSON object");
    return -EINVAL;
}

int merchant_config_parse(struct arena *arena, const char *text, size_t len,
                          struct merchant_config *ret_config, char *error, size_t error_size)
{
    const cJSON *root = NULL;
    int err = parse_text(arena, text, len, &root, error, error_size);

    return err < 0 ? err : parse_object(arena, root, ret_config, error, error_size);
}

static int check_number(const cJSON *root, const char *name, int max, char *error, size_t error_size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    if (!item || cJSON_IsNull(item) || is_number(item, max))
        return 0;
    snprintf(error, error_size, "%s must be a whole number from 0 to %d", name, max);
    return -EINVAL;
}

int merchant_config_check(struct arena *arena, const char *text, size_t len,
                          struct merchant_config *ret_config, char *error, size_t error_size)
{
    static const char *const names[] = {"tier",     "pool",         "fallback",
                                        "priority", "hold_seconds", "max_waiting"};
    const struct members_known known = {names, ARRAY_LEN(names), "in the merchant's configuration"};
    const cJSON *root = NULL;
    int err = parse_text(arena, text, len, &root, error, error_size);

    if (err == 0 && !members_check(root, &known, error, error_size))
        err = -EINVAL;
    if (err == 0)
        err = check_number(root, "priority", MERCHANT_PRIORITY_MAX, error, error_size);
    if (err == 0)
        err = check_number(root, "hold_seconds", MERCHANT_HOLD_SECONDS_MAX, error, error_size);
    if (err == 0)
        err = check_number(root, "max_waiting", MERCHANT_WAITING_MAX, error, error_size);
    return err < 0 ? err : parse_object(arena, root, ret_config, error, error_size);
}

static void chain_add(struct chain *chain, const struct tier *tier)
{
    for (size_t i = 0; i < chain->len; i++) {
        if (chain->steps[i] == tier)
            return;
    }
    if (chain->len < CHAIN_MAX)
        chain->steps[chain->len++] = tier;
}

/*
 * Adds the default chain from position `from` on; a reserved tier is only for merchants that name
 * it.
 */
static void chain_add_default(struct chain *chain, const struct tier_config *tiers, size_t from)
{
    for (size_t i = from; i < tiers->chain_len; i++) {
        const struct tier *tier = &tiers->tiers[tiers->chain[i]];

        if (!tier->is_reserved)
            chain_add(chain, tier);
    }
}

static void chain_add_own_tier(struct chain *chain, const struct tier_config *tiers, const struct tier *own)
{
    chain_add(chain, own);
    for (size_t i = 0; i < tiers->chain_len; i++) {
        if (&tiers->tiers[tiers->chain[i]] == own) {
            /* What stands before one's own tier is not tried. */
            chain_add_default(chain, tiers, i + 1);
            return;
        }
    }
    chain_add_default(chain, tiers, 0);
}

static void chain_add_pool(struct chain *chain, const struct tier_config *tiers, const char *pool)
{
    char name[POOL_LABEL_MAX + 1];
    const struct tier *tier;

    merchant_pool_name(slice_of(pool), name);
    tier = tier_config_find(tiers, name);
    if (tier)
        chain_add(chain, tier);
    else
        chain->missing_pool = pool;
}

void chain_resolve(const struct tier_config *tiers, const struct merchant_config *merchant,
                   struct chain *ret_chain)
{
    const struct tier *own;

    ret_chain->len = 0;
    ret_chain->missing_pool = NULL;
    if (!merchant) {
        chain_add_default(ret_chain, tiers, 0);
        return;
    }
    if (merchant->pool)
        chain_add_pool(ret_chain, tiers, merchant->pool);
    for (size_t i = 0; i < merchant->fallback_len; i++) {
        const struct tier *tier = tier_config_resolve(tiers, merchant->fallback[i]);

        if (tier)
            chain_add(ret_chain, tier);
    }
    if (merchant->fallback_len)
        return;
    own = merchant->tier ? tier_config_resolve(tiers, merchant->tier) : NULL;
    if (own)
        chain_add_own_tier(ret_chain, tiers, own);
    else
        chain_add_default(ret_chain, tiers, 0);
}
