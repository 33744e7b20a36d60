/*
 * strbuf.h - text that grows up to a declared ceiling.
 *
 * An append that does not fit, or finds no memory, marks the buffer as failed and later appends do nothing:
 * write freely, check once at the end with strbuf_failed().
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include "base/arena.h"
#include "base/base.h"

struct strbuf {
    char *data; /* always NUL-terminated once something was appended */
    size_t len;
    size_t room;
    size_t max;
    struct arena *arena; /* NULL: the heap */
    bool failed;
};

/* Memory comes from `arena`, or from the heap when it is NULL (then strbuf_release it). */
void strbuf_init(struct strbuf *buf, struct arena *arena, size_t max);
void strbuf_release(struct strbuf *buf);

/* Empties the buffer and clears a failure; keeps the memory. */
void strbuf_reset(struct strbuf *buf);

void strbuf_append(struct strbuf *buf, const char *data, size_t len);
void strbuf_append_str(struct strbuf *buf, const char *text);
void strbuf_append_char(struct strbuf *buf, char c);
void strbuf_append_u64(struct strbuf *buf, uint64_t value);
void strbuf_append_i64(struct strbuf *buf, int64_t value);
void strbuf_printf(struct strbuf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Room for `len` more bytes at data + len, or NULL; the caller fills it and adds to len. */
char *strbuf_grow(struct strbuf *buf, size_t len);

static inline bool strbuf_failed(const struct strbuf *buf)
{
    return buf->failed;
}

static inline struct slice strbuf_slice(const struct strbuf *buf)
{
    return (struct slice){buf->data ? buf->data : "", buf->len};
}

#endif
