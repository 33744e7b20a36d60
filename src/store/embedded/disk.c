/*
 * disk.c - the real system calls behind the table of disk.h, and a write that is repeated until it
 * is complete.
 */
#include "store/embedded/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include "store/embedded/crc32c.h"

static uint32_t disk_real_boot(void)
{
    char text[64];
    ssize_t len = 0;
    uint32_t boot;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        len = read(fd, text, sizeof(text));
        close(fd);
    }
    if (len <= 0)
        return 0;
    boot = crc32c(0, text, (size_t)len);
    return boot ? boot : 1;
}

const struct disk disk_real = {
    .pwrite = pwrite,
    .sync = fdatasync,
    .reserve = posix_fallocate,
    .boot = disk_real_boot,
};

int disk_write(const struct disk *disk, int fd, const char *data, size_t len, uint64_t offset)
{
    while (len) {
        ssize_t written = disk->pwrite(fd, data, len, (off_t)offset);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        if (written == 0)
            return -EIO;
        data += written;
        len -= (size_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

bool disk_err_is_full(int err)
{
    return err == -ENOSPC || err == -EFBIG || err == -EDQUOT;
}
