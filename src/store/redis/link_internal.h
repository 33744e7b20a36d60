/*
 * link_internal.h - the types and functions that the files of the link share. Only they include it.
 *
 *   link.c      the functions of link.h, and the turn, in which all callbacks run
 *   session.c   from no connection to one that is ready, and back
 *   targets.c   the servers to try
 *   request.c   the life of a request: answers, errors, deadlines
 *   wait.c      WAIT, one for all callers
 *   subscribe.c a link that only listens
 */
#ifndef STORE_REDIS_LINK_INTERNAL_H
#define STORE_REDIS_LINK_INTERNAL_H

#include "base/list.h"
#include "base/log_repeat.h"
#include "store/redis/link.h"
#include "store/redis/sentinel.h"
#include "store/redis/wire.h"

enum {
    LINK_MAGIC = 0x6c696e6b,
    REQUEST_MAGIC = 0x72717374,
    LINK_BACKOFF_MIN_MS = 50,
    LINK_BACKOFF_MAX_MS = 2000,
    LINK_BACKOFF_SENTINEL_MAX_MS = 1000, /* a promotion should be noticed soon */
    LINK_BACKOFF_CHOICE_MAX_MS = 500,    /* the same, where there are several servers to try */
    LINK_STABLE_MS = 5000,               /* a connection that lasted so long was a good one */
    LINK_TICK_MS = 1000,                 /* while it is up: PING if idle, ask a sentinel */
    LINK_MOVES_MAX = 3,                  /* between two good connections, without a pause */
    LINK_NODES_MAX = 64,
    LINK_NODES_EVERY_MS = 10000, /* how often a cluster is asked for its nodes while the link is up */
    LINK_CLUSTERDOWN_MS = 1000,  /* a node that says so for longer may be the one that is cut off */
    LINK_CHOICE_PATIENCE_MS = 250,
    LINK_LOADS_MAX = 64, /* scripts that one connection may use */
    LINK_DETAIL_MAX = WIRE_REASON_MAX + 192,
    LINK_BYTES_MAX = 64 * 1024 * 1024, /* of requests under way; beyond it -EBUSY */
    LINK_WAIT_SLICE_MS = 50,           /* WAIT delays later requests: not for long at a time */
    LINK_DEADLINE_DIGITS = 15, /* of a script's deadline: always as many, so that it can be replaced */
};

enum link_state {
    LINK_RESTING,    /* a timer runs until the next try */
    LINK_ASKING,     /* the sentinels */
    LINK_CONNECTING, /* also looking up a name */
    LINK_GREETING,   /* AUTH, SELECT, CLUSTER SLOTS, ROLE, TIME, PING */
    LINK_UP,
    LINK_LEAVING, /* takes no new requests; drops the wire when the last answer is there */
    LINK_CLOSING,
};

enum greeting_kind {
    GREETING_AUTH,
    GREETING_SELECT,
    GREETING_SLOTS, /* before the role, which means nothing in a cluster */
    GREETING_ROLE,
    GREETING_TIME,
    GREETING_SETTLE, /* where another server has taken over */
    GREETING_PING,   /* always, and last: the answer to it makes the link ready */
    GREETING_COUNT,
};

struct greeting {
    struct wire_request request;
    struct redis_link *link;
    enum greeting_kind kind;
};

enum request_place {
    REQUEST_ON_WIRE,
    REQUEST_PARKED,   /* waits for the node that MOVED named */
    REQUEST_FINISHED, /* waits for the turn that calls `done` */
};

struct request {
    unsigned magic;
    struct wire_request wire; /* its link is in the list of the place */
    struct list by_age;       /* in link->by_age until it is answered or finished */
    struct redis_link *link;
    const struct redis_script *script; /* NULL: a plain command */
    redis_reply_fn done;
    void *arg;
    uint64_t number;
    uint64_t deadline_ms; /* its script does nothing afterwards */
    uint64_t overdue_ms;  /* without an answer by then the connection is given up; not before deadline_ms */
    enum request_place place;
    int err;          /* when finished */
    bool is_internal; /* the link's own: not counted */
    bool is_recalled; /* its script was loaded already */
    bool is_moved;    /* it was sent to another node already */
    bool is_redated;  /* it was sent again because our idea of the server's time was wrong */
    size_t len;
    char command[];
};

