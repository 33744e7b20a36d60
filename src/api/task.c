/*
 * task.c - carries one request through the store: makes the task, executes its command, and
 * reports failures.
 */
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/log.h"

void *api_task_new(struct api *api, struct http_request *request, size_t size,
                   void (*stored)(struct api_task *task, const struct result *result))
{
    struct api_task *task;

    assert(size >= sizeof(*task));
    task = arena_alloc(http_request_arena(request), size);
    if (!task) {
        api_reply_no_memory(request);
        return NULL;
    }
    memset(task, 0, size);
    task->magic = API_TASK_MAGIC;
    task->api = api;
    task->request = request;
    task->stored = stored;
    return task;
}

int64_t api_task_us(const struct api_task *task)
{
    return (int64_t)((task->answered_ns - http_request_started_ns(task->request)) / 1000);
}

static void api_fail(struct api_task *task, int err)
{
    if (task->failed) {
        task->failed(task, err);
        return;
    }
    /* -ENOMEM: more was asked for than fits; that 500 is logged like any other. */
    if (err != -ENOMEM)
        log_warn("a request was refused: the store cannot answer",
                 log_str("route", http_request_route(task->request)->pattern),
                 log_str("cause", store_error_text(err)),
                 log_str("request_id", http_request_id(task->request)),
                 log_num("duration_us", api_task_us(task)));
    api_reply_failure(task->request, err);
}

static void api_execute_stored(void *arg, int err, const struct result *result)
{
    struct api_task *task = arg;

    MAGIC_CHECK(task, API_TASK_MAGIC);
    task->answered_ns = clock_elapsed_ns();
    instruments_asked(task->api->instruments, task->type, task->answered_ns - task->asked_ns);
    if (err < 0)
        api_fail(task, err);
    else if (!api_undo_gone(task, result))
        task->stored(task, result);
}

void api_execute(struct api_task *task, const struct command *command)
{
    int err;

    task->type = command->type;
    task->asked_ns = clock_elapsed_ns();
    err =
        store_execute(task->api->store, command, http_request_arena(task->request), api_execute_stored, task);
    if (err < 0) {
        task->answered_ns = task->asked_ns;
        api_fail(task, err);
    }
}
