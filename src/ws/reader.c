/*
 * reader.c - makes whole messages of frames: in place where it can, in its own memory where it must.
 */
#include "ws/reader.h"

enum {
    READER_MAGIC = 0x77726472,
    READER_KEEP_MAX = 4096, /* memory above this is given back after a message */
};

void ws_reader_init(struct ws_reader *reader, bool is_masked, size_t message_max, bool drops_large)
{
    *reader = (struct ws_reader){.magic = READER_MAGIC,
                                 .is_masked = is_masked,
                                 .message_max = message_max,
                                 .drops_large = drops_large};
    strbuf_init(&reader->message, NULL, message_max);
}

void ws_reader_release(struct ws_reader *reader)
{
    MAGIC_CHECK(reader, READER_MAGIC);
    strbuf_release(&reader->message);
}

bool ws_reader_is_inside(const struct ws_reader *reader)
{
    MAGIC_CHECK(reader, READER_MAGIC);
    return reader->is_in_frame || reader->partial_len > 0 || reader->opcode != WS_CONTINUATION;
}

static void input_skip(struct ws_input *input, size_t len)
{
    input->data += len;
    input->len -= len;
}

/* As ws_header_parse, with a header that may have begun in an earlier input. */
static int reader_parse(struct ws_reader *reader, struct ws_input *input)
{
    size_t before = reader->partial_len;
    size_t copied = min_u64(input->len, WS_HEADER_MAX - before);
    int r;

    memcpy(reader->partial + before, input->data, copied);
    r = ws_header_parse(reader->partial, before + copied, &reader->header);
    if (r < 0)
        return r;
    reader->partial_len = r == 0 ? (uint8_t)(before + copied) : 0;
    input_skip(input, r == 0 ? copied : reader->header.size - before);
    return r;
}

/* The open message is too long: none of it is kept from here on. */
static int reader_drop(struct ws_reader *reader)
{
    if (!reader->drops_large)
        return -EMSGSIZE;
    reader->is_dropping = true;
    strbuf_release(&reader->message);
    return 0;
}

static int reader_open_frame(struct ws_reader *reader)
{
    const struct ws_header *header = &reader->header;
    bool is_open = reader->opcode != WS_CONTINUATION;

    if (header->is_masked != reader->is_masked)
        return -EPROTO;
    reader->is_in_frame = true;
    reader->done = 0;
    if (ws_is_control(header->opcode)) {
        reader->control_len = 0;
        return 0;
    }
    if (is_open != (header->opcode == WS_CONTINUATION))
        return -EPROTO;
    if (!is_open)
        reader->opcode = header->opcode;
    if (!reader->is_dropping && header->len > reader->message_max - reader->message.len)
        return reader_drop(reader);
    return 0;
}

/* Takes over what is there of the open frame's payload, unmasked. */
static int reader_take(struct ws_reader *reader, struct ws_input *input)
{
    const struct ws_header *header = &reader->header;
    size_t len = min_u64(header->len - reader->done, input->len);

    bool is_kept = ws_is_control(header->opcode) || !reader->is_dropping;

    if (reader->is_masked && is_kept)
        ws_mask(input->data, len, header->mask, reader->done);
    if (ws_is_control(header->opcode)) {
        if (len > 0)
            memcpy(reader->control + reader->control_len, input->data, len);
        reader->control_len = (uint8_t)(reader->control_len + len);
    } else if (is_kept) {
        strbuf_append(&reader->message, input->data, len);
        if (strbuf_failed(&reader->message))
            return -ENOMEM;
    }
    reader->done += len;
    input_skip(input, len);
    return 0;
}

/* Is the open frame a whole message that lies in the input? Then it is not copied. */
static bool reader_take_whole(struct ws_reader *reader, struct ws_input *input,
                              struct ws_message *ret_message)
{
    const struct ws_header *header = &reader->header;

    if (!header->is_final || reader->done > 0 || reader->is_dropping || header->opcode == WS_CONTINUATION ||
        header->len == 0 || header->len > input->len)
        return false;
    if (reader->is_masked)
        ws_mask(input->data, (size_t)header->len, header->mask, 0);
    *ret_message =
        (struct ws_message){.opcode = header->opcode, .data = input->data, .len = (size_t)header->len};
    input_skip(input, (size_t)header->len);
    reader->is_in_frame = false;
    if (!ws_is_control(header->opcode))
        reader->opcode = WS_CONTINUATION;
    return true;
}

/* The open frame is complete. True: so is a message. */
static bool reader_close_frame(struct ws_reader *reader, struct ws_message *ret_message)
{
    const struct ws_header *header = &reader->header;

    reader->is_in_frame = false;
    if (ws_is_control(header->opcode)) {
        *ret_message = (struct ws_message){
            .opcode = header->opcode, .data = reader->control, .len = reader->control_len};
        return true;
    }
    if (!header->is_final)
        return false;
    *ret_message = (struct ws_message){.opcode = reader->opcode,
                                       .is_dropped = reader->is_dropping,
                                       .data = reader->control,
                                       .len = reader->message.len};
    if (reader->message.len > 0)
        ret_message->data = reader->message.data;
    reader->opcode = WS_CONTINUATION;
    reader->is_dropping = false;
    reader->is_handed = true;
    return true;
}

/* 1: a message is complete. 0: the input is used up, or a frame ended that is no message's end. */
static int reader_step(struct ws_reader *reader, struct ws_input *input, struct ws_message *ret_message)
{
    int r;

    if (!reader->is_in_frame) {
        r = reader_parse(reader, input);
        if (r <= 0)
            return r;
        r = reader_open_frame(reader);
        if (r < 0)
            return r;
    }
    if (reader_take_whole(reader, input, ret_message))
        return 1;
    r = reader_take(reader, input);
    if (r < 0)
        return r;
    return reader->done == reader->header.len && reader_close_frame(reader, ret_message);
}

int ws_reader_next(struct ws_reader *reader, struct ws_input *input, struct ws_message *ret_message)
{
    int r = 0;

    MAGIC_CHECK(reader, READER_MAGIC);
    if (reader->is_broken)
        return -EPROTO;
    if (reader->is_handed) {
        reader->is_handed = false;
        if (reader->message.room > READER_KEEP_MAX)
            strbuf_release(&reader->message);
        strbuf_reset(&reader->message);
    }
    while (r == 0 && input->len > 0)
        r = reader_step(reader, input, ret_message);
    reader->is_broken = r < 0;
    return r;
}
