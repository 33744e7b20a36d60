/*
 * line_commands.c - the commands of the line that do not serve it: keep, waiting.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/page.h"
#include "core/state.h"

/* Copies what the holder said of a call whose wait is over, or that is not there any more. */
static int copy_asked(const struct waiting_call *asked, const char *holder, struct arena *arena,
                      struct waiting_call *ret_call)
{
    *ret_call = (struct waiting_call){
        .call_sid = arena_strdup(arena, asked->call_sid),
        .merchant_id = arena_strdup(arena, asked->merchant_id),
        .provider = arena_strdup(arena, asked->provider),
        .holder = arena_strdup(arena, holder),
        .since_ms = asked->since_ms,
        .until_ms = asked->until_ms,
    };
    return ret_call->call_sid && ret_call->merchant_id && ret_call->provider && ret_call->holder ? 0
                                                                                                 : -ENOMEM;
}

/* As the answers to a keep have it. */
static int kept_info(const struct core *core, const struct waiter *waiter, struct arena *arena,
                     struct kept_call *kept)
{
    int err = waiter_info(core, waiter, arena, &kept->call);

    kept->call.position = 0;
    kept->call.estimate_ms = 0;
    return err;
}

/* Is this the word of a stream or a request that another one has replaced? */
static bool keep_is_outdated(const struct core *core, const struct waiter *waiter,
                             const struct keep_call *asked)
{
    if (asked->attempt)
        return waiter->attempt && waiter->attempt != asked->attempt;
    return !asked->is_first && waiter_is_elsewhere(core, waiter, asked->call.claim);
}

static int keep_waiting(struct core *core, struct waiter *waiter, const struct keep_call *asked,
                        const char *holder, struct arena *arena, struct kept_call *kept)
{
    bool is_unreadable;
    int err;

    if (waiter->until_ms <= core->now_ms) {
        kept->answer = KEEP_TIMED_OUT;
        kept->ended_now = true;
        err = kept_info(core, waiter, arena, kept);
        if (err == 0)
            waiter_finish(core, waiter, FINISH_TIMED_OUT);
        return err;
    }
    if (keep_is_outdated(core, waiter, asked)) {
        kept->answer = KEEP_ELSEWHERE;
        return 0;
    }
    kept->answer = KEEP_WAITING;
    if (!asked->attempt)
        waiter->claim = asked->is_first || asked->call.claim < waiter->claim ? next_claim(core, waiter->claim)
                                                                             : asked->call.claim;
    waiter->awaits_stream = false;
    waiter_set_holder(waiter, holder);
    waiter_heard(core, waiter);
    err = waiter_refresh(core, waiter, &is_unreadable);
    return err < 0 ? err : kept_info(core, waiter, arena, kept);
}

/* The call has a pod. */
static void keep_granted(const struct core *core, struct call *call, const struct keep_call *asked,
                         const char *holder, struct kept_call *kept)
{
    if (!asked->is_first && !asked->attempt && call->claim > asked->call.claim) {
        kept->answer = KEEP_ELSEWHERE;
        return;
    }
    kept->answer = KEEP_GRANTED;
    if (asked->is_first) {
        call->claim = next_claim(core, call->claim);
        call->is_held = true;
    }
    if (asked->is_first && call->waited) {
        call->waited->claim = call->claim;
        waiter_set_holder(call->waited, holder);
    }
    kept->call.claim = call->claim;
}

/* Joins the line again. */
static int keep_rejoin(struct core *core, const struct keep_call *keep, const char *holder,
                       struct waiter **ret_waiter)
{
    const struct waiting_call *asked = &keep->call;
    uint64_t until_ms = asked->until_ms;

    if (until_ms == 0) {
        struct wait_rules rules;

        wait_rules_of(core, asked->merchant_id, &rules);
        until_ms = core->now_ms + (rules.max_wait_ms ? rules.max_wait_ms : WAIT_LOST_MS);
    }
    return line_join(core,
                     &(struct joining){.call_sid = asked->call_sid,
                                       .merchant_id = asked->merchant_id,
                                       .provider = asked->provider,
                                       .holder = holder,
                                       .since_ms = asked->until_ms ? asked->since_ms
                                                                   : min_u64(asked->since_ms, core->now_ms),
                                       .until_ms = until_ms,
                                       .attempt = keep->attempt,
                                       .claim = keep->is_first ? next_claim(core, 0) : asked->claim},
                     ret_waiter);
}

