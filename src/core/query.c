/*
 * query.c - the commands that only read: status, pods, pod, calls, call, merchants, merchant,
 * tiers, history.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/autoscale.h"
#include "core/page.h"
#include "core/state.h"

static int count_sets(const struct core *core, struct arena *arena, struct result *result)
{
    struct set_tally tally = {.arena = arena};

    for (size_t i = 0; i < core->pods.count; i++) {
        const struct pod *pod = core->pods_by_name[i];
        const struct scale_pod counted = {.name = pod->name,
                                          .tier = pod->pool->spec.name,
                                          .state = pod->state,
                                          .has_calls = pod->load > 0,
                                          .is_terminating = pod->is_terminating};
        int err = set_tally_add(&tally, &counted);

        if (err < 0)
            return err;
    }
    set_tally_finish(&tally, result);
    return 0;
}

int core_status(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct tier_status *tiers = arena_alloc(arena, core->pools.count * sizeof(*tiers) + 1);
    size_t count = 0;

    if (!tiers)
        return -ENOMEM;
    MAP_FOR_EACH (node, &core->pools) {
        const struct pool *pool = CONTAINER_OF(node, struct pool, node);
        struct tier_status *status = &tiers[count];

        /* A removed pool without pods is only a name that some call remembers. */
        if (!pool->is_configured && pool->pod_count == 0)
            continue;
        *status = (struct tier_status){
            .name = arena_strdup(arena, pool->spec.name),
            .is_shared = pool->spec.is_shared,
            .is_configured = pool->is_configured,
            .target = pool->spec.target,
            .max_concurrent = pool->spec.max_concurrent,
            .assigned = pool->pod_count,
            .calls = pool->call_count,
            .scaling = tier_scaling(&pool->spec),
            .held_calls = pool->held_calls,
            .leaving = pool->leaving_count,
            .waiting = pool_waiting(pool),
            .capacity = pool_capacity(pool),
            .free = pool->free_count,
        };
        memcpy(status->by_state, pool->by_state, sizeof(status->by_state));
        if (!status->name)
            return -ENOMEM;
        count++;
    }
    tier_status_sort(tiers, count);
    result->status.tiers = tiers;
    result->status.tier_count = count;
    result->status.active_calls = core->calls.count;
    result->status.pods = core->pods.count;
    result->status.waiting = core->line.all.count;
    return command->status.with_sets ? count_sets(core, arena, result) : 0;
}

static int pod_info(const struct core *core, const struct pod *pod, struct arena *arena,
                    struct pod_info *ret_info)
{
    struct pod_info info = {
        .name = arena_strdup(arena, pod->name),
        .tier = arena_strdup(arena, pod->pool->spec.name),
        .address = arena_strdup(arena, pod->address),
        .incarnation = arena_strdup(arena, pod->incarnation),
        .source = pod->source,
        .state = pod->state,
        .is_draining = pod_is_draining(core, pod),
        .is_surplus = pod->is_surplus,
        .is_terminating = pod->is_terminating,
        .is_ready = pod->is_ready,
        .is_heartbeating = pod_is_heartbeating(core, pod),
        .draining_until_ms = pod->is_terminating                     ? DRAIN_WITHOUT_END
                             : pod->draining_until_ms > core->now_ms ? pod->draining_until_ms
                                                                     : 0,
        .last_heartbeat_ms = pod->last_heartbeat_ms,
        .newest_call = "",
    };
    int err = name_array_init(&info.calls, arena, pod->load);

    LIST_FOR_EACH (link, &pod->calls) {
        if (err == 0)
            err = name_array_add(&info.calls, arena, LIST_ENTRY(link, struct call, on_pod)->call_sid);
    }
    if (err < 0 || !info.name || !info.tier || !info.address || !info.incarnation)
        return -ENOMEM;
    assert(info.calls.count == pod->load);
    if (info.calls.count)
        info.newest_call = info.calls.names[info.calls.count - 1];
    *ret_info = info;
    return 0;
}

int core_pod(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const struct pod *pod = pod_find(core, command->pod.name);

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    return pod_info(core, pod, arena, &result->pod);
}

/* How many pods match the filters, from the counts that every pool keeps. */
static uint64_t pods_total(const struct core *core, const char *tier, int state)
{
    uint64_t total = 0;

    MAP_FOR_EACH (node, &core->pools) {
        const struct pool *pool = CONTAINER_OF(node, struct pool, node);

        if (!tier || strcmp(pool->spec.name, tier) == 0)
            total += state < 0 ? pool->pod_count : pool->by_state[state];
    }
    return total;
}

/*
 * The first pod whose name comes after the cursor; the cursor is the last name of the page before.
 */
