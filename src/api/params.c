/*
 * params.c - reads parameters from a JSON body, a form or a query string, and validates them.
 */
#include "api/params.h"

#include <math.h>
#include <stdarg.h>

#include "api/api_internal.h"
#include "base/quantity.h"

enum { PARAMS_ERROR_MAX = 512 };

#define SID_RULE "may have only A-Z a-z 0-9 . _ : @ + = -, and at most 128 characters"
#define ADDRESS_RULE "must be host:port, [v6]:port or a host, of at most 255 characters"

void params_fail(struct params *params, const char *format, ...)
{
    va_list args;
    char *text;

    if (params->error)
        return;
    text = arena_alloc(params->arena, PARAMS_ERROR_MAX);
    if (!text) {
        params->error = "the request is not valid";
        return;
    }
    va_start(args, format);
    vsnprintf(text, PARAMS_ERROR_MAX, format, args);
    va_end(args);
    params->error = text;
}

static void params_init(struct params *params, struct http_request *request)
{
    *params = (struct params){.arena = http_request_arena(request), .route = http_request_route(request)};
}

static void params_parse_json(struct params *params, struct slice body)
{
    if (body.len == 0) {
        params_fail(params, "body is empty, and not a JSON object");
        return;
    }
    params->json = json_parse(params->arena, body);
    if (!params->json) {
        params_fail(params, "body is not valid JSON");
    } else if (!cJSON_IsObject(params->json)) {
        params->json = NULL;
        params_fail(params, "body is not a JSON object");
    }
}

static void params_parse_form(struct params *params, struct slice text, const char *what,
                              struct form *ret_form)
{
    int err = text.len ? form_parse(params->arena, text, ret_form) : 0;

    if (err == -E2BIG)
        params_fail(params, "%s has more than %d fields", what, FORM_FIELDS_MAX);
    else if (err < 0)
        params_fail(params, "%s is too large", what);
}

void params_read_json(struct params *params, struct http_request *request)
{
    params_init(params, request);
    params_parse_json(params, http_request_body(request));
}

void params_read_query(struct params *params, struct http_request *request)
{
    params_init(params, request);
    params_parse_form(params, http_request_query(request), "query", &params->query);
}

static bool looks_like_json(struct slice body)
{
    size_t i = 0;

    while (i < body.len && memchr(" \t\r\n", body.data[i], 4))
        i++;
    return i < body.len && (body.data[i] == '{' || body.data[i] == '[');
}

void params_read_webhook(struct params *params, struct http_request *request, bool takes_json)
{
    struct slice body = http_request_body(request);

    params_read_query(params, request);
    if (takes_json && looks_like_json(body))
        params_parse_json(params, body);
    else
        params_parse_form(params, body, "body", &params->form);
}

static const char *params_form_text(struct params *params, const struct form *form, const char *name)
{
    for (size_t i = 0; i < form->count; i++) {
        const struct form_field *field = &form->fields[i];

        if (strcmp(field->name, name) != 0)
            continue;
        if (strlen(field->value) != field->value_len)
            params_fail(params, "%s has a NUL in it", name);
        return field->value;
    }
    return NULL;
}

static const char *params_body_text(struct params *params, const char *name)
{
    const cJSON *member;

    if (!params->json)
        return params_form_text(params, &params->form, name);
    member = cJSON_GetObjectItemCaseSensitive(params->json, name);
    if (!member || cJSON_IsNull(member))
        return NULL;
    if (!cJSON_IsString(member))
        params_fail(params, "%s must be a string", name);
    return cJSON_GetStringValue(member);
}

const char *params_text(struct params *params, const char *name)
{
    const char *text;

    assert(http_route_has_param(params->route, name));
    if (params->error)
        return NULL;
    if (params->query_first) {
        text = params_form_text(params, &params->query, name);
        return text ? text : params_body_text(params, name);
    }
    text = params_body_text(params, name);
    return text ? text : params_form_text(params, &params->query, name);
}

