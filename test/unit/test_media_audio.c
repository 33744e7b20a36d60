/* test_media_audio.c - what waiting callers hear: samples, WAV files, clips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "media/audio.h"
#include "media/hold_audio.h"
#include "media/wav.h"

static void mulaw__of_every_byte_is_the_same_value_again(void **state UNUSED)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        int16_t sample = mulaw_decode((uint8_t)byte);

        assert_int_equal(mulaw_decode(mulaw_encode(sample)), sample);
        /* The two zeros are one value. */
        if (byte != 0x7f)
            assert_int_equal(mulaw_encode(sample), byte);
    }
    /* ITU-T G.711: the ends of the scale, and the middle. */
    assert_int_equal(mulaw_decode(0x00), -32124);
    assert_int_equal(mulaw_decode(0x80), 32124);
    assert_int_equal(mulaw_decode(0xff), 0);
    assert_int_equal(mulaw_encode(INT16_MAX), 0x80);
    assert_int_equal(mulaw_encode(INT16_MIN), 0x00);
    assert_int_equal(mulaw_encode(0), 0xff);
}

static void mulaw__is_never_far_from_the_sample(void **state UNUSED)
{
    for (int sample = INT16_MIN; sample <= INT16_MAX; sample++) {
        int back = mulaw_decode(mulaw_encode((int16_t)sample));

        assert_true(abs(back - sample) <= 8 + abs(sample) / 16);
    }
}

static void upsample__keeps_the_samples_and_what_is_constant(void **state UNUSED)
{
    int16_t samples[100], out[300];

    for (unsigned factor = 1; factor <= 3; factor++) {
        for (size_t i = 0; i < 100; i++)
            samples[i] = (int16_t)(i * 37 % 1000);
        audio_upsample_loop(samples, 100, factor, out);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(out[i * factor], samples[i]);
        for (size_t i = 0; i < 100; i++)
            samples[i] = -1234;
        audio_upsample_loop(samples, 100, factor, out);
        for (size_t i = 0; i < 100 * factor; i++)
            assert_in_range(out[i] + 32768, -1235 + 32768, -1233 + 32768);
    }
    samples[0] = 5; /* also if it is shorter than the filter */
    audio_upsample_loop(samples, 1, 3, out);
    assert_int_equal(out[2], 5);
}

/* A loop of a whole number of waves has no end: where it was cut cannot be seen in the result. */
static void upsample__runs_from_the_end_into_the_beginning(void **state UNUSED)
{
    int16_t samples[80], turned[80], out[240], turned_out[240];

    for (size_t i = 0; i < 80; i++)
        samples[i] = (int16_t)((i * i * 131 + 7) % 20000 - 10000);
    for (size_t i = 0; i < 80; i++)
        turned[i] = samples[(i + 30) % 80];
    audio_upsample_loop(samples, 80, 3, out);
    audio_upsample_loop(turned, 80, 3, turned_out);
    for (size_t i = 0; i < 240; i++)
        assert_int_equal(turned_out[i], out[(i + 90) % 240]);
}

static void tone__is_soft_and_begins_and_ends_in_silence(void **state UNUSED)
{
    size_t count = (size_t)TONE_MS * 8;
    int16_t *samples = malloc(count * sizeof(*samples));
    int loudest = 0, step = 0;

    audio_tone(samples, count);
    for (size_t i = 0; i < count; i++) {
        int before = samples[(i + count - 1) % count];

        loudest = abs(samples[i]) > loudest ? abs(samples[i]) : loudest;
        step = abs(samples[i] - before) > step ? abs(samples[i] - before) : step;
    }
    assert_in_range(loudest, 1000, 6000);
    assert_in_range(step, 1, 2500);
    assert_in_range(abs(samples[0]), 0, 4);
    assert_in_range(abs(samples[count - 1]), 0, 4);
    free(samples);
}

