/*
 * dialect.h - the messages of the providers' media streams: Twilio, Plivo, Exotel.
 *
 * Each provider has a row of the table in its own file (twilio.c, plivo.c, exotel.c); message.c reads and
 * writes with it. Messages are JSON texts, without the WebSocket frame around them. Pure functions; no log.
 */
#ifndef MEDIA_DIALECT_H
#define MEDIA_DIALECT_H

#include "base/strbuf.h"

enum {
    MEDIA_ID_MAX = 128,     /* of a stream's or a call's id; a longer one is not understood */
    MEDIA_WRITE_MAX = 1024, /* more than any media_write_ function appends */
};

enum media_event {
    MEDIA_OTHER, /* not understood, or none of these */
    MEDIA_CONNECTED,
    MEDIA_START,
    MEDIA_MEDIA,
    MEDIA_DTMF,
    MEDIA_MARK,    /* what was sent before a mark was played, or cleared; Plivo's playedStream */
    MEDIA_CLEARED, /* Plivo's answer to clearAudio */
    MEDIA_STOP,
    MEDIA_EVENTS,
};

/* How samples are written on a stream. All are mono. */
enum media_format {
    MEDIA_MULAW_8K, /* a byte a sample */
    MEDIA_PCM_8K,   /* 16-bit little-endian */
    MEDIA_PCM_16K,
    MEDIA_PCM_24K,
    MEDIA_FORMATS, /* also: one that we cannot write; such a caller waits in silence */
};

/* A provider's words: one row of the table, made by its file. */
struct dialect {
    const char *name; /* as in the API: "twilio" */
    bool has_connected;
    /* Members of `start`: the ids, the object with the format, its sample rate. The encoding is "encoding".
     */
    const char *call_id;
    const char *stream_id;
    const char *format_object;
    const char *sample_rate;
    /* What `start` says as a format. `encoding` "" and `rate` 0: it does not say. */
    enum media_format (*format)(const char *encoding, uint64_t rate);
    /* The object in a mark, and in its return, that has its name; NULL: the message itself. */
    const char *mark_object;
    /* A clear is answered by MEDIA_CLEARED, and marks of what was cleared do not come back. Else they do. */
    bool has_cleared;
    /* Bytes of audio in one message; chunk_max 0: any number, in one message. */
    size_t chunk_max;
    size_t chunk_min;
    size_t chunk_unit;
    /* The events that we send. */
    const char *play;
    const char *mark;
    const char *clear;
    /* Members that stand before the payload; NULL: none. */
    void (*write_format)(struct strbuf *buf, enum media_format format);
};

extern const struct dialect dialect_twilio, dialect_plivo, dialect_exotel;

/* By its name. NULL: there is none of that name, or `name` is NULL. */
const struct dialect *dialect_find(const char *name);

/* What a provider says when its stream starts. */
struct media_start {
    const struct dialect *dialect;
    char stream_id[MEDIA_ID_MAX + 1];
    char call_id[MEDIA_ID_MAX + 1]; /* "" if it does not say one */
    enum media_format format;
};

/*
 * What is this message of a provider? `text` may be only its beginning; then MEDIA_OTHER if the member
 * "event" is not in it. Reads as far as that member and no further; takes no memory.
 */
enum media_event media_event(struct slice text);

/*
 * Reads a whole `start` message. `dialect` NULL: of any provider, told by the names of its members.
 *
 * 0: *ret_start is set. -EINVAL: not such a message, or it has no usable id of the stream.
 */
int media_read_start(const struct dialect *dialect, struct slice text,
                     struct media_start *ret_start) MUST_CHECK;

/*
 * Is this whole message the return of a mark that media_write_mark wrote? *ret_number is its number then.
 * False for every other message, also for the agent's own marks.
 */
bool media_is_our_mark(const struct dialect *dialect, struct slice text, uint64_t *ret_number);

/*
 * The message that plays audio is: media_write_play_begin, the audio in base64 (see hold_audio.h),
 * media_write_play_end. So the audio itself need not be copied. The stream's format must not be
 * MEDIA_FORMATS.
 */
void media_write_play_begin(struct strbuf *buf, const struct media_start *start);
void media_write_play_end(struct strbuf *buf, const struct media_start *start);

/* Asks to be told when everything that was sent before it has been played. Its name is sr-hold-{number}. */
void media_write_mark(struct strbuf *buf, const struct media_start *start, uint64_t number);

/* Throws away what was sent and has not been played. */
void media_write_clear(struct strbuf *buf, const struct media_start *start);

#endif
