/*
 * metrics.h - counters, gauges and histograms, and their Prometheus text.
 *
 * A series is made once and kept; adding to it is an increment in memory. The number of series is bounded by
 * METRICS_SERIES_MAX, so that no label can grow without end: beyond it metrics_series gives the family's
 * overflow series, whose label values are all "other". Loop thread only.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "base/strbuf.h"

struct metrics;        /* opaque: the registry */
struct metrics_family; /* opaque: one name with its series */
struct metrics_series; /* opaque: one combination of label values */
struct list;

enum {
    METRICS_LABELS_MAX = 3,
    METRICS_SERIES_MAX = 2048, /* of one family */
};

enum metrics_type {
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
};

int metrics_new(struct metrics **ret_metrics) MUST_CHECK;
struct metrics *metrics_free(struct metrics *metrics);

/*
 * Adds a family. `label_names` has label_count entries; names and help are borrowed and must stay. Histograms
 * take their bucket bounds (ascending, borrowed) here; others pass NULL, 0. A name that is there already
 * gives that family: two modules may count the same thing. NULL only without memory.
 */
struct metrics_family *metrics_family(struct metrics *metrics, enum metrics_type type, const char *name,
                                      const char *help, const char *const *label_names, size_t label_count,
                                      const double *bounds, size_t bound_count) MUST_CHECK;

/*
 * How long the store took to answer, by operation: one label. Every module that sends commands to
 * the store observes this family. NULL only without memory.
 */
struct metrics_family *metrics_store_durations(struct metrics *metrics) MUST_CHECK;

/*
 * Releases, by the pool that the pod came from, how they ended, and the name of that pool's tier: three
 * labels. Every module that releases calls counts in this family. NULL only without memory.
 */
struct metrics_family *metrics_releases(struct metrics *metrics) MUST_CHECK;

/*
 * How long calls waited for a pod, by how the wait ended: one label, a name of enum wait_end. Every module
 * that learns of such an end observes this family. NULL only without memory.
 */
struct metrics_family *metrics_waits(struct metrics *metrics) MUST_CHECK;

/* The series with these label values (copied); made on first use. Never NULL (the overflow series instead).
 */
struct metrics_series *metrics_series(struct metrics_family *family, const char *const *label_values);

void metrics_add(struct metrics_series *series, double amount); /* counter */
void metrics_set(struct metrics_series *series, double value);  /* gauge; also a counter counted elsewhere */
void metrics_observe(struct metrics_series *series, double value); /* histogram */
double metrics_value(const struct metrics_series *series);

/* Sets every series of a gauge family to "absent" until it is set again: for tiers that were removed. */
void metrics_family_clear(struct metrics_family *family);

/* Appends the exposition (text format 0.0.4). */
void metrics_write(const struct metrics *metrics, struct strbuf *buf);

/* How far an exposition is written; zeroed at its beginning. Series that are made meanwhile do not hurt. */
struct metrics_cursor {
    const struct list *family;
    const struct list *series; /* NULL: the family is not begun */
};

/* The same in parts: `bytes` and a bit at once. True: that was the last part. */
bool metrics_write_some(const struct metrics *metrics, struct metrics_cursor *cursor, struct strbuf *buf,
                        size_t bytes) MUST_CHECK;

/*
 * Appends a reference of all families as Markdown: docs/METRICS.md. False: a label has no description in
 * reference.c; *ret_label is its name.
 */
bool metrics_write_reference(const struct metrics *metrics, struct strbuf *buf,
                             const char **ret_label) MUST_CHECK;

/* Appends a line for each family: its name and labels, its type, what it is. */
void metrics_write_list(const struct metrics *metrics, struct strbuf *buf);

#endif