static void base64__is_that_of_the_standard(void **state UNUSED)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    char text[16];

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        size_t len = strlen(pairs[i][0]);

        assert_int_equal(base64_len(len), strlen(pairs[i][1]));
        base64_encode((const uint8_t *)pairs[i][0], len, text);
        assert_memory_equal(text, pairs[i][1], strlen(pairs[i][1]));
    }
    base64_encode((const uint8_t *)"\xfb\xff\xfe", 3, text);
    assert_memory_equal(text, "+//+", 4);
}

/* A WAV file in memory, as a test wants it. */
struct file {
    uint8_t bytes[200000];
    size_t len;
};

static void put(struct file *file, const char *text, size_t len)
{
    assert_true(file->len + len <= sizeof(file->bytes));
    memcpy(file->bytes + file->len, text, len);
    file->len += len;
}

static void put_number(struct file *file, uint32_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        file->bytes[file->len++] = (uint8_t)(number >> (8 * i));
}

static void put_chunk(struct file *file, const char *name, const char *data, size_t len)
{
    put(file, name, 4);
    put_number(file, (uint32_t)len, 4);
    put(file, data, len);
    if (len % 2)
        put(file, "", 1);
}

static void set_size(struct file *file, uint32_t size)
{
    size_t len = file->len;

    file->len = 4;
    put_number(file, size, 4);
    file->len = len;
}

static void begin(struct file *file)
{
    file->len = 0;
    put(file, "RIFF\0\0\0\0WAVE", 12);
}

static void put_format(struct file *file, unsigned tag, unsigned channels, uint32_t rate, unsigned bits)
{
    put(file, "fmt ", 4);
    put_number(file, 16, 4);
    put_number(file, tag, 2);
    put_number(file, channels, 2);
    put_number(file, rate, 4);
    put_number(file, rate * channels * bits / 8, 4);
    put_number(file, channels * bits / 8, 2);
    put_number(file, bits, 2);
}

static void end(struct file *file)
{
    set_size(file, (uint32_t)file->len - 8);
}

static void make(struct file *file, unsigned tag, unsigned channels, uint32_t rate, unsigned bits, size_t len)
{
    char *data = calloc(1, len + 1);

    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 7 + 1);
    begin(file);
    put_format(file, tag, channels, rate, bits);
    put_chunk(file, "data", data, len);
    end(file);
    free(data);
}

static struct file file;

static void expect_refused(const char *why)
{
    struct wav wav = {.samples = 77};
    char error[WAV_ERROR_MAX] = "";
    char *copy = malloc(file.len);

    memcpy(copy, file.bytes, file.len);
    assert_int_equal(wav_parse((struct slice){copy, file.len}, &wav, error), -EINVAL);
    assert_string_equal(error, why);
    assert_int_equal(wav.samples, 77);
    free(copy);
}

static struct wav expect_read(void)
{
    char error[WAV_ERROR_MAX] = "";
    struct wav wav;

    if (wav_parse((struct slice){(const char *)file.bytes, file.len}, &wav, error))
        fail_msg("%s", error);
    return wav;
}

static void wav__is_read_in_both_formats(void **state UNUSED)
{
    struct wav wav;

    make(&file, 7, 1, 8000, 8, 801);
    wav = expect_read();
    assert_true(wav.is_mulaw);
    assert_int_equal(wav.samples, 801);
    make(&file, 1, 1, 8000, 16, 1600);
    wav = expect_read();
    assert_false(wav.is_mulaw);
    assert_int_equal(wav.samples, 800);
    assert_int_equal(wav.data.data[1], 8);
}

static void wav__may_have_other_chunks_of_any_length(void **state UNUSED)
{
    begin(&file);
    put_chunk(&file, "LIST", "odd", 3);
    put_format(&file, 7, 1, 8000, 8);
    put_chunk(&file, "fact", "1234", 4);
    put_chunk(&file, "data", "12345", 5);
    put_chunk(&file, "id3 ", "", 0);
    end(&file);
    put(&file, "something behind it", 19);
    assert_int_equal(expect_read().samples, 5);
    /* The last byte of an odd chunk is often left out. */
    make(&file, 7, 1, 8000, 8, 5);
    file.len--;
    end(&file);
    assert_int_equal(expect_read().samples, 5);
}

