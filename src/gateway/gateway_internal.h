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
#include "gateway/side.h"
#include "gateway/stream.h"
#include "gateway/waits.h"
#include "http/traceparent.h"
#include "media/hold_audio.h"

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
    GATEWAY_BREAK_ASIDE_MS = 5 * 1000, /* the same for one that broke a stream, until it was tried */
    GATEWAY_ASIDE_MS = 60 * 1000,      /* how long a pod that cannot be reached gets no new call */
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

/* How a rescue ended. */
enum rescue_result {
    RESCUE_MOVED,   /* the stream goes on with another pod */
    RESCUE_WAITED,  /* the same, after its call has waited */
    RESCUE_NO_PODS, /* no pod was free, and calls do not wait */
    RESCUE_ENDED,   /* the call ended meanwhile */
    RESCUE_FAILED,
    RESCUE_RESULTS,
};

/* Close codes, as they are counted. */
enum close_code_kind {
    CLOSE_CODE_1000,
    CLOSE_CODE_1001,
    CLOSE_CODE_1002,
    CLOSE_CODE_1003,
    CLOSE_CODE_1005, /* a close frame without a code */
    CLOSE_CODE_1006, /* no close frame */
    CLOSE_CODE_1007,
    CLOSE_CODE_1008,
    CLOSE_CODE_1009,
    CLOSE_CODE_1011,
    CLOSE_CODE_1012,
    CLOSE_CODE_1013,
    CLOSE_CODE_3000, /* 3000 to 3999 */
    CLOSE_CODE_4000, /* 4000 to 4999 */
    CLOSE_CODE_OTHER,
    CLOSE_CODE_KINDS,
};
enum close_code_kind close_code_kind(int code);

struct gateway_metrics {
    struct metrics_series *connections;
    struct metrics_series *held;
    struct metrics_series *opened;
    struct metrics_series *to_pod;
    struct metrics_series *to_client;
    struct metrics_series *refusals[REFUSED_REASONS];
    struct metrics_series *failures[CONNECT_FAILURES];
    struct metrics_series *moves[2]; /* moved; no pod was free */
    struct metrics_series *ends[STREAM_ENDS];
    struct metrics_series *durations;
    struct metrics_series *hold_seconds;
    struct metrics_series *rescues[RESCUE_RESULTS];
    struct metrics_series *rescue_seconds;
    struct metrics_series *close_codes[2][CLOSE_CODE_KINDS]; /* of clients, of pods */
    struct metrics_series *granted;                          /* waits that ended with a pod */
};

/* The router goes, and its calls stay: depart.c. */
struct departure {
    bool has_begun;
    bool is_for_all;
    bool (*comes_back)(const char *provider);
    bool is_asking;
    struct ask ask;
    struct arena arena;
    uv_timer_t timer;
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
    struct waits *waits;
    struct presence presence; /* only if somebody shares the store */
    struct list openings;     /* handshakes under way */
    size_t opening_count;
    struct list streams; /* that are open */
    size_t stream_count;
    size_t held_count;   /* of them, without a pod */
    struct list resting; /* of them, whose clients are not read for a moment */
    uv_timer_t rest_timer;
    struct arena words; /* for short texts that are sent at once */
    struct list probes; /* of pods that broke a connection */
    size_t probe_count;
    struct departure departure;
    bool is_draining;
    bool is_stopping;
    bool is_stopping_calls;
    unsigned timers; /* that must close before it has stopped */
    void (*stopped)(void *arg);
    void *stopped_arg;
    char scratch[SIDE_BUFFER];
};

/* instruments.c. 0 or -ENOMEM. */
int gateway_count_in(struct gateway_metrics *count, struct metrics *metrics) MUST_CHECK;
const char *stream_refusal_name(enum stream_refusal reason);

/* opening.c: one handshake, from the client's request to the connection that is carried. */
void opening_start(struct gateway *gateway, struct http_request *request, bool is_held);
struct opening *opening_of(struct list *link);
/* Answers it with 503 as soon as what is under way has come back. */
void opening_abort(struct opening *opening);

/*
 * probe.c: looks whether a pod that broke a connection is still there, and puts it aside if it is not: its
 * next call would find that out, but only after it was given the pod.
 */
void probe_start(struct gateway *gateway, const char *pod);
void probe_cancel_all(struct gateway *gateway);

/* depart.c: a stream has begun, which may have to depart, too. */
void depart_init(struct gateway *gateway);
void depart_soon(struct gateway *gateway);
void depart_run(struct gateway *gateway);

/* Where a pod is, and whether it said so itself: then it may not be everywhere. Borrows `address`. */
struct connect_target gateway_target(const struct gateway *gateway, const char *address,
                                     enum pod_source source);

/* connect.c's errors, as they are counted. */
void gateway_count_failure(struct gateway *gateway, int err);

/* A handshake, a connection or a probe is gone: goes on with stopping, if that is under way. */
void gateway_lost_one(struct gateway *gateway);

#endif
