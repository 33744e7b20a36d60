/*
 * exotel.c - the words of Exotel's Voicebot streams: as Twilio's in snake_case, with 16-bit PCM.
 *
 * Exotel plays chunks of 3,200 to 100,000 bytes in multiples of 320: a smaller one stutters, a larger one can
 * time out, and after an odd one there is a gap.
 */
#include "media/dialect.h"
#include "media/hold_audio.h"

/* Voicebot sends PCM under several names; streams that were started through its API may be mu-law. */
static enum media_format exotel_format(const char *encoding, uint64_t rate)
{
    if (strstr(encoding, "mulaw"))
        return rate == 0 || rate == 8000 ? MEDIA_MULAW_8K : MEDIA_FORMATS;
    switch (rate) {
    case 0:
    case 8000:
        return MEDIA_PCM_8K;
    case 16000:
        return MEDIA_PCM_16K;
    case 24000:
        return MEDIA_PCM_24K;
    default:
        return MEDIA_FORMATS;
    }
}

const struct dialect dialect_exotel = {
    .name = "exotel",
    .has_connected = true,
    .call_id = "call_sid",
    .stream_id = "stream_sid",
    .format_object = "media_format",
    .sample_rate = "sample_rate",
    .format = exotel_format,
    .mark_object = "mark",
    .chunk_max = CLIP_PIECE_MAX,
    .chunk_min = 3200,
    .chunk_unit = 320,
    .play = "media",
    .mark = "mark",
    .clear = "clear",
};
