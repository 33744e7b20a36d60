/*
 * campaign.h - places many calls as a telephony provider does, and counts their results.
 *
 * A call: webhook, stream, frames of 20 ms, hangup, status callback. Every frame carries its number, the time
 * it was sent and a pattern, so that what comes back can be checked for being complete, in order and
 * unharmed. A caller who is held hears something else until an agent is there; what was said meanwhile is
 * skipped, not lost.
 */
#ifndef TOOLS_CAMPAIGN_H
#define TOOLS_CAMPAIGN_H

#include "base/list.h"
#include "fetch.h"
#include "histogram.h"
#include "journal.h"
#include "media.h"
#include "options.h"
#include "peer.h"

enum {
    CAMPAIGN_CONCURRENT_MAX = 20000,
    CAMPAIGN_TICK_MS = 1,
    CAMPAIGN_ROUTERS_MAX = 8,
    CAMPAIGN_LEFT_MAX = 1024, /* calls that ended and whose place nobody has taken yet */
    CAMPAIGN_PATTERN_LEN = 64 + MEDIA_PAYLOAD_MAX,
};

/* Why a call was not what it should be. */
enum call_failure {
    CALL_FINE,
    CALL_WEBHOOK_FAILED, /* no answer to the webhook */
    CALL_BAD_ANSWER,     /* one that the provider does not understand */
    CALL_NEEDS_TLS,      /* a wss:// URL, and no --connect-to */
    CALL_NOT_CONNECTED,  /* the stream's address does not answer */
    CALL_REFUSED,        /* the handshake was refused */
    CALL_CUT,            /* the stream ended in the middle of the call */
    CALL_NOT_SENT,       /* the other side does not read */
    CALL_TIMEOUT,        /* something took longer than --timeout */
    CALL_LOST_FRAMES,
    CALL_BAD_CLOSE,  /* no close frame at the end, or not the normal one */
    CALL_BAD_STATUS, /* the status callback was not answered with 200 */
    CALL_FAILURES,
};

const char *call_failure_name(enum call_failure failure);

struct campaign_settings {
    struct url routers[CAMPAIGN_ROUTERS_MAX]; /* with several, streams go to the one that answered */
    size_t router_count;
    struct url public_url; /* what requests are signed for */
    bool has_ws_url;       /* no webhook: all calls go there */
    struct url ws_url;
    bool has_connect_to; /* the stream is sought there, whatever host its URL names */
    struct url connect_to;
    enum media_dialect dialect; /* MEDIA_UNKNOWN: the three in turn */
    bool is_get;
    bool sends_status;
    bool allows_busy;
    bool allows_gaps;         /* frames that are missing between two that came back are skipped, not lost */
    bool is_mute;             /* held callers say nothing */
    bool forks_exotel;        /* Exotel's flow asks behind the stream how the call goes on */
    uint64_t patience_ms;     /* a held caller hangs up then; 0: never */
    uint64_t ask_within_ms;   /* the request after a stream comes after any part of this */
    uint64_t retry_ms;        /* for so long requests that nobody answers are sent again */
    const char *journal_path; /* NULL: none */
    const char *merchant;     /* "" for none */
    char tokens[MEDIA_DIALECTS][OPTION_KEY_MAX + 1]; /* requests are signed with them; "" for none */
    uint64_t calls;                                  /* 0: no limit */
    uint64_t duration_ms;                            /* how long new calls are placed; 0: no limit */
    double rate;                                     /* new calls a second; 0: no limit */
    uint64_t concurrent;
    uint64_t call_ms;
    uint64_t gap_ms; /* from the end of a call until another one takes its place */
    uint64_t timeout_ms;
};

struct tally {
    uint64_t started;
    uint64_t answered; /* the stream is open */
    uint64_t busy;
    uint64_t completed; /* nothing is wrong with it */
    uint64_t failed;
    uint64_t failures[CALL_FAILURES];
    uint64_t refused_status; /* the last one, of a handshake */
    uint64_t frames_sent;
    uint64_t frames_echoed;
    uint64_t frames_lost;
    uint64_t frames_reordered;
    uint64_t frames_corrupt;
    uint64_t status_callbacks;
    uint64_t held;    /* times that callers were held, also in the middle of a call */
    uint64_t granted; /* callers who waited at the beginning, and then heard an agent */
    uint64_t abandoned;
    uint64_t died;
    uint64_t resumes; /* streams after the first one of a call */
    uint64_t gaps;    /* between two echoes */
    uint64_t frames_skipped;
    uint64_t hold_bytes;
    uint64_t hold_ms;            /* that they last */
    uint64_t hold_silent_ms;     /* the longest silence between two rounds of what is played */
    uint64_t echoes_behind_hold; /* an agent had to wait until that was played */
    uint64_t marks;              /* that were sent back */
    uint64_t clears;
    uint64_t late_ms; /* the most that frames were behind their time when sent */
    uint64_t active_max;
    struct histogram latency_us;
    struct histogram setup_us;    /* from the webhook to the open stream */
    struct histogram wait_us;     /* from the open stream to the first echo */
    struct histogram silence_us;  /* of the gaps */
    struct histogram handover_us; /* from the end of a call to the first echo of one that waited */
};

struct campaign {
    struct net *net;
    struct campaign_settings settings;
    struct sockaddr_storage router_addresses[CAMPAIGN_ROUTERS_MAX];
    struct sockaddr_storage connect_address;
    struct tally tally;
    struct list calls;
    uint64_t active;
    uint64_t held;                       /* callers, now */
    uint64_t left_ns[CAMPAIGN_LEFT_MAX]; /* when calls ended while others were held: a ring */
    uint64_t left_first, left_end;
    struct journal journal;
    struct list slots[MEDIA_FRAME_MS]; /* calls that talk, by the millisecond in which they send */
    uv_timer_t tick;
    uint64_t run; /* makes the calls of this run different from those of others */
    uint64_t started_ms;
    uint64_t ticked_ms;
    bool is_stopping;
    struct strbuf scratch;
    char pattern[CAMPAIGN_PATTERN_LEN];
};

/* The loop ends when the last call has. -ENOENT: a host is not known. */
int campaign_start(struct campaign *campaign, struct net *net,
                   const struct campaign_settings *settings) MUST_CHECK;

/* No new calls; those that talk hang up. May be called again. */
void campaign_stop(struct campaign *campaign);
void campaign_release(struct campaign *campaign);

/* A call ends, and a caller who waited hears an agent: how long it took. */
void campaign_left(struct campaign *campaign);
void campaign_handed_over(struct campaign *campaign);

/* Is everything as it should be? */
bool campaign_is_fine(const struct campaign *campaign);

/* call.c */
struct call;
int call_start(struct campaign *campaign, uint64_t number) MUST_CHECK;
/* Sends the frame that is due now. */
void calls_send(struct campaign *campaign, struct list *slot);
/* Ends what takes too long, and frees what is over. */
void calls_sweep(struct campaign *campaign, uint64_t now_ms);
/* Those that talk have said enough. */
void calls_hang_up(struct campaign *campaign);
/* All connections are reset, and nobody is told. */
void calls_die(struct campaign *campaign);

#endif
