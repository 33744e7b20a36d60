/*
 * command.h - the vocabulary of the domain: the commands of a store, and their results.
 *
 * A command borrows all its strings from the caller until it is answered. A result's strings
 * and arrays live in the arena that was given with the command. Times are wall-clock milliseconds
 * of the store's clock.
 */
#ifndef CORE_COMMAND_H
#define CORE_COMMAND_H

#include "base/arena.h"
#include "core/command_table.h"
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
    /* The Redis scripts use these, too: the build reads them from here (scripts/redis/interface.txt). */
    CARRIER_TTL_MS = 30000,              /* a process that was silent for this long counts as dead */
    ATTEMPTS_MAX = 8,                    /* remembered of one call */
    RESTART_SKEW_MS = 2000,              /* by how much clocks may differ: see started_at_ms */
    ENDED_KEEP_MS = 600 * 1000,          /* how long a recorded end is known */
    HISTORY_MAX = 20,                    /* versions that are kept of the tiers, and of each merchant */
    HISTORY_TEXTS_MAX = 2 * 1024 * 1024, /* a history ends early then, but not with texts of PUTs */
    HISTORY_REMOVED_MAX = 1000,          /* merchants that were removed and whose versions are kept */
    PAST_CALLS_MAX = 10000,              /* calls that have ended and are remembered */
    PAST_KEEP_MS = 3600 * 1000,          /* how long each of them is */
    PAST_SHOWN_MAX = 16,                 /* of one call, in its story */
    WAIT_SILENT_MS = 15 * 1000,          /* a waiting call is given up if its holder is silent for this */
    WAIT_FIRST_MS = 30 * 1000,           /* the same for the first word of a stream that is to come */
    WAIT_TAKE_MS = 15 * 1000,            /* a granted call that is not taken within this is ended */
    WAIT_LOST_MS =
        60 * 1000, /* a call that was lost, and of which nobody knows that it may wait, waits so long */
    WAIT_GRANTS_MAX = 50,              /* by one script */
    WAIT_ESTIMATE_MS = 10 * 60 * 1000, /* the grants of this time make the estimate */
    RESUME_MS = 60 * 1000,             /* a call whose router has gone may come back for so long */
    RESUMES_MAX = 3,                   /* of one call within RESUMES_MS */
    RESUMES_MS = 60 * 1000,
    UNSETTLED_MS = 60 * 1000, /* after a move, a cut or a resume, a release without a pod ends nothing */
};

/* The texts of refusals that both stores give. */
#define REFUSED_CURSOR "cursor is not one that was given out here"
#define REFUSED_FULL_OF_PODS "there are too many pods"
#define REFUSED_FULL_OF_MERCHANTS "there are too many merchants"
#define REFUSED_REGISTRATION "this pod is managed elsewhere and cannot be registered"
#define REFUSED_REMOVAL "this pod is managed elsewhere and cannot be removed"
#define REFUSED_UNDO "somebody else has the call"
#define REFUSED_CHANGED "the configuration was changed meanwhile: look at its history, and try again"
#define REFUSED_LEAVE "somebody has renewed the call"
#define REFUSED_RESUME "the call was resumed too often"
#define REFUSED_HOLD "the call has a newer stream"

/* As a duration or as the end of a drain: only undrain ends it. */
#define DRAIN_WITHOUT_END UINT64_MAX

/* COMMAND_ALLOCATE and the others: see core/command_table.h. */
enum command_type {
#define COMMAND_TYPE(TYPE, ...) COMMAND_##TYPE,
    COMMAND_TABLE(COMMAND_TYPE)
#undef COMMAND_TYPE
        COMMAND_TYPES, /* how many there are */
};

/* For metrics and logs: "allocate", "pod_seen". */
const char *command_name(enum command_type type);

/* It changes nothing. */
bool command_only_looks(enum command_type type);

/* It is executed even on a full disk. */
bool command_is_urgent(enum command_type type);

/* A client relies on its success: a store with replicas answers when they have the change. */
bool command_must_be_sure(enum command_type type);

/* How a call was ended on purpose. The end is recorded: no sign of life brings the call back. */
enum finish_reason {
    FINISH_RELEASED,  /* a client released it */
    FINISH_CLOSED,    /* the gateway or a webhook saw its end */
    FINISH_TIMED_OUT, /* it waited for too long */
    FINISH_REASONS,
};

