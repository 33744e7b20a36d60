/*
 * tiers.c - parses, validates and writes the tier configuration, and derives its chain and its
 * fill order.
 */
#include "core/tiers.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/members.h"

static const char default_text[] = "{\"gold\":{\"type\":\"exclusive\",\"target\":1},"
                                   "\"standard\":{\"type\":\"exclusive\",\"target\":1},"
                                   "\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":3}}";

enum { TIER_PARSE_ARENA_MAX = 32 * 1024 * 1024 };

/* How strictly to read: see tiers.h. */
enum tier_reading { READ_ASKED, READ_SEED, READ_STORED };

/* What the functions below hand around: where to put the result and where to say what is wrong. */
struct tier_parser {
    struct tier_config *config;
    const cJSON *chain; /* the default_chain, if there is one */
    enum tier_reading reading;
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

const struct tier *tier_config_resolve(const struct tier_config *config, const char *name)
{
    const struct tier *tier = tier_config_find(config, name);
    char pool[POOL_LABEL_MAX + 1];

    if (tier || strlen(name) > MERCHANT_ID_MAX)
        return tier;
    merchant_pool_name(slice_of(name), pool);
    return tier_config_find(config, pool);
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

/* A misspelt member would leave its default in force, and nobody would notice. */
static int check_members(struct tier_parser *parser, const cJSON *object, const struct members_known *known)
{
    char *ignored = parser->config->ignored;
    char sentence[TIER_SKIPPED_MAX + 1];
    const cJSON *member;

    if (parser->reading == READ_STORED)
        return 0;
    if (parser->reading == READ_ASKED)
        return members_check(object, known, parser->error, parser->error_size) ? 0 : -EINVAL;
    cJSON_ArrayForEach(member, object)
    {
        if (!members_is_known(known, member->string, sentence, sizeof(sentence)) && !ignored[0])
            snprintf(ignored, sizeof(parser->config->ignored), "%s", sentence);
    }
    return 0;
}

static int check_tier_members(struct tier_parser *parser, const cJSON *item)
{
    static const char *const names[] = {"type", "target", "max_concurrent", "reserved", "buffer",
                                        "min",  "max"};
    char where[POOL_LABEL_MAX + 16];

    snprintf(where, sizeof(where), "in tier \"%s\"", item->string);
    return check_members(parser, item, &(struct members_known){names, ARRAY_LEN(names), where});
}

static bool says_shared(const cJSON *item)
{
    const char *type = cJSON_IsObject(item) ? json_get_string(item, "type") : NULL;

    return type && strcmp(type, "shared") == 0;
}

/* Another program may use these names for something else: what it stored is then ignored. */
static int parse_scaling(struct tier_parser *parser, const cJSON *item, const char *member,
                         uint32_t *ret_value)
{
    int err = parse_number(parser, cJSON_GetObjectItemCaseSensitive(item, member), item->string, member, 0,
                           TIER_TARGET_MAX, ret_value);

    return parser->reading == READ_STORED ? 0 : err;
}

static int parse_all_scaling(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    int err = parse_scaling(parser, item, "buffer", &tier->buffer);

    if (err == 0)
        err = parse_scaling(parser, item, "min", &tier->min_pods);
    if (err == 0)
        err = parse_scaling(parser, item, "max", &tier->max_pods);
    if (err < 0 || tier->min_pods == TIER_UNSET || tier->min_pods <= tier->max_pods)
        return err;
    if (parser->reading != READ_STORED)
        return FAIL(parser, "tier \"%s\": min is greater than max", item->string);
    tier->min_pods = tier->max_pods = TIER_UNSET;
    return 0;
}

static int parse_object(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
    const cJSON *reserved = cJSON_GetObjectItemCaseSensitive(item, "reserved");
    uint32_t max_concurrent = 0;
    int err = check_tier_members(parser, item);

    if (err < 0)
        return err;
    tier->is_shared = says_shared(item);
    if (type && !tier->is_shared && (!cJSON_IsString(type) || strcmp(type->valuestring, "exclusive") != 0))
        return FAIL(parser, "tier \"%s\": type must be \"exclusive\" or \"shared\"", item->string);
    if (tier->is_shared && tier->is_merchant)
        return FAIL(parser, "\"%s\": a merchant pool cannot be shared", item->string);
    if (reserved && !cJSON_IsBool(reserved))
        return FAIL(parser, "tier \"%s\": reserved must be true or false", item->string);
    tier->is_reserved = cJSON_IsTrue(reserved);
    err = parse_number(parser, cJSON_GetObjectItemCaseSensitive(item, "target"), item->string, "target", 0,
                       TIER_TARGET_MAX, &tier->target);
    if (err < 0)
        return err;
    err = parse_number(parser, cJSON_GetObjectItemCaseSensitive(item, "max_concurrent"), item->string,
                       "max_concurrent", 0, TIER_CONCURRENT_MAX, &max_concurrent);
    if (err < 0)
        return err;
    if (max_concurrent == 0)
        max_concurrent = TIER_CONCURRENT_DEFAULT;
    tier->max_concurrent = tier->is_shared ? max_concurrent : 1;
    return parse_all_scaling(parser, item, tier);
}

static bool chain_has(const cJSON *chain, const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, chain)
    {
        if (strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

/* The name by which everybody knows the tier, whichever spelling was used. */
static int parse_name(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    const char *name = item->string;
    size_t len = strlen(name);
    size_t prefix = strlen(MERCHANT_POOL_PREFIX);
    bool is_prefixed = name_is_merchant_pool(name, len);

    tier->is_merchant =
        is_prefixed || (parser->chain && !says_shared(item) && !chain_has(parser->chain, name));
    if (is_prefixed && !name_is_merchant_id(name + prefix, len - prefix))
        return FAIL(parser, "\"%.150s\" does not name a merchant pool: expected merchant:{id}", name);
    if (tier->is_merchant && !is_prefixed && !name_is_merchant_id(name, len))
        return FAIL(parser,
                    "\"%.100s\" is no name for a merchant pool: use up to 128 of A-Z a-z 0-9 . _ : @ + = -",
                    name);
    if (!tier->is_merchant && !name_is_tier(name, len))
        return FAIL(parser, "\"%.150s\" is no name for a tier: use up to 63 of A-Z a-z 0-9 . _ -", name);
    if (tier->is_merchant && !is_prefixed)
        merchant_pool_name(slice_of(name), tier->name);
    else
        snprintf(tier->name, sizeof(tier->name), "%s", name);
    return 0;
}

static int parse_tier(struct tier_parser *parser, const cJSON *item, struct tier *tier)
{
    int err;

    *tier = (struct tier){
        .max_concurrent = 1, .buffer = TIER_UNSET, .min_pods = TIER_UNSET, .max_pods = TIER_UNSET};
    err = parse_name(parser, item, tier);
    if (err < 0)
        return err;
    if (cJSON_IsNumber(item))
        return parse_number(parser, item, item->string, "target", 0, TIER_TARGET_MAX, &tier->target);
    if (cJSON_IsObject(item))
        return parse_object(parser, item, tier);
    return FAIL(parser, "tier \"%s\" must be an object or a whole number", item->string);
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
        int err = parse_tier(parser, item, &config->tiers[config->tier_count]);

        if (err < 0)
            return err;
        config->tier_count++;
    }
    qsort(config->tiers, config->tier_count, sizeof(*config->tiers), tier_compare);
    for (size_t i = 1; i < config->tier_count; i++) {
        if (strcmp(config->tiers[i - 1].name, config->tiers[i].name) == 0)
            return FAIL(parser, "tier \"%s\" is there twice", config->tiers[i].name);
    }
    return 0;
}

/* Before the tiers are read: whether a tier is a merchant pool depends on the chain. */
static int check_chain(struct tier_parser *parser)
{
    const cJSON *item;

    if (!cJSON_IsArray(parser->chain) || cJSON_GetArraySize(parser->chain) == 0)
        return FAIL(parser, "default_chain must be an array with at least one tier");
    if (cJSON_GetArraySize(parser->chain) > TIER_CHAIN_MAX)
        return FAIL(parser, "default_chain has more than %d tiers", TIER_CHAIN_MAX);
    cJSON_ArrayForEach(item, parser->chain)
    {
        if (!cJSON_IsString(item))
            return FAIL(parser, "default_chain must hold names of tiers");
    }
    return 0;
}

static void skip_name(struct tier_config *config, const char *name)
{
    size_t len = strlen(config->skipped);

    snprintf(config->skipped + len, sizeof(config->skipped) - len, "%s%s", len ? ", " : "", name);
}

static bool is_in_chain(const struct tier_config *config, size_t tier)
{
    for (size_t i = 0; i < config->chain_len; i++) {
        if (config->chain[i] == tier)
            return true;
    }
    return false;
}

static int parse_chain(struct tier_parser *parser)
{
    struct tier_config *config = parser->config;
    const cJSON *item;

    cJSON_ArrayForEach(item, parser->chain)
    {
        const char *name = item->valuestring;
        const struct tier *tier = tier_config_find(config, name);
        size_t at = tier ? (size_t)(tier - config->tiers) : 0;

        if ((!tier || tier->is_merchant) && parser->reading != READ_STORED)
            return FAIL(parser, "default_chain names \"%.150s\", which is not a tier", name);
        if (tier && parser->reading != READ_STORED && is_in_chain(config, at))
            return FAIL(parser, "default_chain names \"%s\" twice", name);
        if (!tier || tier->is_merchant)
            skip_name(config, name);
        else if (!is_in_chain(config, at)) /* to try a pool twice would change nothing */
            config->chain[config->chain_len++] = at;
    }
    if (config->chain_len == 0)
        return FAIL(parser, "default_chain names no tier that is configured");
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
    assert(at == config->tier_count); /* each tier has one place */
}

static void derive_default_tier(struct tier_config *config)
{
    const struct tier *standard = tier_config_find(config, "standard");

    assert(config->chain_len > 0 && config->chain_len <= TIER_CHAIN_MAX);
    config->default_tier = config->chain[config->chain_len - 1];
    for (size_t i = 0; i < config->chain_len; i++) {
        if (!config->tiers[config->chain[i]].is_shared)
            config->default_tier = config->chain[i];
    }
    if (standard)
        config->default_tier = (size_t)(standard - config->tiers);
}

static int check_envelope(struct tier_parser *parser, const cJSON *root)
{
    static const char *const names[] = {"tiers", "default_chain"};

    return check_members(parser, root, &(struct members_known){names, ARRAY_LEN(names), "beside \"tiers\""});
}

static int parse_root(struct tier_parser *parser, const cJSON *root)
{
    struct tier_config *config = parser->config;
    const cJSON *tiers = cJSON_GetObjectItemCaseSensitive(root, "tiers");
    bool is_envelope = cJSON_IsObject(tiers);
    int err = 0;

    /* A tier cannot be called "tiers": an object of that name makes an envelope. */
    if (is_envelope) {
        parser->chain = cJSON_GetObjectItemCaseSensitive(root, "default_chain");
        err = check_envelope(parser, root);
    } else if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(root, "default_chain"))) {
        err = FAIL(parser, "default_chain needs the tiers in \"tiers\" beside it");
    }
    if (err == 0 && parser->chain)
        err = check_chain(parser);
    if (err == 0)
        err = parse_tiers(parser, is_envelope ? tiers : root);
    if (err < 0)
        return err;
    config->chain = calloc(TIER_CHAIN_MAX, sizeof(*config->chain));
    config->fill_order = calloc(config->tier_count ? config->tier_count : 1, sizeof(*config->fill_order));
    if (!config->chain || !config->fill_order)
        return -ENOMEM;
    err = parser->chain ? parse_chain(parser) : derive_chain(parser);
    if (err < 0)
        return err;
    derive_fill_order(config);
    derive_default_tier(config);
    return 0;
}

/*
 * The plain name of a merchant pool, unless it begins like the other spelling or belongs to a tier.
 */
static const char *name_to_write(const struct tier_config *config, const struct tier *tier)
{
    const char *id = tier->name + (tier->is_merchant ? strlen(MERCHANT_POOL_PREFIX) : 0);

    if (!tier->is_merchant || name_is_merchant_pool(id, strlen(id)) || tier_config_find(config, id))
        return tier->name;
    return id;
}

static void write_scaling(struct json_writer *json, const char *member, uint32_t value)
{
    if (value != TIER_UNSET)
        json_put_u64(json, member, value);
}

static void write_tier(struct json_writer *json, const char *name, const struct tier *tier)
{
    json_key(json, name);
    json_object_begin(json);
    json_put_string(json, "type", tier->is_shared ? "shared" : "exclusive");
    json_put_u64(json, "target", tier->target);
    if (tier->is_shared)
        json_put_u64(json, "max_concurrent", tier->max_concurrent);
    if (tier->is_reserved)
        json_put_bool(json, "reserved", true);
    write_scaling(json, "buffer", tier->buffer);
    write_scaling(json, "min", tier->min_pods);
    write_scaling(json, "max", tier->max_pods);
    json_object_end(json);
}

void tier_config_write(const struct tier_config *config, struct strbuf *buf)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, "tiers");
    json_object_begin(&json);
    for (int merchant = 0; merchant <= 1; merchant++) {
        for (size_t i = 0; i < config->tier_count; i++) {
            if (config->tiers[i].is_merchant == (merchant == 1))
                write_tier(&json, name_to_write(config, &config->tiers[i]), &config->tiers[i]);
        }
    }
    json_object_end(&json);
    json_key(&json, "default_chain");
    json_array_begin(&json);
    for (size_t i = 0; i < config->chain_len; i++)
        json_string(&json, config->tiers[config->chain[i]].name);
    json_array_end(&json);
    json_object_end(&json);
}

