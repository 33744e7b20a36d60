/*
 * admin.c - the routes for merchants, tiers and the status of all tiers.
 *
 * Configurations are checked and kept by the store; this file only checks that the body is text of
 * an allowed size.
 */
#include "api/api_internal.h"
#include "api/params.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#define MERCHANT_NOT_FOUND "merchant not found"

/* A configuration, or the name of the merchant that it is for. */
struct config_task {
    struct api_task task;
    const char *merchant_id; /* NULL: the tiers */
};

/*
 * The body as a text that the store can keep and show again. NULL: it cannot be one, and *ret_error says why.
 * What the text means is for the store to say.
 */
static const char *body_text(struct http_request *request, size_t max, const char **ret_error)
{
    struct slice body = http_request_body(request);
    const char *text = NULL;

    if (body.len == 0)
        *ret_error = "body is empty, and not a JSON object";
    else if (body.len > max)
        *ret_error = "the configuration is too long";
    else if (memchr(body.data, '\0', body.len) || !utf8_is_valid(body))
        *ret_error = "body is not valid UTF-8 text";
    else
        text = arena_copy(http_request_arena(request), body.data, body.len);
    return text;
}

static const char *merchant_of_path(struct http_request *request)
{
    const char *id = http_request_param(request, "id");
    const char *error = params_check_merchant(id);

    if (!error)
        return id;
    api_refuse(request, 400, error);
    return NULL;
}

static void api_merchants_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(task->request, &buf, &json);
    json_key(&json, "merchants");
    json_object_begin(&json);
    for (size_t i = 0; i < result->merchants.ids.count; i++) {
        struct slice text = slice_of(result->merchants.texts.names[i]);

        json_key(&json, result->merchants.ids.names[i]);
        /* What somebody else wrote into the store may be anything; it must not break everybody's answer. */
        if (json_is_valid(text))
            json_raw(&json, text);
        else
            json_slice(&json, text);
    }
    json_object_end(&json);
    json_put_u64(&json, "total", result->merchants.total);
    json_put_string(&json, "next_cursor", result->merchants.next_cursor);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_merchants(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_merchants_stored);
    struct command command = {.type = COMMAND_MERCHANTS};
    struct params params;

    if (!task)
        return;
    params_read_query(&params, request);
    command.merchants.limit = params_number(&params, "limit", 1, PAGE_MAX, PAGE_MAX);
    command.merchants.cursor = params_label(&params, "cursor", "");
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        api_execute(task, &command);
}

static void reply_stored_text(struct http_request *request, const char *text)
{
    http_respond(request, 200, "application/json", slice_of(text));
}

static void api_merchant_stored(struct api_task *task, const struct result *result)
{
    if (result->outcome == OUTCOME_OK)
        reply_stored_text(task->request, result->merchant.text);
    else
        api_refuse_outcome(task->request, result, MERCHANT_NOT_FOUND);
}

void api_merchant(struct http_request *request, void *arg)
{
    const char *id = merchant_of_path(request);
    struct command command = {.type = COMMAND_MERCHANT, .merchant = {.merchant_id = id}};
    struct api_task *task;

    if (!id)
        return;
    task = api_task_new(arg, request, sizeof(*task), api_merchant_stored);
    if (task)
        api_execute(task, &command);
}

/* Both changes of a merchant, and the change of the tiers, end alike. */
static void reply_config_done(const struct config_task *config, const char *message)
{
    struct http_request *request = config->task.request;
    struct json_writer json;
    struct strbuf buf;

    log_info(message, log_str("merchant", config->merchant_id), log_str("key", api_key_name(request)),
             log_str("request_id", http_request_id(request)),
             log_num("duration_us", api_task_us(&config->task)));
    api_reply_begin(request, &buf, &json);
    json_put_bool(&json, "success", true);
    if (config->merchant_id)
        json_put_string(&json, "merchant_id", config->merchant_id);
    json_object_end(&json);
    api_reply_json(request, 200, &buf);
}

static void reply_config_refused(const struct config_task *config, const struct result *result,
                                 const char *message)
{
    struct http_request *request = config->task.request;

    log_info(message, log_str("merchant", config->merchant_id),
             log_str("cause", result->outcome == OUTCOME_NOT_FOUND ? MERCHANT_NOT_FOUND : result->error),
             log_str("key", api_key_name(request)), log_str("request_id", http_request_id(request)),
             log_num("duration_us", api_task_us(&config->task)));
    api_reply_outcome(request, result, MERCHANT_NOT_FOUND);
}

static void api_merchant_set_stored(struct api_task *task, const struct result *result)
{
    struct config_task *config = CONTAINER_OF(task, struct config_task, task);

    if (result->outcome == OUTCOME_OK)
        reply_config_done(config, "merchant configured");
    else
        reply_config_refused(config, result, "merchant not configured");
}

void api_merchant_set(struct http_request *request, void *arg)
{
    const char *id = merchant_of_path(request);
    struct command command = {.type = COMMAND_MERCHANT_SET, .merchant_set = {.merchant_id = id}};
    struct config_task *config;
    const char *error = NULL;

    if (!id)
        return;
    config = api_task_new(arg, request, sizeof(*config), api_merchant_set_stored);
    if (!config)
        return;
    config->merchant_id = id;
    command.merchant_set.text = body_text(request, MERCHANT_CONFIG_TEXT_MAX, &error);
    if (error)
        api_refuse(request, 400, error);
    else if (!command.merchant_set.text)
        api_reply_no_memory(request);
    else
        api_execute(&config->task, &command);
}

