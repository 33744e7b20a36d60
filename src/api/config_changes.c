/*
 * config_changes.c - the routes that change the tiers or the configuration of a merchant: set, remove,
 * go back to an earlier version.
 *
 * The store checks a configuration and keeps its versions; this file only checks that the body is text
 * of an allowed size. Every change is answered and logged with the old and the new value, and with
 * the name of the key. With dry_run=true the answer is the same, and nothing changes.
 */
#include <stdio.h>

#include "api/api_internal.h"
#include "api/orphans.h"
#include "api/params.h"
#include "base/utf8.h"

enum { SHOWN_BYTES_MAX = 48 };

struct config_task {
    struct api_task task;
    const char *merchant_id; /* NULL: the tiers */
    struct change change;
    bool is_removal;
    uint64_t back_to;        /* go back to this version; 0: to the one before */
    struct orphans *orphans; /* of a change that removes a tier */
    struct result changed;   /* while the merchants are looked at */
};

static struct config_task *config_task_of(struct api_task *task)
{
    return CONTAINER_OF(task, struct config_task, task);
}

/* One line of JSON for the log; a text that is too long, or no JSON, is not shown. */
static const char *shown_text(struct arena *arena, const char *text)
{
    struct strbuf buf;
    char *bytes;

    if (!text[0])
        return "null";
    strbuf_init(&buf, arena, LOG_JSON_MAX);
    if (json_is_valid(slice_of(text))) {
        json_compact(&buf, slice_of(text));
        if (!strbuf_failed(&buf))
            return buf.data;
    }
    bytes = arena_alloc(arena, SHOWN_BYTES_MAX);
    if (!bytes)
        return NULL;
    snprintf(bytes, SHOWN_BYTES_MAX, "\"(%zu bytes, not shown)\"", strlen(text));
    return bytes;
}

static void log_warnings(const struct config_task *config, const struct result *result)
{
    struct http_request *request = config->task.request;
    const struct name_array *warnings = &result->change.warnings;

    for (size_t i = 0; i < warnings->count; i++)
        log_warn("a merchant names a tier or a pool that is not configured",
                 log_str("merchant", config->merchant_id), log_str("warning", warnings->names[i]),
                 log_str("key", api_key_name(request)), log_str("request_id", http_request_id(request)));
}

static void log_change(const struct config_task *config, const struct result *result)
{
    struct http_request *request = config->task.request;
    struct arena *arena = http_request_arena(request);
    const char *message = !config->merchant_id ? "tiers configured"
                          : config->is_removal ? "merchant removed"
                                               : "merchant configured";

    if (config->change.is_trial)
        message = "a change of configuration was tried: nothing was changed";
    log_info(message, log_str("merchant", config->merchant_id),
             log_num("version", (int64_t)result->change.version),
             log_json("old", shown_text(arena, result->change.old_text)),
             log_json("new", shown_text(arena, result->change.new_text)),
             log_str("key", api_key_name(request)), log_str("peer", http_request_peer(request)),
             log_str("request_id", http_request_id(request)),
             log_num("duration_us", api_task_us(&config->task)));
    if (!config->change.is_trial)
        log_warnings(config, result);
}

static void reply_change(const struct config_task *config, const struct result *result)
{
    struct http_request *request = config->task.request;
    struct json_writer json;
    struct strbuf buf;

    log_change(config, result);
    api_reply_begin(request, &buf, &json);
    json_put_bool(&json, "success", true);
    if (config->merchant_id)
        json_put_string(&json, "merchant_id", config->merchant_id);
    json_put_u64(&json, "version", result->change.version);
    json_put_bool(&json, "changed", result->change.is_changed);
    json_put_bool(&json, "dry_run", config->change.is_trial);
    api_put_config(&json, "old", result->change.old_text);
    api_put_config(&json, "new", result->change.new_text);
    api_put_names(&json, "warnings", &result->change.warnings);
    json_object_end(&json);
    api_reply_json(request, 200, &buf);
}

/*
 * Logged louder than others: whoever changed the tiers believes in them now, and all calls depend
 * on it.
 */
static void note_tiers_refused(struct api *api, struct http_request *request, const char *error)
{
    instruments_tiers_refused(api->instruments);
    log_warn("tiers refused: the configuration before stays", log_str("error", error),
             log_str("peer", http_request_peer(request)), log_str("key", api_key_name(request)),
             log_str("request_id", http_request_id(request)));
}

static void note_refused(const struct config_task *config, const char *error)
{
    struct http_request *request = config->task.request;

    log_info("a change of configuration was refused: nothing was changed",
             log_str("merchant", config->merchant_id), log_str("error", error),
             log_str("peer", http_request_peer(request)), log_str("key", api_key_name(request)),
             log_str("request_id", http_request_id(request)),
             log_num("duration_us", api_task_us(&config->task)));
}

