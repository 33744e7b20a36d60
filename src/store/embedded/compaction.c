/*
 * compaction.c - replaces old log segments by a snapshot.
 *
 * A job on the thread pool rebuilds the state from the files and writes it.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/loader.h"
#include "store/embedded/snapshot.h"

enum { COMPACTION_BEHIND = 4 };

bool compaction_is_busy(const struct embedded *embedded)
{
    enum compaction_state state = embedded->compaction.state;

    return state == COMPACTION_PREPARING || state == COMPACTION_WRITING || state == COMPACTION_REPAIRING;
}

void compaction_queue(struct embedded *embedded, enum compaction_state state, uv_work_cb job,
                      uv_after_work_cb done)
{
    struct compaction *compaction = &embedded->compaction;
    int err;

    assert(!compaction_is_busy(embedded));
    compaction->state = state;
    assert(compaction_is_busy(embedded));
    compaction->err = 0;
    compaction->work.data = embedded;
    err = uv_queue_work(embedded->loop, &compaction->work, job, done);
    assert(err == 0);
}

static void compaction_gave_up(struct embedded *embedded, const char *error)
{
    embedded->compaction.state = COMPACTION_IDLE;
    embedded->compaction.not_before_ms = clock_elapsed_ms() + EMBEDDED_SNAPSHOT_RETRY_MS;
    if (embedded->is_closing)
        log_debug("no snapshot was made: the store is closing", log_str("directory", embedded->dir.path),
                  log_str("error", error));
    else
        log_warn("no snapshot was made; the log stays long until the next attempt",
                 log_str("directory", embedded->dir.path), log_str("error", error));
}

void compaction_discard(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    char name[DIRECTORY_NAME_MAX];

    if (compaction->state != COMPACTION_PREPARED)
        return;
    directory_name(name, FILE_SEGMENT, compaction->next.index);
    segment_close(&compaction->next);
    unlinkat(embedded->dir.fd, name, 0);
    compaction->state = COMPACTION_IDLE;
}

/* Runs on the thread pool. */
static void job_prepare(uv_work_t *work)
{
    struct embedded *embedded = embedded_from(work->data);
    struct compaction *compaction = &embedded->compaction;

    compaction->err =
        segment_create(&embedded->dir, embedded->disk, compaction->header.index, &compaction->next);
}

static void compaction_prepared(uv_work_t *work, int status)
{
    struct embedded *embedded = embedded_from(work->data);

    assert(status == 0);
    assert(embedded->compaction.state == COMPACTION_PREPARING);
    if (embedded->compaction.err < 0)
        compaction_gave_up(embedded, strerror(-embedded->compaction.err));
    else
        embedded->compaction.state = COMPACTION_PREPARED;
    embedded_turn(embedded);
}

/*
 * Runs on the thread pool: what must be on the disk before the segments before the new one may go.
 */
static int job_sync_segments(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    char name[DIRECTORY_NAME_MAX];
    int err = 0;
    int fd;

    (void)!segment_trim(&compaction->old);
    if (embedded->disk->sync(compaction->old.fd) < 0)
        err = -errno;
    segment_close(&compaction->old);
    if (err < 0)
        return err;
    directory_name(name, FILE_SEGMENT, compaction->header.index);
    fd = directory_open_file(&embedded->dir, name, O_RDONLY);
    if (fd < 0)
        return fd;
    if (embedded->disk->sync(fd) < 0)
        err = -errno;
    close(fd);
    return err;
}

static uint64_t compaction_threshold(const struct embedded *embedded)
{
    return max_u64(embedded->snapshot_after_bytes, embedded->snapshot_bytes);
}

/* The log grew faster than snapshots were made: then they are made without rests, or it would grow for ever.
 */
static bool compaction_is_behind(const struct embedded *embedded)
{
    return embedded->compaction.log_bytes > COMPACTION_BEHIND * compaction_threshold(embedded);
}

/*
 * Runs on the thread pool: rebuilds the state before the new segment from the files, and writes it
 * as one.
 */
