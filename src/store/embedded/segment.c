/*
 * segment.c - creates, reserves, writes and trims one segment file.
 */
#include "store/embedded/segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int segment_create(const struct directory *dir, const struct disk *disk, uint64_t index,
                   struct segment *ret_segment)
{
    struct segment segment = {.disk = disk, .index = index};
    char name[DIRECTORY_NAME_MAX];
    int err;

    directory_name(name, FILE_SEGMENT, index);
    segment.fd = directory_open_file(dir, name, O_RDWR | O_CREAT | O_TRUNC);
    if (segment.fd < 0)
        return segment.fd;
    err = segment_reserve(&segment, SEGMENT_CHUNK);
    if (err == 0 && disk->sync(segment.fd) < 0)
        err = -errno;
    if (err == 0)
        err = directory_sync(dir);
    if (err < 0) {
        segment_close(&segment);
        unlinkat(dir->fd, name, 0);
        return err;
    }
    *ret_segment = segment;
    return 0;
}

int segment_begin(struct segment *segment, const struct file_header *header)
{
    char data[FILE_HEADER_SIZE];

    assert(segment->end == 0);
    file_header_write(data, header);
    return segment_write(segment, data, sizeof(data));
}

int segment_reopen(const struct directory *dir, const struct disk *disk, uint64_t index, uint64_t end,
                   struct segment *ret_segment)
{
    char name[DIRECTORY_NAME_MAX];
    int fd;

    directory_name(name, FILE_SEGMENT, index);
    fd = directory_open_file(dir, name, O_RDWR);
    if (fd < 0)
        return fd;
    *ret_segment = (struct segment){.disk = disk, .fd = fd, .index = index, .end = end, .reserved = end};
    return 0;
}

int segment_reserve(struct segment *segment, uint64_t until)
{
    off_t from = (off_t)segment->reserved;
    int err;

    if (until <= segment->reserved)
        return 0;
    until = (until + SEGMENT_CHUNK - 1) / SEGMENT_CHUNK * SEGMENT_CHUNK;
    do
        err = -segment->disk->reserve(segment->fd, from, (off_t)until - from);
    while (err == -EINTR);
    if (err < 0)
        return err;
    segment->reserved = until;
    return 0;
}

int segment_write(struct segment *segment, const char *data, size_t len)
{
    int err = disk_write(segment->disk, segment->fd, data, len, segment->end);

    if (err == 0)
        segment->end += len;
    return err;
}

bool segment_is_removed(const struct segment *segment)
{
    struct stat st;

    return fstat(segment->fd, &st) == 0 && st.st_nlink == 0;
}

int segment_trim(struct segment *segment)
{
    if (ftruncate(segment->fd, (off_t)segment->end) < 0)
        return -errno;
    segment->reserved = segment->end;
    return 0;
}

void segment_close(struct segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}