static int keep_text(struct tier_parser *parser, const char *text, size_t len)
{
    struct strbuf buf;

    if (parser->reading == READ_STORED) {
        parser->config->text = strndup(text, len);
        return parser->config->text ? 0 : -ENOMEM;
    }
    strbuf_init(&buf, NULL, TIER_CONFIG_STORED_MAX);
    tier_config_write(parser->config, &buf);
    if (!strbuf_failed(&buf))
        parser->config->text = strdup(buf.data);
    strbuf_release(&buf);
    return parser->config->text ? 0 : -ENOMEM;
}

static int parse_text(struct tier_parser *parser, struct arena *arena, const char *text, size_t len)
{
    cJSON *root = len ? json_parse(arena, (struct slice){text, len}) : NULL;
    int err;

    if (len == 0 || (cJSON_IsObject(root) && cJSON_GetArraySize(root) == 0))
        root = json_parse(arena, SLICE(default_text));
    if (!root) {
        members_bad_json((struct slice){text, len}, parser->error, parser->error_size);
        return -EINVAL;
    }
    if (!cJSON_IsObject(root))
        return FAIL(parser, "must be a JSON object");
    err = parse_root(parser, root);
    return err < 0 ? err : keep_text(parser, text, len);
}

static int parse_config(enum tier_reading reading, const char *text, size_t len,
                        struct tier_config **ret_config, char *error, size_t error_size)
{
    CLEANUP(tier_config_freep) struct tier_config *config = calloc(1, sizeof(*config));
    struct tier_parser parser = {
        .config = config, .reading = reading, .error = error, .error_size = error_size};
    size_t max = reading == READ_STORED ? TIER_CONFIG_STORED_MAX : TIER_CONFIG_TEXT_MAX;
    struct arena arena;
    int err;

