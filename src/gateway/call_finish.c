/*
 * call_finish.c - errands: what a call with open connections needs from the store at once. Its end, when that
 * was seen on a connection; or its place, when something has happened to it.
 *
 * An errand runs beside the phases of a call. It is tried again until the store has answered.
 */
#include <stdlib.h>

#include "base/log.h"
#include "gateway/calls_internal.h"

enum {
    ERRAND_RETRY_MS = 1000,
    ERRAND_TRIES_MAX = 600, /* then the lease has ended the call, or will */
};

bool call_can_move(const struct held_call *call)
{
    return call->open == 1 && call->movable == 1 && !call->is_finished;
}

static void call_run_errand(struct held_call *call);

static void calls_run_errands(uv_timer_t *timer)
{
    struct calls *calls = timer->data;
    struct list now;

    MAGIC_CHECK(calls, CALLS_MAGIC);
    list_init(&now);
    list_move(&now, &calls->errands);
    while (!list_is_empty(&now)) {
        struct held_call *call = LIST_ENTRY(now.next, struct held_call, errand.link);

        list_remove(&call->errand.link);
        call_run_errand(call);
    }
}

static void calls_await_errands(struct calls *calls, uint64_t delay_ms)
{
    uint64_t due_ms = uv_timer_get_due_in(&calls->errand_timer);

    if (!uv_is_active((uv_handle_t *)&calls->errand_timer) || due_ms > delay_ms)
        (void)uv_timer_start(&calls->errand_timer, calls_run_errands, delay_ms, 0);
}

static void call_add_errand(struct held_call *call, uint64_t delay_ms)
{
    if (call->errand.is_asking)
        return; /* the answer goes on from there */
    list_remove(&call->errand.link);
    list_append(&call->calls->errands, &call->errand.link);
    calls_await_errands(call->calls, delay_ms);
}

static void call_try_errand_again(struct held_call *call, int err)
{
    if (!call->calls->is_stopping && ++call->errand.tries < ERRAND_TRIES_MAX) {
        call_add_errand(call, ERRAND_RETRY_MS);
        return;
    }
    if (call->errand.wants_end)
        log_warn("a call that has ended cannot be released: its lease will end it",
                 log_str("call_sid", call->call_sid), log_str("error", store_error_text(err)));
    call->errand.wants_end = false;
    call->errand.wants_place = false;
}

/* The store has answered, or has been asked often enough. */
static void call_end_errand(struct held_call *call)
{
    if (!list_is_empty(&call->errand.link))
        return; /* it is tried again */
    if (call->errand.wants_end || call->errand.wants_place) {
        call_add_errand(call, 0); /* one was wanted while the other was asked for */
        return;
    }
    call->errand.tries = 0;
    arena_release(&call->errand.arena);
    if (call->errand.is_forgotten)
        call_forget(call);
}

static void call_finished(void *arg, int err, const struct result *result)
{
    struct held_call *call = arg;

    MAGIC_CHECK(call, HELD_CALL_MAGIC);
    call->errand.is_asking = false;
    if (err < 0) {
        call_try_errand_again(call, err);
    } else {
        call->errand.wants_end = false;
        call->is_in_store = false; /* there is nothing left to carry */
        if (result->outcome == OUTCOME_OK)
            call_note_release(call, result, call->errand.reason);
    }
    call_end_errand(call);
}

static void call_place_is_known(struct held_call *call, const struct result *result)
{
    struct calls *calls = call->calls;

    switch (result->outcome) {
    case OUTCOME_OK:
        calls_found(call, &result->hold.call, result->hold.was_connected);
        break;
    case OUTCOME_WAITING:
        calls->settings.on_waiting(calls->settings.arg, call, &result->hold.waiting);
        break;
    default:
        /* A call that is merely lost is adopted by its renewal. */
        if (result->outcome == OUTCOME_NOT_FOUND && result->hold.has_ended)
            call_set_finished(call, "it was ended elsewhere");
        else if (call->is_displaced)
            call_set_displaced(call);
        else
            calls_lost(calls, call->call_sid);
        break;
    }
}

static void call_placed(void *arg, int err, const struct result *result)
{
    struct held_call *call = arg;

    MAGIC_CHECK(call, HELD_CALL_MAGIC);
    if (err == 0) {
        /* Still asking, as it were: what is told may be the last of the call's connections. */
        call->errand.wants_place = false;
        if (call->open > 0 && !call->is_finished)
            call_place_is_known(call, result);
    }
    call->errand.is_asking = false;
    if (err < 0)
        call_try_errand_again(call, err);
    call_end_errand(call);
}

static void call_run_errand(struct held_call *call)
{
    struct calls *calls = call->calls;
    const struct command finish = {.type = COMMAND_RELEASE,
                                   .release = {.call_sid = call->call_sid, .why = FINISH_CLOSED}};
    const struct command hold = calls_hold_command(call);
    bool is_end = call->errand.wants_end;
    int err;

    assert(!call->errand.is_asking);
    if (!is_end && (call->open == 0 || call->is_finished))
        call->errand.wants_place = false;
    if (!is_end && !call->errand.wants_place) {
        call_end_errand(call);
        return;
    }
    arena_reset(&call->errand.arena);
    err = ask_store(calls->asker, &call->errand.ask, is_end ? &finish : &hold, &call->errand.arena,
                    is_end ? call_finished : call_placed, call);
    call->errand.is_asking = err == 0;
    if (err == 0)
        return;
    call_try_errand_again(call, err);
    call_end_errand(call);
}

void calls_finish(struct held_call *call, const char *reason)
{
    if (call->is_finished)
        return;
    call->is_finished = true;
    call->is_displaced = false;
    call->errand.reason = reason;
    call->errand.wants_end = true;
    if (!call->errand.is_asking) {
        list_remove(&call->errand.link);
        call_run_errand(call);
    }
}

void call_ask_place(struct held_call *call)
{
    call->errand.wants_place = true;
    call_add_errand(call, 0);
}

void calls_changed(struct calls *calls, const char *call_sid)
{
    struct held_call *call = calls_find(calls, call_sid);

    if (call && call_can_move(call) && !calls->is_stopping)
        call_ask_place(call);
}

bool call_has_errand(struct held_call *call)
{
    call->errand.wants_place = false;
    call->errand.is_forgotten = call->errand.is_asking || call->errand.wants_end;
    return call->errand.is_forgotten;
}

void calls_end_errands(struct calls *calls)
{
    (void)uv_timer_stop(&calls->errand_timer);
    calls_run_errands(&calls->errand_timer);
}
