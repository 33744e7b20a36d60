/*
 * call_audio.c - what a caller says and hears: frames and their echoes, what is played to a waiting caller,
 * the marks in it, and what happens when that is cleared.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/hex.h"
#include "call_internal.h"

enum {
    PAYLOAD_NUMBER_LEN = 8, /* hexadecimal digits, which base64 knows as well */
    PAYLOAD_TIME_LEN = 16,
    PAYLOAD_HEAD_LEN = PAYLOAD_NUMBER_LEN + PAYLOAD_TIME_LEN,
    HASH_TEXT_SIZE = 2 * EVP_MAX_MD_SIZE + 1,
};

struct mark {
    struct list link;
    uint64_t due_ms;
    char name[MEDIA_MARK_MAX + 1];
};

/* The scratch buffer with room for a frame's header in front. */
struct strbuf *scratch_begin(struct call *call)
{
    struct strbuf *buf = &call->campaign->scratch;

    strbuf_reset(buf);
    strbuf_append(buf, "..............", WS_HEADER_MAX);
    return buf;
}

int scratch_send(struct call *call)
{
    struct strbuf *buf = &call->campaign->scratch;

    assert(!strbuf_failed(buf));
    return peer_send(&call->peer, WS_TEXT, buf->data + WS_HEADER_MAX, buf->len - WS_HEADER_MAX);
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

void call_send_frame(struct call *call)
{
    struct tally *tally = &call->campaign->tally;
    struct strbuf *buf;
    char payload[MEDIA_PAYLOAD_MAX];
    size_t len;
    int r;

    if (call->hold.is_held && call->campaign->settings.is_mute)
        return;
    buf = scratch_begin(call);
    len = payload_make(call, call->sent, clock_elapsed_ns(), payload);
    media_write_media(buf, &call->start, call->sent, (struct slice){payload, len});
    r = scratch_send(call);
    if (call_is_stuck(r))
        call_settle(call, CALL_NOT_SENT, false);
    if (r != 0)
        return;
    call->sent++;
    tally->frames_sent++;
    call_pace(call);
}

void call_pace(struct call *call)
{
    struct campaign *campaign = call->campaign;
    bool has_more = call->hold.is_held || call->sent < call->frames;

    if (call->state == CALL_TALKING && !has_more) {
        list_remove(&call->slot);
        call_set_state(call, CALL_LISTENING);
    } else if (call->state == CALL_LISTENING && has_more) {
        call_set_state(call, CALL_TALKING);
        list_append(&campaign->slots[call->number % MEDIA_FRAME_MS], &call->slot);
    }
    if (call->state == CALL_LISTENING && call->expected == call->sent)
        call_hang_up(call);
}

/* Playing. */

static uint64_t bytes_per_ms(const struct call *call)
{
    return call->start.dialect == MEDIA_EXOTEL ? 16 : 8;
}

static size_t payload_bytes(struct slice payload)
{
    size_t bytes = payload.len / 4 * 3;

    if (payload.len >= 2 && payload.data[payload.len - 1] == '=')
        bytes -= payload.data[payload.len - 2] == '=' ? 2 : 1;
    return bytes;
}

static void playback_add(struct call *call, size_t bytes)
{
    struct playback *playback = &call->playback;

    playback->until_ms = max_u64(playback->until_ms, call_now_ms(call)) + bytes / bytes_per_ms(call);
}

static void send_played(struct call *call, const char *name)
{
    call->campaign->tally.marks++;
    media_write_played(scratch_begin(call), &call->start, name);
    (void)!scratch_send(call); /* a stream that is over is noticed elsewhere */
}

static void mark_free(struct playback *playback, struct mark *mark)
{
    list_remove(&mark->link);
    playback->mark_count--;
    free(mark);
}

void call_play(struct call *call)
{
    struct playback *playback = &call->playback;
    uint64_t now_ms = call_now_ms(call);

    while (playback->mark_count > 0) {
        struct mark *mark = LIST_ENTRY(playback->marks.next, struct mark, link);

        if (mark->due_ms > now_ms)
            return;
        send_played(call, mark->name);
        mark_free(playback, mark);
    }
}

static void call_take_mark(struct call *call, struct slice name)
{
    struct playback *playback = &call->playback;
    struct mark *mark = calloc(1, sizeof(*mark));

    if (!mark)
        abort();
    mark->due_ms = playback->until_ms;
    memcpy(mark->name, name.data, min_u64(name.len, MEDIA_MARK_MAX));
    list_append(&playback->marks, &mark->link);
    playback->mark_count++;
    if (playback->mark_count > CALL_MARKS_MAX) {
        mark = LIST_ENTRY(playback->marks.next, struct mark, link);
        send_played(call, mark->name);
        mark_free(playback, mark);
    }
    call_play(call);
}

/* Twilio and Exotel send the marks of what was cleared at once; Plivo forgets them and says that it is done.
 */
static void call_take_clear(struct call *call)
{
    struct playback *playback = &call->playback;
    uint64_t now_ms = call_now_ms(call);

    call->campaign->tally.clears++;
    if (playback->until_ms > now_ms && call->hold.is_held)
        call->hold.unplayed_bytes =
            min_u64((playback->until_ms - now_ms) * bytes_per_ms(call), call->hold.bytes);
    playback->until_ms = now_ms;
    while (playback->mark_count > 0) {
        struct mark *mark = LIST_ENTRY(playback->marks.next, struct mark, link);

        if (call->start.dialect != MEDIA_PLIVO)
            send_played(call, mark->name);
        mark_free(playback, mark);
    }
    if (media_write_cleared(scratch_begin(call), &call->start))
        (void)!scratch_send(call);
}

/* Waiting. */

void call_hold(struct call *call)
{
    struct hold *hold = &call->hold;

    if (hold->is_held)
        return;
    EVP_MD_CTX_free(hold->hash);
    *hold = (struct hold){.is_held = true, .has_waited = !call->has_echo, .since_ms = call_now_ms(call)};
    if (journal_is_wanted(&call->campaign->journal)) {
        hold->hash = EVP_MD_CTX_new();
        if (!hold->hash || !EVP_DigestInit_ex(hold->hash, EVP_sha256(), NULL))
            abort();
    }
    call->campaign->tally.held++;
    call->campaign->held++;
    call_pace(call);
}

static void hold_hash_payload(struct hold *hold, struct slice payload, size_t bytes)
{
    unsigned char *data;

    if (!hold->hash)
        return;
    data = malloc(payload.len + 1);
    if (!data)
        abort();
    if (EVP_DecodeBlock(data, (const unsigned char *)payload.data, (int)payload.len) >= (int)bytes)
        (void)EVP_DigestUpdate(hold->hash, data, bytes);
    free(data);
}

static void call_take_hold(struct call *call, struct slice payload)
{
    struct hold *hold = &call->hold;
    size_t bytes = payload_bytes(payload);
    uint64_t now_ms = call_now_ms(call);

    call_hold(call);
    /* 0: nothing was played on this stream yet. */
    if (hold->messages > 0 && call->playback.until_ms > 0 && now_ms > call->playback.until_ms)
        hold->silent_ms = max_u64(hold->silent_ms, now_ms - call->playback.until_ms);
    hold->messages++;
    hold->bytes += bytes;
    call->campaign->tally.hold_bytes += bytes;
    call->campaign->tally.hold_ms += bytes / bytes_per_ms(call);
    hold_hash_payload(hold, payload, bytes);
    playback_add(call, bytes);
}

static void hold_note(struct call *call, const char *event)
{
    struct journal *journal = &call->campaign->journal;
    struct json_writer *json = journal_begin(journal, event);
    struct hold *hold = &call->hold;
    unsigned char digest[EVP_MAX_MD_SIZE];
    char text[HASH_TEXT_SIZE] = "";
    unsigned len = 0;

    if (!json)
        return;
    if (hold->hash && EVP_DigestFinal_ex(hold->hash, digest, &len)) {
        for (unsigned i = 0; i < len; i++)
            hex_write(text + 2 * i, 2, digest[i]);
        text[2 * len] = '\0';
    }
    json_put_string(json, "call_sid", call->start.call_sid);
    json_put_string(json, "provider", media_dialect_name(call->start.dialect));
    json_put_bool(json, "has_waited", hold->has_waited);
    json_put_u64(json, "held_ms", call_now_ms(call) - hold->since_ms);
    json_put_u64(json, "messages", hold->messages);
    json_put_u64(json, "bytes", hold->bytes);
    json_put_u64(json, "unplayed_bytes", hold->unplayed_bytes);
    json_put_u64(json, "silent_ms", hold->silent_ms);
    json_put_string(json, "sha256", text);
    journal_end(journal);
}

/* An agent was heard, or the wait is over without one. */
static void call_unhold(struct call *call, bool is_heard)
{
    struct tally *tally = &call->campaign->tally;
    struct hold *hold = &call->hold;

    if (!hold->is_held)
        return;
    hold->is_held = false;
    call->campaign->held--;
    tally->hold_silent_ms = max_u64(tally->hold_silent_ms, hold->silent_ms);
    if (is_heard && hold->has_waited) {
        tally->granted++;
        histogram_add(&tally->wait_us, (call_now_ms(call) - hold->since_ms) * 1000);
        campaign_handed_over(call->campaign);
    }
    hold_note(call, is_heard ? "hold_ended" : "hold_broken");
}

void call_skip(struct call *call)
{
    uint64_t gap = call->sent - call->expected;

    call->skipped += gap;
    call->campaign->tally.frames_skipped += gap;
    call->expected = call->sent;
    call->is_deaf = true;
    call_unhold(call, false);
}

/* Echoes. */

static bool echo_read(const struct call *call, struct slice payload, uint64_t now_ns, uint64_t *ret_number,
                      uint64_t *ret_sent_ns)
{
    char wanted[MEDIA_PAYLOAD_MAX];

    if (payload.len != media_payload_len(call->start.dialect))
        return false;
    *ret_number = get_hex(payload.data, PAYLOAD_NUMBER_LEN);
    *ret_sent_ns = get_hex(payload.data + PAYLOAD_NUMBER_LEN, PAYLOAD_TIME_LEN);
    payload_make(call, *ret_number, *ret_sent_ns, wanted);
    return memcmp(wanted, payload.data, payload.len) == 0 && *ret_number < call->sent &&
           *ret_sent_ns <= now_ns;
}

/* Frames before this one were not heard: they were said to nobody, or they are lost. */
static void call_take_gap(struct call *call, uint64_t number, uint64_t now_ns)
{
    struct tally *tally = &call->campaign->tally;
    uint64_t gap = number - call->expected;

    if (!call->hold.is_held && (gap == 0 || !call->campaign->settings.allows_gaps))
        return;
    call->skipped += gap;
    call->frames += gap;
    tally->frames_skipped += gap;
    if (call->has_echo) {
        tally->gaps++;
        histogram_add(&tally->silence_us, (now_ns - call->echo_ns) / 1000);
    }
    if (call->hold.is_held && call->playback.until_ms > call_now_ms(call) && call->hold.messages > 0)
        tally->echoes_behind_hold++;
    call_unhold(call, true);
}

static void call_take_echo(struct call *call, struct slice payload)
{
    struct tally *tally = &call->campaign->tally;
    uint64_t now_ns = clock_elapsed_ns();
    uint64_t number, sent_ns;

    if (!echo_read(call, payload, now_ns, &number, &sent_ns)) {
        tally->frames_corrupt++;
        return;
    }
    if (call->is_deaf)
        return;
    if (number < call->expected) {
        tally->frames_reordered++; /* or twice */
        return;
    }
    call_take_gap(call, number, now_ns);
    call->has_echo = true;
    call->echo_ns = now_ns;
    call->expected = number + 1;
    call->echoed++;
    tally->frames_echoed++;
    playback_add(call, payload_bytes(payload));
    histogram_add(&tally->latency_us, (now_ns - sent_ns) / 1000);
}

void call_message(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    struct call *call = CONTAINER_OF(peer, struct call, peer);
    enum media_event event = MEDIA_OTHER;
    struct slice payload = {"", 0};
    struct media_start start;

    if (opcode == WS_TEXT)
        event = media_read((struct slice){data, len}, &start, &payload);
    if (event == MEDIA_MARK)
        call_take_mark(call, payload);
    else if (event == MEDIA_CLEAR)
        call_take_clear(call);
    else if (event == MEDIA_MEDIA && payload.len >= CALL_HOLD_BYTES)
        call_take_hold(call, payload);
    else if (event == MEDIA_MEDIA)
        call_take_echo(call, payload);
    else
        call->campaign->tally.frames_corrupt++;
    call_pace(call);
}

void call_stop_playing(struct call *call)
{
    struct playback *playback = &call->playback;

    playback->until_ms = 0;
    while (playback->mark_count > 0)
        mark_free(playback, LIST_ENTRY(playback->marks.next, struct mark, link));
}

void call_audio_release(struct call *call)
{
    call_unhold(call, false);
    call_stop_playing(call);
    EVP_MD_CTX_free(call->hold.hash);
    call->hold.hash = NULL;
}
