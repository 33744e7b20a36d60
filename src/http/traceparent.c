/*
 * traceparent.c - finds and validates the header traceparent.
 */
#include "http/traceparent.h"

#include "base/arena.h"
#include "base/hex.h"
#include "base/slice.h"

/* Are the `len` characters from `at` on hexadecimal digits in lower case, and not all of them zeros? */
static bool is_trace_id(struct slice text, size_t at, size_t len)
{
    bool is_zero = true;

    for (size_t i = at; i < at + len; i++) {
        char c = text.data[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        is_zero = is_zero && c == '0';
    }
    return !is_zero;
}

/* "00-TRACE-PARENT-FLAGS". What a later version adds stands behind one more hyphen. */
static bool is_traceparent(struct slice text)
{
    enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53 };

    if (text.len < TRACEPARENT_LEN || text.data[TRACE_AT - 1] != '-' || text.data[PARENT_AT - 1] != '-' ||
        text.data[FLAGS_AT - 1] != '-')
        return false;
    if (!is_trace_id(text, TRACE_AT, PARENT_AT - 1 - TRACE_AT) ||
        !is_trace_id(text, PARENT_AT, FLAGS_AT - 1 - PARENT_AT))
        return false;
    if (hex_pair(text.data) < 0 || hex_pair(text.data) == 0xff || hex_pair(text.data + FLAGS_AT) < 0)
        return false;
    return text.len == TRACEPARENT_LEN || (hex_pair(text.data) > 0 && text.data[TRACEPARENT_LEN] == '-');
}

struct slice traceparent_find(const struct http_request *request)
{
    struct slice found = {NULL, 0};

    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (!slice_is_word(name, "traceparent"))
            continue;
        if (found.data || !is_traceparent(value))
            return (struct slice){NULL, 0};
        found = value;
    }
    return found;
}

const char *traceparent_text(struct http_request *request)
{
    struct slice found = traceparent_find(request);

    return found.data ? arena_copy(http_request_arena(request), found.data, TRACEPARENT_LEN) : NULL;
}
