/*
 * query.c - the commands that only read: status, pods, pod, calls, call, merchants, merchant,
 * tiers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/state.h"

/* How many pods or slots one page may look at before it gives a cursor: bounds the time of a query. */
enum { QUERY_LOOK_MAX = 5000 };

static int compare_status(const void *a, const void *b)
{
    return strcmp(((const struct tier_status *)a)->name, ((const struct tier_status *)b)->name);
}

int core_status(struct core *core, const struct command *command UNUSED, struct arena *arena,
                struct result *result)
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
            .capacity = pool_capacity(pool),
            .free = pool->free_count,
        };
        memcpy(status->by_state, pool->by_state, sizeof(status->by_state));
        if (!status->name)
            return -ENOMEM;
        count++;
    }
    qsort(tiers, count, sizeof(*tiers), compare_status);
    result->status.tiers = tiers;
    result->status.tier_count = count;
    result->status.active_calls = core->calls.count;
    result->status.pods = core->pods.count;
    return 0;
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
        .is_ready = pod->is_ready,
        .is_heartbeating = pod_is_heartbeating(core, pod),
        .newest_call = "",
    };
    int rc = name_array_init(&info.calls, arena, pod->load);

    LIST_FOR_EACH (link, &pod->calls) {
        if (rc == 0)
            rc = name_array_add(&info.calls, arena, LIST_ENTRY(link, struct call, on_pod)->call_sid);
    }
    if (rc || !info.name || !info.tier || !info.address || !info.incarnation)
        return -ENOMEM;
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

static size_t page_limit(size_t limit)
{
    return limit == 0 ? PAGE_DEFAULT : limit > PAGE_MAX ? PAGE_MAX : limit;
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

/* The first pod whose name comes after the cursor; the cursor is the last name of the page before. */
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
    const char *tier = command->pods.tier;
    const char *cursor = command->pods.cursor ? command->pods.cursor : "";
    size_t limit = page_limit(command->pods.limit);
    size_t at = pods_after(core, cursor);
    size_t end = at + QUERY_LOOK_MAX < core->pods.count ? at + QUERY_LOOK_MAX : core->pods.count;
    struct pod_info *pods = arena_alloc(arena, limit * sizeof(*pods));
    size_t calls = 0;

    if (!pods)
        return -ENOMEM;
    for (; at < end && result->pods.count < limit && calls < PAGE_CALLS_MAX; at++) {
        const struct pod *pod = core->pods_by_name[at];
        int rc;

        if (tier && strcmp(pod->pool->spec.name, tier) != 0)
            continue;
        if (command->pods.state >= 0 && pod->state != (enum pod_state)command->pods.state)
            continue;
        rc = pod_info(core, pod, arena, &pods[result->pods.count]);
        if (rc)
            return rc;
        calls += pods[result->pods.count].calls.count;
        result->pods.count++;
    }
    result->pods.pods = pods;
    result->pods.total = pods_total(core, tier, command->pods.state);
    result->pods.next_cursor =
        at < core->pods.count ? arena_strdup(arena, core->pods_by_name[at - 1]->name) : "";
    return result->pods.next_cursor ? 0 : -ENOMEM;
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
        return fail_invalid(arena, result, "cursor is not one that was given out here");
    end = at > UINT64_MAX - QUERY_LOOK_MAX ? at : min_u64(at + QUERY_LOOK_MAX, core->slot_count);
    for (; at < end && result->calls.count < limit; at++) {
        const struct call *call = core->slots[at];
        int rc;

        if (!call)
            continue;
        rc = call_info(call, arena, &calls[result->calls.count]);
        if (rc)
            return rc;
        result->calls.count++;
    }
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

    if (call)
        return call_info(call, arena, &result->call.call);
    result->outcome = OUTCOME_NOT_FOUND;
    return refusals_find(&core->refusals, command->call.call_sid, arena, &result->call.refusal);
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
    size_t limit = page_limit(command->merchants.limit ? command->merchants.limit : PAGE_MAX);
    size_t count = 0;
    size_t bytes = 0;
    size_t at = 0;
    const struct merchant **sorted = merchants_after(core, cursor, arena, &count);
    int rc = sorted ? 0 : -ENOMEM;

    if (rc == 0)
        rc = name_array_init(&result->merchants.ids, arena, limit);
    if (rc == 0)
        rc = name_array_init(&result->merchants.texts, arena, limit);
    for (; rc == 0 && at < count && at < limit && bytes <= PAGE_TEXTS_MAX; at++) {
        rc = name_array_add(&result->merchants.ids, arena, sorted[at]->id);
        if (rc == 0)
            rc = name_array_add(&result->merchants.texts, arena, sorted[at]->text);
        bytes += strlen(sorted[at]->text);
    }
    if (rc)
        return rc;
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
