/*
 * reader.c - reads frames and headers from a file through a buffer, and tells the end from damage.
 */
#include "store/embedded/reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READER_BUFFER = 256 * 1024 };

int reader_open(struct reader *reader, const struct directory *dir, enum file_kind kind, uint64_t index)
{
    struct stat st;
    int err;

    *reader = (struct reader){.fd = -1};
    directory_name(reader->name, kind, index);
    reader->fd = directory_open_file(dir, reader->name, O_RDONLY);
    if (reader->fd < 0) {
        err = reader->fd;
        reader->fd = -1;
        return err;
    }
    if (fstat(reader->fd, &st) < 0) {
        err = -errno;
        reader_release(reader);
        return err;
    }
    reader->size = (uint64_t)st.st_size;
    return 0;
}

void reader_release(struct reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buf);
    reader->fd = -1;
    reader->buf = NULL;
}

static int read_at(int fd, char *data, size_t len, uint64_t offset, size_t *ret_len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, data + done, len - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *ret_len = done;
    return 0;
}

/* Makes `len` bytes available at buf + buf_at. -ENODATA: the file does not have so many. */
static int reader_need(struct reader *reader, size_t len)
{
    size_t have = reader->buf_len - reader->buf_at;
    size_t got;
    int err;

    if (have >= len)
        return 0;
    if (len > reader->size - reader->offset)
        return -ENODATA;
    if (reader->buf_room < len) {
        size_t room = (size_t)max_u64(len, READER_BUFFER);
        char *buf = realloc(reader->buf, room);

        if (!buf)
            return -ENOMEM;
        reader->buf = buf;
        reader->buf_room = room;
    }
    memmove(reader->buf, reader->buf + reader->buf_at, have);
    reader->buf_at = 0;
    reader->buf_len = have;
    err = read_at(reader->fd, reader->buf + have, reader->buf_room - have, reader->offset + have, &got);
    if (err < 0)
        return err;
    reader->buf_len += got;
    return reader->buf_len < len ? -ENODATA : 0;
}

static void reader_advance(struct reader *reader, size_t len)
{
    reader->buf_at += len;
    reader->offset += len;
}

int reader_used_after(struct reader *reader, uint64_t offset, uint64_t *ret_len)
{
    char chunk[4096];
    uint64_t used = 0;
    size_t got;

    for (uint64_t at = offset; at < reader->size; at += got) {
        int err = read_at(reader->fd, chunk, sizeof(chunk), at, &got);

        if (err < 0)
            return err;
        if (got == 0)
            break;
        for (size_t i = got; i > 0; i--) {
            if (chunk[i - 1]) {
                used = at + i - offset;
                break;
            }
        }
    }
    *ret_len = used;
    return 0;
}

/* What is wrong here: nothing but the end, or damage? */
static int reader_end_or_damage(struct reader *reader)
{
    uint64_t used;
    int err = reader_used_after(reader, reader->offset, &used);

    if (err < 0)
        return err;
    return used ? -EBADMSG : -ENODATA;
}

/* May these first bytes of a file be what a crash has left of its header? */
static int reader_judge_header(struct reader *reader, enum file_kind kind, bool *ret_is_foreign)
{
    char head[FILE_HEADER_SIZE] = {0};
    uint64_t used;
    size_t len;
    int err = reader_used_after(reader, 0, &used);

    if (err == 0)
        err = read_at(reader->fd, head, sizeof(head), 0, &len);
    if (err < 0)
        return err;
    if (used <= FILE_HEADER_SIZE)
        *ret_is_foreign = !file_header_begins(head, (size_t)used, kind);
    else
        *ret_is_foreign = head[0] || memcmp(head, head + 1, sizeof(head) - 1) != 0;
    return 0;
}

int reader_header(struct reader *reader, enum file_kind kind, struct file_header *ret_header,
                  bool *ret_is_foreign)
{
    int err = reader_need(reader, FILE_HEADER_SIZE);

    *ret_is_foreign = false;

    if (err == 0)
        err = file_header_read(reader->buf + reader->buf_at, kind, ret_header);
    if (err == -EBADMSG || err == -ENODATA) {
        err = reader_judge_header(reader, kind, ret_is_foreign);
        return err < 0 ? err : reader_end_or_damage(reader);
    }
    if (err == 0)
        reader_advance(reader, FILE_HEADER_SIZE);
    return err;
}

int reader_frame(struct reader *reader, struct frame *ret_frame)
{
    size_t size = 0;
    int err = reader_need(reader, FRAME_HEADER_SIZE);

    if (err == 0)
        err = frame_peek(reader->buf + reader->buf_at, &size);
    if (err == 0)
        err = reader_need(reader, size);
    if (err == 0)
        err = frame_open(reader->buf + reader->buf_at, size, ret_frame);
    if (err == -EBADMSG || err == -ENODATA)
        return reader_end_or_damage(reader);
    if (err == 0)
        reader_advance(reader, size);
    return err;
}

int reader_rest(struct reader *reader, uint64_t offset, char **ret_data, size_t *ret_len)
{
    size_t len = (size_t)(offset < reader->size ? reader->size - offset : 0);
    char *data = malloc(len ? len : 1);
    int err;

    if (!data)
        return -ENOMEM;
    err = read_at(reader->fd, data, len, offset, &len);
    if (err < 0) {
        free(data);
        return err;
    }
    *ret_data = data;
    *ret_len = len;
    return 0;
}
