/*
 * command.h - the vocabulary of the domain: what can be asked of a store, and what it answers.
 *
 * A command borrows all its strings from the caller until the answer is there. A result's strings and arrays
 * live in the arena that was given with the command. Times are wall-clock milliseconds of the store's clock.
 */
#ifndef CORE_COMMAND_H
#define CORE_COMMAND_H

#include "base/arena.h"
#include "core/merchant.h"
#include "core/names.h"

enum {
    PODS_MAX = 50000,   /* registered at once; more are refused */
    SIDS_MAX = 1000,    /* call_sids in one renew or heartbeat */
    PAGE_DEFAULT = 100, /* entries in a page when no limit is given */
    PAGE_MAX = 1000,
    PAGE_CALLS_MAX = 10000,       /* a page of pods ends early once it names that many calls */
    PAGE_TEXTS_MAX = 1024 * 1024, /* a page of merchants ends early once their texts have more bytes */
    STEP_LIMIT = 1000,            /* calls ended or pods moved by one sweep or rebalance step */
    HEARTBEAT_MISSES = 2,         /* heartbeats in a row that must leave a call out before it is ended */
    HEARTBEAT_YOUNG_MS = 30000,   /* a call younger than this is not ended by heartbeats */
    CARRIER_MAX = 255,
    CARRIER_TTL_MS = 30000,     /* as in scripts/redis/lib/calls.lua */
    ATTEMPTS_MAX = 8,           /* remembered of one call, as in scripts/redis/lib/attempts.lua */
    RESTART_SKEW_MS = 2000,     /* by how much clocks may differ: see started_at_ms; as in seen.lua */
    ENDED_KEEP_MS = 600 * 1000, /* how long a recorded end is known, as in scripts/redis/lib/ended.lua */
};

enum command_type {
    /* change something */
    COMMAND_ALLOCATE,
    COMMAND_UNDO,
    COMMAND_RELEASE,
    COMMAND_HOLD,
    COMMAND_LEAVE,
    COMMAND_RENEW,
    COMMAND_PRESENT,
    COMMAND_HEARTBEAT,
    COMMAND_DRAIN,
    COMMAND_UNDRAIN,
    COMMAND_MOVE_CALL,
    COMMAND_POD_SEEN,
    COMMAND_POD_GONE,
    COMMAND_SYNC,
    COMMAND_SWEEP,
    COMMAND_REBALANCE,
    COMMAND_TIERS_SET,
    COMMAND_MERCHANT_SET,
    COMMAND_MERCHANT_REMOVE,
    /* only look */
    COMMAND_STATUS,
    COMMAND_PODS,
    COMMAND_POD,
    COMMAND_CALLS,
    COMMAND_CALL,
    COMMAND_MERCHANTS,
    COMMAND_MERCHANT,
    COMMAND_TIERS,
    COMMAND_TYPES, /* how many there are */
};

/* For metrics and logs: "allocate", "pod_seen". */
const char *command_name(enum command_type type);

static inline bool command_only_looks(enum command_type type)
{
    return type >= COMMAND_STATUS;
}

/* How a call was ended on purpose. Such an end is recorded, and the call never comes back by itself. */
enum call_over {
    CALL_OVER_RELEASED,  /* somebody asked for it */
    CALL_OVER_CLOSED,    /* the gateway saw its end, or its provider told it */
    CALL_OVER_TIMED_OUT, /* it waited for too long */
    CALL_OVERS,
};

/* "released", "closed", "timed_out". */
const char *call_over_name(enum call_over over);

/* Who says that a pod exists. A sync removes only pods of its own source. */
enum pod_source {
    POD_SOURCE_API,
    POD_SOURCE_STATIC,
    POD_SOURCE_KUBERNETES,
};

enum pod_state {
    POD_AVAILABLE, /* in its pool, with room */
    POD_BUSY,      /* carries as many calls as it may */
    POD_DRAINING,  /* gets no new call, keeps the ones it has */
    POD_SUSPENDED, /* not ready but holding live calls, or held back until its first heartbeat */
    POD_STATES,
};

const char *pod_state_name(enum pod_state state);
const char *pod_source_name(enum pod_source source);

