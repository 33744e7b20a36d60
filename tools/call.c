/*
 * call.c - one call of a provider, from the webhook to the status callback.
 */
#include <stdio.h>
#include <stdlib.h>

#include "answer.h"
#include "base/clock.h"
#include "base/hex.h"
#include "campaign.h"
#include "sign.h"

enum call_state {
    CALL_ASKING,     /* the webhook is on its way */
    CALL_CONNECTING, /* the stream's handshake is */
    CALL_TALKING,
    CALL_LISTENING, /* all is said, not all is heard */
    CALL_CLOSING,
    CALL_REPORTING, /* the status callback is on its way */
    CALL_OVER,
};

enum {
    PAYLOAD_NUMBER_LEN = 8, /* hexadecimal digits, which base64 knows as well */
    PAYLOAD_TIME_LEN = 16,
    PAYLOAD_HEAD_LEN = PAYLOAD_NUMBER_LEN + PAYLOAD_TIME_LEN,
};

struct call {
    struct peer peer;
    struct campaign *campaign;
    struct list link; /* all calls */
    struct list slot; /* those that talk */
    enum call_state state;
    enum call_failure failure;
    bool has_peer;
    struct fetch *fetch;
    struct media_start start;
    uint64_t number;
    uint64_t deadline_ms; /* of the state; CALL_OVER: when its place is free again */
    uint64_t started_ns;
    uint64_t frames; /* to be sent in all */
    uint64_t sent;
    uint64_t echoed;
    uint64_t expected; /* number of the next echo */
};

static const char *const failure_names[CALL_FAILURES] = {
    "fine",
    "no answer to the webhook",
    "answer not understood",
    "stream needs TLS",
    "stream not reachable",
    "stream refused",
    "stream cut in mid-call",
    "other side does not read",
    "timeout",
    "frames lost",
    "not closed properly",
    "status callback failed",
};

const char *call_failure_name(enum call_failure failure)
{
    return failure_names[failure];
}

static uint64_t call_now_ms(const struct call *call)
{
    return uv_now(&call->campaign->net->loop);
}

static void call_set_state(struct call *call, enum call_state state)
{
    call->state = state;
    call->deadline_ms = call_now_ms(call) + call->campaign->settings.timeout_ms;
}

static struct call *call_of(struct peer *peer)
{
    return CONTAINER_OF(peer, struct call, peer);
}

/* Nothing more will happen; the books are closed. The first failure is the one that counts. */
static void call_settle(struct call *call, enum call_failure failure, bool is_busy)
{
    struct tally *tally = &call->campaign->tally;
    uint64_t lost = call->sent - call->echoed;

    assert(call->state != CALL_OVER);
    if (call->failure == CALL_FINE)
        call->failure = failure;
    if (call->failure == CALL_FINE && lost > 0)
        call->failure = CALL_LOST_FRAMES;
    tally->frames_lost += lost;
    tally->failures[call->failure]++;
    if (is_busy)
        tally->busy++;
    else if (call->failure == CALL_FINE)
        tally->completed++;
    else
        tally->failed++;
    list_remove(&call->slot);
    if (call->fetch)
        fetch_cancel(call->fetch);
    call->fetch = NULL;
    if (call->has_peer)
        peer_close(&call->peer);
    call->state = CALL_OVER;
    call->deadline_ms = call_now_ms(call) + call->campaign->settings.gap_ms;
}

static void call_status_answered(void *arg, int err, int status, struct slice body UNUSED)
{
    struct call *call = arg;
    struct tally *tally = &call->campaign->tally;

    call->fetch = NULL;
    tally->status_callbacks++;
    call_settle(call, err == 0 && status == 200 ? CALL_FINE : CALL_BAD_STATUS, false);
}

static int call_fetch(struct call *call, const char *method, const char *path, const char *type,
                      struct slice body, fetch_fn fn)
{
    struct campaign *campaign = call->campaign;
    const char *token = campaign->settings.tokens[call->start.dialect];
    struct strbuf headers;
    struct fetch_request request = {
        .method = method,
        .address = (const struct sockaddr *)&campaign->router_address,
        .url = &campaign->settings.router,
        .path = path,
        .content_type = type,
        .body = body,
        .timeout_ms = campaign->settings.timeout_ms,
    };
    int r = 0;

    strbuf_init(&headers, NULL, SIGN_HEADERS_MAX);
    if (token[0] != '\0') {
        r = sign_headers(call->start.dialect, token, &campaign->settings.router, path, body, &headers);
        if (r == 0 && strbuf_failed(&headers))
            r = -ENOMEM;
        request.headers = headers.data;
    }
    if (r == 0)
        r = fetch_start(campaign->net, &request, fn, call, &call->fetch);
    strbuf_release(&headers);
    return r;
}

