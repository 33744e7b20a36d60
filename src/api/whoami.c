/*
 * whoami.c - GET /api/v1/whoami: tells a client the name and the role of its key.
 */
#include "api/api_internal.h"

void api_whoami(struct http_request *request, void *arg)
{
    const struct api *api = arg;
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(request, &buf, &json);
    json_put_string(&json, "key", api_key_name(request));
    json_put_string(&json, "role", api_role_of_key(request));
    json_put_string(&json, "pods", api_pods_of_key(request));
    json_put_bool(&json, "is_key_required", keys_count(api->keys) > 0);
    json_object_end(&json);
    api_reply_json(request, 200, &buf);
}
