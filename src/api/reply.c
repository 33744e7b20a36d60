#include "api/api_internal.h"
#include "base/log.h"

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

void api_reply_unavailable(struct http_request *request)
{
    http_response_header(request, "Retry-After", "1");
    http_respond(request, 503, "application/json",
                 SLICE("{\"success\":false,\"error\":\"store unavailable\",\"code\":\"unavailable\"}"));
}

void api_reply_outcome(struct http_request *request, const struct result *result, const char *not_found)
{
    switch (result->outcome) {
    case OUTCOME_INVALID:
        http_respond_error(request, 400, result->error);
        break;
    case OUTCOME_CONFLICT:
        http_respond_error(request, 409, result->error);
        break;
    case OUTCOME_NOT_FOUND:
    case OUTCOME_OK:
    case OUTCOME_NO_PODS:
        http_respond_error(request, 404, not_found);
        break;
    }
}

void api_put_names(struct json_writer *json, const char *key, const struct name_array *names)
{
    json_key(json, key);
    json_array_begin(json);
    for (size_t i = 0; i < names->count; i++)
        json_string(json, names->names[i]);
    json_array_end(json);
}

void api_log_ended(const struct api_task *task, const struct ended_array *ended)
{
    for (size_t i = 0; i < ended->count; i++) {
        const struct ended_call *call = &ended->calls[i];

        log_warn("call ended", log_str("call_sid", call->call_sid), log_str("pod", call->pod),
                 log_str("pool", call->pool), log_str("merchant", call->merchant_id),
                 log_str("reason", call_end_name(call->why)),
                 log_str("request_id", http_request_id(task->request)));
    }
}
