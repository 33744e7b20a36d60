/*
 * calls.c - the calls with a connection, open or being opened: holding them, and taking all down at the end.
 *
 * call_renewal.c renews them, and call_release.c releases them after their last connection.
 */
#include "gateway/calls.h"

#include <stdlib.h>

#include "base/log.h"
#include "gateway/calls_internal.h"

enum {
    CALL_ARENA_MAX = 64 * 1024,
    RENEW_ARENA_MAX = 4 * 1024 * 1024,
};

struct held_call *calls_find(const struct calls *calls, const char *call_sid)
{
    struct map_node *node = map_get(&calls->by_sid, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct held_call, node) : NULL;
}

void call_forget(struct held_call *call)
{
    struct calls *calls = call->calls;

    assert(call->holds == 0);
    list_remove(&call->link);
    list_remove(&call->due_link);
    list_remove(&call->renew_link);
    if (call_has_errand(call))
        return;
    list_remove(&call->errand.link);
    arena_release(&call->errand.arena);
    map_remove(&calls->by_sid, &call->node);
    arena_release(&call->arena);
    call->magic = 0;
    free(call);
    calls_go_if_stopped(calls);
}

int call_ask(struct held_call *call, const struct command *command, store_done_fn done)
{
    arena_reset(&call->arena);
    return ask_store(call->calls->asker, &call->ask, command, &call->arena, done, call);
}

enum call_contact calls_contact(const struct calls *calls, const char *call_sid)
{
    const struct held_call *call = calls_find(calls, call_sid);

    return !call ? CALL_NOT_SEEN : call->holds > 0 ? CALL_CONNECTED : CALL_LEFT;
}

size_t calls_count(const struct calls *calls)
{
    return calls->by_sid.count;
}

int calls_hold(struct calls *calls, const char *call_sid, struct held_call **ret_call)
{
    struct held_call *call = calls_find(calls, call_sid);

    if (call && (call->phase == CALL_RELEASING || call->errand.wants_end))
        return -EALREADY;
    if (call && call->errand.is_forgotten) {
        call->errand.is_forgotten = false;
        call->phase = CALL_HELD;
    }
    if (!call) {
        if (map_reserve(&calls->by_sid) < 0)
            return -ENOMEM;
        call = calloc(1, sizeof(*call));
        if (!call)
            return -ENOMEM;
        call->magic = HELD_CALL_MAGIC;
        call->calls = calls;
        list_init(&call->link);
        list_init(&call->due_link);
        list_init(&call->renew_link);
        list_init(&call->errand.link);
        arena_init(&call->arena, CALL_ARENA_MAX);
        arena_init(&call->errand.arena, CALL_ARENA_MAX);
        assert(strlen(call_sid) <= CALL_SID_MAX);
        memcpy(call->call_sid, call_sid, strlen(call_sid) + 1);
        map_put(&calls->by_sid, &call->node, call->call_sid, strlen(call->call_sid));
    }
    if (call->phase == CALL_WAITING) {
        list_remove(&call->link);
        call->phase = CALL_HELD;
    }
    if (call->holds == 0) {
        call->is_finished = false; /* if it still is, the store will say so */
        call->is_displaced = false;
    }
    call->has_come_back = true;
    call->was_carried = false;
    call->tries = 0;
    call->holds++;
    *ret_call = call;
    return 0;
}

struct command calls_hold_command(struct held_call *call)
{
    return (struct command){.type = COMMAND_HOLD,
                            .hold = {.call_sid = call->call_sid, .carrier = call->calls->carrier}};
}

void calls_hold_asked(struct held_call *call)
{
    call->is_in_store = true; /* whatever the answer: it may be lost */
    /* An end of our own that the store has not confirmed yet may come after this question. */
    call->may_begin_anew = call->is_finished && !call->errand.wants_end && !call->errand.is_asking;
}

void calls_moved(struct held_call *call, const char *pod)
{
    assert(strlen(pod) <= POD_NAME_MAX);
    if (strcmp(call->pod, pod) == 0)
        return;
    memcpy(call->pod, pod, strlen(pod) + 1);
    call->has_moved = true;
    if (call->open > 0)
        call->calls->settings.on_moved(call->calls->settings.arg, call, call->pod);
}

void calls_found(struct held_call *call, const struct call_info *info, bool was_connected)
{
    /* A store that does not know it has lost the call, and somebody who does not know it has brought it back.
     */
    if (name_is_provider(info->provider, strlen(info->provider)))
        memcpy(call->provider, info->provider, strlen(info->provider) + 1);
    calls_moved(call, info->pod);
    call->was_open |= was_connected;
    if (call->is_displaced || call->may_begin_anew) {
        /* What was closed was somewhere else, or of an earlier call; here it may be opened. */
        call->is_displaced = false;
        call->may_begin_anew = false;
        call->is_finished = false;
    }
}

size_t calls_connections(const struct held_call *call)
{
    return call->holds;
}

bool calls_is_on(const struct held_call *call, const char *pod)
{
    return strcmp(call->pod, pod) == 0;
}

bool calls_is_finished(const struct held_call *call)
{
    return call->is_finished;
}

