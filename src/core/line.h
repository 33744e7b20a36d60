/*
 * line.h - the line: calls that found no pod, and wait for one. Only for the files of core.
 *
 * A waiting call stands in the line of the store and in the line of each pool of its chain, all of them
 * in the order of their places. What makes a slot available only marks its pool (line_mark); line_serve()
 * at the end of every command gives the slots of marked pools to the calls in front. A call that is
 * overdue is passed over until it is heard again, or until its wait is ended.
 */
#ifndef CORE_LINE_H
#define CORE_LINE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

struct call;
struct chain;
struct core;
struct pod;
struct pool;
struct waiter;

/* Waiting calls in their order: by place, ties by call_sid. */
struct places {
    struct waiter **waiters;
    size_t count;
    size_t room;
};

/* How many calls of one merchant wait. It exists while there is one. */
struct merchant_line {
    struct map_node node; /* by id */
    size_t count;
    char id[];
};

/* How often the provider of a call asked how it goes on, within RESUMES_MS. */
struct resumes {
    uint64_t from_ms; /* the first time */
    uint32_t count;
};

/* A call that waits. */
struct waiter {
    struct map_node node;           /* by call_sid */
    struct heap_node due;           /* then it is overdue */
    struct merchant_line *merchant; /* NULL: it has none */
    struct pool **pools;            /* of its chain, in their order */
    size_t pool_count;
    size_t pools_room;
    int64_t place;
    uint64_t since_ms;
    uint64_t until_ms;
    uint64_t heard_at_ms;
    uint64_t attempt; /* of the latest request; 0: not known */
    uint64_t claim;   /* of the newest stream; 0: none */
    struct resumes resumes;
    uint32_t priority;
    bool awaits_stream;       /* the first word of its stream has not come yet */
    bool is_rescued;          /* it had a pod, and since_ms is when it was allocated */
    bool was_renewed;         /* is_rescued: before its pod broke */
    uint64_t unsettled_at_ms; /* is_rescued: when it lost its pod, or the start; 0: RESCUE=false */
    char holder[CARRIER_MAX + 1];
    const char *merchant_id;
    const char *provider;
    char call_sid[]; /* followed by merchant_id and provider */
};

enum { GRANT_MINUTES = WAIT_ESTIMATE_MS / 60000 };

/* The grants of the last minutes by pool: see grants.c. */
struct grants {
    struct map by_pool;
};

struct line {
    struct map waiters;
    struct places all;
    struct heap due;
    struct map merchants;
    struct list marked;   /* pools: a slot of theirs may be free, and calls wait for it */
    struct list granted;  /* calls that were granted and are not taken yet, oldest first */
    size_t untaken_count; /* of them */
    struct grants grants;
    uint64_t granted_count; /* since the start */
};

/* places.c */
int places_reserve(struct places *places, size_t more) MUST_CHECK;
/* There must be room. */
void places_add(struct places *places, struct waiter *waiter);
void places_remove(struct places *places, const struct waiter *waiter);
/* How many stand before it, whether it stands there or not. */
size_t places_before(const struct places *places, int64_t place, const char *call_sid);
/* Less than 0: the first one stands before the second. */
int places_compare(int64_t place_a, const char *sid_a, int64_t place_b, const char *sid_b);
void places_release(struct places *places);

/* grants.c: without memory a grant is not counted. */
void grants_init(struct grants *grants);
void grants_release(struct grants *grants);
void grants_count(struct grants *grants, const char *label, uint64_t now_ms);
/* In the last GRANT_MINUTES minutes, this one included. */
uint64_t grants_recent(const struct grants *grants, const char *label, uint64_t now_ms);
/* Forgets the pools that had none. */
void grants_forget_old(struct grants *grants, uint64_t now_ms);

