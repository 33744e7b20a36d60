/*
 * reply.c - the answers that all handlers share: JSON, errors, store failures.
 */
#include "api/api_internal.h"

void api_reply_begin(struct http_request *request, struct strbuf *buf, struct json_writer *json)
{
    strbuf_init(buf, http_request_arena(request), API_ANSWER_MAX);
    json_begin(json, buf);
    json_object_begin(json);
}

void api_reply_no_memory(struct http_request *request)
{
    http_respond_error(request, 500, "the answer does not fit into memory");
}

void api_reply(struct http_request *request, int status, const char *content_type, const struct strbuf *buf)
{
    if (strbuf_failed(buf))
        api_reply_no_memory(request);
    else
        http_respond(request, status, content_type, strbuf_slice(buf));
}

void api_reply_json(struct http_request *request, int status, const struct strbuf *buf)
{
    api_reply(request, status, "application/json", buf);
}

void api_refuse(struct http_request *request, int status, const char *error)
{
    api_log_refused(request, status, error);
    http_respond_error(request, status, error);
}

static void api_reply_unavailable(struct http_request *request)
{
    http_response_header(request, "Retry-After", "1");
    http_respond(request, 503, "application/json",
                 SLICE("{\"success\":false,\"error\":\"store unavailable\",\"code\":\"unavailable\"}"));
}

void api_reply_failure(struct http_request *request, int err)
{
    if (err == -ENOMEM)
        api_reply_no_memory(request);
    else
        api_reply_unavailable(request);
}

static int outcome_status(const struct result *result)
{
    switch (result->outcome) {
    case OUTCOME_INVALID:
        return 400;
    case OUTCOME_CONFLICT:
        return 409;
    case OUTCOME_FORBIDDEN:
        return 403;
    case OUTCOME_NOT_FOUND:
    case OUTCOME_OK:
    case OUTCOME_NO_PODS:
    case OUTCOME_WAITING:
        break;
    }
    return 404;
}

static const char *outcome_error(const struct result *result, const char *not_found)
{
    return outcome_status(result) == 404 ? not_found : result->error;
}

void api_reply_outcome(struct http_request *request, const struct result *result, const char *not_found)
{
    http_respond_error(request, outcome_status(result), outcome_error(result, not_found));
}

void api_refuse_outcome(struct http_request *request, const struct result *result, const char *not_found)
{
    api_refuse(request, outcome_status(result), outcome_error(result, not_found));
}

void api_put_names(struct json_writer *json, const char *key, const struct name_array *names)
{
    json_key(json, key);
    json_array_begin(json);
    for (size_t i = 0; i < names->count; i++)
        json_string(json, names->names[i]);
    json_array_end(json);
}
