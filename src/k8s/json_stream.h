/*
 * json_stream.h - cuts a stream of JSON objects, one after the other, into whole objects. A watch is such a
 * stream.
 *
 * The pieces may be cut anywhere, and newlines between the objects may be there or not. Only brackets and
 * strings are looked at: whether an object is valid is found out by whoever parses it.
 *
 *     json_stream_feed(&stream, piece);
 *     while ((err = json_stream_next(&stream, &object)) == 0)
 *         …
 *     err is -EAGAIN: it needs the next piece
 */
#ifndef K8S_JSON_STREAM_H
#define K8S_JSON_STREAM_H

#include "base/strbuf.h"

enum { JSON_STREAM_OBJECT_MAX = 8 << 20 };

struct json_stream {
    struct slice input;  /* of the piece: what was not looked at yet */
    struct strbuf begun; /* of an object: what came with earlier pieces */
    size_t object_max;
    size_t depth;
    int failure;
    bool is_in_string;
    bool is_escaped;
    bool is_handed_out; /* `begun` is the object that was given last */
};

void json_stream_init(struct json_stream *stream, size_t object_max);
void json_stream_release(struct json_stream *stream);

/* Begins a new stream; forgets half an object, and a failure. */
void json_stream_reset(struct json_stream *stream);

/* Borrows `data` until json_stream_next says -EAGAIN or fails. What was fed before must have been taken. */
void json_stream_feed(struct json_stream *stream, struct slice data);

/*
 * 0: the object is valid until the next call with this stream. -EAGAIN: no whole object is left. -EMSGSIZE:
 * the object is longer than object_max. -EBADMSG: something else stands between two objects. -ENOMEM. After a
 * failure the stream gives nothing more but that failure.
 */
int json_stream_next(struct json_stream *stream, struct slice *ret_object) MUST_CHECK;

/* Has an object begun that is not whole? For the end of a stream. */
bool json_stream_is_amid(const struct json_stream *stream);

#endif
