/*
 * event.h - what happened, for those who watch: the kinds of events, and their text.
 *
 * The text is one line of JSON. It begins with the kind and an id that no other event has, so that
 * a reader of lines need not understand the rest. Pure functions.
 */
#ifndef STORE_EVENT_H
#define STORE_EVENT_H

#include "base/strbuf.h"

enum {
    EVENT_TEXT_MAX = 2048, /* of one line; there are no longer ones */
    EVENT_KIND_MAX = 32,
    EVENT_ID_MAX = 300,
};

enum event_kind {
    EVENT_ALLOCATED,      /* a call got a pod; reason "adopted": the pod's heartbeat said so */
    EVENT_REFUSED,        /* there was no pod for it */
    EVENT_WAITING,        /* there was no pod for it, and it waits; from_pod: it had a pod, which broke */
    EVENT_WAIT_ENDED,     /* its wait has ended without a pod; reason says how */
    EVENT_MOVED,          /* a call got another pod, because from_pod could not be reached */
    EVENT_RELEASED,       /* a call ended as it should */
    EVENT_ENDED,          /* a call ended without being released; reason says why */
    EVENT_DRAINING,       /* a pod gets no new calls */
    EVENT_UNDRAINED,      /* it does again */
    EVENT_POD_JOINED,     /* a pod is new */
    EVENT_POD_LEFT,       /* a pod is gone */
    EVENT_PODS_CHANGED,   /* several at once: reason says how, count how many */
    EVENT_LEADER_ELECTED, /* the replica leads now */
    EVENT_LEADER_LOST,    /* the replica leads no more */
    EVENT_DROPPED,        /* count events of the replica are missing: too many at once, or not sent */
    EVENT_KINDS,
};

/* "allocated", "pod_joined". */
const char *event_kind_name(enum event_kind kind);

/* Strings are borrowed; those that are NULL or "" are left out of the text, as is a count of 0. */
struct event {
    enum event_kind kind;
    const char *call_sid;
    const char *pod;
    const char *pool; /* of the call */
    const char *tier; /* of the pod */
    const char *merchant_id;
    const char *provider;
    const char *reason;
    uint64_t count;
    const char *from_pod; /* that a call was taken off, or was to be */
};

/* Who tells it and when; with the number it makes the id. */
struct event_origin {
    const char *replica; /* letters, digits and . _ - only */
    uint64_t number;     /* of this replica's event */
    uint64_t at_ms;      /* wall clock */
};

/*
 * Appends the line, with its line feed. False, and nothing is appended: it would be too long, or no
 * memory.
 */
bool event_write(struct strbuf *buf, const struct event *event, const struct event_origin *origin);

/* A line as it was found; slices point into it. */
struct event_text {
    struct slice kind; /* may be one that only a newer version knows */
    struct slice id;
    struct slice json; /* without the line feed */
};

/*
 * Reads the line at the beginning of `lines` and takes it off, whether it is an event or not.
 * False: it is none, nor would it be safe to pass on: somebody else wrote it.
 */
bool event_read(struct slice *lines, struct event_text *ret_text);

#endif
