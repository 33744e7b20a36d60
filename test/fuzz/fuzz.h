/*
 * fuzz.h - what the fuzz targets share: their entry, and how an input is taken apart.
 *
 * A target asserts what must hold for every input. With clang it is a libFuzzer target (`make fuzz`);
 * elsewhere standalone.c has a main that replays the corpus and tries changes of it (`make test`).
 */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Between the parts of an input; no text that we read is valid with it. */
enum { FUZZ_SEPARATOR = 0xff };

struct input {
    const uint8_t *data;
    size_t size;
};

/* 0 at the end. */
static inline uint8_t input_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

static inline struct slice input_take(struct input *input, size_t len)
{
    struct slice part = {(const char *)input->data, min_u64(len, input->size)};

    input->data += part.len;
    input->size -= part.len;
    return part;
}

/* Up to the next byte `end`, which is dropped; everything that is left if there is none. */
static inline struct slice input_until(struct input *input, uint8_t end)
{
    const uint8_t *at = input->size ? memchr(input->data, end, input->size) : NULL;
    struct slice part = input_take(input, at ? (size_t)(at - input->data) : input->size);

    if (at)
        (void)input_byte(input);
    return part;
}

static inline struct slice input_rest(struct input *input)
{
    return input_take(input, input->size);
}

#endif
