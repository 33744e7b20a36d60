/*
 * call.c - the life of one call of a provider, from the webhook to the status callback.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "call_internal.h"

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

uint64_t call_now_ms(const struct call *call)
{
    return uv_now(&call->campaign->net->loop);
}

void call_set_state(struct call *call, enum call_state state)
{
    call->state = state;
    call->deadline_ms = call_now_ms(call) + call->campaign->settings.timeout_ms;
}

static struct call *call_of(struct peer *peer)
{
    return CONTAINER_OF(peer, struct call, peer);
}

static const char *call_count(struct call *call, bool is_busy)
{
    struct tally *tally = &call->campaign->tally;

    if (call->has_died) {
        tally->died++;
        return "died";
    }
    if (call->is_abandoned) {
        tally->abandoned++;
        return "abandoned";
    }
    if (is_busy) {
        tally->busy++;
        return "busy";
    }
    if (call->failure == CALL_FINE) {
        tally->completed++;
        return "completed";
    }
    tally->failed++;
    return "failed";
}

static void call_note(struct call *call, const char *outcome, uint64_t lost)
{
    struct journal *journal = &call->campaign->journal;
    struct json_writer *json = journal_begin(journal, "call");

    if (!json)
        return;
    json_put_string(json, "call_sid", call->start.call_sid);
    json_put_string(json, "provider", media_dialect_name(call->start.dialect));
    json_put_string(json, "outcome", outcome);
    json_put_string(json, "failure", call_failure_name(call->failure));
    json_put_u64(json, "streams", call->streams);
    json_put_u64(json, "asked_again", call->asked);
    json_put_u64(json, "close_code", (uint64_t)call->close_code);
    json_put_u64(json, "frames_sent", call->sent);
    json_put_u64(json, "frames_echoed", call->echoed);
    json_put_u64(json, "frames_skipped", call->skipped);
    json_put_u64(json, "frames_lost", lost);
    journal_end(journal);
}

void call_settle(struct call *call, enum call_failure failure, bool is_busy)
{
    struct tally *tally = &call->campaign->tally;
    uint64_t lost;

    assert(call->state != CALL_OVER);
    if (call->hold.is_held || call->has_died)
        call_skip(call);
    lost = call->sent - call->echoed - call->skipped;
    if (call->failure == CALL_FINE)
        call->failure = failure;
    if (call->failure == CALL_FINE && lost > 0)
        call->failure = CALL_LOST_FRAMES;
    tally->frames_lost += lost;
    tally->failures[call->failure]++;
    call_note(call, call_count(call, is_busy || call->is_unserved), lost);
    list_remove(&call->slot);
    if (call->fetch)
        fetch_cancel(call->fetch);
    call->fetch = NULL;
    if (call->has_peer)
        peer_close(&call->peer);
    call_audio_release(call);
    call->state = CALL_OVER;
    call->deadline_ms = call_now_ms(call) + call->campaign->settings.gap_ms;
}

void call_hang_up(struct call *call)
{
    struct strbuf *buf = scratch_begin(call);
    int r = 0;

    list_remove(&call->slot);
    call_set_state(call, CALL_CLOSING);
    if (call->has_echo)
        campaign_left(call->campaign);
    if (media_write_stop(buf, &call->start, call->sent))
        r = scratch_send(call);
    if (call_is_stuck(r))
        call_settle(call, CALL_NOT_SENT, false);
    else
        peer_say_goodbye(&call->peer, WS_CLOSE_NORMAL);
}

void calls_send(struct campaign *campaign, struct list *slot)
{
    (void)campaign;
    LIST_FOR_EACH (link, slot)
        call_send_frame(LIST_ENTRY(link, struct call, slot));
}

static void call_opened(struct peer *peer)
{
    struct call *call = call_of(peer);
    struct campaign *campaign = call->campaign;
    struct strbuf *buf = scratch_begin(call);
    int r = 0;

    call->tries = 0;
    if (call->streams++ == 0) {
        campaign->tally.answered++;
        histogram_add(&campaign->tally.setup_us, (clock_elapsed_ns() - call->started_ns) / 1000);
    } else {
        campaign->tally.resumes++;
    }
    if (media_write_connected(buf, call->start.dialect))
        r = scratch_send(call);
    media_write_start(scratch_begin(call), &call->start);
    if (r == 0)
        r = scratch_send(call);
    if (call_is_stuck(r)) {
        call_settle(call, CALL_NOT_SENT, false);
        return;
    }
    call_set_state(call, CALL_TALKING);
    if (strstr(call->answer.url.path, "/ws/hold/"))
        call_hold(call);
    if (campaign->is_stopping || call->frames == 0)
        call_hang_up(call);
    else
        list_append(&campaign->slots[call->number % MEDIA_FRAME_MS], &call->slot);
}

/* Each call takes another part of the time. */
static void call_wait_to_ask(struct call *call)
{
    call_set_state(call, CALL_PAUSING);
    call->deadline_ms =
        call_now_ms(call) + call->campaign->settings.ask_within_ms * (call->number * 37 % 100) / 100;
}

