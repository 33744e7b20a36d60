/*
 * configurations.c - the routes that show the tiers, the configurations of merchants, and their versions.
 *
 * config_changes.c has the routes that change them.
 */
#include "api/api_internal.h"
#include "api/params.h"
#include "base/log.h"

enum { VERSION_ROOM = 256 }; /* of a version in its history, beside its text */

const char *api_merchant_of_path(struct http_request *request)
{
    const char *id = http_request_param(request, "id");
    const char *error = params_check_merchant(id);

    if (!error)
        return id;
    api_refuse(request, 400, error);
    return NULL;
}

/* What somebody else wrote into the store may be anything; it must not break everybody's answer. */
static void put_text(struct json_writer *json, const char *key, struct slice text)
{
    json_key(json, key);
    if (json_is_valid(text))
        json_raw(json, text);
    else
        json_slice(json, text);
}

void api_put_config(struct json_writer *json, const char *key, const char *text)
{
    if (text[0])
        put_text(json, key, slice_of(text));
    else
        json_put_string(json, key, NULL);
}

static void api_merchants_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(task->request, &buf, &json);
    json_key(&json, "merchants");
    json_object_begin(&json);
    for (size_t i = 0; i < result->merchants.ids.count; i++)
        put_text(&json, result->merchants.ids.names[i], slice_of(result->merchants.texts.names[i]));
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
        api_refuse_outcome(task->request, result, API_MERCHANT_NOT_FOUND);
}

void api_merchant(struct http_request *request, void *arg)
{
    const char *id = api_merchant_of_path(request);
    struct command command = {.type = COMMAND_MERCHANT, .merchant = {.merchant_id = id}};
    struct api_task *task;

    if (!id)
        return;
    task = api_task_new(arg, request, sizeof(*task), api_merchant_stored);
    if (task)
        api_execute(task, &command);
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

static void put_version(struct json_writer *json, const struct version_info *version)
{
    json_object_begin(json);
    json_put_u64(json, "version", version->number);
    if (version->at_ms)
        json_put_time(json, "at", version->at_ms);
    else
        json_put_string(json, "at", NULL);
    json_put_string(json, "key", version->by[0] ? version->by : NULL);
    api_put_config(json, "value", version->text);
    json_object_end(json);
}

/* All at once: a buffer that grows step by step would take twice as much of the request's memory. */
static void reserve_versions(struct strbuf *buf, const struct result *result)
{
    size_t size = 0;

    for (size_t i = 0; i < result->history.count; i++)
        size += strlen(result->history.versions[i].text) + VERSION_ROOM;
    (void)strbuf_grow(buf, size); /* a failure is kept in the buffer */
}

static void api_history_stored(struct api_task *task, const struct result *result)
{
    struct json_writer json;
    struct strbuf buf;

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, API_MERCHANT_NOT_FOUND);
        return;
    }
    api_reply_begin(task->request, &buf, &json);
    reserve_versions(&buf, result);
    json_put_bool(&json, "success", true);
    json_key(&json, "versions");
    json_array_begin(&json);
    for (size_t i = 0; i < result->history.count; i++)
        put_version(&json, &result->history.versions[i]);
    json_array_end(&json);
    json_object_end(&json);
    api_reply_json(task->request, 200, &buf);
}

static void api_history(struct http_request *request, struct api *api, const char *merchant_id)
{
    struct api_task *task = api_task_new(api, request, sizeof(*task), api_history_stored);
    struct command command = {.type = COMMAND_HISTORY, .history = {.merchant_id = merchant_id}};

    if (task)
        api_execute(task, &command);
}

void api_tiers_history(struct http_request *request, void *arg)
{
    api_history(request, arg, NULL);
}

void api_merchant_history(struct http_request *request, void *arg)
{
    const char *id = api_merchant_of_path(request);

    if (id)
        api_history(request, arg, id);
}
