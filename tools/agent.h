/*
 * agent.h - voice agents that repeat what they hear: many in one process, each with a port of its own.
 *
 * An agent takes media streams of all three providers. Once a `start` has said whose stream it is, audio goes
 * back in that provider's words; everything else that is not the provider's housekeeping, and everything
 * before a `start`, goes back as it came.
 */
#ifndef TOOLS_AGENT_H
#define TOOLS_AGENT_H

#include "base/list.h"
#include "journal.h"
#include "media.h"
#include "peer.h"
#include "url.h"

enum agent_mode {
    AGENT_NORMAL,
    AGENT_SLOW,   /* handshakes and echoes come later */
    AGENT_HANG,   /* takes connections, and then neither reads nor says anything; no heartbeats */
    AGENT_REFUSE, /* nobody listens; the calls it has go on */
    AGENT_REJECT, /* handshakes are answered with 503 */
    AGENT_CRASH,  /* all connections reset, nobody listens, no heartbeats */
    AGENT_MODES,
};

/* How one stream fails. The agent goes on, but for the last one. */
enum agent_failure {
    FAIL_RESET, /* the connection is reset */
    FAIL_DROP,  /* it is closed without a close frame */
    FAIL_CUT,   /* the same in the middle of a frame */
    FAIL_CLOSE, /* a close frame with a code */
    FAIL_EXIT,  /* the process ends in the middle of a frame, and with it all agents */
    FAILURES,
};

enum {
    AGENTS_MAX = 10000,
    AGENT_KEPT_MAX = 1000, /* calls of which an agent still has the session; beyond it, the oldest goes */
    AGENT_KEPT_MS = 60000,
    AGENT_NAME_MAX = 63,
    AGENT_DELAYED_MAX = 4 << 20, /* bytes that a slow agent holds; beyond it, it does not read */
    AGENT_TIMEOUT_MS = 5000,     /* of a request to the router */
};

struct fleet_settings {
    const char *host;
    const char *advertised_host; /* NULL: as host */
    uint16_t base_port;          /* 0: free ones */
    int count;
    const char *name_prefix;
    bool has_router;
    struct url router;
    const char *api_key; /* for the router; NULL: none */
    bool registers;
    const char *tier;      /* to register for; "" leaves it to the router */
    uint64_t heartbeat_ms; /* 0: none */
    bool releases;
    bool releases_plainly; /* without the pod's name */
    uint64_t fail_after;   /* echoes of a stream until it fails; 0: never */
    enum agent_failure fail_how;
    int close_code;           /* of FAIL_CLOSE */
    const char *journal_path; /* NULL: none */
    enum agent_mode mode;
    uint64_t slow_ms;
    uint64_t mode_after_ms; /* normal until then */
    int control_port;       /* -1: none, 0: a free one */
};

struct fleet_counters {
    uint64_t connections;
    uint64_t calls; /* streams that said `start` */
    uint64_t messages;
    uint64_t echoed;
    uint64_t dropped; /* echoes that could not be sent */
    uint64_t heartbeats;
    uint64_t heartbeats_failed;
    uint64_t released;
    uint64_t release_failed;
    uint64_t resumed;      /* streams with X-Call-Resumed whose session was still there */
    uint64_t resumed_anew; /* and those without one */
    uint64_t stray_marks;  /* answers to the router's own marks and clears, which it should have swallowed */
};

struct fleet;

struct agent {
    struct fleet *fleet;
    char name[AGENT_NAME_MAX + 1];
    uint16_t port;
    enum agent_mode mode;
    uint64_t slow_ms;
    uv_tcp_t listener;
    bool is_listening;
    struct list sessions;
    size_t session_count;
    struct list delayed; /* what a slow agent has not said yet, oldest first */
    size_t delayed_bytes;
    uv_timer_t delay_timer;
    uv_timer_t back_timer;
    struct list kept; /* calls whose stream broke, oldest first */
    size_t kept_count;
    uv_timer_t heartbeat_timer;
    bool is_registered;
    bool is_asking; /* a request of the heartbeat is under way */
};

struct fleet {
    struct net *net;
    struct fleet_settings settings;
    struct sockaddr_storage router_address;
    struct fleet_counters counters;
    struct agent *agents;
    uv_tcp_t control;
    uint16_t control_port;
    uv_timer_t mode_timer;
    bool is_stopping;
    struct journal journal;
    size_t requests;       /* to the router, under way */
    struct strbuf scratch; /* what is said next */
};

/* Listens everywhere and begins to heartbeat. A failure is said on stderr. */
int fleet_start(struct fleet *fleet, struct net *net, const struct fleet_settings *settings) MUST_CHECK;

/* Closes everything, leaves the router; the loop ends by itself when that is done. */
void fleet_stop(struct fleet *fleet);
void fleet_release(struct fleet *fleet);

const char *agent_mode_name(enum agent_mode mode);
/* False: there is no such mode. */
bool agent_mode_parse(struct slice text, enum agent_mode *ret_mode);

/* 0, or why the agent cannot listen again. */
int agent_set_mode(struct agent *agent, enum agent_mode mode, uint64_t slow_ms);

/* The agent crashes, and is there again after that time, with nothing that it knew. */
void agent_restart(struct agent *agent, uint64_t after_ms);

/* All streams of the agent fail now; with a close code: FAIL_CLOSE alone. */
void agent_fail(struct agent *agent, enum agent_failure how, int code);
bool agent_failure_parse(struct slice text, enum agent_failure *ret_failure);

/* kept.c: calls that an agent keeps a session of, after their stream broke. */
void kept_add(struct agent *agent, const char *call_sid);
/* True: the session was still there; it is not kept any more. */
bool kept_take(struct agent *agent, const char *call_sid);
void kept_forget(struct agent *agent);

/* reporter.c: what agents tell the router. */
void reporter_start(struct agent *agent);
void reporter_stop(struct agent *agent);
void reporter_release(struct agent *agent, const char *call_sid);

/* One live stream of an agent; the reporter lists their calls. */
struct session {
    struct peer peer;
    struct agent *agent;
    struct list link;
    struct media_start start;
    uint64_t resumed; /* X-Call-Resumed; 0: it is a new stream */
    bool has_state;   /* and the session was still there */
    uint64_t echoed;
    bool has_media;
    bool is_throttled; /* does not read, because there is too much to say */
};

/* control.c: what agents are told. */
int control_start(struct fleet *fleet) MUST_CHECK;
void control_stop(struct fleet *fleet);

/* Binds and listens; *ret_port is the port that was taken. The handle is initialised, and must be closed, in
 * any case. */
int fleet_listen(struct fleet *fleet, uv_tcp_t *listener, uint16_t port, uv_connection_cb fn,
                 uint16_t *ret_port) MUST_CHECK;

#endif