static void call_report(struct call *call)
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

/* The scratch buffer with room for a frame's header in front. */
static struct strbuf *scratch_begin(struct call *call)
{
    struct strbuf *buf = &call->campaign->scratch;

    strbuf_reset(buf);
    strbuf_append(buf, "..............", WS_HEADER_MAX);
    return buf;
}

static int scratch_send(struct call *call)
{
    struct strbuf *buf = &call->campaign->scratch;

    assert(!strbuf_failed(buf));
    return peer_send(&call->peer, WS_TEXT, buf->data + WS_HEADER_MAX, buf->len - WS_HEADER_MAX);
}

static void call_hang_up(struct call *call)
{
    struct strbuf *buf = scratch_begin(call);
    int r = 0;

    list_remove(&call->slot);
    call_set_state(call, CALL_CLOSING);
    if (media_write_stop(buf, &call->start, call->sent))
        r = scratch_send(call);
    if (r != 0)
        call_settle(call, CALL_NOT_SENT, false);
    else
        peer_say_goodbye(&call->peer, WS_CLOSE_NORMAL);
}

static uint64_t get_hex(const char *text, size_t digits)
{
    uint64_t value = 0;

    for (size_t i = 0; i < digits; i++)
        value = value << 4 | (uint64_t)hex_value(text[i]);
    return value;
}

/* Valid base64 that says which frame it is of. Returns its length. */
static size_t payload_make(const struct call *call, uint64_t number, uint64_t sent_ns,
                           char payload[MEDIA_PAYLOAD_MAX])
{
    const char *tail = call->start.dialect == MEDIA_EXOTEL ? "AAA=" : "AA==";
    size_t len = media_payload_len(call->start.dialect);

    hex_write(payload, PAYLOAD_NUMBER_LEN, number);
    hex_write(payload + PAYLOAD_NUMBER_LEN, PAYLOAD_TIME_LEN, sent_ns);
    memcpy(payload + PAYLOAD_HEAD_LEN, call->campaign->pattern + number % 64, len - PAYLOAD_HEAD_LEN);
    memcpy(payload + len - 4, tail, 4);
    return len;
}

static void call_send_frame(struct call *call)
{
    struct tally *tally = &call->campaign->tally;
    struct strbuf *buf = scratch_begin(call);
    char payload[MEDIA_PAYLOAD_MAX];
    size_t len = payload_make(call, call->sent, clock_elapsed_ns(), payload);

    media_write_media(buf, &call->start, call->sent, (struct slice){payload, len});
    if (scratch_send(call) != 0) {
        call_settle(call, CALL_NOT_SENT, false);
        return;
    }
    call->sent++;
    tally->frames_sent++;
    if (call->sent < call->frames)
        return;
    list_remove(&call->slot);
    call_set_state(call, CALL_LISTENING);
}

void calls_send(struct campaign *campaign, struct list *slot)
{
    (void)campaign;
    LIST_FOR_EACH (link, slot)
        call_send_frame(LIST_ENTRY(link, struct call, slot));
}

static void call_take_echo(struct call *call, struct slice payload)
{
    struct tally *tally = &call->campaign->tally;
    char wanted[MEDIA_PAYLOAD_MAX];
    uint64_t now_ns = clock_elapsed_ns();
    uint64_t number, sent_ns;

    if (payload.len != media_payload_len(call->start.dialect)) {
        tally->frames_corrupt++;
        return;
    }
    number = get_hex(payload.data, PAYLOAD_NUMBER_LEN);
    sent_ns = get_hex(payload.data + PAYLOAD_NUMBER_LEN, PAYLOAD_TIME_LEN);
    payload_make(call, number, sent_ns, wanted);
    if (memcmp(wanted, payload.data, payload.len) != 0 || number >= call->sent || sent_ns > now_ns) {
        tally->frames_corrupt++;
        return;
    }
    if (number < call->expected) {
        tally->frames_reordered++; /* or twice */
        return;
    }
    call->expected = number + 1;
    call->echoed++;
    tally->frames_echoed++;
    histogram_add(&tally->latency_us, (now_ns - sent_ns) / 1000);
}

static void call_message(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    struct call *call = call_of(peer);
    struct media_start start;
    struct slice payload;

    if (opcode != WS_TEXT || media_read((struct slice){data, len}, &start, &payload) != MEDIA_MEDIA)
        call->campaign->tally.frames_corrupt++;
    else
        call_take_echo(call, payload);
    if (call->state == CALL_LISTENING && call->expected == call->sent)
        call_hang_up(call);
}

