/*
 * hold_audio.h - what a waiting caller hears: read from a WAV file or computed, in each format once.
 *
 * The samples are kept as 16-bit PCM at 8 kHz. A clip is the same sound in the format of a stream, in base64,
 * cut into the pieces that one message can carry. All held streams share it and only read it.
 */
#ifndef MEDIA_HOLD_AUDIO_H
#define MEDIA_HOLD_AUDIO_H

#include "media/dialect.h"

enum {
    CLIP_RATE = 8000,
    CLIP_MIN_MS = 100,       /* of a file; a shorter one is refused */
    CLIP_MAX_MS = 60 * 1000, /* of a file; a longer one is refused */
    CLIP_LOOP_MS = 2000,     /* a shorter one is repeated within the clip, because each round is a message */
    CLIP_UNIT_MS = 40,       /* a clip is padded with silence to a multiple of this */
    CLIP_PIECE_MAX = 96000,  /* bytes of audio in a piece for Exotel */
    CLIP_FILE_MAX = 4 << 20, /* bytes of a WAV file, with its other chunks */
    CLIP_ERROR_MAX = 384,
};

struct clip_piece {
    struct slice base64;
    size_t bytes; /* of audio */
};

/* One round of the sound; the next round follows without a click. */
struct clip {
    enum media_format format;
    uint32_t duration_ms;
    size_t piece_count; /* 1, but for Exotel's limit */
    struct clip_piece *pieces;
};

struct hold_audio; /* opaque: see hold_audio.c */

/*
 * Reads the WAV file at `path`, or computes the built-in soft tone if `path` is "".
 *
 * 0. -EINVAL: the file is not usable, or cannot be read; `ret_error` has a sentence for the operator that
 * begins with the file's name. -ENOMEM.
 */
int hold_audio_new(const char *path, struct hold_audio **ret_audio,
                   char ret_error[CLIP_ERROR_MAX]) MUST_CHECK;

/* Accepts NULL; always returns NULL. Clips are gone with it. */
struct hold_audio *hold_audio_free(struct hold_audio *audio);

/*
 * The clip for a stream of this dialect and format; made at the first use, then shared. Borrowed until
 * hold_audio_free. NULL: the format is MEDIA_FORMATS, or there is no memory; such a caller waits in silence.
 * The first use takes up to some 20 ms with a file of 60 s.
 */
const struct clip *hold_audio_clip(struct hold_audio *audio, const struct dialect *dialect,
                                   enum media_format format);

/* Of the sound itself, as it was read. */
uint32_t hold_audio_duration_ms(const struct hold_audio *audio);

#endif
