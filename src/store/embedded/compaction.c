/*
 * compaction.c - replaces old log segments by a snapshot, and repairs a failed log with one.
 *
 * Both run on the thread pool. A regular snapshot is rebuilt from the files; a repair writes the
 * state in memory.
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

bool compaction_is_busy(const struct embedded *embedded)
{
    enum compaction_state state = embedded->compaction.state;

    return state == COMPACTION_PREPARING || state == COMPACTION_WRITING || state == COMPACTION_REPAIRING;
}

static void compaction_queue(struct embedded *embedded, enum compaction_state state, uv_work_cb job,
                             uv_after_work_cb done)
{
    struct compaction *compaction = &embedded->compaction;
    int r;

    compaction->state = state;
    compaction->err = 0;
    compaction->work.data = embedded;
    r = uv_queue_work(embedded->loop, &compaction->work, job, done);
    assert(r == 0);
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
    struct embedded *embedded = work->data;
    struct compaction *compaction = &embedded->compaction;

    compaction->err =
        segment_create(&embedded->dir, embedded->disk, compaction->header.index, &compaction->next);
}

static void compaction_prepared(uv_work_t *work, int status)
{
    struct embedded *embedded = work->data;

    assert(status == 0);
    if (embedded->compaction.err < 0)
        compaction_gave_up(embedded, strerror(-embedded->compaction.err));
    else
        embedded->compaction.state = COMPACTION_PREPARED;
    embedded_turn(embedded);
}

/* Runs on the thread pool: what must be on the disk before the segments before the new one may go. */
static int job_sync_segments(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    char name[DIRECTORY_NAME_MAX];
    int r = 0;
    int fd;

    (void)!segment_trim(&compaction->old);
    if (embedded->disk->sync(compaction->old.fd) < 0)
        r = -errno;
    segment_close(&compaction->old);
    if (r < 0)
        return r;
    directory_name(name, FILE_SEGMENT, compaction->header.index);
    fd = directory_open_file(&embedded->dir, name, O_RDONLY);
    if (fd < 0)
        return fd;
    if (embedded->disk->sync(fd) < 0)
        r = -errno;
    close(fd);
    return r;
}

/* Runs on the thread pool: rebuilds the state before the new segment from the files, and writes it as one. */
static void job_write(uv_work_t *work)
{
    struct embedded *embedded = work->data;
    struct compaction *compaction = &embedded->compaction;
    struct loader_options options = {
        .upto = compaction->header.index - 1,
        .boot = embedded->boot,
        .cancel = &compaction->cancel,
    };
    struct core *core = NULL;
    struct loaded loaded;
    int r;

    compaction->old_synced = false;
    r = job_sync_segments(embedded);
    if (r == 0) {
        compaction->old_synced = true;
        r = core_new(&embedded->core_settings, &core);
    }
    if (r < 0) {
        snprintf(compaction->error, sizeof(compaction->error), "%s", strerror(-r));
        compaction->err = r;
        return;
    }
    r = loader_load(&embedded->dir, &options, core, &loaded, compaction->error, sizeof(compaction->error));
    if (r == 0) {
        r = snapshot_write(&embedded->dir, embedded->disk, &compaction->header, core,
                           &compaction->snapshot_bytes);
        if (r < 0)
            snprintf(compaction->error, sizeof(compaction->error), "%s", strerror(-r));
    }
    core_free(core);
    if (r == 0)
        directory_remove_before(&embedded->dir, compaction->header.index);
    /* The second state was as large as the first; without this its memory would stay with the process. */
    malloc_trim(0);
    compaction->err = r;
}

static void compaction_written(uv_work_t *work, int status)
{
    struct embedded *embedded = work->data;
    struct compaction *compaction = &embedded->compaction;

    assert(status == 0);
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

/* The log goes on in the new segment; what lies before it becomes a snapshot. */
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
    int r = segment_begin(&compaction->next, &header);

    if (r < 0) {
        compaction_discard(embedded);
        compaction_gave_up(embedded, strerror(-r));
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
               embedded->log_bytes >= max_u64(embedded->snapshot_after_bytes, embedded->snapshot_bytes) &&
               clock_elapsed_ms() >= compaction->not_before_ms) {
        compaction->header.index = embedded->active.index + 1;
        compaction_queue(embedded, COMPACTION_PREPARING, job_prepare, compaction_prepared);
    }
}

/* Runs on the thread pool. The snapshot comes first: with it nothing in the older files matters any more. */
static void job_repair(uv_work_t *work)
{
    struct embedded *embedded = work->data;
    struct compaction *compaction = &embedded->compaction;
    struct file_header header = compaction->header;
    int r;

    header.kind = FILE_SEGMENT;
    r = snapshot_write_encoded(&embedded->dir, embedded->disk, header.index,
                               strbuf_slice(&compaction->bytes));
    if (r == 0)
        r = segment_create(&embedded->dir, embedded->disk, header.index, &compaction->next);
    if (r == 0) {
        r = segment_begin(&compaction->next, &header);
        if (r == 0 && embedded->disk->sync(compaction->next.fd) < 0)
            r = -errno;
        if (r < 0)
            segment_close(&compaction->next);
    }
    if (r == 0)
        directory_remove_before(&embedded->dir, header.index);
    compaction->err = r;
}

static void compaction_repaired(uv_work_t *work, int status)
{
    struct embedded *embedded = work->data;
    struct compaction *compaction = &embedded->compaction;

    assert(status == 0);
    compaction->state = COMPACTION_IDLE;
    if (compaction->err == 0 && embedded->is_removed) {
        segment_close(&compaction->next);
    } else if (compaction->err == 0) {
        segment_close(&embedded->active);
        embedded->active = compaction->next;
        embedded->durable_seq = embedded->next_seq - 1;
        embedded->log_bytes = 0;
        embedded->snapshot_bytes = compaction->bytes.len;
        embedded->stats.snapshots++;
        embedded->is_dirty = false;
        embedded->failed = 0;
        embedded->detail[0] = '\0';
        core_listens_again(embedded->core, embedded_now(embedded));
        log_info("the log can be written again", log_str("directory", embedded->dir.path));
    } else {
        log_debug("the log still cannot be written", log_str("error", strerror(-compaction->err)));
    }
    strbuf_release(&compaction->bytes);
    embedded_turn(embedded);
}

void compaction_repair(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    int r;

    if (compaction_is_busy(embedded) || embedded->io.is_busy || embedded->is_closing || embedded->is_removed)
        return;
    compaction_discard(embedded);
    compaction->header = (struct file_header){
        .kind = FILE_SNAPSHOT,
        .may_stand_alone = true,
        .boot = embedded->boot,
        .index = embedded->active.index + 1,
        .first_seq = embedded->next_seq,
        .durable_seq = embedded->next_seq - 1,
        .time_ms = embedded_now(embedded),
    };
    strbuf_init(&compaction->bytes, NULL, SIZE_MAX / 4);
    r = snapshot_encode(&compaction->header, embedded->core, &compaction->bytes);
    if (r < 0) {
        strbuf_release(&compaction->bytes);
        return;
    }
    compaction_queue(embedded, COMPACTION_REPAIRING, job_repair, compaction_repaired);
}
