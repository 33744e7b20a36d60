/*
 * redis_internal.h - the types and functions that the files of the Redis store share.
 *
 * A command becomes an operation. Most operations take one script; those of bulk.h take several
 * requests. A function that returns a negative errno leaves it to its caller to finish the
 * operation.
 */
#ifndef STORE_REDIS_REDIS_INTERNAL_H
#define STORE_REDIS_REDIS_INTERNAL_H

#include "base/list.h"
#include "core/result.h"
#include "store/redis/redis.h"
#include "store/redis/script_interface.h"

enum {
    REDIS_STORE_MAGIC = 0x72656473,
    OPERATION_MAGIC = 0x6f706572,
    REDIS_SEEN_BATCH = 25,       /* pods of one seen.lua, gone.lua or move_pods.lua */
    REDIS_PLACE_BATCH = 50,      /* pods of one place.lua */
    REDIS_CALL_BATCH = 32,       /* calls of one release_and_allocate.lua */
    REDIS_RENEW_BATCH = 100,     /* calls of one renew.lua */
    REDIS_KEEP_BATCH = 50,       /* calls of one keep.lua */
    REDIS_DEPART_BATCH = 100,    /* calls of one depart.lua or departed.lua */
    REDIS_WAITING_BATCH = 50,    /* calls of one waiting.lua */
    REDIS_HEARTBEAT_BATCH = 250, /* calls of one heartbeat.lua */
    REDIS_SWEEP_BATCH = 50,      /* calls or pods of one sweep script */
    REDIS_MEND_LOOK = 1000,      /* pods, and calls, that one sweep looks at, at least */
    REDIS_MEND_AGAIN_MS = SCRIPT_DOUBT_MS + 500,
    REDIS_PAGE_BATCH = 100,   /* names, pods or calls of one page */
    REDIS_STATUS_LOOK = 250,  /* pods held out that the counts look at */
    REDIS_PODS_MAX = 1000000, /* of a bulk operation: beyond it something is wrong */
    REDIS_BULK_ARENA_MAX = 256 * 1024 * 1024,
    REDIS_NUMBER_MAX = 24,
    REDIS_CURSOR_MAX = 24,       /* of SCAN, with its NUL */
    REDIS_STALE_TRIES = 16,      /* of one step, each with the tiers read anew */
    PAST_GATHERED = 128,         /* released calls in one command */
    PAST_TEXTS_MAX = 128 * 1024, /* bytes of them; one more is not remembered */
};

/* The tiers as the scripts want them. Immutable but for its count of owners and for the version. */
struct tier_cache {
    unsigned refs;
    struct tier_config *config;
    char *version;             /* of the stored text that was read last; where `tiers` begins */
    struct slice tiers;        /* ARGV[2]: "VERSION\nNAME MAX TARGET\n…" in the order of filling */
    struct slice default_tier; /* ARGV[3] */
    struct slice merchants;    /* for the resolution of a merchant's configuration, as JSON */
    struct slice *chain;       /* pairs of tier and MAX */
    size_t chain_count;        /* of slices: two for each step */
    struct arena arena;
};

/* Each group is written by one file: the one that its comment names. */
struct redis_store {
    struct store store;
    unsigned magic;
    struct redis_link *link;
    struct tier_cache *tiers; /* as known now; NULL until they have been read */
    struct store_stats stats;

    /* Settings, fixed after the start. */
    struct core_settings core;
    uint64_t call_info_ttl_ms;
    uint64_t tier_refresh_ms;
    uint64_t link_timeout_ms;
    uint64_t mailbox_look_ms;
    bool waits_for_replicas;
    struct {
        char *prefix;
        char *active; /* calls:active, which says where in a cluster everything is */
        char *waited; /* of redis_link_wait */
        char *channel;
        char *settling;
        char *ended; /* calls:ended: see past.c */
    } keys;
    /* In every allocation: its lease, and the life of its keys, in ms. */
    struct {
        char lease[REDIS_NUMBER_MAX];
        char lease_life[REDIS_NUMBER_MAX];
        char record_life[REDIS_NUMBER_MAX];
    } first;
    /* For calls that wait: HOLD_MAX_WAIT, HOLD_MAX_CALLS, HOLD_AGEING. */
    struct {
        char max_wait[REDIS_NUMBER_MAX];
        char max_calls[REDIS_NUMBER_MAX];
        char ageing[REDIS_NUMBER_MAX];
    } hold;

