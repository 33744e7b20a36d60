/*
 * segment.h - the file of the log that is being written.
 *
 * Space is reserved ahead of what is written, so that a disk that fills up is noticed before a
 * command is carried out and not after. Reserved bytes read as zeros, which a reader takes for the
 * end.
 */
#ifndef STORE_EMBEDDED_SEGMENT_H
#define STORE_EMBEDDED_SEGMENT_H

#include "store/embedded/directory.h"

enum {
    SEGMENT_CHUNK = 1024 * 1024, /* what is reserved at once */
    SEGMENT_AHEAD = 256 * 1024,  /* when less is left than this, the next chunk is reserved */
};

struct segment {
    const struct disk *disk;
    int fd; /* -1: closed */
    uint64_t index;
    uint64_t end;      /* of the last whole frame */
    uint64_t reserved; /* up to here there is space */
};

/*
 * Makes the file, reserves its first chunk and makes its name durable; blocks. Replaces a file of
 * that number. Its header is written when it is begun, because nobody knows yet which frame will be
 * its first. 0 or a negative errno; then there is no such file.
 */
int segment_create(const struct directory *dir, const struct disk *disk, uint64_t index,
                   struct segment *ret_segment) MUST_CHECK;

/* Writes the header. 0 or a negative errno. */
int segment_begin(struct segment *segment, const struct file_header *header) MUST_CHECK;

/* Opens a segment that was begun earlier, to go on at `end`. 0 or a negative errno. */
int segment_reopen(const struct directory *dir, const struct disk *disk, uint64_t index, uint64_t end,
                   struct segment *ret_segment) MUST_CHECK;

/*
 * Makes sure of space up to `until`, rounded up to chunks. 0 or a negative errno: nothing has
 * changed.
 */
int segment_reserve(struct segment *segment, uint64_t until) MUST_CHECK;

/*
 * Appends one frame. 0; a negative errno: `end` has not moved, what stands behind it is undefined.
 */
int segment_write(struct segment *segment, const char *data, size_t len) MUST_CHECK;

/*
 * Was the file removed since it was opened? Then what is written to it is gone with this process.
 */
bool segment_is_removed(const struct segment *segment);

/* Gives back what was reserved and not used. 0 or a negative errno. */
int segment_trim(struct segment *segment);

void segment_close(struct segment *segment);

#endif