/* NULL where `text` is absent, empty, or refused by `is_valid`; all three are wrong. */
static const char *params_required(struct params *params, const char *name,
                                   bool (*is_valid)(const char *text, size_t len), const char *rule)
{
    const char *text = params_text(params, name);

    if (params->error)
        return NULL;
    if (!text || text[0] == '\0') {
        params_fail(params, "%s is required", name);
        return NULL;
    }
    if (!is_valid(text, strlen(text))) {
        params_fail(params, "%s %s", name, rule);
        return NULL;
    }
    return text;
}

const char *params_call_sid(struct params *params, const char *name)
{
    return params_required(params, name, name_is_call_sid, SID_RULE);
}

const char *params_pod_name(struct params *params)
{
    return params_required(params, "pod_name", name_is_pod, POD_NAME_RULE);
}

const char *params_pod_name_if_given(struct params *params)
{
    const char *text = params_text(params, "pod_name");

    return text && text[0] ? params_pod_name(params) : NULL;
}

const char *params_address(struct params *params)
{
    return params_required(params, "address", name_is_address, ADDRESS_RULE);
}

/* A name that is there but empty counts as absent. */
static const char *params_merchant_in(struct params *params, bool is_query)
{
    static const char *const names[] = {"merchant_id", "reseller_id"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = is_query ? params_form_text(params, &params->query, names[i])
                                    : params_body_text(params, names[i]);

        if (!text || text[0] == '\0')
            continue;
        assert(http_route_has_param(params->route, names[i]));
        if (!name_is_merchant_id(text, strlen(text)))
            params_fail(params, "%s " SID_RULE, names[i]);
        return text;
    }
    return "";
}

const char *params_merchant(struct params *params)
{
    const char *text;

    if (params->error)
        return "";
    text = params_merchant_in(params, params->query_first);
    return text[0] ? text : params_merchant_in(params, !params->query_first);
}

void params_check_segment(struct params *params, const char *name, const char *text)
{
    if (text && (strcmp(text, ".") == 0 || strcmp(text, "..") == 0))
        params_fail(params, "%s must not be \"%s\": it becomes part of a URL's path", name, text);
}

const char *params_label(struct params *params, const char *name, const char *otherwise)
{
    const char *text = params_text(params, name);

    if (!text || text[0] == '\0')
        return otherwise;
    if (strlen(text) > API_TEXT_MAX)
        params_fail(params, "%s may have at most %d bytes", name, API_TEXT_MAX);
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            params_fail(params, "%s may have no control characters", name);
    }
    return text;
}

static bool parse_digits(const char *text, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text[0] == '\0' || strlen(text) > 18)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *ret_value = value;
    return value <= max;
}

uint64_t params_number(struct params *params, const char *name, uint64_t min, uint64_t max,
                       uint64_t otherwise)
{
    const cJSON *member = params->json ? cJSON_GetObjectItemCaseSensitive(params->json, name) : NULL;
    const char *text = params->json ? NULL : params_text(params, name);
    uint64_t value = 0;
    bool is_valid;

    assert(http_route_has_param(params->route, name));
    if (params->error)
        return otherwise;
    if ((!member || cJSON_IsNull(member)) && !text)
        return otherwise;
    if (text) {
        is_valid = parse_digits(text, max, &value);
    } else {
        double number = cJSON_IsNumber(member) ? cJSON_GetNumberValue(member) : -1;

        /* Compared as doubles first: turning one that is out of range into an integer is undefined. */
        is_valid = number >= (double)min && number <= (double)max && floor(number) == number;
        value = is_valid ? (uint64_t)number : 0;
    }
    if (!is_valid || value < min) {
        params_fail(params, "%s must be a whole number from %llu to %llu", name, (unsigned long long)min,
                    (unsigned long long)max);
        return otherwise;
    }
    return value;
}

