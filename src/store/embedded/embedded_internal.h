/*
 * embedded_internal.h - the data and functions that the files of the embedded store share.
 *
 * embedded.c executes commands and answers them, commit.c makes them durable, compaction.c keeps
 * the log short, repair.c repairs it, open.c and closing.c open and close the store.
 *
 * Everything runs on the loop thread, except the job_ functions: they run on the thread pool and
 * use only the data of their job.
 */
#ifndef STORE_EMBEDDED_EMBEDDED_INTERNAL_H
#define STORE_EMBEDDED_EMBEDDED_INTERNAL_H

#include <stdatomic.h>

#include "store/embedded/batch.h"
#include "store/embedded/directory.h"
#include "store/embedded/disk.h"
#include "store/embedded/embedded.h"
#include "store/embedded/pending.h"
#include "store/embedded/segment.h"

enum {
    EMBEDDED_SYNC_EVERY_MS = 1000,
    EMBEDDED_AWAKE_EVERY_MS = 1000,
    EMBEDDED_PAUSE_MS = 3000,        /* without a sign of life of our own: we were stopped */
    EMBEDDED_SPACE_RETRY_MS = 500,   /* between attempts to reserve space on a full disk */
    EMBEDDED_REPAIR_RETRY_MS = 1000, /* between attempts to get going again after an error */
    EMBEDDED_SNAPSHOT_RETRY_MS = 30000,
    EMBEDDED_SNAPSHOT_AFTER = 16 * 1024 * 1024,
    EMBEDDED_ERROR_MAX = 1024,
    EMBEDDED_MAGIC = 0x656d6265,
    IO_JOB_MAGIC = 0x696f6a6f,
};

/* The one thing at a time that happens to the active segment on the thread pool. */
enum io_kind {
    IO_COMMIT, /* write the batch in flight and sync it: LOG_FSYNC=always */
    IO_SYNC,   /* sync what was written: LOG_FSYNC=everysec */
    IO_FINISH, /* sync, mark as closed, give back the reserved space */
};

struct io_job {
    unsigned magic; /* from its start until commit_io_done */
    uv_work_t work;
    bool is_busy;
    enum io_kind kind;
    enum embedded_fsync fsync;
    struct segment segment; /* a copy: the loop's own stays as it is until the job is done */
    struct slice bytes;
    uint64_t seq; /* on the disk when the job is done */
    int err;
    int reserve_err;
    int abort_err; /* set by the loop: the batch fails even if the job does not */
};

enum compaction_state {
    COMPACTION_IDLE,
    COMPACTION_PREPARING, /* the next segment is being made */
    COMPACTION_PREPARED,  /* it is ready; the log changes over when nothing is in flight */
    COMPACTION_WRITING,   /* the snapshot is being made from the files before it */
    COMPACTION_REPAIRING, /* a snapshot of the memory and a new segment are being made */
};

struct compaction {
    uv_work_t work;
    enum compaction_state state;
    atomic_bool cancel;
    struct segment next; /* PREPARING, PREPARED, REPAIRING: the new segment */
    struct segment old;  /* WRITING: the one before, the job's to close */
    struct file_header header;
    struct strbuf bytes; /* REPAIRING: the snapshot */
    uint64_t log_bytes;  /* WRITING: what the snapshot will replace */
    uint64_t snapshot_bytes;
    bool old_synced;
    uint64_t not_before_ms; /* elapsed time; after a failure */
    int err;
    char error[EMBEDDED_ERROR_MAX];
};

struct embedded {
    struct store store; /* first */
    unsigned magic;
    uv_loop_t *loop;
    const struct disk *disk;
    enum embedded_fsync fsync;
    struct core_settings core_settings;
    uint64_t snapshot_after_bytes;
    struct directory dir;
    struct core *core;
    uint32_t boot;

    uint64_t clock_start_ms;   /* the store's clock when it was opened */
    uint64_t clock_elapsed_ms; /* clock_elapsed_ms() at that moment */
    uint64_t awake_at_ms;      /* the store's clock when we last ran */

    struct pending_pool pool;
    struct batch gathering; /* of this turn, or all since the batch in flight left */
    struct batch in_flight; /* LOG_FSYNC=always */

