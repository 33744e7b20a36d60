/*
 * loader.h - from the files back to the state.
 *
 * The newest complete snapshot, then every later segment in order. What a crash leaves at the end
 * of the log is cut off; damage anywhere else is refused, because what follows it was acknowledged.
 *
 * After a bad place whole frames may still follow. If the machine itself crashed in between
 * (another boot) and none of them claims that the frame at the bad place was on the disk, then the
 * kernel wrote pages in another order than we did and lost some: that is the unsynced tail that
 * LOG_FSYNC allows to lose. In every other case it is damage.
 *
 * Blocks; may run on any thread, with a core of its own. Does not log.
 */
#ifndef STORE_EMBEDDED_LOADER_H
#define STORE_EMBEDDED_LOADER_H

#include <stdatomic.h>

#include "core/core.h"
#include "store/embedded/directory.h"

struct loader_options {
    uint64_t upto;             /* the last segment to read; 0: all */
    bool may_repair;           /* cut off a torn tail; otherwise it is damage as well */
    uint32_t boot;             /* of this machine now; 0: not known */
    bool is_background;        /* rest often: see pace.h */
    const atomic_bool *cancel; /* NULL, or: give up with -ECANCELED when it becomes true */
};

struct loaded {
    bool is_empty; /* there was nothing at all */
    bool has_tiers;
    uint64_t snapshot_bytes; /* 0: there was none */
    uint64_t keep_from;      /* files with a lower number are not needed */
    /* Where the log goes on. */
    uint64_t index;
    bool segment_exists; /* and has its header */
    uint64_t end;
    uint32_t format; /* of the newest file: FILE_FORMAT_VERSION, or an older one; 0: there was none */
    uint64_t next_seq;
    uint64_t time_ms; /* the latest in the files */
    uint64_t log_bytes;
    uint64_t records;
    uint64_t cut_bytes;
    char torn[DIRECTORY_NAME_MAX]; /* the file that what was cut off is kept in; "": none */
    bool was_closed;               /* the last frame says that the log was closed in good order */
    uint64_t damaged_snapshot;     /* its number, if a newer one had to be passed over; else 0 */
};

/*
 * 0; -EBADMSG: damaged; -EOPNOTSUPP: of a newer version; -ECANCELED; -ENOMEM; another negative
 * errno. On failure `error` says what is wrong, where, and what to do, and core is of no more use.
 */
int loader_load(const struct directory *dir, const struct loader_options *options, struct core *core,
                struct loaded *ret_loaded, char *error, size_t error_size) MUST_CHECK;

#endif
