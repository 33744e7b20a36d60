/*
 * openapi.c - makes the OpenAPI document of the routing table and the texts of the reference, and
 * serves it: GET /openapi.json.
 *
 * The document is made once, at the start, and does not change.
 */
#include "api/openapi.h"

#include <ctype.h>

#include "api/api_internal.h"
#include "api/reference.h"
#include "base/version.h"
#include "http/status.h"

#define JSON_MEDIA "application/json"
#define FORM_MEDIA "application/x-www-form-urlencoded"
#define RESPONSES "#/components/responses/"

enum {
    NAME_SIZE = 64, /* of an operation */
    ABOUT_MAX = 1024,
    KEY_SIZE = 4, /* a status */
};

static const char introduction[] =
    "Smart Router gives each phone call a voice-agent pod, and takes it back when the call ends.\n\n"
    "Requests and answers are JSON in UTF-8. A JSON body is taken whatever its Content-Type is. Unknown "
    "members of a request are ignored; docs/TIERS.md says what configurations refuse. `null` counts as "
    "absent. Answers may "
    "get more members in later versions.\n\n"
    "Paths answer with and without a slash at their end. HEAD is answered like GET, without the body; "
    "webhooks refuse it. Every answer has `X-Request-Id`: that of the request, or a new one.\n\n"
    "Errors are `{\"success\":false,\"error\":\"…\",\"code\":\"…\"}`. Beside the answers of each operation "
    "there are these: a path that is not in this document gets 404 (`not_found`), a method that the path "
    "does not have gets 405 (`method_not_allowed`) with `Allow`, another `Expect` than `100-continue` gets "
    "417 (`expectation_failed`), another protocol than HTTP/1.0 and HTTP/1.1 gets 505 "
    "(`version_not_supported`), and a router without memory answers 500 (`internal`).\n\n"
    "The streams of calls, `/ws/pod/…`, are WebSocket connections. docs/GATEWAY.md describes them.";

/* Answers that follow from a row. An entry's own answer takes the place of one with its status. */
enum common {
    COMMON_BAD_REQUEST,
    COMMON_UNAUTHORIZED,
    COMMON_FORBIDDEN,
    COMMON_TIMEOUT,
    COMMON_TOO_LARGE,
    COMMON_HEADER_TOO_LARGE,
    COMMON_UNAVAILABLE,
    COMMONS,
};

static const struct {
    int status;
    const char *name; /* of the component */
    const char *about;
} commons[COMMONS] = {
    [COMMON_BAD_REQUEST] = {400, "BadRequest",
                            "The request or one of its parameters is not valid: `error` says which and why. "
                            "Nothing was changed."},
    [COMMON_UNAUTHORIZED] = {401, "Unauthorized", "Keys are set, and the request has no valid one."},
    [COMMON_FORBIDDEN] = {403, "Forbidden",
                          "The role of the key does not allow this, or the key is for other pods."},
    [COMMON_TIMEOUT] = {408, "Timeout",
                        "The request was not complete within `HTTP_READ_TIMEOUT`. The connection is closed."},
    [COMMON_TOO_LARGE] = {413, "TooLarge", "The body has more than 64 KiB. The connection is closed."},
    [COMMON_HEADER_TOO_LARGE] = {431, "HeaderTooLarge",
                                 "The header has more than 8 KiB or 100 lines. The connection is closed."},
    [COMMON_UNAVAILABLE] =
        {503, "Unavailable",
         "The store is not reachable, or the router has too many connections. A change may "
         "have been carried out: ask again."},
};

static bool row_has_common(const struct http_route *row, enum common common)
{
    switch (common) {
    case COMMON_UNAUTHORIZED:
    case COMMON_FORBIDDEN:
        return row->auth == ROUTE_BY_KEY;
    case COMMON_UNAVAILABLE:
        return !row->is_vital;
    case COMMON_BAD_REQUEST:
    case COMMON_TIMEOUT:
    case COMMON_TOO_LARGE:
    case COMMON_HEADER_TOO_LARGE:
    case COMMONS:
        break;
    }
    return true;
}

/* Parameters */

static void put_param_schema(struct json_writer *json, const struct route_param *param)
{
    const char *named = reference_type_of_name(param->of);

    switch (param->kind) {
    case ROUTE_NUMBER:
        json_put_string(json, "type", "integer");
        json_put_u64(json, "minimum", param->min);
        json_put_u64(json, "maximum", param->max);
        break;
    case ROUTE_BOOLEAN:
        json_put_string(json, "type", "boolean");
        break;
    case ROUTE_TEXTS:
        json_put_string(json, "type", "array");
        json_key(json, "items");
        openapi_put_type(json, slice_of(named ? named : "string"));
        if (param->max)
            json_put_u64(json, "maxItems", param->max);
        break;
    case ROUTE_TEXT:
        openapi_put_type_members(json, slice_of(named ? named : param->of ? param->of : "string"));
        break;
    case ROUTE_DOCUMENT: /* its entry has the type of the whole body */
        break;
    }
}