    /* redis.c */
    struct {
        call_ended_fn on_ended;
        void *on_ended_arg;
        call_finished_fn on_finished;
        void *on_finished_arg;
        call_changed_fn on_changed;
        void *on_changed_arg;
        redis_guard_fn may_lead;
        void *may_lead_arg;
    } hooks;
    struct {
        bool is_begun;
        bool are_handles_closing; /* nothing is under way any more */
        int open_handles;         /* timers and links */
        store_closed_fn closed;
        void *closed_arg;
    } closing;

    /* operation.c */
    struct {
        struct list under_way;
        struct list deferred; /* answered without asking Redis, but not inside the call */
        uv_timer_t defer_timer;
    } work;

    /* call_batch.c: operations that are gathered to be sent together */
    struct {
        struct list waiting;  /* the oldest first */
        size_t count;         /* of them */
        size_t in_redis;      /* batches that were sent and are not answered */
        size_t sent_count;    /* operations in these batches */
        size_t concurrency;   /* operations under way, lately */
        struct list sent;     /* these batches */
        struct list failed;   /* batches that could not be sent, to be answered at the end of the turn */
        struct list late;     /* operations whose deadline has passed, to be answered then, too */
        uint64_t earliest_ms; /* uv_now; no deadline of those above is before it. UINT64_MAX: none is there */
        uv_timer_t timer;     /* of earliest_ms */
        bool is_late;         /* it has passed: one more look at the socket */
    } turn;

    /* tiers_cache.c */
    struct {
        struct tier_cache *seed; /* of the settings: stored if nothing is stored yet */
        char *bad_text;          /* the last stored text that did not parse, so that it is logged once */
        bool is_asking;
        bool is_refused;    /* the last time: the user of Redis lacks a right */
        bool is_seed_given; /* by TIER_CONFIG: not the defaults */
        uv_timer_t timer;
    } tier_loading;

    /* outage.c */
    struct {
        uv_timer_t timer;
        uint64_t last_connected_ms; /* elapsed; when we last ran and had a connection; 0: never */
        bool is_connected;
        bool must_keep_leases; /* that ran out: until a sweep has noted it in Redis */
    } outage;

    /* wipe.c */
    struct {
        uv_timer_t timer;
        bool is_asking;
    } wipe;

    /* sweep.c: where the next sweep goes on */
    struct {
        char mend_cursor[REDIS_CURSOR_MAX]; /* with pods that are not where they belong */
        char tidy_cursor[REDIS_CURSOR_MAX]; /* with calls without a record */
    } sweep;

    /* mailbox.c */
    struct {
        uv_timer_t timer;
        char carrier[CARRIER_MAX + 1];
        uint64_t read;                /* notes that were read, and not yet taken out */
        char first[CALL_SID_MAX + 1]; /* of these */
        uint64_t looks_left;          /* unless the carrier says something */
        bool is_asking;
        bool must_look;          /* there is a note that the answer to come may not have */
        char *channel;           /* on which this router is woken up; NULL: it listens to none */
        struct redis_link *link; /* listens to it; NULL: none does */
    } mailbox;

    /* line.c */
    struct {
        bool is_used;    /* somebody has asked to wait, or has kept a waiting call */
        bool is_serving; /* a script is under way that goes on with what another one has left */
        bool must_serve; /* and once more after it */
    } line;

    /* undo.c */
    struct {
        uv_timer_t timer;
        struct list waiting;
        size_t count; /* with those that are being asked for */
        bool is_asking;
    } undo;

    /* past.c: released calls that are not in Redis's list yet */
    struct {
        uv_timer_t timer;
        struct strbuf texts;            /* two of each: its name, and what is remembered of it */
        size_t ends[2 * PAST_GATHERED]; /* of these texts */
        size_t count;
        size_t under_way; /* commands without an answer */
    } past;

    /* events.c */
    struct {
        struct redis_link *link; /* listens to the channel while events are wanted; else NULL */
        store_published_fn published;
        void *published_arg;
    } events;
};

/* The arguments of a script. */
struct args {
    struct slice *items;
    size_t count;
    size_t room;
    struct arena *arena;
    const struct tier_config *tiers; /* borrowed while the arguments are being gathered */
    bool failed;
};

