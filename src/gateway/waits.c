/*
 * waits.c - keeps the waits of all held streams together, and ends those whose callers have gone.
 */
#include "gateway/waits.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"

enum {
    WAITS_MAGIC = 0x77616974,
    WAIT_MAGIC = 0x77616974 + 1,
    WAIT_ARENA_MAX = 64 * 1024,
    KEEP_ARENA_MAX = 4 * 1024 * 1024,
    KEEP_RETRY_MS = 1000,
    LEAVE_RETRY_MS = 1000,
    LEAVE_TRIES_MAX = 20, /* then its silence has ended it */
};

enum wait_phase {
    WAIT_KEPT,    /* has a stream */
    WAIT_GONE,    /* has none: it may come back until its deadline */
    WAIT_LOOKING, /* the store is asked whether somebody else has it */
    WAIT_LEAVING, /* the store is told that it has ended */
};

struct wait {
    unsigned magic;
    struct waits *waits;
    enum wait_phase phase;
    struct map_node node;
    struct list link;         /* among those that are kept, or those that are gone */
    struct list due_link;     /* to be kept */
    struct list changed_link; /* its owner is to be told */
    void *owner;
    bool is_new;       /* the store has not heard of the owner yet */
    bool is_dismissed; /* it goes on without us, whatever the answer that is under way says */
    struct ask ask;
    struct arena arena;
    unsigned tries;
    uint64_t deadline_ms; /* while WAIT_GONE; uv_now */
    uint64_t since_ms;    /* as the store says; 0: not known */
    uint64_t until_ms;
    uint64_t heard_at_ms;
    uint64_t began_ms; /* of the wall clock; here */
    uint64_t claim;    /* of the owner */
    char call_sid[CALL_SID_MAX + 1];
    char merchant_id[MERCHANT_ID_MAX + 1];
    char provider[PROVIDER_MAX + 1];
};