static const char *about_param(const struct http_route *row, const struct route_param *param)
{
    const struct reference_param *text = reference_param_of(row->handler, param->name);

    return text ? text->about : "";
}

static bool is_post(const struct http_route *row)
{
    return strcmp(row->method, "POST") == 0;
}

/* Is the parameter a field of a form in the body? */
static bool is_form_field(const struct http_route *row, const struct route_param *param)
{
    const struct reference_param *text = reference_param_of(row->handler, param->name);

    return param->place == ROUTE_IN_FORM && is_post(row) && !(text && text->is_in_query);
}

static bool is_in_body(const struct http_route *row, const struct route_param *param)
{
    return param->place == ROUTE_IN_BODY || is_form_field(row, param);
}

static void put_params(struct json_writer *json, const struct http_route *row)
{
    json_key(json, "parameters");
    json_array_begin(json);
    for (const struct route_param *param = row->params; param && param->name; param++) {
        if (is_in_body(row, param))
            continue;
        json_object_begin(json);
        json_put_string(json, "name", param->name);
        json_put_string(json, "in", param->place == ROUTE_IN_PATH ? "path" : "query");
        json_put_bool(json, "required", param->is_required);
        json_put_string(json, "description", about_param(row, param));
        json_key(json, "schema");
        json_object_begin(json);
        put_param_schema(json, param);
        json_object_end(json);
        json_object_end(json);
    }
    json_array_end(json);
}

static void put_body_schema(struct json_writer *json, const struct http_route *row)
{
    json_object_begin(json);
    json_put_string(json, "type", "object");
    json_key(json, "properties");
    json_object_begin(json);
    for (const struct route_param *param = row->params; param->name; param++) {
        if (!is_in_body(row, param))
            continue;
        json_key(json, param->name);
        json_object_begin(json);
        put_param_schema(json, param);
        json_put_string(json, "description", about_param(row, param));
        json_object_end(json);
    }
    json_object_end(json);
    json_key(json, "required");
    json_array_begin(json);
    for (const struct route_param *param = row->params; param->name; param++) {
        if (is_in_body(row, param) && param->is_required)
            json_string(json, param->name);
    }
    json_array_end(json);
    json_object_end(json);
}

static void put_body_content(struct json_writer *json, const struct http_route *row,
                             const struct reference_entry *entry, const char *media)
{
    json_key(json, media);
    json_object_begin(json);
    json_key(json, "schema");
    if (entry->document)
        openapi_put_type(json, slice_of(entry->document));
    else
        put_body_schema(json, row);
    json_object_end(json);
}

static void put_body(struct json_writer *json, const struct http_route *row,
                     const struct reference_entry *entry)
{
    const struct route_param *param = row->params;
    bool is_form;

    while (param && param->name && !is_in_body(row, param))
        param++;
    if (!param || !param->name)
        return;
    is_form = is_form_field(row, param);
    json_key(json, "requestBody");
    json_object_begin(json);
    json_put_bool(json, "required", !entry->is_body_optional);
    json_key(json, "content");
    json_object_begin(json);
    if (is_form)
        put_body_content(json, row, entry, FORM_MEDIA);
    if (!is_form || entry->takes_json)
        put_body_content(json, row, entry, JSON_MEDIA);
    json_object_end(json);
    json_object_end(json);
}

/* Answers */

static void put_header(struct json_writer *json, const char *name, const char *type, const char *about)
{
    json_key(json, name);
    json_object_begin(json);
    json_put_string(json, "description", about);
    json_key(json, "schema");
    openapi_put_type(json, slice_of(type));
    json_object_end(json);
}

static void put_headers(struct json_writer *json, int status)
{
    if (status != 401 && status != 429 && status != 503)
        return;
    json_key(json, "headers");
    json_object_begin(json);
    if (status == 401)
        put_header(json, "WWW-Authenticate", "string", "`Bearer realm=\"smart-router\"`");
    else
        put_header(json, "Retry-After", "integer", "Seconds to wait before the next try.");
    json_object_end(json);
}

static bool has_code(const char *type)
{
    const struct reference_object *object = reference_object_of(type, strlen(type));
    const struct reference_member *member = object ? object->members : NULL;

    while (member && member->name && strcmp(member->name, "code") != 0)
        member++;
    return member && member->name;
}