static void wav__may_be_extensible(void **state UNUSED)
{
    begin(&file);
    put(&file, "fmt ", 4);
    put_number(&file, 40, 4);
    put_number(&file, 0xfffe, 2);
    put_number(&file, 1, 2);
    put_number(&file, 8000, 4);
    put_number(&file, 16000, 4);
    put_number(&file, 2, 2);
    put_number(&file, 16, 2);
    put_number(&file, 22, 2);
    put_number(&file, 16, 2);
    put_number(&file, 4, 4);
    put(&file, "\1\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 16);
    put_chunk(&file, "data", "1234", 4);
    end(&file);
    assert_int_equal(expect_read().samples, 2);
}

static void wav__of_another_format_is_refused_with_what_is_needed(void **state UNUSED)
{
    make(&file, 7, 2, 8000, 8, 1000);
    expect_refused("has 2 channels; mono is needed");
    make(&file, 1, 1, 44100, 16, 1000);
    expect_refused("has 44100 samples a second; 8000 are needed");
    make(&file, 1, 1, 8000, 8, 1000);
    expect_refused("has 8 bits a sample; 16 are needed");
    make(&file, 6, 1, 8000, 8, 1000);
    expect_refused("is A-law (6); mu-law or 16-bit PCM is needed");
    make(&file, 3, 1, 8000, 32, 1000);
    expect_refused("is floating-point (3); mu-law or 16-bit PCM is needed");
    make(&file, 85, 1, 8000, 8, 1000);
    expect_refused("is of an unknown kind (85); mu-law or 16-bit PCM is needed");
}

static void wav__whose_numbers_contradict_each_other_is_refused(void **state UNUSED)
{
    make(&file, 1, 1, 8000, 16, 1000);
    file.bytes[32] = 4; /* the size of a block */
    expect_refused("contradicts itself: 16 bits a sample, and 16000 bytes a second in blocks of 4");
    make(&file, 1, 1, 8000, 16, 1001);
    expect_refused("is cut short: its sound has 1001 bytes, an odd number");
    begin(&file);
    put_chunk(&file, "fmt ", "123456789012", 12);
    end(&file);
    expect_refused("has a chunk \"fmt \" of 12 bytes; it must have 16 at least");
}

static void wav__that_is_cut_short_is_refused(void **state UNUSED)
{
    make(&file, 7, 1, 8000, 8, 1000);
    file.len -= 100;
    expect_refused("is cut short: its head says 1044 bytes, and it has 944");
    end(&file);
    expect_refused("is cut short: a chunk of 1000 bytes has only 900");
    make(&file, 7, 1, 8000, 8, 1000);
    file.bytes[40]++; /* the chunk's length */
    expect_refused("is cut short: a chunk of 1001 bytes has only 1000");
    make(&file, 7, 1, 8000, 8, 1000);
    put(&file, "LIST", 4);
    end(&file);
    expect_refused("is cut short: its last chunk has 4 bytes of 8");
    make(&file, 7, 1, 8000, 8, 1000);
    set_size(&file, UINT32_MAX);
    expect_refused("has no length in its head, because it was written to a pipe; write it to a file");
    set_size(&file, 3);
    expect_refused("is cut short: its head says 11 bytes, and it has 1044");
}

static void wav__of_every_shorter_length_is_refused(void **state UNUSED)
{
    make(&file, 7, 1, 8000, 8, 100);
    for (size_t len = file.len; len-- > 0;) {
        char *copy = malloc(len + 1);
        char error[WAV_ERROR_MAX];
        struct wav wav;

        memcpy(copy, file.bytes, len);
        assert_int_equal(wav_parse((struct slice){copy, len}, &wav, error), -EINVAL);
        free(copy);
    }
}

static void wav__without_sound_is_refused(void **state UNUSED)
{
    file.len = 0;
    put(&file, "ID3 and so on, as an MP3 file begins", 36);
    expect_refused("is not a WAV file: it does not begin with RIFF and WAVE");
    make(&file, 7, 1, 8000, 8, 100);
    memcpy(file.bytes, "RIFX", 4);
    expect_refused("is a WAV file of the kind RIFX; an ordinary one (RIFF) is needed");
    begin(&file);
    put_format(&file, 7, 1, 8000, 8);
    end(&file);
    expect_refused("has no sound: the chunk \"data\" is missing");
    begin(&file);
    put_chunk(&file, "data", "12", 2);
    end(&file);
    expect_refused("has its sound before its format");
    begin(&file);
    put_format(&file, 7, 1, 8000, 8);
    put_chunk(&file, "data", "12", 2);
    put_chunk(&file, "data", "12", 2);
    end(&file);
    expect_refused("has two chunks with sound");
    begin(&file);
    put_format(&file, 7, 1, 8000, 8);
    put_format(&file, 1, 1, 8000, 16);
    end(&file);
    expect_refused("has two chunks with a format");
}

/* Writes the file to the disk and loads it. */
static int load(struct hold_audio **ret_audio, char error[CLIP_ERROR_MAX])
{
    char path[] = "/tmp/test_media_audio.XXXXXX";
    int fd = mkstemp(path);
    int r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, file.bytes, file.len), (ssize_t)file.len);
    close(fd);
    r = hold_audio_new(path, ret_audio, error);
    unlink(path);
    return r;
}