static void job_write(uv_work_t *work)
{
    struct embedded *embedded = embedded_from(work->data);
    struct compaction *compaction = &embedded->compaction;
    struct loader_options options = {
        .upto = compaction->header.index - 1,
        .boot = embedded->boot,
        .is_background = !compaction_is_behind(embedded),
        .cancel = &compaction->cancel,
    };
    struct core *core = NULL;
    struct loaded loaded;
    int err;

    compaction->old_synced = false;
    err = job_sync_segments(embedded);
    if (err == 0) {
        compaction->old_synced = true;
        err = core_new(&embedded->core_settings, &core);
    }
    if (err < 0) {
        snprintf(compaction->error, sizeof(compaction->error), "%s", strerror(-err));
        compaction->err = err;
        return;
    }
    err = loader_load(&embedded->dir, &options, core, &loaded, compaction->error, sizeof(compaction->error));
    if (err == 0) {
        err = snapshot_write(&embedded->dir, embedded->disk, &compaction->header, core,
                             &compaction->snapshot_bytes);
        if (err < 0)
            snprintf(compaction->error, sizeof(compaction->error), "%s", strerror(-err));
    }
    core_free(core);
    if (err == 0)
        directory_remove_before(&embedded->dir, compaction->header.index);
    /*
     * The second state was as large as the first; without this its memory would stay with the
     * process.
     */
    malloc_trim(0);
    compaction->err = err;
}

static void compaction_written(uv_work_t *work, int status)
{
    struct embedded *embedded = embedded_from(work->data);
    struct compaction *compaction = &embedded->compaction;

    assert(status == 0);
    assert(compaction->state == COMPACTION_WRITING);
    assert(compaction->header.first_seq <= embedded->next_seq);
    if (compaction->old_synced)
        embedded->durable_seq = max_u64(embedded->durable_seq, compaction->header.first_seq - 1);
    if (compaction->err < 0) {
        embedded->log_bytes += compaction->log_bytes;
        compaction_gave_up(embedded, compaction->error);
        if (!compaction->old_synced)
            commit_fail(embedded, compaction->err, "sync");
    } else {
        compaction->state = COMPACTION_IDLE;
        embedded->snapshot_bytes = compaction->snapshot_bytes;
        embedded->stats.snapshots++;
        log_debug("snapshot made", log_num("bytes", (int64_t)compaction->snapshot_bytes));
    }
    embedded_turn(embedded);
}

/* The log continues in the new segment. A snapshot will replace the segments before it. */
static void compaction_change_over(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    struct file_header header = {
        .kind = FILE_SEGMENT,
        .boot = embedded->boot,
        .index = compaction->next.index,
        .first_seq = embedded->next_seq,
        .durable_seq = embedded->durable_seq,
        .time_ms = embedded_now(embedded),
    };
    int err;

    assert(compaction->state == COMPACTION_PREPARED && !embedded->io.is_busy);
    assert(compaction->next.index > embedded->active.index);
    err = segment_begin(&compaction->next, &header);
    if (err < 0) {
        compaction_discard(embedded);
        compaction_gave_up(embedded, strerror(-err));
        return;
    }
    compaction->header = header;
    compaction->header.kind = FILE_SNAPSHOT;
    compaction->log_bytes = embedded->log_bytes;
    compaction->old = embedded->active;
    embedded->active = compaction->next;
    embedded->log_bytes = 0;
    compaction_queue(embedded, COMPACTION_WRITING, job_write, compaction_written);
}

void compaction_turn(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;

    if (embedded->failed || embedded->is_closing)
        return;
    if (compaction->state == COMPACTION_PREPARED && !embedded->io.is_busy) {
        compaction_change_over(embedded);
    } else if (compaction->state == COMPACTION_IDLE && !embedded->is_full &&
               embedded->log_bytes >= compaction_threshold(embedded) &&
               clock_elapsed_ms() >= compaction->not_before_ms) {
        compaction->header.index = embedded->active.index + 1;
        compaction_queue(embedded, COMPACTION_PREPARING, job_prepare, compaction_prepared);
    }
}
