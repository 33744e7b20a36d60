/*
 * call_renewal.c - renews the leases of calls with open streams, all together, and learns which of them are
 * over.
 */
#include <stdlib.h>

#include "base/log.h"
#include "gateway/calls_internal.h"

enum {
    RENEW_RETRY_MS = 2000,
    UNKNOWN_RETRY_MS = 500, /* until then another call can get the pod */
};

void call_make_due(struct held_call *call)
{
    list_remove(&call->due_link);
    list_append(&call->calls->due, &call->due_link);
}

static void calls_note_unknown(struct calls *calls, const char *call_sid)
{
    struct held_call *call = calls_find(calls, call_sid);

    /* The store has lost its pod as well: when that is there again a renewal brings the call back. */
    if (!call || call->open == 0)
        return;
    if (!call->is_unknown)
        log_warn("a call with an open connection is not in the store: it goes on, and is stored again when "
                 "its pod is",
                 log_str("call_sid", call_sid));
    call->is_unknown = true;
}

static void calls_note_known(struct calls *calls, const struct name_array *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct held_call *call = calls_find(calls, names->names[i]);

        if (call)
            call->is_unknown = false;
    }
}

static void calls_renew_unknown(uv_timer_t *timer)
{
    struct calls *calls = timer->data;

    MAGIC_CHECK(calls, CALLS_MAGIC);
    LIST_FOR_EACH (link, &calls->open) {
        struct held_call *call = LIST_ENTRY(link, struct held_call, link);

        if (!call->is_unknown)
            continue;
        call_make_due(call);
    }
    calls_renew_due(calls);
}

/*
 * After the store has lost everything, its pods come back as free ones: those that have a connection must be
 * taken again at once, not a third of a lease later.
 */
static void calls_await_known(struct calls *calls)
{
    if (!calls->is_stopping)
        (void)uv_timer_start(&calls->unknown_timer, calls_renew_unknown, UNKNOWN_RETRY_MS, 0);
}

static void call_set_over(struct held_call *call, const char *reason, bool is_displaced)
{
    struct calls *calls = call->calls;

    call->is_displaced = is_displaced;
    if (call->is_finished)
        return;
    call->is_finished = true;
    if (call->holds == 0)
        return;
    log_info("call is over: its connections are closed", log_str("call_sid", call->call_sid),
             log_str("pod", call->pod), log_str("reason", reason));
    calls->settings.on_finished(calls->settings.arg, call);
}

void call_set_finished(struct held_call *call, const char *reason)
{
    call_set_over(call, reason, false);
}

static void calls_note_finished(struct calls *calls, const struct name_array *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct held_call *call = calls_find(calls, names->names[i]);

        if (call)
            call_set_finished(call, "it was ended elsewhere");
    }
}

void call_set_displaced(struct held_call *call)
{
    bool has_ended = call->is_finished && !call->is_displaced;

    call_set_over(call, "another call has its slot, or it is on another pod", !has_ended);
}

static void calls_note_conflicts(struct calls *calls, const struct name_array *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct held_call *call = calls_find(calls, names->names[i]);

        if (call && call->has_moved && call->open > 0) {
            /* It was asked for where it has been: the next renewal names the pod that it is on now. */
            call_make_due(call);
        } else if (call && !call->has_moved && call_can_move(call)) {
            call->is_displaced = true;
            call_ask_place(call);
        } else if (call && !call->has_moved) {
            call_set_displaced(call);
        }
    }
}

void calls_ended(struct calls *calls, const char *call_sid)
{
    struct held_call *call = calls_find(calls, call_sid);

    if (call)
        call_set_finished(call, "it was released");
}

void calls_may_have_ended(struct calls *calls, const char *call_sid)
{
    struct held_call *call = calls_find(calls, call_sid);

    /* What is being opened is renewed once it is open. */
    if (!call || call->open == 0)
        return;
    call_make_due(call);
    calls_renew_due(calls);
}

void calls_lost(struct calls *calls, const char *call_sid)
{
    struct held_call *call = calls_find(calls, call_sid);

    if (!call || call->open == 0 || calls->is_stopping)
        return;
    call->is_unknown = true;
    (void)uv_timer_start(&calls->unknown_timer, calls_renew_unknown, 0, 0);
}

static void calls_note_adopted(const struct result *result)
{
    for (size_t i = 0; i < result->renew.adopted.count; i++)
        log_warn("a call with an open connection was not in the store any more, and is again",
                 log_str("call_sid", result->renew.adopted.names[i]));
}