static struct hold_audio *load_well(void)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];

    if (load(&audio, error))
        fail_msg("%s", error);
    return audio;
}

static void expect_not_loaded(const char *why)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];

    assert_int_equal(load(&audio, error), -EINVAL);
    assert_null(audio);
    assert_non_null(strstr(error, why));
    assert_memory_equal(error, "\"/tmp/test_media_audio.", 23);
}

/* The pieces of a clip, decoded. */
static uint8_t *play(const struct clip *clip, size_t *ret_len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *bytes = NULL;
    size_t len = 0;

    for (size_t i = 0; i < clip->piece_count; i++) {
        struct slice text = clip->pieces[i].base64;
        size_t before = len;

        bytes = realloc(bytes, len + text.len);
        for (size_t at = 0; at < text.len; at += 4) {
            unsigned bits = 0;

            for (size_t k = 0; k < 4; k++)
                bits =
                    bits << 6 |
                    (text.data[at + k] == '=' ? 0 : (unsigned)(strchr(digits, text.data[at + k]) - digits));
            for (int k = 2; k >= 0; k--)
                bytes[len++] = (uint8_t)(bits >> (8 * k));
        }
        while (text.len > 0 && text.data[--text.len] == '=')
            len--;
        assert_int_equal(len - before, clip->pieces[i].bytes);
    }
    *ret_len = len;
    return bytes;
}

static void clip__in_mulaw_is_what_the_file_has(void **state UNUSED)
{
    const struct clip *clip;
    struct hold_audio *audio;
    uint8_t *bytes;
    size_t len;

    make(&file, 7, 1, 8000, 8, 24000);
    for (size_t i = 44; i < file.len; i++)
        if (file.bytes[i] == 0x7f)
            file.bytes[i] = 0xff;
    audio = load_well();
    assert_int_equal(hold_audio_duration_ms(audio), 3000);
    clip = hold_audio_clip(audio, &dialect_twilio, MEDIA_MULAW_8K);
    assert_int_equal(clip->duration_ms, 3000);
    assert_int_equal(clip->piece_count, 1);
    bytes = play(clip, &len);
    assert_int_equal(len, 24000);
    assert_memory_equal(bytes, file.bytes + 44, len);
    free(bytes);
    hold_audio_free(audio);
}

