/*
 * dial.h - a connection to the pod of a call: finds the pod, connects to it, and asks it to accept.
 *
 * One step in the store finds the pod and makes this router the call's carrier. A pod that cannot be reached
 * is put aside, the call moves to another one in the same step, and that one is dialled; so it goes on for
 * DIAL_MOVES_MAX pods. A stream that has lost its pod begins with such a move. Inside the module only.
 */
#ifndef GATEWAY_DIAL_H
#define GATEWAY_DIAL_H

#include "base/strbuf.h"
#include "gateway/gateway_internal.h"

enum { DIAL_MOVES_MAX = 3 }; /* pods that may turn out to be out of reach for one client */

struct dial; /* opaque: see dial.c */

enum dial_outcome {
    DIAL_ACCEPTED, /* the pod has answered 101 */
    DIAL_WAITING,  /* no pod is free, and the call waits for one */
    DIAL_REFUSED,
    DIAL_CANCELED,
};

struct dial_answer {
    enum dial_outcome outcome;
    const char *pod;         /* that has the call, or had it; "": not known */
    const char *merchant_id; /* whose call it is; "": nobody's, or not known */
    const char *provider;    /* the same */
    bool may_be_taken;       /* a hold was not answered: the call may have waited for the pod */
    bool was_taken;          /* the call has waited for the pod, for so long */
    uint64_t waited_ms;
    unsigned refusals; /* of pods that were there, and did not take the stream */
    /* DIAL_ACCEPTED */
    uv_tcp_t *tcp;      /* nobody reads it; the receiver's to uv_close and free() */
    struct slice head;  /* the pod's answer: status line and headers */
    struct slice early; /* what came behind it; follows the head in memory */
    /* DIAL_WAITING */
    const struct waiting_call *waiting;
    /* DIAL_REFUSED: as it is told to a client that is not connected yet. */
    int status;
    enum stream_refusal reason;
    const char *message;
    const char *pod_answer; /* the first line of what the pod said; "": it was not that */
    bool is_elsewhere;      /* the call has a newer stream: this one is to go */
    bool is_unknown;        /* the store does not know the call, and no end of it either */
};

/* Runs once, never inside dial_start. Everything is borrowed for the call. The dial is gone. */
typedef void (*dial_done_fn)(void *arg, const struct dial_answer *answer);

/* Texts are borrowed until `done` has run. */
struct dial_order {
    struct gateway *gateway;
    struct held_call *call; /* which is held, see calls_hold; stays the caller's */
    const char *call_sid;
    const char *request_id; /* for the log */
    /* Appends the request to the pod. */
    void (*write_head)(void *arg, const struct dial_answer *found, struct strbuf *buf);
    dial_done_fn done;
    void *arg;
    struct wait_standing standing; /* of the stream that is to have the pod */
    bool can_wait;                 /* the client can be held: a call that finds no pod joins the line */
    /* A stream of the call whose client is kept meanwhile, and has agreed to this; NULL: none. */
    const struct stream *stream;
    const char *key;         /* with a stream: what it sent as Sec-WebSocket-Key */
    const char *subprotocol; /* with a stream: a pod that does not agree to it loses the call */
    /* The pod that has lost the call's stream: the call is moved first. NULL: it is where the store says. */
    const char *from_pod;
    uint64_t aside_ms; /* for so long it gets no new call; 0: it only loses this one */
    bool is_rescue;    /* the call had a pod: its time in line is counted as that of a rescue */
};

/* 0, or -ENOMEM. */
int dial_start(const struct dial_order *order, struct dial **ret_dial) MUST_CHECK;

/* Has it gone on from what the store said, with another pod than this one? NULL: with any pod. */
bool dial_is_past(const struct dial *dial, const char *pod);

/* Ends it as soon as what is under way has come back: `done` runs with DIAL_CANCELED, later. */
void dial_cancel(struct dial *dial);

#endif
