/*
 * batch.c - the buffer of records of one turn.
 */
#include "store/embedded/batch.h"

#include "store/embedded/record_codec.h"

void batch_init(struct batch *batch)
{
    *batch = (struct batch){0};
    strbuf_init(&batch->buf, NULL, FRAME_HEADER_SIZE + BATCH_MAX);
    list_init(&batch->pending);
}

void batch_release(struct batch *batch)
{
    assert(list_is_empty(&batch->pending));
    strbuf_release(&batch->buf);
}

void batch_reset(struct batch *batch)
{
    assert(list_is_empty(&batch->pending));
    if (batch->buf.room > BATCH_KEEP)
        strbuf_release(&batch->buf);
    strbuf_reset(&batch->buf);
    batch->records = 0;
}

void batch_take_pending(struct batch *batch, struct list *to)
{
    struct list *from = &batch->pending;

    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

static void batch_begin(struct batch *batch)
{
    static const char no_header[FRAME_HEADER_SIZE];

    if (!batch->buf.len)
        strbuf_append(&batch->buf, no_header, sizeof(no_header));
}

int batch_reserve(struct batch *batch, size_t len)
{
    if (len > BATCH_MAX || batch->buf.len + FRAME_HEADER_SIZE + len > BATCH_MAX)
        return -EBUSY;
    batch_begin(batch);
    if (strbuf_grow(&batch->buf, len))
        return 0;
    /* Nothing is lost yet: the command that wanted the room will not be carried out. */
    batch->buf.failed = false;
    return -ENOMEM;
}

void batch_add(struct batch *batch, const struct record *record)
{
    batch_begin(batch);
    record_encode(&batch->buf, record);
    batch->records++;
    assert(strbuf_failed(&batch->buf) || batch->buf.len > FRAME_HEADER_SIZE);
}

int batch_seal(struct batch *batch, struct frame *frame, struct slice *ret_bytes)
{
    batch_begin(batch);
    if (strbuf_failed(&batch->buf))
        return -ENOMEM;
    frame->payload_len = batch->buf.len - FRAME_HEADER_SIZE;
    frame_seal(batch->buf.data, frame);
    *ret_bytes = strbuf_slice(&batch->buf);
    return 0;
}
