/*
 * options.h - the values of command-line options. What is wrong is said on stderr, and ends the program
 * with 2.
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "base/base.h"
#include "url.h"

enum { OPTION_KEY_MAX = 1024 };

uint64_t option_number(const char *name, const char *text, uint64_t min, uint64_t max);

/* "1.5" seconds as milliseconds. */
uint64_t option_seconds(const char *name, const char *text, double max);

void option_url(const char *name, const char *text, struct url *ret_url);

/* The one line in the file at `path`: a key. Never freed. */
const char *option_key_file(const char *name, const char *path);

void option_bad(const char *name, const char *why) __attribute__((noreturn));

#endif