/* "released", "closed", "timed_out". */
const char *finish_reason_name(enum finish_reason reason);

/* The origin of the data about a pod. A sync removes only pods of its own source. */
enum pod_source {
    POD_SOURCE_API,
    POD_SOURCE_STATIC,
    POD_SOURCE_KUBERNETES,
};

enum pod_state {
    POD_AVAILABLE, /* in its pool, with room */
    POD_BUSY,      /* has as many calls as it may have */
    POD_DRAINING,  /* gets no new call, keeps the ones it has */
    POD_SUSPENDED, /* not ready but with live calls, or held back until its first heartbeat */
    POD_STATES,
};

const char *pod_state_name(enum pod_state state);
const char *pod_source_name(enum pod_source source);

/* Who has renewed a call. */
enum renewer {
    RENEWED_BY_NOBODY, /* never, or it is not known: an older version has renewed it */
    RENEWED_BY_CLIENT, /* a request to renew it */
    RENEWED_BY_POD,    /* a heartbeat of its pod */
    RENEWED_BY_GATEWAY,
    RENEWERS,
};

/* "", "client", "pod", "gateway". */
const char *renewer_name(enum renewer renewer);

/* The first that fits, from the last to the first. */
enum call_state {
    CALL_IS_ANY,       /* no state: for filters */
    CALL_IS_ALLOCATED, /* it has a pod, and nobody has renewed it yet */
    CALL_IS_ACTIVE,    /* somebody has renewed it */
    CALL_IS_CONNECTED, /* a gateway has an open connection of it */
    CALL_IS_EXPIRED,   /* its lease has ended: the next sweep ends it, unless it is renewed before */
    CALL_IS_GRANTED,   /* it has waited, and its holder has not taken the pod yet */
    CALL_STATES,
};

/* "", "allocated", "active", "connected", "expired", "granted". */
const char *call_state_name(enum call_state state);

