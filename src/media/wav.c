/*
 * wav.c - finds the sound in a WAV file, and says what is wrong with a file that cannot be used.
 */
#include "media/wav.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    RIFF_HEAD = 12, /* "RIFF", a size, "WAVE" */
    CHUNK_HEAD = 8,
    FORMAT_MIN = 16,
    FORMAT_EXTENSIBLE_MIN = 40,
    TAG_PCM = 1,
    TAG_FLOAT = 3,
    TAG_ALAW = 6,
    TAG_MULAW = 7,
    TAG_EXTENSIBLE = 0xfffe,
    WAV_RATE = 8000,
};

struct format {
    bool is_known; /* its chunk was read */
    unsigned tag;
    unsigned channels;
    uint32_t rate;
    uint32_t byte_rate;
    unsigned align;
    unsigned bits;
};

static int refuse(char error[WAV_ERROR_MAX], const char *format, ...) PRINTF_LIKE(2, 3);

static int refuse(char error[WAV_ERROR_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, WAV_ERROR_MAX, format, args);
    va_end(args);
    return -EINVAL;
}

static unsigned read_u16(const char *data)
{
    const uint8_t *bytes = (const uint8_t *)data;

    return (unsigned)bytes[0] | (unsigned)bytes[1] << 8;
}

static uint32_t read_u32(const char *data)
{
    return (uint32_t)read_u16(data) | (uint32_t)read_u16(data + 2) << 16;
}

static bool is_named(const char *data, const char name[4])
{
    return memcmp(data, name, 4) == 0;
}

/* Finds the bytes that belong to the file according to its head. */
static int read_riff(struct slice bytes, struct slice *ret_chunks, char error[WAV_ERROR_MAX])
{
    uint32_t size;

    if (bytes.len < RIFF_HEAD || !is_named(bytes.data + 8, "WAVE") ||
        !(is_named(bytes.data, "RIFF") || is_named(bytes.data, "RIFX") || is_named(bytes.data, "RF64")))
        return refuse(error, "is not a WAV file: it does not begin with RIFF and WAVE");
    if (!is_named(bytes.data, "RIFF"))
        return refuse(error, "is a WAV file of the kind %.4s; an ordinary one (RIFF) is needed", bytes.data);
    size = read_u32(bytes.data + 4);
    if (size == 0 || size == UINT32_MAX)
        return refuse(error,
                      "has no length in its head, because it was written to a pipe; write it to a file");
    if (size < 4 || size > bytes.len - 8)
        return refuse(error, "is cut short: its head says %lu bytes, and it has %zu", (unsigned long)size + 8,
                      bytes.len);
    *ret_chunks = (struct slice){bytes.data + RIFF_HEAD, size - 4};
    return 0;
}

static int read_format(struct slice chunk, struct format *ret_format, char error[WAV_ERROR_MAX])
{
    if (ret_format->is_known)
        return refuse(error, "has two chunks with a format");
    if (chunk.len < FORMAT_MIN)
        return refuse(error, "has a chunk \"fmt \" of %zu bytes; it must have %d at least", chunk.len,
                      FORMAT_MIN);
    *ret_format = (struct format){.is_known = true,
                                  .tag = read_u16(chunk.data),
                                  .channels = read_u16(chunk.data + 2),
                                  .rate = read_u32(chunk.data + 4),
                                  .byte_rate = read_u32(chunk.data + 8),
                                  .align = read_u16(chunk.data + 12),
                                  .bits = read_u16(chunk.data + 14)};
    if (ret_format->tag == TAG_EXTENSIBLE) {
        if (chunk.len < FORMAT_EXTENSIBLE_MIN)
            return refuse(error, "has a chunk \"fmt \" that is too short for its kind");
        ret_format->tag = read_u16(chunk.data + 24); /* the first bytes of the subformat's GUID */
    }
    return 0;
}

