/*
 * script_table.h - what the build writes from scripts/redis/ with scripts/embed-redis-scripts.
 */
#ifndef STORE_REDIS_SCRIPT_TABLE_H
#define STORE_REDIS_SCRIPT_TABLE_H

#include "store/redis/script.h"

/* Sorted by name; one without a name ends it. */
extern const struct redis_script redis_script_table[];
extern const size_t redis_script_count;

#endif
