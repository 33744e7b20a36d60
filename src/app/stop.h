/*
 * stop.h - stops the router: from the signal until no client is connected any more.
 *
 * First the router goes on as before, only not ready, so that load balancers notice and send nobody here any
 * more. Then it accepts nobody, and requests in flight are finished. Streams go on until they end: calls are
 * not cut because routers are replaced. Each of the three has its limit. Streams that are left are closed
 * with 1012, and their calls may come back elsewhere.
 *
 * With a store of one's own there is no elsewhere but the next process: streams are not waited for, unless
 * GATEWAY_DRAIN_TIMEOUT says so. Those whose providers ask how the call goes on are closed at once; they are
 * told to ask again when this process has gone. All others go on until nobody is accepted any more.
 */
#ifndef APP_STOP_H
#define APP_STOP_H

#include <uv.h>

#include "api/api.h"
#include "app/notify.h"
#include "gateway/gateway.h"
#include "http/http.h"
#include "tls/tls.h"

enum stop_phase {
    STOP_NOT_YET,
    STOP_DELAY,     /* everybody is still answered */
    STOP_DRAINING,  /* nobody is accepted */
    STOP_DEPARTING, /* what is left is being closed */
    STOP_DONE,
};

/* All borrowed. */
struct stop_parts {
    struct api *api;
    struct gateway *gateway;
    struct http_server *server;
    struct tls_server *tls; /* NULL: none */
    struct notify *notify;

    uint64_t delay_ms;          /* SHUTDOWN_DELAY */
    uint64_t timeout_ms;        /* HTTP_SHUTDOWN_TIMEOUT */
    bool has_stream_timeout;    /* is GATEWAY_DRAIN_TIMEOUT set? */
    uint64_t stream_timeout_ms; /* that one */
    uint64_t call_max_ms;       /* what streams get instead, while another router is alive */
    uint64_t release_grace_ms;  /* GATEWAY_RELEASE_GRACE */
    void (*stopped)(void *arg); /* runs once: all is done, or its time is over */
    void *stopped_arg;
};

struct stop {
    uv_timer_t timer;
    struct stop_parts parts;
    enum stop_phase phase;
    bool is_hasty;                /* no delay, and streams get no longer than requests */
    bool has_seen_others;         /* another router was alive since the signal */
    bool is_cut;                  /* requests took too long */
    bool departs_at_once;         /* calls resume at the next process */
    uint64_t delay_until_ms;      /* all uv_now */
    uint64_t handshakes_until_ms; /* 0: the TLS port is open */
    uint64_t drain_since_ms;
    uint64_t requests_until_ms;
    uint64_t empty_since_ms; /* when the last connection had closed; 0: not yet */
    uint64_t log_at_ms;
    uint64_t depart_until_ms;
};

void stop_init(struct stop *stop, uv_loop_t *loop);

/* The first signal: not ready from now on. `is_hasty`: as after a second one. */
void stop_begin(struct stop *stop, const struct stop_parts *parts, bool is_hasty);

/* The second signal: no delay, and all that is left is cut after HTTP_SHUTDOWN_TIMEOUT from now. */
void stop_hurry(struct stop *stop);

/* Closes the timer. */
void stop_close(struct stop *stop);

#endif
