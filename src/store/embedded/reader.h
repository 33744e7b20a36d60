/*
 * reader.h - reads a segment or a snapshot frame by frame, in a buffer that follows the largest
 * frame.
 */
#ifndef STORE_EMBEDDED_READER_H
#define STORE_EMBEDDED_READER_H

#include "store/embedded/directory.h"

struct reader {
    char name[DIRECTORY_NAME_MAX];
    int fd;
    uint64_t size;
    uint64_t offset; /* in the file, of what is read next */
    char *buf;
    size_t buf_at; /* in buf, of what is read next */
    size_t buf_len;
    size_t buf_room;
};

/* 0 or a negative errno. */
int reader_open(struct reader *reader, const struct directory *dir, enum file_kind kind,
                uint64_t index) MUST_CHECK;
void reader_release(struct reader *reader);

/*
 * 0; -ENODATA: the file is empty or holds nothing but zeros; -EBADMSG: damaged or cut off;
 * -EOPNOTSUPP: of another version, see file_header_read; another negative errno.
 *
 * A crash leaves a header that is whole or all zeros; *ret_is_foreign says of -EBADMSG whether it
 * is neither, nor the beginning of one of ours with nothing behind it.
 */
int reader_header(struct reader *reader, enum file_kind kind, struct file_header *ret_header,
                  bool *ret_is_foreign) MUST_CHECK;

/*
 * The next frame, valid until the next call. After an error `offset` is where the frame should
 * begin.
 *
 * 0; -ENODATA: the end, nothing but zeros follows; -EBADMSG: no whole frame is here; another
 * negative errno.
 */
int reader_frame(struct reader *reader, struct frame *ret_frame) MUST_CHECK;

/* How much of the file from `offset` on is not the zeros at its end. 0 or a negative errno. */
int reader_used_after(struct reader *reader, uint64_t offset, uint64_t *ret_len) MUST_CHECK;

/* All bytes from `offset` on, to be freed. 0 or a negative errno. */
int reader_rest(struct reader *reader, uint64_t offset, char **ret_data, size_t *ret_len) MUST_CHECK;

#endif
