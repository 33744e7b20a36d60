/*
 * embedded.c - executes commands on core, gathers their records, and answers them after the
 * commit.
 *
 * Opening and closing are in open.c and closing.c.
 */
#include "store/embedded/embedded.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/log_size.h"

uint64_t embedded_now(const struct embedded *embedded)
{
    return embedded->clock_start_ms + (clock_elapsed_ms() - embedded->clock_elapsed_ms);
}

struct core *embedded_core(struct store *store)
{
    return embedded_of(store)->core;
}

/*
 * Was the process stopped, or the machine asleep? The timers then run before the sockets are read.
 * A sweep must not end calls and pods whose renewals and heartbeats wait in a socket.
 */
static void embedded_notice_pause(struct embedded *embedded, uint64_t now_ms)
{
    uint64_t pause_ms = now_ms - embedded->awake_at_ms;
    char message[128];

    if (pause_ms > EMBEDDED_PAUSE_MS) {
        snprintf(message, sizeof(message),
                 "this process was paused for %.1f s: calls are kept for LEASE_TTL, pods for HEARTBEAT_TTL",
                 (double)pause_ms / 1000);
        log_warn(message, log_num("pause_ms", (int64_t)pause_ms));
        core_after_outage(embedded->core, now_ms);
    }
    embedded->awake_at_ms = now_ms;
}

void embedded_awake(uv_timer_t *timer)
{
    struct embedded *embedded = embedded_from(timer->data);

    embedded_notice_pause(embedded, embedded_now(embedded));
    commit_check_files(embedded);
}

void embedded_add_record(void *arg, const struct record *record)
{
    struct embedded *embedded = embedded_from(arg);

    /* A failed log takes no records. The snapshot that repairs it contains these changes. */
    if (!embedded->failed)
        batch_add(&embedded->gathering, record);
}

void embedded_wake(struct embedded *embedded)
{
    if (!uv_is_active((uv_handle_t *)&embedded->idle))
        uv_idle_start(&embedded->idle, embedded_idled);
}

/* Does nothing: while the handle is active, the loop does not wait in poll. */
void embedded_idled(uv_idle_t *idle)
{
    (void)idle;
}

/* May a command that changes something be executed now? 0, or a negative errno: the reason. */
static int embedded_admit(struct embedded *embedded, const struct command *command)
{
    size_t bound;
    int err;

    if (embedded->failed)
        return embedded->failed;
    bound = log_size_max(command, embedded->core);
    /* On a full disk, the space that was reserved before is left. */
    if (embedded->is_full && !command_is_urgent(command->type))
        return -ENOSPC;
    err = commit_reserve(embedded, bound);
    if (err < 0)
        return err;
    return batch_reserve(&embedded->gathering, bound);
}

static int embedded_start(struct embedded *embedded, const struct command *command, struct arena *arena,
                          store_done_fn done, void *arg)
{
    uint64_t now_ms = embedded_now(embedded);
    struct pending *pending;
    struct result *result;

    if (embedded->is_closing)
        return -ECANCELED;
    embedded_notice_pause(embedded, now_ms);
    if (!command_only_looks(command->type)) {
        int err = embedded_admit(embedded, command);

        if (err < 0)
            return err;
    }
    result = arena_alloc(arena, sizeof(*result));
    if (!result)
        return -ENOMEM;
    pending = pending_get(&embedded->pool);
    if (!pending)
        return -EBUSY;
    pending->type = command->type;
    pending->result = result;
    pending->done = done;
    pending->arg = arg;
    pending->err = core_execute(embedded->core, command, now_ms, arena, result);
    list_append(&embedded->gathering.pending, &pending->link);
    embedded_wake(embedded);
    return 0;
}

static int embedded_execute(struct store *store, const struct command *command, struct arena *arena,
                            store_done_fn done, void *arg)
{
    struct embedded *embedded = embedded_of(store);
    int err;

    embedded->stats.commands++;
    err = embedded_start(embedded, command, arena, done, arg);
    if (err < 0)
        embedded->stats.errors++;
    return err;
}

void embedded_answer(struct embedded *embedded, struct list *pending, int err)
{
    while (!list_is_empty(pending)) {
        struct pending *first = LIST_ENTRY(pending->next, struct pending, link);
        struct pending copy = *first;
        int answer = err < 0 ? err : copy.err;

        assert(copy.done && copy.result);
        list_remove(&first->link);
        pending_put(&embedded->pool, first);
        if (answer < 0)
            embedded->stats.errors++;
        copy.done(copy.arg, answer, answer < 0 ? NULL : copy.result);
    }
}

void embedded_turn(struct embedded *embedded)
{
    struct batch *batch = &embedded->gathering;

    if (!list_is_empty(&batch->pending) || batch->records) {
        if (embedded->fsync != EMBEDDED_FSYNC_ALWAYS)
            commit_now(embedded);
        else if (!embedded->io.is_busy)
            commit_start(embedded);
    }
    compaction_turn(embedded);
    /* The callbacks may have started more commands. They wait while a batch is in flight. */
    if (list_is_empty(&batch->pending) || (embedded->io.is_busy && embedded->io.kind == IO_COMMIT))
        uv_idle_stop(&embedded->idle);
    if (embedded->is_closing)
        embedded_close_turn(embedded);
}

void embedded_checked(uv_check_t *check)
{
    struct embedded *embedded = embedded_from(check->data);

    if (uv_is_active((uv_handle_t *)&embedded->idle))
        embedded_turn(embedded);
}

static void embedded_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    core_on_ended(embedded_of(store)->core, fn, arg);
}

static void embedded_on_finished(struct store *store, call_finished_fn fn, void *arg)
{
    core_on_finished(embedded_of(store)->core, fn, arg);
}

static void embedded_on_changed(struct store *store, call_changed_fn fn, void *arg)
{
    core_on_changed(embedded_of(store)->core, fn, arg);
}

static void embedded_health(const struct store *store, struct store_health *ret_health)
{
    const struct embedded *embedded = CONTAINER_OF(store, struct embedded, store);

    *ret_health = (struct store_health){
        .is_ready = !embedded->failed && !embedded->is_full && !embedded->is_closing,
        .name = "embedded",
        .detail = embedded->is_closing ? "the store is closing" : embedded->detail,
    };
}

static void embedded_stats(const struct store *store, struct store_stats *ret_stats)
{
    const struct embedded *embedded = CONTAINER_OF(store, struct embedded, store);

    *ret_stats = embedded->stats;
}

const struct store_ops embedded_ops = {
    .execute = embedded_execute,
    .on_ended = embedded_on_ended,
    .on_finished = embedded_on_finished,
    .on_changed = embedded_on_changed,
    .health = embedded_health,
    .stats = embedded_stats,
    .close = embedded_close,
};
