/*
 * check.c - verifies all invariants of the state (core_check). Tests and the simulator run it
 * after each step.
 */
#include <stdio.h>

#include "core/state.h"

/*
 * What the walk over all pods adds up to for one pool, to be compared with the pool's own counts.
 */
struct pool_sum {
    const struct pool *pool;
    uint32_t pods;
    uint32_t by_state[POD_STATES];
    uint64_t calls;
    uint64_t held_calls;
    uint32_t leaving;
    uint64_t free;
    uint64_t refs;
};

#define VIOLATION(...)                                                                                       \
    __extension__({                                                                                          \
        snprintf(error, error_size, __VA_ARGS__);                                                            \
        false;                                                                                               \
    })

static bool check_calls_of_pod(const struct core *core, const struct pod *pod, char *error, size_t error_size)
{
    uint32_t count = 0;

    LIST_FOR_EACH (link, &pod->calls) {
        const struct call *call = LIST_ENTRY(link, struct call, on_pod);

        if (call->pod != pod)
            return VIOLATION("call %s is in the list of pod %s but belongs to another", call->call_sid,
                             pod->name);
        if (call_find(core, call->call_sid) != call)
            return VIOLATION("call %s of pod %s is not in the map", call->call_sid, pod->name);
        count++;
    }
    if (count != pod->load || count != pod->placed_load)
        return VIOLATION("pod %s counts %u calls, its pool counts %u, and it has %u", pod->name, pod->load,
                         pod->placed_load, count);
    return true;
}

static bool list_holds(const struct list *list, const struct list *wanted)
{
    for (const struct list *link = list->next; link != list; link = link->next) {
        if (link == wanted)
            return true;
    }
    return false;
}

/* Invariants 1, 3 and 4: is the pod where it belongs, and nowhere else? */
static bool check_place(const struct core *core, const struct pod *pod, char *error, size_t error_size)
{
    const struct pool *pool = pod->pool;
    bool is_listed = !list_is_empty(&pod->in_pool);
    bool has_room = pod->load < pool->spec.max_concurrent;

    if (!pod->is_placed)
        return VIOLATION("pod %s is lost: it was never placed", pod->name);
    if (pod->load > pool->spec.max_concurrent && pod->load > pod->tolerated_load)
        return VIOLATION("pod %s carries %u calls but may have %u", pod->name, pod->load,
                         pool->spec.max_concurrent);
    if (is_listed != (pod->state == POD_AVAILABLE))
        return VIOLATION("pod %s is %s but %s an available list", pod->name, pod_state_name(pod->state),
                         is_listed ? "in" : "not in");
    if (is_listed) {
        if (!pod->is_ready || pod_is_draining(core, pod) || pod->held_until_ms > core->now_ms || !has_room)
            return VIOLATION("pod %s is available although it must not get calls", pod->name);
        if (!list_holds(&pool->by_load[pod->load], &pod->in_pool))
            return VIOLATION("pod %s is available in the wrong list", pod->name);
        if (pod->load < pool->lowest_load)
            return VIOLATION("pod %s would be passed over: load %u is below %u", pod->name, pod->load,
                             pool->lowest_load);
    }
    if (pod->state == POD_BUSY && has_room)
        return VIOLATION("pod %s is called busy although it has room", pod->name);
    if (pod->state == POD_BUSY && pod->load == 0)
        return VIOLATION("pod %s is called busy without a call", pod->name);
    /* A pod that is held out must have a date on which a sweep looks at it again, or live calls, or
     * Kubernetes, or somebody who undrains it. */
    if ((pod->state == POD_DRAINING && !pod->is_terminating && pod->draining_until_ms != DRAIN_WITHOUT_END) ||
        (pod->state == POD_SUSPENDED && pod->is_ready) || pod_should_leave(core, pod)) {
        if (pod->due.place == 0)
            return VIOLATION("pod %s is lost: %s, and no sweep will look at it", pod->name,
                             pod_state_name(pod->state));
    }
    if (pod->is_surplus && pod->draining_until_ms != DRAIN_WITHOUT_END)
        return VIOLATION("pod %s is surplus but does not drain", pod->name);
    if (pod->due.place && core->pods_due.nodes[pod->due.place - 1] != &pod->due)
        return VIOLATION("pod %s has a wrong place in the heap", pod->name);
    return true;
}

/* That of its source, and those that it had in line, if it is granted. */
static uint64_t refs_of_call(const struct call *call, const struct pool *pool)
{
    uint64_t refs = call->source == pool;

    for (size_t i = 0; call->waited && i < call->waited->pool_count; i++)
        refs += call->waited->pools[i] == pool;
    return refs;
}

