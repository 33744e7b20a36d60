/*
 * json_stream.c - finds the ends of JSON objects in a stream by counting brackets and strings.
 */
#include "k8s/json_stream.h"

enum { JSON_STREAM_KEEP_MAX = 256 * 1024 }; /* a larger buffer is given back after its object */

void json_stream_init(struct json_stream *stream, size_t object_max)
{
    *stream = (struct json_stream){.object_max = object_max};
    strbuf_init(&stream->begun, NULL, object_max);
}

void json_stream_release(struct json_stream *stream)
{
    strbuf_release(&stream->begun);
}

void json_stream_reset(struct json_stream *stream)
{
    size_t object_max = stream->object_max;

    json_stream_release(stream);
    json_stream_init(stream, object_max);
}

void json_stream_feed(struct json_stream *stream, struct slice data)
{
    assert(stream->input.len == 0 || stream->failure);
    stream->input = data;
}

bool json_stream_is_amid(const struct json_stream *stream)
{
    return stream->depth > 0;
}

static int json_stream_fail(struct json_stream *stream, int err)
{
    stream->failure = err;
    return err;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void scan_string(struct json_stream *stream, char c)
{
    if (stream->is_escaped)
        stream->is_escaped = false;
    else if (c == '\\')
        stream->is_escaped = true;
    else if (c == '"')
        stream->is_in_string = false;
}

/* One byte of an object. */
static void scan(struct json_stream *stream, char c)
{
    if (stream->is_in_string)
        scan_string(stream, c);
    else if (c == '"')
        stream->is_in_string = true;
    else if (c == '{' || c == '[')
        stream->depth++;
    else if (c == '}' || c == ']')
        stream->depth--;
}

static void forget_handed_out(struct json_stream *stream)
{
    if (!stream->is_handed_out)
        return;
    stream->is_handed_out = false;
    if (stream->begun.room > JSON_STREAM_KEEP_MAX)
        strbuf_release(&stream->begun);
    else
        strbuf_reset(&stream->begun);
}

/* Appends to what came earlier, which happens only if the object is spread over pieces. */
static int keep(struct json_stream *stream, struct slice part)
{
    if (part.len > stream->object_max - stream->begun.len)
        return json_stream_fail(stream, -EMSGSIZE);
    strbuf_append(&stream->begun, part.data, part.len);
    if (strbuf_failed(&stream->begun))
        return json_stream_fail(stream, -ENOMEM);
    return 0;
}

static int hand_out(struct json_stream *stream, struct slice last_part, struct slice *ret_object)
{
    int err;

    if (stream->begun.len == 0) {
        if (last_part.len > stream->object_max)
            return json_stream_fail(stream, -EMSGSIZE);
        *ret_object = last_part;
        return 0;
    }
    err = keep(stream, last_part);
    if (err < 0)
        return err;
    stream->is_handed_out = true;
    *ret_object = strbuf_slice(&stream->begun);
    return 0;
}

int json_stream_next(struct json_stream *stream, struct slice *ret_object)
{
    const char *at, *end, *start;
    int err;

    if (stream->failure)
        return stream->failure;
    forget_handed_out(stream);
    if (stream->input.len == 0)
        return -EAGAIN;
    at = stream->input.data;
    end = at + stream->input.len;
    start = at;
    stream->input = (struct slice){0};
    for (; at != end; at++) {
        if (stream->depth == 0) {
            start = at;
            if (is_space(*at))
                continue;
            if (*at != '{')
                return json_stream_fail(stream, -EBADMSG);
        }
        scan(stream, *at);
        if (stream->depth == 0) {
            stream->input = (struct slice){at + 1, (size_t)(end - at - 1)};
            return hand_out(stream, (struct slice){start, (size_t)(at + 1 - start)}, ret_object);
        }
    }
    if (stream->depth > 0) {
        err = keep(stream, (struct slice){start, (size_t)(end - start)});
        if (err < 0)
            return err;
    }
    return -EAGAIN;
}
