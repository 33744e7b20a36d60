/*
 * hold_audio.c - loads or computes what waiting callers hear, and makes its clips.
 */
#include "media/hold_audio.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "media/audio.h"
#include "media/wav.h"

enum {
    HOLD_MAGIC = 0x686f6c64,
    UNIT_SAMPLES = CLIP_RATE * CLIP_UNIT_MS / 1000,
    KINDS = 2, /* in one piece, and in pieces of at most CLIP_PIECE_MAX bytes */
};

struct hold_audio {
    unsigned magic;
    uint32_t duration_ms;
    int16_t *samples; /* one round: repeated and padded */
    size_t count;
    struct clip *clips[KINDS][MEDIA_FORMATS]; /* NULL: not needed yet */
};

/* Bytes that were read; freed by file_release. */
struct file {
    char *data;
    size_t len;
};

static void file_release(struct file *file)
{
    free(file->data);
}

static void fd_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static int fail(char error[CLIP_ERROR_MAX], const char *path, const char *what)
{
    snprintf(error, CLIP_ERROR_MAX, "\"%.120s\" %s", path, what);
    return -EINVAL;
}

static int fail_errno(char error[CLIP_ERROR_MAX], const char *path, int err)
{
    snprintf(error, CLIP_ERROR_MAX, "\"%.120s\" cannot be read: %s", path, strerror(err));
    return -EINVAL;
}

/* Only a file: a FIFO would hold the start up. */
static int check_file(const char *path, int fd, size_t *ret_size, char error[CLIP_ERROR_MAX])
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_errno(error, path, errno);
    if (!S_ISREG(st.st_mode))
        return fail(error, path, "is not a file");
    if (st.st_size > CLIP_FILE_MAX)
        return fail(error, path, "is larger than 4 MiB; at most 60 s of sound are allowed");
    *ret_size = (size_t)st.st_size;
    return 0;
}

static int read_file(const char *path, struct file *file, char error[CLIP_ERROR_MAX])
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t size;
    ssize_t got;
    int r = check_file(path, fd, &size, error);

    if (r < 0)
        return r;
    file->data = malloc(size + 1);
    if (!file->data)
        return -ENOMEM;
    while (file->len < size) {
        got = read(fd, file->data + file->len, size - file->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(error, path, errno);
        if (got == 0)
            break; /* it became shorter meanwhile; the parser says so */
        file->len += (size_t)got;
    }
    return 0;
}

static int check_duration(const char *path, size_t samples, char error[CLIP_ERROR_MAX])
{
    char what[96];
    size_t ms = samples * 1000 / CLIP_RATE;

    if (samples >= (size_t)CLIP_MIN_MS * CLIP_RATE / 1000 &&
        samples <= (size_t)CLIP_MAX_MS * CLIP_RATE / 1000)
        return 0;
    snprintf(what, sizeof(what), "lasts %zu.%03zu s; from 0.1 to 60 s are allowed", ms / 1000, ms % 1000);
    return fail(error, path, what);
}

/*
 * Takes over one round of the sound. A short one is repeated, so that a waiting caller costs a message every
 * two seconds and not ten a second. What is missing to a whole unit is silence.
 */
static int hold_audio_fill(struct hold_audio *audio, const int16_t *samples, size_t count)
{
    size_t least = (size_t)CLIP_LOOP_MS * CLIP_RATE / 1000;
    size_t rounds = count >= least ? 1 : (least + count - 1) / count;
    size_t units = (count * rounds + UNIT_SAMPLES - 1) / UNIT_SAMPLES;

    audio->duration_ms = (uint32_t)(count * 1000 / CLIP_RATE);
    audio->count = units * UNIT_SAMPLES;
    audio->samples = calloc(audio->count, sizeof(*audio->samples));
    if (!audio->samples)
        return -ENOMEM;
    for (size_t round = 0; round < rounds; round++)
        memcpy(audio->samples + round * count, samples, count * sizeof(*samples));
    return 0;
}

