/*
 * seed.h - compares TIER_CONFIG with the stored tiers, which win over it.
 */
#ifndef STORE_SEED_H
#define STORE_SEED_H

#include "core/tiers.h"

/* Warns if both mean different tiers: which ones are in force, and how to apply the others. */
void seed_compare(const char *stored, size_t len, const struct tier_config *wanted);

#endif
