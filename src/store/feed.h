/*
 * feed.h - the events of one store: gathered, sent, received, told. Internal to the room.
 *
 * What is published waits for the feed's own turn and leaves with everything else that has come by
 * then. A store that others share sends the lines to all of them, and gets its own back the same
 * way, so that everybody sees one order; one that is alone tells them in this process. Loop thread
 * only.
 */
#ifndef STORE_FEED_H
#define STORE_FEED_H

#include <uv.h>

#include "store/store.h"

struct feed; /* opaque: see feed.c */

int feed_new(struct store *store, uv_loop_t *loop, const char *replica, struct feed **ret_feed) MUST_CHECK;

/* Is there a listener? Without one, no event needs to be made. */
bool feed_is_wanted(const struct feed *feed);

void feed_publish(struct feed *feed, const struct event *event);
void feed_on_event(struct feed *feed, store_event_fn fn, void *arg);
uint64_t feed_dropped(const struct feed *feed);

/* `fn` gets the ended calls, too. */
void feed_on_ended(struct feed *feed, call_ended_fn fn, void *arg);

/*
 * From a store that others share: lines have come; from now on none are missed. Not inside
 * feed_on_event.
 */
void feed_received(struct feed *feed, struct slice lines);
void feed_listening(struct feed *feed);

/* Sends what is left, frees the feed and takes it from its store, then calls `closed`. */
void feed_close(struct feed *feed, void (*closed)(void *arg), void *arg);

/* command_events.c: store_execute, which also publishes the events of the result. */
int feed_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                 void *arg) MUST_CHECK;

#endif
