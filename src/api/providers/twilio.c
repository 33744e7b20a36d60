/*
 * twilio.c - Twilio: its answers in TwiML, its signature check, and the statuses that end a call.
 */
#include "api/providers/provider.h"
#include "api/providers/verify.h"
#include "api/providers/xml.h"

static void twilio_render_stream(struct strbuf *buf, struct slice url, struct slice after)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Connect");
    if (after.len > 0) {
        strbuf_append_str(buf, " action=\"");
        xml_escape(buf, after);
        strbuf_append_str(buf, "\" method=\"POST\"");
    }
    strbuf_append_str(buf, "><Stream url=\"");
    xml_escape(buf, url);
    strbuf_append_str(buf, "\"/></Connect></Response>");
}

static void twilio_render_later(struct strbuf *buf, struct slice url, uint64_t pause_s)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Pause length=\"");
    strbuf_append_u64(buf, pause_s);
    strbuf_append_str(buf, "\"/><Redirect method=\"POST\">");
    xml_escape(buf, url);
    strbuf_append_str(buf, "</Redirect></Response>");
}

static void twilio_render_failure(struct strbuf *buf, const char *message, const char *error UNUSED,
                                  const char *code UNUSED)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Say>");
    xml_escape(buf, slice_of(message));
    strbuf_append_str(buf, "</Say><Hangup/></Response>");
}

static int twilio_check(struct http_request *request, const struct secrets *secrets, struct slice url)
{
    struct signature_tokens tokens;
    struct signed_request asked;

    verify_read(request, secrets, SECRET_TWILIO, url, &tokens, &asked);
    return signature_check_twilio(http_request_arena(request), &tokens, &asked,
                                  http_request_header(request, "x-twilio-signature"));
}

static bool twilio_ends_call(struct params *params, const char **ret_status)
{
    const char *stream = params_text(params, "StreamEvent");
    const char *status = params_text(params, "CallStatus");

    *ret_status = status ? status : "";
    /* A stream that stopped says nothing of the call: it may be going to the next one. */
    return (!stream || !stream[0]) && provider_status_is_final(*ret_status);
}

const struct provider provider_twilio = {
    .name = "twilio",
    .sid_field = "CallSid",
    .default_template = "order-confirmation",
    .content_type = "application/xml; charset=utf-8",
    .failure_status = 200,
    .malformed_status = 200,
    .secret = SECRET_TWILIO,
    .status_answer = {XML_EMPTY_RESPONSE, sizeof(XML_EMPTY_RESPONSE) - 1},
    .render_stream = twilio_render_stream,
    .render_hangup = xml_render_hangup,
    .render_later = twilio_render_later,
    .render_failure = twilio_render_failure,
    .check = twilio_check,
    .ends_call = twilio_ends_call,
};
