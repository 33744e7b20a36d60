/*
 * durations.h - how long a store takes to answer, for the metrics. Whoever asks it, observes here.
 */
#ifndef STORE_DURATIONS_H
#define STORE_DURATIONS_H

#include "core/command.h"
#include "metrics/metrics.h"

struct store_durations {
    struct metrics_family *family;
    struct metrics_series *by_type[COMMAND_TYPES]; /* made when they are first needed */
};

/* Two that share `metrics` observe the same series. Fails only with -ENOMEM; there is nothing to release. */
int store_durations_init(struct store_durations *durations, struct metrics *metrics) MUST_CHECK;

/* One command of that type took that long. */
void store_durations_observe(struct store_durations *durations, enum command_type type, uint64_t duration_ns);

#endif
