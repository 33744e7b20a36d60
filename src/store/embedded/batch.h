/*
 * batch.h - the commands of one turn of the loop: their effects as one frame, and who waits for the
 * answers.
 */
#ifndef STORE_EMBEDDED_BATCH_H
#define STORE_EMBEDDED_BATCH_H

#include "base/list.h"
#include "base/strbuf.h"
#include "core/record.h"
#include "store/embedded/frame.h"

enum {
    BATCH_MAX = FRAME_PAYLOAD_MAX,
    BATCH_KEEP = 1024 * 1024, /* a buffer that has grown beyond this is given back after use */
};

struct batch {
    struct strbuf buf; /* room for the header, then the records */
    struct list pending;
    size_t records;
};

void batch_init(struct batch *batch);
void batch_release(struct batch *batch);

/* Forgets the records; what waits must have been taken out before. */
void batch_reset(struct batch *batch);

/* Moves those that wait to the end of `to`. */
void batch_take_pending(struct batch *batch, struct list *to);

/* Makes sure that `len` bytes of records fit. 0; -EBUSY: it would become too large; -ENOMEM. */
int batch_reserve(struct batch *batch, size_t len) MUST_CHECK;

void batch_add(struct batch *batch, const struct record *record);

/* The finished frame. -ENOMEM: a record was lost for want of memory. */
int batch_seal(struct batch *batch, struct frame *frame, struct slice *ret_bytes) MUST_CHECK;

#endif