/* Before the store was asked. */
static void refuse_body(const struct config_task *config, const char *error)
{
    struct http_request *request = config->task.request;

    if (config->merchant_id || config->change.is_trial) {
        api_refuse(request, 400, error);
        return;
    }
    note_tiers_refused(config->task.api, request, error);
    http_respond_error(request, 400, error);
}

/* The change is done, or tried, whatever becomes of the merchants: it is answered. */
static void orphans_over(struct config_task *config, bool is_complete)
{
    assert(config->changed.change.warnings.count == 0); /* a change of the tiers has no others */
    orphans_finish(TAKE(config->orphans), is_complete, &config->changed.change.warnings);
    reply_change(config, &config->changed);
}

static void orphans_failed(struct api_task *task, int err UNUSED)
{
    orphans_over(config_task_of(task), false);
}

static void orphans_ask(struct config_task *config, const char *cursor)
{
    const struct command command = {.type = COMMAND_MERCHANTS, .merchants = {.cursor = cursor}};

    api_execute(&config->task, &command);
}

static void orphans_found(struct api_task *task, const struct result *page)
{
    struct config_task *config = config_task_of(task);
    const char *cursor = page->outcome == OUTCOME_OK ? page->merchants.next_cursor : NULL;

    if (cursor && orphans_look(config->orphans, page))
        orphans_ask(config, cursor);
    else
        orphans_over(config, cursor && !cursor[0]);
}

/* True: the merchants are looked at first, and then the change is answered. */
static bool orphans_begin(struct config_task *config, const struct result *result)
{
    if (config->merchant_id || !result->change.is_changed)
        return false;
    config->orphans = orphans_new(result->change.old_text, result->change.new_text,
                                  http_request_arena(config->task.request));
    if (!config->orphans)
        return false;
    config->changed = *result; /* its texts are in the request's arena */
    config->task.stored = orphans_found;
    config->task.failed = orphans_failed;
    orphans_ask(config, "");
    return true;
}

static void config_changed(struct api_task *task, const struct result *result)
{
    struct config_task *config = config_task_of(task);

    if (result->outcome == OUTCOME_OK) {
        if (!orphans_begin(config, result))
            reply_change(config, result);
        return;
    }
    if (result->outcome == OUTCOME_INVALID && !config->merchant_id && !config->change.is_trial)
        note_tiers_refused(task->api, task->request, result->error);
    else
        note_refused(config, result->outcome == OUTCOME_NOT_FOUND ? API_MERCHANT_NOT_FOUND : result->error);
    api_reply_outcome(task->request, result, API_MERCHANT_NOT_FOUND);
}

/*
 * Whoever misspells dry_run, or leaves its value out, wants to change nothing: the request is refused, and
 * not carried out. So no other parameter is allowed here, although other routes ignore them.
 */
static void read_dry_run(struct params *params, bool *ret_is_trial)
{
    const char *trial = params_text(params, "dry_run");
    size_t count = 0;

    for (size_t i = 0; i < params->query.count; i++) {
        if (strcmp(params->query.fields[i].name, "dry_run") == 0)
            count++;
        else
            params_fail(params, "unknown parameter \"%.60s\"; known is dry_run",
                        params->query.fields[i].name);
    }
    if (count > 1)
        params_fail(params, "dry_run is there twice");
    *ret_is_trial = trial && strcmp(trial, "true") == 0;
    if (trial && !*ret_is_trial && strcmp(trial, "false") != 0)
        params_fail(params, "dry_run must be true or false");
}

/* Reads dry_run, and notes who asks. NULL: the request has been answered. */
static struct config_task *config_task_new(struct api *api, struct http_request *request,
                                           const char *merchant_id)
{
    struct config_task *config = api_task_new(api, request, sizeof(*config), config_changed);
    struct params params;

    if (!config)
        return NULL;
    params_read_query(&params, request);
    read_dry_run(&params, &config->change.is_trial);
    if (params.error) {
        api_refuse(request, 400, params.error);
        return NULL;
    }
    config->merchant_id = merchant_id;
    config->change.by = api_key_name(request);
    return config;
}

/*
 * The body as a text that the store can keep and show again. NULL: it cannot be one, and *ret_error
 * says why. What the text means is for the store to say.
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

static void set_text(struct config_task *config, const char *text)
{
    struct command command = {.type = COMMAND_TIERS_SET};

    if (config->merchant_id) {
        command.type = COMMAND_MERCHANT_SET;
        command.merchant_set.merchant_id = config->merchant_id;
        command.merchant_set.text = text;
        command.merchant_set.change = config->change;
    } else {
        command.tiers_set.text = text;
        command.tiers_set.change = config->change;
        command.tiers_set.is_seed = false;
    }
    api_execute(&config->task, &command);
}

static void remove_text(struct config_task *config)
{
    struct command command = {
        .type = COMMAND_MERCHANT_REMOVE,
        .merchant_remove = {.merchant_id = config->merchant_id, .change = config->change}};

    config->is_removal = true;
    api_execute(&config->task, &command);
}

/* What body_text() has given. */
static void set_body(struct config_task *config, const char *text, const char *error)
{
    if (error)
        refuse_body(config, error);
    else if (!text)
        api_reply_no_memory(config->task.request);
    else
        set_text(config, text);
}

