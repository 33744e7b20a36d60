/*
 * twilio.c - the words of Twilio's media streams: mu-law at 8 kHz, always.
 */
#include "media/dialect.h"

static enum media_format twilio_format(const char *encoding, uint64_t rate)
{
    bool is_mulaw = !encoding[0] || strcmp(encoding, "audio/x-mulaw") == 0;

    return is_mulaw && (rate == 0 || rate == 8000) ? MEDIA_MULAW_8K : MEDIA_FORMATS;
}

const struct dialect dialect_twilio = {
    .name = "twilio",
    .has_connected = true,
    .call_id = "callSid",
    .stream_id = "streamSid",
    .format_object = "mediaFormat",
    .sample_rate = "sampleRate",
    .format = twilio_format,
    .mark_object = "mark",
    .play = "media",
    .mark = "mark",
    .clear = "clear",
};