static size_t pods_after(const struct core *core, const char *cursor)
{
    size_t low = 0;
    size_t high = core->pods.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(core->pods_by_name[middle]->name, cursor) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int core_pods(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const char *cursor = command->pods.cursor ? command->pods.cursor : "";
    size_t limit = page_limit(command->pods.limit);
    size_t at = pods_after(core, cursor);
    size_t end = at + PAGE_LOOK_MAX < core->pods.count ? at + PAGE_LOOK_MAX : core->pods.count;
    struct pod_info *pods = arena_alloc(arena, limit * sizeof(*pods));
    size_t calls = 0;

    if (!pods)
        return -ENOMEM;
    for (; at < end && !page_has_enough_pods(result->pods.count, limit, calls); at++) {
        const struct pod *pod = core->pods_by_name[at];
        int err;

        if (!page_wants_pod(command, pod->pool->spec.name, pod->state))
            continue;
        err = pod_info(core, pod, arena, &pods[result->pods.count]);
        if (err < 0)
            return err;
        calls += pods[result->pods.count].calls.count;
        result->pods.count++;
    }
    assert(result->pods.count <= limit);
    result->pods.pods = pods;
    result->pods.total = pods_total(core, command->pods.tier, command->pods.state);
    result->pods.next_cursor =
        at < core->pods.count ? arena_strdup(arena, core->pods_by_name[at - 1]->name) : "";
    return result->pods.next_cursor ? 0 : -ENOMEM;
}

/* What filters look at, without copies. */
static struct call_info call_glance(const struct core *core, const struct call *call)
{
    struct call_info info = {
        .pod = call->pod->name,
        .merchant_id = call->merchant_id,
        .allocated_at_ms = call->allocated_at_ms,
        .expires_at_ms = call->lease.at,
        .activity = {.was_renewed = call->was_renewed,
                     .renewed_at_ms = call->renewed_at_ms,
                     .renewed_by = call->renewed_by,
                     .is_connected = call->was_connected && call_has_carrier(core, call),
                     .is_granted = call->is_granted},
    };

    call_set_state(&info, core->now_ms);
    return info;
}

/* A call as queries show it. */
static int call_seen(const struct core *core, const struct call *call, struct arena *arena,
                     struct call_info *ret_info)
{
    int err = call_info(call, arena, ret_info);

    ret_info->activity = call_glance(core, call).activity;
    if (err == 0 && call_has_carrier(core, call)) {
        err = name_array_init(&ret_info->activity.carriers, arena, 1);
        if (err == 0)
            err = name_array_add(&ret_info->activity.carriers, arena, core->carrier);
    }
    return err;
}

/* No call, or one that the filters leave out. */
static bool calls_pass_over(const struct core *core, const struct command *command, const struct call *call)
{
    struct call_info info;

    if (!call || !page_filters_calls(command))
        return !call;
    info = call_glance(core, call);
    return !page_wants_call(command, &info, core->now_ms);
}

int core_calls(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const char *cursor = command->calls.cursor ? command->calls.cursor : "";
    size_t limit = page_limit(command->calls.limit);
    struct call_info *calls = arena_alloc(arena, limit * sizeof(*calls));
    char text[24];
    char *end_of_cursor = NULL;
    uint64_t at = cursor[0] ? strtoull(cursor, &end_of_cursor, 10) : 0;
    uint64_t end;

    if (!calls)
        return -ENOMEM;
    if (end_of_cursor && (*end_of_cursor || cursor[0] < '0' || cursor[0] > '9'))
        return fail_invalid(arena, result, REFUSED_CURSOR);
    end = at > UINT64_MAX - PAGE_LOOK_MAX ? at : min_u64(at + PAGE_LOOK_MAX, core->slot_count);
    for (; at < end && result->calls.count < limit; at++) {
        const struct call *call = core->slots[at];
        int err;

        if (calls_pass_over(core, command, call))
            continue;
        err = call_seen(core, call, arena, &calls[result->calls.count]);
        if (err < 0)
            return err;
        result->calls.count++;
    }
    assert(result->calls.count <= limit);
    result->calls.calls = calls;
    result->calls.total = core->calls.count;
    result->calls.next_cursor = "";
    if (at < core->slot_count) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)at);
        result->calls.next_cursor = arena_strdup(arena, text);
    }
    return result->calls.next_cursor ? 0 : -ENOMEM;
}

int core_call(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const struct call *call = call_find(core, command->call.call_sid);

    const struct waiter *waiter = call ? NULL : waiter_find(core, command->call.call_sid);

    if (call)
        return call_seen(core, call, arena, &result->call.call);
    if (waiter) {
        result->outcome = OUTCOME_WAITING;
        result->call.now_ms = core->now_ms;
        return waiter_info(core, waiter, arena, &result->call.waiting);
    }
    result->outcome = OUTCOME_NOT_FOUND;
    return refusals_find(&core->refusals, command->call.call_sid, core->now_ms, arena, &result->call.refusal);
}