static void call_opened(struct peer *peer)
{
    struct call *call = call_of(peer);
    struct campaign *campaign = call->campaign;
    struct strbuf *buf = scratch_begin(call);
    int r = 0;

    campaign->tally.answered++;
    histogram_add(&campaign->tally.setup_us, (clock_elapsed_ns() - call->started_ns) / 1000);
    if (media_write_connected(buf, call->start.dialect))
        r = scratch_send(call);
    media_write_start(scratch_begin(call), &call->start);
    if (r == 0)
        r = scratch_send(call);
    if (r != 0) {
        call_settle(call, CALL_NOT_SENT, false);
        return;
    }
    call_set_state(call, CALL_TALKING);
    if (campaign->is_stopping || call->frames == 0)
        call_hang_up(call);
    else
        list_append(&campaign->slots[call->number % MEDIA_FRAME_MS], &call->slot);
}

static void call_ended(struct peer *peer, int code, int err, int status)
{
    struct call *call = call_of(peer);

    switch (call->state) {
    case CALL_CONNECTING:
        if (status != 0)
            call->campaign->tally.refused_status = (uint64_t)status;
        call_settle(call, status != 0 || err == 0 ? CALL_REFUSED : CALL_NOT_CONNECTED, false);
        break;
    case CALL_CLOSING:
        peer_close(peer);
        if (code != WS_CLOSE_NORMAL)
            call->failure = CALL_BAD_CLOSE;
        call_report(call);
        break;
    case CALL_TALKING:
    case CALL_LISTENING:
        /* The provider reports this call, too. */
        peer_close(peer);
        list_remove(&call->slot);
        call->failure = CALL_CUT;
        call_report(call);
        break;
    case CALL_ASKING:
    case CALL_REPORTING:
    case CALL_OVER:
        break;
    }
}

static void call_closed(struct peer *peer)
{
    call_of(peer)->has_peer = false;
}

static const struct peer_ops call_peer_ops = {
    .open = call_opened,
    .message = call_message,
    .ended = call_ended,
    .closed = call_closed,
};

/* Opens the stream. */
static void call_dial(struct call *call, const struct url *url)
{
    const struct campaign *campaign = call->campaign;
    struct sockaddr_storage address = campaign->connect_address;

    if (!campaign->settings.has_connect_to) {
        if (url->is_tls) {
            call_settle(call, CALL_NEEDS_TLS, false);
            return;
        }
        if (url_resolve(url, &address) != 0) {
            call_settle(call, CALL_NOT_CONNECTED, false);
            return;
        }
    }
    call_set_state(call, CALL_CONNECTING);
    call->has_peer = true;
    if (peer_connect(&call->peer, campaign->net, &call_peer_ops, (const struct sockaddr *)&address, url,
                     "") != 0)
        call_settle(call, CALL_NOT_CONNECTED, false);
}

static void call_webhook_answered(void *arg, int err, int status, struct slice body)
{
    struct call *call = arg;
    struct url url;

    call->fetch = NULL;
    if (err != 0) {
        call_settle(call, CALL_WEBHOOK_FAILED, false);
        return;
    }
    switch (answer_read(call->start.dialect, status, body, &url)) {
    case ANSWER_STREAM:
        call_dial(call, &url);
        break;
    case ANSWER_BUSY:
        call_settle(call, CALL_FINE, true);
        break;
    case ANSWER_BAD:
        call_settle(call, CALL_BAD_ANSWER, false);
        break;
    }
}

/* The provider's parameters as a form; JSON where Exotel posts. */
static void call_write_webhook(const struct call *call, bool is_json, struct strbuf *buf)
{
    const char *sid = call->start.call_sid;

    if (is_json)
        strbuf_printf(buf,
                      "{\"CallSid\":\"%s\",\"CallFrom\":\"+15550001\",\"CallTo\":\"+15550002\",\"Direction\":"
                      "\"incoming\"}",
                      sid);
    else if (call->start.dialect == MEDIA_TWILIO)
        strbuf_printf(buf,
                      "CallSid=%s&AccountSid=AC0&From=%%2B15550001&To=%%2B15550002&CallStatus=ringing"
                      "&ApiVersion=2010-04-01&Direction=inbound",
                      sid);
    else if (call->start.dialect == MEDIA_PLIVO)
        strbuf_printf(buf,
                      "CallUUID=%s&From=15550001&To=15550002&CallStatus=ringing&Direction=inbound"
                      "&Event=StartApp&RequestUUID=%s",
                      sid, sid);
    else
        strbuf_printf(buf, "CallSid=%s&CallFrom=15550001&CallTo=15550002&Direction=incoming", sid);
}

