/*
 * manager_internal.h - what the manager is made of. Only for the files of this room.
 */
#ifndef MANAGER_MANAGER_INTERNAL_H
#define MANAGER_MANAGER_INTERNAL_H

#include "k8s/marks.h"
#include "k8s/pods.h"
#include "manager/manager.h"
#include "manager/picture.h"
#include "manager/task.h"

struct manager {
    struct manager_settings settings;
    uv_loop_t *loop;
    struct picture picture; /* of the source: the static pods, or those of Kubernetes */
    bool has_picture;       /* the source has told its pods, and they may be believed */
    struct task sync;
    struct task sweep;

    /* Of a sync. */
    struct arena sync_arena; /* what the command under way borrows */
    uint64_t sync_started_ns;
    uint64_t sync_due_ms;  /* elapsed; when the next full one is wanted */
    unsigned full_syncs;   /* that were finished */
    enum pod_source other; /* the source whose left-over pods are being removed */
    char look_cursor[POD_NAME_MAX + 1];

    /* Of the source kubernetes. */
    struct k8s_pods *kube_pods;
    struct k8s_marks *marks; /* NULL: pods are not marked */
    struct task marking;
    uint64_t marking_round;
    char marking_cursor[CALL_SID_MAX + 1];
    bool empty_seen; /* the last list had no pods, and is to be confirmed */
    size_t unusable; /* pods left out for their names, as often as they were told, that no line has told of */
    uint64_t unusable_told_ms;

    unsigned parts_left; /* to stop */
    void (*stopped)(void *arg);
    void *stopped_arg;

    struct metrics_series *zombies_recovered;
    struct metrics_series *sync_seconds;
    struct metrics_series *sweeps;
    struct metrics_series *kube_failures;
};

/* sync.c */
int sync_begin(void *arg, struct command *ret_command);
int sync_step(void *arg, const struct result *result, struct command *command);
/* A full sync is wanted now: the source has told all its pods. */
void sync_want_full(struct manager *manager);
/* The next full sync is a whole interval away from now. */
void sync_put_off(struct manager *manager);

/* kubernetes.c */
int kube_start(struct manager *manager) MUST_CHECK;
/* Time for the list that confirms an empty one, if one is to be confirmed. */
void kube_confirm_empty(struct manager *manager);
/* How many times kube_stop will call `stopped`. */
unsigned kube_parts(const struct manager *manager);
void kube_stop(struct manager *manager, void (*stopped)(void *arg), void *arg);

/* marking.c */
int marking_start(struct manager *manager) MUST_CHECK;
/* As kube_parts and kube_stop. */
unsigned marking_parts(const struct manager *manager);
void marking_stop(struct manager *manager, void (*stopped)(void *arg), void *arg);

#endif
