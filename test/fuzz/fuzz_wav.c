/*
 * fuzz_wav.c - WAV files: a file is refused with a sentence, or its sound lies within it and can be played.
 *
 * An input is the file, and what is missing to its length by its own head is silence if its first byte is
 * different: so that small inputs are long sounds, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "media/hold_audio.h"
#include "media/wav.h"

enum { FILE_MAX = 1 << 20 };

static void check_sentence(const char *error, size_t max)
{
    size_t len = strnlen(error, max);

    assert(len > 0 && len < max);
    for (size_t i = 0; i < len; i++)
        assert(error[i] >= ' ' && error[i] < 127);
}

/* A shorter file is refused, unless what is missing stands behind its end. */
static void check_shorter(struct slice bytes, const struct wav *wav)
{
    for (size_t len = bytes.len; len > 0; len -= 1 + len / 8) {
        char error[WAV_ERROR_MAX] = "";
        struct wav other;

        if (wav_parse((struct slice){bytes.data, len - 1}, &other, error) < 0)
            check_sentence(error, sizeof(error));
        else
            assert(other.data.data == wav->data.data && other.samples == wav->samples);
    }
}

/* One of the clips, because making them takes a while. */
static void check_clip(struct hold_audio *audio, size_t choice)
{
    static const size_t bytes_per_ms[MEDIA_FORMATS] = {8, 16, 32, 48};
    const struct dialect *dialect = choice & 4 ? &dialect_exotel : &dialect_twilio;
    enum media_format format = (enum media_format)(choice % MEDIA_FORMATS);
    const struct clip *clip = hold_audio_clip(audio, dialect, format);
    size_t sum = 0;

    assert(clip && clip->piece_count > 0);
    for (size_t i = 0; i < clip->piece_count; i++) {
        size_t bytes = clip->pieces[i].bytes;

        assert(clip->pieces[i].base64.len == (bytes + 2) / 3 * 4);
        if (dialect->chunk_max > 0)
            assert(bytes >= 3200 && bytes <= 96000 && bytes % 320 == 0);
        sum += bytes;
    }
    assert(sum == clip->duration_ms * bytes_per_ms[format]);
}

/* As the router loads it, from a file. */
static void check_load(struct slice bytes, size_t samples)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];
    static int fd = -1;
    char path[64];
    int r;

    if (fd < 0)
        fd = memfd_create("wav", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes.data, bytes.len, 0) != (ssize_t)bytes.len)
        abort();
    r = hold_audio_new(path, &audio, error);
    assert((r == 0) == (samples >= 800 && samples <= 480000));
    if (r < 0) {
        check_sentence(error, sizeof(error));
        return;
    }
    assert(hold_audio_duration_ms(audio) == samples / 8);
    check_clip(audio, samples);
    hold_audio_free(audio);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[WAV_ERROR_MAX] = "";
    struct slice bytes;
    struct wav wav;
    size_t len = size;
    char *copy;

    if (size > 8 && data[0] == 'S') {
        len = (data[4] | (size_t)data[5] << 8 | (size_t)data[6] << 16) + 8;
        len = len < size ? size : min_u64(len, FILE_MAX);
    }
    copy = calloc(1, len + 1);
    if (size > 0)
        memcpy(copy, data, size);
    if (len > size || (size > 0 && data[0] == 'S'))
        copy[0] = 'R';
    bytes = (struct slice){realloc(copy, len ? len : 1), len};
    if (wav_parse(bytes, &wav, error) < 0) {
        check_sentence(error, sizeof(error));
    } else {
        assert(wav.data.data >= bytes.data &&
               wav.data.len <= (size_t)(bytes.data + bytes.len - wav.data.data));
        assert(wav.data.len == wav.samples * (wav.is_mulaw ? 1 : 2));
        check_shorter(bytes, &wav);
        check_load(bytes, wav.samples);
    }
    free((void *)(uintptr_t)bytes.data);
    return 0;
}
