/*
 * stream_internal.h - what the files of a stream share: stream.c, carry.c, follow.c, play.c, rescue.c.
 */
#ifndef GATEWAY_STREAM_INTERNAL_H
#define GATEWAY_STREAM_INTERNAL_H

#include "base/log.h"
#include "gateway/dial.h"
#include "gateway/gateway_internal.h"
#include "gateway/passage.h"
#include "gateway/stream.h"
#include "gateway/waits.h"
#include "media/hold_audio.h"
#include "ws/handshake.h"

enum {
    STREAM_MAGIC = 0x73747265,
    STREAM_KEPT_MAX = 8 * 1024,   /* of the request and the first messages, for the next pod */
    STREAM_SUBPROTOCOL_MAX = 128, /* of a subprotocol that was agreed */
    STREAM_KEY_MAX = 64,          /* of the client's key for the handshake */
    STREAM_PART_MS = 5000,        /* for both sides to close, after the call has ended */
    STREAM_RETRY_MS = 500,        /* while the store is out of reach */
    STREAM_REST_MS = 200,         /* the client of a held stream is not read for so long after each read */
};

/* What a stream has. stream_enter changes it. */
enum stream_phase {
    STREAM_CARRIED, /* a pod */
    STREAM_HELD,    /* none: its call waits for one */
    STREAM_DIALING, /* none: one is being dialled, or the store is out of reach */
    STREAM_PARTING, /* none: its client was told to close */
    STREAM_CLOSING, /* its sockets are being closed */
    STREAM_PHASES,
};

/* What is known of a stream whose frames are followed, so that it can go on with another pod. */
struct follow {
    struct passage from_client;
    struct passage from_pod;
    struct strbuf head; /* the request to a pod, without its end: see head.h */
    struct strbuf kept; /* the frames of `connected` and `start`, as they came */
    unsigned looks;     /* how many messages may still be decoded to find `start` */
    bool has_start;
    bool has_lost_start;      /* the first messages are too large to be kept */
    struct media_start start; /* has_start; its dialect is NULL if it is not understood */
    char key[STREAM_KEY_MAX + 1];
    char subprotocol[STREAM_SUBPROTOCOL_MAX + 1]; /* that was agreed; "": none */

    /* The sound: play.c. */
    const struct clip *clip; /* NULL: not known yet, or there is none */
    uint64_t clip_at_ms;     /* when the next round is due; 0: nothing is played */
    uint64_t marks;          /* that were sent; their numbers begin with 1 */
    uint64_t marks_back;     /* the highest that has come back */
    uint64_t clears;         /* that were sent and are still to be answered, where the provider does so */
    bool has_played;         /* since the last clear */
};

/* What was said by a side, and is to be dealt with after all of its bytes were looked at. */
struct stream_said {
    bool client_ends; /* its close frame, or `stop` */
    bool pod_ends;    /* a close frame that ends the call */
    bool pod_breaks;  /* a close frame that does not */
    bool is_wrong;    /* the client broke the protocol */
    bool is_too_big;  /* or said too much */
};

struct stream {
    unsigned magic;
    enum stream_phase phase;
    struct gateway *gateway;
    struct list link;
    struct held_call *call; /* NULL: while STREAM_HELD */
    struct side *client;
    struct side *pod;      /* while STREAM_CARRIED, and until it is closed; else NULL */
    struct follow *follow; /* NULL: bytes are passed on unseen */
    struct dial *dial;     /* while STREAM_DIALING; NULL: it is tried again later */
    struct wait *wait;     /* while STREAM_HELD */
    struct list rest_link; /* its client is not read for a moment */
    uv_timer_t timer;      /* for all that has a time: see stream_await */
    uint64_t began_ms;     /* of the wall clock */
    uint64_t started_ms;   /* uv_now, as all times from here on */
    uint64_t active_ms;    /* a byte went one way or the other */
    uint64_t client_ms;    /* the client was heard, or could not be */
    uint64_t retry_at_ms;  /* 0: no */
    uint64_t part_by_ms;   /* its call has ended, and it is to be closed; 0: no */
    uint64_t held_ms;      /* since when it has had no pod; 0: it has one */
    uint64_t carried_ms;   /* since when its last pod has it */
    uint64_t broke_ms;     /* when its pod broke; 0: it did not, or the next one has spoken */
    uint64_t aside_ms;     /* how long the pod that broke gets no new call */
    uint64_t to_pod_bytes;
    uint64_t to_client_bytes;
    unsigned handles;      /* that must close before it is freed */
    int pod_code;          /* of the pod's close frame; 0: none */
    unsigned resumed;      /* see calls_recall; 0: it has had no pod */
    unsigned breaks;       /* of pods that had just got it and failed, one after the other */
    unsigned quick_breaks; /* the same, also of pods that have gone, or did not take it */
    unsigned lost_tries;   /* how often the store did not know the call */
    enum stream_end end;
    bool has_end;
    bool is_open;     /* as far as the call knows */
    bool could_move;  /* as it was told then */
    bool is_ending;   /* its call has ended: no other pod is looked for */
    bool has_parted;  /* the client was sent a close frame */
    bool departs;     /* the router stops, and the call may come back */
    bool pod_broke;   /* its socket failed, first or later: it did not part in peace */
    bool is_rescue;   /* it has no pod because that broke, and not because its call waits */
    bool has_waited;  /* meanwhile its call was in the line */
    bool retry_moves; /* what is tried again begins with a move */
    struct stream_said said;
    char provider[PROVIDER_MAX + 1];       /* whose call it is; "": not known */
    char merchant_id[MERCHANT_ID_MAX + 1]; /* the same */
    char call_sid[CALL_SID_MAX + 1];
    char pod_name[POD_NAME_MAX + 1]; /* the last one; "": none yet */
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char traceparent[TRACEPARENT_LEN + 1]; /* "": none */
};