/* One observation of a pod. */
struct pod_seen {
    const char *name;
    const char *address; /* "" if unknown */
    const char
        *incarnation; /* NULL: not known. A pod that is registered keeps its own, a new one gets the time. */
    const char *tier; /* NULL: any. Else the pod joins this one and rebalancing leaves it there. */
    /*
     * When this incarnation started, by the wall clock of its node; 0: not known, or it has not. A
     * new incarnation ends the calls that the pod got before that: all of them if it is not known.
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

/* How a configuration is changed, and by whom. */
struct change {
    const char *by; /* the name of the key, for the history; NULL: not known, or none was asked for */
    /* The text was stored before, and is read as leniently as stored ones are: to go back to a version. */
    bool is_stored;
    bool is_trial;       /* the answer is the same, but nothing is changed */
    uint64_t if_version; /* else OUTCOME_CONFLICT: the present version; 0: any */
};

/* A call that waits for a pod: its place in line is since_ms - priority * HOLD_AGEING, ties by call_sid. */
struct waiting_call {
    const char *call_sid;
    const char *merchant_id;
    const char *provider; /* whose call it is: see allocate */
    uint64_t since_ms;
    uint64_t until_ms; /* then its wait is over */
    uint64_t claim;    /* see keep */
    /* The rest is not in commands. */
    const char *holder;   /* "": none */
    uint64_t position;    /* from 1: the smallest of its positions in the lines of its pools */
    uint64_t estimate_ms; /* of the time until its grant; 0: not known */
    uint64_t heard_at_ms;
    const char *const *pools; /* labels, in the order of its chain */
    size_t pool_count;
    uint32_t priority;
    bool is_rescued; /* it had a pod, which broke */
};

/* How a wait ended. */
enum wait_end {
    WAIT_GRANTED,   /* and taken */
    WAIT_ABANDONED, /* its holder was silent, left the line, or did not take its pod */
    WAIT_TIMED_OUT,
    WAIT_FULL, /* it could not join: HOLD_MAX_CALLS, or its merchant's max_waiting */
    WAIT_ENDS,
};

/* "granted", "abandoned", "timed_out", "full". */
const char *wait_end_name(enum wait_end end);

/* A wait that has ended without a pod. */
struct ended_wait {
    const char *call_sid;
    const char *merchant_id;
    const char *provider;
    enum wait_end how;
    uint64_t waited_ms;
};

/* The answer to a keep of one call. */
enum keep_answer {
    KEEP_WAITING,
    KEEP_REJOINED,  /* the store had lost it */
    KEEP_GRANTED,   /* it has a pod: hold takes it */
    KEEP_TIMED_OUT, /* its wait is over, and its end recorded */
    KEEP_ENDED,     /* its end was recorded before */
    KEEP_UNKNOWN,   /* the store has lost it, and since_ms is 0 */
    KEEP_ELSEWHERE, /* a newer stream or request has it: nothing was changed */
};

/* A call that its holder keeps: call_sid, merchant_id, provider, since_ms, until_ms and claim. */
struct keep_call {
    struct waiting_call call; /* until_ms 0: not known */
    bool is_first;            /* the first word of a stream: it has the call from now on */
    uint64_t attempt;         /* a request asks, which allocate has given this number; 0: a stream */
};

struct kept_call {
    enum keep_answer answer;
    bool ended_now; /* KEEP_TIMED_OUT: by this command; else it was known, and its end was told before */
    /* KEEP_WAITING, KEEP_REJOINED, KEEP_TIMED_OUT: without position and estimate. KEEP_GRANTED: the claim. */
    struct waiting_call call;
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
            /*
             * A call that finds no pod joins the line, if HOLD_MAX_WAIT or its merchant allows it:
             * OUTCOME_WAITING. Asking again keeps its place and its first merchant, and takes a pod
             * that was granted. A call whose wait has timed out does not join again while that is known: it
             * gets a pod, or OUTCOME_NO_PODS.
             */
            bool waits;
            bool awaits_stream; /* with waits: its holder will be a stream, which has WAIT_FIRST_MS to come */
            const char *holder; /* with waits: the process that is told of the grant, a carrier; NULL: none */
            /*
             * Its stream has ended, and the provider asks what to do. A recorded end is
             * OUTCOME_NOT_FOUND, more than RESUMES_MAX of them within RESUMES_MS OUTCOME_CONFLICT. The
             * wait of a call that waits is over then: OUTCOME_NO_PODS, has_ended.
             */
            bool is_resume;
            const char *resume_pod; /* with is_resume: a new allocation takes this pod if it can; NULL: any */
        } allocate;
        /*
         * Takes back an allocation that was answered with an error, or whose client has gone.
         * Removes the attempt from the call. Ends the call if it has no other attempt and was never
         * renewed; else the outcome is OUTCOME_CONFLICT. OUTCOME_NOT_FOUND: there is no such
         * attempt.
         */
        struct {
            const char *call_sid;
            uint64_t attempt;
            /*
             * An answer was lost, but nobody says that the client has gone: a call that waits keeps its
             * place, which silence ends, and this finds nothing. For the store's own undo.
             */
            bool spares_place;
        } undo;
        struct {
            const char *call_sid;
            /*
             * A pod, or a pattern (see name_fits_pod). NULL: any. A call that is on another one by
             * now is not found.
             */
            const char *pod;
            /*
             * The provider whose webhook asks: another one's call is OUTCOME_FORBIDDEN. NULL: no
             * webhook.
             */
            const char *provider;
            enum finish_reason why;
        } release;
        /*
         * A connection of the call is about to be opened. In one step: finds the pod of the call,
         * renews the call, and makes the process its carrier, so that no other process releases it.
         */
        struct {
            const char *call_sid;
            const char *carrier; /* see renew */
            /*
             * For a stream that is held, with its claim: see keep. If a newer one has the call, it is
             * OUTCOME_CONFLICT, and nothing is changed.
             */
            bool is_held;
            uint64_t claim;
            bool is_new; /* for a stream that begins now: those that are held are older */
        } hold;
        /*
         * The holder of waiting calls is alive, and wants to hear of their grants. A call that the
         * store has lost joins the line again at its old place; if nobody knows when its wait ends, it
         * begins now. A granted call is not taken by this.
         *
         * Of several streams that are held for a call the newest has it, until its holder is silent.
         * The first word of each gives it a claim, which is higher than those before; it keeps the call
         * with it. Of several requests the one with the latest attempt has it.
         */
        struct {
            const struct keep_call *calls;
            size_t count;       /* SIDS_MAX at most */
            const char *holder; /* a carrier */
        } keep;
        /*
         * The leader, every second: serves all lines, ends waiting calls that are silent or past
         * their time, and granted ones that nobody has taken.
         */
        struct {
            size_t limit; /* 0: STEP_LIMIT */
        } serve;
        /*
         * The process is about to cut the connections of these calls, which it carries: each has
         * RESUME_MS to come back, and no carrier until then.
         */
        struct {
            const char *const *call_sids;
            size_t count; /* SIDS_MAX at most */
            const char *carrier;
        } depart;
        /*
         * A process stops carrying the call. The call is released, unless another process carries
         * it or it was renewed: then the outcome is OUTCOME_CONFLICT.
         */
        struct {
            const char *call_sid;
            const char *carrier;    /* see renew */
            uint64_t expires_at_ms; /* the end of its lease if it was not renewed; 0: release nothing */
        } leave;
        /*
         * The calls are alive. A call whose lease has expired is renewed like any other, unless it
         * has ended.
         */
        struct {
            const char *const *call_sids;
            size_t count;
            /*
             * The process that carries these calls' connections: 1 to CARRIER_MAX letters, digits
             * and . _ -; NULL: none. A process that sends no command with its name for
             * CARRIER_TTL_MS counts as dead.
             */
            const char *carrier;
            /*
             * With a carrier: the pod that each call is connected to. A call that the store has
             * lost is adopted there, if there is room. NULL: lost calls are unknown.
             */
            const char *const *pods;
            /*
             * With pods: the provider of each call, as for allocate; "": not known. Restores a
             * provider that the store has lost.
             */
            const char *const *providers;
            /*
             * Without a carrier: calls on pods that do not fit this pattern are conflicts. NULL:
             * none are.
             */
            const char *pattern;
            /*
             * With pods: may the call be moved to another pod when its own is gone, restarted or
             * broken? The carrier then connects it there. NULL: none may.
             */
            const bool *can_move;
        } renew;
        /* A process is alive, or, as its last command, stops. */
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
            uint64_t ttl_ms; /* 0: the default, DRAINING_TTL; or DRAIN_WITHOUT_END */
        } drain;
        struct {
            const char *pod;
        } undrain;
        /*
         * The pod of a live call cannot be reached: drains the pod, and moves the call to another
         * pod.
         */
        struct {
            const char *call_sid;
            const char *from_pod; /* a call on another pod stays there */
            uint64_t aside_ms;    /* from_pod is drained for so long at least; 0: DRAINING_TTL */
            const char *prefer;   /* as for allocate */
            bool spares_pod;      /* from_pod is not drained: only this call leaves it */
            /*
             * No pod is free: the call joins the line in front, with its allocated_at as since, if its
             * merchant may wait: OUTCOME_WAITING. The carrier is its holder. NULL: it stays.
             */
            const char *carrier;
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
             * Its source no longer shows the pod, but the pod may still exist. A pod without calls
             * leaves. A pod with calls stays and drains; see has_stayed in the result.
             */
            bool is_absent;
        } pod_gone;
        struct {
            enum pod_source source;
            const struct pod_seen *pods;
            size_t count;
            bool spares_calls; /* other pods of this source are absent, not gone */
            /*
             * The first sync of a leader: takes over the data that another program left in the
             * store.
             */
            bool imports;
        } sync;
        struct {
            size_t limit; /* 0: STEP_LIMIT */
        } sweep;
        struct {
            size_t limit; /* 0: STEP_LIMIT */
        } rebalance;
        /*
         * Drains the pods of StatefulSets whose ordinals are not wanted (core/autoscale.h), and takes
         * such drains back when they are. Drains of others stay as they are.
         */
        struct {
            bool by_set;  /* the pods are a StatefulSet's; false: all such drains are taken back */
            size_t limit; /* 0: STEP_LIMIT */
        } scale;
        struct {
            bool with_sets; /* it also says what AUTOSCALE_KIND=statefulset needs: looks at every pod */
        } status;
        struct {
            const char *text;
            struct change change;
            bool is_seed; /* the text is TIER_CONFIG: see tier_config_parse_seed */
        } tiers_set;
        struct {
            const char *merchant_id;
            const char *text;
            struct change change;
        } merchant_set;
        struct {
            const char *merchant_id;
        } merchant;
        struct {
            const char *merchant_id;
            struct change change;
        } merchant_remove;
        /* The versions of a configuration. OUTCOME_NOT_FOUND: there is none and never was, as far as is
         * known. */
        struct {
            const char *merchant_id; /* NULL: of the tiers */
        } history;
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
            const char *pod;         /* NULL: all */
            const char *merchant_id; /* NULL: all */
            enum call_state state;   /* CALL_IS_ANY: all */
            uint64_t older_than_ms;  /* allocated at least so long ago */
            size_t limit;
            const char *cursor;
        } calls;
        /* The line, in its order. */
        struct {
            size_t limit;
            const char *cursor;
        } waiting;
        /* call, and story: all that is known of a call, also after its end. */
        struct {
            const char *call_sid;
        } call;
        struct {
            size_t limit;       /* 0: PAGE_MAX */
            const char *cursor; /* NULL or "": from the start; else they come after this id */
        } merchants;
    };
};