/* line.c */
void line_init(struct line *line);
/* Frees all waiting calls. Reports nothing. */
void line_release(struct core *core);
struct waiter *waiter_find(const struct core *core, const char *call_sid);
bool waiter_is_overdue(const struct core *core, const struct waiter *waiter);
/* Has a newer stream than the one with this claim the call? */
bool waiter_is_elsewhere(const struct core *core, const struct waiter *waiter, uint64_t claim);
/* The claim of a stream that begins now, after the one with this claim. */
uint64_t next_claim(const struct core *core, uint64_t claim);
/* What the merchant's configuration says of waiting ("": no merchant). */
struct wait_rules {
    uint64_t max_wait_ms; /* 0: its calls may not wait */
    uint64_t max_waiting; /* UINT64_MAX: no limit of its own */
    uint32_t priority;
    bool is_unreadable; /* as merchant_unreadable in results */
};
void wait_rules_of(const struct core *core, const char *merchant_id, struct wait_rules *ret_rules);
/* Is the line full for calls of this merchant? */
bool line_is_full(const struct core *core, const char *merchant_id, const struct wait_rules *rules);
/* A call that joins the line; see struct waiter. Its place and its chain follow from its merchant. */
struct joining {
    const char *call_sid;
    const char *merchant_id;
    const char *provider;
    const char *holder; /* NULL or "": none */
    uint64_t since_ms;
    uint64_t until_ms;
    uint64_t attempt;
    uint64_t claim;
    struct resumes resumes;
    bool awaits_stream;
    bool is_rescued;
    bool was_renewed;
};
/* The place of a call that waits since then. */
int64_t wait_place(const struct core *core, uint64_t since_ms, const struct wait_rules *rules);
/* Joins. Reports nothing. Fails only with -ENOMEM, then nothing is changed. */
int line_enter(struct core *core, const struct joining *joining, struct waiter **ret_waiter) MUST_CHECK;
/* The same, and reports it. */
int line_join(struct core *core, const struct joining *joining, struct waiter **ret_waiter) MUST_CHECK;
/* For records: the same with a place and pools that are known. Reports nothing. */
int line_put(struct core *core, const struct joining *joining, uint32_t priority, int64_t place,
             struct pool *const *pools, size_t pool_count, struct waiter **ret_waiter) MUST_CHECK;
void waiter_report(struct core *core, const struct waiter *waiter);
void waiter_report_gone(struct core *core, const struct waiter *waiter);
/* Its holder was heard now. */
void waiter_heard(struct core *core, struct waiter *waiter);
void waiter_set_holder(struct waiter *waiter, const char *holder);
/* Resolves its chain anew. -ENOMEM: it keeps the chain that it had. */
int waiter_refresh(struct core *core, struct waiter *waiter, bool *ret_unreadable) MUST_CHECK;
/* Takes it out of all lines and frees it. Reports nothing. */
void waiter_free(struct core *core, struct waiter *waiter);
/* Takes it out of all lines, and keeps it, until waiter_return or waiter_forget. */
void waiter_set_aside(struct core *core, struct waiter *waiter);
void waiter_forget(struct core *core, struct waiter *waiter);
/*
 * It is in all lines again, at its place, and counts as heard now. Reports nothing. Fails only with -ENOMEM,
 * then nothing is changed.
 */
int waiter_return(struct core *core, struct waiter *waiter) MUST_CHECK;
/* Its holder should ask what has become of it. */
void waiter_tell(struct core *core, const struct waiter *waiter);
/* Leaves the line: reports it and tells the holder. */
void waiter_leave(struct core *core, struct waiter *waiter);
/* The same, and records why the call has ended. */
void waiter_finish(struct core *core, struct waiter *waiter, enum finish_reason why);
/* As queries show it, with its position and the estimate. 0 or -ENOMEM. */
int waiter_info(const struct core *core, const struct waiter *waiter, struct arena *arena,
                struct waiting_call *ret_info) MUST_CHECK;

/* rescue.c */
/*
 * The call leaves its pod and joins the line with its allocated_at_ms as since, outside the caps. Reports it,
 * and settles the pod. *ret_has_left: the pod was removed. -EAGAIN: its merchant's calls may not wait.
 * -ENOMEM: nothing is changed.
 */
int call_join_line(struct core *core, struct call *call, const char *holder, struct waiter **ret_waiter,
                   bool *ret_has_left) MUST_CHECK;
/*
 * The calls of the pod that can go on elsewhere do so; see end_calls(). The pod must be closed. True: the
 * pod was removed with the last one.
 */
bool pod_rescue_calls(struct core *core, struct pod *pod, uint64_t started_at_ms) MUST_CHECK;

/* How long a call has waited that waits since then; 0 if that is still to come, by another clock. */
uint64_t waited_ms(const struct core *core, uint64_t since_ms);

/* line_serve.c */
/* Marks the pool if a slot of it is free and calls wait for it. */
void line_mark(struct core *core, struct pool *pool);
/*
 * Gives the free slots of the marked pools to the calls in front. -ENOMEM: some stay marked for the next
 * command, and nothing else is wrong.
 */
int line_serve(struct core *core) MUST_CHECK;
/* Adds a granted call to the others, in the order in which their time ends. */
void granted_add(struct core *core, struct call *call);
/* A granted call is taken: from now on it is a call like others. Reports nothing. */
void call_take(struct core *core, struct call *call);
/*
 * The pod of a granted call goes before the call was taken: it waits again, at the place that it had. Reports
 * it, and settles the pod. *ret_has_left: the pod was removed. False: nothing is changed.
 */
bool call_waits_again(struct core *core, struct call *call, bool *ret_has_left) MUST_CHECK;
/* The same by an allocation, which gives it the lease of a new call. Reports it. */
void call_take_anew(struct core *core, struct call *call);

#endif