int core_story(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const char *call_sid = command->call.call_sid;
    const struct call *call = call_find(core, call_sid);
    const struct waiter *waiter = call ? NULL : waiter_find(core, call_sid);
    int err;

    result->story.now_ms = core->now_ms;
    result->story.is_live = call != NULL;
    result->story.is_waiting = waiter != NULL;
    err = call ? call_seen(core, call, arena, &result->story.call) : 0;
    if (waiter)
        err = waiter_info(core, waiter, arena, &result->story.waiting);
    if (err == 0)
        err = refusals_find(&core->refusals, call_sid, core->now_ms, arena, &result->story.refusal);
    if (err == 0)
        err = past_calls_find(&core->past, call_sid, core->now_ms, arena, &result->story.past,
                              &result->story.past_count);
    if (!call && !waiter && !result->story.refusal && result->story.past_count == 0)
        result->outcome = OUTCOME_NOT_FOUND;
    return err;
}

static int compare_merchants(const void *a, const void *b)
{
    const struct merchant *const *merchant_a = a;
    const struct merchant *const *merchant_b = b;

    return strcmp((*merchant_a)->id, (*merchant_b)->id);
}

/* All merchants whose id comes after the cursor, sorted; NULL without memory. */
static const struct merchant **merchants_after(const struct core *core, const char *cursor,
                                               struct arena *arena, size_t *ret_count)
{
    const struct merchant **sorted = arena_alloc(arena, core->merchants.count * sizeof(*sorted) + 1);
    size_t count = 0;

    if (!sorted)
        return NULL;
    MAP_FOR_EACH (node, &core->merchants) {
        const struct merchant *merchant = CONTAINER_OF(node, struct merchant, node);

        if (strcmp(merchant->id, cursor) > 0)
            sorted[count++] = merchant;
    }
    qsort(sorted, count, sizeof(*sorted), compare_merchants);
    *ret_count = count;
    return sorted;
}

int core_merchants(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    const char *cursor = command->merchants.cursor ? command->merchants.cursor : "";
    size_t limit = page_limit_of_merchants(command->merchants.limit);
    size_t count = 0;
    size_t bytes = 0;
    size_t at = 0;
    const struct merchant **sorted = merchants_after(core, cursor, arena, &count);
    int err = sorted ? 0 : -ENOMEM;

    if (err == 0)
        err = name_array_init(&result->merchants.ids, arena, limit);
    if (err == 0)
        err = name_array_init(&result->merchants.texts, arena, limit);
    for (; err == 0 && at < count && !page_has_enough_merchants(at, limit, bytes); at++) {
        err = name_array_add(&result->merchants.ids, arena, sorted[at]->id);
        if (err == 0)
            err = name_array_add(&result->merchants.texts, arena, sorted[at]->text);
        bytes += strlen(sorted[at]->text);
    }
    if (err < 0)
        return err;
    result->merchants.total = core->merchants.count;
    result->merchants.next_cursor = at < count ? arena_strdup(arena, sorted[at - 1]->id) : "";
    return result->merchants.next_cursor ? 0 : -ENOMEM;
}

int core_merchant(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result)
{
    const struct merchant *merchant = merchant_find(core, command->merchant.merchant_id);

    if (!merchant) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    result->merchant.text = arena_strdup(arena, merchant->text);
    return result->merchant.text ? 0 : -ENOMEM;
}

int core_tiers(struct core *core, const struct command *command UNUSED, struct arena *arena,
               struct result *result)
{
    result->tiers.text = arena_strdup(arena, core->tiers->text);
    return result->tiers.text ? 0 : -ENOMEM;
}

static int copy_version(const struct version *version, struct arena *arena, struct version_info *ret_info)
{
    *ret_info = (struct version_info){.number = version->number,
                                      .at_ms = version->at_ms,
                                      .by = arena_strdup(arena, version->by),
                                      .text = arena_strdup(arena, version->text)};
    return ret_info->by && ret_info->text ? 0 : -ENOMEM;
}

int core_history(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const char *id = command->history.merchant_id ? command->history.merchant_id : "";
    const struct merchant *merchant = id[0] ? merchant_find(core, id) : NULL;
    const struct history *history = history_find(&core->histories, id);
    const char *present = !id[0] ? core->tiers->text : merchant ? merchant->text : "";
    struct version_info kept[HISTORY_MAX];
    size_t count = 0;

    present = arena_strdup(arena, present);
    if (!present)
        return -ENOMEM;
    if (history) {
        LIST_FOR_EACH (link, &history->versions) {
            if (copy_version(LIST_ENTRY(link, struct version, in_history), arena, &kept[count++]) < 0)
                return -ENOMEM;
        }
    }
    return history_answer(kept, count, present, arena, result);
}
