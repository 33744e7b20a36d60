/*
 * call_release.c - a call whose last connection has closed: waits for its return, then releases it.
 */
#include <stdlib.h>

#include "base/log.h"
#include "gateway/calls_internal.h"

enum {
    RELEASE_RETRY_MS = 2000,
    RELEASE_PATIENCE_MS = 10 * 60 * 1000, /* at least: after an outage leases last longer than they say */
};

static void calls_look_at_waiting(uv_timer_t *timer);

static void calls_await_first(struct calls *calls)
{
    uint64_t now_ms = uv_now(calls->loop);
    const struct held_call *first;

    if (calls->is_stopping || list_is_empty(&calls->waiting))
        return;
    first = LIST_ENTRY(calls->waiting.next, struct held_call, link);
    (void)uv_timer_start(&calls->wait_timer, calls_look_at_waiting,
                         first->deadline_ms > now_ms ? first->deadline_ms - now_ms : 0, 0);
}

static void call_wait(struct held_call *call, uint64_t delay_ms)
{
    struct calls *calls = call->calls;
    struct list *before = calls->waiting.prev;

    call->phase = CALL_WAITING;
    if (calls->is_stopping) {
        call_go_on(call);
        return;
    }
    call->deadline_ms = uv_now(calls->loop) + delay_ms;
    /* Nearly always the last: all but those that are tried again wait equally long. */
    while (before != &calls->waiting &&
           LIST_ENTRY(before, struct held_call, link)->deadline_ms > call->deadline_ms)
        before = before->prev;
    list_append(before->next, &call->link);
    calls_await_first(calls);
}

/* It was never connected, or it is over: the store hears that we do not carry it, and it is not ours to end.
 */
bool call_is_not_ours(const struct held_call *call)
{
    return call->is_finished || !(call->was_open || call->is_ours);
}

static void call_try_again(struct held_call *call, int err)
{
    call->tries++;
    /* Until the lease has ended the call, whatever the store says then. */
    if (call->calls->is_stopping ||
        call->tries * RELEASE_RETRY_MS > max_u64(call->calls->settings.lease_ttl_ms, RELEASE_PATIENCE_MS)) {
        if (!call_is_not_ours(call))
            log_warn("a call whose connection has closed cannot be released: its lease will end it",
                     log_str("call_sid", call->call_sid), log_str("error", store_error_text(err)));
        call_forget(call);
        return;
    }
    call_wait(call, RELEASE_RETRY_MS);
}

void call_note_release(const struct held_call *call, const struct result *result, const char *reason)
{
    const struct call_info *info = &result->release.call;
    const char *abandoned = wait_end_name(WAIT_ABANDONED);

    if (release_ends_wait(result))
        metrics_observe(metrics_series(call->calls->waits, &abandoned),
                        (double)result->release.waited_ms / 1000);
    store_log_wait_released(result, reason);
    if (result->release.was_waiting)
        return;
    metrics_add(metrics_series(call->calls->releases,
                               (const char *const[]){info->pool, "success", name_of_pool_label(info->pool)}),
                1);
    log_info("call released", log_str("call_sid", call->call_sid), log_str("pod", info->pod),
             log_str("pool", info->pool), log_str("released_to", result->release.released_to),
             log_str("reason", reason));
}

static void call_left(void *arg, int err, const struct result *result)
{
    struct held_call *call = arg;

    MAGIC_CHECK(call, HELD_CALL_MAGIC);
    if (err < 0) {
        call_try_again(call, err);
        return;
    }
    if (result->outcome == OUTCOME_OK)
        call_note_release(call, result, "its connection has closed");
    if (result->outcome == OUTCOME_CONFLICT && !call->was_carried)
        log_info("call not released: somebody else keeps it alive", log_str("call_sid", call->call_sid),
                 log_str("reason", result->error));
    if (result->outcome == OUTCOME_CONFLICT && result->release.is_carried && !call->was_carried &&
        !call->calls->is_stopping) {
        /* By a router that may have died a moment ago: then nobody else would release it. */
        call->was_carried = true;
        call_wait(call, CARRIER_TTL_MS);
        return;
    }
    call_forget(call);
}