static bool check_pool(const struct core *core, const struct pool *pool, char *error, size_t error_size)
{
    struct pool_sum sum = {.pool = pool};

    for (size_t i = 0; i < core->pods.count; i++) {
        const struct pod *pod = core->pods_by_name[i];

        if (pod->pool != pool)
            continue;
        sum.pods++;
        sum.by_state[pod->state]++;
        sum.calls += pod->load;
        if (pod->state == POD_DRAINING || pod->state == POD_SUSPENDED)
            sum.held_calls += pod->load;
        sum.leaving += pod->is_terminating || pod->is_surplus;
        if (pod->state == POD_AVAILABLE)
            sum.free += pool->spec.max_concurrent - pod->load;
    }
    for (uint32_t i = 0; i < core->slot_count; i++)
        sum.refs += core->slots[i] ? refs_of_call(core->slots[i], pool) : 0;
    sum.refs += pool->line.count; /* check_line compares it with the waiting calls */
    if (sum.pods != pool->pod_count || memcmp(sum.by_state, pool->by_state, sizeof(sum.by_state)) != 0)
        return VIOLATION("pool %s counts its pods wrongly", pool->label);
    if (sum.calls != pool->call_count || sum.free != pool->free_count)
        return VIOLATION("pool %s counts %llu calls and %llu free, but has %llu and %llu", pool->label,
                         (unsigned long long)pool->call_count, (unsigned long long)pool->free_count,
                         (unsigned long long)sum.calls, (unsigned long long)sum.free);
    if (sum.held_calls != pool->held_calls || sum.leaving != pool->leaving_count)
        return VIOLATION("pool %s counts %llu held calls and %u leaving pods, but has %llu and %u",
                         pool->label, (unsigned long long)pool->held_calls, pool->leaving_count,
                         (unsigned long long)sum.held_calls, sum.leaving);
    if (sum.refs + sum.pods != pool->refs)
        return VIOLATION("pool %s counts %u references but has %llu", pool->label, pool->refs,
                         (unsigned long long)(sum.refs + sum.pods));
    if (!pool->is_configured && pool->refs == 0)
        return VIOLATION("pool %s was removed but not freed", pool->label);
    return true;
}

static bool check_heap(const struct heap *heap, const char *what, char *error, size_t error_size)
{
    for (size_t i = 1; i < heap->count; i++) {
        if (heap->nodes[(i + 1) / 2 - 1]->at > heap->nodes[i]->at || heap->nodes[i]->place != i + 1)
            return VIOLATION("the heap of %s is out of order", what);
    }
    return true;
}

/*
 * Invariant 2 is in the shape of the data, one record per call_sid; here it is checked to be whole.
 */
static bool check_calls(const struct core *core, char *error, size_t error_size)
{
    size_t count = 0;

    for (uint32_t i = 0; i < core->slot_count; i++) {
        const struct call *call = core->slots[i];

        if (!call)
            continue;
        count++;
        if (call->slot != i || call_find(core, call->call_sid) != call)
            return VIOLATION("call %s is not where it should be", call->call_sid);
        if (pod_find(core, call->pod->name) != call->pod)
            return VIOLATION("call %s is on a pod that is not registered", call->call_sid);
        if (call->was_renewed && map_get(&core->tombstones.by_call, call->call_sid, strlen(call->call_sid)))
            return VIOLATION("call %s is renewed although its end is recorded", call->call_sid);
        if (!list_holds(&call->pod->calls, &call->on_pod))
            return VIOLATION("call %s is not in the list of its pod", call->call_sid);
        if (call->lease.place == 0 || core->leases.nodes[call->lease.place - 1] != &call->lease)
            return VIOLATION("call %s has no lease", call->call_sid);
    }
    if (count != core->calls.count || count != core->leases.count ||
        count + core->free_slot_count != core->slot_count)
        return VIOLATION("%zu calls in slots, %zu in the map, %zu leases, %u slots of which %u are free",
                         count, core->calls.count, core->leases.count, core->slot_count,
                         core->free_slot_count);
    return true;
}

static bool check_configuration(const struct core *core, char *error, size_t error_size)
{
    size_t configured = 0;

    for (size_t i = 0; i < core->tiers->tier_count; i++) {
        const struct pool *pool = core->tier_pools[i];

        if (!pool->is_configured || pool->tier != i || pool_find(core, core->tiers->tiers[i].name) != pool)
            return VIOLATION("tier %s has no pool", core->tiers->tiers[i].name);
        if (pool->spec.target != core->tiers->tiers[i].target ||
            pool->spec.max_concurrent != core->tiers->tiers[i].max_concurrent ||
            pool->spec.buffer != core->tiers->tiers[i].buffer ||
            pool->spec.is_reserved != core->tiers->tiers[i].is_reserved)
            return VIOLATION("pool %s has an old configuration", pool->label);
    }
    MAP_FOR_EACH (node, &core->pools)
        configured += CONTAINER_OF(node, struct pool, node)->is_configured;
    if (configured != core->tiers->tier_count)
        return VIOLATION("%zu pools are configured but there are %zu tiers", configured,
                         core->tiers->tier_count);
    return true;
}