bool calls_is_displaced(const struct held_call *call)
{
    return call->is_finished && call->is_displaced;
}

unsigned calls_open(const struct held_call *call)
{
    return call->open;
}

unsigned calls_resumed(const struct held_call *call)
{
    return call->was_open ? call->resumed + 1 : 0;
}

void calls_recall(struct held_call *call, unsigned resumed)
{
    assert(resumed > 0);
    call->was_open = true;
    if (call->resumed < resumed - 1)
        call->resumed = resumed - 1;
}

void calls_reopened(struct held_call *call)
{
    call->resumed = calls_resumed(call);
    call->was_open = true;
    call->is_unknown = false;
    call_make_due(call);
    calls_renew_due(call->calls);
}

void calls_opened(struct held_call *call, bool can_move)
{
    call->movable += can_move;
    if (call->open++ == 0)
        list_append(&call->calls->open, &call->link);
    calls_reopened(call);
}

void calls_own(struct held_call *call)
{
    call->is_ours = true;
}

void calls_drop(struct held_call *call, struct call_drop how)
{
    assert(call->holds > 0);
    assert(!how.was_open || call->open > 0);
    call->holds--;
    if (how.was_open && how.could_move)
        call->movable--;
    if (how.was_open && --call->open == 0) {
        list_remove(&call->link);
        list_remove(&call->due_link);
    } else if (how.was_open && call->movable > 0) {
        /* What is left is the only one now: the store is to know that it can move. */
        call_make_due(call);
        calls_renew_due(call->calls);
    }
    if (call->holds > 0 || call->phase != CALL_HELD)
        return; /* the answer that is under way goes on from here */
    if (call->calls->is_leaving || how.waits || how.comes_back)
        call_forget(call);
    else if (call_is_not_ours(call))
        call_unhold(call);
    else
        call_look(call);
}

/* Building up and taking down. */

int calls_new(uv_loop_t *loop, const struct calls_settings *settings, const struct asker *asker,
              struct metrics *metrics, struct calls **ret_calls)
{
    struct calls *calls = calloc(1, sizeof(*calls));

    if (!calls)
        return -ENOMEM;
    calls->releases = metrics_releases(metrics);
    calls->waits = metrics_waits(metrics);
    if (!calls->releases || !calls->waits) {
        free(calls);
        return -ENOMEM;
    }
    calls->magic = CALLS_MAGIC;
    calls->loop = loop;
    calls->settings = *settings;
    calls->asker = asker;
    map_init(&calls->by_sid);
    list_init(&calls->open);
    list_init(&calls->due);
    list_init(&calls->being_renewed);
    list_init(&calls->waiting);
    arena_init(&calls->renew_arena, RENEW_ARENA_MAX);
    (void)uv_timer_init(loop, &calls->wait_timer);
    (void)uv_timer_init(loop, &calls->renew_timer);
    (void)uv_timer_init(loop, &calls->unknown_timer);
    (void)uv_timer_init(loop, &calls->errand_timer);
    list_init(&calls->errands);
    calls->errand_timer.data = calls;
    calls->wait_timer.data = calls;
    calls->renew_timer.data = calls;
    calls->unknown_timer.data = calls;
    calls->handles = 4;
    calls->carrier = settings->carrier;
    calls_await_renewal(calls, settings->lease_ttl_ms / 3);
    *ret_calls = calls;
    return 0;
}

static void calls_handle_closed(uv_handle_t *handle)
{
    struct calls *calls = handle->data;
    void (*stopped)(void *arg) = calls->stopped;
    void *arg = calls->stopped_arg;

    MAGIC_CHECK(calls, CALLS_MAGIC);
    if (--calls->handles > 0)
        return;
    map_release(&calls->by_sid);
    arena_release(&calls->renew_arena);
    calls->magic = 0;
    free(calls);
    stopped(arg);
}

void calls_go_if_stopped(struct calls *calls)
{
    if (!calls->is_stopping || calls->by_sid.count > 0 || calls->renewing > 0 ||
        uv_is_closing((uv_handle_t *)&calls->wait_timer))
        return;
    uv_close((uv_handle_t *)&calls->wait_timer, calls_handle_closed);
    uv_close((uv_handle_t *)&calls->renew_timer, calls_handle_closed);
    uv_close((uv_handle_t *)&calls->unknown_timer, calls_handle_closed);
    uv_close((uv_handle_t *)&calls->errand_timer, calls_handle_closed);
}

void calls_leave(struct calls *calls)
{
    calls->is_leaving = true;
}

void calls_stop(struct calls *calls, void (*stopped)(void *arg), void *arg)
{
    assert(calls->is_leaving && !calls->is_stopping);
    calls->is_stopping = true;
    calls->stopped = stopped;
    calls->stopped_arg = arg;
    (void)uv_timer_stop(&calls->wait_timer);
    (void)uv_timer_stop(&calls->renew_timer);
    (void)uv_timer_stop(&calls->unknown_timer);
    while (!list_is_empty(&calls->waiting))
        call_go_on(LIST_ENTRY(calls->waiting.next, struct held_call, link));
    calls_end_errands(calls);
    calls_go_if_stopped(calls);
}
