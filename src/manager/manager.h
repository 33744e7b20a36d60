/*
 * manager.h - keeps the store's data about the pods up to date: pod sources, sync, sweep,
 * rebalance.
 *
 * Runs on the one replica that leads. Loop thread only. Every task repeats on its own timer, backs
 * off when the store fails, and says so in a metric; nothing here can hurt a live call because of
 * one failure.
 */
#ifndef MANAGER_MANAGER_H
#define MANAGER_MANAGER_H

#include <uv.h>

#include "k8s/client.h"
#include "metrics/metrics.h"
#include "store/store.h"

struct manager; /* opaque: see manager.c */

struct manager_static_pod {
    const char *name;
    const char *address; /* "" if none was given */
};

struct manager_kube {
    struct k8s_client *client;   /* borrowed; NULL unless the source is POD_SOURCE_KUBERNETES */
    const char *namespace_name;  /* borrowed */
    const char *label_selector;  /* borrowed */
    uint16_t agent_port;         /* where voice agents listen */
    const char *agent_container; /* borrowed; "": the first one of the pod */
    bool marks_pods; /* annotate pods that carry calls, where that is allowed; else take such marks off */
};

struct manager_settings {
    enum pod_source source; /* POD_SOURCE_API: pods register themselves, and that is all */
    const struct manager_static_pod *static_pods; /* borrowed */
    size_t static_pod_count;
    struct manager_kube kube;
    bool scales_sets; /* the pods are a StatefulSet's: drain ordinals that are not wanted */
    uint64_t cleanup_interval_ms;
    uint64_t reconcile_interval_ms;
};

int manager_new(uv_loop_t *loop, const struct manager_settings *settings, struct store *store,
                struct metrics *metrics, struct manager **ret_manager) MUST_CHECK;

/* Adds every family of metrics that a manager may have, for their list. 0 or -ENOMEM. */
int manager_list_metrics(struct metrics *metrics) MUST_CHECK;

/*
 * Starts to lead: a full sync as soon as the source has told its pods, then everything on its timer. 0 or
 * -ENOMEM; then it must still be stopped.
 */
int manager_start(struct manager *manager) MUST_CHECK;

/* How long ago the last full sync was finished. False: there was none yet. */
bool manager_sync_age(const struct manager *manager, uint64_t *ret_ms);

/* Stops leading, waits for what is under way, frees the manager, then calls `stopped`. */
void manager_stop(struct manager *manager, void (*stopped)(void *arg), void *arg);

#endif
