/*
 * state.h - the data and functions that the files of core share. Only for these files.
 *
 * The state of a pod is the list that it is in. It changes only in pod_place(), which also updates
 * the counts of its pool. A call is in the map of calls, in the list of its pod, in the heap of
 * leases and in a numbered slot. A call that waits is none of these: see core/line.h.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/core.h"
#include "core/history.h"
#include "core/line.h"
#include "core/past_calls.h"
#include "core/refusals.h"
#include "core/result.h"
#include "core/tombstones.h"

/*
 * One tier or merchant pool. It stays without a configuration while a pod or a call refers to it.
 */
struct pool {
    struct map_node node; /* by name */
    struct tier spec;
    bool is_configured;
    size_t tier;   /* index in tiers->tiers, while it is configured */
    uint32_t refs; /* pods, calls and waiting calls that refer to it */
    uint32_t pod_count;
    uint32_t by_state[POD_STATES];
    uint64_t call_count;    /* on its pods */
    uint64_t held_calls;    /* of these, on pods that drain or are suspended */
    uint32_t leaving_count; /* of its pods that drain: terminating or surplus ones */
    uint64_t free_count;    /* so many more calls fit on its available pods */
    struct list
        *by_load; /* [spec.max_concurrent]: the available pods that carry that many calls, oldest first */
    uint32_t lowest_load;           /* all lists before this one are empty */
    struct places line;             /* the calls that wait for it */
    uint64_t first_count;           /* of these, the ones whose chain begins with it */
    struct list in_marked;          /* see line_mark */
    char label[POOL_LABEL_MAX + 1]; /* "pool:gold", "merchant:9shines" */
};

struct pod {
    struct map_node node;
    struct heap_node due;  /* when a sweep must check it; in no heap: never */
    struct list in_pool;   /* in pool->by_load while it is available */
    struct list calls;     /* oldest first */
    struct list in_closed; /* see pod_close */
    struct pool *pool;
    char *address;
    char *incarnation;
    uint64_t draining_until_ms; /* 0 or in the past: not draining; or DRAIN_WITHOUT_END */
    uint64_t held_until_ms;     /* 0: not held back */
    uint64_t heartbeat_at_ms;   /* its last sign of life: a registration counts, too; 0: none */
    uint64_t last_heartbeat_ms; /* only heartbeats; 0: none */
    uint64_t sync_mark;         /* the number of the last sync that listed it */
    uint32_t load;              /* the number of its calls */
    uint32_t placed_load;       /* its load in the counts of its pool */
    bool placed_leaving;        /* it is counted there as one that leaves */
    uint32_t tolerated_load;    /* its calls from before the last change of tiers: these may be too many */
    enum pod_state state;
    enum pod_source source;
    bool is_placed;
    bool is_ready;
    bool is_terminating;
    bool is_pinned;
    bool is_surplus; /* its drain is the one of scale.c, and has no end */
    bool is_closed;
    char name[POD_NAME_MAX + 1];
};

/* The requests that asked for a call: attempts.c. */
struct attempts {
    uint64_t first;
    uint64_t *more; /* the others; NULL: there is only one */
    uint8_t count;
    bool are_lost; /* some are not known: the call is never undone */
};

struct call {
    struct map_node node;
    struct heap_node lease; /* at = expiry */
    struct list on_pod;
    struct pod *pod;
    struct pool *source; /* the pool of its pod when it got the pod */
    uint64_t allocated_at_ms;
    uint64_t placed_at_ms; /* when it got this pod; later than allocated_at_ms if it was moved */
    uint32_t slot;
    uint32_t misses; /* heartbeats in a row that left it out */
    struct attempts attempts;
    uint64_t renewed_at_ms; /* the last time, and by whom, if that is known */
    enum renewer renewed_by;
    bool was_renewed;   /* at least once: its end will be recorded */
    bool is_carried;    /* this process has connections of it, open or being opened */
    bool was_connected; /* it had an open one */
    bool can_move;      /* its carrier connects it to another pod if its own breaks: call_set_can_move */
    bool is_granted;    /* it has waited, and its holder has not taken the pod yet */
    bool is_held;       /* is_granted: a process holds it, and is told what happens to it */
    uint64_t claim;     /* of the newest stream that was held for it; 0: none was. See keep. */
    struct list in_granted;
    struct waiter *waited;    /* is_granted: as it stood in line, in case its pod goes; NULL: not known */
    uint64_t waited_since_ms; /* it has waited: since when */
    uint64_t unsettled_at_ms; /* when it was moved, cut, resumed, or granted after a rescue; 0: never */
    struct resumes resumes;
    const char *merchant_id;
    char *provider;  /* "": allocated through the API, or not known */
    char call_sid[]; /* followed by merchant_id and provider */
};

