/*
 * page.h - how much one answer may hold: where a page ends, how far one step goes, what a filter
 * lets through.
 *
 * Both stores use it. The limits themselves are in command.h.
 */
#ifndef CORE_PAGE_H
#define CORE_PAGE_H

#include "core/command.h"

/*
 * Pods or calls that one page may look at before it ends with a cursor: bounds the time of a query.
 */
enum { PAGE_LOOK_MAX = 5000 };

/* 0: the default. */
size_t page_limit(size_t limit);
size_t page_limit_of_merchants(size_t limit);

/* The limit of a sweep or a rebalancing. 0: the default. */
size_t step_limit(size_t limit);

/* A page of pods ends when it has enough of them, or when they carry too many calls together. */
bool page_has_enough_pods(size_t pods, size_t limit, size_t calls);

/*
 * A page of merchants ends when it has enough of them, or when their texts are too long together.
 */
bool page_has_enough_merchants(size_t merchants, size_t limit, size_t bytes);

/* Does the pod pass the filters of COMMAND_PODS? */
bool page_wants_pod(const struct command *command, const char *tier, enum pod_state state);

/* Does COMMAND_CALLS have filters? */
bool page_filters_calls(const struct command *command);

/* Does the call pass the filters of COMMAND_CALLS? */
bool page_wants_call(const struct command *command, const struct call_info *call, uint64_t now_ms);

/* By name. */
void tier_status_sort(struct tier_status *tiers, size_t count);

#endif
