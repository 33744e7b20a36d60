/*
 * calls.c - the state machine of each call with a connection: hold, renew, wait for its return,
 * release.
 *
 * The parts in order: renewing, releasing, holding, building up and taking down.
 */
#include "gateway/calls.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"

enum {
    CALLS_MAGIC = 0x63616c73,
    HELD_CALL_MAGIC = 0x68656c64,
    CALL_ARENA_MAX = 64 * 1024,
    RENEW_ARENA_MAX = 4 * 1024 * 1024,
    RENEW_RETRY_MS = 2000,
    UNKNOWN_RETRY_MS = 500, /* until then another call can get the pod */
    RELEASE_RETRY_MS = 2000,
    RELEASE_PATIENCE_MS = 10 * 60 * 1000, /* at least: after an outage leases last longer than they say */
};

enum call_phase {
    CALL_HELD,      /* has connections */
    CALL_LOOKING,   /* has none: the store is asked when its lease ends */
    CALL_WAITING,   /* may come back */
    CALL_RELEASING, /* too late */
    CALL_UNHOLDING, /* the store is told that it is not carried here any more; it is not released */
};

struct held_call {
    unsigned magic;
    struct calls *calls;
    struct map_node node;
    struct list link;       /* among those that are open, or those that wait */
    struct list due_link;   /* to be renewed */
    struct list renew_link; /* being renewed */
    enum call_phase phase;
    unsigned holds;
    unsigned open;
    unsigned tries;
    bool was_open;          /* here, or elsewhere before */
    bool is_in_store;       /* the store may know that we carry it */
    bool is_finished;       /* its connections are being closed */
    bool is_displaced;      /* why: it was not where we had it */
    bool has_moved;         /* since the last renewal was sent */
    bool is_unknown;        /* to the store, when it was last asked */
    bool has_come_back;     /* while the store was being asked */
    bool awaits_renewal;    /* looking, but not asked for yet */
    bool was_carried;       /* by another router, when we were to release it */
    uint64_t expires_at_ms; /* when its last connection had closed; 0: not known yet */
    uint64_t deadline_ms;   /* uv_now */
    struct ask ask;
    struct arena arena;
    char call_sid[CALL_SID_MAX + 1];
    char pod[POD_NAME_MAX + 1];      /* "": not known yet */
    char provider[PROVIDER_MAX + 1]; /* whose call it is, for a store that has lost it; "": not known */
};

struct calls {
    unsigned magic;
    uv_loop_t *loop;
    struct calls_settings settings;
    const char *carrier;
    const struct asker *asker;
    struct metrics_family *releases;
    struct map by_sid;
    struct list open;
    struct list due;
    struct list being_renewed;
    struct list waiting; /* in the order of their deadlines */
    uv_timer_t wait_timer;
    uv_timer_t renew_timer;
    uv_timer_t unknown_timer;
    struct ask renew_ask;
    struct arena renew_arena;
    size_t renewing; /* how many calls; 0: the store is not being asked */
    unsigned handles;
    bool is_leaving;
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void calls_go_if_stopped(struct calls *calls);

static void call_forget(struct held_call *call)
{
    struct calls *calls = call->calls;

    assert(call->holds == 0);
    list_remove(&call->link);
    list_remove(&call->due_link);
    list_remove(&call->renew_link);
    map_remove(&calls->by_sid, &call->node);
    arena_release(&call->arena);
    call->magic = 0;
    free(call);
    calls_go_if_stopped(calls);
}

/* Renewing. */

static void calls_renew_due(struct calls *calls);

static void calls_await_renewal(struct calls *calls, uint64_t delay_ms);

static struct held_call *calls_find(const struct calls *calls, const char *call_sid)
{
    struct map_node *node = map_get(&calls->by_sid, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct held_call, node) : NULL;
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
        list_remove(&call->due_link);
        list_append(&calls->due, &call->due_link);
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

static void call_set_finished(struct held_call *call, const char *reason)
{
    struct calls *calls = call->calls;

    call->is_displaced = false;
    if (call->is_finished)
        return;
    call->is_finished = true;
    if (call->holds == 0)
        return;
    log_info("call is over: its connections are closed", log_str("call_sid", call->call_sid),
             log_str("pod", call->pod), log_str("reason", reason));
    calls->settings.on_finished(calls->settings.on_finished_arg, call);
}

static void calls_note_finished(struct calls *calls, const struct name_array *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct held_call *call = calls_find(calls, names->names[i]);

        if (call)
            call_set_finished(call, "it was ended elsewhere");
    }
}

static void calls_note_conflicts(struct calls *calls, const struct name_array *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct held_call *call = calls_find(calls, names->names[i]);

        if (call && call->has_moved && call->open > 0) {
            /* It was asked for where it has been: the next renewal names the pod that it is on now. */
            list_remove(&call->due_link);
            list_append(&calls->due, &call->due_link);
        } else if (call && !call->has_moved) {
            bool has_ended = call->is_finished && !call->is_displaced;

            call_set_finished(call, "another call has its slot, or it is on another pod");
            call->is_displaced = !has_ended;
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
    list_remove(&call->due_link);
    list_append(&calls->due, &call->due_link);
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

static void call_go_on_looking(struct held_call *call);

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
static void calls_renew_due(struct calls *calls)
{
    const char **sids;
    const char **pods;
    const char **providers;
    struct command command = {.type = COMMAND_RENEW};
    size_t count = 0;
    int err = 0;

    if (calls->renewing > 0 || calls->is_stopping || list_is_empty(&calls->due))
        return;
    sids = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*sids));
    pods = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*pods));
    providers = arena_alloc(&calls->renew_arena, SIDS_MAX * sizeof(*providers));
    while (sids && pods && providers && count < SIDS_MAX && !list_is_empty(&calls->due)) {
        struct held_call *call = LIST_ENTRY(calls->due.next, struct held_call, due_link);

        sids[count] = arena_strdup(&calls->renew_arena, call->call_sid);
        pods[count] = arena_strdup(&calls->renew_arena, call->pod);
        providers[count] = arena_strdup(&calls->renew_arena, call->provider);
        if (!sids[count] || !pods[count] || !providers[count])
            break;
        list_remove(&call->due_link);
        list_append(&calls->being_renewed, &call->renew_link);
        call->has_moved = false;
        count++;
    }
    if (count > 0) {
        command.renew.call_sids = sids;
        command.renew.pods = pods;
        command.renew.providers = providers;
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

        list_remove(&call->due_link);
        list_append(&calls->due, &call->due_link);
    }
    calls_renew_due(calls);
}