struct merchant {
    struct map_node node;
    struct arena arena; /* of the parsed form */
    struct merchant_config config;
    bool is_readable;
    char *text;
    char id[];
};

struct core {
    struct core_settings settings;
    uint64_t now_ms;
    record_fn on_record;
    void *on_record_arg;
    call_ended_fn on_ended;
    void *on_ended_arg;
    call_finished_fn on_finished;
    void *on_finished_arg;
    call_changed_fn on_changed;
    void *on_changed_arg;
    core_choice_fn on_choice;
    void *on_choice_arg;

    struct tier_config *tiers;
    struct pool **tier_pools; /* parallel to tiers->tiers */
    struct map pools;

    struct map pods;
    struct pod **pods_by_name; /* sorted, so that lists can be paged */
    size_t pods_room;
    struct heap pods_due;
    uint64_t sync_mark;
    struct list closed; /* pods: see pod_close */

    struct map calls;
    struct heap leases;
    size_t movable_count; /* calls with can_move */
    struct call **slots;  /* a page of calls is a range of slots */
    uint32_t *free_slots;
    uint32_t free_slot_count;
    uint32_t slot_count;
    uint32_t slots_room;

    struct line line;

    struct map merchants;
    struct histories histories;

    /* The process that carries calls, and its last sign of life: carrier.c. */
    char carrier[CARRIER_MAX + 1];
    uint64_t carrier_at_ms;

    struct refusals refusals;
    struct tombstones tombstones;
    struct past_calls past;

    /* For assertions: how much was reported since the start. */
    uint64_t records;
    uint64_t lost_calls;
};

/* core.c */
void core_report(struct core *core, const struct record *record);
int fail_invalid(struct arena *arena, struct result *result, const char *message) MUST_CHECK;
int fail_conflict(struct arena *arena, struct result *result, const char *message) MUST_CHECK;

/* pool.c */
int pool_get(struct core *core, const char *name,
             struct pool **ret_pool) MUST_CHECK; /* made if it does not exist */
int pool_get_by_label(struct core *core, const char *label, struct pool **ret_pool) MUST_CHECK;
struct pool *pool_find(const struct core *core, const char *name);
void pool_ref(struct pool *pool);
void pool_unref(struct core *core, struct pool *pool);
uint64_t pool_capacity(const struct pool *pool);
/* The calls that wait, and whose chain begins with this pool. */
uint64_t pool_waiting(const struct pool *pool);
/* The least loaded pod with room, or NULL. */
struct pod *pool_least_loaded(struct pool *pool);
/* Makes `config` the configuration. Takes ownership on success. -ENOMEM: nothing is changed. */
int pools_configure(struct core *core, struct tier_config *config) MUST_CHECK;
void pools_free(struct core *core);

/* pod.c */
struct pod *pod_find(const struct core *core, const char *name);
int pod_new(struct core *core, const char *name, struct pool *pool, enum pod_source source,
            struct pod **ret_pod) MUST_CHECK;
/* Frees a pod without calls. Reports nothing. */
void pod_free(struct core *core, struct pod *pod);
void pod_report(struct core *core, const struct pod *pod);
/* Removes a pod without calls, and reports it. */
void pod_leave(struct core *core, struct pod *pod);
bool pod_is_draining(const struct core *core, const struct pod *pod);
bool pod_is_heartbeating(const struct core *core, const struct pod *pod);
/* When a pod that must send heartbeats counts as gone, if it sends no other. */
uint64_t pod_silent_at(const struct core *core, const struct pod *pod);
bool pod_should_leave(const struct core *core, const struct pod *pod);
/* Puts the pod into the list of its state. A pod's state changes only here. */
void pod_place(struct core *core, struct pod *pod);
/* Takes the pod out of its pool's list and counts until it is placed again. */
void pod_unplace(struct pod *pod);
/*
 * Until the end of this command the pod gets no call: it is about to leave, or its calls are. So no call
 * is moved or granted to a pod that leaves in the same step.
 */
