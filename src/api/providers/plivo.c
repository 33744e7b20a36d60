/*
 * plivo.c - Plivo: its answers in XML, its signature check, and the events and statuses that end a
 * call.
 */
#include "api/providers/provider.h"
#include "api/providers/verify.h"
#include "api/providers/xml.h"

static void plivo_append_redirect(struct strbuf *buf, struct slice url)
{
    strbuf_append_str(buf, "<Redirect method=\"POST\">");
    xml_escape(buf, url);
    strbuf_append_str(buf, "</Redirect>");
}

static void plivo_render_stream(struct strbuf *buf, struct slice url, struct slice after)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Stream bidirectional=\"true\" keepCallAlive=\"true\" "
                                           "contentType=\"audio/x-mulaw;rate=8000\">");
    xml_escape(buf, url);
    strbuf_append_str(buf, "</Stream>");
    if (after.len > 0)
        plivo_append_redirect(buf, after);
    strbuf_append_str(buf, "</Response>");
}

static void plivo_render_later(struct strbuf *buf, struct slice url, uint64_t pause_s)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Wait length=\"");
    strbuf_append_u64(buf, pause_s);
    strbuf_append_str(buf, "\"/>");
    plivo_append_redirect(buf, url);
    strbuf_append_str(buf, "</Response>");
}

static void plivo_render_failure(struct strbuf *buf, const char *message, const char *error UNUSED,
                                 const char *code UNUSED)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Speak>");
    xml_escape(buf, slice_of(message));
    strbuf_append_str(buf, "</Speak><Hangup/></Response>");
}

static int plivo_check(struct http_request *request, const struct secrets *secrets, struct slice url)
{
    struct signature_tokens tokens;
    struct signed_request asked;

    verify_read(request, secrets, SECRET_PLIVO, url, &tokens, &asked);
    return signature_check_plivo(http_request_arena(request), &tokens, &asked,
                                 http_request_header(request, "x-plivo-signature-v3"),
                                 http_request_header(request, "x-plivo-signature-v3-nonce"));
}

/* Events of a stream (StopStream and the like) say nothing of the call. */
static bool is_stream_event(const char *event)
{
    size_t len = strlen(event);

    return len >= strlen("Stream") && strcmp(event + len - strlen("Stream"), "Stream") == 0;
}

static bool plivo_ends_call(struct params *params, const char **ret_status)
{
    const char *event = params_text(params, "Event");
    const char *cause = params_text(params, "HangupCause");
    const char *status = params_text(params, "CallStatus");

    *ret_status = status ? status : "";
    if (event && is_stream_event(event))
        return false;
    return (event && strcmp(event, "Hangup") == 0) || (cause && cause[0]) ||
           provider_status_is_final(*ret_status);
}

const struct provider provider_plivo = {
    .name = "plivo",
    .sid_field = "CallUUID",
    .default_template = "order-confirmation",
    .content_type = "application/xml; charset=utf-8",
    .failure_status = 200,
    .malformed_status = 200,
    .secret = SECRET_PLIVO,
    .status_answer = {XML_EMPTY_RESPONSE, sizeof(XML_EMPTY_RESPONSE) - 1},
    .render_stream = plivo_render_stream,
    .render_hangup = xml_render_hangup,
    .render_later = plivo_render_later,
    .render_failure = plivo_render_failure,
    .check = plivo_check,
    .ends_call = plivo_ends_call,
};
