/*
 * play.c - the sound that a caller hears while there is no pod: one clip after the other, each with its mark.
 *
 * The clip is shared by all streams and is not copied; a stream adds only what stands around it. The next
 * round is sent when the one before must be over by the clock, or when its mark comes back: whatever is
 * first. A client that does not read gets no further round.
 */
#include "base/log.h"
#include "gateway/stream_internal.h"

enum { PLAY_EARLY_MS = 500 }; /* by how much a provider may play faster than our clock */

/* A message of ours without the audio in it, as a frame. False: it was not sent. */
static bool play_send_text(struct stream *stream, const struct strbuf *text)
{
    struct strbuf frame;
    bool is_sent = false;

    strbuf_init(&frame, &stream->gateway->words, WS_HEADER_MAX + MEDIA_WRITE_MAX);
    ws_write_frame(&frame, WS_TEXT, strbuf_slice(text), NULL);
    if (!strbuf_failed(text) && !strbuf_failed(&frame))
        is_sent = carry_send(stream->client, &(struct side_part){frame.data, frame.len, false}, 1);
    return is_sent;
}

/* One message with audio. */
static bool play_send_piece(struct stream *stream, const struct clip_piece *piece)
{
    const struct media_start *start = &stream->follow->start;
    struct ws_header header = {.opcode = WS_TEXT, .is_final = true};
    char head[WS_HEADER_MAX];
    struct strbuf begin, end;
    struct side_part parts[4];

    strbuf_init(&begin, &stream->gateway->words, MEDIA_WRITE_MAX);
    strbuf_init(&end, &stream->gateway->words, MEDIA_WRITE_MAX);
    media_write_play_begin(&begin, start);
    media_write_play_end(&end, start);
    if (strbuf_failed(&begin) || strbuf_failed(&end))
        return false;
    header.len = begin.len + piece->base64.len + end.len;
    parts[0] = (struct side_part){head, ws_header_write(&header, head), false};
    parts[1] = (struct side_part){begin.data, begin.len, false};
    parts[2] = (struct side_part){piece->base64.data, piece->base64.len, true};
    parts[3] = (struct side_part){end.data, end.len, false};
    return carry_send(stream->client, parts, ARRAY_LEN(parts));
}

static void play_round(struct stream *stream)
{
    struct follow *follow = stream->follow;
    struct strbuf text;
    bool is_sent = true;

    arena_reset(&stream->gateway->words);
    for (size_t i = 0; i < follow->clip->piece_count && is_sent; i++)
        is_sent = play_send_piece(stream, &follow->clip->pieces[i]);
    strbuf_init(&text, &stream->gateway->words, MEDIA_WRITE_MAX);
    media_write_mark(&text, &follow->start, follow->marks + 1);
    if (is_sent && play_send_text(stream, &text))
        follow->marks++;
    follow->has_played = true;
    stream->active_ms = stream_now(stream);
}

/* Does the client have nobody to listen to? */
static bool play_is_wanted(const struct stream *stream)
{
    return stream->phase == STREAM_HELD || stream->phase == STREAM_DIALING;
}

void play_mark_back(struct stream *stream)
{
    struct follow *follow = stream->follow;

    /* A provider that answers at once has not played it. */
    if (follow->clip_at_ms > 0 && stream_now(stream) + PLAY_EARLY_MS >= follow->clip_at_ms) {
        follow->clip_at_ms = stream_now(stream);
        play_on(stream);
    }
}

void play_on(struct stream *stream)
{
    struct follow *follow = stream->follow;
    uint64_t now_ms = stream_now(stream);

    if (!follow || follow->clip_at_ms == 0 || now_ms < follow->clip_at_ms || !play_is_wanted(stream))
        return;
    /* It comes when all is written: see carry_drained. */
    if (stream->client->pending > 0)
        return;
    /* By the clock, so that what the timer lacks in exactness does not add up; but nothing is made up for. */
    follow->clip_at_ms = max_u64(follow->clip_at_ms, now_ms - min_u64(now_ms, follow->clip->duration_ms)) +
                         follow->clip->duration_ms;
    play_round(stream);
}

void play_begin(struct stream *stream)
{
    struct follow *follow = stream->follow;

    if (!follow->has_start || !follow->start.dialect || follow->clip_at_ms > 0 || !play_is_wanted(stream))
        return;
    follow->clip =
        hold_audio_clip(stream->gateway->settings.hold_audio, follow->start.dialect, follow->start.format);
    if (!follow->clip)
        return;
    follow->clip_at_ms = stream_now(stream);
    play_on(stream);
    stream_await(stream);
}

void play_end(struct stream *stream)
{
    struct follow *follow = stream->follow;
    struct strbuf text;

    follow->clip_at_ms = 0;
    if (!follow->has_played)
        return;
    follow->has_played = false;
    arena_reset(&stream->gateway->words);
    strbuf_init(&text, &stream->gateway->words, MEDIA_WRITE_MAX);
    media_write_clear(&text, &follow->start);
    follow->clears += follow->start.dialect->has_cleared;
    (void)play_send_text(stream, &text);
}
