/*
 * manager_internal.h - the struct of the manager, and what its files share.
 */
#ifndef MANAGER_MANAGER_INTERNAL_H
#define MANAGER_MANAGER_INTERNAL_H

#include "base/log_repeat.h"
#include "k8s/annotator.h"
#include "k8s/pod_watch.h"
#include "manager/absent.h"
#include "manager/known_pods.h"
#include "manager/manager.h"
#include "manager/task.h"

/* Why the last list is not believed until another one confirms it. */
enum list_doubt {
    LIST_BELIEVED,
    LIST_EMPTY,
    LIST_LOSES_CALLS, /* the first one after the start, and most live calls are on pods that it does not have
                       */
};

/* What a first list would cost: see sync.c. */
struct weighing {
    bool is_under_way;
    size_t calls; /* of all pods */
    size_t lost;  /* of them, on pods that are not in the list */
};

struct manager {
    struct manager_settings settings;
    uv_loop_t *loop;
    struct known_pods known_pods; /* of the source: the static pods, or those of Kubernetes */
    bool knows_pods;              /* the source has told its pods, and they may be believed */
    bool has_unscaled;            /* without sets: the drains of an earlier setting are taken back */
    struct task sync;
    struct task sweep;
    struct task scale;
    struct task serve;

    /* Of a sync. */
    struct arena sync_arena; /* what the command under way borrows */
    uint64_t started_ms;     /* elapsed */
    uint64_t sync_started_ns;
    uint64_t sync_due_ms; /* elapsed; when the next full one is wanted */
    unsigned full_syncs;  /* that were finished */
    uint64_t synced_ms;   /* elapsed; when the last one was finished */
    unsigned unlisted;    /* full syncs since the source has last told all its pods */
    struct weighing weighing;
    enum pod_source other; /* the source whose left-over pods are being removed */
    char look_cursor[POD_NAME_MAX + 1];

    /* Of the source kubernetes. */
    struct k8s_pod_watch *kube_pods;
    struct k8s_annotator *marks; /* NULL: pods are not marked */
    struct task marking;
    uint64_t marking_round;
    char marking_cursor[CALL_SID_MAX + 1];
    struct absent absent;
    uint64_t confirm_at_ms;       /* elapsed; a list before that does not confirm one that is in doubt */
    enum list_doubt doubt;        /* about the last list */
    bool is_confirmed;            /* the last list is the second one: it is believed */
    bool is_store_opened;         /* it was ready once, or took too long: see sync.c */
    struct log_repeat unusable;   /* pods left out for their names, as often as they were told */
    struct log_repeat unanswered; /* questions for absent pods */

    unsigned parts_left; /* to stop */
    void (*stopped)(void *arg);
    void *stopped_arg;

    struct metrics_family *waits;
    struct metrics_series *zombies_recovered;
    struct metrics_series *sync_seconds;
    struct metrics_series *synced_at;   /* seconds since 1970 */
    struct metrics_series *watch_heard; /* the same; NULL: the source is not Kubernetes */
    struct metrics_series *sweeps;
    struct metrics_series *kube_failures;
    struct metrics_series *empty_lists;
};

/* sweep.c */
int sweep_begin(void *arg, struct command *ret_command);
int sweep_step(void *arg, const struct result *result, struct command *command);

/* scale.c */
int scale_begin(void *arg, struct command *ret_command);
int scale_step(void *arg, const struct result *result, struct command *command);

/* serve.c */
int serve_begin(void *arg, struct command *ret_command);
int serve_step(void *arg, const struct result *result, struct command *command);

/* sync.c */
int sync_begin(void *arg, struct command *ret_command);
int sync_step(void *arg, const struct result *result, struct command *command);
/* A full sync is wanted now: the source has told all its pods. */
void sync_want_full(struct manager *manager);
/* The next full sync is a whole interval away from now. */
void sync_put_off(struct manager *manager);

/* kubernetes.c */
int kube_start(struct manager *manager) MUST_CHECK;
/* Another list is wanted. False: there is no source that lists. */
bool kube_relist(struct manager *manager);
/* The pod carries calls, but the list does not have it. */
void kube_ask(struct manager *manager, const char *name);
/* The list is not believed until another one, an interval later, confirms it. */
void kube_doubt(struct manager *manager, enum list_doubt doubt);
/* How many times kube_stop will call `stopped`. */
unsigned kube_parts(const struct manager *manager);
void kube_stop(struct manager *manager, void (*stopped)(void *arg), void *arg);

/* annotating.c */
int marking_start(struct manager *manager) MUST_CHECK;
/* As kube_parts and kube_stop. */
unsigned marking_parts(const struct manager *manager);
void marking_stop(struct manager *manager, void (*stopped)(void *arg), void *arg);

#endif