void pod_close(struct core *core, struct pod *pod);
/* It may get calls again. */
void pod_open(struct core *core, struct pod *pod);
/* The command has ended: all of them may. */
void pods_open(struct core *core);
/*
 * Call it after every change of a pod. Places the pod. Moves an idle pod to another pool if its own
 * was removed from the configuration. Removes a pod that is not ready and has no calls. True: the
 * pod was removed.
 */
bool pod_settle(struct core *core, struct pod *pod);
void pod_move(struct core *core, struct pod *pod, struct pool *pool);
/* Copies both. 0 or -ENOMEM, then neither is changed. */
int pod_set_texts(struct pod *pod, const char *address, const char *incarnation) MUST_CHECK;

/*
 * pod_changes.c: removes the pod and ends its calls. -ENOMEM: the same, but `ended` is not
 * complete.
 */
int pod_end(struct core *core, struct pod *pod, struct arena *arena, struct ended_array *ended) MUST_CHECK;

/* rebalance.c: the pool for a pod that belongs to none (docs/TIERS.md) */
struct pool *pool_for_new_pod(const struct core *core);

/* call.c */
struct call *call_find(const struct core *core, const char *call_sid);
/*
 * Has its lease expired? Then the next sweep ends it. Until then it keeps its pod, and a
 * sign of life or another allocation keeps it alive.
 */
bool call_is_expired(const struct core *core, const struct call *call);
/* For the heap of leases: those of one moment by their names, as in Redis. */
bool call_ends_before(const struct heap_node *a, const struct heap_node *b);
/* Did the call get its pod before the pod's process started? 0: not known, so it did. */
bool call_is_older(const struct call *call, uint64_t started_at_ms);
/* Makes a call on `pod`. Neither reports it nor places the pod. */
int call_new(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
             struct pod *pod, struct pool *source, uint64_t allocated_at_ms, uint64_t expires_at_ms,
             struct call **ret_call) MUST_CHECK;
void call_report(struct core *core, const struct call *call);
/* Takes the call off its pod and frees it. Neither reports it nor settles the pod. */
void call_free(struct core *core, struct call *call);
/* Ends the call, reports it, and settles its pod. True: the pod was removed. */
bool call_end(struct core *core, struct call *call);
/* The same for an end on purpose, or undone: the end is recorded if the call was ever renewed. */
bool call_finish(struct core *core, struct call *call, enum past_end how);
/* The same for a call that nobody released: also calls on_ended. */
bool call_lose(struct core *core, struct call *call, enum call_end why);
/* The same for a granted call that nobody took. */
void call_abandon(struct core *core, struct call *call);
/* The call leaves its pod for the line. The same otherwise. */
bool call_leave_pod(struct core *core, struct call *call);
/* Records the end of a call that is not there any more. */
void call_record_end(struct core *core, const char *call_sid, enum finish_reason why);
void call_set_can_move(struct core *core, struct call *call, bool can_move);
/*
 * The call was renewed. The first renewal removes the recorded end of an earlier call with the same
 * name. Before it, the recorded end is kept: no renewal or heartbeat could restore this call.
 */
void call_note_renewed(struct core *core, struct call *call);
void call_renew(struct core *core, struct call *call, enum renewer by);
/* With rescues: for UNSETTLED_MS a release that names no pod does not end it. */
void call_unsettle(const struct core *core, struct call *call);
/* It has, or had, an open connection. */
void call_connect(struct core *core, struct call *call);
/* Its carrier cuts its connection: it has RESUME_MS to come back, and no carrier until then. */
void call_depart(struct core *core, struct call *call);
/* Its lease has expired, and it is needed again: it gets the lease of a new call. */
void call_revive(struct core *core, struct call *call);
/*
 * Makes a call that the store has lost, or never had, on `pod`, as one that `by` has renewed.
 * `provider` "": not known. -EAGAIN: the pod is full. -EALREADY: the end of the call is recorded. -ENOMEM.
 */
int call_adopt(struct core *core, const char *call_sid, const char *provider, struct pod *pod,
               enum renewer by, struct call **ret_call) MUST_CHECK;
