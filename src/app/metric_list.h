/*
 * metric_list.h - all metrics that a router can have, without a running one.
 */
#ifndef APP_METRIC_LIST_H
#define APP_METRIC_LIST_H

#include "metrics/metrics.h"

/* Adds the families of every module, also of those that a router has only with certain settings. 0 or
 * -ENOMEM. */
int metric_list_fill(struct metrics *metrics) MUST_CHECK;

#endif
