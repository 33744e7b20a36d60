/*
 * plivo.c - the words of Plivo's audio streams: playAudio, checkpoint, clearAudio.
 *
 * Each playAudio names its own format: mu-law at 8 kHz, or 16-bit PCM at 8 or 16 kHz. We take that of the
 * caller's audio, as agents do.
 */
#include "media/dialect.h"

static enum media_format plivo_format(const char *encoding, uint64_t rate)
{
    if (strcmp(encoding, "audio/x-l16") == 0)
        return rate == 16000 ? MEDIA_PCM_16K : MEDIA_PCM_8K;
    return MEDIA_MULAW_8K;
}

static void plivo_write_format(struct strbuf *buf, enum media_format format)
{
    strbuf_append_str(buf, "\"contentType\":\"");
    strbuf_append_str(buf, format == MEDIA_MULAW_8K ? "audio/x-mulaw" : "audio/x-l16");
    strbuf_append_str(buf, "\",\"sampleRate\":");
    strbuf_append_str(buf, format == MEDIA_PCM_16K ? "16000" : "8000");
    strbuf_append_char(buf, ',');
}

const struct dialect dialect_plivo = {
    .name = "plivo",
    .has_connected = false,
    .call_id = "callId",
    .stream_id = "streamId",
    .format_object = "mediaFormat",
    .sample_rate = "sampleRate",
    .format = plivo_format,
    .mark_object = NULL,
    .has_cleared = true,
    .play = "playAudio",
    .mark = "checkpoint",
    .clear = "clearAudio",
    .write_format = plivo_write_format,
};
