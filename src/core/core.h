/*
 * core.h - the domain: which pod serves which call.
 *
 * A deterministic state machine: (state, command, now) -> result. Does no I/O, asks no clock, never blocks,
 * does not log. Whoever owns a core uses it from one thread at a time.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "core/command.h"
#include "core/record.h"

struct core; /* opaque: see state.h */

struct core_settings {
    uint64_t lease_ttl_ms;
    uint64_t call_max_duration_ms;
    uint64_t connect_timeout_ms; /* 0: off */
    uint64_t draining_ttl_ms;
    uint64_t heartbeat_ttl_ms;
};

/* Starts with the default tiers and no pods. Fails only with -ENOMEM. */
int core_new(const struct core_settings *settings, struct core **ret_core) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct core *core_free(struct core *core);
void core_freep(struct core **core);

/*
 * Every call that ends without being released is told to `fn`, which borrows it and must not use the core.
 * The answers name some of them as well; this is for the log and the metrics, which want them all.
 */
void core_on_ended(struct core *core, call_ended_fn fn, void *arg);

/*
 * A call that this process carries was ended on purpose, by somebody else: its connections have nothing to
 * stand for any more. `fn` borrows the name and must not use the core.
 */
void core_on_over(struct core *core, call_over_fn fn, void *arg);

/* Every effect of later commands is reported to `fn`, in order, before core_execute returns. NULL: to nobody.
 */
void core_on_record(struct core *core, record_fn fn, void *arg);

/*
 * Carries out one command. `now_ms` must not go back; a smaller value counts as the latest one seen.
 *
 * 0: *ret_result is filled; what is wrong with the request is in its outcome. -ENOMEM: nothing is promised
 * about the answer, but every invariant still holds and what was done was reported.
 */
int core_execute(struct core *core, const struct command *command, uint64_t now_ms, struct arena *arena,
                 struct result *ret_result) MUST_CHECK;

/*
 * Applies a record from a log or a snapshot. Reports nothing.
 *
 * 0; -ENOMEM; -EBADMSG: it contradicts the state, as no log of ours can (a call on an unknown pod, a bad
 * name, tiers that do not parse): the log is damaged or not ours.
 */
int core_apply(struct core *core, const struct record *record) MUST_CHECK;

/* To be called once after the last core_apply; includes core_listens_again. */
void core_loaded(struct core *core, uint64_t now_ms);

/*
 * Nobody could be heard for a while: the process was stopped, or the disk was full. Who was silent meanwhile
 * is not to blame: the calls that are there have at least LEASE_TTL from `now_ms` on, and the pods that must
 * speak HEARTBEAT_TTL.
 */
void core_listens_again(struct core *core, uint64_t now_ms);

/* Reports the whole state as records to `fn`: a snapshot. Apply them in this order to a new core. */
void core_dump(const struct core *core, record_fn fn, void *arg);

/*
 * Verifies every invariant of SPEC section 2 by looking at everything. For tests.
 *
 * True, or false with the first violation described in `error`.
 */
bool core_check(const struct core *core, char *error, size_t error_size);

/* For metrics and tests. */
size_t core_call_count(const struct core *core);
size_t core_pod_count(const struct core *core);

#endif
