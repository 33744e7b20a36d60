/*
 * disk.h - the system calls of the embedded store that a disk can refuse.
 *
 * They go through a table, because full and failing disks cannot be had on demand: tests put their
 * own there.
 */
#ifndef STORE_EMBEDDED_DISK_H
#define STORE_EMBEDDED_DISK_H

#include <sys/types.h>

#include "base/base.h"

struct disk {
    ssize_t (*pwrite)(int fd, const void *data, size_t len, off_t offset);
    int (*sync)(int fd); /* fdatasync */
    /*
     * Makes sure that writing there needs no more space; 0 or a positive errno, as posix_fallocate.
     */
    int (*reserve)(int fd, off_t offset, off_t len);
    /* A number for the time since the machine was started; 0: not known. */
    uint32_t (*boot)(void);
};

extern const struct disk disk_real;

/* Writes all of it. 0 or a negative errno; then a part may have been written. */
int disk_write(const struct disk *disk, int fd, const char *data, size_t len, uint64_t offset) MUST_CHECK;

/* Is this what a disk says that has no room (or a quota or a limit that has none)? */
bool disk_err_is_full(int err);

#endif
