/*
 * utf8.c - checks that bytes are well-formed UTF-8.
 */
#include "base/utf8.h"

size_t utf8_length(const char *at, size_t left)
{
    const unsigned char *bytes = (const unsigned char *)at;
    unsigned char first = bytes[0];
    size_t len;

    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4) /* a continuation, an overlong form, or beyond U+10FFFF */
        return 0;
    len = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (len > left)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, and what lies beyond U+10FFFF show in the second byte. */
    if ((first == 0xe0 && bytes[1] < 0xa0) || (first == 0xed && bytes[1] > 0x9f) ||
        (first == 0xf0 && bytes[1] < 0x90) || (first == 0xf4 && bytes[1] > 0x8f))
        return 0;
    return len;
}

bool utf8_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = utf8_length(text.data + i, text.len - i);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