struct waits {
    unsigned magic;
    uv_loop_t *loop;
    struct waits_settings settings;
    const struct asker *asker;
    struct metrics_family *ends;
    struct map by_sid;
    struct list kept;
    size_t kept_count;
    struct list gone; /* in the order of their deadlines */
    struct list due;
    struct list changed;
    uv_timer_t keep_timer;
    uv_timer_t gone_timer;
    uv_timer_t changed_timer;
    struct ask keep_ask;
    struct arena keep_arena;
    const struct keep_call *kept_calls; /* that the store is being asked to keep; in keep_arena */
    size_t keeping;                     /* how many; 0: it is not being asked */
    unsigned handles;
    bool is_failing; /* said once, until it works again */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void waits_go_if_stopped(struct waits *waits);
static void wait_forget(struct wait *wait);

static struct wait *waits_find(const struct waits *waits, const char *call_sid)
{
    struct map_node *node = map_get(&waits->by_sid, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct wait, node) : NULL;
}

static void wait_forget(struct wait *wait)
{
    struct waits *waits = wait->waits;

    assert(wait->phase != WAIT_KEPT);
    list_remove(&wait->link);
    list_remove(&wait->due_link);
    list_remove(&wait->changed_link);
    map_remove(&waits->by_sid, &wait->node);
    arena_release(&wait->arena);
    wait->magic = 0;
    free(wait);
    waits_go_if_stopped(waits);
}

static void waits_observe(struct waits *waits, enum wait_end end, uint64_t waited_ms)
{
    const char *name = wait_end_name(end);

    metrics_observe(metrics_series(waits->ends, &name), (double)waited_ms / 1000);
}

/* Keeping. */

static void waits_await_keep(struct waits *waits, uint64_t delay_ms);

static void wait_tell(struct wait *wait, enum wait_news news)
{
    if (wait->phase == WAIT_KEPT)
        wait->waits->settings.on_news(wait->owner, news);
}

void wait_update(struct wait *wait, const struct waiting_call *call)
{
    MAGIC_CHECK(wait, WAIT_MAGIC);
    /* The claim of a stream at another router is not ours. */
    if (strcmp(call->holder, wait->waits->settings.carrier) == 0 && wait->claim < call->claim)
        wait->claim = call->claim;
    if (call->since_ms == 0)
        return;
    wait->since_ms = call->since_ms;
    wait->until_ms = call->until_ms;
    wait->heard_at_ms = call->heard_at_ms;
    snprintf(wait->merchant_id, sizeof(wait->merchant_id), "%s", call->merchant_id);
    snprintf(wait->provider, sizeof(wait->provider), "%s", call->provider);
}

/* A stream at another router has it. */
static void wait_is_elsewhere(struct wait *wait)
{
    struct waits *waits = wait->waits;
    void *owner = wait->owner;

    log_info("a waiting call is held at another router by now", log_str("call_sid", wait->call_sid));
    if (!owner) {
        if (wait->phase == WAIT_GONE)
            wait_forget(wait);
        return; /* else the answer that is under way says the same */
    }
    waits_leave(wait, WAIT_GOES_ON);
    waits->settings.on_news(owner, WAIT_IS_ELSEWHERE);
}

void waits_note_kept(struct waits *waits, const struct kept_call *kept)
{
    const struct ended_wait ended = {.call_sid = kept->call.call_sid,
                                     .merchant_id = kept->call.merchant_id,
                                     .provider = kept->call.provider,
                                     .how = WAIT_TIMED_OUT,
                                     .waited_ms = kept->call.until_ms - kept->call.since_ms};

    if (kept->answer != KEEP_TIMED_OUT || !kept->ended_now)
        return;
    store_log_wait_ended(&ended, STORE_WAITED_TOO_LONG);
    waits_observe(waits, ended.how, ended.waited_ms);
}

/* What was asked for was `asked`. */
static void wait_kept(struct wait *wait, const struct keep_call *asked, const struct kept_call *kept)
{
    /* If not, another stream has joined meanwhile: the answer says nothing about it. */
    bool is_ours = wait->claim == asked->call.claim && wait->is_new == asked->is_first;

    switch (kept->answer) {
    case KEEP_REJOINED:
        log_warn("a waiting call was not in the store any more, and is again at its place",
                 log_str("call_sid", wait->call_sid));
        if (is_ours)
            wait->is_new = false;
        wait_update(wait, &kept->call);
        break;
    case KEEP_WAITING:
        if (is_ours)
            wait->is_new = false;
        wait_update(wait, &kept->call);
        break;
    case KEEP_GRANTED:
        if (is_ours && wait->is_new) {
            wait->is_new = false;
            wait->claim = kept->call.claim;
        }
        wait_tell(wait, WAIT_HAS_CHANGED);
        break;
    case KEEP_ELSEWHERE:
        if (is_ours)
            wait_is_elsewhere(wait);
        break;
    case KEEP_TIMED_OUT:
        wait_tell(wait, WAIT_IS_OVER);
        break;
    case KEEP_ENDED:
    case KEEP_UNKNOWN:
        wait_tell(wait, WAIT_HAS_ENDED);
        break;
    }
}

static void waits_keep_due(struct waits *waits);

static void waits_failed(struct waits *waits, const char *error)
{
    if (!waits->is_failing)
        log_warn("waiting calls cannot be kept in line: it is tried again, and their callers are held",
                 log_num("calls", (int64_t)waits->kept_count), log_str("error", error));
    waits->is_failing = true;
    waits_await_keep(waits, KEEP_RETRY_MS);
}

static void waits_have_kept(void *arg, int err, const struct result *result)
{
    struct waits *waits = arg;

    MAGIC_CHECK(waits, WAITS_MAGIC);
    if (err < 0 || result->outcome != OUTCOME_OK) {
        waits_failed(waits, err < 0 ? store_error_text(err) : result->error);
    } else {
        waits->is_failing = false;
        assert(result->keep.count == waits->keeping);
        for (size_t i = 0; i < result->keep.count; i++) {
            const struct kept_call *kept = &result->keep.calls[i];
            struct wait *wait = waits_find(waits, waits->kept_calls[i].call.call_sid);

            waits_note_kept(waits, kept);
            if (wait)
                wait_kept(wait, &waits->kept_calls[i], kept);
        }
    }
    waits->keeping = 0;
    arena_reset(&waits->keep_arena);
    waits_keep_due(waits);
    waits_go_if_stopped(waits);
}

/* What the store gets to know of a wait. False: there is no memory. */
static bool wait_write(const struct wait *wait, struct arena *arena, struct keep_call *keep)
{
    struct waiting_call *call = &keep->call;

    *keep = (struct keep_call){.call = {.call_sid = arena_strdup(arena, wait->call_sid),
                                        .merchant_id = arena_strdup(arena, wait->merchant_id),
                                        .provider = arena_strdup(arena, wait->provider),
                                        .since_ms = wait->since_ms ? wait->since_ms : wait->began_ms,
                                        .until_ms = wait->until_ms,
                                        .claim = wait->claim},
                               .is_first = wait->is_new};
    return call->call_sid && call->merchant_id && call->provider;
}

struct wait_standing wait_standing(const struct wait *wait)
{
    MAGIC_CHECK(wait, WAIT_MAGIC);
    return (struct wait_standing){.is_held = !wait->is_new, .is_new = wait->is_new, .claim = wait->claim};
}

void wait_set_provider(struct wait *wait, const char *provider)
{
    MAGIC_CHECK(wait, WAIT_MAGIC);
    if (wait->since_ms == 0) /* else the store has said whose it is */
        snprintf(wait->provider, sizeof(wait->provider), "%s", provider);
}

/* One question for all that are due, up to SIDS_MAX; the rest follows the answer. */
static void waits_keep_due(struct waits *waits)
{
    struct command command = {.type = COMMAND_KEEP, .keep = {.holder = waits->settings.carrier}};
    struct keep_call *calls;
    size_t count = 0;
    int err = -ENOMEM;

    if (waits->keeping > 0 || waits->is_stopping || list_is_empty(&waits->due))
        return;
    calls = arena_alloc(&waits->keep_arena, SIDS_MAX * sizeof(*calls));
    while (calls && count < SIDS_MAX && !list_is_empty(&waits->due)) {
        struct wait *wait = LIST_ENTRY(waits->due.next, struct wait, due_link);

        if (!wait_write(wait, &waits->keep_arena, &calls[count]))
            break;
        list_remove(&wait->due_link);
        count++;
    }
    if (count > 0) {
        command.keep.calls = calls;
        command.keep.count = count;
        err = ask_store(waits->asker, &waits->keep_ask, &command, &waits->keep_arena, waits_have_kept, waits);
    }
    if (err == 0) {
        waits->kept_calls = calls;
        waits->keeping = count;
        return;
    }
    arena_reset(&waits->keep_arena);
    waits_failed(waits, store_error_text(err));
}

static void wait_make_due(struct wait *wait)
{
    list_remove(&wait->due_link);
    list_append(&wait->waits->due, &wait->due_link);
}

static void waits_keep_all(uv_timer_t *timer)
{
    struct waits *waits = timer->data;

    MAGIC_CHECK(waits, WAITS_MAGIC);
    LIST_FOR_EACH (link, &waits->kept) {
        wait_make_due(LIST_ENTRY(link, struct wait, link));
    }
    if (waits->kept_count > 0)
        waits_await_keep(waits, WAITS_KEEP_MS);
    waits_keep_due(waits);
}

static void waits_await_keep(struct waits *waits, uint64_t delay_ms)
{
    if (!waits->is_stopping)
        (void)uv_timer_start(&waits->keep_timer, waits_keep_all, delay_ms, 0);
}

void waits_keep_now(struct waits *waits)
{
    if (waits->kept_count > 0 && !waits->is_stopping)
        waits_keep_all(&waits->keep_timer);
}

bool wait_is_over(const struct wait *wait)
{
    MAGIC_CHECK(wait, WAIT_MAGIC);
    return wait->until_ms > 0 && clock_wall_ms() >= wait->until_ms;
}

void wait_keep(struct wait *wait)
{
    MAGIC_CHECK(wait, WAIT_MAGIC);
    wait_make_due(wait);
    waits_keep_due(wait->waits);
}

static void waits_tell_changed(uv_timer_t *timer)
{
    struct waits *waits = timer->data;

    MAGIC_CHECK(waits, WAITS_MAGIC);
    while (!list_is_empty(&waits->changed)) {
        struct wait *wait = LIST_ENTRY(waits->changed.next, struct wait, changed_link);

        list_remove(&wait->changed_link);
        wait_tell(wait, WAIT_HAS_CHANGED);
    }
}

/* Later: the store may be in the middle of a command. */
void waits_changed(struct waits *waits, const char *call_sid)
{
    struct wait *wait = waits_find(waits, call_sid);

    if (!wait || wait->phase != WAIT_KEPT || waits->is_stopping)
        return;
    list_remove(&wait->changed_link);
    list_append(&waits->changed, &wait->changed_link);
    (void)uv_timer_start(&waits->changed_timer, waits_tell_changed, 0, 0);
}

/* Leaving. */

static void waits_look_at_gone(uv_timer_t *timer);

static void waits_await_gone(struct waits *waits)
{
    uint64_t now_ms = uv_now(waits->loop);
    const struct wait *first;

    if (waits->is_stopping || list_is_empty(&waits->gone))
        return;
    first = LIST_ENTRY(waits->gone.next, struct wait, link);
    (void)uv_timer_start(&waits->gone_timer, waits_look_at_gone,
                         first->deadline_ms > now_ms ? first->deadline_ms - now_ms : 0, 0);
}

static void wait_set_gone(struct wait *wait, uint64_t delay_ms)
{
    struct waits *waits = wait->waits;
    struct list *before = waits->gone.prev;

    wait->phase = WAIT_GONE;
    wait->deadline_ms = uv_now(waits->loop) + delay_ms;
    while (before != &waits->gone && LIST_ENTRY(before, struct wait, link)->deadline_ms > wait->deadline_ms)
        before = before->prev;
    list_append(before->next, &wait->link);
    waits_await_gone(waits);
}

static void wait_end(struct wait *wait);

/* Silence ends it, if the store cannot be told. */
static void wait_end_later(struct wait *wait, int err)
{
    if (wait->waits->is_stopping || ++wait->tries == LEAVE_TRIES_MAX) {
        log_warn("a waiting call whose caller has gone cannot be ended: its silence will end it",
                 log_str("call_sid", wait->call_sid), log_str("error", store_error_text(err)));
        wait_forget(wait);
        return;
    }
    wait_set_gone(wait, LEAVE_RETRY_MS);
}

/* The store was asked while the call came back. */
static bool wait_has_come_back(struct wait *wait)
{
    if (!wait->owner)
        return false;
    wait->phase = WAIT_KEPT;
    return true;
}

/* The answer means nothing any more. True: the wait is gone. */
static bool wait_is_dismissed(struct wait *wait)
{
    bool is_dismissed = wait->is_dismissed;

    if (is_dismissed)
        wait_forget(wait);
    return is_dismissed;
}

static void wait_ended(void *arg, int err, const struct result *result)
{
    struct wait *wait = arg;

    MAGIC_CHECK(wait, WAIT_MAGIC);
    if (wait_has_come_back(wait)) {
        wait_keep(wait);
    } else if (wait_is_dismissed(wait)) {
        return;
    } else if (err < 0) {
        wait_end_later(wait, err);
    } else {
        if (result->outcome == OUTCOME_OK && release_ends_wait(result))
            waits_observe(wait->waits, WAIT_ABANDONED, result->release.waited_ms);
        if (result->outcome == OUTCOME_OK)
            store_log_wait_released(result, "its caller has gone");
        wait_forget(wait);
    }
}

static int wait_ask(struct wait *wait, const struct command *command, store_done_fn done)
{
    arena_reset(&wait->arena);
    return ask_store(wait->waits->asker, &wait->ask, command, &wait->arena, done, wait);
}

static void wait_end(struct wait *wait)
{
    const struct command command = {.type = COMMAND_RELEASE,
                                    .release = {.call_sid = wait->call_sid, .why = FINISH_CLOSED}};
    int err;

    wait->phase = WAIT_LEAVING;
    err = wait_ask(wait, &command, wait_ended);
    if (err < 0)
        wait_end_later(wait, err);
}

static void wait_looked(void *arg, int err, const struct result *result)
{
    struct wait *wait = arg;

    MAGIC_CHECK(wait, WAIT_MAGIC);
    if (wait_has_come_back(wait) || wait_is_dismissed(wait))
        return;
    if (err < 0)
        wait_end_later(wait, err);
    else if (result->outcome == OUTCOME_WAITING &&
             strcmp(result->call.waiting.holder, wait->waits->settings.carrier) == 0 &&
             result->call.waiting.heard_at_ms == wait->heard_at_ms)
        wait_end(wait);
    else
        wait_forget(wait); /* somebody else has asked for it since, or it has ended */
}

/* Its caller has not come back, not here: he may have come back to another router. */
static void wait_look(struct wait *wait)
{
    const struct command command = {.type = COMMAND_CALL, .call = {.call_sid = wait->call_sid}};
    int err;

    list_remove(&wait->link);
    wait->phase = WAIT_LOOKING;
    err = wait_ask(wait, &command, wait_looked);
    if (err < 0)
        wait_end_later(wait, err);
}

static void waits_look_at_gone(uv_timer_t *timer)
{
    struct waits *waits = timer->data;
    uint64_t now_ms = uv_now(waits->loop);

    MAGIC_CHECK(waits, WAITS_MAGIC);
    while (!list_is_empty(&waits->gone)) {
        struct wait *first = LIST_ENTRY(waits->gone.next, struct wait, link);

        if (first->deadline_ms > now_ms)
            break;
        wait_look(first);
    }
    waits_await_gone(waits);
}

void waits_leave(struct wait *wait, enum wait_leave how)
{
    struct waits *waits = wait->waits;

    MAGIC_CHECK(wait, WAIT_MAGIC);
    assert(wait->owner);
    wait->owner = NULL;
    waits->kept_count--;
    list_remove(&wait->link);
    list_remove(&wait->due_link);
    list_remove(&wait->changed_link);
    if (wait->phase != WAIT_KEPT) {
        /* It came back while the store was asked, and left again: the answer ends it. */
        wait->is_dismissed = how == WAIT_GOES_ON;
        return;
    }
    wait->phase = WAIT_GONE;
    if (how == WAIT_GOES_ON || waits->is_stopping)
        wait_forget(wait);
    else if (how == WAIT_HUNG_UP)
        wait_end(wait);
    else
        wait_set_gone(wait, waits->settings.release_grace_ms);
}

/* Joining. */

static struct wait *wait_new(struct waits *waits, const char *call_sid)
{
    struct wait *wait;

