#include "api/providers/provider.h"
#include "base/json.h"

static void exotel_render_stream(struct strbuf *buf, struct slice url)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, "url");
    json_slice(&json, url);
    json_object_end(&json);
}

static void exotel_render_failure(struct strbuf *buf, const char *message UNUSED, const char *error,
                                  const char *code)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_put_bool(&json, "success", false);
    json_put_string(&json, "error", error);
    json_put_string(&json, "code", code);
    json_object_end(&json);
}

const struct provider provider_exotel = {
    .name = "exotel",
    .sid_field = "CallSid",
    .default_template = "template",
    .content_type = "application/json",
    .failure_status = 503,
    .malformed_status = 400,
    .takes_json = true,
    .render_stream = exotel_render_stream,
    .render_failure = exotel_render_failure,
};
