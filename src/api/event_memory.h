/*
 * event_memory.h - the last events, as they were sent, for clients that come back. Internal to the
 * module.
 *
 * If the memory knows an event, it has every event that came after it. So it must be emptied after
 * each gap. It holds a bounded number of events and of bytes; the oldest ones leave first. Does no
 * I/O. Loop thread only.
 */
#ifndef API_EVENT_MEMORY_H
#define API_EVENT_MEMORY_H

#include "base/base.h"

struct event_memory; /* opaque: see event_memory.c */

enum {
    EVENT_MEMORY_COUNT = 1024,
    EVENT_MEMORY_BYTES = 192 * 1024, /* as text of server-sent events */
};

/* Takes all its memory at once. */
int event_memory_new(struct event_memory **ret_memory) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct event_memory *event_memory_free(struct event_memory *memory);

/* There was a gap: from here on the memory knows no event. */
void event_memory_forget(struct event_memory *memory);

/* Copies `text`, the event as it was sent, which contains `id`. */
void event_memory_add(struct event_memory *memory, struct slice text, struct slice id);

/*
 * Is the event with that id known? If so, *ret_text is all that came after it, in order, perhaps
 * nothing. Borrowed until the next call of this header.
 */
bool event_memory_after(const struct event_memory *memory, struct slice id, struct slice *ret_text);

#endif
