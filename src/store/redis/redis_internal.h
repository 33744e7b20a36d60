/*
 * redis_internal.h - what the Redis store is made of. Only for the files of this store.
 *
 * A command becomes an operation. Most take one script; bulk work takes several, one after the other, and
 * keeps what it gathers between them in arenas of its own. All functions that return int send the next
 * request, or return a negative errno and leave it to the caller to finish the operation.
 */
#ifndef STORE_REDIS_REDIS_INTERNAL_H
#define STORE_REDIS_REDIS_INTERNAL_H

#include "base/list.h"
#include "core/refusals.h"
#include "store/redis/redis.h"

enum {
    REDIS_SEEN_BATCH = 25,       /* pods of one seen.lua, gone.lua or move.lua */
    REDIS_SEEN_TEXTS = 7,        /* of one pod, for seen.lua */
    REDIS_GONE_REMOVED = 1,      /* what gone.lua says of a pod */
    REDIS_GONE_STAYS = 3,        /* the same: it carries calls, and drains */
    REDIS_PLACE_BATCH = 50,      /* pods of one place.lua */
    REDIS_CALL_BATCH = 32,       /* calls of one allocate.lua or release.lua */
    REDIS_RENEW_BATCH = 100,     /* calls of one renew.lua */
    REDIS_HEARTBEAT_BATCH = 250, /* calls of one heartbeat.lua */
    REDIS_SWEEP_BATCH = 50,      /* calls or pods of one sweep script */
    REDIS_MEND_LOOK = 1000,      /* pods, and calls, that one sweep looks at, at least */
    REDIS_MEND_AGAIN_MS = 3500,  /* a little more than DOUBT_MS of lib/mend.lua */
    REDIS_PAGE_BATCH = 100,      /* names, pods or calls of one page */
    REDIS_STATUS_LOOK = 250,     /* pods held out that the counts look at */
    REDIS_QUERY_LOOK = 5000,     /* names that one page may look at before it gives a cursor */
    REDIS_PODS_MAX = 1000000,    /* of a bulk operation: beyond it something is wrong */
    REDIS_BULK_ARENA_MAX = 256 * 1024 * 1024,
    /* How much longer than its lease the key of a lease lives, and a call's record: see lib/lease.lua. */
    REDIS_GRACE_MS = 60 * 1000,
    REDIS_RECORD_GRACE_MS = 24 * 3600 * 1000,
    REDIS_NUMBER_MAX = 24,
    REDIS_VERSION_LEN = 40, /* of the tiers: a SHA-1, as scripts/redis/tiers.lua makes it */
    REDIS_STALE_TRIES = 16, /* of one step, each with the tiers read anew */
};

/* The tiers as the scripts want them. Immutable but for its count of owners and for the version. */
struct tier_cache {
    unsigned refs;
    struct tier_config *config;
    char *version;             /* of the stored text that was read last; where `tiers` begins */
    struct slice tiers;        /* ARGV[2]: "VERSION\nNAME MAX TARGET\n…" in the order of filling */
    struct slice default_tier; /* ARGV[3] */
    struct slice merchants;    /* what a merchant's configuration is resolved with, as JSON */
    struct slice *chain;       /* pairs of tier and MAX */
    size_t chain_count;        /* of slices: two for each step */
    struct arena arena;
};

struct redis_store {
    struct store store;
    struct redis_link *link;
    char *prefix;
    char *key;      /* calls:active, which says where in a cluster everything is */
    char *mark_key; /* of redis_link_wait */
    struct core_settings core;
    uint64_t call_info_ttl_ms;
    uint64_t tier_refresh_ms;
    bool waits_for_replicas;
    /* What every allocation says of its lease and of how long its keys live, in ms. */
    char first_lease[REDIS_NUMBER_MAX];
    char first_lease_life[REDIS_NUMBER_MAX];
    char first_record_life[REDIS_NUMBER_MAX];

    struct tier_cache *tiers; /* NULL until they have been read */
    struct tier_cache *seed;
    char *bad_tiers; /* the last stored text that did not parse, so that it is logged once */
    bool is_loading;
    uv_timer_t refresh;

