/*
 * state.h - what core is made of. Only for the files of this room.
 *
 * A pod's state is the list it stands in; it changes in pod_place() alone, which also keeps the counts of its
 * pool. A call is in the map of calls, in the list of its pod, in the heap of leases and in a numbered slot.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/core.h"
#include "core/overs.h"
#include "core/refusals.h"

/* One tier or merchant pool. Outlives its configuration while a pod or a call still refers to it. */
struct pool {
    struct map_node node; /* by name */
    struct tier spec;
    bool is_configured;
    uint32_t refs; /* pods and calls that refer to it */
    uint32_t pod_count;
    uint32_t by_state[POD_STATES];
    uint64_t call_count; /* carried by its pods */
    uint64_t free_count; /* room on its available pods */
    struct list
        *by_load; /* [spec.max_concurrent]: the available pods that carry that many calls, oldest first */
    uint32_t lowest_load;           /* no list before this one has a pod */
    char label[POOL_LABEL_MAX + 1]; /* "pool:gold", "merchant:9shines" */
};

struct pod {
    struct map_node node;
    struct heap_node due; /* when a sweep has to look at it; in no heap if never */
    struct list in_pool;  /* in pool->by_load while it is available */
    struct list calls;    /* oldest first */
    struct pool *pool;
    char *address;
    char *incarnation;
    uint64_t draining_until_ms; /* 0: not draining; only meaningful while later than now */
    uint64_t held_until_ms;     /* 0: not held back */
    uint64_t heartbeat_at_ms;   /* 0: never spoke */
    uint64_t sync_mark;         /* the last sync that saw it */
    uint32_t load;              /* calls it carries */
    uint32_t placed_load;       /* the load that its pool's counts know of */
    uint32_t tolerated_load;    /* what it carried when the configuration last changed, and still carries */
    enum pod_state state;
    enum pod_source source;
    bool is_placed;
    bool is_ready;
    bool is_terminating;
    bool is_pinned;
    char name[POD_NAME_MAX + 1];
};

/* The requests that asked for a call: attempts.c. */
struct attempts {
    uint64_t first;
    uint64_t *more; /* the others; NULL while one is all there is */
    uint8_t count;
    bool are_lost; /* not all of them are known: the call is never undone */
};

struct call {
    struct map_node node;
    struct heap_node lease; /* at = expiry */
    struct list on_pod;
    struct pod *pod;
    struct pool *source; /* where its pod came from */
    uint64_t allocated_at_ms;
    uint64_t placed_at_ms; /* when it got this pod: later than that if it was moved */
    uint32_t slot;
    uint32_t misses; /* heartbeats in a row that left it out */
    struct attempts attempts;
    bool was_renewed;   /* by anybody, ever: its end will be recorded */
    bool is_carried;    /* this process has connections of it, open or being opened */
    bool was_connected; /* it had an open one */
    const char *merchant_id;
    char *provider;  /* whose call it is; "": the API's, or not known */
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
    call_over_fn on_over;
    void *on_over_arg;

    struct tier_config *tiers;
    struct pool **tier_pools; /* parallel to tiers->tiers */
    struct map pools;

    struct map pods;
    struct pod **pods_by_name; /* sorted, so that lists can be paged */
    size_t pods_room;
    struct heap pods_due;
    uint64_t sync_mark;

    struct map calls;
    struct heap leases;
    struct call **slots; /* a page of calls is a range of slots */
    uint32_t *free_slots;
    uint32_t free_slot_count;
    uint32_t slot_count;
    uint32_t slots_room;

    struct map merchants;

    struct refusals refusals;
    struct overs overs;
};

/* core.c */
void core_report(struct core *core, const struct record *record);
int fail_invalid(struct arena *arena, struct result *result, const char *message) MUST_CHECK;
int fail_conflict(struct arena *arena, struct result *result, const char *message) MUST_CHECK;

/* pool.c */
int pool_get(struct core *core, const char *name,
             struct pool **ret_pool) MUST_CHECK; /* made if it is not there */