    if (map_reserve(&waits->by_sid) < 0)
        return NULL;
    wait = calloc(1, sizeof(*wait));
    if (!wait)
        return NULL;
    wait->magic = WAIT_MAGIC;
    wait->waits = waits;
    wait->phase = WAIT_GONE;
    wait->began_ms = clock_wall_ms();
    list_init(&wait->link);
    list_init(&wait->due_link);
    list_init(&wait->changed_link);
    arena_init(&wait->arena, WAIT_ARENA_MAX);
    assert(strlen(call_sid) <= CALL_SID_MAX);
    memcpy(wait->call_sid, call_sid, strlen(call_sid) + 1);
    map_put(&waits->by_sid, &wait->node, wait->call_sid, strlen(wait->call_sid));
    return wait;
}

int waits_join(struct waits *waits, const struct waiting_call *call, void *owner, bool is_new,
               struct wait **ret_wait)
{
    struct wait *wait = waits_find(waits, call->call_sid);
    void *before = wait ? wait->owner : NULL;

    assert(owner && before != owner);
    if (!wait)
        wait = wait_new(waits, call->call_sid);
    if (!wait)
        return -ENOMEM;
    wait_set_provider(wait, call->provider);
    wait_update(wait, call);
    wait->owner = owner;
    wait->is_new = is_new;
    wait->is_dismissed = false;
    wait->tries = 0;
    *ret_wait = wait;
    if (before) {
        waits->settings.on_news(before, WAIT_IS_ELSEWHERE);
        if (is_new)
            wait_keep(wait);
        return 0;
    }
    if (wait->phase == WAIT_GONE)
        wait->phase = WAIT_KEPT; /* else the answer that is under way goes on from here */
    list_remove(&wait->link);
    list_append(&waits->kept, &wait->link);
    if (waits->kept_count++ == 0)
        waits_await_keep(waits, WAITS_KEEP_MS);
    /* The call may have got a pod while we were told that it waits: that was said when nobody listened. */
    wait_keep(wait);
    return 0;
}

/* Building up and taking down. */

size_t waits_count(const struct waits *waits)
{
    return waits->kept_count;
}

int waits_new(uv_loop_t *loop, const struct waits_settings *settings, const struct asker *asker,
              struct metrics *metrics, struct waits **ret_waits)
{
    struct waits *waits = calloc(1, sizeof(*waits));