static void clip__in_pcm_is_what_the_file_has(void **state UNUSED)
{
    const struct clip *clip;
    struct hold_audio *audio;
    uint8_t *bytes;
    size_t len;

    make(&file, 1, 1, 8000, 16, 32000);
    audio = load_well();
    clip = hold_audio_clip(audio, &dialect_exotel, MEDIA_PCM_8K);
    bytes = play(clip, &len);
    assert_int_equal(len, 32000);
    assert_memory_equal(bytes, file.bytes + 44, len);
    free(bytes);
    hold_audio_free(audio);
}

static void clip__is_made_once_and_shared(void **state UNUSED)
{
    struct hold_audio *audio;

    make(&file, 7, 1, 8000, 8, 24000);
    audio = load_well();
    assert_ptr_equal(hold_audio_clip(audio, &dialect_twilio, MEDIA_MULAW_8K),
                     hold_audio_clip(audio, &dialect_plivo, MEDIA_MULAW_8K));
    assert_ptr_equal(hold_audio_clip(audio, &dialect_exotel, MEDIA_PCM_16K),
                     hold_audio_clip(audio, &dialect_exotel, MEDIA_PCM_16K));
    assert_null(hold_audio_clip(audio, &dialect_exotel, MEDIA_FORMATS));
    hold_audio_free(audio);
}

/* 3,200 to 96,000 bytes in multiples of 320, whatever the file's length. */
static void clip__for_exotel_has_pieces_that_it_plays(void **state UNUSED)
{
    static const size_t bytes_per_ms[MEDIA_FORMATS] = {8, 16, 32, 48};
    static const size_t lengths[] = {800,   801,   1599,  15999,  16001, 47999,
                                     48000, 48001, 48320, 100000, 190000};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct hold_audio *audio;

        make(&file, 7, 1, 8000, 8, lengths[i]);
        audio = load_well();
        for (unsigned format = 0; format < MEDIA_FORMATS; format++) {
            const struct clip *clip = hold_audio_clip(audio, &dialect_exotel, (enum media_format)format);
            size_t sum = 0;

            for (size_t k = 0; k < clip->piece_count; k++) {
                assert_in_range(clip->pieces[k].bytes, 3200, 96000);
                assert_int_equal(clip->pieces[k].bytes % 320, 0);
                sum += clip->pieces[k].bytes;
            }
            assert_int_equal(sum, clip->duration_ms * bytes_per_ms[format]);
            assert_true(clip->duration_ms * 8 >= lengths[i] && clip->duration_ms >= CLIP_LOOP_MS);
        }
        hold_audio_free(audio);
    }
}

static void clip__of_a_short_sound_repeats_it(void **state UNUSED)
{
    const struct clip *clip;
    struct hold_audio *audio;
    uint8_t *bytes;
    size_t len;

    make(&file, 1, 1, 8000, 16, 1600);
    audio = load_well();
    assert_int_equal(hold_audio_duration_ms(audio), 100);
    clip = hold_audio_clip(audio, &dialect_exotel, MEDIA_PCM_8K);
    assert_int_equal(clip->duration_ms, 2000);
    bytes = play(clip, &len);
    for (size_t at = 0; at < len; at += 1600)
        assert_memory_equal(bytes + at, file.bytes + 44, 1600);
    free(bytes);
    hold_audio_free(audio);
}

static void load__refuses_what_is_too_short_or_too_long(void **state UNUSED)
{
    make(&file, 7, 1, 8000, 8, 799);
    expect_not_loaded("\" lasts 0.099 s; from 0.1 to 60 s are allowed");
    make(&file, 7, 1, 8000, 8, 0);
    expect_not_loaded("\" lasts 0.000 s; from 0.1 to 60 s are allowed");
    make(&file, 7, 2, 8000, 8, 8000);
    expect_not_loaded("\" has 2 channels; mono is needed");
}