/* Only the leader may send it. */
bool command_is_for_leader(const struct command *command);

/* The first invalid argument, as a sentence for OUTCOME_INVALID; NULL: all are valid. */
const char *command_validate(const struct command *command, const struct tier_config *tiers);

enum outcome {
    OUTCOME_OK,
    OUTCOME_NOT_FOUND,
    OUTCOME_NO_PODS,   /* allocate, move_call: the refusal in the result says why */
    OUTCOME_INVALID,   /* result.error says what is wrong; nothing was changed */
    OUTCOME_CONFLICT,  /* result.error says with what; nothing was changed */
    OUTCOME_FORBIDDEN, /* the call belongs to another provider; nothing was changed or shown */
    OUTCOME_WAITING,   /* allocate, move_call, hold, call: the call has no pod, and waits for one */
};

enum { OUTCOMES = OUTCOME_WAITING + 1 }; /* how many there are */

/* Why a call ended without being released. */
enum call_end {
    CALL_END_EXPIRED,     /* nobody renewed its lease */
    CALL_END_POD_GONE,    /* its pod was deleted, or its heartbeats stopped */
    CALL_END_RESTARTED,   /* its pod has a new incarnation */
    CALL_END_UNMENTIONED, /* its pod's heartbeats left it out */
};

const char *call_end_name(enum call_end end);