/* Is `owner`, the provider of the call, another one than that whose webhook this is? See result_forbid. */
bool call_is_of_others(const char *owner, const char *provider);
/* Sets the provider of an adopted call, which had none. */
void call_learn_provider(struct core *core, struct call *call, const char *provider);
int call_info(const struct call *call, struct arena *arena, struct call_info *ret_info) MUST_CHECK;

/*
 * Puts the call on `to`, with the lease of a new call. Reports it, and settles the old pod. True: the old
 * pod was removed.
 */
bool call_move(struct core *core, struct call *call, struct pod *to);

/* carrier.c: the process `carrier` is alive, and carries calls. NULL: no process says so. */
void carrier_note(struct core *core, const char *carrier);
/* Does a live process carry the call? core->carrier is its name. */
bool call_has_carrier(const struct core *core, const struct call *call);

/* attempts.c; attempt 0 is not known: its call is never undone. */
void attempts_add(struct attempts *attempts, uint64_t attempt);
/* True: it was there. False for all attempts once one could not be stored. */
bool attempts_remove(struct attempts *attempts, uint64_t attempt);
void attempts_release(struct attempts *attempts);

/* allocate.c */
/* The lease of a new call: it ends if nobody renews it in this time. */
uint64_t first_lease_ms(const struct core *core);
/* The pod that a call of this merchant ("": none) gets now, or NULL; `prefer` as in the command. */
struct pod *pod_for_call(const struct core *core, const char *merchant_id, const char *prefer,
                         struct chain *ret_chain, bool *ret_unreadable);
/* For replays: the pod that core_on_choice names for the call if it is as good as `pod`; else `pod`. */
struct pod *pod_chosen(const struct core *core, struct pod *pod, const char *call_sid);
/* Makes the reasons why the call gets no pod, and keeps a copy for later queries. */
int call_refuse(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
                const struct chain *chain, struct arena *arena,
                const struct refusal **ret_refusal) MUST_CHECK;

/* release.c */
/*
 * Ends the call as call_finish() and fills result->release. NULL: OUTCOME_NOT_FOUND. A call whose lease
 * has expired is released like any other: it still has its pod.
 */
int call_release(struct core *core, struct call *call, enum past_end how, struct arena *arena,
                 struct result *result) MUST_CHECK;

/* Adds a copy of the call to `array`; to be called right before the call is lost. 0 or -ENOMEM. */
int call_add_ended(struct ended_array *array, struct arena *arena, const struct call *call,
                   enum call_end why) MUST_CHECK;

/* The commands; each fills `result`. 0 or -ENOMEM. */
#define CORE_FUNCTION(TYPE, name, ...)                                                                       \
    int core_##name(struct core *core, const struct command *command, struct arena *arena,                   \
                    struct result *result);
COMMAND_TABLE(CORE_FUNCTION)
#undef CORE_FUNCTION

/* A sentence for OUTCOME_INVALID, or NULL: the arguments are valid. */
#define VALIDATE_FUNCTION(TYPE, name, kind, leader, check, ...)                                              \
    const char *validate_##check(const struct command *command, const struct tier_config *tiers);
COMMAND_TABLE(VALIDATE_FUNCTION)
#undef VALIDATE_FUNCTION

/*
 * change.c: the versions that a change of a configuration adds, made before the change, because it
 * must not fail half-way.
 */
struct change_plan {
    struct history *history; /* NULL: nothing will be added */
    struct version *present; /* what was in force, if it is not kept yet; else NULL */
    struct version *added;
};

/*
 * Fills result->change, and plans the versions. `old_text` and `new_text` "": none. The outcome is
 * OUTCOME_CONFLICT if the present version is not the wanted one. 0 or -ENOMEM.
 */
int change_prepare(struct core *core, const char *merchant_id, const struct change *change,
                   const char *old_text, const char *new_text, struct arena *arena, struct result *result,
                   struct change_plan *ret_plan) MUST_CHECK;
/* The change is done: adds the versions and reports them. */
void change_commit(struct core *core, struct change_plan *plan);
/* It is not done. */
void change_cancel(struct core *core, struct change_plan *plan);

/* merchants.c, also for records.c */
struct merchant *merchant_find(const struct core *core, const char *id);
int merchant_put(struct core *core, const char *id, const char *text) MUST_CHECK;
void merchant_free(struct core *core, struct merchant *merchant);

#endif