/* The store was asked while the call came back. True: it is dealt with. */
static bool call_has_come_back(struct held_call *call)
{
    if (call->holds > 0) {
        call->phase = CALL_HELD;
        return true;
    }
    if (call->has_come_back) {
        if (call->calls->is_leaving)
            call_forget(call); /* it was cut: it may come back to another router */
        else
            call_look(call);
        return true;
    }
    return false;
}

/* Has not come back: it is released, unless somebody else keeps it alive. From here on it is too late. */
static void call_leave(struct held_call *call)
{
    struct command command = {.type = COMMAND_LEAVE,
                              .leave = {.call_sid = call->call_sid,
                                        .carrier = call->calls->carrier,
                                        .expires_at_ms = call->expires_at_ms}};
    int err;

    call->phase = CALL_RELEASING;
    err = call_ask(call, &command, call_left);
    if (err < 0)
        call_try_again(call, err);
}

void call_go_on(struct held_call *call)
{
    list_remove(&call->link);
    if (call_is_not_ours(call))
        call_unhold(call);
    else if (call->expires_at_ms > 0)
        call_leave(call);
    else
        call_look(call); /* there was nothing to compare with yet */
}

static void call_await_return(struct held_call *call, int err)
{
    if (call->expires_at_ms > 0)
        call_wait(call, call->calls->settings.release_grace_ms);
    else
        call_try_again(call, err);
}

static void call_looked(void *arg, int err, const struct result *result)
{
    struct held_call *call = arg;

    MAGIC_CHECK(call, HELD_CALL_MAGIC);
    if (call_has_come_back(call))
        return;
    if (err == 0 && result->outcome != OUTCOME_OK) {
        call_forget(call); /* released by its agent or by the provider's callback */
        return;
    }
    if (err == 0)
        call->expires_at_ms = result->call.call.expires_at_ms;
    call_await_return(call, err);
}

static void call_ask_look(struct held_call *call)
{
    struct command command = {.type = COMMAND_CALL, .call = {.call_sid = call->call_sid}};
    int err = call_ask(call, &command, call_looked);

    if (err < 0)
        call_await_return(call, err);
}

void call_go_on_looking(struct held_call *call)
{
    call->awaits_renewal = false;
    if (!call_has_come_back(call))
        call_ask_look(call);
}

void call_look(struct held_call *call)
{
    call->phase = CALL_LOOKING;
    call->has_come_back = false;
    call->expires_at_ms = 0; /* until the store has said it there is nothing to compare with */
    /* Our own renewal, which a store may carry out in parts, must not be taken for somebody else's. */
    call->awaits_renewal = !list_is_empty(&call->renew_link);
    if (!call->awaits_renewal)
        call_ask_look(call);
}

static void calls_look_at_waiting(uv_timer_t *timer)
{
    struct calls *calls = timer->data;
    uint64_t now_ms = uv_now(calls->loop);

    MAGIC_CHECK(calls, CALLS_MAGIC);
    while (!list_is_empty(&calls->waiting)) {
        struct held_call *first = LIST_ENTRY(calls->waiting.next, struct held_call, link);

        if (first->deadline_ms > now_ms)
            break;
        call_go_on(first);
    }
    calls_await_first(calls);
}

static void call_unheld(void *arg, int err, const struct result *result UNUSED)
{
    struct held_call *call = arg;

    MAGIC_CHECK(call, HELD_CALL_MAGIC);
    if (call->holds > 0)
        call->phase = CALL_HELD; /* and the store has heard so after this */
    else if (err < 0)
        call_try_again(call, err); /* as long as it is taken for ours no other router can end it */
    else
        call_forget(call);
}

void call_unhold(struct held_call *call)
{
    struct command command = {.type = COMMAND_LEAVE,
                              .leave = {.call_sid = call->call_sid, .carrier = call->calls->carrier}};
    int err;

    if (!call->is_in_store) {
        call_forget(call);
        return;
    }
    call->phase = CALL_UNHOLDING;
    err = call_ask(call, &command, call_unheld);
    if (err < 0)
        call_try_again(call, err);
}
