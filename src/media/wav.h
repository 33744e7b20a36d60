/*
 * wav.h - reads WAV files: mono, 8 kHz, mu-law or 16-bit PCM.
 *
 * Strict: a file that is cut short, or whose sizes contradict each other, is refused with a sentence that
 * says what is wrong and what is needed. Chunks that are not needed are passed over.
 */
#ifndef MEDIA_WAV_H
#define MEDIA_WAV_H

#include "base/base.h"

enum { WAV_ERROR_MAX = 200 };

struct wav {
    bool is_mulaw;     /* else 16-bit little-endian PCM */
    struct slice data; /* borrowed from the file's bytes */
    size_t samples;
};

/* 0: *ret_wav is set. -EINVAL: ret_error says why, as the end of a sentence: "has 2 channels; mono is
 * needed". */
int wav_parse(struct slice bytes, struct wav *ret_wav, char ret_error[WAV_ERROR_MAX]) MUST_CHECK;

#endif
