/*
 * scrape.h - the answers to GET /metrics that are being written. Internal to the module.
 *
 * A page is written in slices: with a thousand tiers it has a megabyte, and calls do not wait for that. Loop
 * thread only.
 */
#ifndef API_SCRAPE_H
#define API_SCRAPE_H

#include <uv.h>

#include "base/base.h"

struct scrapes; /* opaque: see scrape.c */

/* `loop` NULL: every page is written at once. */
int scrapes_new(uv_loop_t *loop, struct scrapes **ret_scrapes) MUST_CHECK;

/* When no page is being written any more. Accepts NULL; always returns NULL. */
struct scrapes *scrapes_free(struct scrapes *scrapes);

/* Finishes every page; later ones are written at once. Must come before the loop ends. */
void scrapes_stop(struct scrapes *scrapes);

#endif
