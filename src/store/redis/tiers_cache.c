/*
 * tiers_cache.c - keeps the stored tiers in the form that scripts take, and loads them again when
 * they change.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "core/autoscale.h"
#include "store/redis/redis_internal.h"
#include "store/seed.h"

enum {
    TIER_CACHE_ARENA_MAX = 4 * 1024 * 1024,
    TIER_RETRY_MS = 500, /* after a failure, while there is no configuration at all */
};

static uint32_t tier_max(const struct tier *tier)
{
    return tier->is_shared ? tier->max_concurrent : 0;
}

/* As scripts/redis/lib/wanted.lua reads it. */
static void write_scaling(struct strbuf *buf, const struct tier *tier)
{
    const struct tier_scaling scaling = tier_scaling(tier);

    if (tier_is_scaled(tier))
        strbuf_printf(buf, " %u %u %u", scaling.buffer, scaling.min_pods, scaling.max_pods);
}

static void write_tiers(struct strbuf *buf, const struct tier_config *config)
{
    for (size_t i = 0; i < SCRIPT_VERSION_LEN; i++)
        strbuf_append_char(buf, '-'); /* the version is not known yet */
    strbuf_append_char(buf, '\n');
    for (size_t i = 0; i < config->tier_count; i++) {
        const struct tier *tier = &config->tiers[config->fill_order[i]];

        strbuf_printf(buf, "%s %u %u", tier->name, tier_max(tier), tier->target);
        write_scaling(buf, tier);
        strbuf_append_char(buf, '\n');
    }
}

static void write_merchants(struct strbuf *buf, const struct tier_config *config)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, SCRIPT_CHAINS_TIERS);
    json_object_begin(&json);
    for (size_t i = 0; i < config->tier_count; i++)
        json_put_u64(&json, config->tiers[i].name, tier_max(&config->tiers[i]));
    json_object_end(&json);
    json_key(&json, SCRIPT_CHAINS_CHAIN);
    json_array_begin(&json);
    for (size_t i = 0; i < config->chain_len; i++)
        json_string(&json, config->tiers[config->chain[i]].name);
    json_array_end(&json);
    json_key(&json, SCRIPT_CHAINS_RESERVED);
    json_object_begin(&json);
    for (size_t i = 0; i < config->tier_count; i++) {
        if (config->tiers[i].is_reserved)
            json_put_bool(&json, config->tiers[i].name, true);
    }
    json_object_end(&json);
    json_object_end(&json);
}

static int build_chain(struct tier_cache *cache)
{
    const struct tier_config *config = cache->config;

    cache->chain = arena_alloc(&cache->arena, 2 * config->chain_len * sizeof(*cache->chain));
    if (!cache->chain)
        return -ENOMEM;
    for (size_t i = 0; i < config->chain_len; i++) {
        const struct tier *tier = &config->tiers[config->chain[i]];
        char *max;

        if (tier->is_reserved)
            continue;
        max = arena_alloc(&cache->arena, 16);
        if (!max)
            return -ENOMEM;
        snprintf(max, 16, "%u", tier_max(tier));
        cache->chain[cache->chain_count++] = slice_of(tier->name);
        cache->chain[cache->chain_count++] = slice_of(max);
    }
    return 0;
}

/* Takes ownership of `config`. */
static int tier_cache_of(struct tier_config *config, struct tier_cache **ret_cache)
{
    struct tier_cache *cache = calloc(1, sizeof(*cache));
    struct strbuf tiers, merchants;
    int err;

    if (!cache) {
        tier_config_free(config);
        return -ENOMEM;
    }
    cache->refs = 1;
    cache->config = config;
    arena_init(&cache->arena, TIER_CACHE_ARENA_MAX);
    err = build_chain(cache);
    if (err < 0) {
        tier_cache_free(cache);
        return err;
    }
    strbuf_init(&tiers, &cache->arena, TIER_CACHE_ARENA_MAX);
    strbuf_init(&merchants, &cache->arena, TIER_CACHE_ARENA_MAX);
    write_tiers(&tiers, cache->config);
    write_merchants(&merchants, cache->config);
    if (strbuf_failed(&tiers) || strbuf_failed(&merchants)) {
        tier_cache_free(cache);
        return -ENOMEM;
    }
    cache->tiers = strbuf_slice(&tiers);
    cache->version = tiers.data;
    cache->merchants = strbuf_slice(&merchants);
    cache->default_tier = slice_of(cache->config->tiers[cache->config->default_tier].name);
    *ret_cache = cache;
    return 0;
}

