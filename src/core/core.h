/*
 * core.h - the domain: which pod serves which call.
 *
 * A deterministic state machine: (state, command, now) -> result. Does no I/O, asks no clock, never
 * blocks, does not log. A core is used by one thread at a time.
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
 * `fn` gets every call that ends without being released. It borrows the call, and must not use the
 * core. Results name only some of these calls; the log and the metrics need all.
 */
void core_on_ended(struct core *core, call_ended_fn fn, void *arg);

/*
 * `fn` gets every call that this process carries and that was ended on purpose: its connections
 * must be closed. It borrows the name, and must not use the core.
 */
void core_on_finished(struct core *core, call_finished_fn fn, void *arg);

/*
 * `fn` gets every effect of later commands, in order, before core_execute returns. NULL: no
 * function.
 */
void core_on_record(struct core *core, record_fn fn, void *arg);

/*
 * Executes one command. The clock does not go back: a smaller `now_ms` counts as the largest so
 * far.
 *
 * 0: *ret_result is filled; an error of the request is its outcome. -ENOMEM: *ret_result is
 * undefined, but every invariant holds, and every change was reported.
 */
int core_execute(struct core *core, const struct command *command, uint64_t now_ms, struct arena *arena,
                 struct result *ret_result) MUST_CHECK;

/*
 * Applies a record from a log or a snapshot. Reports nothing.
 *
 * 0; -ENOMEM; -EBADMSG: it contradicts the state, as no log of ours can (a call on an unknown pod,
 * a bad name, tiers that do not parse): the log is damaged or not ours.
 */
int core_apply(struct core *core, const struct record *record) MUST_CHECK;

/* To be called once after the last core_apply; includes core_after_outage. */
void core_loaded(struct core *core, uint64_t now_ms);

/*
 * For a while no sign of life could arrive: the process was stopped, or the disk was full. Every
 * call gets a lease of at least LEASE_TTL from `now_ms` on, and every pod that must send heartbeats
 * gets HEARTBEAT_TTL.
 */
void core_after_outage(struct core *core, uint64_t now_ms);

/*
 * Reports the whole state as records to `fn`: a snapshot. Apply them in this order to a new core.
 */
void core_dump(const struct core *core, record_fn fn, void *arg);

/*
 * Verifies every invariant of the state on the whole state. For tests.
 *
 * True, or false with the first violation described in `error`.
 */
bool core_check(const struct core *core, char *error, size_t error_size);

/* For metrics and tests. */
size_t core_call_count(const struct core *core);
size_t core_pod_count(const struct core *core);

#endif
