/*
 * utf8.h - checks that bytes are UTF-8. Clients send any bytes; texts for others must be
 * well-formed.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/base.h"

/* How many bytes at `at` are one well-formed UTF-8 character; 0 if they are none. `left` is at least 1. */
size_t utf8_length(const char *at, size_t left);

bool utf8_is_valid(struct slice text);

#endif