static void api_merchant_remove_stored(struct api_task *task, const struct result *result)
{
    struct config_task *config = CONTAINER_OF(task, struct config_task, task);

    if (result->outcome == OUTCOME_OK)
        reply_config_done(config, "merchant removed");
    else
        reply_config_refused(config, result, "merchant not removed");
}

void api_merchant_remove(struct http_request *request, void *arg)
{
    const char *id = merchant_of_path(request);
    struct command command = {.type = COMMAND_MERCHANT_REMOVE, .merchant = {.merchant_id = id}};
    struct config_task *config;

    if (!id)
        return;
    config = api_task_new(arg, request, sizeof(*config), api_merchant_remove_stored);
    if (!config)
        return;
    config->merchant_id = id;
    api_execute(&config->task, &command);
}

static void api_tiers_stored(struct api_task *task, const struct result *result)
{
    if (result->outcome == OUTCOME_OK)
        reply_stored_text(task->request, result->tiers.text);
    else
        api_refuse_outcome(task->request, result, "tiers not found");
}

void api_tiers(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_tiers_stored);
    struct command command = {.type = COMMAND_TIERS};

    if (task)
        api_execute(task, &command);
}

/* Logged louder than others: whoever changed the tiers believes in them now, and all calls depend on it. */
static void note_tiers_refused(struct api *api, struct http_request *request, const char *error)
{
    instruments_tiers_refused(api->instruments);
    log_warn("tiers refused: the configuration before stays", log_str("error", error),
             log_str("peer", http_request_peer(request)), log_str("key", api_key_name(request)),
             log_str("request_id", http_request_id(request)));
}

static void api_tiers_set_stored(struct api_task *task, const struct result *result)
{
    if (result->outcome == OUTCOME_OK) {
        reply_config_done(CONTAINER_OF(task, struct config_task, task), "tiers configured");
        return;
    }
    note_tiers_refused(task->api, task->request, result->error);
    api_reply_outcome(task->request, result, "tiers not found");
}

/* {} stands for the default tiers where somebody leaves TIER_CONFIG out; whoever sends it here meant some. */
static bool is_empty_object(struct arena *arena, const char *text)
{
    const cJSON *json = json_parse(arena, slice_of(text));

    return cJSON_IsObject(json) && cJSON_GetArraySize(json) == 0;
}

void api_tiers_set(struct http_request *request, void *arg)
{
    struct config_task *config = api_task_new(arg, request, sizeof(*config), api_tiers_set_stored);
    struct command command = {.type = COMMAND_TIERS_SET};
    const char *error = NULL;
    const char *text;

    if (!config)
        return;
    text = body_text(request, TIER_CONFIG_TEXT_MAX, &error);
    if (text && is_empty_object(http_request_arena(request), text))
        error = "no tiers are given";
    command.tiers_set.text = text;
    if (error) {
        note_tiers_refused(arg, request, error);
        http_respond_error(request, 400, error);
    } else if (!text) {
        api_reply_no_memory(request);
    } else {
        api_execute(&config->task, &command);
    }
}

static void put_pool_count(struct json_writer *json, const char *tier, const char *what, uint64_t count)
{
    char key[POOL_LABEL_MAX + 16];

    snprintf(key, sizeof(key), "%s:%s", tier, what);
    json_put_u64(json, key, count);
}

static void put_tier(struct json_writer *json, const struct tier_status *tier)
{
    json_key(json, tier->name);
    json_object_begin(json);
    json_put_string(json, "type", tier->is_shared ? "shared" : "exclusive");
    json_put_bool(json, "is_configured", tier->is_configured);
    json_put_u64(json, "target", tier->target);
    json_put_u64(json, "max_concurrent", tier->max_concurrent);
    json_put_u64(json, "assigned", tier->assigned);
    for (int state = 0; state < POD_STATES; state++)
        json_put_u64(json, pod_state_name((enum pod_state)state), tier->by_state[state]);
    json_put_u64(json, "calls", tier->calls);
    json_put_u64(json, "capacity", tier->capacity);
    json_put_u64(json, "free", tier->free);
    json_object_end(json);
}

static void api_status_stored(struct api_task *task, const struct result *result)
{
    const struct api *api = task->api;
    struct store_health health;
    struct json_writer json;
    struct strbuf buf;

    store_health(api->store, &health);
    api_reply_begin(task->request, &buf, &json);
    json_key(&json, "pools");
    json_object_begin(&json);
    for (size_t i = 0; i < result->status.tier_count; i++) {
        const struct tier_status *tier = &result->status.tiers[i];

        put_pool_count(&json, tier->name, "available", tier->by_state[POD_AVAILABLE]);
        put_pool_count(&json, tier->name, "assigned", tier->assigned);
    }
    json_object_end(&json);
    json_key(&json, "tiers");
    json_object_begin(&json);
    for (size_t i = 0; i < result->status.tier_count; i++)
        put_tier(&json, &result->status.tiers[i]);
    json_object_end(&json);
    json_put_u64(&json, "pods", result->status.pods);
    json_put_u64(&json, "active_calls", result->status.active_calls);
    json_put_bool(&json, "is_leader", api->is_leader);
    json_put_string(&json, "leader", api->leader);
    json_put_string(&json, "identity", api->settings.identity);
    json_put_string(&json, "store", health.name);
    json_put_string(&json, "version", SMART_ROUTER_VERSION);
    json_put_u64(&json, "uptime_seconds", (clock_elapsed_ms() - api->started_ms) / 1000);
    json_put_string(&json, "status", "up");
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

void api_status(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_status_stored);
    struct command command = {.type = COMMAND_STATUS};

    if (task)
        api_execute(task, &command);
}