/*
 * A script that was sent with SCRIPT LOAD on this connection. It is not sent again before the
 * answer.
 */
struct script_load {
    const struct redis_script *script;
    int err; /* of the last try, for the requests that waited for it */
    bool is_under_way;
};

/* One redis_link_wait. */
struct waiter {
    struct list link;
    redis_reply_fn done;
    void *arg;
    uint64_t number;      /* of the last request before it */
    uint64_t deadline_ms; /* gives up then; the connection stays */
    const char *mark_key; /* to be written before the WAIT; NULL: need not be, or has been */
    int err;
};

/* Each group is written by one file: the one that its comment names. */
struct redis_link {
    unsigned magic;
    uv_loop_t *loop;
    struct redis_link_settings settings; /* its strings are ours */
    struct sentinels *sentinels;         /* NULL: there are none */

    /* link.c */
    struct {
        uv_prepare_t prepare;
        uv_idle_t idle; /* active: the loop must not wait, there is something for the turn */
        bool is_told_up;
    } turn;
    struct {
        size_t alive; /* handles, wires and sentinels that are still on the loop */
        void (*closed)(void *arg);
        void *closed_arg;
    } closing;

    /* session.c */
    struct {
        enum link_state state;
        char detail[LINK_DETAIL_MAX];
        uint64_t failures;
        size_t failed_in_a_row; /* since it was last up */
        struct log_repeat down; /* failures to connect for one reason */
        uv_timer_t timer;       /* the pause, the patience for a connection, the ticks */
        struct wire *wire;
        struct greeting greetings[GREETING_COUNT];
        size_t greetings_left;
        unsigned tries;       /* to connect: each begins with another address of a name */
        uint64_t patience_ms; /* for the connection that is being made */
        /*
         * The last server that has run a script of ours. A node of a cluster that only names another one is
         * none: going on to that one is no failover.
         */
        struct redis_address served_by;
        bool has_been_served; /* there is such a server */
        bool is_served;       /* it is the present one */
        uint64_t up_since_ms;
        uint64_t heard_ms; /* the last answer */
        int64_t clock_ms;  /* the server's clock less ours (monotonic), or a little less */
    } session;
    struct {
        uint64_t backoff_ms;
        size_t round_left; /* servers to try before the next long pause */
        size_t moves;      /* in a row, without a pause */
    } retry;
    struct {
        uint64_t since_ms; /* the first CLUSTERDOWN in a row */
        uint64_t heard_ms; /* the last one; 0: none on this connection */
    } cluster_down;

    /* targets.c */
    struct {
        struct redis_address current;
        struct redis_address nodes[LINK_NODES_MAX]; /* of the cluster */
        size_t node_count;
        size_t next;
        uint64_t nodes_asked_ms;
        bool is_cluster;     /* MOVED was heard, or CLUSTER SLOTS was answered */
        bool must_be_master; /* ask for its ROLE: there is a choice, or READONLY was heard */
    } targets;

    /* request.c */
    struct {
        uv_timer_t overdue;
        struct list by_age; /* all requests that are not finished, oldest first */
        struct list parked;
        struct list finished;
        uint64_t numbered;
        size_t count; /* requests of callers, of all places, and waiters */
        size_t bytes; /* of these requests */
        struct script_load loads[LINK_LOADS_MAX];
        size_t load_count;
        struct log_repeat errors; /* that Redis reports */
        bool is_late;             /* the oldest request was overdue when last looked at */
    } requests;

    /* wait.c */
    struct {
        struct list waiting;
        struct list finished;
        bool is_sent; /* a WAIT is under way */
    } waits;

    /* subscribe.c */
    struct {
        bool is_confirmed; /* a link that only listens has told that it does */
    } subscription;
};

/* link.c */
void link_wake(struct redis_link *link);
/* Something is on the loop from now on that must be gone before the link is freed. */
void link_ref(struct redis_link *link);
void link_unref(struct redis_link *link);
/* The same for a handle that was just initialised; to be closed with link_close_handle. */
void link_add_handle(struct redis_link *link, uv_handle_t *handle);
void link_close_handle(uv_handle_t *handle);

