/*
 * lease.h - elects the leader by a coordination.k8s.io Lease, wire-compatible with client-go's
 * leader election: both may compete for the same one. Loop thread only.
 *
 * Times are our own elapsed ones: what others wrote into the Lease is only ever compared with what
 * they wrote before, so that clocks need not agree. A leader that could not renew for the renew
 * deadline says that it no longer leads, well before its lease runs out and another one takes it.
 */
#ifndef K8S_LEASE_H
#define K8S_LEASE_H

#include "k8s/client.h"

struct k8s_lease; /* opaque: see lease.c */

struct k8s_lease_settings {
    const char *namespace_name; /* all strings are borrowed and must stay */
    const char *name;           /* a DNS name, as the namespace's is */
    const char *identity;       /* no two processes have the same */
    uint64_t duration_ms;       /* others read it in whole seconds: it is rounded up */
    uint64_t renew_deadline_ms; /* less than duration_ms */
    uint64_t retry_ms;          /* less than renew_deadline_ms */
    /*
     * Tells every change: the name of the leader ("" if none is known), and whether that is us.
     * Never inside a call.
     */
    void (*on_change)(void *arg, bool is_leader, const char *leader);
    void *on_change_arg;
    /*
     * Tells that we have written the Lease and it is ours: created, taken or renewed. Before on_change if
     * that has to be told as well. Never inside a call, and must not stop the lease. May be NULL.
     */
    void (*on_written)(void *arg);
    void *on_written_arg;
    /*
     * Tells, after each look at the Lease, that somebody else holds it. Never inside a call, and must not
     * stop the lease. May be NULL.
     */
    void (*on_others)(void *arg, const char *holder);
    void *on_others_arg;
};

/* Starts to ask at once. The client is borrowed and must stay until `stopped`. */
int k8s_lease_new(uv_loop_t *loop, const struct k8s_lease_settings *settings, struct k8s_client *client,
                  struct k8s_lease **ret_lease) MUST_CHECK;

/*
 * May we act as the leader right now? Asks the clock, so it is also right for a process that was stopped and
 * whose timers have not run yet.
 */
bool k8s_lease_leads(const struct k8s_lease *lease);

/*
 * Gives the lease up if we have it, frees it, then calls `stopped`; no other callback runs after this. An API
 * server that does not answer is not waited for: the next leader then has to wait for the lease to run out.
 */
void k8s_lease_stop(struct k8s_lease *lease, void (*stopped)(void *arg), void *arg);

#endif
