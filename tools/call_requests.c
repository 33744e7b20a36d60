/*
 * call_requests.c - what a provider asks of the router about a call: the webhook, the request after a stream,
 * the status callback.
 */
#include <stdio.h>
#include <stdlib.h>

#include "call_internal.h"
#include "sign.h"

static int call_fetch(struct call *call, const char *method, const char *path, const char *type,
                      struct slice body, fetch_fn fn)
{
    struct campaign *campaign = call->campaign;
    const struct campaign_settings *settings = &campaign->settings;
    const char *token = settings->tokens[call->start.dialect];
    struct strbuf headers;
    struct fetch_request request = {
        .method = method,
        .address = (const struct sockaddr *)&campaign->router_addresses[call->router],
        .url = &settings->public_url,
        .path = path,
        .content_type = type,
        .body = body,
        .timeout_ms = settings->timeout_ms,
    };
    int r = 0;

    strbuf_init(&headers, NULL, SIGN_HEADERS_MAX);
    if (token[0] != '\0') {
        r = sign_headers(call->start.dialect, token, &settings->public_url, path, body, &headers);
        if (r == 0 && strbuf_failed(&headers))
            r = -ENOMEM;
        request.headers = headers.data;
    }
    if (r == 0)
        r = fetch_start(campaign->net, &request, fn, call, &call->fetch);
    strbuf_release(&headers);
    return r;
}

static void call_status_answered(void *arg, int err, int status, struct slice body UNUSED)
{
    struct call *call = arg;
    struct tally *tally = &call->campaign->tally;

    call->fetch = NULL;
    tally->status_callbacks++;
    call_settle(call, err == 0 && status == 200 ? CALL_FINE : CALL_BAD_STATUS, false);
}

void call_report(struct call *call)
{
    enum media_dialect dialect = call->start.dialect;
    char path[64], body[MEDIA_SID_MAX + 128];
    int len;

    if (call->campaign->settings.has_ws_url || !call->campaign->settings.sends_status) {
        call_settle(call, CALL_FINE, false);
        return;
    }
    snprintf(path, sizeof(path), "/api/v1/%s/status", media_dialect_name(dialect));
    if (dialect == MEDIA_TWILIO)
        len = snprintf(body, sizeof(body), "CallSid=%s&AccountSid=AC0&CallStatus=completed&CallDuration=%llu",
                       call->start.call_sid, (unsigned long long)(call->sent / 50));
    else if (dialect == MEDIA_PLIVO)
        len = snprintf(body, sizeof(body),
                       "CallUUID=%s&Event=Hangup&CallStatus=completed&HangupCause=NORMAL_CLEARING",
                       call->start.call_sid);
    else
        len = snprintf(body, sizeof(body), "CallSid=%s&Status=completed&EventType=terminal",
                       call->start.call_sid);
    call_set_state(call, CALL_REPORTING);
    if (call_fetch(call, "POST", path, "application/x-www-form-urlencoded", (struct slice){body, (size_t)len},
                   call_status_answered) != 0)
        call_settle(call, CALL_BAD_STATUS, false);
}

void call_ask_next(struct call *call)
{
    const struct campaign_settings *settings = &call->campaign->settings;

    call->router = (call->router + 1) % settings->router_count;
    call->tries++;
    if (call->tries < settings->router_count) {
        if (call_ask(call) != 0)
            call_settle(call, CALL_WEBHOOK_FAILED, false);
        return;
    }
    call->tries = 0;
    if (call_now_ms(call) >= call->retry_until_ms) {
        call_settle(call, CALL_WEBHOOK_FAILED, false);
        return;
    }
    call_set_state(call, CALL_PAUSING);
    call->deadline_ms = call_now_ms(call) + CALL_RETRY_MS;
}

/* The caller is hung up on, at once or after a stream; then the provider reports it. */
static void call_refused(struct call *call)
{
    if (call->asked == 0) {
        call_settle(call, CALL_FINE, true);
        return;
    }
    if (call->has_echo)
        call->failure = CALL_CUT;
    else
        call->is_unserved = true;
    call_report(call);
}

/* 302 leads back to the stream, whose URL is asked for; everything else leads to the end of the flow. */
static void call_pass_fork(struct call *call, int status)
{
    call->is_at_fork = false;
    if (status != 302)
        call_refused(call);
    else if (call_ask(call) != 0)
        call_settle(call, CALL_WEBHOOK_FAILED, false);
}