    if (!waits)
        return -ENOMEM;
    waits->ends = metrics_waits(metrics);
    if (!waits->ends) {
        free(waits);
        return -ENOMEM;
    }
    waits->magic = WAITS_MAGIC;
    waits->loop = loop;
    waits->settings = *settings;
    waits->asker = asker;
    map_init(&waits->by_sid);
    list_init(&waits->kept);
    list_init(&waits->gone);
    list_init(&waits->due);
    list_init(&waits->changed);
    arena_init(&waits->keep_arena, KEEP_ARENA_MAX);
    (void)uv_timer_init(loop, &waits->keep_timer);
    (void)uv_timer_init(loop, &waits->gone_timer);
    (void)uv_timer_init(loop, &waits->changed_timer);
    waits->keep_timer.data = waits;
    waits->gone_timer.data = waits;
    waits->changed_timer.data = waits;
    waits->handles = 3;
    *ret_waits = waits;
    return 0;
}

static void waits_handle_closed(uv_handle_t *handle)
{
    struct waits *waits = handle->data;
    void (*stopped)(void *arg) = waits->stopped;
    void *arg = waits->stopped_arg;

    MAGIC_CHECK(waits, WAITS_MAGIC);
    if (--waits->handles > 0)
        return;
    map_release(&waits->by_sid);
    arena_release(&waits->keep_arena);
    waits->magic = 0;
    free(waits);
    stopped(arg);
}

static void waits_go_if_stopped(struct waits *waits)
{
    if (!waits->is_stopping || waits->by_sid.count > 0 || waits->keeping > 0 ||
        uv_is_closing((uv_handle_t *)&waits->keep_timer))
        return;
    uv_close((uv_handle_t *)&waits->keep_timer, waits_handle_closed);
    uv_close((uv_handle_t *)&waits->gone_timer, waits_handle_closed);
    uv_close((uv_handle_t *)&waits->changed_timer, waits_handle_closed);
}

void waits_stop(struct waits *waits, void (*stopped)(void *arg), void *arg)
{
    assert(!waits->is_stopping && waits->kept_count == 0);
    waits->is_stopping = true;
    waits->stopped = stopped;
    waits->stopped_arg = arg;
    (void)uv_timer_stop(&waits->keep_timer);
    (void)uv_timer_stop(&waits->gone_timer);
    (void)uv_timer_stop(&waits->changed_timer);
    /* Those who may come back can do so at the next router; silence ends the others. */
    while (!list_is_empty(&waits->gone))
        wait_forget(LIST_ENTRY(waits->gone.next, struct wait, link));
    waits_go_if_stopped(waits);
}
