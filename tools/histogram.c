/*
 * histogram.c - counts times in buckets, and computes quantiles.
 */
#include "histogram.h"

/* Values below 2 * HISTOGRAM_STEPS have a place each; above, each power of two has HISTOGRAM_STEPS places. */
static size_t place_of(uint64_t value)
{
    int power;
    size_t place;

    if (value < 2 * HISTOGRAM_STEPS)
        return (size_t)value;
    power = 63 - __builtin_clzll(value) - 6; /* how far to shift, so that 64 to 127 are left */
    place = (size_t)power * HISTOGRAM_STEPS + (size_t)(value >> power);
    return place < (size_t)HISTOGRAM_POWERS * HISTOGRAM_STEPS
               ? place
               : (size_t)HISTOGRAM_POWERS * HISTOGRAM_STEPS - 1;
}

/* The largest value of a place. */
static uint64_t value_of(size_t place)
{
    size_t power;

    if (place < (size_t)2 * HISTOGRAM_STEPS)
        return place;
    power = place / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(place - power * HISTOGRAM_STEPS + 1) << power) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->counts[place_of(value)]++;
    histogram->total++;
    histogram->sum += value;
    histogram->max = max_u64(histogram->max, value);
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total);
    uint64_t seen = 0;

    if (histogram->total == 0)
        return 0;
    for (size_t place = 0; place < ARRAY_LEN(histogram->counts); place++) {
        seen += histogram->counts[place];
        if (seen > wanted || seen == histogram->total)
            return min_u64(value_of(place), histogram->max);
    }
    return histogram->max;
}
