/*
 * strbuf.h - a text that grows up to a declared limit.
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
    size_t end; /* so long can it get before it needs more memory */
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

void strbuf_append_u64(struct strbuf *buf, uint64_t value);
void strbuf_append_i64(struct strbuf *buf, int64_t value);
void strbuf_printf(struct strbuf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Room for `len` more bytes and a NUL at data + len, or NULL; the caller fills it and adds to len. */
char *strbuf_grow(struct strbuf *buf, size_t len);

/*
 * These are inline because they run many times for each answer and each log line: a page of 1,000 pods takes
 * 60,000 of them.
 */
static inline char *strbuf_room(struct strbuf *buf, size_t len)
{
    return !buf->failed && buf->data && len <= buf->end - buf->len ? buf->data + buf->len
                                                                   : strbuf_grow(buf, len);
}

static inline void strbuf_append(struct strbuf *buf, const char *data, size_t len)
{
    char *to = strbuf_room(buf, len);

    if (!to)
        return;
    if (len)
        memcpy(to, data, len);
    to[len] = '\0';
    buf->len += len;
}

static inline void strbuf_append_str(struct strbuf *buf, const char *text)
{
    strbuf_append(buf, text, strlen(text));
}

static inline void strbuf_append_char(struct strbuf *buf, char c)
{
    char *to = strbuf_room(buf, 1);

    if (!to)
        return;
    to[0] = c;
    to[1] = '\0';
    buf->len++;
}

static inline bool strbuf_failed(const struct strbuf *buf)
{
    return buf->failed;
}

static inline struct slice strbuf_slice(const struct strbuf *buf)
{
    return (struct slice){buf->data ? buf->data : "", buf->len};
}

#endif
