/*
 * task.c - runs one background task: its timer, its steps, its retries, and the time of each
 * answer.
 */
#include "manager/task.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

enum { TASK_MAGIC = 0x7461736b };

static void task_run(struct task *task);

static void task_timer_fired(uv_timer_t *timer)
{
    struct task *task = timer->data;

    MAGIC_CHECK(task, TASK_MAGIC);
    task_run(task);
}

void task_init(struct task *task, uv_loop_t *loop)
{
    int err = uv_timer_init(loop, &task->timer);

    assert(err == 0); /* it never fails */
    task->magic = TASK_MAGIC;
    task->timer.data = task;
    arena_init(&task->arena, TASK_ARENA_MAX);
}

static void task_schedule(struct task *task, uint64_t delay_ms)
{
    int err;

    if (task->is_stopping)
        return;
    err = uv_timer_start(&task->timer, task_timer_fired, delay_ms, 0);
    assert(err == 0); /* it fails only for a closing timer */
}

uint64_t task_backoff_ms(unsigned failures, uint64_t max_ms, uint32_t random)
{
    uint64_t delay_ms = TASK_BACKOFF_MIN_MS;

    assert(failures > 0);
    for (unsigned i = 1; i < failures && delay_ms < max_ms; i++)
        delay_ms *= 2;
    delay_ms = min_u64(delay_ms, max_ms);
    return delay_ms - delay_ms / 2 * random / UINT32_MAX;
}

static void task_failed(struct task *task, const char *error)
{
    uint64_t delay_ms;

    task->failures++;
    metrics_add(task->failures_total, 1);
    delay_ms = task_backoff_ms(task->failures,
                               task->backoff_max_ms ? task->backoff_max_ms : task->interval_ms, random_u32());
    log_warn("background task failed", log_str("task", task->name), log_str("error", error),
             log_str("effect", task->without), log_num("failures", task->failures),
             log_num("retry_ms", (int64_t)delay_ms));
    task_schedule(task, delay_ms);
}

static void task_succeeded(struct task *task)
{
    if (task->failures > 0)
        log_info("background task works again", log_str("task", task->name),
                 log_num("failures", task->failures));
    task->failures = 0;
    task_schedule(task, task->is_kicked ? 0 : task->delay_ms);
}

static void task_closed(uv_handle_t *handle)
{
    struct task *task = handle->data;

    MAGIC_CHECK(task, TASK_MAGIC);
    arena_release(&task->arena);
    task->magic = 0;
    task->stopped(task->stopped_arg);
}

static void task_close(struct task *task)
{
    uv_close((uv_handle_t *)&task->timer, task_closed);
}

static void task_ask(struct task *task);

static void task_observe(const struct task *task)
{
    const char *name = command_name(task->command.type);

    metrics_observe(metrics_series(task->store_durations, &name),
                    (double)(clock_elapsed_ns() - task->asked_ns) / 1e9);
}

static void task_answered(void *arg, int err, const struct result *result)
{
    struct task *task = arg;
    int more = 0;

    MAGIC_CHECK(task, TASK_MAGIC);
    task->is_waiting = false;
    task_observe(task);
    if (err == 0 && (result->outcome == OUTCOME_OK || task->takes_refusals))
        more = task->step(task->arg, result, &task->command);
    else if (err == 0)
        more = -EPROTO;

    /* What was answered has been logged and counted; whoever leads next goes on from there. */
    if (task->is_stopping)
        task_close(task);
    else if (err < 0)
        task_failed(task, store_error_text(err));
    else if (more < 0)
        task_failed(task, result->outcome == OUTCOME_OK ? store_error_text(more)
                          : result->error               ? result->error
                                                        : "the store refused the command");
    else if (more && ++task->steps < TASK_STEPS_MAX)
        task_ask(task);
    else
        task_succeeded(task);
}

static void task_ask(struct task *task)
{
    int err;

    arena_reset(&task->arena);
    task->asked_ns = clock_elapsed_ns();
    err = store_execute(task->store, &task->command, &task->arena, task_answered, task);
    if (err < 0)
        task_failed(task, store_error_text(err));
    else
        task->is_waiting = true;
}

static void task_run(struct task *task)
{
    int some;

    assert(!task->is_waiting);
    assert(!task->is_stopping);
    task->steps = 0;
    task->is_kicked = false;
    task->delay_ms = task->interval_ms;
    some = task->begin(task->arg, &task->command);
    if (some > 0)
        task_ask(task);
    else if (some == 0)
        task_succeeded(task);
    else
        task_failed(task, store_error_text(some));
}

void task_start(struct task *task, uint64_t delay_ms)
{
    if (delay_ms == 0)
        task_run(task);
    else
        task_schedule(task, delay_ms);
}

void task_hurry(struct task *task, uint64_t delay_ms)
{
    if (task->is_waiting)
        task->delay_ms = min_u64(task->delay_ms, delay_ms);
    else if (task->failures == 0 && uv_timer_get_due_in(&task->timer) > delay_ms)
        task_schedule(task, delay_ms);
}

void task_kick(struct task *task)
{
    if (task->is_waiting)
        task->is_kicked = true;
    else if (task->failures == 0)
        task_schedule(task, 0);
}

void task_stop(struct task *task, void (*stopped)(void *arg), void *arg)
{
    assert(!task->is_stopping);
    task->is_stopping = true;
    task->stopped = stopped;
    task->stopped_arg = arg;
    uv_timer_stop(&task->timer);
    if (!task->is_waiting)
        task_close(task);
}