/* The other side has closed the stream of a call that is not over. */
static void call_stream_ended(struct call *call)
{
    list_remove(&call->slot);
    call_stop_playing(call);
    call->is_at_fork = call->start.dialect == MEDIA_EXOTEL && call->campaign->settings.forks_exotel;
    if ((call->answer.has_after || call->is_at_fork) && call->asked < CALL_ASKED_MAX) {
        call_set_state(call, CALL_ASKING);
        call_hold(call); /* what was not heard until here, nobody hears */
        call->asked++;
        call->retry_until_ms = call_now_ms(call) + call->campaign->settings.retry_ms;
        if (call->campaign->settings.ask_within_ms > 0)
            call_wait_to_ask(call);
        else if (call_ask(call) != 0)
            call_settle(call, CALL_WEBHOOK_FAILED, false);
        return;
    }
    /* The provider reports this call, too. */
    if (call->hold.is_held && !call->has_echo)
        call->is_unserved = true;
    else
        call->failure = CALL_CUT;
    call_report(call);
}

/* Another router may have the stream; behind a load balancer it does not matter which. */
static void call_not_connected(struct call *call, int err, int status)
{
    if (status != 0)
        call->campaign->tally.refused_status = (uint64_t)status;
    else if (call->campaign->settings.router_count > 1 &&
             call->tries + 1 < call->campaign->settings.router_count) {
        call->router = (call->router + 1) % call->campaign->settings.router_count;
        call->tries++;
        call->is_redialled = true;
        return;
    }
    call_settle(call, status != 0 || err == 0 ? CALL_REFUSED : CALL_NOT_CONNECTED, false);
}

static void call_ended(struct peer *peer, int code, int err, int status)
{
    struct call *call = call_of(peer);

    switch (call->state) {
    case CALL_CONNECTING:
        peer_close(peer);
        call_not_connected(call, err, status);
        break;
    case CALL_CLOSING:
        peer_close(peer);
        call->close_code = code;
        if (code != WS_CLOSE_NORMAL)
            call->failure = CALL_BAD_CLOSE;
        call_report(call);
        break;
    case CALL_TALKING:
    case CALL_LISTENING:
        peer_close(peer);
        call->close_code = code;
        call_stream_ended(call);
        break;
    case CALL_ASKING:
    case CALL_PAUSING:
    case CALL_REPORTING:
    case CALL_OVER:
        break;
    }
}

static void call_closed(struct peer *peer)
{
    struct call *call = call_of(peer);

    call->has_peer = false;
    if (!call->is_redialled || call->state == CALL_OVER)
        return;
    call->is_redialled = false;
    call_dial(call);
}

static const struct peer_ops call_peer_ops = {
    .open = call_opened,
    .message = call_message,
    .ended = call_ended,
    .closed = call_closed,
};

/* Where the stream's URL leads to. */
static enum call_failure call_find(const struct call *call, struct sockaddr_storage *ret_address)
{
    const struct campaign *campaign = call->campaign;
    const struct url *url = &call->answer.url;