static const char *tag_name(unsigned tag)
{
    switch (tag) {
    case TAG_PCM:
        return "PCM";
    case TAG_FLOAT:
        return "floating-point";
    case TAG_ALAW:
        return "A-law";
    default:
        return "of an unknown kind";
    }
}

static int check_format(const struct format *format, char error[WAV_ERROR_MAX])
{
    unsigned bits = format->tag == TAG_MULAW ? 8 : 16;

    if (format->tag != TAG_PCM && format->tag != TAG_MULAW)
        return refuse(error, "is %s (%u); mu-law or 16-bit PCM is needed", tag_name(format->tag),
                      format->tag);
    if (format->channels != 1)
        return refuse(error, "has %u channels; mono is needed", format->channels);
    if (format->rate != WAV_RATE)
        return refuse(error, "has %lu samples a second; %d are needed", (unsigned long)format->rate,
                      WAV_RATE);
    if (format->bits != bits)
        return refuse(error, "has %u bits a sample; %u are needed", format->bits, bits);
    if (format->align != bits / 8 || format->byte_rate != WAV_RATE * (bits / 8))
        return refuse(error, "contradicts itself: %u bits a sample, and %lu bytes a second in blocks of %u",
                      bits, (unsigned long)format->byte_rate, format->align);
    return 0;
}

static int take_data(struct slice chunk, const struct format *format, struct wav *ret_wav,
                     char error[WAV_ERROR_MAX])
{
    bool is_mulaw = format->tag == TAG_MULAW;
    int r;

    if (!format->is_known)
        return refuse(error, "has its sound before its format");
    if (ret_wav->data.data)
        return refuse(error, "has two chunks with sound");
    r = check_format(format, error);
    if (r < 0)
        return r;
    if (!is_mulaw && chunk.len % 2 != 0)
        return refuse(error, "is cut short: its sound has %zu bytes, an odd number", chunk.len);
    *ret_wav =
        (struct wav){.is_mulaw = is_mulaw, .data = chunk, .samples = is_mulaw ? chunk.len : chunk.len / 2};
    return 0;
}

/* Takes the next chunk off. *ret_name is where its four letters stand. */
static int take_chunk(struct slice *left, const char **ret_name, struct slice *ret_chunk,
                      char error[WAV_ERROR_MAX])
{
    size_t size, step;

    if (left->len < CHUNK_HEAD)
        return refuse(error, "is cut short: its last chunk has %zu bytes of %d", left->len, CHUNK_HEAD);
    size = read_u32(left->data + 4);
    if (size > left->len - CHUNK_HEAD)
        return refuse(error, "is cut short: a chunk of %zu bytes has only %zu", size, left->len - CHUNK_HEAD);
    *ret_name = left->data;
    *ret_chunk = (struct slice){left->data + CHUNK_HEAD, size};
    /* A chunk of odd length is followed by a byte that does not count; the last one's is often missing. */
    step = min_u64(left->len, CHUNK_HEAD + size + size % 2);
    *left = (struct slice){left->data + step, left->len - step};
    return 0;
}

int wav_parse(struct slice bytes, struct wav *ret_wav, char ret_error[WAV_ERROR_MAX])
{
    struct format format = {0};
    struct slice left = {0}, chunk = {0};
    struct wav wav = {0};
    const char *name = NULL;
    int r = read_riff(bytes, &left, ret_error);

    while (r == 0 && left.len > 0) {
        r = take_chunk(&left, &name, &chunk, ret_error);
        assert(r < 0 || name);
        if (r == 0 && is_named(name, "fmt "))
            r = read_format(chunk, &format, ret_error);
        else if (r == 0 && is_named(name, "data"))
            r = take_data(chunk, &format, &wav, ret_error);
    }
    if (r < 0)
        return r;
    if (!wav.data.data)
        return refuse(ret_error, "has no sound: the chunk \"data\" is missing");
    *ret_wav = wav;
    return 0;
}