/* The store does not know the call, or knows only its end. */
static int keep_lost(struct core *core, const struct keep_call *keep, const char *holder, struct arena *arena,
                     struct kept_call *kept)
{
    const struct waiting_call *asked = &keep->call;
    enum finish_reason why;
    struct waiter *waiter;
    int err;

    if (tombstones_find(&core->tombstones, asked->call_sid, core->now_ms, &why)) {
        kept->answer = why == FINISH_TIMED_OUT ? KEEP_TIMED_OUT : KEEP_ENDED;
        return why == FINISH_TIMED_OUT ? copy_asked(asked, holder, arena, &kept->call) : 0;
    }
    if (asked->since_ms == 0) {
        kept->answer = KEEP_UNKNOWN;
        return 0;
    }
    if (asked->until_ms && asked->until_ms <= core->now_ms) {
        kept->answer = KEEP_TIMED_OUT;
        kept->ended_now = true;
        call_record_end(core, asked->call_sid, FINISH_TIMED_OUT);
        return copy_asked(asked, holder, arena, &kept->call);
    }
    kept->answer = KEEP_REJOINED;
    err = keep_rejoin(core, keep, holder, &waiter);
    return err < 0 ? err : kept_info(core, waiter, arena, kept);
}

int core_keep(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    size_t count = command->keep.count;
    int err = 0;

    result->keep.calls = arena_alloc(arena, (count + 1) * sizeof(*result->keep.calls));
    if (!result->keep.calls)
        return -ENOMEM;
    carrier_note(core, command->keep.holder);
    for (size_t i = 0; err == 0 && i < count; i++) {
        const struct keep_call *asked = &command->keep.calls[i];
        struct kept_call *kept = &result->keep.calls[result->keep.count++];
        struct waiter *waiter = waiter_find(core, asked->call.call_sid);
        struct call *call = call_find(core, asked->call.call_sid);

        *kept = (struct kept_call){0};
        if (call)
            keep_granted(core, call, asked, command->keep.holder, kept);
        else if (waiter)
            err = keep_waiting(core, waiter, asked, command->keep.holder, arena, kept);
        else
            err = keep_lost(core, asked, command->keep.holder, arena, kept);
    }
    return err;
}

/* A cursor is the place and the name of the last call of the page before: "1770000000000:CA1". */
static bool read_cursor(const char *cursor, int64_t *ret_place, const char **ret_call_sid)
{
    char *end;

    if (!((cursor[0] >= '0' && cursor[0] <= '9') || cursor[0] == '-'))
        return false;
    *ret_place = strtoll(cursor, &end, 10);
    *ret_call_sid = end + 1;
    return *end == ':' && name_is_call_sid(end + 1, strlen(end + 1));
}

static const char *write_cursor(const struct waiter *last, struct arena *arena)
{
    char text[24 + CALL_SID_MAX + 1];

    snprintf(text, sizeof(text), "%lld:%s", (long long)last->place, last->call_sid);
    return arena_strdup(arena, text);
}

int core_waiting(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const char *cursor = command->waiting.cursor ? command->waiting.cursor : "";
    size_t limit = page_limit(command->waiting.limit);
    const struct places *all = &core->line.all;
    const char *last_sid = "";
    int64_t last_place = INT64_MIN;
    size_t at;

    if (cursor[0] && !read_cursor(cursor, &last_place, &last_sid))
        return fail_invalid(arena, result, REFUSED_CURSOR);
    result->waiting.calls = arena_alloc(arena, (limit + 1) * sizeof(*result->waiting.calls));
    if (!result->waiting.calls)
        return -ENOMEM;
    at = places_before(all, last_place, last_sid);
    if (at < all->count && all->waiters[at]->place == last_place &&
        strcmp(all->waiters[at]->call_sid, last_sid) == 0)
        at++;
    for (; at < all->count && result->waiting.count < limit; at++) {
        int err = waiter_info(core, all->waiters[at], arena, &result->waiting.calls[result->waiting.count++]);

        if (err < 0)
            return err;
    }
    result->waiting.total = all->count;
    result->waiting.now_ms = core->now_ms;
    result->waiting.next_cursor = at < all->count ? write_cursor(all->waiters[at - 1], arena) : "";
    return result->waiting.next_cursor ? 0 : -ENOMEM;
}
