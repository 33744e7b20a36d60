/*
 * waiting_api.h - fake_api.h with all settings that waiting needs, and a clock and timers that the test owns.
 *
 * Its user is linked with --wrap=clock_elapsed_ms and --wrap=uv_timer_start.
 */
#ifndef TEST_WAITING_API_H
#define TEST_WAITING_API_H

#include "fake_api.h"

struct api_settings waiting_settings(void);

/* `settings` NULL: waiting_settings(). */
void world_init_waiting(struct world *world, const struct api_settings *settings);
void world_release_waiting(struct world *world);

/* Time passes, in steps of a second at most, and the timers that fall due run. */
void pass(uint64_t ms);

extern const char *const line_pools[2]; /* of what waits */

/* The store's answer to an allocation: CA1 waits, or has a pod. */
void say_waiting(struct world *world, uint64_t position, uint64_t attempt);
void say_pod(struct world *world);

void assert_metric(const struct world *world, const char *line);

#endif