/* How a call has left a pod, for its story: as enum finish_reason says; undone; moved; as enum call_end says.
 */
enum past_end {
    PAST_RELEASED = FINISH_RELEASED,
    PAST_CLOSED = FINISH_CLOSED,
    PAST_TIMED_OUT = FINISH_TIMED_OUT,
    PAST_UNDONE = FINISH_REASONS, /* nobody got the answer of its allocation */
    PAST_MOVED,                   /* it went on, on another pod */
    PAST_EXPIRED,                 /* CALL_END_EXPIRED, and so on */
    PAST_POD_GONE,
    PAST_RESTARTED,
    PAST_UNMENTIONED,
    PAST_ENDS,
};

/* "released", "undone", "moved", "lease_expired". */
const char *past_end_name(enum past_end end);

/* A call that has ended, or has left this pod. */
struct past_call {
    const char *pod;
    const char *pool;
    const char *merchant_id;
    const char *provider;
    uint64_t allocated_at_ms;
    uint64_t renewed_at_ms; /* the last time; 0: never, or it is not known */
    uint64_t ended_at_ms;
    enum renewer renewed_by;
    enum past_end how;
};

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
typedef void (*call_finished_fn)(void *arg, const char *call_sid);

/* The same. */
typedef void (*call_changed_fn)(void *arg, const char *call_sid);

struct name_array {
    const char **names;
    size_t count;
};

struct ended_array {
    struct ended_call *calls;
    size_t count;
};

/* What is happening to a call. */
struct call_activity {
    enum call_state state;
    bool was_renewed;
    uint64_t renewed_at_ms;  /* the last time; 0: see RENEWED_BY_NOBODY */
    enum renewer renewed_by; /* the last time */
    bool is_connected;       /* one of the carriers has had an open connection */
    bool is_granted;         /* see CALL_IS_GRANTED */
    struct name_array carriers;
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
    enum pod_source pod_source;    /* who named the address; POD_SOURCE_API if that is not known */
    struct call_activity activity; /* only in the results of call and calls */
};

/* Sets the state of a call whose other members are known. */
void call_set_state(struct call_info *call, uint64_t now_ms);

