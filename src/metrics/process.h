/*
 * process.h - the metrics of this process: memory, CPU, descriptors, version.
 *
 * The values are read from the kernel when somebody asks for the metrics, not before. Loop thread only.
 */
#ifndef METRICS_PROCESS_H
#define METRICS_PROCESS_H

#include "metrics/metrics.h"

struct metrics_process; /* opaque: see process.c */

/* Adds the process_* families and smart_router_build_info. Borrows `metrics`. Fails only with -ENOMEM. */
int metrics_process_new(struct metrics *metrics, struct metrics_process **ret_process) MUST_CHECK;

/* Accepts NULL; always returns NULL. The families stay in the registry. */
struct metrics_process *metrics_process_free(struct metrics_process *process);

/* Call before metrics_write. A value that cannot be read keeps its last state. */
void metrics_process_update(struct metrics_process *process);

#endif