/* The sentence, and the code of the error unless the sentence names it itself. */
static void put_about_answer(struct json_writer *json, int status, const char *about, bool is_error)
{
    char text[ABOUT_MAX];

    if (is_error && !strstr(about, "`code`"))
        snprintf(text, sizeof(text), "%s `code` is `%s`.", about, http_status_of(status)->code);
    else
        snprintf(text, sizeof(text), "%s", about);
    json_put_string(json, "description", text);
}

static void put_answer(struct json_writer *json, const struct reference_answer *answer)
{
    const char *type = answer->type ? answer->type : "Error";
    bool is_error = answer->status >= 400 && has_code(type);

    json_object_begin(json);
    put_about_answer(json, answer->status, answer->about, is_error);
    put_headers(json, answer->status);
    if (answer->status == 304) { /* it has no body */
        json_object_end(json);
        return;
    }
    json_key(json, "content");
    json_object_begin(json);
    json_key(json, answer->media ? answer->media : JSON_MEDIA);
    json_object_begin(json);
    json_key(json, "schema");
    openapi_put_type(json, slice_of(type));
    json_object_end(json);
    json_object_end(json);
    json_object_end(json);
}

static void put_commons(struct json_writer *json)
{
    json_key(json, "responses");
    json_object_begin(json);
    for (int i = 0; i < COMMONS; i++) {
        const struct reference_answer answer = {commons[i].status, commons[i].about};

        json_key(json, commons[i].name);
        put_answer(json, &answer);
    }
    json_object_end(json);
}

static const struct reference_answer *own_answer(const struct reference_entry *entry, int status)
{
    for (size_t i = 0; i < ARRAY_LEN(entry->answers) && entry->answers[i].status; i++) {
        if (entry->answers[i].status == status)
            return &entry->answers[i];
    }
    return NULL;
}

/* The common answer of that status, if the row has one; else COMMONS. */
static enum common common_answer(const struct http_route *row, int status)
{
    for (int i = 0; i < COMMONS; i++) {
        if (commons[i].status == status && row_has_common(row, (enum common)i))
            return (enum common)i;
    }
    return COMMONS;
}

static void put_answers(struct json_writer *json, const struct http_route *row,
                        const struct reference_entry *entry)
{
    json_key(json, "responses");
    json_object_begin(json);
    for (int status = 200; status < 600; status++) {
        const struct reference_answer *own = own_answer(entry, status);
        enum common common = common_answer(row, status);
        char key[KEY_SIZE];

        if (!own && common == COMMONS)
            continue;
        snprintf(key, sizeof(key), "%d", status);
        json_key(json, key);
        if (own) {
            put_answer(json, own);
        } else {
            json_object_begin(json);
            openapi_put_ref(json, RESPONSES, slice_of(commons[common].name));
            json_object_end(json);
        }
    }
    json_object_end(json);
}

/* Operations */

/* One alternative of `security`: the scheme, and the role that its key has. */
static void put_scheme(struct json_writer *json, const char *scheme, const char *role)
{
    json_object_begin(json);
    if (scheme) {
        json_key(json, scheme);
        json_array_begin(json);
        if (role)
            json_string(json, role);
        json_array_end(json);
    }
    json_object_end(json);
}

/* An empty alternative: a router without keys or tokens asks for none. */
static void put_security(struct json_writer *json, const struct http_route *row,
                         const struct reference_entry *entry)
{
    json_key(json, "security");
    json_array_begin(json);
    if (row->auth == ROUTE_BY_KEY) {
        for (int role = 0; role < ROLES; role++) {
            if (route_allows(row, (enum role)role))
                put_scheme(json, "key", role_name((enum role)role));
        }
        put_scheme(json, NULL, NULL);
    } else if (row->auth == ROUTE_BY_SIGNATURE) {
        put_scheme(json, entry->provider, NULL);
        put_scheme(json, NULL, NULL);
    }
    json_array_end(json);
}

/* Rows of one handler need names of their own: those after the first have the method or a number behind it.
 */
static void put_operation_id(struct json_writer *json, size_t index, const struct reference_entry *entry)
{
    const struct http_route *row = &api_routes[index];
    const struct http_route *first = NULL;
    char name[NAME_SIZE];
    size_t same = 0;

    for (size_t i = 0; i < index; i++) {
        if (api_routes[i].handler != row->handler)
            continue;
        first = first ? first : &api_routes[i];
        same++;
    }
    if (!first)
        snprintf(name, sizeof(name), "%s", entry->name);
    else if (strcmp(first->method, row->method) != 0)
        snprintf(name, sizeof(name), "%s_by_%s", entry->name, row->method);
    else
        snprintf(name, sizeof(name), "%s_%zu", entry->name, same + 1);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    json_put_string(json, "operationId", name);
}