/* One observation of a pod. */
struct pod_seen {
    const char *name;
    const char *address; /* "" if unknown */
    const char
        *incarnation; /* NULL: not known. A pod that is registered keeps its own, a new one gets the time. */
    const char *tier; /* NULL: any. Else the pod joins this one and rebalancing leaves it there. */
    /*
     * When this incarnation started, by the wall clock of its node; 0: not known, or it has not. A new
     * incarnation ends the calls that the pod got before that: all of them if it is not known.
     */
    uint64_t started_at_ms;
    enum pod_source source;
    bool is_ready;
    bool is_terminating;
    bool hold_back; /* if the store does not know it: no call until its first heartbeat, at most HEARTBEAT_TTL
                     */
    /* In a sync: the source knows that the pod exists, but not how it is. It stays as it is. */
    bool is_kept;
};

struct command {
    enum command_type type;
    union {
        struct {
            const char *call_sid;
            const char *merchant_id; /* "" if none */
            const char *provider;    /* whose call it is; "": nobody's but the API's */
            bool is_webhook;         /* of that provider: another one's call is OUTCOME_FORBIDDEN */
            const char *prefer;      /* for replays: take this pod if it is as good as any; else NULL */
            uint64_t attempt;        /* names this request, for undo; 0: the store gives it a number */
        } allocate;
        /*
         * An allocation was answered with an error although it may have been carried out, or its client has
         * gone. Takes the attempt off the call, and ends the call if no other attempt is left and nobody has
         * renewed it. Else the outcome is OUTCOME_CONFLICT, or OUTCOME_NOT_FOUND: there is no such attempt.
         */
        struct {
            const char *call_sid;
            uint64_t attempt;
        } undo;
        struct {
            const char *call_sid;
            /* A pod, or a pattern (see name_fits_pod). NULL: any. A call that is on another one by now is not
             * found. */
            const char *pod;
            /* The provider whose webhook asks: another one's call is OUTCOME_FORBIDDEN. NULL: no webhook. */
            const char *provider;
            enum call_over why;
        } release;
        /*
         * A connection of the call is about to be opened. One step that says where the call is, renews it and
         * makes the process its carrier, so that nobody releases it meanwhile.
         */
        struct {
            const char *call_sid;
            const char *carrier; /* see renew */
        } hold;
        /*
         * A process does not carry the call any more: it is released, unless another one carries it or
         * somebody has renewed it. Then the outcome is OUTCOME_CONFLICT.
         */
        struct {
            const char *call_sid;
            const char *carrier;    /* see renew */
            uint64_t expires_at_ms; /* when its lease ends, if nobody has renewed it; 0: release nothing */
        } leave;
        /*
         * Proof of life: a call whose lease has run out is renewed like any other, as long as nobody has
         * ended it.
         */
        struct {
            const char *const *call_sids;
            size_t count;
            /*
             * The process that carries these calls' connections: 1 to CARRIER_MAX letters, digits and . _ -;
             * NULL: none. One that has said nothing, not even that it is present, for CARRIER_TTL_MS is taken
             * for dead.
             */
            const char *carrier;
            /*
             * With a carrier: the pod that each call is connected to. A call that the store has lost is
             * adopted there, if there is room. NULL: lost calls are unknown.
             */
            const char *const *pods;
            /* With pods: whose calls they are, as for allocate; "": not known. A store that has lost it
             * learns it again. */
            const char *const *providers;
            /* Without a carrier: calls on pods that do not fit this pattern are conflicts. NULL: none are. */
            const char *pattern;
        } renew;
        /* A process says that it is alive, or, as its last word, that it carries nothing any more. */
        struct {
            const char *carrier; /* see renew; not NULL */
            bool is_leaving;
        } present;
        struct {
            const char *pod;
            const char *const *call_sids;
            size_t count;
        } heartbeat;
        struct {
            const char *pod;
            uint64_t ttl_ms; /* 0: the default, DRAINING_TTL */
        } drain;
        struct {
            const char *pod;
        } undrain;
        /* The pod of a live call cannot be reached: it is put aside, and the call goes to another one. */
        struct {
            const char *call_sid;
            const char *from_pod; /* a call that is on another one already stays there */
            uint64_t aside_ms;    /* how long from_pod is drained at least; 0: the default, DRAINING_TTL */
            const char *prefer;   /* as for allocate */
        } move;
        struct {
            struct pod_seen pod;
            /* A registration through the API: a pod without an incarnation starts a new one. */
            bool is_registration;
        } pod_seen;
        struct {
            const char *pod;
            enum pod_source source;
            /*
             * Its source does not show it any more, which does not yet mean that it is gone. Without a call
             * it leaves; with one it drains, and the result says that it has stayed.
             */
            bool is_absent;
        } pod_gone;
        struct {
            enum pod_source source;
            const struct pod_seen *pods;
            size_t count;
            bool spares_calls; /* pods of this source that are not among them are absent, not gone */
            /* The first of a leader: whatever another program has left in the store is taken over. */
            bool imports;
        } sync;
        struct {
            size_t limit; /* 0: STEP_LIMIT */
        } sweep;
        struct {
            size_t limit; /* 0: STEP_LIMIT */
        } rebalance;
        struct {
            const char *text;
        } tiers_set;
        struct {
            const char *merchant_id;
            const char *text;
        } merchant_set;
        struct {
            const char *merchant_id;
        } merchant; /* also merchant_remove */
        struct {
            const char *tier;   /* NULL: all */
            int state;          /* enum pod_state, or -1: all */
            size_t limit;       /* 0: PAGE_DEFAULT */
            const char *cursor; /* NULL or "": from the start; else the next_cursor of the page before */
        } pods;
        struct {
            const char *name;
        } pod;
        struct {
            size_t limit;
            const char *cursor;
        } calls;
        struct {
            const char *call_sid;
        } call;
        struct {
            size_t limit;       /* 0: PAGE_MAX */
            const char *cursor; /* NULL or "": from the start; else they come after this id */
        } merchants;
    };
};