static void call_answered(void *arg, int err, int status, struct slice body)
{
    struct call *call = arg;

    call->fetch = NULL;
    if (err != 0) {
        call_ask_next(call);
        return;
    }
    call->tries = 0;
    if (call->is_at_fork) {
        call_pass_fork(call, status);
        return;
    }
    answer_read(call->start.dialect, status, body, &call->answer);
    switch (call->answer.kind) {
    case ANSWER_STREAM:
        call_dial(call);
        break;
    case ANSWER_LATER:
        if (++call->asked > CALL_ASKED_MAX) {
            call_settle(call, CALL_WEBHOOK_FAILED, false);
            break;
        }
        call_set_state(call, CALL_PAUSING);
        call->deadline_ms = call_now_ms(call) + call->answer.pause_ms;
        break;
    case ANSWER_BUSY:
        call_refused(call);
        break;
    case ANSWER_BAD:
        call_settle(call, CALL_BAD_ANSWER, false);
        break;
    }
}

/* The provider's parameters as a form; JSON where Exotel posts. */
static void call_write_webhook(const struct call *call, bool is_json, struct strbuf *buf)
{
    bool is_first = call->asked == 0;
    const char *sid = call->start.call_sid;

    if (is_json)
        strbuf_printf(buf,
                      "{\"CallSid\":\"%s\",\"CallFrom\":\"+15550001\",\"CallTo\":\"+15550002\",\"Direction\":"
                      "\"incoming\"}",
                      sid);
    else if (call->start.dialect == MEDIA_TWILIO)
        strbuf_printf(buf,
                      "CallSid=%s&AccountSid=AC0&From=%%2B15550001&To=%%2B15550002&CallStatus=%s"
                      "&ApiVersion=2010-04-01&Direction=inbound",
                      sid, is_first ? "ringing" : "in-progress");
    else if (call->start.dialect == MEDIA_PLIVO)
        strbuf_printf(buf,
                      "CallUUID=%s&From=15550001&To=15550002&CallStatus=%s&Direction=inbound"
                      "&Event=%s&RequestUUID=%s",
                      sid, is_first ? "ringing" : "in-progress", is_first ? "StartApp" : "Redirect", sid);
    else
        strbuf_printf(buf, "CallSid=%s&CallFrom=15550001&CallTo=15550002&Direction=incoming", sid);
}

static void call_write_path(const struct call *call, struct strbuf *path)
{
    const struct campaign_settings *settings = &call->campaign->settings;

    strbuf_printf(path, "/api/v1/%s/allocate", media_dialect_name(call->start.dialect));
    if (settings->merchant[0] != '\0')
        strbuf_printf(path, "?merchant_id=%s", settings->merchant);
}

int call_ask(struct call *call)
{
    const struct campaign_settings *settings = &call->campaign->settings;
    bool is_first = call->asked == 0;
    bool is_get = settings->is_get && is_first; /* what is asked after a stream is posted */
    bool is_json = !is_get && call->start.dialect == MEDIA_EXOTEL;
    struct strbuf path, params;
    int r;

    strbuf_init(&path, NULL, URL_PATH_MAX);
    strbuf_init(&params, NULL, URL_PATH_MAX);
    call_write_webhook(call, is_json, &params);
    if (call->is_at_fork)
        strbuf_append_str(&path, "/api/v1/exotel/after");
    else if (is_first || call->start.dialect == MEDIA_EXOTEL)
        call_write_path(call, &path);
    else
        strbuf_append_str(&path, call->answer.after.path);
    if (is_get)
        strbuf_printf(&path, "%c%s", settings->merchant[0] != '\0' ? '&' : '?', params.data);
    call_set_state(call, CALL_ASKING);
    if (strbuf_failed(&path) || strbuf_failed(&params))
        r = -ENOMEM;
    else
        r = call_fetch(call, is_get ? "GET" : "POST", path.data,
                       is_json ? "application/json" : "application/x-www-form-urlencoded",
                       is_get ? (struct slice){"", 0} : strbuf_slice(&params), call_answered);
    strbuf_release(&path);
    strbuf_release(&params);
    return r;
}

void call_name(struct call *call)
{
    unsigned long long run = call->campaign->run, number = call->number, stream = call->streams;
    struct media_start *start = &call->start;

    switch (start->dialect) {
    case MEDIA_TWILIO:
        snprintf(start->call_sid, sizeof(start->call_sid), "CA%016llx%016llx", run, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "MZ%016llx%04llx%012llx", run, stream, number);
        break;
    case MEDIA_PLIVO:
        snprintf(start->call_sid, sizeof(start->call_sid), "%08llx-%04llx-%04llx-a000-%012llx", run >> 32,
                 run >> 16 & 0xffff, run & 0xffff, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "%08llx-%04llx-%04llx-b%03llx-%012llx",
                 run >> 32, run >> 16 & 0xffff, run & 0xffff, stream, number);
        break;
    case MEDIA_EXOTEL:
        snprintf(start->call_sid, sizeof(start->call_sid), "%016llx%016llx", run, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "s%016llx%04llx%012llx", run, stream, number);
        break;
    case MEDIA_UNKNOWN:
    case MEDIA_DIALECTS:
        abort();
    }
}