struct pod_info {
    const char *name;
    const char *tier; /* "gold", "merchant:9shines" */
    const char *address;
    const char *incarnation;
    enum pod_source source;
    enum pod_state state;
    bool is_draining;
    bool is_surplus; /* it drains because autoscaling wants fewer pods: see scale */
    bool is_terminating;
    bool is_ready;
    bool is_heartbeating;       /* it sent a heartbeat within HEARTBEAT_TTL, or has just registered */
    uint64_t draining_until_ms; /* 0: it does not drain. A terminating pod drains without an end. */
    uint64_t last_heartbeat_ms; /* 0: none, as far as the store knows */
    const char *newest_call;    /* "" if it carries none */
    struct name_array calls;
};

/* Why one pool of the chain had no pod for the call. */
struct refusal_step {
    char pool[POOL_LABEL_MAX + 1];
    bool is_configured;
    uint32_t pods;
    uint32_t by_state[POD_STATES];
};

struct refusal {
    uint64_t at_ms;
    char merchant_id[MERCHANT_ID_MAX + 1]; /* whose call it was; "": nobody's, or it is not known */
    char provider[PROVIDER_MAX + 1];       /* the same */
    struct refusal_step *steps;
    size_t count;
};

/* What a tier says about its number of pods, with defaults: see core/autoscale.h. */
struct tier_scaling {
    uint32_t buffer; /* calls for which there is always room */
    uint32_t min_pods;
    uint32_t max_pods; /* UINT32_MAX: no limit */
};

/* The pods of one StatefulSet in one tier. A set is what the names of its pods have before their ordinal. */
struct set_status {
    const char *name; /* "": pods whose names have no ordinal */
    const char *tier;
    uint32_t pods;
    /* One more than the highest ordinal with a live call; terminating pods do not count. 0: none has a call.
     */
    uint32_t floor;
};

struct tier_status {
    const char *name;
    uint64_t calls;
    uint64_t capacity; /* calls that its pods could carry if all were available */
    uint64_t free;     /* calls that its available pods could take now */
    uint32_t target;
    uint32_t max_concurrent;
    uint32_t assigned;
    uint32_t by_state[POD_STATES];
    /* For autoscaling. */
    uint32_t leaving;    /* of the pods that drain: Kubernetes removes them, or they are surplus */
    uint64_t held_calls; /* on pods that drain or are suspended */
    uint64_t waiting;    /* calls that wait, and whose chain begins here */
    struct tier_scaling scaling;
    bool is_shared;
    bool is_configured; /* false: removed, but still has pods that carry calls */
};

