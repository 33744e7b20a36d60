/*
 * reader.h - assembles whole messages and control frames of one direction, unmasked, up to a limit.
 *
 * For streams that the router itself is an end of, and for the simulators. A message that lies whole in the
 * bytes given is not copied. Else its beginning is kept, in memory that grows with it up to `message_max`.
 *
 *     struct ws_input input = {data, len};
 *
 *     while ((r = ws_reader_next(&reader, &input, &message)) > 0)
 *         ...
 *     if (r < 0)
 *         ...
 */
#ifndef WS_READER_H
#define WS_READER_H

#include "ws/frame.h"

/* Bytes that are still to be read; they are changed (unmasked in place). */
struct ws_input {
    char *data;
    size_t len;
};

struct ws_message {
    enum ws_opcode opcode; /* never WS_CONTINUATION */
    bool is_dropped;       /* it was longer than message_max: data is empty, `len` is 0 */
    char *data;            /* borrowed until the next call with this reader; may be changed; never NULL */
    size_t len;
};

struct ws_reader {
    unsigned magic;
    bool is_masked;   /* frames must be masked: they come from a client. Else they must not be */
    bool drops_large; /* a message above message_max is passed over; else it is an error */
    size_t message_max;

    /* Everything below is the reader's own. */
    bool is_broken;
    bool is_in_frame;
    bool is_dropping; /* the open message is too long */
    bool is_handed;   /* `message` was handed out and is emptied by the next call */
    uint8_t partial_len;
    char partial[WS_HEADER_MAX];
    struct ws_header header;
    uint64_t done; /* of the payload of the open frame */
    enum ws_opcode opcode;
    struct strbuf message; /* the beginning of the open message; memory is given back after long ones */
    uint8_t control_len;
    char control[WS_CONTROL_MAX + 1];
};

void ws_reader_init(struct ws_reader *reader, bool is_masked, size_t message_max, bool drops_large);
void ws_reader_release(struct ws_reader *reader);

/*
 * Reads on in `input`, which is moved forward over what was read.
 *
 * 1: *ret_message is a whole message, a control frame, or the end of a message that was dropped. 0: the input
 * is used up. -EPROTO: that is no WebSocket of this direction; -EMSGSIZE: a message is too long (only if not
 * drops_large); -ENOMEM. After an error every further call fails with -EPROTO.
 */
int ws_reader_next(struct ws_reader *reader, struct ws_input *input,
                   struct ws_message *ret_message) MUST_CHECK;

/* Is a frame or a message open? */
bool ws_reader_is_inside(const struct ws_reader *reader);

#endif
