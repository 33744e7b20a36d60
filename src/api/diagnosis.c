/*
 * diagnosis.c - GET /api/v1/diagnosis: the facts that an operator, or `smart-router doctor`, needs to find a
 * fault and that no other route tells. It judges nothing, and it tells no secret.
 *
 * It always answers: without the store its part is left out.
 */
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/version.h"

struct diagnosis {
    unsigned magic;
    struct api *api;
    struct http_request *request;
    struct store_facts facts;
};

enum { DIAGNOSIS_MAGIC = 0x64696167 };

static void put_i64(struct json_writer *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_i64(json, value);
}

static void put_store(struct json_writer *json, const struct api *api, const struct store_facts *facts)
{
    struct store_health health;
    struct store_stats stats;

    store_health(api->store, &health);
    store_stats(api->store, &stats);
    json_key(json, "store");
    json_object_begin(json);
    json_put_string(json, "name", health.name);
    json_put_bool(json, "is_ready", health.is_ready);
    json_put_string(json, "detail", health.detail);
    json_put_bool(json, "is_shared", health.is_shared);
    json_put_u64(json, "errors", stats.errors);
    json_put_u64(json, "wipes", stats.wipes);
    json_put_u64(json, "refused_tiers", stats.tier_errors);
    if (facts)
        put_i64(json, "clock_ahead_ms", (int64_t)facts->clock_ms - (int64_t)clock_wall_ms());
    json_object_end(json);
}

static void put_redis(struct json_writer *json, const struct store_facts *facts)
{
    json_key(json, "redis");
    json_object_begin(json);
    json_put_string(json, "version", facts->server.version);
    json_put_string(json, "role", facts->server.role);
    json_put_bool(json, "logs_writes", facts->server.logs_writes);
    json_put_bool(json, "fails_to_log", facts->server.fails_to_log);
    json_put_bool(json, "fails_to_save", facts->server.fails_to_save);
    json_put_string(json, "eviction_policy", facts->server.eviction_policy);
    json_put_u64(json, "max_memory", facts->server.max_memory);
    json_put_u64(json, "used_memory", facts->server.used_memory);
    json_put_u64(json, "evicted_keys", facts->server.evicted_keys);
    json_put_u64(json, "replicas", facts->server.replicas);
    json_object_end(json);
}

static void put_router(struct json_writer *json, const char *name, const char *version, uint64_t silent_ms)
{
    json_object_begin(json);
    json_put_string(json, "name", name);
    json_put_string(json, "version", version);
    json_put_u64(json, "silent_ms", silent_ms);
    json_object_end(json);
}

/*
 * A router with a store of its own is the only one. A shared store that did not answer: they are not known,
 * and nobody may take the others for dead.
 */
static void put_routers(struct json_writer *json, const struct api *api, const struct store_facts *facts)
{
    struct store_health health;

    store_health(api->store, &health);
    if (!facts && health.is_shared)
        return;
    json_key(json, "routers");
    json_array_begin(json);
    for (size_t i = 0; facts && i < facts->router_count; i++)
        put_router(json, facts->routers[i].name, facts->routers[i].version, facts->routers[i].silent_ms);
    if (!facts)
        put_router(json, api->settings.identity, SMART_ROUTER_VERSION, 0);
    json_array_end(json);
}

/* Who may do what: these can change with a reload, so the API tells them, not the settings. */
static void put_access(struct json_writer *json, const struct api *api)
{
    static const struct {
        const char *name;
        enum secret_kind kind;
    } providers[] = {{"twilio", SECRET_TWILIO}, {"plivo", SECRET_PLIVO}, {"exotel", SECRET_EXOTEL}};

    json_put_bool(json, "has_api_keys", keys_count(api->keys) > 0);
    json_key(json, "provider_tokens");
    json_object_begin(json);
    for (size_t i = 0; i < ARRAY_LEN(providers); i++)
        json_put_bool(json, providers[i].name, secrets_count(api->secrets, providers[i].kind) > 0);
    json_object_end(json);
}

/* `facts` NULL: the store did not answer, or is this router's own. */
static void diagnosis_reply(const struct diagnosis *diagnosis, const struct store_facts *facts)
{
    const struct api *api = diagnosis->api;
    char now[CLOCK_TEXT_MAX];
    struct json_writer json;
    struct strbuf buf;

    clock_format_millis(clock_wall_ms(), now);
    api_reply_begin(diagnosis->request, &buf, &json);
    json_put_string(&json, "time", now);
    json_put_string(&json, "version", SMART_ROUTER_VERSION);
    json_put_string(&json, "identity", api->settings.identity);
    json_put_u64(&json, "uptime_seconds", (clock_elapsed_ms() - api->started_ms) / 1000);
    json_put_bool(&json, "is_leader", api->is_leader);
    json_put_string(&json, "leader", api->leader);
    put_store(&json, api, facts);
    if (facts && facts->has_server)
        put_redis(&json, facts);
    put_routers(&json, api, facts);
    put_access(&json, api);
    if (api->settings.put_facts)
        api->settings.put_facts(api->settings.put_facts_arg, &json);
    json_object_end(&json);
    api_reply_json(diagnosis->request, 200, &buf);
}

static void api_diagnosis_told(void *arg, int err)
{
    const struct diagnosis *diagnosis = arg;

    MAGIC_CHECK(diagnosis, DIAGNOSIS_MAGIC);
    if (err < 0)
        log_debug("the diagnosis is without the store's part", log_str("cause", store_error_text(err)),
                  log_str("request_id", http_request_id(diagnosis->request)));
    diagnosis_reply(diagnosis, err < 0 ? NULL : &diagnosis->facts);
}

void api_diagnosis(struct http_request *request, void *arg)
{
    struct api *api = arg;
    struct arena *arena = http_request_arena(request);
    struct diagnosis *diagnosis = arena_alloc(arena, sizeof(*diagnosis));

    if (!diagnosis) {
        api_reply_no_memory(request);
        return;
    }
    *diagnosis = (struct diagnosis){.magic = DIAGNOSIS_MAGIC, .api = api, .request = request};
    if (store_ask_facts(api->store, arena, &diagnosis->facts, api_diagnosis_told, diagnosis) < 0)
        diagnosis_reply(diagnosis, NULL);
}