static void calls_end_renewal(struct calls *calls)
{
    calls->renewing = 0;
    arena_reset(&calls->renew_arena);
    while (!list_is_empty(&calls->being_renewed)) {
        struct held_call *call = LIST_ENTRY(calls->being_renewed.next, struct held_call, renew_link);

        list_remove(&call->renew_link);
        if (call->awaits_renewal)
            call_go_on_looking(call);
    }
}

static void calls_renewed(void *arg, int err, const struct result *result)
{
    struct calls *calls = arg;

    MAGIC_CHECK(calls, CALLS_MAGIC);
    if (err == 0 && result->outcome == OUTCOME_OK) {
        for (size_t i = 0; i < result->renew.unknown.count; i++)
            calls_note_unknown(calls, result->renew.unknown.names[i]);
        if (result->renew.unknown.count > 0)
            calls_await_known(calls);
        calls_note_known(calls, &result->renew.renewed);
        calls_note_known(calls, &result->renew.adopted);
        calls_note_adopted(result);
        calls_note_finished(calls, &result->renew.finished);
        calls_note_conflicts(calls, &result->renew.conflicts);
    } else {
        log_warn(
            "leases of calls with open connections cannot be renewed: it is tried again, and the calls go on",
            log_num("calls", (int64_t)calls->renewing),
            log_str("error", err < 0 ? store_error_text(err) : result->error));
        calls_await_renewal(calls, min_u64(RENEW_RETRY_MS, calls->settings.lease_ttl_ms / 3));
    }
    calls_end_renewal(calls);
    calls_renew_due(calls);
    calls_go_if_stopped(calls);
}

/* One question for all that are due, up to SIDS_MAX; the rest follows the answer. */
void calls_renew_due(struct calls *calls)
{
    const char **sids;
    const char **pods;
    const char **providers;
    bool *can_move;
    struct command command = {.type = COMMAND_RENEW};
    size_t count = 0;
    int err = 0;

    if (calls->renewing > 0 || calls->is_stopping || list_is_empty(&calls->due))
        return;
    sids = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*sids));
    pods = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*pods));
    providers = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*providers));
    can_move = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*can_move));
    while (sids && pods && providers && can_move && count < SIDS_MAX && !list_is_empty(&calls->due)) {
        struct held_call *call = LIST_ENTRY(calls->due.next, struct held_call, due_link);

        sids[count] = arena_strdup(&calls->renew_arena, call->call_sid);
        pods[count] = arena_strdup(&calls->renew_arena, call->pod);
        providers[count] = arena_strdup(&calls->renew_arena, call->provider);
        if (!sids[count] || !pods[count] || !providers[count])
            break;
        can_move[count] = call_can_move(call);
        list_remove(&call->due_link);
        list_append(&calls->being_renewed, &call->renew_link);
        call->has_moved = false;
        count++;
    }
    if (count > 0) {
        command.renew.call_sids = sids;
        command.renew.pods = pods;
        command.renew.providers = providers;
        command.renew.can_move = can_move;
        command.renew.count = count;
        command.renew.carrier = calls->carrier;
        err = ask_store(calls->asker, &calls->renew_ask, &command, &calls->renew_arena, calls_renewed, calls);
    }
    if (count > 0 && err == 0) {
        calls->renewing = count;
        return;
    }
    calls_end_renewal(calls);
    log_warn(
        "leases of calls with open connections cannot be renewed: it is tried again, and the calls go on",
        log_num("calls", (int64_t)count), log_str("error", store_error_text(err < 0 ? err : -ENOMEM)));
    calls_await_renewal(calls, min_u64(RENEW_RETRY_MS, calls->settings.lease_ttl_ms / 3));
}

static void calls_renew_all(uv_timer_t *timer)
{
    struct calls *calls = timer->data;

    MAGIC_CHECK(calls, CALLS_MAGIC);
    calls_await_renewal(calls, calls->settings.lease_ttl_ms / 3);
    LIST_FOR_EACH (link, &calls->open) {
        struct held_call *call = LIST_ENTRY(link, struct held_call, link);

        if (!call->is_finished)
            call_make_due(call);
    }
    calls_renew_due(calls);
}

void calls_renew_now(struct calls *calls)
{
    if (!list_is_empty(&calls->open))
        calls_renew_all(&calls->renew_timer);
}

void calls_await_renewal(struct calls *calls, uint64_t delay_ms)
{
    if (!calls->is_stopping)
        (void)uv_timer_start(&calls->renew_timer, calls_renew_all, max_u64(delay_ms, 1), 0);
}