void calls_renew_now(struct calls *calls)
{
    if (!list_is_empty(&calls->open))
        calls_renew_all(&calls->renew_timer);
}

static void calls_await_renewal(struct calls *calls, uint64_t delay_ms)
{
    if (!calls->is_stopping)
        (void)uv_timer_start(&calls->renew_timer, calls_renew_all, max_u64(delay_ms, 1), 0);
}

/* Releasing. */

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

static void call_go_on(struct held_call *call);

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
static bool call_is_not_ours(const struct held_call *call)
{
    return call->is_finished || !call->was_open;
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

static void call_note_release(const struct held_call *call, const struct result *result)
{
    const struct call_info *info = &result->release.call;

    metrics_add(metrics_series(call->calls->releases,
                               (const char *const[]){info->pool, "success", name_of_pool_label(info->pool)}),
                1);
    log_info("call released", log_str("call_sid", call->call_sid), log_str("pod", info->pod),
             log_str("pool", info->pool), log_str("released_to", result->release.released_to),
             log_str("reason", "its connection has closed"));
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
        call_note_release(call, result);
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

static int call_ask(struct held_call *call, const struct command *command, store_done_fn done)
{
    arena_reset(&call->arena);
    return ask_store(call->calls->asker, &call->ask, command, &call->arena, done, call);
}

static void call_look(struct held_call *call);

static void call_unhold(struct held_call *call);

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

static void call_go_on(struct held_call *call)
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

static void call_go_on_looking(struct held_call *call)
{
    call->awaits_renewal = false;
    if (!call_has_come_back(call))
        call_ask_look(call);
}

static void call_look(struct held_call *call)
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

static void call_unhold(struct held_call *call)
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

/* Holding. */

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

    if (call && call->phase == CALL_RELEASING)
        return -EALREADY;
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
        arena_init(&call->arena, CALL_ARENA_MAX);
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
}

void calls_moved(struct held_call *call, const char *pod)
{
    assert(strlen(pod) <= POD_NAME_MAX);
    if (strcmp(call->pod, pod) == 0)
        return;
    memcpy(call->pod, pod, strlen(pod) + 1);
    call->has_moved = true;
    if (call->open > 0)
        call->calls->settings.on_moved(call->calls->settings.on_finished_arg, call, call->pod);
}

void calls_found(struct held_call *call, const struct call_info *info, bool was_connected)
{
    /* A store that does not know it has lost the call, and somebody who does not know it has brought it back.
     */
    if (name_is_provider(info->provider, strlen(info->provider)))
        memcpy(call->provider, info->provider, strlen(info->provider) + 1);
    calls_moved(call, info->pod);
    call->was_open |= was_connected;
    if (call->is_displaced) {
        /* What was closed was somewhere else; here it may be opened. */
        call->is_displaced = false;
        call->is_finished = false;
    }
}

size_t calls_connections(const struct held_call *call)
{
    return call->holds;
}

bool calls_is_finished(const struct held_call *call)
{
    return call->is_finished;
}

void calls_opened(struct held_call *call)
{
    struct calls *calls = call->calls;

    call->was_open = true;
    call->is_unknown = false;
    if (call->open++ == 0)
        list_append(&calls->open, &call->link);
    list_remove(&call->due_link);
    list_append(&calls->due, &call->due_link);
    calls_renew_due(calls);
}

void calls_drop(struct held_call *call, bool was_open)
{
    assert(call->holds > 0);
    assert(!was_open || call->open > 0);
    call->holds--;
    if (was_open && --call->open == 0) {
        list_remove(&call->link);
        list_remove(&call->due_link);
    }
    if (call->holds > 0 || call->phase != CALL_HELD)
        return; /* the answer that is under way goes on from here */
    if (call->calls->is_leaving)
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
    if (!calls->releases) {
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
    calls->wait_timer.data = calls;
    calls->renew_timer.data = calls;
    calls->unknown_timer.data = calls;
    calls->handles = 3;
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

static void calls_go_if_stopped(struct calls *calls)
{
    if (!calls->is_stopping || calls->by_sid.count > 0 || calls->renewing > 0 ||
        uv_is_closing((uv_handle_t *)&calls->wait_timer))
        return;
    uv_close((uv_handle_t *)&calls->wait_timer, calls_handle_closed);
    uv_close((uv_handle_t *)&calls->renew_timer, calls_handle_closed);
    uv_close((uv_handle_t *)&calls->unknown_timer, calls_handle_closed);
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
    calls_go_if_stopped(calls);
}
