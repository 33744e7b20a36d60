/*
 * drained.h - the open answers to GET /api/v1/pod/{name}/drained. Internal to the module.
 *
 * The store is asked again and again while somebody waits: a pod can lose its last call on any router.
 * Loop thread only.
 */
#ifndef API_DRAINED_H
#define API_DRAINED_H

#include <uv.h>

#include "base/base.h"

struct drain_waits; /* opaque: see drained.c */

/* `loop` NULL: nobody can wait, and everybody is answered at once. */
int drain_waits_new(uv_loop_t *loop, struct drain_waits **ret_waits) MUST_CHECK;

/* When nobody waits any more. Accepts NULL. */
struct drain_waits *drain_waits_free(struct drain_waits *waits);

/* Answers everybody with what is true now. Whoever wants to go on asks again, and must be allowed to. */
void drain_waits_send_away(struct drain_waits *waits);

/* The same, and from now on nobody can wait. Must come before the loop ends, once somebody has waited. */
void drain_waits_stop(struct drain_waits *waits);

#endif
