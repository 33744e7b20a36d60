/*
 * repair.c - repairs a failed log.
 *
 * A job on the thread pool writes the state in memory as a snapshot, and starts a new segment.
 */
#include "base/log.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/snapshot.h"

/*
 * Runs on the thread pool. The snapshot comes first: with it nothing in the older files matters any
 * more.
 */
static void job_repair(uv_work_t *work)
{
    struct embedded *embedded = embedded_from(work->data);
    struct compaction *compaction = &embedded->compaction;
    struct file_header header = compaction->header;
    int err;

    header.kind = FILE_SEGMENT;
    err = snapshot_write_encoded(&embedded->dir, embedded->disk, header.index,
                                 strbuf_slice(&compaction->bytes));
    if (err == 0)
        err = segment_create(&embedded->dir, embedded->disk, header.index, &compaction->next);
    if (err == 0) {
        err = segment_begin(&compaction->next, &header);
        if (err == 0 && embedded->disk->sync(compaction->next.fd) < 0)
            err = -errno;
        if (err < 0)
            segment_close(&compaction->next);
    }
    if (err == 0)
        directory_remove_before(&embedded->dir, header.index);
    compaction->err = err;
}

static void repair_done(uv_work_t *work, int status)
{
    struct embedded *embedded = embedded_from(work->data);
    struct compaction *compaction = &embedded->compaction;

    assert(status == 0);
    assert(compaction->state == COMPACTION_REPAIRING);
    assert(embedded->failed < 0 && !embedded->io.is_busy);
    compaction->state = COMPACTION_IDLE;
    if (compaction->err == 0 && embedded->is_removed) {
        segment_close(&compaction->next);
    } else if (compaction->err == 0) {
        assert(compaction->next.index > embedded->active.index);
        assert(compaction->header.first_seq == embedded->next_seq); /* nothing was written meanwhile */
        segment_close(&embedded->active);
        embedded->active = compaction->next;
        embedded->durable_seq = embedded->next_seq - 1;
        embedded->log_bytes = 0;
        embedded->snapshot_bytes = compaction->bytes.len;
        embedded->stats.snapshots++;
        embedded->is_dirty = false;
        embedded->failed = 0;
        embedded->detail[0] = '\0';
        core_after_outage(embedded->core, embedded_now(embedded));
        log_info("the log can be written again", log_str("directory", embedded->dir.path));
    } else {
        log_debug("the log still cannot be written", log_str("error", strerror(-compaction->err)));
    }
    strbuf_release(&compaction->bytes);
    embedded_turn(embedded);
}

void repair_start(struct embedded *embedded)
{
    struct compaction *compaction = &embedded->compaction;
    int err;

    if (compaction_is_busy(embedded) || embedded->io.is_busy || embedded->is_closing || embedded->is_removed)
        return;
    assert(embedded->failed < 0);
    compaction_discard(embedded);
    assert(compaction->state == COMPACTION_IDLE);
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
    err = snapshot_encode(&compaction->header, embedded->core, &compaction->bytes);
    if (err < 0) {
        strbuf_release(&compaction->bytes);
        return;
    }
    compaction_queue(embedded, COMPACTION_REPAIRING, job_repair, repair_done);
}