bool params_boolean(struct params *params, const char *name, bool *ret_is_given)
{
    const cJSON *member = params->json ? cJSON_GetObjectItemCaseSensitive(params->json, name) : NULL;

    assert(http_route_has_param(params->route, name));
    *ret_is_given = member && !cJSON_IsNull(member);
    if (*ret_is_given && !cJSON_IsBool(member))
        params_fail(params, "%s must be true or false", name);
    return cJSON_IsTrue(member);
}

uint64_t params_duration(struct params *params, const char *name)
{
    const char *text = params_text(params, name);
    const char *end = text;
    uint64_t value = 0;

    if (!text)
        return 0;
    if (quantity_digits(&end, &value) && *end == '\0' && value <= UINT64_MAX / 1000)
        return value * 1000;
    if (!quantity_duration(text, &value))
        params_fail(params, "%s must be a duration such as 90s, 10m or 1h30m, or a number of seconds", name);
    return value;
}

int params_word(struct params *params, const char *name, const char *(*name_of)(int word), int count)
{
    const char *text = params_text(params, name);
    struct strbuf words;

    if (!text)
        return -1;
    for (int word = 0; word < count; word++) {
        if (strcmp(text, name_of(word)) == 0)
            return word;
    }
    strbuf_init(&words, params->arena, PARAMS_ERROR_MAX);
    for (int word = 0; word < count; word++) {
        strbuf_append_str(&words, word == 0 ? "" : word == count - 1 ? " or " : ", ");
        strbuf_append_str(&words, name_of(word));
    }
    params_fail(params, "%s must be %s", name,
                strbuf_failed(&words) ? "one of the words that are known" : words.data);
    return -1;
}

static const char *params_filter(struct params *params, const char *name,
                                 bool (*is_valid)(const char *text, size_t len), const char *rule)
{
    const char *text = params_text(params, name);

    if (text && !is_valid(text, strlen(text)))
        params_fail(params, "%s %s", name, rule);
    return text;
}

const char *params_pod_filter(struct params *params, const char *name)
{
    return params_filter(params, name, name_is_pod, POD_NAME_RULE);
}

const char *params_merchant_filter(struct params *params, const char *name)
{
    return params_filter(params, name, name_is_merchant_id, SID_RULE ", and at least one");
}

bool params_call_sids(struct params *params, const char *name, const char *const **ret_sids,
                      size_t *ret_count)
{
    const cJSON *array = params->json ? cJSON_GetObjectItemCaseSensitive(params->json, name) : NULL;
    const cJSON *item;
    const char **sids;
    size_t count = 0;

    assert(http_route_has_param(params->route, name));
    if (params->error || !array || cJSON_IsNull(array))
        return false;
    if (!cJSON_IsArray(array)) {
        params_fail(params, "%s must be an array of strings", name);
        return false;
    }
    cJSON_ArrayForEach(item, array)
    {
        const char *sid = cJSON_GetStringValue(item);

        if (!sid)
            params_fail(params, "%s must be an array of strings", name);
        else if (!name_is_call_sid(sid, strlen(sid)))
            params_fail(params, "%s: a call_sid " SID_RULE ", and may not be empty", name);
        if (++count > SIDS_MAX)
            params_fail(params, "%s may have at most %d entries", name, SIDS_MAX);
        if (params->error)
            return false;
    }
    sids = arena_alloc(params->arena, (count + 1) * sizeof(*sids));
    if (!sids) {
        params_fail(params, "%s is too large", name);
        return false;
    }
    count = 0;
    cJSON_ArrayForEach(item, array) sids[count++] = cJSON_GetStringValue(item);
    *ret_sids = sids;
    *ret_count = count;
    return true;
}

const char *params_check_call_sid(const char *text)
{
    return name_is_call_sid(text, strlen(text)) ? NULL : "call_sid " SID_RULE;
}

const char *params_check_pod(const char *text)
{
    return name_is_pod(text, strlen(text)) ? NULL : "pod_name " POD_NAME_RULE;
}

const char *params_check_merchant(const char *text)
{
    return name_is_merchant_id(text, strlen(text)) ? NULL : "merchant_id " SID_RULE;
}
