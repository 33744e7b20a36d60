/*
 * result.h - fills the results of commands: refusals, arrays of names, arrays of ended calls.
 *
 * Both stores use it, so that both say the same. All memory comes from the arena of the command.
 */
#ifndef CORE_RESULT_H
#define CORE_RESULT_H

#include "core/command.h"

/* Copies the message. 0 or -ENOMEM. */
int result_refuse(struct result *result, struct arena *arena, enum outcome outcome,
                  const char *message) MUST_CHECK;

/* OUTCOME_FORBIDDEN: a webhook asks for a call of another provider. */
void result_forbid(struct result *result);

/* An array with room for `max` names. 0 or -ENOMEM. */
int name_array_init(struct name_array *array, struct arena *arena, size_t max) MUST_CHECK;

/* Copies the name, for which name_array_init must have made room. 0 or -ENOMEM. */
int name_array_add(struct name_array *array, struct arena *arena, const char *name) MUST_CHECK;

/* For an array without name_array_init, which grows; borrows the name. 0 or -ENOMEM. */
int name_array_append(struct name_array *array, struct arena *arena, const char *name) MUST_CHECK;

/*
 * Fills result->change; copies the texts. `present` is the number of the version with `old_text`. 0 or
 * -ENOMEM.
 */
int result_change(struct result *result, struct arena *arena, uint64_t present, const char *old_text,
                  const char *new_text) MUST_CHECK;

/*
 * Warns of tiers and pools that the merchant names and that are not configured. Not of "none" in the
 * fallbacks, nor of the tier "dedicated" beside a pool: installations say "no fallback" and "my own pool"
 * that way. 0 or -ENOMEM.
 */
int result_warn_of_names(struct result *result, struct arena *arena, const struct merchant_config *merchant,
                         const struct tier_config *tiers) MUST_CHECK;

/* The array grows; borrows all that the call points to. 0 or -ENOMEM. */
int ended_waits_add(struct ended_wait **waits, size_t *count, struct arena *arena,
                    const struct ended_wait *wait) MUST_CHECK;

/* The same. */
int ended_array_add(struct ended_array *array, struct arena *arena, const struct ended_call *call) MUST_CHECK;

#endif
