/*
 * wrap.h - breaks a text into lines, for the documents that the binary writes.
 */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include "base/strbuf.h"

enum { WRAP_COLUMNS = 100 };

/* Appends the text in lines of at most WRAP_COLUMNS, broken at its spaces; later lines are indented. */
void wrap_append(struct strbuf *buf, const char *text, const char *indent);

#endif
