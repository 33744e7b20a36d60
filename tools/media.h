/*
 * media.h - the messages of the three providers on their media streams, in both directions.
 *
 * A media message is looked at without being parsed, because there are fifty of them a second for each call;
 * everything else is rare and is parsed.
 */
#ifndef TOOLS_MEDIA_H
#define TOOLS_MEDIA_H

#include "base/strbuf.h"

enum media_dialect {
    MEDIA_UNKNOWN, /* nobody has said it yet */
    MEDIA_TWILIO,
    MEDIA_PLIVO,
    MEDIA_EXOTEL,
    MEDIA_DIALECTS,
};

enum media_event {
    MEDIA_OTHER, /* not of a provider: text of somebody's own, or a mark */
    MEDIA_CONNECTED,
    MEDIA_START,
    MEDIA_MEDIA,
    MEDIA_DTMF,
    MEDIA_MARK,    /* an agent wants to know when it was heard (Plivo: checkpoint); or the answer to it */
    MEDIA_CLEAR,   /* an agent wants what it said to be forgotten */
    MEDIA_CLEARED, /* Plivo has done so */
    MEDIA_STOP,
};

enum {
    MEDIA_FRAME_MS = 20,
    MEDIA_SID_MAX = 128,
    MEDIA_PAYLOAD_MAX = 428, /* 20 ms of 16-bit audio at 8 kHz, in base64 */
    MEDIA_MESSAGE_MAX = 1024,
    MEDIA_MARK_MAX = 128, /* of a mark's name; a longer one is cut */
};

#define MEDIA_MARK_OURS "sr-hold-" /* how the names of the router's own marks begin */

/* "twilio"; "" for MEDIA_UNKNOWN. */
const char *media_dialect_name(enum media_dialect dialect);

/* Of 20 ms in base64: 160 bytes of mu-law, or 320 of PCM. */
size_t media_payload_len(enum media_dialect dialect);

struct media_start {
    enum media_dialect dialect;
    char call_sid[MEDIA_SID_MAX + 1];
    char stream_sid[MEDIA_SID_MAX + 1];
};

/*
 * Tells what a text message is. Fills *ret_start only for MEDIA_START, and *ret_payload (borrowed from the
 * message) only for MEDIA_MEDIA; for MEDIA_MARK it is the mark's name, if that is written without escapes.
 * What an agent sends (playAudio) is MEDIA_MEDIA, too.
 */
enum media_event media_read(struct slice message, struct media_start *ret_start, struct slice *ret_payload);

/* What a provider sends. Before the first media there may be `connected`, which Plivo does not know. */
bool media_write_connected(struct strbuf *buf, enum media_dialect dialect);
void media_write_start(struct strbuf *buf, const struct media_start *start);
void media_write_media(struct strbuf *buf, const struct media_start *start, uint64_t number,
                       struct slice payload);
/* False: the provider has no such message, it only closes. */
bool media_write_stop(struct strbuf *buf, const struct media_start *start, uint64_t number);

/* The answers to marks and to clears: false: the provider has none. */
void media_write_played(struct strbuf *buf, const struct media_start *start, const char *name);
bool media_write_cleared(struct strbuf *buf, const struct media_start *start);

/* What an agent sends. */
void media_write_audio(struct strbuf *buf, const struct media_start *start, struct slice payload);

#endif