struct operation {
    unsigned magic;
    struct list link;
    struct list batch_link; /* in turn.waiting of the store until it is sent */
    struct redis_store *store;
    struct command command;
    struct arena *arena;
    struct result *result;
    store_done_fn done;
    void *arg;
    const char *script;      /* under way, for the log */
    size_t at;               /* calls of a renewal or heartbeat before it are done */
    uint64_t fence;          /* of the leader that started it; 0: none */
    struct ended_array lost; /* calls that ended on the way and are not in the result */
    bool is_sent;            /* by call_batch.c: Redis may have carried it out */
    uint64_t deadline_ms;    /* by call_batch.c, uv_now: it is answered by then */
    bool is_detailed; /* by call_batch.c: a release of a batch in which one has more to say than a name */
    /* send.c: the last request, which is sent again if the tiers have changed. */
    struct {
        struct args args;
        redis_reply_fn done;
        char version[SCRIPT_VERSION_LEN]; /* of the tiers that it was sent with */
        /* Makes its arguments anew and sends them: they follow from the tiers. NULL: only the first ones do.
         */
        int (*again)(struct operation *operation);
    } sent;
    /* Its tiers were out of date. */
    struct {
        unsigned tries;
        int err;        /* the reason why the tiers are being read again */
        bool is_mended; /* lists of the wrong type have been removed */
    } stale;
    struct bulk *bulk; /* of a command with several requests: see bulk.h; else NULL */
};

static inline struct redis_store *redis_of(struct store *store)
{
    struct redis_store *redis = CONTAINER_OF(store, struct redis_store, store);

    MAGIC_CHECK(redis, REDIS_STORE_MAGIC);
    return redis;
}

/* operation.c */
void operations_init(struct redis_store *store);
void operations_start(struct redis_store *store, uv_loop_t *loop);
/* As store_execute. */
int operation_execute(struct redis_store *store, const struct command *command, struct arena *arena,
                      store_done_fn done, void *arg) MUST_CHECK;
/* Answers and frees the operation. Never inside redis_execute. */
void operation_finish(struct operation *operation, int err);
/* Answers later, with the result as it is. */
void operation_defer(struct operation *operation);
int operation_refuse(struct operation *operation, enum outcome outcome, const char *message) MUST_CHECK;
/* -EIO, logged: the reply breaks the promise of the script. */
int redis_unexpected(const char *script);
int operation_unexpected(const struct operation *operation);
/* For the `err` of an answer that has been read: the same, but -EIO is logged. */
static inline int operation_checked(const struct operation *operation, int err)
{
    return err == -EIO ? operation_unexpected(operation) : err;
}

/* The answer is one text, as stored, or there is none: the result of MERCHANT and TIERS. */
void operation_take_text(void *arg, int err, const redisReply *reply);
/* With the answer to its script. */
void operation_answered(void *arg, int err, const redisReply *reply);
/* Its script, with the tiers as they are known now. */
int operation_send(struct operation *operation) MUST_CHECK;

/* redis.c */
/*
 * Timers and links that must be closed before the store is freed. Each is counted where it is
 * opened. A timer does not keep the loop alive.
 */
void redis_open_timer(struct redis_store *store, uv_loop_t *loop, uv_timer_t *timer);
void redis_opened_link(struct redis_store *store);
/* `closed` of redis_link_close; `arg` is the store. */
void redis_link_closed(void *arg);
/*
 * To be called after each answer: closes them all if the store is closing and nothing is under way.
 */
void redis_close_if_idle(struct redis_store *store);

/* events.c */
int redis_publish(struct store *store, struct slice lines, store_published_fn done, void *arg) MUST_CHECK;
void redis_listen(struct store *store, bool is_wanted);

/* facts.c, see struct store_ops */
int redis_ask_facts(struct store *store, struct arena *arena, struct store_facts *ret_facts,
                    store_facts_fn done, void *arg) MUST_CHECK;

/* wipe.c */
void wipe_start(struct redis_store *store, uv_loop_t *loop);
/* Redis had nothing of what this router has seen there before. */
void wipe_found(struct redis_store *store);

/* outage.c */
void outage_start(struct redis_store *store, uv_loop_t *loop);
void outage_changed(struct redis_store *store, bool is_up);
/* To be called before must_keep_leases is used: sets it if there was a gap. */
void outage_notice_gap(struct redis_store *store);
/* Redis has noted the gap. */
void outage_noted(struct redis_store *store);