    struct refusals refusals;
    call_ended_fn on_ended;
    void *on_ended_arg;
    redis_guard_fn may_lead;
    void *may_lead_arg;
    /* hearing.c */
    uv_timer_t hearing;
    uint64_t heard_at_ms; /* elapsed; when we last ran and had a connection; 0: never */
    uint64_t link_timeout_ms;
    bool is_hearing;   /* there is a connection */
    bool must_forgive; /* those who seem silent, at the next sweep */
    /* sweep.c */
    /* Where the next sweep goes on looking for pods that are not where they belong, and for calls without a
     * record. */
    char mend_cursor[24];
    char tidy_cursor[24];
    struct store_stats stats;
    struct list operations;
    /* Of this turn of the loop: they go out together at its end, in one script each. */
    struct list releases;
    struct list allocates;
    struct list deferred; /* answered without asking Redis, but not inside the call */
    uv_timer_t defer;

    /* mail.c */
    struct {
        uv_timer_t timer;
        char carrier[CARRIER_MAX + 1];
        uint64_t read;                /* notes that were read, and not yet taken out */
        char first[CALL_SID_MAX + 1]; /* of these */
        uint64_t looks_left;          /* unless the carrier says something */
        bool is_asking;
    } mail;
    call_over_fn on_over;
    void *on_over_arg;
    /* undo.c */
    struct {
        uv_timer_t timer;
        struct list waiting;
        size_t count; /* with those that are being asked for */
        bool is_asking;
    } undo;

    char *channel;
    struct redis_link *events; /* listens to the channel while somebody wants to hear; else NULL */
    store_published_fn published;
    void *published_arg;

    bool is_closing;
    bool is_link_closed;
    int open_handles;
    store_closed_fn closed;
    void *closed_arg;
};

struct operation;
typedef int (*bulk_next_fn)(struct operation *operation);
typedef int (*bulk_pod_fn)(struct operation *operation, struct slice name, struct slice record);

/* What an operation of several steps has gathered. */
struct bulk {
    struct arena keep;
    struct arena scratch; /* for one request */
    const char **names;
    size_t count;
    size_t room;
    size_t at;                     /* names before it are done */
    struct tier_cache *next_tiers; /* of a TIERS_SET, until it is stored */
    char cursor[24];
    bool more;
    bool forgives;           /* of a sweep */
    uint64_t time_ms;        /* of a sweep: Redis's, in its last answer */
    uint64_t imported_at_ms; /* of a sweep: when it began to look through all calls; 0: it did not */
    size_t unexplained;      /* of a sweep: pods with a score that only calls nobody knows of can explain */
    const char *mode;        /* of place.lua, of a walk: its script */
    const char *source;      /* of a walk with import.lua: of the pods; "": only calls are taken over */
    bulk_pod_fn each;        /* of a scan */
    bulk_next_fn next;       /* what comes after the steps under way */
    void *plan;              /* the operation's own */
    void (*plan_free)(void *plan);
};

/* What scripts are called with. */
struct args {
    struct slice *items;
    size_t count;
    size_t room;
    struct arena *arena;
    const struct tier_config *tiers; /* borrowed while the arguments are being gathered */
    bool failed;
};

struct operation {
    struct list link;
    struct list turn; /* in releases or allocates of the store until it is sent */
    struct redis_store *store;
    struct command command;
    struct arena *arena;
    struct result *result;
    store_done_fn done;
    void *arg;
    const char *script; /* under way, for the log */
    size_t at;
    uint64_t fence;          /* of the leader that started it; 0: none */
    struct ended_array lost; /* calls that ended on the way and are not in the result */
    bool is_sent;            /* by turn.c */
    bool is_detailed;        /* by turn.c: a release of a batch in which one has more to say than a name */
    /* What was sent last, in case that the tiers are others by now. */
    struct args sent;
    redis_reply_fn sent_done;
    char sent_version[REDIS_VERSION_LEN]; /* of the tiers */
    unsigned stale_tries;
    int stale_err; /* why the tiers are being read */
    bool is_mended;
    struct bulk *bulk;
};

static inline struct redis_store *redis_of(struct store *store)
{
    return CONTAINER_OF(store, struct redis_store, store);
}