    if (!config)
        return -ENOMEM;
    if (!text)
        len = 0;
    if (len > max)
        return FAIL(&parser, "the configuration is longer than %zu bytes", max);
    arena_init(&arena, TIER_PARSE_ARENA_MAX);
    err = parse_text(&parser, &arena, text ? text : "", len);
    arena_release(&arena);
    if (err < 0)
        return err;
    *ret_config = TAKE(config);
    return 0;
}

int tier_config_parse(const char *text, size_t len, struct tier_config **ret_config, char *error,
                      size_t error_size)
{
    return parse_config(READ_ASKED, text, len, ret_config, error, error_size);
}

int tier_config_parse_seed(const char *text, size_t len, struct tier_config **ret_config, char *error,
                           size_t error_size)
{
    return parse_config(READ_SEED, text, len, ret_config, error, error_size);
}

int tier_config_parse_stored(const char *text, size_t len, struct tier_config **ret_config, char *error,
                             size_t error_size)
{
    return parse_config(READ_STORED, text, len, ret_config, error, error_size);
}

bool tier_config_is_same(const char *stored, size_t len, const struct tier_config *wanted)
{
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    char error[256];
    struct strbuf buf;
    bool is_same;

    if (tier_config_parse_stored(stored, len, &config, error, sizeof(error)) < 0)
        return true; /* it has been read before, so memory is short: nothing depends on the answer */
    strbuf_init(&buf, NULL, TIER_CONFIG_STORED_MAX);
    tier_config_write(config, &buf);
    is_same = strbuf_failed(&buf) || strcmp(buf.data, wanted->text) == 0;
    strbuf_release(&buf);
    return is_same;
}