static int call_ask(struct call *call)
{
    const struct campaign_settings *settings = &call->campaign->settings;
    bool is_json = !settings->is_get && call->start.dialect == MEDIA_EXOTEL;
    struct strbuf path, params;
    int r;

    strbuf_init(&path, NULL, URL_PATH_MAX);
    strbuf_init(&params, NULL, URL_PATH_MAX);
    call_write_webhook(call, is_json, &params);
    strbuf_printf(&path, "/api/v1/%s/allocate", media_dialect_name(call->start.dialect));
    if (settings->merchant[0] != '\0')
        strbuf_printf(&path, "?merchant_id=%s", settings->merchant);
    if (settings->is_get)
        strbuf_printf(&path, "%c%s", settings->merchant[0] != '\0' ? '&' : '?', params.data);
    call_set_state(call, CALL_ASKING);
    if (strbuf_failed(&path) || strbuf_failed(&params))
        r = -ENOMEM;
    else
        r = call_fetch(call, settings->is_get ? "GET" : "POST", path.data,
                       is_json ? "application/json" : "application/x-www-form-urlencoded",
                       settings->is_get ? (struct slice){"", 0} : strbuf_slice(&params),
                       call_webhook_answered);
    strbuf_release(&path);
    strbuf_release(&params);
    return r;
}

/* Names as the providers give them. */
static void call_name(struct call *call)
{
    unsigned long long run = call->campaign->run, number = call->number;
    struct media_start *start = &call->start;

    switch (start->dialect) {
    case MEDIA_TWILIO:
        snprintf(start->call_sid, sizeof(start->call_sid), "CA%016llx%016llx", run, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "MZ%016llx%016llx", run, number);
        break;
    case MEDIA_PLIVO:
        snprintf(start->call_sid, sizeof(start->call_sid), "%08llx-%04llx-%04llx-a000-%012llx", run >> 32,
                 run >> 16 & 0xffff, run & 0xffff, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "%08llx-%04llx-%04llx-b000-%012llx", run >> 32,
                 run >> 16 & 0xffff, run & 0xffff, number);
        break;
    case MEDIA_EXOTEL:
        snprintf(start->call_sid, sizeof(start->call_sid), "%016llx%016llx", run, number);
        snprintf(start->stream_sid, sizeof(start->stream_sid), "s%016llx%016llx", run, number);
        break;
    case MEDIA_UNKNOWN:
    case MEDIA_DIALECTS:
        abort();
    }
}

int call_start(struct campaign *campaign, uint64_t number)
{
    const struct campaign_settings *settings = &campaign->settings;
    struct call *call = calloc(1, sizeof(*call));
    int r;

    if (!call)
        return -ENOMEM;
    call->campaign = campaign;
    call->number = number;
    call->frames = settings->call_ms / MEDIA_FRAME_MS;
    call->started_ns = clock_elapsed_ns();
    call->start.dialect = settings->dialect != MEDIA_UNKNOWN
                              ? settings->dialect
                              : (enum media_dialect)(MEDIA_TWILIO + number % (MEDIA_DIALECTS - MEDIA_TWILIO));
    list_init(&call->slot);
    list_init(&call->link);
    call_name(call);
    if (!settings->has_ws_url) {
        r = call_ask(call);
        if (r != 0) {
            free(call);
            return r;
        }
    }
    list_append(&campaign->calls, &call->link);
    campaign->active++;
    if (settings->has_ws_url)
        call_dial(call, &settings->ws_url);
    return 0;
}

void calls_sweep(struct campaign *campaign, uint64_t now_ms)
{
    LIST_FOR_EACH (link, &campaign->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (call->state == CALL_TALKING || now_ms < call->deadline_ms)
            continue;
        if (call->state != CALL_OVER) {
            call_settle(call, CALL_TIMEOUT, false);
        } else if (!call->has_peer) {
            list_remove(&call->link);
            campaign->active--;
            free(call);
        }
    }
}

void calls_hang_up(struct campaign *campaign)
{
    LIST_FOR_EACH (link, &campaign->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (call->state != CALL_TALKING)
            continue;
        call->frames = call->sent;
        list_remove(&call->slot);
        call_set_state(call, CALL_LISTENING);
        if (call->expected == call->sent)
            call_hang_up(call);
    }
}