/* redis.c */
/* Answers and frees the operation. Never inside redis_execute. */
void operation_finish(struct operation *operation, int err);
/* Answers later, with what is in the result. */
void operation_defer(struct operation *operation);
int operation_invalid(struct operation *operation, enum outcome outcome, const char *message) MUST_CHECK;
/* -EIO, logged: the reply is not what the script promises. */
int operation_unexpected(const struct operation *operation);

/* With the answer to its script. */
void operation_answered(void *arg, int err, const redisReply *reply);
/* Its script, with the tiers as they are known now. */
int operation_send(struct operation *operation) MUST_CHECK;

/* One of what store->open_handles counts is gone. */
void redis_closed_one(struct redis_store *store);

/* events.c */
int redis_publish(struct store *store, struct slice lines, store_published_fn done, void *arg) MUST_CHECK;
void redis_listen(struct store *store, bool is_wanted);

/* hearing.c */
void hearing_start(struct redis_store *store, uv_loop_t *loop);
void hearing_changed(struct redis_store *store, bool is_up);
/* To be called before it counts: sets must_forgive if nobody could be heard for a while. */
void hearing_notice_gap(struct redis_store *store);

/* mail.c */
void mail_start(struct redis_store *store, uv_loop_t *loop);
/* This router carries something (`carrier` is its name; NULL: it does not): looks for notes from now on. */
void mail_expect(struct redis_store *store, const char *carrier);

/* undo.c */
void undo_start(struct redis_store *store, uv_loop_t *loop);
/* To be called when an allocation fails that may have been carried out. Copies the name. */
void undo_later(struct redis_store *store, const char *call_sid, uint64_t attempt);
void undo_release(struct redis_store *store);

/* turn.c */
bool turn_takes(enum command_type type);
/* Waits for the end of the turn. */
void turn_add(struct operation *operation);
/* on_turn of the link: sends what has been added. `arg` is the store. */
void turn_send(void *arg);

/* args.c */
/* With what every script wants in front: the prefix, the tiers and the default tier. */
void args_init(struct args *args, struct arena *arena, size_t room);
void args_begin(struct args *args, const struct operation *operation, struct arena *arena, size_t room);
/* The same for scripts that only leaders run: the operation's fence comes next. */
void args_begin_fenced(struct args *args, const struct operation *operation, struct arena *arena,
                       size_t room);
/* To be called once, at its start: -ECANCELED if it is the leader's and we do not lead. */
int operation_take_fence(struct operation *operation) MUST_CHECK;
void args_begin_with(struct args *args, const struct redis_store *store, const struct tier_cache *tiers,
                     struct arena *arena, size_t room);
void args_add(struct args *args, struct slice item);
void args_add_text(struct args *args, const char *text);
/* For a text that may be gone when the script is called again. */
void args_add_copy(struct args *args, const char *text);
void args_add_u64(struct args *args, uint64_t number);
/*
 * If the tiers turn out to be others by now, they are read and the script is called again with them; `done`
 * gets the last answer. Not for scripts whose other arguments follow from the tiers: see there.
 */
int args_call(const struct args *args, struct operation *operation, const char *script,
              redis_reply_fn done) MUST_CHECK;
/* May this step be tried once more? Counts it. */
bool operation_may_repeat(struct operation *operation);
/* Notes with which tiers the operation is being sent. */
void operation_note_version(struct operation *operation);
/* Are the tiers that we know now others than those with which it was sent? */
bool operation_is_behind(const struct operation *operation);
/* One observation, as seen.lua wants it. */
void args_add_seen(struct args *args, const struct pod_seen *seen);
int args_command(const struct args *args, struct operation *operation, redis_reply_fn done) MUST_CHECK;
/* prefix + name, in the arena; fails the args without memory. */
void args_add_key(struct args *args, const struct redis_store *store, const char *name);

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
/* Lists of the wrong type, though the tiers have just been read: has them forgotten; answers how many. */
int tiers_mend(struct redis_store *store, redis_reply_fn done, void *arg) MUST_CHECK;
/* Takes over the stored text. 0 if there is a configuration to work with, be it the old one. */
int tiers_take(struct redis_store *store, const redisReply *reply) MUST_CHECK;
void tiers_replace(struct redis_store *store, struct tier_cache *cache);
/* In the background, after a connection came about and every tier_refresh_ms. */
void tiers_load(struct redis_store *store);
void tiers_refresh(uv_timer_t *timer);

