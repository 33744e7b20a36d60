#include "api/providers/provider.h"
#include "api/providers/xml.h"

static void plivo_render_stream(struct strbuf *buf, struct slice url)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Stream bidirectional=\"true\" keepCallAlive=\"true\" "
                                           "contentType=\"audio/x-mulaw;rate=8000\">");
    xml_escape(buf, url);
    strbuf_append_str(buf, "</Stream></Response>");
}

static void plivo_render_failure(struct strbuf *buf, const char *message, const char *error UNUSED,
                                 const char *code UNUSED)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Speak>");
    xml_escape(buf, slice_of(message));
    strbuf_append_str(buf, "</Speak><Hangup/></Response>");
}

const struct provider provider_plivo = {
    .name = "plivo",
    .sid_field = "CallUUID",
    .default_template = "order-confirmation",
    .content_type = "application/xml; charset=utf-8",
    .failure_status = 200,
    .malformed_status = 200,
    .render_stream = plivo_render_stream,
    .render_failure = plivo_render_failure,
};
