/*
 * tracker.h - follows one direction of a WebSocket connection whose bytes are passed on unchanged.
 *
 * It says where messages end, shows control frames, and keeps the first bytes of text messages for a look. It
 * never copies a payload beyond these bytes and takes no memory: following costs a few nanoseconds a frame.
 * Frames may be split at any byte; many may come in one read; control frames may come between the fragments
 * of a message.
 *
 *     size_t used = 0, boundary = 0;
 *
 *     while (used < len) {
 *         r = ws_tracker_next(&tracker, data + used, len - used, &step);
 *         if (r < 0)
 *             ...               // not a WebSocket any more: nothing can be said about it from here on
 *         used += step.used;
 *         if (step.is_boundary)
 *             boundary = used;  // up to here there are whole messages only
 *         ...                   // step.event: a message, a control frame
 *     }
 */
#ifndef WS_TRACKER_H
#define WS_TRACKER_H

#include "ws/frame.h"

enum {
    WS_HEAD_MAX = 256,  /* room for the whole of every short message: stop, mark, playedStream */
    WS_HEAD_STOP = 128, /* enough to see what a message is: Plivo names the event behind the stream */
};

enum ws_event {
    WS_EVENT_NONE, /* all bytes are used; a frame goes on in the next read, or a message in the next frame */
    WS_EVENT_MESSAGE, /* a text or binary message ended */
    WS_EVENT_CONTROL, /* a control frame ended, maybe between the fragments of a message */
};

struct ws_step {
    enum ws_event event;
    size_t used;           /* bytes of `data` that are followed now; the event ends there. At least 1 */
    bool is_boundary;      /* no frame and no message is open here: a splice may take place */
    enum ws_opcode opcode; /* of the event: WS_TEXT, WS_BINARY, WS_CLOSE, WS_PING, WS_PONG */
    uint64_t payload_len;  /* of the whole message, without headers; of the control frame */
    uint64_t frame_size; /* of the event's (last) frame on the wire, with its header; it may have begun in an
                            earlier read, and then it is more than `used` */
    /*
     * The first bytes of a text message, at most head_want; all of a control frame. Unmasked. Borrowed from
     * the tracker until the next call. Empty for binary messages.
     */
    struct slice head;
};

struct ws_tracker {
    unsigned magic;
    bool is_masked;     /* frames must be masked: they come from a client. Else they must not be */
    uint16_t head_want; /* 0 to WS_HEAD_MAX; may be set at any time, counts from the next message on */

    /* Everything below is the tracker's own. */
    bool is_broken;
    bool is_in_frame; /* a header was read, its payload is not complete */
    uint8_t partial_len;
    char partial[WS_HEADER_MAX]; /* the beginning of a header */
    struct ws_header header;     /* while is_in_frame */
    uint64_t left;               /* of that frame's payload */
    enum ws_opcode opcode;       /* of the open message; WS_CONTINUATION: there is none */
    uint64_t message_len;        /* so far */
    uint16_t head_max;           /* for the open message */
    uint16_t head_len;
    uint8_t control_len;
    char control[WS_CONTROL_MAX + 1];
    char head[WS_HEAD_MAX];
};

/* `is_masked`: the bytes come from a client (a provider). */
void ws_tracker_init(struct ws_tracker *tracker, bool is_masked, size_t head_want);

/*
 * Follows `data` (len > 0) up to the end of the next message or control frame, or to the end of the data.
 *
 * 0: *ret_step is set. -EPROTO: these bytes are no WebSocket of this direction, from step to step: the bytes
 * of steps before were. It stays that way.
 */
int ws_tracker_next(struct ws_tracker *tracker, const char *data, size_t len,
                    struct ws_step *ret_step) MUST_CHECK;

/* Is a frame or a message open? False at the beginning. */
bool ws_tracker_is_inside(const struct ws_tracker *tracker);

#endif
