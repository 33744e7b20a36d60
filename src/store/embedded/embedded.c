/*
 * embedded.c - executes commands on core, gathers their records, and answers them after the
 * commit.
 *
 * Opening and closing are in opening.c and closing.c.
 */
#include "store/embedded/embedded.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/embedded/bound.h"
#include "store/embedded/embedded_internal.h"

uint64_t embedded_now(const struct embedded *embedded)
{
    return embedded->clock_start_ms + (clock_elapsed_ms() - embedded->clock_elapsed_ms);
}

struct core *embedded_core(struct store *store)
{
    return embedded_of(store)->core;
}

/*
 * Was the process stopped, or the machine asleep? The timers then run before the sockets are read, and a
 * sweep must not take everybody for silent whose word is waiting in a socket.
 */
static void embedded_notice_pause(struct embedded *embedded, uint64_t now_ms)
{
    if (now_ms - embedded->awake_at_ms > EMBEDDED_PAUSE_MS) {
        log_warn("the process did not run for a while: nobody is taken for silent because of that",
                 log_num("pause_ms", (int64_t)(now_ms - embedded->awake_at_ms)));
        core_listens_again(embedded->core, now_ms);
    }
    embedded->awake_at_ms = now_ms;
}

void embedded_awake(uv_timer_t *timer)
{
    struct embedded *embedded = timer->data;

    embedded_notice_pause(embedded, embedded_now(embedded));
    commit_check_files(embedded);
}

void embedded_add_record(void *arg, const struct record *record)
{
    struct embedded *embedded = arg;

    /* After a failure the log no longer takes anything; the snapshot that repairs it holds this as well. */
    if (!embedded->failed)
        batch_add(&embedded->gathering, record);
}

void embedded_wake(struct embedded *embedded)
{
    if (!uv_is_active((uv_handle_t *)&embedded->idle))
        uv_idle_start(&embedded->idle, embedded_idled);
}

/* An active idle handle is all that is wanted: with it the loop does not wait in poll. */
void embedded_idled(uv_idle_t *idle)
{
    (void)idle;
}

/* They give pods back, or keep a caller who is about to connect; and they add little. */
static bool embedded_is_for_full_disk(enum command_type type)
{
    return type == COMMAND_RELEASE || type == COMMAND_LEAVE || type == COMMAND_UNDO || type == COMMAND_HOLD;
}

/* May a command that changes something be carried out now? 0, or why not. */
static int embedded_admit(struct embedded *embedded, const struct command *command)
{
    size_t bound;
    int r;

    if (embedded->failed)
        return embedded->failed;
    bound = bound_effects(command, embedded->core);
    /* On a full disk there is still what was reserved before. */
    if (embedded->is_full && !embedded_is_for_full_disk(command->type))
        return -ENOSPC;
    r = commit_reserve(embedded, bound);
    if (r < 0)
        return r;
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
        int r = embedded_admit(embedded, command);

        if (r < 0)
            return r;
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
    int r;

    embedded->stats.commands++;
    r = embedded_start(embedded, command, arena, done, arg);
    if (r < 0)
        embedded->stats.errors++;
    return r;
}

void embedded_answer(struct embedded *embedded, struct list *pending, int err)
{
    while (!list_is_empty(pending)) {
        struct pending *first = LIST_ENTRY(pending->next, struct pending, link);
        struct pending copy = *first;
        int answer = err ? err : copy.err;

        list_remove(&first->link);
        pending_put(&embedded->pool, first);
        if (answer)
            embedded->stats.errors++;
        copy.done(copy.arg, answer, answer ? NULL : copy.result);
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
    /* The callbacks may have started more commands; those gathered behind a batch in flight wait for it. */
    if (list_is_empty(&batch->pending) || (embedded->io.is_busy && embedded->io.kind == IO_COMMIT))
        uv_idle_stop(&embedded->idle);
    if (embedded->is_closing)
        embedded_close_turn(embedded);
}

void embedded_checked(uv_check_t *check)
{
    struct embedded *embedded = check->data;

    if (uv_is_active((uv_handle_t *)&embedded->idle))
        embedded_turn(embedded);
}

static void embedded_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    core_on_ended(embedded_of(store)->core, fn, arg);
}

static void embedded_on_over(struct store *store, call_over_fn fn, void *arg)
{
    core_on_over(embedded_of(store)->core, fn, arg);
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
    .on_over = embedded_on_over,
    .health = embedded_health,
    .stats = embedded_stats,
    .close = embedded_close,
};
