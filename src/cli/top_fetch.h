/*
 * top_fetch.h - asks the router for what `smart-router top` shows, without ever blocking: the status once a
 * second, the list of the current view in pages, the stream of events, and what the operator confirmed.
 *
 * One thread, libcurl's multi interface. At most three requests are under way: one that polls, one of the
 * operator, and the stream. A router that does not answer is tried again with growing pauses.
 */
#ifndef CLI_TOP_FETCH_H
#define CLI_TOP_FETCH_H

#include "cli/client.h"
#include "cli/top_model.h"

struct top_fetch; /* opaque: see top_fetch.c */

/* Borrows both. 0 or -ENOMEM. */
int top_fetch_new(struct client *client, struct top_model *model, struct top_fetch **ret_fetch) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct top_fetch *top_fetch_free(struct top_fetch *fetch);
void top_fetch_freep(struct top_fetch **fetch);

/* Takes what has arrived, and starts what is due. Returns how many milliseconds it can be left alone. */
uint64_t top_fetch_step(struct top_fetch *fetch, uint64_t now_ms);

/* Waits until something arrives, or one of `fds` can be read, or the time is over. */
void top_fetch_wait(struct top_fetch *fetch, const int *fds, size_t fds_len, uint64_t timeout_ms);

/* Sends model->request. Its answer, or that there was none, becomes the model's message. */
void top_fetch_send(struct top_fetch *fetch);

/* The router has refused the key before it ever answered: there is nothing to wait for. link_error says it.
 */
bool top_fetch_is_refused(const struct top_fetch *fetch);

#endif
