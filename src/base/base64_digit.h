/*
 * base64_digit.h - the digits of base64 and of base64url, which differ in the last two.
 */
#ifndef BASE_BASE64_DIGIT_H
#define BASE_BASE64_DIGIT_H

#include "base/base.h"

/* The six bits of a character; `last` has the digits for 62 and 63. -1: it is no digit. */
static inline int base64_value(char c, const char last[2])
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == last[0] ? 62 : c == last[1] ? 63 : -1;
}

#endif