/* The newest version of a configuration is the present one: here nobody writes it past the history. */
static bool check_history(const struct core *core, const struct history *history, char *error,
                          size_t error_size)
{
    const char *id = history->merchant_id;
    const struct merchant *merchant = id[0] ? merchant_find(core, id) : NULL;
    const char *present = !id[0] ? core->tiers->text : merchant ? merchant->text : "";
    const struct version *newest = history_newest(history);
    uint64_t before = 0;
    size_t count = 0;

    LIST_FOR_EACH (link, &history->versions) {
        const struct version *version = LIST_ENTRY(link, struct version, in_history);

        if (version->number <= before)
            return VIOLATION("the versions of \"%s\" are out of order", id);
        before = version->number;
        count++;
    }
    if (count == 0 || count != history->count || count > HISTORY_MAX)
        return VIOLATION("\"%s\" counts %zu versions and has %zu", id, history->count, count);
    if (strcmp(newest->text, present) != 0)
        return VIOLATION("the newest version of \"%s\" is not the present one", id);
    if (list_is_empty(&history->in_removed) == !newest->text[0])
        return VIOLATION("the history of \"%s\" is in the wrong list", id);
    return true;
}

static bool check_histories(const struct core *core, char *error, size_t error_size)
{
    size_t removed = 0;

    MAP_FOR_EACH (node, &core->histories.by_merchant) {
        const struct history *history = CONTAINER_OF(node, struct history, node);

        removed += !list_is_empty(&history->in_removed);
        if (!check_history(core, history, error, error_size))
            return false;
    }
    if (removed != core->histories.removed_count || removed > HISTORY_REMOVED_MAX)
        return VIOLATION("%zu merchants are removed, %zu are counted", removed,
                         core->histories.removed_count);
    return true;
}

/* The line of one pool: its order, and whether a slot of the pool is free beside a call that may have it. */
static bool check_line_of_pool(const struct core *core, const struct pool *pool, char *error,
                               size_t error_size)
{
    const struct places *line = &pool->line;
    size_t first = 0;

    for (size_t i = 0; i < line->count; i++) {
        const struct waiter *waiter = line->waiters[i];

        if (i && places_compare(line->waiters[i - 1]->place, line->waiters[i - 1]->call_sid, waiter->place,
                                waiter->call_sid) >= 0)
            return VIOLATION("the line of %s is out of order at %s", pool->label, waiter->call_sid);
        if (waiter_find(core, waiter->call_sid) != waiter)
            return VIOLATION("%s is in the line of %s but does not wait", waiter->call_sid, pool->label);
        first += waiter->pool_count > 0 && waiter->pools[0] == pool;
        if (pool->is_configured && pool->free_count > 0 && list_is_empty(&pool->in_marked) &&
            !waiter_is_overdue(core, waiter))
            return VIOLATION("%s has a free slot, and %s waits for one", pool->label, waiter->call_sid);
    }
    if (first != pool->first_count)
        return VIOLATION("%s counts %llu calls that wait for it first, but has %zu", pool->label,
                         (unsigned long long)pool->first_count, first);
    return true;
}

static bool check_waiter(const struct core *core, const struct waiter *waiter, char *error, size_t error_size)
{
    uint64_t silent_at_ms = waiter->heard_at_ms + (waiter->awaits_stream ? WAIT_FIRST_MS : WAIT_SILENT_MS);

    if (waiter_find(core, waiter->call_sid) != waiter)
        return VIOLATION("waiting call %s is not in the map", waiter->call_sid);
    if (call_find(core, waiter->call_sid))
        return VIOLATION("%s waits although it has a pod", waiter->call_sid);
    if (waiter->due.place == 0 || core->line.due.nodes[waiter->due.place - 1] != &waiter->due ||
        waiter->due.at != min_u64(waiter->until_ms, silent_at_ms))
        return VIOLATION("%s has a wrong time at which it is overdue", waiter->call_sid);
    if ((waiter->merchant != NULL) != (waiter->merchant_id[0] != '\0') ||
        (waiter->merchant && strcmp(waiter->merchant->id, waiter->merchant_id) != 0))
        return VIOLATION("%s is not counted for its merchant", waiter->call_sid);
    for (size_t i = 0; i < waiter->pool_count; i++) {
        const struct places *line = &waiter->pools[i]->line;
        size_t at = places_before(line, waiter->place, waiter->call_sid);

        if (at >= line->count || line->waiters[at] != waiter)
            return VIOLATION("%s is not in the line of %s", waiter->call_sid, waiter->pools[i]->label);
    }
    return true;
}