static int hold_audio_load(struct hold_audio *audio, const char *path, char error[CLIP_ERROR_MAX])
{
    CLEANUP(file_release) struct file file = {0};
    char what[WAV_ERROR_MAX];
    int16_t *samples;
    struct wav wav;
    int r = read_file(path, &file, error);

    if (r < 0)
        return r;
    if (wav_parse((struct slice){file.data, file.len}, &wav, what) < 0)
        return fail(error, path, what);
    r = check_duration(path, wav.samples, error);
    if (r < 0)
        return r;
    samples = malloc(wav.samples * sizeof(*samples));
    if (!samples)
        return -ENOMEM;
    for (size_t i = 0; i < wav.samples; i++) {
        const uint8_t *bytes = (const uint8_t *)wav.data.data;

        samples[i] = wav.is_mulaw ? mulaw_decode(bytes[i]) : (int16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    }
    r = hold_audio_fill(audio, samples, wav.samples);
    free(samples);
    return r;
}

static int hold_audio_compute(struct hold_audio *audio)
{
    size_t count = (size_t)TONE_MS * CLIP_RATE / 1000;
    int16_t *samples = malloc(count * sizeof(*samples));
    int r;

    if (!samples)
        return -ENOMEM;
    audio_tone(samples, count);
    r = hold_audio_fill(audio, samples, count);
    free(samples);
    return r;
}

int hold_audio_new(const char *path, struct hold_audio **ret_audio, char ret_error[CLIP_ERROR_MAX])
{
    struct hold_audio *audio = calloc(1, sizeof(*audio));
    int r;

    ret_error[0] = '\0';
    if (!audio)
        return -ENOMEM;
    audio->magic = HOLD_MAGIC;
    r = path[0] ? hold_audio_load(audio, path, ret_error) : hold_audio_compute(audio);
    if (r < 0) {
        hold_audio_free(audio);
        return r;
    }
    *ret_audio = audio;
    return 0;
}

static struct clip *clip_free(struct clip *clip)
{
    if (clip && clip->piece_count > 0)
        free((void *)(uintptr_t)clip->pieces[0].base64.data); /* all pieces lie in one block */
    if (clip)
        free(clip->pieces);
    free(clip);
    return NULL;
}

struct hold_audio *hold_audio_free(struct hold_audio *audio)
{
    if (!audio)
        return NULL;
    MAGIC_CHECK(audio, HOLD_MAGIC);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t format = 0; format < MEDIA_FORMATS; format++)
            clip_free(audio->clips[kind][format]);
    free(audio->samples);
    audio->magic = 0;
    free(audio);
    return NULL;
}

static unsigned factor_of(enum media_format format)
{
    return format == MEDIA_PCM_24K ? 3 : format == MEDIA_PCM_16K ? 2 : 1;
}

/* The round as it is written on the wire. NULL: no memory. */
static uint8_t *write_audio(const struct hold_audio *audio, enum media_format format, size_t *ret_len)
{
    size_t count = audio->count * factor_of(format);
    bool is_mulaw = format == MEDIA_MULAW_8K;
    int16_t *samples = malloc(count * sizeof(*samples));
    uint8_t *bytes = malloc(count * 2);

    if (!samples || !bytes) {
        free(samples);
        free(bytes);
        return NULL;
    }
    audio_upsample_loop(audio->samples, audio->count, factor_of(format), samples);
    for (size_t i = 0; i < count; i++) {
        if (is_mulaw) {
            bytes[i] = mulaw_encode(samples[i]);
            continue;
        }
        bytes[2 * i] = (uint8_t)samples[i];
        bytes[2 * i + 1] = (uint8_t)((uint16_t)samples[i] >> 8);
    }
    free(samples);
    *ret_len = is_mulaw ? count : count * 2;
    return bytes;
}

/* Pieces of about the same length, so that the last one is not too short; each a multiple of the unit. */
static size_t piece_size(const struct dialect *dialect, size_t len)
{
    size_t pieces, units;

    if (dialect->chunk_max == 0)
        return len;
    pieces = (len + dialect->chunk_max - 1) / dialect->chunk_max;
    units = len / dialect->chunk_unit;
    return (units + pieces - 1) / pieces * dialect->chunk_unit;
}

static int clip_fill(struct clip *clip, const uint8_t *bytes, size_t len, size_t size)
{
    size_t count = (len + size - 1) / size;
    char *text = malloc(count * base64_len(size));

    clip->pieces = calloc(count, sizeof(*clip->pieces));
    if (!clip->pieces || !text) {
        free(text);
        return -ENOMEM;
    }
    for (size_t at = 0; at < len; at += size) {
        struct clip_piece *piece = &clip->pieces[clip->piece_count++];

        piece->bytes = min_u64(size, len - at);
        piece->base64 = (struct slice){text, base64_len(piece->bytes)};
        base64_encode(bytes + at, piece->bytes, text);
        text += piece->base64.len;
    }
    return 0;
}

static struct clip *clip_new(const struct hold_audio *audio, const struct dialect *dialect,
                             enum media_format format)
{
    struct clip *clip = calloc(1, sizeof(*clip));
    size_t len = 0;
    uint8_t *bytes = write_audio(audio, format, &len);

    if (clip && bytes) {
        clip->format = format;
        clip->duration_ms = (uint32_t)(audio->count * 1000 / CLIP_RATE);
        if (clip_fill(clip, bytes, len, piece_size(dialect, len)) < 0)
            clip = clip_free(clip);
    } else {
        clip = clip_free(clip);
    }
    free(bytes);
    return clip;
}

const struct clip *hold_audio_clip(struct hold_audio *audio, const struct dialect *dialect,
                                   enum media_format format)
{
    struct clip **clip;

    MAGIC_CHECK(audio, HOLD_MAGIC);
    if (format >= MEDIA_FORMATS)
        return NULL;
    clip = &audio->clips[dialect->chunk_max > 0][format];
    if (!*clip)
        *clip = clip_new(audio, dialect, format);
    return *clip;
}

uint32_t hold_audio_duration_ms(const struct hold_audio *audio)
{
    MAGIC_CHECK(audio, HOLD_MAGIC);
    return audio->duration_ms;
}
