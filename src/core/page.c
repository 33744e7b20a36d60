/*
 * page.c - where a page ends, how far one step goes, and what a filter lets through.
 */
#include "core/page.h"

#include <stdlib.h>

size_t page_limit(size_t limit)
{
    return limit == 0 ? PAGE_DEFAULT : (size_t)min_u64(limit, PAGE_MAX);
}

size_t page_limit_of_merchants(size_t limit)
{
    return page_limit(limit == 0 ? PAGE_MAX : limit);
}

size_t step_limit(size_t limit)
{
    return limit == 0 ? STEP_LIMIT : limit;
}

bool page_has_enough_pods(size_t pods, size_t limit, size_t calls)
{
    return pods >= limit || calls >= PAGE_CALLS_MAX;
}

bool page_has_enough_merchants(size_t merchants, size_t limit, size_t bytes)
{
    return merchants >= limit || bytes > PAGE_TEXTS_MAX;
}

bool page_wants_pod(const struct command *command, const char *tier, enum pod_state state)
{
    if (command->pods.tier && strcmp(tier, command->pods.tier) != 0)
        return false;
    return command->pods.state < 0 || state == (enum pod_state)command->pods.state;
}

bool page_filters_calls(const struct command *command)
{
    return command->calls.pod || command->calls.merchant_id || command->calls.state != CALL_IS_ANY ||
           command->calls.older_than_ms > 0;
}

bool page_wants_call(const struct command *command, const struct call_info *call, uint64_t now_ms)
{
    /* Redis knows the time of a call in whole seconds only. All stores compare these. */
    uint64_t since_ms = call->allocated_at_ms - call->allocated_at_ms % 1000;

    if (command->calls.pod && strcmp(call->pod, command->calls.pod) != 0)
        return false;
    if (command->calls.merchant_id && strcmp(call->merchant_id, command->calls.merchant_id) != 0)
        return false;
    if (command->calls.state != CALL_IS_ANY && call->activity.state != command->calls.state)
        return false;
    return command->calls.older_than_ms == 0 ||
           (now_ms >= since_ms && now_ms - since_ms >= command->calls.older_than_ms);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct tier_status *)a)->name, ((const struct tier_status *)b)->name);
}

void tier_status_sort(struct tier_status *tiers, size_t count)
{
    qsort(tiers, count, sizeof(*tiers), compare_names);
}