/* mailbox.c */
void mailbox_start(struct redis_store *store, uv_loop_t *loop);
/*
 * This router carries or holds something (`carrier` is its name; NULL: it does not): looks for notes from
 * now on. `is_urgent`: it wants to be woken up for them.
 */
void mailbox_expect(struct redis_store *store, const char *carrier, bool is_urgent);
/* The store closes: listens no more. */
void mailbox_close(struct redis_store *store);
void mailbox_release(struct redis_store *store);

/* line.c */
/*
 * The answer of a script without SCRIPT_LINE_MORE behind it, which may use `room`. If that was there, the
 * script has left something to do for calls that wait: does it.
 */
const redisReply *line_take_more(struct redis_store *store, const redisReply *reply, redisReply *room);

/* past.c */
void past_start(struct redis_store *store, uv_loop_t *loop);
/* What the answer of a release says beside the call. */
struct past_note {
    const char *renewed; /* as in the record of the call */
    const char *at;      /* when it ended: two lines, as Redis says it */
};
/* The call was released: adds it to the calls that have ended, a little later. Copies everything. */
void past_note(struct redis_store *store, const struct call_info *call, enum finish_reason how,
               const struct past_note *note);
/* Adds those that wait for it now: what is sent after this finds them. */
void past_flush(struct redis_store *store);
void past_release(struct redis_store *store);

/* undo.c */
void undo_start(struct redis_store *store, uv_loop_t *loop);
/* To be called when an allocation fails that may have been carried out. Copies the name. */
void undo_later(struct redis_store *store, const char *call_sid, uint64_t attempt);
void undo_release(struct redis_store *store);

/* call_batch.c */
void call_batch_init(struct redis_store *store);
void call_batch_start(struct redis_store *store, uv_loop_t *loop);
bool call_batch_takes(enum command_type type);
/* Waits for the end of the turn. */
void call_batch_add(struct operation *operation);
/* on_turn of the link: sends the operations that were added. `arg` is the store. */
void call_batch_send(void *arg);

/* args.c */
void args_init(struct args *args, struct arena *arena, size_t room);
/* Begins with the arguments that every script takes: the prefix, the tiers and the default tier. */
void args_begin(struct args *args, const struct operation *operation, struct arena *arena, size_t room);
/* The same for scripts that only leaders run: the operation's fence comes next. */
void args_begin_fenced(struct args *args, const struct operation *operation, struct arena *arena,
                       size_t room);
void args_begin_with(struct args *args, const struct redis_store *store, const struct tier_cache *tiers,
                     struct arena *arena, size_t room);
void args_add(struct args *args, struct slice item);
void args_add_text(struct args *args, const char *text);
/* For a text that may be gone when the script is called again. */
void args_add_copy(struct args *args, const char *text);
void args_add_u64(struct args *args, uint64_t number);
/* `merchants`, `chain_count` and `chain`, as scripts that look for a pod take them. */
void args_add_chain(struct args *args, const struct redis_store *store);
/* All that scripts take with which calls go on elsewhere when their pod breaks; from `rescues` on. */
void args_add_rescue(struct args *args, const struct redis_store *store);
/* The room that one of these takes beside what the script counts as its own arguments. */
size_t args_chain_room(const struct redis_store *store);
/* One observation, as seen.lua takes it. */
void args_add_seen(struct args *args, const struct pod_seen *seen);
/* prefix + name, in the arena; fails the args without memory. */
void args_add_key(struct args *args, const struct redis_store *store, const char *name);

/* history.c, for all changes of a configuration */
/* The arguments `by`, `wanted` and `trial` of a script. */
void change_add(struct args *args, const struct change *change);
/* Fills result->change from its answer; copies the texts. 0 or -ENOMEM. */
int change_answer(struct operation *operation, uint64_t version, const char *old_text,
                  const char *new_text) MUST_CHECK;

/* send.c */
/* To be called once, at its start: -ECANCELED if it is the leader's and we do not lead. */
int operation_take_fence(struct operation *operation) MUST_CHECK;
/*
 * Calls a script. If the tiers have changed, they are read, and the script is called again with
 * them; `done` gets the last answer. A phase of a bulk command may decide otherwise: see bulk.h.
 */
