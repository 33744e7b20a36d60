/*
 * frame.h - how the files of the embedded store are laid out.
 *
 * A file is a header followed by frames; a frame is a header followed by records. A frame is the
 * atomic unit: it counts as a whole or not at all, which its checksum decides. All numbers are
 * little-endian. Frames of the log carry consecutive sequence numbers across all segments.
 */
#ifndef STORE_EMBEDDED_FRAME_H
#define STORE_EMBEDDED_FRAME_H

#include "base/base.h"

enum {
    FRAME_HEADER_SIZE = 48,
    FRAME_PAYLOAD_MAX = 64 * 1024 * 1024,
    FRAME_BLOCK_SIZE = 512, /* a disk has all bytes of such a block or none */
    FILE_HEADER_SIZE = 64,
    FILE_FORMAT_VERSION = 2, /* that is written */
    FILE_FORMAT_OLDEST = 1,  /* that is read */
};

/*
 * The versions of the format. A new kind of frame, record or value gets a new version: then an older
 * program refuses the file because of its header, before it meets a record that it does not know.
 *
 * 1: 0.1.0. 2: RECORD_VERSION, RECORD_RENEWED_BY, drains without an end, RECORD_WAITING, RECORD_WAITING_GONE,
 * RECORD_GRANTED, RECORD_CONNECTED, ends with the reason FINISH_TIMED_OUT.
 */

/* On disk: never reuse a number. */
enum frame_kind {
    FRAME_BATCH = 1,  /* the effects of one turn of the loop */
    FRAME_CLOSED = 2, /* the log was closed in good order; no payload */
    FRAME_STATE = 3,  /* part of a snapshot */
    FRAME_END = 4,    /* the snapshot is complete; no payload */
};

struct frame {
    enum frame_kind kind;
    uint32_t boot;        /* of the machine that wrote it: a crash of the machine lies between two values */
    uint64_t seq;         /* in a snapshot: counted from 0 */
    uint64_t durable_seq; /* when this was written, frames up to this one were on the disk */
    uint64_t time_ms;     /* the store's clock */
    const char *payload;
    size_t payload_len;
};

/* Fills in the header in front of the payload that stands at data + FRAME_HEADER_SIZE. */
void frame_seal(char *data, const struct frame *frame);

/*
 * Looks at the header alone, of which all bytes must be there: how long is the whole frame?
 *
 * 0, or -EBADMSG: not the header of a frame.
 */
int frame_peek(const char *data, size_t *ret_size) MUST_CHECK;

/*
 * Checks the whole frame. 0: *ret_frame's payload points into `data`. -EBADMSG: damaged or
 * incomplete.
 */
int frame_open(const char *data, size_t len, struct frame *ret_frame) MUST_CHECK;

/*
 * The first place at or after data + from where a frame begins and is whole, or NULL.
 *
 * Bytes can be made so that every few of them seem to begin a long frame, and each has to be
 * checked to its end; so *budget is how many bytes may still be checked in vain. NULL and *budget
 * 0: it was used up, and nobody knows what is here.
 */
const char *frame_find(const char *data, size_t len, size_t from, uint64_t *budget, struct frame *ret_frame);

/* What stands at the end of the log where no whole frame is. */
enum frame_remains {
    FRAME_REMAINS_CUT,   /* the beginning of a frame and then zeros or nothing: a write was cut short */
    FRAME_REMAINS_HOLES, /* blocks of the frame are missing: the machine went down before the disk had them */
    FRAME_REMAINS_DAMAGED, /* all of a frame was written, and its bytes are others now */
};

/*
 * Judges all bytes of the file from `offset` on, of which at least one is not zero.
 *
 * *ret_boot is the one that the frame's header names, or 0 where that cannot be known.
 */
enum frame_remains frame_judge_remains(const char *data, size_t len, uint64_t offset, uint32_t *ret_boot);

enum file_kind {
    FILE_SEGMENT,
    FILE_SNAPSHOT,
};

struct file_header {
    enum file_kind kind;
    uint32_t version;
    bool may_stand_alone; /* a snapshot that was written before its segment was made */
    uint32_t boot;
    uint64_t index;
    uint64_t
        first_seq; /* of the segment's first frame; of a snapshot: the first frame that it does not hold */
    uint64_t durable_seq;
    uint64_t time_ms;
};

void file_header_write(char data[FILE_HEADER_SIZE], const struct file_header *header);

/*
 * 0; -EBADMSG: not such a header, or damaged; -EOPNOTSUPP: a version of the format that this
 * program does not read; only *ret_header's version is filled in.
 */
int file_header_read(const char data[FILE_HEADER_SIZE], enum file_kind kind,
                     struct file_header *ret_header) MUST_CHECK;

/* Are these `len` bytes, of which the rest was never written, how such a header begins? */
bool file_header_begins(const char *data, size_t len, enum file_kind kind);

#endif
