/*
 * hex.h - hexadecimal digits.
 */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include "base/base.h"

/* In lower case. */
static inline char hex_digit(unsigned value)
{
    return "0123456789abcdef"[value & 15];
}

/* The value of a digit in either case; -1: it is none. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * The value of the two digits; -1: they are none. A NUL is no digit, so a C string may end
 * anywhere.
 */
static inline int hex_pair(const char *text)
{
    int high = hex_value(text[0]);
    int low = high < 0 ? -1 : hex_value(text[1]);

    return low < 0 ? -1 : high * 16 + low;
}

/* Writes the lowest `digits` digits of `value`, without a NUL. */
static inline void hex_write(char *text, size_t digits, uint64_t value)
{
    for (size_t i = digits; i > 0; i--, value >>= 4)
        text[i - 1] = hex_digit((unsigned)value);
}

#endif