int args_call(const struct args *args, struct operation *operation, const char *script,
              redis_reply_fn done) MUST_CHECK;
/* The same for arguments that follow from the tiers: `again` makes them anew and sends them. */
int args_call_with_chain(const struct args *args, struct operation *operation, const char *script,
                         redis_reply_fn done, int (*again)(struct operation *operation)) MUST_CHECK;
/* May this step be tried once more? Counts it. */
bool operation_may_repeat(struct operation *operation);
/* Notes with which tiers the operation is being sent. */
void operation_note_version(struct operation *operation);
/* Has the store read other tiers since the operation was sent? */
bool operation_is_behind(const struct operation *operation);
int args_command(const struct args *args, struct operation *operation, redis_reply_fn done) MUST_CHECK;

/* tiers_cache.c */
/* Of a configuration that is to be stored, or that was read. -EINVAL with a sentence, -ENOMEM. */
int tier_cache_new(const char *text, struct tier_cache **ret_cache, char *error,
                   size_t error_size) MUST_CHECK;
int tier_cache_new_stored(const char *text, size_t len, struct tier_cache **ret_cache, char *error,
                          size_t error_size) MUST_CHECK;
/* One more owner, who frees it too. */
struct tier_cache *tier_cache_ref(struct tier_cache *cache);
struct tier_cache *tier_cache_free(struct tier_cache *cache);
void tier_cache_set_version(struct tier_cache *cache, const char *version);
/* Asks for the stored text, after storing the seed if there is none. */
int tiers_request(struct redis_store *store, redis_reply_fn done, void *arg) MUST_CHECK;
/* Removes lists of the wrong type, for tiers that have just been read; answers how many. */
int tiers_mend(struct redis_store *store, redis_reply_fn done, void *arg) MUST_CHECK;
/* Takes over the stored text. 0 if there is a configuration, the new one or the old one. */
int tiers_take(struct redis_store *store, const redisReply *reply) MUST_CHECK;
void tiers_replace(struct redis_store *store, struct tier_cache *cache);
/* In the background, after a connection came about and every tier_refresh_ms. */
void tiers_load(struct redis_store *store);
/* `text` is the configuration of the settings. */
int tiers_init(struct redis_store *store, const char *text) MUST_CHECK;
void tiers_start(struct redis_store *store, uv_loop_t *loop);
void tiers_release(struct redis_store *store);

/* command_table.c: how Redis executes a command. */
struct command_spec {
    /* Sends the first request. 0; 1: the result is there already; or a negative errno. */
    int (*start)(struct operation *operation);
    /* Of a command with one script; else NULL. */
    const char *script;
    /*
     * Makes the arguments: 0, 1 if the result is there already, or a negative errno. For a command that
     * call_batch.c takes: only the arguments that belong to this one.
     */
    int (*encode)(struct operation *operation, struct args *args);
    int (*decode)(struct operation *operation, const redisReply *reply);
    bool is_mended; /* it is sent again after a list of the wrong type was mended */
};

const struct command_spec *command_spec(enum command_type type);

/* For each command: the pair of functions of its script, or its own function. See command_table.c. */
#define REDIS_FUNCTIONS(TYPE, name, ...)                                                                     \
    int name##_encode(struct operation *operation, struct args *args);                                       \
    int name##_decode(struct operation *operation, const redisReply *reply);                                 \
    int operation_##name(struct operation *operation) MUST_CHECK;
COMMAND_TABLE(REDIS_FUNCTIONS)
#undef REDIS_FUNCTIONS

/* queries.c, also for the rebalancing */
struct page_pod {
    struct pod_info info;
    bool is_pinned;
};
struct answer;
struct page_head {
    uint64_t now_ms;
    bool more;
    size_t looked;
    const char *last;
};
/* The arguments of pods.lua, in `scratch` of the bulk command. */
void pods_page_encode(const struct operation *operation, struct args *args, const char *after, size_t limit);
void pods_page_head(struct answer *answer, struct page_head *ret_head);
/* The next pod; strings in the answer's arena. */
void pods_page_pod(struct answer *answer, const struct operation *operation, uint64_t now_ms,
                   struct page_pod *ret_pod);
int status_read(const struct operation *operation, const redisReply *reply, struct arena *arena,
                struct result *ret_result) MUST_CHECK;

#endif
