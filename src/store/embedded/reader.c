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
    int r;

    *reader = (struct reader){.fd = -1};
    directory_name(reader->name, kind, index);
    reader->fd = directory_open_file(dir, reader->name, O_RDONLY);
    if (reader->fd < 0) {
        r = reader->fd;
        reader->fd = -1;
        return r;
    }
    if (fstat(reader->fd, &st) < 0) {
        r = -errno;
        reader_release(reader);
        return r;
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
    int r;

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
    r = read_at(reader->fd, reader->buf + have, reader->buf_room - have, reader->offset + have, &got);
    if (r < 0)
        return r;
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
        int r = read_at(reader->fd, chunk, sizeof(chunk), at, &got);

        if (r < 0)
            return r;
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
    int r = reader_used_after(reader, reader->offset, &used);

    if (r < 0)
        return r;
    return used ? -EBADMSG : -ENODATA;
}

/* May these first bytes of a file be what a crash has left of its header? */
static int reader_judge_header(struct reader *reader, enum file_kind kind, bool *ret_is_foreign)
{
    char head[FILE_HEADER_SIZE] = {0};
    uint64_t used;
    size_t len;
    int r = reader_used_after(reader, 0, &used);

    if (r == 0)
        r = read_at(reader->fd, head, sizeof(head), 0, &len);
    if (r < 0)
        return r;
    if (used <= FILE_HEADER_SIZE)
        *ret_is_foreign = !file_header_begins(head, (size_t)used, kind);
    else
        *ret_is_foreign = head[0] || memcmp(head, head + 1, sizeof(head) - 1) != 0;
    return 0;
}

int reader_header(struct reader *reader, enum file_kind kind, struct file_header *ret_header,
                  bool *ret_is_foreign)
{
    int r = reader_need(reader, FILE_HEADER_SIZE);

    *ret_is_foreign = false;

    if (r == 0)
        r = file_header_read(reader->buf + reader->buf_at, kind, ret_header);
    if (r == -EBADMSG || r == -ENODATA) {
        r = reader_judge_header(reader, kind, ret_is_foreign);
        return r < 0 ? r : reader_end_or_damage(reader);
    }
    if (r == 0)
        reader_advance(reader, FILE_HEADER_SIZE);
    return r;
}

int reader_frame(struct reader *reader, struct frame *ret_frame)
{
    size_t size = 0;
    int r = reader_need(reader, FRAME_HEADER_SIZE);

    if (r == 0)
        r = frame_peek(reader->buf + reader->buf_at, &size);
    if (r == 0)
        r = reader_need(reader, size);
    if (r == 0)
        r = frame_open(reader->buf + reader->buf_at, size, ret_frame);
    if (r == -EBADMSG || r == -ENODATA)
        return reader_end_or_damage(reader);
    if (r == 0)
        reader_advance(reader, size);
    return r;
}

int reader_rest(struct reader *reader, uint64_t offset, char **ret_data, size_t *ret_len)
{
    size_t len = (size_t)(offset < reader->size ? reader->size - offset : 0);
    char *data = malloc(len ? len : 1);
    int r;

    if (!data)
        return -ENOMEM;
    r = read_at(reader->fd, data, len, offset, &len);
    if (r < 0) {
        free(data);
        return r;
    }
    *ret_data = data;
    *ret_len = len;
    return 0;
}
