/*
 * audio.c - converts samples between mu-law, 16-bit PCM and sample rates, and computes the built-in tone.
 */
#include "media/audio.h"

#include <math.h>

enum {
    MULAW_BIAS = 0x84,
    MULAW_CLIP = 32635,
    TONE_RATE = 8000,
    REACH = 8, /* samples on either side of a point decide about it: enough that no image is heard */
    TAPS = 2 * REACH,
};

#define PI 3.14159265358979323846

int16_t mulaw_decode(uint8_t byte)
{
    unsigned bits = (unsigned)~byte & 0xff;
    int value = (int)(((bits & 0x0f) << 3) + MULAW_BIAS) << ((bits & 0x70) >> 4);

    return (int16_t)(bits & 0x80 ? MULAW_BIAS - value : value - MULAW_BIAS);
}

uint8_t mulaw_encode(int16_t sample)
{
    unsigned sign = sample < 0 ? 0x80 : 0;
    int value = sample < 0 ? -(int)sample : sample;
    unsigned exponent = 7;

    if (value > MULAW_CLIP)
        value = MULAW_CLIP;
    value += MULAW_BIAS;
    while (exponent > 0 && !(value & (0x80 << exponent)))
        exponent--;
    return (uint8_t) ~(sign | exponent << 4 | ((unsigned)value >> (exponent + 3) & 0x0f));
}

/* How much the sample at `distance` samples counts: a sinc in a raised cosine. */
static double weight(double distance)
{
    if (fabs(distance) >= REACH)
        return 0;
    if (fabs(distance) < 1e-9)
        return 1;
    return sin(PI * distance) / (PI * distance) * (0.5 + 0.5 * cos(PI * distance / REACH));
}

static int16_t to_sample(double value)
{
    return (int16_t)(value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : lrint(value));
}

/* A value behind the sample `at`; at both ends it runs into the other one. */
static int16_t between(const int16_t *samples, size_t count, size_t at, const double weights[TAPS])
{
    size_t before = REACH - 1;
    double sum = 0;

    if (at >= before && at - before + TAPS <= count) {
        for (size_t tap = 0; tap < TAPS; tap++)
            sum += weights[tap] * samples[at - before + tap];
    } else {
        for (size_t tap = 0; tap < TAPS; tap++)
            sum += weights[tap] * samples[(at + count * TAPS + tap - before) % count];
    }
    return to_sample(sum);
}

/* For the point `phase` / `factor` behind a sample. They add up to 1, so that what is constant stays so. */
static void find_weights(unsigned phase, unsigned factor, double ret_weights[TAPS])
{
    double sum = 0;

    for (int tap = 0; tap < TAPS; tap++) {
        ret_weights[tap] = weight(tap - (REACH - 1) - (double)phase / factor);
        sum += ret_weights[tap];
    }
    for (int tap = 0; tap < TAPS; tap++)
        ret_weights[tap] /= sum;
}

void audio_upsample_loop(const int16_t *samples, size_t count, unsigned factor, int16_t *ret_out)
{
    double weights[TAPS];

    assert(factor >= 1 && factor <= 3);
    for (unsigned phase = 0; phase < factor; phase++) {
        find_weights(phase, factor, weights);
        for (size_t i = 0; i < count; i++)
            ret_out[i * factor + phase] = phase == 0 ? samples[i] : between(samples, count, i, weights);
    }
}

/* A note that swells in 80 ms and dies away; 0 before it begins. */
static double note(double seconds, double hertz)
{
    double swell;

    if (seconds <= 0)
        return 0;
    swell = seconds < 0.08 ? 0.5 - 0.5 * cos(PI * seconds / 0.08) : 1;
    return swell * exp(-2.2 * seconds) *
           (sin(2 * PI * hertz * seconds) + 0.2 * sin(4 * PI * hertz * seconds));
}

void audio_tone(int16_t *ret_samples, size_t count)
{
    size_t fade = TONE_RATE / 2;

    for (size_t i = 0; i < count; i++) {
        double seconds = (double)i / TONE_RATE;
        double left = (double)(count - i) / (double)fade;
        /* The last half second fades to nothing, and the first note begins from nothing. */
        double end = left < 1 ? 0.5 - 0.5 * cos(PI * left) : 1;

        ret_samples[i] = to_sample(2600 * end * (note(seconds, 392.0) + note(seconds - 0.6, 523.25)));
    }
}

size_t base64_len(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void base64_encode(const uint8_t *bytes, size_t len, char *ret_text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (; len >= 3; len -= 3, bytes += 3, ret_text += 4) {
        unsigned bits = (unsigned)bytes[0] << 16 | (unsigned)bytes[1] << 8 | bytes[2];

        ret_text[0] = digits[bits >> 18];
        ret_text[1] = digits[bits >> 12 & 63];
        ret_text[2] = digits[bits >> 6 & 63];
        ret_text[3] = digits[bits & 63];
    }
    if (len > 0) {
        unsigned bits = (unsigned)bytes[0] << 16 | (len > 1 ? (unsigned)bytes[1] << 8 : 0);

        ret_text[0] = digits[bits >> 18];
        ret_text[1] = digits[bits >> 12 & 63];
        ret_text[2] = '=';
        if (len > 1)
            ret_text[2] = digits[bits >> 6 & 63];
        ret_text[3] = '=';
    }
}