/* Of a call that waits, for the log; left out where the store did not say it. */
static inline struct log_field log_position(const struct waiting_call *waiting)
{
    return waiting->position > 0 ? log_num("position", (int64_t)waiting->position)
                                 : log_str("position", NULL);
}

static inline uint64_t stream_now(const struct stream *stream)
{
    return uv_now(stream->timer.loop);
}

/* stream.c */
void stream_enter(struct stream *stream, enum stream_phase phase);
/* The first reason counts. */
void stream_note_end(struct stream *stream, enum stream_end end);
/* Closes both sides at once. */
void stream_close(struct stream *stream, enum stream_end end);
/* Tells the client to close, with this code, and closes when it has, or a little later. */
void stream_part(struct stream *stream, enum stream_end end, int code, const char *reason);
/* Its call has ended, and the store hears so: what is left of it may be finished, for a moment. */
void stream_end_call(struct stream *stream, enum stream_end end, const char *reason);
/* One of its times has changed. */
void stream_await(struct stream *stream);
void stream_lost_handle(struct stream *stream);
/* Reads the clients that have rested; the timer's data is the gateway. */
void stream_wake_all(uv_timer_t *timer);

/* carry.c: the sides of a stream, and the bytes between them. 0 or -ENOMEM: the socket is the caller's. */
int carry_attach(struct stream *stream, uv_tcp_t *tcp, struct side **ret_side) MUST_CHECK;
/* What a side has sent, as if it came now. */
void carry_take(struct side *side, char *data, size_t len);
/* Reads a side, if nothing is in the way. */
void carry_read(struct side *side);
/* Sends to a side. False: it is broken, and that was dealt with. */
bool carry_send(struct side *side, const struct side_part *parts, size_t count);
/* Leaves the pod; it gets a last word, if it was not the first to close. */
void carry_leave_pod(struct stream *stream, int code);

/* follow.c: what frames mean. */
struct follow *follow_new(const struct stream_kept *kept);
struct follow *follow_free(struct follow *follow);
/* `data` has come from the client or from the pod. */
void follow_client(struct stream *stream, char *data, size_t len);
void follow_pod(struct stream *stream, char *data, size_t len);
/* The stream has no pod any more; or has another one. */
void follow_lose_pod(struct stream *stream);
void follow_take_pod(struct stream *stream);
/* Counts a close code. */
void follow_count_code(struct stream *stream, bool is_client, int code);

/* play.c: the sound that a client hears while it has no pod. */
void play_begin(struct stream *stream);
/* The next round, if it is due and the client takes it. */
void play_on(struct stream *stream);
/* All that was sent has been played. */
void play_mark_back(struct stream *stream);
/* Throws away what has not been played. */
void play_end(struct stream *stream);

/* rescue.c: a stream that goes on without its pod, and gets another one. */
bool rescue_is_possible(const struct stream *stream);
/* The pod broke. `code`: of its close frame; 0: there was none. */
void rescue_begin(struct stream *stream, int code);
/* The call is on another pod. */
void rescue_follow(struct stream *stream);
/* The call has no pod, and waits for one. */
void rescue_hold(struct stream *stream, const struct waiting_call *waiting);
/* Dials the pod of the call; after it was moved away from the last one, if it `moves`. */
void rescue_dial(struct stream *stream, bool moves);
/* The call is on this pod by now, or waits (NULL): a dial that is under way to another one leads nowhere. */
void rescue_dial_anew(struct stream *stream, const char *pod);
/* Its call has no pod, and another call has the slot that it had. */
void rescue_lose_call(struct stream *stream);
/* The time of retry_at_ms has come, or the store is back. */
void rescue_again(struct stream *stream);
/* The client has gone without a word. */
void rescue_lost_client(struct stream *stream);

#endif
