/*
 * tunnel.h - copies the bytes of two sockets to each other, unchanged.
 *
 * What is read from one side is written to the other at once. Only what the kernel does not take is kept, at
 * most one read's worth for each direction, and that side is not read until it is gone: so a slow reader
 * holds back whoever writes to it, and nobody else. A side that has finished sending is passed on as such;
 * the other direction goes on. Bytes are not looked at.
 */
#ifndef GATEWAY_TUNNEL_H
#define GATEWAY_TUNNEL_H

#include <uv.h>

#include "base/base.h"
#include "metrics/metrics.h"

struct tunnel; /* opaque: see tunnel.c */

enum { TUNNEL_BUFFER = 64 * 1024 };

/* Why it ended. */
enum tunnel_end {
    TUNNEL_CLOSED_BY_CLIENT, /* it was the first to finish */
    TUNNEL_CLOSED_BY_POD,
    TUNNEL_CLIENT_FAILED,
    TUNNEL_POD_FAILED,
    TUNNEL_IDLE,
    TUNNEL_CUT,
    TUNNEL_OVER,     /* cut because its call is over */
    TUNNEL_REPLACED, /* cut because its client was silent, and came back on another connection */
    TUNNEL_ENDS,
};

const char *tunnel_end_name(enum tunnel_end end);

struct tunnel_report {
    enum tunnel_end end;
    uint64_t to_pod_bytes;
    uint64_t to_client_bytes;
    uint64_t duration_ms;
    bool pod_broke; /* its socket failed, first or later: it did not part in peace */
};

/* Runs once, when both sockets are closed; the tunnel is gone. */
typedef void (*tunnel_ended_fn)(void *arg, const struct tunnel_report *report);

struct tunnel_settings {
    uv_loop_t *loop;
    uint64_t idle_timeout_ms;
    char *scratch;                 /* TUNNEL_BUFFER bytes that all tunnels of a loop may share; borrowed */
    struct metrics_series *to_pod; /* bytes, counted as they pass; borrowed */
    struct metrics_series *to_client;
};

/*
 * Takes both sockets, which nobody reads, each in memory of its own. `to_client` and `to_pod` are what was
 * read ahead, sent first; copied as far as they must wait. -ENOMEM: the sockets are still the caller's.
 */
int tunnel_start(const struct tunnel_settings *settings, uv_tcp_t *client, uv_tcp_t *pod,
                 struct slice to_client, struct slice to_pod, tunnel_ended_fn ended, void *arg,
                 struct tunnel **ret_tunnel) MUST_CHECK;

/* Has the client said that it sends nothing more, or gone? */
bool tunnel_client_has_ended(const struct tunnel *tunnel);

/* For how long the client has sent nothing, although it was listened to. UINT64_MAX if it has ended. */
uint64_t tunnel_client_silence_ms(const struct tunnel *tunnel);

/* Is it being closed? */
bool tunnel_is_closing(const struct tunnel *tunnel);

/* Closes both sides at once, for the reason `end`; `ended` runs later. */
void tunnel_cut(struct tunnel *tunnel, enum tunnel_end end);

#endif
