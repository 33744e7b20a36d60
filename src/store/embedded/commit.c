/*
 * commit.c - writes batches to the log and syncs them, and handles full and failing disks.
 *
 * Writes run on the loop or, with LOG_FSYNC=always, on the thread pool. A failed log is repaired
 * by repair.c.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/embedded/embedded_internal.h"

enum { UNDO_ARENA_MAX = 64 * 1024 };

static void commit_start_retry(struct embedded *embedded, uint64_t after_ms)
{
    if (!embedded->is_closing && !uv_is_active((uv_handle_t *)&embedded->retry_timer))
        uv_timer_start(&embedded->retry_timer, commit_retry, after_ms, 0);
}

/* Until `wanted` bytes fit: with less, the same command would fail again. */
static void commit_set_full(struct embedded *embedded, int err, uint64_t wanted)
{
    if (!embedded->is_full)
        log_warn("no space for the log: changes are refused until there is some",
                 log_str("directory", embedded->dir.path), log_str("error", strerror(-err)));
    embedded->is_full = true;
    embedded->space_wanted = max_u64(embedded->space_wanted, wanted);
    snprintf(embedded->detail, sizeof(embedded->detail), "no space for the log: %s", strerror(-err));
    commit_start_retry(embedded, EMBEDDED_SPACE_RETRY_MS);
}

int commit_reserve(struct embedded *embedded, size_t len)
{
    uint64_t wanted = embedded->in_flight.buf.len + embedded->gathering.buf.len + 2 * FRAME_HEADER_SIZE + len;
    int err = segment_reserve(&embedded->active, embedded->active.end + wanted);

    if (err < 0) {
        commit_set_full(embedded, err, wanted);
        return disk_err_is_full(err) ? -ENOSPC : -EIO;
    }
    return 0;
}

void commit_reserve_ahead(struct embedded *embedded)
{
    uint64_t wanted = max_u64(SEGMENT_AHEAD, embedded->space_wanted);
    int err = segment_reserve(&embedded->active, embedded->active.end + wanted);

    if (err < 0) {
        commit_set_full(embedded, err, wanted);
    } else if (embedded->is_full) {
        embedded->is_full = false;
        embedded->space_wanted = 0;
        embedded->detail[0] = '\0';
        core_after_outage(embedded->core, embedded_now(embedded));
        log_info("there is space for the log again", log_str("directory", embedded->dir.path));
    }
}

void commit_retry(uv_timer_t *timer)
{
    struct embedded *embedded = embedded_from(timer->data);

    if (embedded->is_removed)
        return;
    if (embedded->failed)
        repair_start(embedded);
    else if (embedded->is_full)
        commit_reserve_ahead(embedded);
    if (embedded->failed)
        commit_start_retry(embedded, EMBEDDED_REPAIR_RETRY_MS);
}

static int commit_seal(struct embedded *embedded, struct batch *batch, enum frame_kind kind,
                       struct slice *ret_bytes)
{
    struct frame frame = {
        .kind = kind,
        .boot = embedded->boot,
        .seq = embedded->next_seq,
        .durable_seq = embedded->durable_seq,
        .time_ms = embedded_now(embedded),
    };
    int err;

    assert(embedded->durable_seq < embedded->next_seq);
    err = batch_seal(batch, &frame, ret_bytes);
    if (err == 0)
        embedded->next_seq++;
    return err;
}

static void commit_count(struct embedded *embedded, size_t len)
{
    embedded->log_bytes += len;
    embedded->stats.writes++;
    embedded->stats.written_bytes += len;
}

/*
 * An allocation that is answered with an error must not keep its pod for hours: its client does not
 * know of it.
 */