/* What is wrong with the names in the command, as a sentence for OUTCOME_INVALID; NULL if nothing is. */
const char *command_fault(const struct command *command, const struct tier_config *tiers);

enum outcome {
    OUTCOME_OK,
    OUTCOME_NOT_FOUND,
    OUTCOME_NO_PODS,   /* allocate, move_call: the refusal in the result says why */
    OUTCOME_INVALID,   /* result.error says what is wrong; nothing was changed */
    OUTCOME_CONFLICT,  /* result.error says with what; nothing was changed */
    OUTCOME_FORBIDDEN, /* the call is another provider's, or the API's; nothing was changed, or is shown */
};

enum { OUTCOMES = OUTCOME_FORBIDDEN + 1 }; /* how many there are */

/* Why a call ended without being released. */
enum call_end {
    CALL_END_EXPIRED,     /* nobody renewed its lease */
    CALL_END_POD_GONE,    /* its pod was deleted, or stopped heartbeating */
    CALL_END_RESTARTED,   /* its pod has a new incarnation */
    CALL_END_UNMENTIONED, /* its pod's heartbeats left it out */
};

const char *call_end_name(enum call_end end);

struct ended_call {
    const char *call_sid;
    const char *pod;
    const char *pool;
    const char *merchant_id;
    enum call_end why;
};

/* Borrows the call for the duration of the call. */
typedef void (*call_ended_fn)(void *arg, const struct ended_call *call);

/* Borrows the name for the duration of the call. */
typedef void (*call_over_fn)(void *arg, const char *call_sid);

struct name_array {
    const char **names;
    size_t count;
};

struct ended_array {
    struct ended_call *calls;
    size_t count;
};

struct call_info {
    const char *call_sid;
    const char *pod;
    const char *address; /* the pod's */
    const char *pool;    /* "pool:gold", "merchant:9shines" */
    const char *merchant_id;
    const char *provider; /* whose call it is: see allocate */
    uint64_t allocated_at_ms;
    uint64_t expires_at_ms;
    enum pod_source pod_source; /* who named the address; POD_SOURCE_API if that is not known */
};

struct pod_info {
    const char *name;
    const char *tier; /* "gold", "merchant:9shines" */
    const char *address;
    const char *incarnation;
    enum pod_source source;
    enum pod_state state;
    bool is_draining;
    bool is_ready;
    bool is_heartbeating;    /* spoke within HEARTBEAT_TTL */
    const char *newest_call; /* "" if it carries none */
    struct name_array calls;
};

/* What stood in the way of one pool of the chain. */
struct refusal_step {
    char pool[POOL_LABEL_MAX + 1];
    bool is_configured;
    uint32_t pods;
    uint32_t by_state[POD_STATES];
};

struct refusal {
    uint64_t at_ms;
    struct refusal_step *steps;
    size_t count;
};