int pool_get_by_label(struct core *core, const char *label, struct pool **ret_pool) MUST_CHECK;
struct pool *pool_find(const struct core *core, const char *name);
void pool_ref(struct pool *pool);
void pool_unref(struct core *core, struct pool *pool);
uint64_t pool_capacity(const struct pool *pool);
/* The least loaded pod with room, or NULL. */
struct pod *pool_least_loaded(struct pool *pool);
/* Where a pod goes that belongs nowhere (SPEC section 3). */
struct pool *pool_for_new_pod(const struct core *core);
/* Makes `config` the configuration; takes ownership on success. 0 or -ENOMEM, then nothing is changed. */
int pools_configure(struct core *core, struct tier_config *config) MUST_CHECK;
void pools_free(struct core *core);

/* pod.c */
struct pod *pod_find(const struct core *core, const char *name);
int pod_new(struct core *core, const char *name, struct pool *pool, enum pod_source source,
            struct pod **ret_pod) MUST_CHECK;
/* Frees a pod that carries no call, without a record. */
void pod_free(struct core *core, struct pod *pod);
void pod_report(struct core *core, const struct pod *pod);
/* Removes a pod that carries no call, and says so. */
void pod_leave(struct core *core, struct pod *pod);
bool pod_is_draining(const struct core *core, const struct pod *pod);
bool pod_is_heartbeating(const struct core *core, const struct pod *pod);
/* When a pod that must speak counts as gone, unless it speaks before. */
uint64_t pod_silent_at(const struct core *core, const struct pod *pod);
bool pod_should_leave(const struct core *core, const struct pod *pod);
/* Puts the pod where its flags and its load say that it belongs; the only place where a state changes. */
void pod_place(struct core *core, struct pod *pod);
/* Takes the pod out of its pool's list and counts until it is placed again. */
void pod_unplace(struct pod *pod);
/*
 * To be called after every change to a pod: places it, gives it a new pool if its own was removed from the
 * configuration and it is free to go, lets it leave if it has nothing to stay for. True: the pod has left.
 */
bool pod_settle(struct core *core, struct pod *pod);
void pod_move(struct core *core, struct pod *pod, struct pool *pool);
/* Copies both. 0 or -ENOMEM, then neither is changed. */
int pod_set_texts(struct pod *pod, const char *address, const char *incarnation) MUST_CHECK;

/* observe.c: removes the pod and ends its calls. -ENOMEM: that is done, but `ended` does not name them all.
 */
int pod_end(struct core *core, struct pod *pod, struct arena *arena, struct ended_array *ended) MUST_CHECK;

/* call.c */
struct call *call_find(const struct core *core, const char *call_sid);
/*
 * Has its lease run out? A sweep ends it then. Until one does, the slot is the call's own, and whoever speaks
 * of the call renews it.
 */
bool call_is_expired(const struct core *core, const struct call *call);
/* Did the call get its pod before the pod's process started? With 0, not known, it counts as if it had. */
bool call_is_older(const struct call *call, uint64_t started_at_ms);
/* Makes a call on `pod`, without a record and without placing the pod. */
int call_new(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
             struct pod *pod, struct pool *source, uint64_t allocated_at_ms, uint64_t expires_at_ms,
             struct call **ret_call) MUST_CHECK;
void call_report(struct core *core, const struct call *call);
/* Takes the call off its pod and frees it, without a record and without settling the pod. */
void call_free(struct core *core, struct call *call);
/* Ends the call, says so, and settles its pod. True: the pod has left. */
bool call_end(struct core *core, struct call *call);
/* The same for an end that was intended: if the call was ever renewed the end is recorded. */
bool call_finish(struct core *core, struct call *call, enum call_over why);
/* The same for a call that nobody released: says why, too. */
bool call_lose(struct core *core, struct call *call, enum call_end why);
/*
 * Somebody has renewed it. The first time a recorded end of an earlier call of that name is forgotten: until
 * then nobody can lose this one in a way that a renewal or a heartbeat would mend.
 */