static void load__accepts_sixty_seconds_and_no_more(void **state UNUSED)
{
    char path[] = "/tmp/test_media_audio.XXXXXX";
    size_t samples = 60 * 8000;
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    for (size_t more = 0; more < 2; more++) {
        begin(&file);
        put_format(&file, 7, 1, 8000, 8);
        put(&file, "data", 4);
        put_number(&file, (uint32_t)(samples + more), 4);
        set_size(&file, (uint32_t)(file.len - 8 + samples + more));
        assert_int_equal(pwrite(fd, file.bytes, file.len, 0), (ssize_t)file.len);
        assert_int_equal(ftruncate(fd, (off_t)(file.len + samples + more)), 0);
        assert_int_equal(hold_audio_new(path, &audio, error), more ? -EINVAL : 0);
        if (!more)
            assert_int_equal(hold_audio_clip(audio, &dialect_exotel, MEDIA_PCM_24K)->piece_count, 30);
    }
    assert_non_null(strstr(error, "lasts 60.000 s; from 0.1 to 60 s are allowed"));
    hold_audio_free(audio);
    assert_int_equal(ftruncate(fd, CLIP_FILE_MAX + 1), 0);
    assert_int_equal(hold_audio_new(path, &audio, error), -EINVAL);
    assert_non_null(strstr(error, "is larger than 4 MiB"));
    close(fd);
    unlink(path);
}

static void load__says_which_file_cannot_be_read(void **state UNUSED)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];

    assert_int_equal(hold_audio_new("/no/such/file.wav", &audio, error), -EINVAL);
    assert_string_equal(error, "\"/no/such/file.wav\" cannot be read: No such file or directory");
    assert_int_equal(hold_audio_new("/tmp", &audio, error), -EINVAL);
    assert_string_equal(error, "\"/tmp\" is not a file");
    assert_null(audio);
}

static void tone__is_there_without_a_file(void **state UNUSED)
{
    struct hold_audio *audio = NULL;
    char error[CLIP_ERROR_MAX];

    assert_int_equal(hold_audio_new("", &audio, error), 0);
    assert_int_equal(hold_audio_duration_ms(audio), TONE_MS);
    for (unsigned format = 0; format < MEDIA_FORMATS; format++)
        assert_int_equal(hold_audio_clip(audio, &dialect_plivo, (enum media_format)format)->piece_count, 1);
    hold_audio_free(audio);
    assert_null(hold_audio_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mulaw__of_every_byte_is_the_same_value_again),
        cmocka_unit_test(mulaw__is_never_far_from_the_sample),
        cmocka_unit_test(upsample__keeps_the_samples_and_what_is_constant),
        cmocka_unit_test(upsample__runs_from_the_end_into_the_beginning),
        cmocka_unit_test(tone__is_soft_and_begins_and_ends_in_silence),
        cmocka_unit_test(base64__is_that_of_the_standard),
        cmocka_unit_test(wav__is_read_in_both_formats),
        cmocka_unit_test(wav__may_have_other_chunks_of_any_length),
        cmocka_unit_test(wav__may_be_extensible),
        cmocka_unit_test(wav__of_another_format_is_refused_with_what_is_needed),
        cmocka_unit_test(wav__whose_numbers_contradict_each_other_is_refused),
        cmocka_unit_test(wav__that_is_cut_short_is_refused),
        cmocka_unit_test(wav__of_every_shorter_length_is_refused),
        cmocka_unit_test(wav__without_sound_is_refused),
        cmocka_unit_test(clip__in_mulaw_is_what_the_file_has),
        cmocka_unit_test(clip__in_pcm_is_what_the_file_has),
        cmocka_unit_test(clip__is_made_once_and_shared),
        cmocka_unit_test(clip__for_exotel_has_pieces_that_it_plays),
        cmocka_unit_test(clip__of_a_short_sound_repeats_it),
        cmocka_unit_test(load__refuses_what_is_too_short_or_too_long),
        cmocka_unit_test(load__accepts_sixty_seconds_and_no_more),
        cmocka_unit_test(load__says_which_file_cannot_be_read),
        cmocka_unit_test(tone__is_there_without_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
