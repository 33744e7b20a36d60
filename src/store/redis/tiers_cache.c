/*
 * tiers_cache.c - keeps the stored tiers in the form that scripts take, and loads them again when
 * they change.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "store/redis/redis_internal.h"

enum {
    TIER_CACHE_ARENA_MAX = 4 * 1024 * 1024,
    TIER_RETRY_MS = 500, /* after a failure, while there is no configuration at all */
};

static uint32_t tier_max(const struct tier *tier)
{
    return tier->is_shared ? tier->max_concurrent : 0;
}

static void write_tiers(struct strbuf *buf, const struct tier_config *config)
{
    for (size_t i = 0; i < REDIS_VERSION_LEN; i++)
        strbuf_append_char(buf, '-'); /* the version is not known yet */
    strbuf_append_char(buf, '\n');
    for (size_t i = 0; i < config->tier_count; i++) {
        const struct tier *tier = &config->tiers[config->fill_order[i]];

        strbuf_printf(buf, "%s %u %u\n", tier->name, tier_max(tier), tier->target);
    }
}

static void write_merchants(struct strbuf *buf, const struct tier_config *config)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, "tiers");
    json_object_begin(&json);
    for (size_t i = 0; i < config->tier_count; i++)
        json_put_u64(&json, config->tiers[i].name, tier_max(&config->tiers[i]));
    json_object_end(&json);
    json_key(&json, "chain");
    json_array_begin(&json);
    for (size_t i = 0; i < config->chain_len; i++)
        json_string(&json, config->tiers[config->chain[i]].name);
    json_array_end(&json);
    json_key(&json, "reserved");
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
    int rc;

    if (!cache) {
        tier_config_free(config);
        return -ENOMEM;
    }
    cache->refs = 1;
    cache->config = config;
    arena_init(&cache->arena, TIER_CACHE_ARENA_MAX);
    rc = build_chain(cache);
    if (rc) {
        tier_cache_free(cache);
        return rc;
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
    int rc = tier_config_parse(text, text ? strlen(text) : 0, &config, error, error_size);

    return rc ? rc : tier_cache_of(config, ret_cache);
}

int tier_cache_new_stored(const char *text, size_t len, struct tier_cache **ret_cache, char *error,
                          size_t error_size)
{
    struct tier_config *config = NULL;
    int rc = tier_config_parse_stored(text, len, &config, error, error_size);

    return rc ? rc : tier_cache_of(config, ret_cache);
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
    memcpy(cache->version, version, REDIS_VERSION_LEN);
}

int tiers_request(struct redis_store *store, redis_reply_fn done, void *arg)
{
    struct slice args[] = {slice_of(store->prefix),
                           store->seed->tiers,
                           store->seed->default_tier,
                           SLICE(""),
                           SLICE("seed"),
                           slice_of(store->seed->config->text)};

    return redis_link_call(store->link, redis_script("tiers"), store->key, args, ARRAY_LEN(args), done, arg);
}

int tiers_mend(struct redis_store *store, redis_reply_fn done, void *arg)
{
    struct slice args[] = {slice_of(store->prefix),
                           store->tiers->tiers,
                           store->tiers->default_tier,
                           SLICE(""),
                           SLICE("mend"),
                           slice_of(store->tiers->config->text)};

    return redis_link_call(store->link, redis_script("tiers"), store->key, args, ARRAY_LEN(args), done, arg);
}

static void tiers_forget_bad(struct redis_store *store)
{
    free(store->bad_tiers);
    store->bad_tiers = NULL;
}

void tiers_replace(struct redis_store *store, struct tier_cache *cache)
{
    if (store->tiers != cache)
        tier_cache_free(store->tiers);
    store->tiers = cache;
    tiers_forget_bad(store);
}

/* What is stored, as text and version. */
static bool tiers_are_readable(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING &&
           reply->element[1]->len == REDIS_VERSION_LEN;
}

/* What is stored is no configuration: somebody wrote it by hand. Said and counted once for each such text. */
static void tiers_refuse(struct redis_store *store, const redisReply *reply, const char *error)
{
    /* A text with a NUL is kept, and compared, up to there. */
    if (store->bad_tiers && strlen(store->bad_tiers) == strnlen(reply->str, reply->len) &&
        strncmp(store->bad_tiers, reply->str, reply->len) == 0)
        return;
    free(store->bad_tiers);
    store->bad_tiers = strndup(reply->str, reply->len);
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
    int rc = 0;

    if (!tiers_are_readable(reply)) {
        log_error("unexpected answer from Redis", log_str("script", "tiers"));
        return -EIO;
    }
    text = reply->element[0];
    if (!store->tiers || strlen(store->tiers->config->text) != text->len ||
        memcmp(store->tiers->config->text, text->str, text->len) != 0)
        rc = tier_cache_new_stored(text->str, text->len, &cache, error, sizeof(error));
    if (cache)
        tiers_accept(store, cache);
    else if (rc == -EINVAL)
        tiers_refuse(store, text, error);
    else if (rc == 0)
        tiers_forget_bad(store);
    /* Also if the text was refused: it has been read, and the old tiers are what it leaves us. */
    if (store->tiers && (rc == 0 || rc == -EINVAL))
        tier_cache_set_version(store->tiers, reply->element[1]->str);
    return store->tiers ? 0 : rc == -EINVAL ? -EIO : rc;
}

static void tiers_loaded(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;
    bool was_loaded = store->tiers != NULL;

    store->is_loading = false;
    if (err == 0)
        err = tiers_take(store, reply);
    if (err == 0 && !was_loaded)
        log_info("tiers read", log_num("tiers", (int64_t)store->tiers->config->tier_count));
    if (err && !store->tiers && !store->is_closing && redis_link_is_up(store->link))
        uv_timer_start(&store->refresh, tiers_refresh, TIER_RETRY_MS, store->tier_refresh_ms);
}

void tiers_load(struct redis_store *store)
{
    if (store->is_loading || store->is_closing || !redis_link_is_up(store->link))
        return;
    store->is_loading = tiers_request(store, tiers_loaded, store) == 0;
}

void tiers_refresh(uv_timer_t *timer)
{
    tiers_load(timer->data);
}
