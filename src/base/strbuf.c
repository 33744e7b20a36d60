/*
 * strbuf.c - a text buffer that grows by doubling up to its limit, on the heap or in an arena.
 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { STRBUF_FIRST = 256 };

void strbuf_init(struct strbuf *buf, struct arena *arena, size_t max)
{
    *buf = (struct strbuf){.max = max, .arena = arena};
}

void strbuf_release(struct strbuf *buf)
{
    if (!buf->arena)
        free(buf->data);
    strbuf_init(buf, buf->arena, buf->max);
}

void strbuf_reset(struct strbuf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

char *strbuf_grow(struct strbuf *buf, size_t len)
{
    size_t room = buf->room ? buf->room : STRBUF_FIRST;
    char *data;

    if (buf->failed)
        return NULL;
    if (len > buf->max || buf->len > buf->max - len) {
        buf->failed = true;
        return NULL;
    }
    if (buf->len + len + 1 <= buf->room)
        return buf->data + buf->len;
    while (room < buf->len + len + 1)
        room *= 2;
    if (buf->arena) {
        data = arena_alloc(buf->arena, room);
        if (data && buf->len)
            memcpy(data, buf->data, buf->len);
    } else {
        data = realloc(buf->data, room);
    }
    if (!data) {
        buf->failed = true;
        return NULL;
    }
    buf->data = data;
    buf->room = room;
    buf->end = room - 1 < buf->max ? room - 1 : buf->max;
    return data + buf->len;
}

void strbuf_append_u64(struct strbuf *buf, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    strbuf_append(buf, digits + at, sizeof(digits) - at);
}

void strbuf_append_i64(struct strbuf *buf, int64_t value)
{
    if (value < 0)
        strbuf_append_char(buf, '-');
    strbuf_append_u64(buf, value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value);
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
    va_list args;
    char *to;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(len >= 0);
    to = strbuf_grow(buf, (size_t)len);
    if (!to)
        return;
    va_start(args, format);
    vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
    buf->len += (size_t)len;
}