static void put_operation(struct json_writer *json, size_t index, const struct reference_entry *entry)
{
    const struct http_route *row = &api_routes[index];
    char method[8];
    size_t len = strlen(row->method);

    assert(len < sizeof(method));
    for (size_t i = 0; i <= len; i++)
        method[i] = (char)tolower((unsigned char)row->method[i]);
    json_key(json, method);
    json_object_begin(json);
    put_operation_id(json, index, entry);
    json_key(json, "tags");
    json_array_begin(json);
    json_string(json, reference_group_name(entry->group));
    json_array_end(json);
    json_put_string(json, "summary", row->summary);
    json_put_string(json, "description", entry->about);
    put_security(json, row, entry);
    put_params(json, row);
    put_body(json, row, entry);
    put_answers(json, row, entry);
    json_object_end(json);
}

static bool is_first_of_path(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(api_routes[i].pattern, api_routes[index].pattern) == 0)
            return false;
    }
    return true;
}

static void put_paths(struct json_writer *json)
{
    json_key(json, "paths");
    json_object_begin(json);
    for (size_t i = 0; i < api_routes_count; i++) {
        if (!is_first_of_path(i))
            continue;
        json_key(json, api_routes[i].pattern);
        json_object_begin(json);
        for (size_t j = i; j < api_routes_count; j++) {
            const struct reference_entry *entry = reference_entry_of(api_routes[j].handler);

            if (entry && strcmp(api_routes[j].pattern, api_routes[i].pattern) == 0)
                put_operation(json, j, entry);
        }
        json_object_end(json);
    }
    json_object_end(json);
}

static void put_header_scheme(struct json_writer *json, const char *name, const char *place,
                              const char *parameter, const char *about)
{
    json_key(json, name);
    json_object_begin(json);
    json_put_string(json, "type", "apiKey");
    json_put_string(json, "in", place);
    json_put_string(json, "name", parameter);
    json_put_string(json, "description", about);
    json_object_end(json);
}

static void put_schemes(struct json_writer *json)
{
    json_key(json, "securitySchemes");
    json_object_begin(json);
    json_key(json, "key");
    json_object_begin(json);
    json_put_string(json, "type", "http");
    json_put_string(json, "scheme", "bearer");
    json_put_string(json, "description",
                    "A key of `API_KEY`, or of `API_KEYS` with one of the roles of the operation. A router "
                    "without keys asks for none. See SECURITY.md.");
    json_object_end(json);
    put_header_scheme(json, "twilio", "header", "X-Twilio-Signature",
                      "Twilio's signature, if `TWILIO_AUTH_TOKEN` is set.");
    put_header_scheme(json, "plivo", "header", "X-Plivo-Signature-V3",
                      "Plivo's signature, if `PLIVO_AUTH_TOKEN` is set.");
    put_header_scheme(json, "exotel", "query", "token",
                      "`EXOTEL_TOKEN`, if it is set. Basic authentication is possible, too.");
    json_object_end(json);
}

static void put_tags(struct json_writer *json)
{
    json_key(json, "tags");
    json_array_begin(json);
    for (int group = 0; group < REFERENCE_GROUPS; group++) {
        json_object_begin(json);
        json_put_string(json, "name", reference_group_name((enum reference_group)group));
        json_object_end(json);
    }
    json_array_end(json);
}

static void put_info(struct json_writer *json)
{
    json_put_string(json, "openapi", "3.1.0");
    json_key(json, "info");
    json_object_begin(json);
    json_put_string(json, "title", "Smart Router");
    json_put_string(json, "version", SMART_ROUTER_VERSION);
    json_put_string(json, "description", introduction);
    json_key(json, "license");
    json_object_begin(json);
    json_put_string(json, "name", "Apache-2.0");
    json_put_string(json, "identifier", "Apache-2.0");
    json_object_end(json);
    json_object_end(json);
    json_key(json, "servers");
    json_array_begin(json);
    json_object_begin(json);
    json_put_string(json, "url", "/");
    json_object_end(json);
    json_array_end(json);
}

void api_write_openapi(struct strbuf *buf)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    put_info(&json);
    put_tags(&json);
    put_paths(&json);
    json_key(&json, "components");
    json_object_begin(&json);
    openapi_put_schemas(&json);
    put_commons(&json);
    put_schemes(&json);
    json_object_end(&json);
    json_object_end(&json);
}

void api_openapi(struct http_request *request, void *arg)
{
    const struct api *api = arg;

    http_respond(request, 200, JSON_MEDIA, strbuf_slice(&api->openapi));
}
