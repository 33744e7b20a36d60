/*
 * batch.c - the buffer of records of one turn, and the pool of commands that wait for their
 * answer.
 */
#include "store/embedded/batch.h"

#include <stdlib.h>

#include "store/embedded/record_codec.h"

struct pending_chunk {
    struct pending_chunk *next;
    struct pending entries[PENDING_CHUNK];
};

void pending_pool_init(struct pending_pool *pool)
{
    *pool = (struct pending_pool){0};
    list_init(&pool->unused);
}

void pending_pool_release(struct pending_pool *pool)
{
    while (pool->chunks) {
        struct pending_chunk *next = pool->chunks->next;

        free(pool->chunks);
        pool->chunks = next;
    }
    pending_pool_init(pool);
}

static int pending_pool_grow(struct pending_pool *pool)
{
    struct pending_chunk *chunk;

    if (pool->made >= PENDING_MAX)
        return -EBUSY;
    chunk = calloc(1, sizeof(*chunk));
    if (!chunk)
        return -ENOMEM;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->made += PENDING_CHUNK;
    for (size_t i = 0; i < PENDING_CHUNK; i++)
        list_append(&pool->unused, &chunk->entries[i].link);
    return 0;
}

struct pending *pending_get(struct pending_pool *pool)
{
    struct pending *pending;

    if (list_is_empty(&pool->unused) && pending_pool_grow(pool) < 0)
        return NULL;
    pending = LIST_ENTRY(pool->unused.next, struct pending, link);
    list_remove(&pending->link);
    return pending;
}

void pending_put(struct pending_pool *pool, struct pending *pending)
{
    /* In front: the one used last is the one that is still in the cache. */
    list_append(pool->unused.next, &pending->link);
}

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
