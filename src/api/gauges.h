/*
 * gauges.h - metrics that are read only for a scrape: the store's counts, and the state of this
 * process.
 */
#ifndef API_GAUGES_H
#define API_GAUGES_H

#include "http/http.h"
#include "metrics/metrics.h"
#include "store/store.h"

struct gauges; /* opaque: see gauges.c */

/* Fails only with -ENOMEM. Borrows `metrics`. */
int gauges_new(struct metrics *metrics, struct gauges **ret_gauges) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct gauges *gauges_free(struct gauges *gauges);

/* From a COMMAND_STATUS. NULL: the store did not answer; what it would have said is left out, not zero. */
void gauges_set_status(struct gauges *gauges, const struct result *result);
void gauges_set_store(struct gauges *gauges, const struct store *store);
void gauges_set_leader(struct gauges *gauges, bool is_leader);
/* When a heartbeat was last taken, since 1970; 0: never. */
void gauges_set_heartbeat(struct gauges *gauges, uint64_t at_ms);
void gauges_set_connections(struct gauges *gauges, const char *listener, const struct http_server *server);
/* Reads what the process itself knows: its resources, lines lost by the log. */
void gauges_set_process(struct gauges *gauges);

#endif
