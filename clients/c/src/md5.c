/*
 * md5.c - the MD5 of a text, as RFC 1321 describes it.
 */
#include "md5.h"

#include <string.h>

enum {
    BLOCK = 64,
    LENGTH_AT = 56 /* of the last block: where the length of the text stands */
};

struct state {
    uint32_t words[4];
};

/* The integer part of 2^32 * |sin(i + 1)|. */
static const uint32_t SINES[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const uint8_t ROTATIONS[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void put_word(uint8_t *bytes, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(word >> (8 * i));
}

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void take_block(struct state *state, const uint8_t *block)
{
    uint32_t a = state->words[0], b = state->words[1], c = state->words[2], d = state->words[3];

    for (unsigned i = 0; i < 64; i++) {
        const unsigned round = i / 16;
        uint32_t mixed, before = d;
        unsigned at;

        if (round == 0) {
            mixed = (b & c) | (~b & d);
            at = i;
        } else if (round == 1) {
            mixed = (d & b) | (~d & c);
            at = (5 * i + 1) % 16;
        } else if (round == 2) {
            mixed = b ^ c ^ d;
            at = (3 * i + 5) % 16;
        } else {
            mixed = c ^ (b | ~d);
            at = (7 * i) % 16;
        }
        mixed += a + SINES[i] + word_at(block + 4 * at);
        d = c;
        c = b;
        b += rotate(mixed, ROTATIONS[round][i % 4]);
        a = before;
    }
    state->words[0] += a;
    state->words[1] += b;
    state->words[2] += c;
    state->words[3] += d;
}

void sr_md5(const void *data, size_t size, uint8_t ret_digest[SR_MD5_SIZE])
{
    struct state state = {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
    const uint8_t *bytes = data;
    size_t left = size;
    uint8_t last[2 * BLOCK] = {0};
    size_t last_size;

    for (; left >= BLOCK; left -= BLOCK, bytes += BLOCK)
        take_block(&state, bytes);
    if (left > 0)
        memcpy(last, bytes, left);
    last[left] = 0x80;
    last_size = left < LENGTH_AT ? BLOCK : 2 * BLOCK;
    for (unsigned i = 0; i < 8; i++)
        last[last_size - 8 + i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    take_block(&state, last);
    if (last_size > BLOCK)
        take_block(&state, last + BLOCK);
    for (unsigned i = 0; i < 4; i++)
        put_word(ret_digest + 4 * i, state.words[i]);
}