void call_note_renewed(struct core *core, struct call *call);
void call_renew(struct core *core, struct call *call);
/* Its lease has run out, and somebody asks for it again: it gets the lease of a fresh call. */
void call_revive(struct core *core, struct call *call);
/*
 * The store has lost this call, or never had it: makes it on `pod`, renewed. `provider` is "" if it is not
 * known. 0; -EAGAIN: the pod has no room; -EALREADY: its end is recorded; -ENOMEM.
 */
int call_adopt(struct core *core, const char *call_sid, const char *provider, struct pod *pod,
               struct call **ret_call) MUST_CHECK;
/* A webhook speaks for the calls of its own provider only: is this one none of them? Then it is told so. */
bool call_is_of_others(const struct call *call, const char *provider);
void call_forbid(struct result *result);
/* A call that was adopted belongs to nobody, until somebody who knows says whose it is. */
void call_learn_provider(struct core *core, struct call *call, const char *provider);
int call_info(const struct call *call, struct arena *arena, struct call_info *ret_info) MUST_CHECK;

/* Puts the call on `to`, with the lease of a fresh call, says so, and settles the pod that it leaves. */
void call_move(struct core *core, struct call *call, struct pod *to);

/* attempts.c; 0 is an attempt that nobody can name. */
void attempts_add(struct attempts *attempts, uint64_t attempt);
/* True: it was there. Nothing is ever removed once one could not be remembered. */
bool attempts_remove(struct attempts *attempts, uint64_t attempt);
void attempts_release(struct attempts *attempts);

/* allocate.c */
/* How long a call may go on before somebody has renewed its lease. */
uint64_t first_lease_ms(const struct core *core);
/* The pod that a call of this merchant ("": none) gets now, or NULL; `prefer` as in the command. */
struct pod *pod_for_call(const struct core *core, const char *merchant_id, const char *prefer,
                         struct chain *ret_chain, bool *ret_unreadable);
/* Why the call gets no pod, remembered for whoever asks later. */
int call_refuse(struct core *core, const char *call_sid, const struct chain *chain, struct arena *arena,
                const struct refusal **ret_refusal) MUST_CHECK;

/* Lists in results; -ENOMEM when the arena is full. */
int name_array_init(struct name_array *array, struct arena *arena, size_t max) MUST_CHECK;
int name_array_add(struct name_array *array, struct arena *arena, const char *name) MUST_CHECK;
/* Adds the call to `array`; to be called right before it is lost. */
int ended_array_add(struct ended_array *array, struct arena *arena, const struct call *call,
                    enum call_end why) MUST_CHECK;

/* The commands; each fills `result`. 0 or -ENOMEM. */
int core_allocate(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result);
int core_undo(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_release(struct core *core, const struct command *command, struct arena *arena,
                 struct result *result);
int core_hold(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_leave(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_renew(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_present(struct core *core, const struct command *command, struct arena *arena,
                 struct result *result);
int core_heartbeat(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result);
int core_drain(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_undrain(struct core *core, const struct command *command, struct arena *arena,
                 struct result *result);
int core_move_call(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result);
int core_pod_seen(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result);
int core_pod_gone(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result);
int core_sync(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_sweep(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_rebalance(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result);
int core_tiers_set(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result);
int core_merchant_set(struct core *core, const struct command *command, struct arena *arena,
                      struct result *result);
int core_merchant_remove(struct core *core, const struct command *command, struct arena *arena,
                         struct result *result);
int core_status(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_pods(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_pod(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_calls(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_call(struct core *core, const struct command *command, struct arena *arena, struct result *result);
int core_merchants(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result);
int core_merchant(struct core *core, const struct command *command, struct arena *arena,
                  struct result *result);
int core_tiers(struct core *core, const struct command *command, struct arena *arena, struct result *result);

/* core.c, also for load.c */
struct merchant *merchant_find(const struct core *core, const char *id);
int merchant_put(struct core *core, const char *id, const char *text) MUST_CHECK;
void merchant_free(struct core *core, struct merchant *merchant);

#endif
