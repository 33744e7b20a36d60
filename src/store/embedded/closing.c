/*
 * closing.c - closes the embedded store: waits for writes and snapshots, writes the last mark,
 * frees everything.
 */
#include <stdlib.h>

#include "store/embedded/embedded_internal.h"

void embedded_free(struct embedded *embedded)
{
    segment_close(&embedded->active);
    core_free(embedded->core);
    batch_release(&embedded->gathering);
    batch_release(&embedded->in_flight);
    pending_pool_release(&embedded->pool);
    directory_close(&embedded->dir);
    embedded->magic = 0;
    free(embedded);
}

static void embedded_handle_closed(uv_handle_t *handle)
{
    struct embedded *embedded = embedded_from(handle->data);
    store_closed_fn closed = embedded->closed;
    void *arg = embedded->closed_arg;

    assert(embedded->handles_open > 0);
    if (--embedded->handles_open > 0)
        return;
    assert(!embedded->io.is_busy && !compaction_is_busy(embedded));
    embedded_free(embedded);
    closed(arg);
}

/*
 * Goes on with the closing as far as it can; what is still under way calls again when it is done.
 */
void embedded_close_turn(struct embedded *embedded)
{
    uv_handle_t *check = (uv_handle_t *)&embedded->check;

    if (uv_is_closing(check) || !list_is_empty(&embedded->gathering.pending) || embedded->io.is_busy ||
        compaction_is_busy(embedded))
        return;
    compaction_discard(embedded);
    if (!embedded->is_finished && !embedded->failed) {
        commit_start_finish(embedded);
        if (!embedded->is_finished)
            return;
    }
    uv_close(check, embedded_handle_closed);
    uv_close((uv_handle_t *)&embedded->idle, embedded_handle_closed);
    uv_close((uv_handle_t *)&embedded->sync_timer, embedded_handle_closed);
    uv_close((uv_handle_t *)&embedded->retry_timer, embedded_handle_closed);
    uv_close((uv_handle_t *)&embedded->awake_timer, embedded_handle_closed);
}

void embedded_close(struct store *store, store_closed_fn closed, void *arg)
{
    struct embedded *embedded = embedded_of(store);

    assert(!embedded->is_closing);
    embedded->is_closing = true;
    embedded->closed = closed;
    embedded->closed_arg = arg;
    atomic_store(&embedded->compaction.cancel, true);
    uv_timer_stop(&embedded->sync_timer);
    uv_timer_stop(&embedded->retry_timer);
    embedded_wake(embedded);
}
