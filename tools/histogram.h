/*
 * histogram.h - counts durations in fixed memory; exact to about one part in 64.
 */
#ifndef TOOLS_HISTOGRAM_H
#define TOOLS_HISTOGRAM_H

#include "base/base.h"

enum {
    HISTOGRAM_STEPS = 64, /* within each power of two */
    HISTOGRAM_POWERS = 40,
};

struct histogram {
    uint64_t counts[HISTOGRAM_POWERS * HISTOGRAM_STEPS];
    uint64_t total;
    uint64_t sum;
    uint64_t max;
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The value that `share` (0 to 1) of all values do not exceed; 0 when there is none. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
