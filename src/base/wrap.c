/*
 * wrap.c - breaks a text at its spaces.
 */
#include "base/wrap.h"

/* Counts characters, not bytes. */
static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

void wrap_append(struct strbuf *buf, const char *text, const char *indent)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " ");
        size_t columns = columns_of(text, len);

        if (column > 0 && column + 1 + columns > WRAP_COLUMNS) {
            strbuf_printf(buf, "\n%s", indent);
            column = strlen(indent);
        } else if (column > 0) {
            strbuf_append_char(buf, ' ');
            column++;
        }
        strbuf_append(buf, text, len);
        column += columns;
        text += len;
        text += strspn(text, " ");
    }
    strbuf_append_char(buf, '\n');
}
