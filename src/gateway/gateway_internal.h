/*
 * gateway_internal.h - what the files of this module share: the gateway itself, and how it counts.
 */
#ifndef GATEWAY_GATEWAY_INTERNAL_H
#define GATEWAY_GATEWAY_INTERNAL_H

#include "base/list.h"
#include "gateway/ask.h"
#include "gateway/calls.h"
#include "gateway/connect.h"
#include "gateway/gateway.h"
#include "gateway/presence.h"
#include "gateway/tunnel.h"
#include "http/traceparent.h"

/* Why a connection was refused; a label of the metrics. */
enum stream_refusal {
    REFUSED_REQUEST, /* no upgrade, no WebSocket */
    REFUSED_TICKET,
    REFUSED_EXPIRED,
    REFUSED_UNKNOWN_POD,
    REFUSED_NO_CALL,
    REFUSED_DRAINING,
    REFUSED_TOO_MANY,
    REFUSED_CALL_FULL, /* the call has as many connections as it may have */
    REFUSED_STOPPING,
    REFUSED_STORE,
    REFUSED_NO_PODS,
    REFUSED_NO_ADDRESS,
    REFUSED_UNREACHABLE,
    REFUSED_BY_POD,
    REFUSED_BAD_ANSWER,
    REFUSED_NO_ANSWER,
    REFUSED_CLIENT_GONE,
    REFUSED_NO_MEMORY,
    REFUSED_EXHAUSTED, /* no descriptor or port is left to connect with */
    REFUSED_REASONS,
};

enum {
    GATEWAY_ASIDE_MS = 60 * 1000, /* how long a pod that cannot be reached gets no new call */
    /* Providers send audio many times a second: one that is silent for so long is taken for gone, if it must.
     */
    GATEWAY_SILENCE_MS = 5 * 1000,
};

enum connect_failure {
    CONNECT_REFUSED,
    CONNECT_TIMED_OUT,
    CONNECT_FORBIDDEN, /* no pod may be there */
    CONNECT_FAILED,
    CONNECT_FAILURES,
};

struct gateway_metrics {
    struct metrics_series *connections;
    struct metrics_series *opened;
    struct metrics_series *to_pod;
    struct metrics_series *to_client;
    struct metrics_series *refusals[REFUSED_REASONS];
    struct metrics_series *failures[CONNECT_FAILURES];
    struct metrics_series *moves[2]; /* moved; no pod was free */
    struct metrics_series *ends[TUNNEL_ENDS];
    struct metrics_series *durations;
};

struct gateway {
    uv_loop_t *loop;
    struct gateway_settings settings;
    struct slice secrets[GATEWAY_SECRETS_MAX];
    size_t secret_count;
    char secret_text[GATEWAY_SECRET_MAX + 1]; /* where they are */
    struct asker asker;
    struct gateway_metrics metrics;
    struct calls *calls;
    struct presence presence; /* only if somebody shares the store */
    struct list openings;     /* handshakes under way */
    size_t opening_count;
    struct list connections; /* connections that are open */
    size_t connection_count;
    struct list probes; /* of pods that broke a connection */
    size_t probe_count;
    bool is_draining;
    bool is_stopping;
    bool is_stopping_calls;
    void (*stopped)(void *arg);
    void *stopped_arg;
    char scratch[TUNNEL_BUFFER];
};

/* instruments.c. 0 or -ENOMEM. */
int gateway_count_in(struct gateway_metrics *count, struct metrics *metrics) MUST_CHECK;
const char *stream_refusal_name(enum stream_refusal reason);

/* opening.c: one handshake, from the client's request to the connection that is carried. */
void opening_start(struct gateway *gateway, struct http_request *request);
struct opening *opening_of(struct list *link);
/* Answers it with 503 as soon as what is under way has come back. */
void opening_abort(struct opening *opening);

/* call_connection.c: one open connection. Takes both sockets and the hold of the call; on -ENOMEM it has not.
 */
struct call_connection_names {
    const char *call_sid;
    const char *pod;
    const char *request_id;
    const char *traceparent; /* NULL: none */
};
int call_connection_start(struct gateway *gateway, const struct call_connection_names *names,
                          struct held_call *call, uv_tcp_t *client, uv_tcp_t *pod, struct slice to_client,
                          struct slice to_pod) MUST_CHECK;
void call_connection_cut_all(struct gateway *gateway);
/* Those of one call, which is over, or is on the pod `but_on_pod` now; NULL: all. */
void call_connection_cut_call(struct gateway *gateway, const struct held_call *call, const char *but_on_pod);
/*
 * May the call have its open connections and `openings` more? Those whose clients have gone do not count.
 * Where tickets show that who comes is the provider, those whose clients have been silent for long enough do
 * not count either: a provider that comes back has left them. Without tickets anybody could push a caller
 * out.
 */
bool call_connection_has_room(const struct gateway *gateway, const struct held_call *call, size_t openings);
/* Closes those that call_connection_has_room did not count, the longest silent first, as far as it is
 * necessary. */
void call_connection_make_room(struct gateway *gateway, const struct held_call *call, size_t openings);
/* Does the call have an open connection whose client is still there? */
bool call_connection_has_client(const struct gateway *gateway, const struct held_call *call);

/*
 * probe.c: looks whether a pod that broke a connection is still there, and puts it aside if it is not: its
 * next call would find that out, but only after it was given the pod.
 */
void probe_start(struct gateway *gateway, const char *pod);
void probe_cancel_all(struct gateway *gateway);

/* Where a pod is, and whether it said so itself: then it may not be everywhere. Borrows `address`. */
struct connect_target gateway_target(const struct gateway *gateway, const char *address,
                                     enum pod_source source);

/* connect.c's errors, as they are counted. */
void gateway_count_failure(struct gateway *gateway, int err);

/* A handshake, a connection or a probe is gone: goes on with stopping, if that is under way. */
void gateway_lost_one(struct gateway *gateway);

#endif