    if (campaign->settings.has_connect_to) {
        *ret_address = campaign->connect_address;
        return CALL_FINE;
    }
    if (campaign->settings.router_count > 1) {
        *ret_address = campaign->router_addresses[call->router];
        return CALL_FINE;
    }
    if (url->is_tls)
        return CALL_NEEDS_TLS;
    return url_resolve(url, ret_address) == 0 ? CALL_FINE : CALL_NOT_CONNECTED;
}

/* The memory of the stream before is needed: a peer that still closes is waited for. */
void call_dial(struct call *call)
{
    struct sockaddr_storage address;
    enum call_failure failure = call_find(call, &address);

    if (failure != CALL_FINE) {
        call_settle(call, failure, false);
        return;
    }
    call_set_state(call, CALL_CONNECTING);
    if (call->has_peer) {
        call->is_redialled = true;
        return;
    }
    call_name(call);
    call->has_peer = true;
    if (peer_connect(&call->peer, call->campaign->net, &call_peer_ops, (const struct sockaddr *)&address,
                     &call->answer.url, "") != 0)
        call_settle(call, CALL_NOT_CONNECTED, false);
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
    call->router = number % settings->router_count;
    call->frames = settings->call_ms / MEDIA_FRAME_MS;
    call->started_ns = clock_elapsed_ns();
    call->start.dialect = settings->dialect != MEDIA_UNKNOWN
                              ? settings->dialect
                              : (enum media_dialect)(MEDIA_TWILIO + number % (MEDIA_DIALECTS - MEDIA_TWILIO));
    call->retry_until_ms = call_now_ms(call) + settings->retry_ms;
    list_init(&call->slot);
    list_init(&call->link);
    list_init(&call->playback.marks);
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
    if (settings->has_ws_url) {
        call->answer = (struct answer){.kind = ANSWER_STREAM, .url = settings->ws_url};
        call_dial(call);
    }
    return 0;
}

/* Its time is over, one way or another. */
static void call_sweep(struct call *call, uint64_t now_ms)
{
    const struct campaign_settings *settings = &call->campaign->settings;

    if (call->hold.is_held && call->state == CALL_TALKING && settings->patience_ms > 0 &&
        now_ms - call->hold.since_ms >= settings->patience_ms) {
        call->is_abandoned = true;
        call_skip(call);
        call_hang_up(call);
    } else if (call->state == CALL_LISTENING && settings->allows_gaps &&
               now_ms + settings->timeout_ms >= call->deadline_ms + CALL_QUIET_MS) {
        call_skip(call);
        call_hang_up(call);
    } else if (call->state == CALL_PAUSING && now_ms >= call->deadline_ms) {
        if (call_ask(call) != 0)
            call_settle(call, CALL_WEBHOOK_FAILED, false);
    } else if (call->state != CALL_TALKING && call->state != CALL_OVER && now_ms >= call->deadline_ms) {
        call_settle(call, CALL_TIMEOUT, false);
    }
}

void calls_sweep(struct campaign *campaign, uint64_t now_ms)
{
    LIST_FOR_EACH (link, &campaign->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (call->playback.mark_count > 0)
            call_play(call);
        call_sweep(call, now_ms);
        if (call->state != CALL_OVER || call->has_peer || now_ms < call->deadline_ms)
            continue;
        list_remove(&call->link);
        campaign->active--;
        free(call);
    }
}

void calls_hang_up(struct campaign *campaign)
{
    LIST_FOR_EACH (link, &campaign->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (call->state != CALL_TALKING)
            continue;
        if (call->hold.is_held)
            call_skip(call);
        call->frames = call->sent;
        call_pace(call);
    }
}

void calls_die(struct campaign *campaign)
{
    LIST_FOR_EACH (link, &campaign->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (call->state == CALL_OVER)
            continue;
        call->has_died = true;
        if (call->has_peer)
            peer_reset(&call->peer);
        call_settle(call, CALL_FINE, false);
    }
}
