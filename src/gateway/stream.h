/*
 * stream.h - the WebSocket connection of a client, for its whole life.
 *
 * A stream owns the client's socket, and its pod's while it has one. Bytes are copied from each to the
 * other. A side that has finished sending is passed on as such; the other direction goes on. The stream
 * ends when both have finished, when one is broken, or after a long silence.
 *
 * The frames of a stream can be followed. Such a stream sees how its call ends, and survives its pod: while
 * it has none the client hears a sound, and it goes on with the next one. Inside the module only.
 */
#ifndef GATEWAY_STREAM_H
#define GATEWAY_STREAM_H

#include <uv.h>

#include "base/base.h"
#include "base/list.h"
#include "gateway/waits.h"

struct gateway;
struct held_call;
struct stream; /* opaque: see stream_internal.h */

/* Why it ended. */
enum stream_end {
    STREAM_CLOSED_BY_CLIENT, /* it was the first to finish */
    STREAM_CLOSED_BY_POD,
    STREAM_CLIENT_FAILED,
    STREAM_POD_FAILED,
    STREAM_IDLE,
    STREAM_CUT,
    STREAM_OVER,      /* cut because its call is over */
    STREAM_REPLACED,  /* cut because its client was silent, and came back on another connection */
    STREAM_TIMED_OUT, /* its call has waited for too long */
    STREAM_ENDS,
};

const char *stream_end_name(enum stream_end end);

struct stream_names {
    const char *call_sid;
    const char *provider;    /* "": not known */
    const char *merchant_id; /* the same, or it has none */
    const char *request_id;
    const char *traceparent; /* NULL: none */
};

enum { STREAM_HEAD_MAX = 6 * 1024 }; /* a longer request to the pod is not kept */

/* What a stream needs to go on with another pod. Borrowed. */
struct stream_kept {
    struct slice head; /* the request to a pod, without its end: see head.h */
    struct slice key;  /* Sec-WebSocket-Key of the client */
    struct slice subprotocol;
};

/*
 * A pod has accepted. Takes both sockets, which nobody reads, each in memory of its own, and the hold of the
 * call; on -ENOMEM it has not. `to_client` and `to_pod` are what was read ahead, sent first. The first
 * `head_len` bytes of `to_client` are the answer to the handshake. `kept` NULL: it is not followed.
 */
struct stream_pod {
    const char *name;
    struct held_call *call;
    uv_tcp_t *tcp;
    struct slice to_client;
    size_t head_len;
};
int stream_start(struct gateway *gateway, const struct stream_names *names, uv_tcp_t *client,
                 struct slice to_pod, const struct stream_pod *pod,
                 const struct stream_kept *kept) MUST_CHECK;

/* What the store has said of a stream that is to be held. */
enum stream_holding {
    STREAM_IS_NEW, /* nothing: it does not know of it */
    STREAM_WAITS,
    STREAM_IS_GRANTED, /* the call has a pod already */
};

/*
 * The call waits for a pod: the client is held until it has one. Takes the client's socket; on -ENOMEM it has
 * not. `answer` is sent first: the answer to its handshake.
 */
int stream_start_held(struct gateway *gateway, const struct stream_names *names, uv_tcp_t *client,
                      struct slice answer, struct slice early, const struct stream_kept *kept,
                      const struct waiting_call *waiting, enum stream_holding holding) MUST_CHECK;

/* What has become of its wait; `stream` is the owner of the wait. */
void stream_told_of_wait(void *stream, enum wait_news news);

/* The store can be asked again: what failed because of that is tried again. */
void stream_retry_all(struct gateway *gateway);

void stream_cut_all(struct gateway *gateway);

/* Those of one call, which is over. */
void stream_cut_call(struct gateway *gateway, const struct held_call *call);

/* The call is on this pod now: its streams follow, or are cut if they cannot. */
void stream_move_call(struct gateway *gateway, const struct held_call *call, const char *pod);

/* The call has no pod any more: its stream is held, or cut if it cannot be. */
void stream_hold_call(struct gateway *gateway, const struct held_call *call,
                      const struct waiting_call *waiting);

/*
 * May the call have its open streams and `openings` more? Those whose clients have gone do not count.
 * Where tickets show that who comes is the provider, those whose clients have been silent for long enough do
 * not count either: a provider that comes back has left them. Without tickets anybody could push a caller
 * out.
 */
bool stream_has_room(const struct gateway *gateway, const struct held_call *call, size_t openings);

/* Closes those that stream_has_room did not count, the longest silent first, as far as it is necessary. */
void stream_make_room(struct gateway *gateway, const struct held_call *call, size_t openings);

/* Does the call have an open stream, other than `but`, whose client is still there? */
bool stream_has_client(const struct gateway *gateway, const struct held_call *call, const struct stream *but);

#endif
