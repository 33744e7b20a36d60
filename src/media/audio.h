/*
 * audio.h - samples: mu-law and 16-bit PCM, other sample rates, base64, and the built-in tone.
 *
 * Pure functions on memory of the caller.
 */
#ifndef MEDIA_AUDIO_H
#define MEDIA_AUDIO_H

#include "base/base.h"

/* G.711. Every mu-law byte gives a sample, and that sample gives a byte of the same value back. */
int16_t mulaw_decode(uint8_t byte);
uint8_t mulaw_encode(int16_t sample);

/*
 * `factor` times the sample rate (1 to 3), as one round of a loop: the last samples run into the first ones.
 * `ret_out` has room for count * factor samples.
 */
void audio_upsample_loop(const int16_t *samples, size_t count, unsigned factor, int16_t *ret_out);

enum { TONE_MS = 4000 };

/* Fills TONE_MS of samples at 8 kHz: two soft notes, then a pause. It can be repeated without a click. */
void audio_tone(int16_t *ret_samples, size_t count);

/* Length in base64, with the padding. */
size_t base64_len(size_t bytes);

/* Writes base64_len(len) characters, and no NUL. */
void base64_encode(const uint8_t *bytes, size_t len, char *ret_text);

#endif
