/*
 * waiting.h - shows a call that waits for a pod.
 *
 * Inside the module only.
 */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include "cli/view.h"

/* Is this answer of /api/v1/call/{sid} about a call that waits? */
bool waiting_is_state(const cJSON *call);

/* Appends what is known of it. */
void waiting_show_call(struct view *view, const cJSON *call);

#endif
