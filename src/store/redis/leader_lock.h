/*
 * leader_lock.h - who leads, where there is no Kubernetes to ask: a lock in Redis.
 *
 * Every replica asks for the lock every retry period; whoever has it renews it. A leader that could
 * not renew for the renew deadline says that it no longer leads, well before the lock runs out and
 * another one takes it: its own elapsed time counts, also while it was stopped. Loop thread only.
 */
#ifndef STORE_REDIS_LEADER_LOCK_H
#define STORE_REDIS_LEADER_LOCK_H

#include <uv.h>

#include "store/redis/link.h"

struct redis_leader_lock; /* opaque: see leader_lock.c */

struct redis_leader_lock_settings {
    const char *key_prefix; /* all strings are borrowed and must stay */
    const char *identity;   /* no two processes have the same */
    uint64_t duration_ms;
    uint64_t renew_deadline_ms; /* less than duration_ms */
    uint64_t retry_ms;
    /*
     * Tells every change: who leads ("" if nobody is known to), and whether that is us. Never
     * inside a call.
     */
    void (*on_change)(void *arg, bool is_leader, const char *leader);
    void *on_change_arg;
};

/* Starts to ask at once. The link is borrowed and must stay until `stopped`. */
int redis_leader_lock_new(uv_loop_t *loop, const struct redis_leader_lock_settings *settings,
                          struct redis_link *link, struct redis_leader_lock **ret_leader) MUST_CHECK;

/*
 * May we act as the leader right now? Asks the clock, so it is also right for a process that was
 * stopped and whose timers have not run yet.
 */
bool redis_leader_lock_leads(const struct redis_leader_lock *leader);

/* The number that came with the lock: no other leader has or had it. Of use only while we lead. */
uint64_t redis_leader_lock_fence(const struct redis_leader_lock *leader);

/* Gives the lock up if we have it, frees the leader, then calls `stopped`. */
void redis_leader_lock_stop(struct redis_leader_lock *leader, void (*stopped)(void *arg), void *arg);

#endif
