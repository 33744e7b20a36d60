/*
 * snapshot.h - the whole state in one file.
 *
 * Written under another name and renamed when it is complete and on the disk, so that a snapshot
 * that can be seen is whole.
 */
#ifndef STORE_EMBEDDED_SNAPSHOT_H
#define STORE_EMBEDDED_SNAPSHOT_H

#include "base/strbuf.h"
#include "core/core.h"
#include "store/embedded/directory.h"

enum { SNAPSHOT_FRAME_SIZE = 64 * 1024 };

/* Writes core's state to the disk; blocks, and rests often (pace.h). 0 or a negative errno: there is no such
 * snapshot. */
int snapshot_write(const struct directory *dir, const struct disk *disk, const struct file_header *header,
                   const struct core *core, uint64_t *ret_bytes) MUST_CHECK;

/*
 * The same in two steps, for a core that must not be touched from the thread that writes: the bytes
 * of the file go into `buf`, from there to the disk.
 */
int snapshot_encode(const struct file_header *header, const struct core *core, struct strbuf *buf) MUST_CHECK;
int snapshot_write_encoded(const struct directory *dir, const struct disk *disk, uint64_t index,
                           struct slice bytes) MUST_CHECK;

#endif
