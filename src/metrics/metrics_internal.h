/*
 * metrics_internal.h - the registry, for the files of this module.
 */
#ifndef METRICS_METRICS_INTERNAL_H
#define METRICS_METRICS_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "metrics/metrics.h"

struct metrics {
    struct list families; /* in the order in which they were added */
};

struct metrics_family {
    struct list link;
    enum metrics_type type;
    const char *name;
    const char *help;
    const char *label_names[METRICS_LABELS_MAX];
    size_t label_count;
    const double *bounds;
    size_t bound_count;
    struct map by_key;
    struct list series; /* in the order in which they were made */
    size_t series_count;
    /* Made with the family, so that metrics_series always has something to give. The only series of a family
     * without labels. */
    struct metrics_series *overflow;
};

struct metrics_series {
    struct map_node node;
    struct list link;
    struct metrics_family *family;
    bool is_present;
    double value;   /* a histogram's sum */
    uint64_t count; /* histograms */
    uint64_t
        *counts; /* histograms: one per bound, not cumulative; beyond the last bound only `count` knows */
    char *key;   /* the label values, each with its NUL */
    size_t key_len;
};

/* "counter", "gauge", "histogram" */
const char *metrics_type_name(enum metrics_type type);

/* Appends the number as Prometheus writes it. */
void metrics_write_number(struct strbuf *buf, double value);

#endif