    struct segment active;
    uint64_t next_seq;
    uint64_t durable_seq;
    uint64_t log_bytes; /* since the snapshot */
    uint64_t snapshot_bytes;

    int failed;            /* 0, or -EIO or -ENOSPC: memory is ahead of the disk, and nothing may change */
    bool is_full;          /* no space could be reserved */
    bool is_removed;       /* the directory is gone: nothing can be repaired in it */
    uint64_t space_wanted; /* is_full: so many bytes behind the end of the log must fit before it is not */
    bool is_dirty;         /* written and not synced */
    bool is_closing;
    bool is_finished; /* the log was closed */
    char detail[128];

    uv_check_t check;
    uv_idle_t idle;
    uv_timer_t sync_timer;
    uv_timer_t retry_timer;
    uv_timer_t awake_timer;
    int handles_open;

    struct io_job io;
    struct compaction compaction;
    struct store_stats stats;

    store_closed_fn closed;
    void *closed_arg;
};

/* The store behind the argument of a callback. */
static inline struct embedded *embedded_from(void *arg)
{
    struct embedded *embedded = arg;

    MAGIC_CHECK(embedded, EMBEDDED_MAGIC);
    return embedded;
}

static inline struct embedded *embedded_of(struct store *store)
{
    return embedded_from(CONTAINER_OF(store, struct embedded, store));
}

/* As embedded_open, with a disk of the caller's. */
int embedded_open_on(uv_loop_t *loop, const struct embedded_settings *settings, const struct disk *disk,
                     struct store **ret_store, struct embedded_report *ret_report, char *error,
                     size_t error_size) MUST_CHECK;

/* embedded.c */
extern const struct store_ops embedded_ops;
uint64_t embedded_now(const struct embedded *embedded);
void embedded_add_record(void *arg, const struct record *record);
/* Answers all of `pending`: with their results, or all with `err` if it is not 0. */
void embedded_answer(struct embedded *embedded, struct list *pending, int err);
/* Makes sure that the loop comes round to embedded_turn without waiting for anything. */
void embedded_wake(struct embedded *embedded);
/*
 * Writes and answers what has gathered, if it can; then does what has become possible. Not in a
 * starter.
 */
void embedded_turn(struct embedded *embedded);
void embedded_checked(uv_check_t *check);
void embedded_idled(uv_idle_t *idle);
void embedded_awake(uv_timer_t *timer);

/* commit.c */
/*
 * Makes sure of space for `len` more bytes of log. 0; -ENOSPC or -EIO: the store is full from now
 * on.
 */
int commit_reserve(struct embedded *embedded, size_t len) MUST_CHECK;
/* Keeps some space ahead; if there is none, the store is full until a timer finds some. */
void commit_reserve_ahead(struct embedded *embedded);
/* Writes the gathered batch on the loop and answers it. */
void commit_now(struct embedded *embedded);
/* Sends the gathered batch to the thread pool; it is answered when it is on the disk. */
void commit_start(struct embedded *embedded);
/*
 * Memory is ahead of the disk: all that waits is answered with an error, and nothing changes until
 * a repair.
 */
void commit_fail(struct embedded *embedded, int err, const char *what);
/*
 * Fails the store if its files were removed under it: what is written to them cannot be found
 * again.
 */
void commit_check_files(struct embedded *embedded);
void commit_start_finish(struct embedded *embedded);
void commit_retry(uv_timer_t *timer);
void commit_sync(uv_timer_t *timer);

/* compaction.c */
/*
 * Starts a snapshot if the log has become long, or changes over to the next segment if it is ready.
 */
void compaction_turn(struct embedded *embedded);
bool compaction_is_busy(const struct embedded *embedded);
/* Drops a segment that was prepared and is not needed. */
void compaction_discard(struct embedded *embedded);
/* Sends `job` to the thread pool; `done` runs on the loop. */
void compaction_queue(struct embedded *embedded, enum compaction_state state, uv_work_cb job,
                      uv_after_work_cb done);

/* repair.c */
/* Tries to get going again after commit_fail. */
void repair_start(struct embedded *embedded);

/* closing.c */
void embedded_close(struct store *store, store_closed_fn closed, void *arg);
void embedded_close_turn(struct embedded *embedded);
/* Frees everything but the handles, which must be closed or never opened. */
void embedded_free(struct embedded *embedded);

#endif