struct tier_status {
    const char *name;
    bool is_shared;
    bool is_configured; /* false: removed, but still has pods that carry calls */
    uint32_t target;
    uint32_t max_concurrent;
    uint32_t assigned;
    uint32_t by_state[POD_STATES];
    uint64_t calls;
    uint64_t capacity; /* calls that its pods could carry if all were available */
    uint64_t free;     /* calls that its available pods could take now */
};

struct result {
    enum outcome outcome;
    const char *error; /* for OUTCOME_INVALID and OUTCOME_CONFLICT */
    union {
        struct {
            struct call_info call;
            bool was_existing;
            uint64_t attempt;         /* of this request: see undo */
            bool merchant_unreadable; /* its stored configuration is broken: the default chain was used */
            const struct refusal *refusal; /* OUTCOME_NO_PODS */
        } allocate;
        struct {
            struct call_info call;   /* without expires_at_ms: it has ended */
            const char *released_to; /* the pool the pod belongs to now; "" when the pod left with the call */
            bool was_draining;
            bool is_carried; /* leave, OUTCOME_CONFLICT: by another process */
        } release;           /* also leave and undo */
        struct {
            struct call_info call;
            bool was_connected; /* it had an open connection before, anywhere */
            bool has_ended;     /* OUTCOME_NOT_FOUND: its end is recorded */
        } hold;
        /* OUTCOME_NO_PODS: the call stays where it is, but from_pod is put aside all the same. */
        struct {
            struct call_info call;         /* OUTCOME_OK: where it is now */
            bool was_moved;                /* false: it was on another pod than from_pod already */
            bool merchant_unreadable;      /* as for allocate */
            const struct refusal *refusal; /* OUTCOME_NO_PODS */
        } move;
        struct {
            struct name_array renewed;
            struct name_array adopted; /* with pods: the store had lost them */
            struct name_array unknown;
            struct name_array over;      /* their end is recorded */
            struct name_array conflicts; /* another call has the slot, or the call is on another pod */
            uint64_t expires_at_ms;
        } renew;
        struct {
            uint64_t others; /* processes that share the store and are alive; one that leaves is not told */
        } present;
        struct {
            struct name_array renewed;
            struct name_array adopted;
            struct ended_array ended; /* the pod has left them out */
            struct name_array over;   /* the pod lists them, but their end is recorded */
            struct name_array conflicts;
        } heartbeat;
        struct {
            bool has_active_call;
            uint64_t until_ms;
        } drain;
        struct {
            const char *tier; /* "" if the pod was not registered because it is not ready */
            bool is_new;
            struct ended_array ended;
        } pod_seen;
        struct {
            struct ended_array ended;
            bool has_stayed; /* is_absent: it carries calls, and drains */
        } pod_gone;
        struct {
            size_t added;
            size_t removed;
            size_t changed;
            struct ended_array ended;
            struct name_array absent; /* spares_calls: those that have stayed because they carry calls */
            uint64_t look_again_ms;   /* as for sweep: when the next one is wanted, at the latest */
        } sync;
        struct {
            struct ended_array ended;
            size_t recovered;       /* pods brought back after a drain or a hold */
            struct name_array gone; /* pods that stopped heartbeating or left */
            bool more;              /* there is more to do than `limit`: call again */
            /* Some pods are not where they belong, and that is certain only a little later; 0: none is. */
            uint64_t look_again_ms;
        } sweep;
        struct {
            size_t moved;
            bool more;
        } rebalance;
        struct {
            struct tier_status *tiers;
            size_t tier_count;
            uint64_t active_calls;
            uint64_t pods;
        } status;
        struct {
            struct pod_info *pods;
            size_t count;
            uint64_t total;
            const char *next_cursor; /* "" at the end */
        } pods;
        struct pod_info pod;
        struct {
            struct call_info *calls;
            size_t count;
            uint64_t total;
            const char *next_cursor; /* "" at the end */
        } calls;
        struct {
            struct call_info call;         /* OUTCOME_OK */
            const struct refusal *refusal; /* OUTCOME_NOT_FOUND: the last one, or NULL */
        } call;
        struct {
            struct name_array ids;   /* sorted */
            struct name_array texts; /* as stored; may be no JSON where somebody else wrote it */
            uint64_t total;
            const char *next_cursor; /* "" at the end */
        } merchants;
        struct {
            const char *text;
        } merchant, tiers;
    };
};

#endif