static void commit_undo(struct embedded *embedded, const struct list *pending)
{
    struct arena arena;

    arena_init(&arena, UNDO_ARENA_MAX);
    for (const struct list *link = pending->next; link != pending; link = link->next) {
        const struct pending *entry = CONTAINER_OF(link, struct pending, link);
        struct result result;
        struct command undo = {.type = COMMAND_UNDO};
        int err;

        if (entry->type != COMMAND_ALLOCATE || entry->err || entry->result->outcome != OUTCOME_OK)
            continue;
        undo.undo.call_sid = entry->result->allocate.call.call_sid;
        undo.undo.attempt = entry->result->allocate.attempt;
        err = core_execute(embedded->core, &undo, embedded_now(embedded), &arena, &result);
        if (err < 0)
            log_warn("cannot take back an allocation that failed", log_str("call_sid", undo.undo.call_sid));
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void commit_tell_failure(struct embedded *embedded, int err, const char *what)
{
    if (embedded->is_removed) {
        log_error("the data directory was removed: changes are refused until the process is started again",
                  log_str("directory", embedded->dir.path));
        snprintf(embedded->detail, sizeof(embedded->detail), "the data directory was removed");
        return;
    }
    log_error("the log cannot be written: changes are refused until it can",
              log_str("directory", embedded->dir.path), log_str("what", what),
              log_str("error", strerror(-err)));
    snprintf(embedded->detail, sizeof(embedded->detail), "the log cannot be written: %s: %s", what,
             strerror(-err));
}

void commit_fail(struct embedded *embedded, int err, const char *what)
{
    struct list pending;

    if (embedded->failed)
        return;
    if (embedded->io.is_busy && embedded->io.kind == IO_COMMIT) {
        /*
         * The thread pool has the batch. It fails when the job is done, with all that gather until
         * then.
         */
        embedded->io.abort_err = err;
        return;
    }
    commit_tell_failure(embedded, err, what);
    embedded->failed = disk_err_is_full(err) ? -ENOSPC : -EIO;
    embedded->is_full = false;
    embedded->space_wanted = 0;
    /*
     * Commands that get an error should not be loaded after a crash. If this fails too, they may
     * be.
     */
    (void)!segment_trim(&embedded->active);
    list_init(&pending);
    batch_take_pending(&embedded->in_flight, &pending);
    batch_take_pending(&embedded->gathering, &pending);
    commit_undo(embedded, &pending);
    batch_reset(&embedded->in_flight);
    batch_reset(&embedded->gathering);
    assert(embedded->failed == -ENOSPC || embedded->failed == -EIO);
    commit_start_retry(embedded, EMBEDDED_REPAIR_RETRY_MS);
    embedded_answer(embedded, &pending, embedded->failed);
}

void commit_check_files(struct embedded *embedded)
{
    if (embedded->is_removed || embedded->is_closing)
        return;
    if (directory_is_removed(&embedded->dir)) {
        embedded->is_removed = true;
        if (embedded->failed) {
            commit_tell_failure(embedded, -EIO, "");
            embedded->failed = -EIO;
        } else {
            commit_fail(embedded, -EIO, "");
        }
    } else if (!embedded->failed && segment_is_removed(&embedded->active)) {
        /* The repair writes the whole state into new files. */
        commit_fail(embedded, -ENOENT, "the file of the log was removed");
    }
}

static void commit_mark_dirty(struct embedded *embedded)
{
    embedded->is_dirty = true;
    if (embedded->fsync == EMBEDDED_FSYNC_EVERYSEC && !embedded->is_closing &&
        !uv_is_active((uv_handle_t *)&embedded->sync_timer))
        uv_timer_start(&embedded->sync_timer, commit_sync, EMBEDDED_SYNC_EVERY_MS, 0);
}

void commit_now(struct embedded *embedded)
{
    struct batch *batch = &embedded->gathering;
    struct list pending;

    assert(embedded->in_flight.records == 0); /* batches are written in their order */
    if (batch->records) {
        struct slice bytes;
        int err = commit_seal(embedded, batch, FRAME_BATCH, &bytes);

        if (err == 0)
            err = segment_write(&embedded->active, bytes.data, bytes.len);
        if (err < 0) {
            commit_fail(embedded, err, "write");
            return;
        }
        commit_count(embedded, bytes.len);
        commit_mark_dirty(embedded);
    }
    list_init(&pending);
    batch_take_pending(batch, &pending);
    batch_reset(batch);
    if (!embedded->failed && !embedded->is_full)
        commit_reserve_ahead(embedded);
    embedded_answer(embedded, &pending, 0);
}

/* Runs on the thread pool. */
static void job_io(uv_work_t *work)
{
    struct io_job *job = work->data;
    struct segment *segment = &job->segment;

    MAGIC_CHECK(job, IO_JOB_MAGIC);
    if (job->kind == IO_SYNC || (job->kind == IO_FINISH && job->fsync != EMBEDDED_FSYNC_NO)) {
        if (segment->disk->sync(segment->fd) < 0)
            job->err = -errno;
    }
    if (job->kind == IO_SYNC || job->err < 0)
        return;
    job->err = segment_write(segment, job->bytes.data, job->bytes.len);
    if (job->err == 0 && job->kind == IO_FINISH)
        job->err = segment_trim(segment);
    if (job->err == 0 && job->fsync != EMBEDDED_FSYNC_NO && segment->disk->sync(segment->fd) < 0)
        job->err = -errno;
    if (job->err == 0 && job->kind == IO_COMMIT)
        job->reserve_err = segment_reserve(segment, segment->end + SEGMENT_AHEAD);
}

static void commit_committed(struct embedded *embedded)
{
    struct io_job *job = &embedded->io;
    struct list pending;

    if (job->err < 0) {
        commit_fail(embedded, job->err, "write and sync");
        return;
    }
    /* The log stays in one segment while a job writes to it. */
    assert(job->segment.index == embedded->active.index);
    assert(job->segment.end == embedded->active.end + job->bytes.len);
    assert(job->seq > embedded->durable_seq && job->seq < embedded->next_seq);
    embedded->active.end = job->segment.end;
    embedded->active.reserved = max_u64(embedded->active.reserved, job->segment.reserved);
    embedded->durable_seq = job->seq;
    embedded->stats.syncs++;
    commit_count(embedded, job->bytes.len);
    list_init(&pending);
    batch_take_pending(&embedded->in_flight, &pending);
    batch_reset(&embedded->in_flight);
    if (job->reserve_err < 0 && !embedded->failed)
        commit_set_full(embedded, job->reserve_err, SEGMENT_AHEAD);
    embedded_answer(embedded, &pending, 0);
}

static void commit_synced(struct embedded *embedded)
{
    struct io_job *job = &embedded->io;

    if (job->err < 0) {
        commit_fail(embedded, job->err, "sync");
        return;
    }
    assert(job->segment.index == embedded->active.index);
    assert(job->seq < embedded->next_seq);
    embedded->stats.syncs++;
    /*
     * While a snapshot is being made, the segment before this one may still be on its way to the
     * disk.
     */
    if (embedded->compaction.state != COMPACTION_WRITING)
        embedded->durable_seq = max_u64(embedded->durable_seq, job->seq);
    if (embedded->is_dirty)
        commit_mark_dirty(embedded);
}

static void commit_io_done(uv_work_t *work, int status)
{
    struct io_job *job = work->data;
    struct embedded *embedded = embedded_from(CONTAINER_OF(job, struct embedded, io));

    MAGIC_CHECK(job, IO_JOB_MAGIC);
    assert(status == 0);
    assert(job->is_busy);
    job->magic = 0;
    job->is_busy = false;
    if (job->err == 0)
        job->err = job->abort_err;
    switch (job->kind) {
    case IO_COMMIT:
        commit_committed(embedded);
        break;
    case IO_SYNC:
        commit_synced(embedded);
        break;
    case IO_FINISH:
        batch_reset(&embedded->in_flight);
        if (job->err < 0)
            log_warn("the log was not closed in good order", log_str("directory", embedded->dir.path),
                     log_str("error", strerror(-job->err)));
        embedded->is_finished = true;
        break;
    }
    embedded_turn(embedded);
}

static void commit_start_io(struct embedded *embedded, enum io_kind kind, struct slice bytes)
{
    struct io_job *job = &embedded->io;
    int err;

    assert(!job->is_busy);
    assert(!embedded->failed && !embedded->is_finished);
    assert(embedded->next_seq > 0);
    *job = (struct io_job){
        .magic = IO_JOB_MAGIC,
        .is_busy = true,
        .kind = kind,
        .fsync = embedded->fsync,
        .segment = embedded->active,
        .bytes = bytes,
        .seq = embedded->next_seq - 1,
    };
    job->work.data = job;
    err = uv_queue_work(embedded->loop, &job->work, job_io, commit_io_done);
    assert(err == 0);
}

void commit_start(struct embedded *embedded)
{
    struct slice bytes;
    struct batch empty;
    int err;

    if (!embedded->gathering.records) {
        commit_now(embedded);
        return;
    }
    err = commit_seal(embedded, &embedded->gathering, FRAME_BATCH, &bytes);
    if (err < 0) {
        commit_fail(embedded, err, "write");
        return;
    }
    /* The buffers change places; the bytes stay where they are. */
    assert(list_is_empty(&embedded->in_flight.pending) && !embedded->in_flight.buf.len);
    empty = embedded->in_flight;
    embedded->in_flight.buf = embedded->gathering.buf;
    embedded->in_flight.records = embedded->gathering.records;
    batch_take_pending(&embedded->gathering, &embedded->in_flight.pending);
    embedded->gathering.buf = empty.buf;
    embedded->gathering.records = 0;
    commit_start_io(embedded, IO_COMMIT, bytes);
}

void commit_sync(uv_timer_t *timer)
{
    struct embedded *embedded = embedded_from(timer->data);

    if (!embedded->is_dirty || embedded->failed)
        return;
    if (embedded->io.is_busy) {
        commit_mark_dirty(embedded);
        return;
    }
    embedded->is_dirty = false;
    commit_start_io(embedded, IO_SYNC, (struct slice){0});
}

void commit_start_finish(struct embedded *embedded)
{
    struct slice bytes;
    int err;

    assert(embedded->is_closing && !embedded->failed);
    assert(embedded->gathering.records == 0 && embedded->in_flight.records == 0);
    /* The mark is written after everything before it was synced, and says so. */
    if (embedded->fsync != EMBEDDED_FSYNC_NO)
        embedded->durable_seq = embedded->next_seq - 1;
    err = commit_seal(embedded, &embedded->in_flight, FRAME_CLOSED, &bytes);
    if (err < 0) {
        embedded->is_finished = true;
        return;
    }
    commit_start_io(embedded, IO_FINISH, bytes);
}
