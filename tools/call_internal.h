/*
 * call_internal.h - one call of a provider, as its three files share it: its life (call.c), what is said and
 * heard (call_audio.c), and what is asked of the router (call_requests.c).
 */
#ifndef TOOLS_CALL_INTERNAL_H
#define TOOLS_CALL_INTERNAL_H

#include <openssl/evp.h>

#include "answer.h"
#include "campaign.h"

enum call_state {
    CALL_ASKING,     /* the webhook is on its way, or the request after a stream */
    CALL_PAUSING,    /* the answer was a pause, or nobody answered: it is asked again */
    CALL_CONNECTING, /* the stream's handshake is on its way */
    CALL_TALKING,    /* also while the caller is held */
    CALL_LISTENING,  /* all is said, not all is heard */
    CALL_CLOSING,
    CALL_REPORTING, /* the status callback is on its way */
    CALL_OVER,
};

enum {
    CALL_MARKS_MAX = 64,    /* that were asked for and not reached; a further one is answered at once */
    CALL_ASKED_MAX = 20,    /* requests after a stream; then the caller gives up */
    CALL_QUIET_MS = 1000,   /* with --allow-gaps: what is not heard until then will not be heard */
    CALL_HOLD_BYTES = 4096, /* a message with so much base64 is no echo, but what a waiting caller hears */
    CALL_RETRY_MS = 100,
};

/* What was sent to the caller, and how far it was played. */
struct playback {
    uint64_t until_ms; /* everything is played by then */
    struct list marks; /* in the order in which they are reached */
    size_t mark_count;
};

/* What a caller hears while nobody is there. */
struct hold {
    bool is_held;
    bool has_waited;   /* at the beginning of the call */
    uint64_t since_ms; /* it began */
    uint64_t messages;
    uint64_t bytes;
    uint64_t unplayed_bytes; /* of them, when they were cleared */
    uint64_t silent_ms;      /* the longest time without anything to play, after the first message */
    EVP_MD_CTX *hash;        /* of the bytes; NULL if nobody wants to know */
};

struct call {
    struct peer peer;
    struct campaign *campaign;
    struct list link; /* all calls */
    struct list slot; /* those that talk */
    enum call_state state;
    enum call_failure failure;
    bool has_peer;
    bool has_echo;     /* an agent was heard */
    bool is_unserved;  /* it waited, and nobody came: its end is not a failure */
    bool is_abandoned; /* the caller had no patience */
    bool has_died;
    bool is_deaf;      /* what comes back now does not count any more */
    bool is_at_fork;   /* Exotel's flow: the request after a stream, and not the one for its URL */
    bool is_redialled; /* once the socket of the stream before is closed */
    struct fetch *fetch;
    struct media_start start;
    struct answer answer; /* the latest one */
    uint64_t number;
    uint64_t deadline_ms; /* of the state; CALL_OVER: when its place is free again */
    uint64_t started_ns;
    uint64_t retry_until_ms;
    size_t router; /* that is asked */
    size_t tries;  /* routers that did not answer */
    uint64_t streams;
    uint64_t asked;  /* after a stream */
    int close_code;  /* of the last stream */
    uint64_t frames; /* to be heard or lost */
    uint64_t sent;
    uint64_t echoed;
    uint64_t skipped;  /* sent while nobody could hear them */
    uint64_t expected; /* number of the next echo */
    uint64_t echo_ns;  /* of the last one */
    struct playback playback;
    struct hold hold;
};

/* call.c */
uint64_t call_now_ms(const struct call *call);
void call_set_state(struct call *call, enum call_state state);
/* Nothing more will happen; the books are closed. The first failure is the one that counts. */
void call_settle(struct call *call, enum call_failure failure, bool is_busy);
void call_dial(struct call *call);
void call_hang_up(struct call *call);

/* call_audio.c */
void call_send_frame(struct call *call);
void call_message(struct peer *peer, enum ws_opcode opcode, char *data, size_t len);
/* Talks on, or listens, as far as the call has come. */
void call_pace(struct call *call);
/* Nobody is there to hear the caller: from the beginning, or again. */
void call_hold(struct call *call);
/* What was said while nobody heard it is not lost. */
void call_skip(struct call *call);
/* Sends back the marks that were reached. */
void call_play(struct call *call);
/* The stream is over, and with it everything that was not played. */
void call_stop_playing(struct call *call);
void call_audio_release(struct call *call);
struct strbuf *scratch_begin(struct call *call);
int scratch_send(struct call *call) MUST_CHECK;

/* The error of a send: a stream that is broken is about to end, and is no failure by itself. */
static inline bool call_is_stuck(int err)
{
    return err == -ENOBUFS || err == -ENOMEM;
}

/* call_requests.c */
/* The webhook, or the request after a stream. 0, or the call cannot be placed. */
int call_ask(struct call *call) MUST_CHECK;
/* The next router; or a pause, and then all of them again; or it is over. */
void call_ask_next(struct call *call);
/* The status callback. */
void call_report(struct call *call);
/* Names as the providers give them; each stream has one of its own. */
void call_name(struct call *call);

#endif
