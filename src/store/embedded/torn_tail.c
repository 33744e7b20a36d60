/*
 * torn_tail.c - copies the torn tail of the log to a file of its own before it is cut off.
 */
#include "store/embedded/torn_tail.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/embedded/reader.h"

/* Copies one segment from `offset` on to *at of `fd`, which it moves on. 0 or a negative errno. */
static int torn_copy(const struct directory *dir, uint64_t index, uint64_t offset, int fd, uint64_t *at)
{
    char chunk[64 * 1024];
    struct reader reader;
    uint64_t left = 0;
    int err;

    err = reader_open(&reader, dir, FILE_SEGMENT, index);
    if (err == 0)
        err = reader_used_after(&reader, offset, &left);
    left = min_u64(left, TORN_TAIL_MAX - *at);
    while (err == 0 && left > 0) {
        ssize_t len = pread(reader.fd, chunk, (size_t)min_u64(left, sizeof(chunk)), (off_t)offset);

        if (len <= 0) {
            err = len < 0 ? -errno : -EIO;
            break;
        }
        err = disk_write(&disk_real, fd, chunk, (size_t)len, *at);
        offset += (uint64_t)len;
        left -= (uint64_t)len;
        *at += (uint64_t)len;
    }
    reader_release(&reader);
    return err;
}

void torn_tail_keep(const struct directory *dir, const uint64_t *segments, size_t count, uint64_t offset,
                    char name[DIRECTORY_NAME_MAX])
{
    char tmp[DIRECTORY_NAME_MAX];
    uint64_t len = 0;
    int err = 0;
    int fd;

    assert(count > 0);
    name[0] = '\0';
    snprintf(tmp, sizeof(tmp), "%s.tmp", DIRECTORY_TORN);
    unlinkat(dir->fd, tmp, 0);
    fd = directory_open_file(dir, tmp, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return;
    for (size_t i = 0; err == 0 && i < count; i++)
        err = torn_copy(dir, segments[i], i == 0 ? offset : 0, fd, &len);
    if (err == 0 && len > 0 && fdatasync(fd) < 0)
        err = -errno;
    close(fd);
    if (err < 0 || len == 0) {
        unlinkat(dir->fd, tmp, 0);
        return;
    }
    directory_remove_torn(dir);
    snprintf(name, DIRECTORY_NAME_MAX, "%s.%010llu", DIRECTORY_TORN, (unsigned long long)segments[0]);
    if (renameat(dir->fd, tmp, dir->fd, name) < 0 || directory_sync(dir) < 0)
        name[0] = '\0';
}
