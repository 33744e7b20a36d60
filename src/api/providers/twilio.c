#include "api/providers/provider.h"
#include "api/providers/xml.h"

static void twilio_render_stream(struct strbuf *buf, struct slice url)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Connect><Stream url=\"");
    xml_escape(buf, url);
    strbuf_append_str(buf, "\"/></Connect></Response>");
}

static void twilio_render_failure(struct strbuf *buf, const char *message, const char *error UNUSED,
                                  const char *code UNUSED)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Say>");
    xml_escape(buf, slice_of(message));
    strbuf_append_str(buf, "</Say><Hangup/></Response>");
}

const struct provider provider_twilio = {
    .name = "twilio",
    .sid_field = "CallSid",
    .default_template = "order-confirmation",
    .content_type = "application/xml; charset=utf-8",
    .failure_status = 200,
    .malformed_status = 200,
    .render_stream = twilio_render_stream,
    .render_failure = twilio_render_failure,
};