/* tiers_set.c */
void tiers_stored(void *arg, int err, const redisReply *reply);

/* commands.c, queries.c: one script each. Encode: 0, 1 if the result is there already, or a negative errno;
 * of a command that turn.c takes only what is its own.
 */
struct command_spec {
    const char *script;
    int (*encode)(struct operation *operation, struct args *args);
    int (*decode)(struct operation *operation, const redisReply *reply);
    bool waits; /* for replicas, before a success and before the 404 of a release */
};

const struct command_spec *command_spec(enum command_type type);
int allocate_encode(struct operation *operation, struct args *args);
int allocate_decode(struct operation *operation, const redisReply *reply);
int status_encode(struct operation *operation, struct args *args);
int status_decode(struct operation *operation, const redisReply *reply);
int pod_encode(struct operation *operation, struct args *args);
int pod_decode(struct operation *operation, const redisReply *reply);
int call_encode(struct operation *operation, struct args *args);
int call_decode(struct operation *operation, const redisReply *reply);

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
int pods_page_send(struct operation *operation, const char *after, size_t limit, struct arena *arena,
                   redis_reply_fn done) MUST_CHECK;
void pods_page_head(struct answer *answer, struct page_head *ret_head);
/* The next pod; strings in the answer's arena. */
void pods_page_pod(struct answer *answer, const struct operation *operation, uint64_t now_ms,
                   struct page_pod *ret_pod);
int status_read(const struct operation *operation, const redisReply *reply, struct arena *arena,
                struct result *ret_result) MUST_CHECK;

/* Several requests each; the first is sent inside the call. */
int operation_pods(struct operation *operation) MUST_CHECK;
int operation_calls(struct operation *operation) MUST_CHECK;
int operation_renew(struct operation *operation) MUST_CHECK;
int operation_heartbeat(struct operation *operation) MUST_CHECK;
int operation_sync(struct operation *operation) MUST_CHECK;
int operation_sweep(struct operation *operation) MUST_CHECK;
int operation_rebalance(struct operation *operation) MUST_CHECK;
int operation_tiers_set(struct operation *operation) MUST_CHECK;
int operation_merchant_set(struct operation *operation) MUST_CHECK;
int operation_merchant_remove(struct operation *operation) MUST_CHECK;
int operation_merchant(struct operation *operation) MUST_CHECK;
int operation_merchants(struct operation *operation) MUST_CHECK;
int operation_tiers(struct operation *operation) MUST_CHECK;

/* bulk.c */
int bulk_new(struct operation *operation) MUST_CHECK;
/* bulk_new, then `next` with the stored tiers. */
int bulk_start(struct operation *operation, bulk_next_fn next) MUST_CHECK;
void bulk_free(struct bulk *bulk);
/* Copies the name. */
int bulk_add_name(struct bulk *bulk, struct slice name) MUST_CHECK;
/* Starts over with the names sorted and each of them once. */
void bulk_sort(struct bulk *bulk);
/* `each` for every pod, in no order and some perhaps twice; then `next`. */
int bulk_scan_pods(struct operation *operation, bulk_pod_fn each, bulk_next_fn next) MUST_CHECK;
/* place.lua over all names, by name; then `next`. */
int bulk_place(struct operation *operation, const char *mode, bulk_next_fn next) MUST_CHECK;
/*
 * import.lua or tidy.lua from cursor to cursor, through everything; then `next`. `source`: see struct bulk.
 */
int bulk_walk(struct operation *operation, const char *script, const char *source,
              bulk_next_fn next) MUST_CHECK;
/* The last part of an operation: moves idle pods to where they are wanted. */
int bulk_rebalance(struct operation *operation) MUST_CHECK;
/* Finishes the operation with success; always 0, to be returned. */
int bulk_done(struct operation *operation);

#endif
