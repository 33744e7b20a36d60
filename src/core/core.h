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
    uint64_t hold_max_wait_ms; /* 0: calls wait only where their merchant says so */
    uint64_t hold_max_calls;   /* that wait at once */
    uint64_t hold_ageing_ms;   /* one step of priority is worth so much waiting */
    bool rescues;              /* carried calls are moved when their pod is gone or has restarted */
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
 * `fn` gets every call that was granted to this process, moved, or whose wait has ended, if this process
 * is its holder or carrier: it should ask. It borrows the name, and must not use the core.
 */
void core_on_changed(struct core *core, call_changed_fn fn, void *arg);

/*
 * For replays: `fn` names the pod that a call should get when it is granted or rescued, or NULL. The call
 * gets that pod if it is as good as any; `prefer` of COMMAND_ALLOCATE does the same for allocations.
 */
typedef const char *(*core_choice_fn)(void *arg, const char *call_sid);
void core_on_choice(struct core *core, core_choice_fn fn, void *arg);

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
size_t core_waiting_count(const struct core *core);
/* The calls that are granted and not taken yet. */
size_t core_untaken_count(const struct core *core);
/* How much room the labels of a chain take at most, with a space behind each. */
size_t core_chain_size(const struct core *core);
/* So many slots may become free when one call leaves its pod: that of a removed tier joins another one. */
size_t core_freed_slots(const struct core *core);
/* The calls that are moved if their pod breaks. */
size_t core_movable_count(const struct core *core);

#endif