int tier_cache_new(const char *text, struct tier_cache **ret_cache, char *error, size_t error_size)
{
    struct tier_config *config = NULL;
    int err = tier_config_parse(text, text ? strlen(text) : 0, &config, error, error_size);

    return err < 0 ? err : tier_cache_of(config, ret_cache);
}

int tier_cache_new_stored(const char *text, size_t len, struct tier_cache **ret_cache, char *error,
                          size_t error_size)
{
    struct tier_config *config = NULL;
    int err = tier_config_parse_stored(text, len, &config, error, error_size);

    return err < 0 ? err : tier_cache_of(config, ret_cache);
}

struct tier_cache *tier_cache_ref(struct tier_cache *cache)
{
    cache->refs++;
    return cache;
}

struct tier_cache *tier_cache_free(struct tier_cache *cache)
{
    if (!cache || --cache->refs > 0)
        return NULL;
    tier_config_free(cache->config);
    arena_release(&cache->arena);
    free(cache);
    return NULL;
}

void tier_cache_set_version(struct tier_cache *cache, const char *version)
{
    memcpy(cache->version, version, SCRIPT_VERSION_LEN);
}

/* Without a fence: every router may ask. */
static int tiers_call(struct redis_store *store, const struct tier_cache *cache, struct slice what,
                      redis_reply_fn done, void *arg)
{
    const struct slice args[] = {
        [SCRIPT_ARG_PREFIX] = slice_of(store->keys.prefix),
        [SCRIPT_ARG_TIERS] = cache->tiers,
        [SCRIPT_ARG_DEFAULT_TIER] = cache->default_tier,
        [SCRIPT_TIERS_ARG_FENCE] = SLICE(""),
        [SCRIPT_TIERS_ARG_WHAT] = what,
        [SCRIPT_TIERS_ARG_TEXT] = slice_of(cache->config->text),
    };

    return redis_link_call(store->link, redis_script(SCRIPT_TIERS), store->keys.active, args, ARRAY_LEN(args),
                           done, arg);
}

int tiers_request(struct redis_store *store, redis_reply_fn done, void *arg)
{
    return tiers_call(store, store->tier_loading.seed, SLICE(SCRIPT_TIERS_SEED), done, arg);
}

int tiers_mend(struct redis_store *store, redis_reply_fn done, void *arg)
{
    return tiers_call(store, store->tiers, SLICE(SCRIPT_TIERS_MEND), done, arg);
}

static void tiers_forget_bad(struct redis_store *store)
{
    free(store->tier_loading.bad_text);
    store->tier_loading.bad_text = NULL;
}

void tiers_replace(struct redis_store *store, struct tier_cache *cache)
{
    if (store->tiers != cache)
        tier_cache_free(store->tiers);
    store->tiers = cache;
    tiers_forget_bad(store);
}

/* The stored text, its version, and whether the store was empty before. */
static bool tiers_are_readable(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING &&
           reply->element[1]->len == SCRIPT_VERSION_LEN && reply->element[2]->type == REDIS_REPLY_INTEGER;
}

/*
 * The stored text is no configuration: it was written by hand. Logged and counted once for each
 * text.
 */
static void tiers_refuse(struct redis_store *store, const redisReply *reply, const char *error)
{
    /* A text with a NUL is kept, and compared, up to there. */
    if (store->tier_loading.bad_text &&
        strlen(store->tier_loading.bad_text) == strnlen(reply->str, reply->len) &&
        strncmp(store->tier_loading.bad_text, reply->str, reply->len) == 0)
        return;
    free(store->tier_loading.bad_text);
    store->tier_loading.bad_text = strndup(reply->str, reply->len);
    store->stats.tier_errors++;
    log_error(store->tiers ? "the stored tier configuration is not valid; the old one stays"
                           : "the stored tier configuration is not valid; calls are refused until it is",
              log_str("error", error));
}