/* session.c */
void session_start(struct redis_link *link);
/* Drops the connection for good. */
void session_close(struct redis_link *link);
/* Something came from the server. */
void session_heard(struct redis_link *link);
/* The present server has run a script of ours. */
void session_served(struct redis_link *link);
void session_sentinel_found(void *arg, const struct redis_address *master);
void session_sentinel_failed(void *arg, const char *reason);
/* The connection is lost or cannot be used: drops it and tries again after a pause. */
void session_fail(struct redis_link *link, const char *reason);
/* The slot is elsewhere: goes there when the last answer is in. */
void session_move(struct redis_link *link, const struct redis_address *target);
/* This server cannot write: looks for the master when the last answer is in. */
void session_demoted(struct redis_link *link, const char *reason);
/* CLUSTERDOWN was heard: if that goes on, asks another node when the last answer is in. */
void session_cluster_down(struct redis_link *link);
/* In the turn: a wire that is being left is dropped when it is idle. */
void session_leave_if_idle(struct redis_link *link);

/* The server's clock showed `server_ms` a moment ago. */
void session_set_clock(struct redis_link *link, uint64_t server_ms);

/* targets.c */
/* Begins with the first server of the settings. */
void targets_init(struct redis_link *link);
/* The cluster as another link knows it. */
void targets_copy(struct redis_link *link, const struct redis_link *from);
void targets_set(struct redis_link *link, const struct redis_address *target);
/* MOVED was heard. */
void targets_set_cluster(struct redis_link *link);
/* READONLY was heard: only a master is of use, until one is found. */
void targets_require_master(struct redis_link *link);
void targets_found_master(struct redis_link *link);
/* Is it time to ask the cluster for its nodes again? Counts as asked if it is. */
bool targets_are_due(struct redis_link *link);
/* How many servers there are to try: the cluster's nodes and those of the settings, each once. */
size_t targets_count(const struct redis_link *link);
/* Goes on to the next of them in the round, another one than now if there is any. */
void targets_next(struct redis_link *link);
/* Takes the nodes out of an answer to CLUSTER SLOTS; an error means that there is no cluster. */
void targets_learn(struct redis_link *link, const redisReply *reply);

/* request.c */
void requests_init(struct redis_link *link);
/* Counts a request, or a waiter with 0 bytes. 0 or -EBUSY. */
int requests_admit(struct redis_link *link, size_t bytes) MUST_CHECK;
void requests_discharge(struct redis_link *link, size_t bytes);
/* The connection is lost: the next one may know none of the scripts. */
void requests_forget_scripts(struct redis_link *link);
void requests_close(struct redis_link *link);
int request_new(struct redis_link *link, size_t len, redis_reply_fn done, void *arg,
                struct request **ret_request) MUST_CHECK;
/* Sends it; it is freed after `done`. On failure it is freed at once and `done` is not called. */
int request_send(struct request *request) MUST_CHECK;
/* The link's own commands. `done` comes only with an answer, not when the connection is lost. */
int request_internal(struct redis_link *link, const struct slice *args, size_t count, redis_reply_fn done,
                     void *arg) MUST_CHECK;
void request_finish(struct request *request, int err);
/* In the turn: calls `done` for everything that has failed. */
void requests_deliver(struct redis_link *link);
/* Logs the error and notices a server that cannot write; returns the errno. */
int request_report(struct redis_link *link, const char *text);
void requests_resend_parked(struct redis_link *link);
void requests_fail_parked(struct redis_link *link);

/* subscribe.c: for links with a channel */
void subscription_start(struct redis_link *link);
void subscription_tick(struct redis_link *link);
void subscription_heard(void *arg, struct slice message);

/* wait.c */
void waiters_init(struct redis_link *link);
/* The connection is lost, and with it the WAIT under way. */
void waiters_forget_sent(struct redis_link *link);
void waiters_send(struct redis_link *link);
void waiters_fail(struct redis_link *link, int err);
void waiters_deliver(struct redis_link *link);

#endif
