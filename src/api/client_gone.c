/*
 * client_gone.c - what is done for clients that have closed their connection before they were answered.
 *
 * An allocation is for a client that is there: nobody else would ever use the pod. It is not begun for one
 * that has gone, and undone for one that went meanwhile, unless another request asked for the same call. The
 * end of a connection and the request before it arrive together when this process stood still for longer than
 * its clients wait, so the socket itself is asked, and not what has been read of it.
 *
 * Everything else is carried out for clients that have gone as well. Releases and status callbacks above all:
 * many clients send a release and leave, and providers do not repeat a status callback. What is lost of those
 * keeps a pod busy until its lease ends. A release that is late may meet a call that was released and
 * allocated again meanwhile; who allocates a call a second time names the pod in the release, which protects
 * the new one on another pod.
 */
#include <stdlib.h>

#include "api/api_internal.h"

enum { UNDO_ARENA_MAX = 64 * 1024 };

#define CLIENT_GONE "the client has closed its side of the connection before it was answered"

bool api_refuse_gone(struct api_task *task, const char *call_sid)
{
    if (!http_request_is_abandoned(task->request))
        return false;
    instruments_allocated(task->api->instruments, "", ALLOCATION_CLIENT_GONE);
    log_info("client has gone before its call was allocated", log_str("call_sid", call_sid),
             log_str("key", api_key_name(task->request)),
             log_str("request_id", http_request_id(task->request)));
    http_respond_error(task->request, 503, CLIENT_GONE);
    return true;
}

static void api_count_undone(struct api *api, int err, const struct result *result)
{
    if (err < 0 || result->outcome != OUTCOME_OK || !release_ends_wait(result))
        return;
    store_log_wait_released(result, "its client has gone");
    instruments_waited(api->instruments, WAIT_ABANDONED, result->release.waited_ms);
}

/*
 * A request that waits asks the store several times, and each of these is an attempt of its own: the one that
 * joined the line, and the one that took the pod. Both have to be undone, or the other one keeps the call.
 */
static bool api_undo_needs_more(int err, const struct result *result, uint64_t *waited_attempt,
                                struct command *undo)
{
    if (err < 0 || result->outcome != OUTCOME_CONFLICT || *waited_attempt == 0)
        return false;
    undo->undo.attempt = *waited_attempt;
    *waited_attempt = 0;
    return true;
}

static void api_undone(void *arg, int err, const struct result *result)
{
    struct api_task *task = arg;
    struct command undo = {.type = COMMAND_UNDO};

    MAGIC_CHECK(task, API_TASK_MAGIC);
    if (api_undo_needs_more(err, result, &task->waited_attempt, &undo)) {
        undo.undo.call_sid = task->waited_sid;
        err = store_execute(task->api->store, &undo, http_request_arena(task->request), api_undone, task);
        if (err == 0)
            return;
    }
    api_count_undone(task->api, err, result);
    http_respond_error(task->request, 503, CLIENT_GONE);
}

static struct command undo_of(const struct api_task *task, const struct result *result)
{
    bool waits = result->outcome == OUTCOME_WAITING;
    struct command undo = {.type = COMMAND_UNDO};

    undo.undo.call_sid = waits ? result->allocate.waiting.call_sid : result->allocate.call.call_sid;
    undo.undo.attempt = result->allocate.attempt;
    instruments_allocated(task->api->instruments, "", ALLOCATION_CLIENT_GONE);
    log_info(
        waits ? "client has gone while its call waits: the call leaves the line, unless it asks again"
              : "client has gone before it was answered: its allocation is undone",
        log_str("call_sid", undo.undo.call_sid), log_str("pod", waits ? NULL : result->allocate.call.pod),
        log_str("key", api_key_name(task->request)), log_str("request_id", http_request_id(task->request)));
    return undo;
}

/* An undo that outlives its request. */
struct unsent {
    struct api *api;
    struct arena arena;
    uint64_t waited_attempt;
    char call_sid[CALL_SID_MAX + 1];
};

static void api_undo_unsent_done(void *arg, int err, const struct result *result)
{
    struct unsent *unsent = arg;
    struct command undo = {.type = COMMAND_UNDO};

    if (api_undo_needs_more(err, result, &unsent->waited_attempt, &undo)) {
        undo.undo.call_sid = unsent->call_sid;
        err = store_execute(unsent->api->store, &undo, &unsent->arena, api_undo_unsent_done, unsent);
        if (err == 0)
            return;
    }
    api_count_undone(unsent->api, err, result);
    arena_release(&unsent->arena);
    free(unsent);
}

/* Between the look with the store's answer and the answer itself: a process may be stopped anywhere. */
static void api_undo_unsent(void *arg)
{
    const struct api_task *task = arg;
    struct command undo = undo_of(task, task->allocated);
    struct unsent *unsent = calloc(1, sizeof(*unsent));
    int err;

    MAGIC_CHECK(task, API_TASK_MAGIC);
    if (!unsent)
        return; /* CONNECT_TIMEOUT or the lease ends it */
    unsent->api = task->api;
    unsent->waited_attempt = task->waited_attempt;
    arena_init(&unsent->arena, UNDO_ARENA_MAX);
    memcpy(unsent->call_sid, undo.undo.call_sid, strnlen(undo.undo.call_sid, CALL_SID_MAX));
    undo.undo.call_sid = unsent->call_sid;
    err = store_execute(task->api->store, &undo, &unsent->arena, api_undo_unsent_done, unsent);
    if (err < 0)
        api_undo_unsent_done(unsent, err, NULL);
}

static void api_undo(struct api_task *task, const struct result *result)
{
    struct command undo = undo_of(task, result);
    int err;

    if (task->gone)
        task->gone(task);
    http_request_on_unsent(task->request, NULL, NULL); /* it is undone now, and once */
    err = store_execute(task->api->store, &undo, http_request_arena(task->request), api_undone, task);
    if (err < 0)
        api_undone(task, err, NULL);
}

bool api_undo_gone(struct api_task *task, const struct result *result)
{
    if (task->type != COMMAND_ALLOCATE ||
        (result->outcome != OUTCOME_OK && result->outcome != OUTCOME_WAITING))
        return false;
    if (task->allocated && task->allocated->outcome == OUTCOME_WAITING) {
        task->waited_sid = task->allocated->allocate.waiting.call_sid;
        task->waited_attempt = task->allocated->allocate.attempt;
    }
    if (http_request_is_abandoned(task->request)) {
        api_undo(task, result);
        return true;
    }
    task->allocated = result; /* it is in the arena of the request */
    http_request_on_unsent(task->request, api_undo_unsent, task);
    return false;
}

bool api_undo_waiting(struct api_task *task)
{
    if (!http_request_is_abandoned(task->request))
        return false;
    api_undo(task, task->allocated);
    return true;
}
