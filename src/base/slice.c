/*
 * slice.c - trims slices, and takes entries from comma-separated lists.
 */
#include "base/slice.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool slice_is_printable(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    }
    return true;
}

struct slice slice_trim(struct slice text)
{
    while (text.len > 0 && is_blank(text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

bool slice_take_first(struct slice *list, struct slice *ret_entry)
{
    const char *comma;
    size_t len;

    if (!list->data)
        return false;
    comma = memchr(list->data, ',', list->len);
    len = comma ? (size_t)(comma - list->data) : list->len;
    *ret_entry = slice_trim((struct slice){list->data, len});
    *list = comma ? (struct slice){comma + 1, list->len - len - 1} : (struct slice){NULL, 0};
    return true;
}

bool slice_take_last(struct slice *list, struct slice *ret_entry)
{
    const char *comma;
    size_t before;

    if (!list->data)
        return false;
    comma = memrchr(list->data, ',', list->len);
    before = comma ? (size_t)(comma + 1 - list->data) : 0;
    *ret_entry = slice_trim((struct slice){list->data + before, list->len - before});
    *list = comma ? (struct slice){list->data, before - 1} : (struct slice){NULL, 0};
    return true;
}