void api_merchant_set(struct http_request *request, void *arg)
{
    const char *id = api_merchant_of_path(request);
    struct config_task *config = id ? config_task_new(arg, request, id) : NULL;
    const char *error = NULL;
    const char *text;

    if (!config)
        return;
    text = body_text(request, MERCHANT_CONFIG_TEXT_MAX, &error);
    set_body(config, text, error);
}

void api_merchant_remove(struct http_request *request, void *arg)
{
    const char *id = api_merchant_of_path(request);
    struct config_task *config = id ? config_task_new(arg, request, id) : NULL;

    if (config)
        remove_text(config);
}

/*
 * {} stands for the default tiers where somebody leaves TIER_CONFIG out; whoever sends it here
 * meant some.
 */
static bool is_empty_object(struct arena *arena, const char *text)
{
    const cJSON *json = json_parse(arena, slice_of(text));

    return cJSON_IsObject(json) && cJSON_GetArraySize(json) == 0;
}

void api_tiers_set(struct http_request *request, void *arg)
{
    struct config_task *config = config_task_new(arg, request, NULL);
    const char *error = NULL;
    const char *text;

    if (!config)
        return;
    text = body_text(request, TIER_CONFIG_TEXT_MAX, &error);
    if (text && is_empty_object(http_request_arena(request), text))
        error = "no tiers are given";
    set_body(config, text, error);
}

/* The version to go back to. NULL: it is not there, and *ret_error says so. */
static const struct version_info *find_version(struct config_task *config, const struct result *result,
                                               const char **ret_error)
{
    const struct version_info *versions = result->history.versions;
    size_t count = result->history.count;
    size_t size = 160;
    char *error;

    *ret_error = "there is no version before this one";
    if (!config->back_to)
        return count > 1 ? &versions[1] : NULL;
    for (size_t i = 0; i < count; i++) {
        if (versions[i].number == config->back_to)
            return &versions[i];
    }
    error = arena_alloc(http_request_arena(config->task.request), size);
    *ret_error = error ? error : "this version is not kept";
    if (error)
        snprintf(error, size, "version %llu is not kept: the versions are %llu to %llu",
                 (unsigned long long)config->back_to, (unsigned long long)versions[count - 1].number,
                 (unsigned long long)versions[0].number);
    return NULL;
}

static void refuse_rollback(const struct config_task *config, const char *error)
{
    note_refused(config, error);
    http_respond_error(config->task.request, 404, error);
}

/*
 * Two steps, because a store needs the text before it can change anything. The second one wants the
 * version that the first one has seen, so a change in between is not lost but told.
 */
static void rollback_found(struct api_task *task, const struct result *result)
{
    struct config_task *config = config_task_of(task);
    const struct version_info *version;
    const char *error = API_MERCHANT_NOT_FOUND;

    if (result->outcome != OUTCOME_OK) {
        refuse_rollback(config, error);
        return;
    }
    version = find_version(config, result, &error);
    if (!version) {
        refuse_rollback(config, error);
        return;
    }
    config->change.if_version = result->history.versions[0].number;
    config->change.is_stored = true;
    task->stored = config_changed;
    if (version->text[0])
        set_text(config, version->text);
    else
        remove_text(config);
}

/*
 * A misspelt member, two of them, or null (a script's variable that is not set) would go back to another
 * version than was meant.
 */
static void check_rollback_members(struct params *params)
{
    const cJSON *member;
    size_t count = 0;

    cJSON_ArrayForEach(member, params->json)
    {
        if (strcmp(member->string, "version") != 0)
            params_fail(params, "unknown member \"%.60s\"; known is version", member->string);
        else if (cJSON_IsNull(member))
            params_fail(params, "version must be a whole number from 1 on, not null");
        else if (++count > 1)
            params_fail(params, "version is there twice");
    }
}

static void rollback(struct http_request *request, struct api *api, const char *merchant_id)
{
    struct config_task *config = config_task_new(api, request, merchant_id);
    struct command command = {.type = COMMAND_HISTORY, .history = {.merchant_id = merchant_id}};
    struct params params;

    if (!config)
        return;
    if (http_request_body(request).len > 0) {
        params_read_json(&params, request);
        check_rollback_members(&params);
        config->back_to = params_number(&params, "version", 1, INT32_MAX, 0);
        if (params.error) {
            api_refuse(request, 400, params.error);
            return;
        }
    }
    config->task.stored = rollback_found;
    api_execute(&config->task, &command);
}

void api_tiers_rollback(struct http_request *request, void *arg)
{
    rollback(request, arg, NULL);
}

void api_merchant_rollback(struct http_request *request, void *arg)
{
    const char *id = api_merchant_of_path(request);

    if (id)
        rollback(request, arg, id);
}