/* Another text than the one we have: also called once for each. */
static void tiers_accept(struct redis_store *store, struct tier_cache *cache)
{
    tiers_replace(store, cache);
    if (cache->config->skipped[0])
        log_warn("default_chain of the stored tiers names tiers that are not configured; calls do not try "
                 "them: configure them, or take them out with PUT /api/v1/tiers",
                 log_str("names", cache->config->skipped));
}

int tiers_take(struct redis_store *store, const redisReply *reply)
{
    struct tier_cache *cache = NULL;
    const redisReply *text;
    char error[256] = "";
    int err = 0;

    if (!tiers_are_readable(reply)) {
        log_error(
            "an answer of Redis cannot be read: the request failed. Is there a proxy, or another program "
            "on these keys?",
            log_str("script", SCRIPT_TIERS));
        return -EIO;
    }
    if (store->tiers && reply->element[2]->integer)
        wipe_found(store);
    text = reply->element[0];
    if (!store->tiers || strlen(store->tiers->config->text) != text->len ||
        memcmp(store->tiers->config->text, text->str, text->len) != 0)
        err = tier_cache_new_stored(text->str, text->len, &cache, error, sizeof(error));
    if (cache)
        tiers_accept(store, cache);
    else if (err == -EINVAL)
        tiers_refuse(store, text, error);
    else if (err == 0)
        tiers_forget_bad(store);
    /* Also if the text was refused: it has been read, and the old tiers stay. */
    if (store->tiers && (err == 0 || err == -EINVAL))
        tier_cache_set_version(store->tiers, reply->element[1]->str);
    return store->tiers ? 0 : err == -EINVAL ? -EIO : err;
}

static void tiers_refresh(uv_timer_t *timer);

static void tiers_loaded(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;
    bool was_loaded;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    was_loaded = store->tiers != NULL;
    store->tier_loading.is_asking = false;
    if (err == 0)
        err = tiers_take(store, reply);
    store->tier_loading.is_refused = err == -EACCES;
    if (err == 0 && !was_loaded) {
        const struct tier_config *config = store->tiers->config;

        log_info("store opened", log_str("store", "redis"), log_str("key_prefix", store->keys.prefix),
                 log_num("tiers", (int64_t)config->tier_count));
        if (store->tier_loading.is_seed_given)
            seed_compare(config->text, strlen(config->text), store->tier_loading.seed->config);
    }
    if (err && !store->tiers && !store->closing.is_begun && redis_link_is_up(store->link))
        uv_timer_start(&store->tier_loading.timer, tiers_refresh, TIER_RETRY_MS, store->tier_refresh_ms);
}

void tiers_load(struct redis_store *store)
{
    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    if (store->tier_loading.is_asking || store->closing.is_begun || !redis_link_is_up(store->link))
        return;
    store->tier_loading.is_asking = tiers_request(store, tiers_loaded, store) == 0;
}

static void tiers_refresh(uv_timer_t *timer)
{
    tiers_load(timer->data);
}

int tiers_init(struct redis_store *store, const char *text)
{
    struct tier_config *config = NULL;
    char error[256] = "";
    int err = tier_config_parse_seed(text, text ? strlen(text) : 0, &config, error, sizeof(error));

    store->tier_loading.is_seed_given = text != NULL;
    return err < 0 ? err : tier_cache_of(config, &store->tier_loading.seed);
}

void tiers_start(struct redis_store *store, uv_loop_t *loop)
{
    redis_open_timer(store, loop, &store->tier_loading.timer);
    uv_timer_start(&store->tier_loading.timer, tiers_refresh, store->tier_refresh_ms, store->tier_refresh_ms);
}

void tiers_release(struct redis_store *store)
{
    tier_cache_free(store->tiers);
    tier_cache_free(store->tier_loading.seed);
    free(store->tier_loading.bad_text);
}
