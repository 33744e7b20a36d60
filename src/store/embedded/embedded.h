/*
 * embedded.h - the store that needs nothing else to run: core in this process, made durable by a
 * log on disk.
 *
 * A command is carried out at once; its effects go into the log, written once per turn of the loop,
 * and only then is it answered. fsync and snapshots run on the thread pool.
 */
#ifndef STORE_EMBEDDED_EMBEDDED_H
#define STORE_EMBEDDED_EMBEDDED_H

#include <uv.h>

#include "core/core.h"
#include "store/store.h"

enum embedded_fsync {
    EMBEDDED_FSYNC_ALWAYS,   /* an answer means: on the disk */
    EMBEDDED_FSYNC_EVERYSEC, /* an answer means: with the kernel; a power cut may lose a second */
    EMBEDDED_FSYNC_NO,
};

struct embedded_settings {
    const char *data_dir; /* made if it is not there */
    enum embedded_fsync fsync;
    struct core_settings core;
    const char *tier_config;       /* seeds the tiers of an empty store; NULL: the defaults */
    uint64_t snapshot_after_bytes; /* log size that starts a snapshot; 0: the default, 16 MiB */
};

struct embedded_report {
    uint64_t replayed_records;
    uint64_t cut_bytes; /* of a torn tail */
    uint64_t calls;
    uint64_t waiting; /* calls that wait for a pod */
    uint64_t pods;
    uint64_t load_ms;
};

/*
 * Opens the directory, takes its lock and loads what is there; blocks until that is done, so call
 * it before the loop runs. `error` gets a sentence that says what is wrong, where, and what to do.
 *
 * 0; -EBUSY: another process has the directory; -EBADMSG: the log is damaged; -EINVAL: the tier
 * configuration is not valid; -ENOMEM; other errno values of the file system.
 */
int embedded_open(uv_loop_t *loop, const struct embedded_settings *settings, struct store **ret_store,
                  struct embedded_report *ret_report, char *error, size_t error_size) MUST_CHECK;

/* The core behind the store, for tests that check its invariants. */
struct core *embedded_core(struct store *store);

#endif