/* One version of a configuration: see core/history.h. */
struct version_info {
    uint64_t number;
    uint64_t at_ms;   /* when it was set; 0: not known */
    const char *by;   /* the name of the key that set it; "": not known, or none was asked for */
    const char *text; /* "": it was removed */
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
            bool is_full;                  /* OUTCOME_NO_PODS: it may wait, but the line is full */
            struct waiting_call waiting;   /* OUTCOME_WAITING */
            bool has_joined;               /* OUTCOME_WAITING: with this request */
            bool was_taken;                /* OUTCOME_OK: it has waited, and this request took the pod */
            uint64_t waited_ms;            /* was_taken, or its wait is over */
            /*
             * is_resume, OUTCOME_NOT_FOUND: its end is recorded. OUTCOME_NO_PODS: it has waited, and this
             * request found that its wait is over; why is FINISH_TIMED_OUT.
             */
            bool has_ended;
            enum finish_reason why; /* has_ended */
        } allocate;
        struct {
            struct call_info call; /* without expires_at_ms: it has ended */
            const char
                *released_to; /* the pool that has the pod again; "": it left with the call, or drains */
            bool was_draining;
            bool is_carried;    /* leave, OUTCOME_CONFLICT: by another process */
            bool was_waiting;   /* it had no pod: the pod and the pool are "" */
            bool was_granted;   /* it had waited for the pod, and nobody had taken it */
            uint64_t waited_ms; /* was_waiting, was_granted */
            bool is_kept; /* release: the call was moved, cut or resumed lately, and goes on: nothing was
                             changed */
        } release;        /* also leave and undo */
        struct {
            struct call_info call;
            bool was_connected;          /* it had an open connection before, anywhere */
            bool has_ended;              /* OUTCOME_NOT_FOUND: its end is recorded */
            bool was_taken;              /* it has waited, and this took the pod */
            uint64_t waited_ms;          /* was_taken */
            struct waiting_call waiting; /* OUTCOME_WAITING */
        } hold;
        struct {
            struct kept_call *calls; /* as many as were asked for, in their order */
            size_t count;
        } keep;
        struct {
            struct ended_wait *ended;
            size_t ended_count;
            size_t granted;
            bool more; /* call again */
        } serve;
        struct {
            size_t count; /* calls that may come back */
        } depart;
        /* OUTCOME_NO_PODS: the call stays where it is, but from_pod is put aside all the same. */
        struct {
            struct call_info call; /* OUTCOME_OK: where it is now */
            /* Also into the line. False: it was on another pod than from_pod already, or waits already. */
            bool was_moved;
            bool merchant_unreadable;      /* as for allocate */
            const struct refusal *refusal; /* OUTCOME_NO_PODS */
            struct waiting_call waiting;   /* OUTCOME_WAITING */
        } move;
        struct {
            struct name_array renewed;
            struct name_array adopted; /* with pods: the store had lost them */
            struct name_array unknown;
            struct name_array finished;  /* their end is recorded */
            struct name_array conflicts; /* another call has the slot, or the call is on another pod */
            uint64_t expires_at_ms;
        } renew;
        struct {
            uint64_t others; /* processes that share the store and are alive; one that leaves is not told */
        } present;
        struct {
            struct name_array renewed;
            struct name_array adopted;
            struct ended_array ended;   /* the pod has left them out */
            struct name_array finished; /* the pod lists them, but their end is recorded */
            struct name_array conflicts;
        } heartbeat;
        struct {
            uint64_t calls_left;
            uint64_t until_ms; /* or DRAIN_WITHOUT_END */
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
            /*
             * Some pods are not where they belong, and that is certain only a little later; 0: none
             * is.
             */
            uint64_t look_again_ms;
        } sweep;
        struct {
            size_t moved;
            bool more;
        } rebalance;
        struct {
            struct name_array drained;
            struct name_array undrained;
            bool more;
        } scale;
        struct {
            struct tier_status *tiers;
            size_t tier_count;
            /* With with_sets: by name and tier. Else NULL. */
            struct set_status *sets;
            size_t set_count;
            uint64_t active_calls;
            uint64_t pods;
            uint64_t waiting; /* calls that wait */
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
            uint64_t total;          /* all calls, whatever the filters */
            const char *next_cursor; /* "" at the end; a page with filters may be short, and not the last */
        } calls;
        struct {
            struct call_info call;         /* OUTCOME_OK */
            const struct refusal *refusal; /* OUTCOME_NOT_FOUND: the last one, or NULL */
            struct waiting_call waiting;   /* OUTCOME_WAITING */
            uint64_t now_ms;               /* OUTCOME_WAITING: the store's time */
        } call;
        /* OUTCOME_NOT_FOUND: nothing is known of it. */
        struct {
            uint64_t now_ms; /* the store's time */
            bool is_live;
            struct call_info call; /* is_live */
            bool is_waiting;
            struct waiting_call waiting;   /* is_waiting */
            const struct refusal *refusal; /* the last one, also of a live call; or NULL */
            struct past_call *past;        /* oldest first */
            size_t past_count;
        } story;
        struct {
            struct waiting_call *calls;
            size_t count;
            uint64_t total;
            uint64_t now_ms;         /* the store's time */
            const char *next_cursor; /* "" at the end */
        } waiting;
        struct {
            struct name_array ids;   /* sorted */
            struct name_array texts; /* as stored; may be no JSON where somebody else wrote it */
            uint64_t total;
            const char *next_cursor; /* "" at the end */
        } merchants;
        struct {
            const char *text;
        } merchant, tiers;
        struct {
            struct version_info *versions; /* newest first */
            size_t count;
        } history;
        /* A trial: what they would be. */
        struct {
            const char *old_text;       /* "": there was none */
            const char *new_text;       /* "": there is none now */
            uint64_t version;           /* of new_text */
            bool is_changed;            /* the texts differ */
            struct name_array warnings; /* sentences for the operator */
        } change;                       /* tiers_set, merchant_set, merchant_remove */
    };
};

/* The calls that a successful result names as ended; NULL: a command of this type ends none. */
const struct ended_array *command_ended(enum command_type type, const struct result *result);

/* Of a release, leave or undo with OUTCOME_OK: was the wait of the call abandoned with it? */
bool release_ends_wait(const struct result *result);

#endif
