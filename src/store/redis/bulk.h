/*
 * bulk.h - commands that take several requests to Redis, as tables of phases.
 *
 * A phase sends requests one after the other until it is over; then the next phase begins. After
 * the last one the operation is answered with its result. Every error ends the operation at once.
 * So does the loss of the leadership, and the closing of the store: see send.c.
 *
 * Each command keeps its own state. struct bulk has only the state of shared phases.
 */
#ifndef STORE_REDIS_BULK_H
#define STORE_REDIS_BULK_H

#include "store/redis/redis_internal.h"

/* The next step. Functions of a phase return one of these, or a negative errno. */
enum bulk_step {
    BULK_SENT = 0, /* from `send` only: a request is under way */
    BULK_SEND,     /* the next request of this phase */
    BULK_NEXT,     /* this phase is over */
    BULK_RESTART,  /* all phases, from the first one */
    BULK_DONE,     /* the command is complete; the phases that are left are not needed */
};

struct bulk_phase {
    const char *name;
    /* Once, before the first request. NULL: nothing to prepare. */
    int (*begin)(struct operation *operation);
    /* Sends the next request with bulk_call or bulk_command. The arena `scratch` is empty then. */
    int (*send)(struct operation *operation);
    /* Takes the answer. */
    int (*take)(struct operation *operation, const redisReply *reply);
    /* The tiers have changed. NULL: the same request is sent again with the new tiers. */
    int (*stale)(struct operation *operation);
};

/* Gets every pod of a scan, and its record. 0 or a negative errno. */
typedef int (*bulk_pod_fn)(struct operation *operation, struct slice name, struct slice record);

/* Gets every pod of the pages; its texts are in the arena `scratch`. 0 or a negative errno. */
typedef int (*bulk_page_pod_fn)(struct operation *operation, const struct page_pod *pod);

struct bulk {
    const struct bulk_phase *const *phases; /* ends with NULL */
    size_t phase;
    struct arena keep;    /* until the end of the operation */
    struct arena scratch; /* for one request */
    void *state;          /* of the command */
    void (*state_release)(void *state);
    struct {
        const char **items;
        size_t count;
        size_t room;
        size_t at; /* names before it are done */
    } names;       /* of pods */
    struct {
        char cursor[REDIS_CURSOR_MAX];
        bulk_pod_fn each;
    } scan;
    struct {
        const char *after; /* pods until this name have been read */
        bulk_page_pod_fn each;
    } pages;
    struct {
        const char *mode;
    } place;
    struct {
        char cursor[REDIS_CURSOR_MAX];
        const char *script;
        const char *source;
        uint64_t time_ms; /* of Redis, in its last answer */
    } walk;
};

/* bulk.c */

/*
 * With a state of that size, zeroed; 0: with none. `release`, which may be NULL, frees what it
 * owns.
 */
int bulk_new(struct operation *operation, size_t state_size, void (*release)(void *state)) MUST_CHECK;
/* Another state instead. */
int bulk_replace_state(struct operation *operation, size_t state_size,
                       void (*release)(void *state)) MUST_CHECK;
void bulk_free(struct bulk *bulk);

/* Begins the first phase, which must send something. `phases` ends with NULL. */
int bulk_start(struct operation *operation, const struct bulk_phase *const *phases) MUST_CHECK;

/* A script, or a plain command, whose answer the phase takes. */
int bulk_call(const struct args *args, struct operation *operation, const char *script) MUST_CHECK;
/* The same for arguments that follow from the tiers: with new ones the phase sends them again. */
int bulk_call_with_chain(const struct args *args, struct operation *operation, const char *script) MUST_CHECK;
int bulk_command(const struct args *args, struct operation *operation) MUST_CHECK;

/* The answer to any other request that a phase has sent. */
void bulk_answered(void *arg, int err, const redisReply *reply);

/* Does the phase have its own way of dealing with a change of the tiers? */
bool bulk_decides_stale(const struct operation *operation);

/* Copies the name. -E2BIG, -ENOMEM. */
int bulk_add_name(struct bulk *bulk, struct slice name) MUST_CHECK;
/* Sorts the names, keeps each of them once, and starts over with the first. */
void bulk_sort_names(struct bulk *bulk);

/* bulk_phases.c: phases of several commands */

/* Reads the stored tiers: bulk commands do not start from the tiers that this router remembers. */
extern const struct bulk_phase bulk_read_tiers;

/*
 * The next page of a hash; `cursor` is "0" at first. After bulk_hscan_take the fields and values
 * are in reply->element[1], and BULK_NEXT means that this page is the last.
 */
int bulk_hscan_send(struct operation *operation, const char *key, const char *cursor);
int bulk_hscan_take(struct operation *operation, const redisReply *reply, char cursor[REDIS_CURSOR_MAX]);

/* Every pod, in no order, and some perhaps twice, to `each`. */
int bulk_scan_begin(struct operation *operation, bulk_pod_fn each);
int bulk_scan_send(struct operation *operation);
int bulk_scan_take(struct operation *operation, const redisReply *reply);
/* A bulk_pod_fn: adds the name to the names. */
int bulk_keep_name(struct operation *operation, struct slice name, struct slice record);

/* status.lua; status_read() reads its answer. */
int bulk_status_send(struct operation *operation);

/* Every pod with its state and its calls, in the order of names, to `each`. */
int bulk_pages_begin(struct operation *operation, bulk_page_pod_fn each);
int bulk_pages_send(struct operation *operation);
int bulk_pages_take(struct operation *operation, const redisReply *reply);

/* place.lua for all names, sorted. */
int bulk_place_begin(struct operation *operation, const char *mode);
int bulk_place_send(struct operation *operation);
int bulk_place_take(struct operation *operation, const redisReply *reply);

/*
 * import.lua or tidy.lua, from cursor to cursor, through everything. `source` is for import.lua:
 * the source of the pods, or "" to import only calls.
 */
int bulk_walk_begin(struct operation *operation, const char *script, const char *source);
int bulk_walk_send(struct operation *operation);
int bulk_walk_take(struct operation *operation, const redisReply *reply);

/* rebalance.c: the phases of rebalance, with which tiers_set ends, too */
extern const struct bulk_phase rebalance_count;
extern const struct bulk_phase rebalance_remove_strays;
extern const struct bulk_phase rebalance_read_pods;
extern const struct bulk_phase rebalance_move;

#endif