/* Do the counts of the merchants agree with the line? */
static bool check_merchant_lines(const struct core *core, char *error, size_t error_size)
{
    MAP_FOR_EACH (node, &core->line.merchants) {
        const struct merchant_line *merchant = CONTAINER_OF(node, struct merchant_line, node);
        size_t count = 0;

        for (size_t i = 0; i < core->line.all.count; i++)
            count += core->line.all.waiters[i]->merchant == merchant;
        if (count == 0 || count != merchant->count)
            return VIOLATION("merchant %s counts %zu waiting calls and has %zu", merchant->id,
                             merchant->count, count);
    }
    return true;
}

static bool check_granted(const struct core *core, char *error, size_t error_size)
{
    uint64_t before_ms = 0;
    size_t granted = 0;
    size_t listed = 0;
    size_t movable = 0;

    for (uint32_t i = 0; i < core->slot_count; i++) {
        granted += core->slots[i] && core->slots[i]->is_granted;
        if (core->slots[i] && core->slots[i]->waited && !core->slots[i]->is_granted)
            return VIOLATION("call %s has a wait, but it is not granted", core->slots[i]->call_sid);
        movable += core->slots[i] && core->slots[i]->can_move;
    }
    LIST_FOR_EACH (link, &core->line.granted) {
        const struct call *call = LIST_ENTRY(link, struct call, in_granted);

        if (!call->is_granted || call->lease.at < before_ms)
            return VIOLATION("granted call %s is out of order", call->call_sid);
        before_ms = call->lease.at;
        listed++;
    }
    if (granted != listed || granted != core->line.untaken_count)
        return VIOLATION("%zu calls are granted, %zu in the list, %zu are counted", granted, listed,
                         core->line.untaken_count);
    if (movable != core->movable_count)
        return VIOLATION("%zu calls can move, %zu are counted", movable, core->movable_count);
    return true;
}

/* Invariants 10 and 11: nobody waits beside a free slot, and the lines are in the order of the places. */
static bool check_line(const struct core *core, char *error, size_t error_size)
{
    const struct line *line = &core->line;
    size_t in_pools = 0;
    size_t in_waiters = 0;

    for (size_t i = 0; i < line->all.count; i++) {
        const struct waiter *waiter = line->all.waiters[i];

        if (i && places_compare(line->all.waiters[i - 1]->place, line->all.waiters[i - 1]->call_sid,
                                waiter->place, waiter->call_sid) >= 0)
            return VIOLATION("the line is out of order at %s", waiter->call_sid);
        if (!check_waiter(core, waiter, error, error_size))
            return false;
        in_waiters += waiter->pool_count;
    }
    MAP_FOR_EACH (node, &core->pools) {
        const struct pool *pool = CONTAINER_OF(node, struct pool, node);

        in_pools += pool->line.count;
        if (!check_line_of_pool(core, pool, error, error_size))
            return false;
    }
    if (in_pools != in_waiters || line->waiters.count != line->all.count ||
        line->due.count != line->all.count)
        return VIOLATION(
            "%zu calls wait, %zu in the map, %zu can be overdue; %zu places in lines, %zu in pools",
            line->all.count, line->waiters.count, line->due.count, in_waiters, in_pools);
    return check_merchant_lines(core, error, error_size) && check_granted(core, error, error_size) &&
           check_heap(&line->due, "waiting calls", error, error_size);
}

bool core_check(const struct core *core, char *error, size_t error_size)
{
    const char *past;

    for (size_t i = 0; i < core->pods.count; i++) {
        const struct pod *pod = core->pods_by_name[i];

        if (pod_find(core, pod->name) != pod)
            return VIOLATION("pod %s is not in the map", pod->name);
        if (i && strcmp(core->pods_by_name[i - 1]->name, pod->name) >= 0)
            return VIOLATION("pod %s is out of order", pod->name);
        if (!check_calls_of_pod(core, pod, error, error_size) || !check_place(core, pod, error, error_size))
            return false;
    }
    MAP_FOR_EACH (node, &core->pools) {
        if (!check_pool(core, CONTAINER_OF(node, struct pool, node), error, error_size))
            return false;
    }
    past = past_calls_check(&core->past, core->now_ms);
    if (past)
        return VIOLATION("%s", past);
    if (!list_is_empty(&core->closed))
        return VIOLATION("a pod is closed although its command has ended");
    return check_line(core, error, error_size) && check_calls(core, error, error_size) &&
           check_configuration(core, error, error_size) && check_histories(core, error, error_size) &&
           check_heap(&core->leases, "leases", error, error_size) &&
           check_heap(&core->pods_due, "pods", error, error_size);
}
