/*
 * gateway.h - carries WebSocket connections of calls to their pods.
 *
 * GET /ws/pod/{pod}/{rest} with an Upgrade is opened at the pod that has the call, as /{rest}; once the pod
 * has agreed, bytes go both ways without anybody looking at them. With secrets the path is
 * /ws/pod/{pod}/{ticket}/{rest}: the ticket names the call, is good for this pod and this rest only, and the
 * pod does not get to see it. Without, it is the call that a segment of the path names, else the pod's newest
 * live one that has not connected yet.
 *
 * While a call has a connection its lease is renewed; some time after the last one has closed it is released.
 * A pod that cannot be reached is put aside and its call moves to another one, before the client has seen
 * anything.
 *
 * What is refused gets a JSON error: 426 no upgrade, 400 not a WebSocket or with a body, 403 bad or expired
 * ticket, 404 unknown pod, 409 the pod has no live call (or the ticket's call has ended), 429 the call has
 * its connections already, 502 the pod does not agree (what it says instead stays here), 504 it does not
 * answer in time, 503 the pod is draining and has no such call, no pod is free, the store is out of reach,
 * there are too many connections, or the router is stopping.
 *
 * Meets the rest of the router only in the store. Loop thread only.
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include "http/forwarded.h"
#include "http/http.h"
#include "metrics/metrics.h"
#include "store/store.h"

struct gateway;    /* opaque: see gateway_internal.h */
struct hold_audio; /* see media/hold_audio.h */

enum {
    GATEWAY_SECRETS_MAX = 2,
    GATEWAY_SECRET_MAX = 4096, /* both together */
    GATEWAY_TICKET_SIZE = 208, /* with its NUL */
};

/* Strings and lists are borrowed and must stay. */
struct gateway_settings {
    const char *secret;          /* "" if none; two are separated by a comma: the first signs, both verify */
    uint16_t agent_port;         /* for addresses that name none */
    uint64_t lease_ttl_ms;       /* leases are renewed every third of it */
    uint64_t ticket_ttl_ms;      /* how long a ticket is good */
    uint64_t release_grace_ms;   /* from the last close of a call to its release */
    uint64_t idle_timeout_ms;    /* without a byte in either direction */
    uint64_t connect_timeout_ms; /* to reach a pod; it may take five times as long to answer */
    size_t max_connections;      /* open or being opened */
    size_t streams_per_call;     /* of them, at this router */
    const char *identity;        /* a carrier, see core/command.h */
    bool shares_store;           /* with other routers */
    bool rescues;                /* streams with a ticket survive their pods, and callers can be held */
    const struct trusted *trusted; /* whose X-Forwarded headers pods get to see; NULL: nobody's */
    const struct trusted
        *pod_allow;                /* where pods that registered themselves may be, see http/address_rule.h */
    struct hold_audio *hold_audio; /* what held callers hear, see media/hold_audio.h; makes clips as needed */
};

/* Is GATEWAY_SECRET one that can be used? False, with a sentence in `error`. "" is fine: no tickets. */
bool gateway_check_secret(const char *secret, char *error, size_t error_size);

int gateway_new(uv_loop_t *loop, const struct gateway_settings *settings, struct store *store,
                struct metrics *metrics, struct gateway **ret_gateway) MUST_CHECK;

/*
 * Replaces the secrets, for new tickets and for those that are shown from now on; copies them. -EINVAL: see
 * gateway_check_secret; or there were none at the start and now are, or the other way round: URLs have
 * tickets or not, and that does not change. Then the old ones stay.
 */
int gateway_set_secret(struct gateway *gateway, const char *secret) MUST_CHECK;

/* Adds every family of metrics of the gateway, for their list. 0 or -ENOMEM. */
int gateway_list_metrics(struct metrics *metrics) MUST_CHECK;

/* Adds the routes to `server`. */
int gateway_serve(struct gateway *gateway, struct http_server *server) MUST_CHECK;

/*
 * A ticket for the call on the pod, for the path that stands behind it in the URL, good from now on; "" if
 * there are no secrets. The pod is "": for a held stream of a call that waits. `arg` is the gateway.
 */
void gateway_make_ticket(void *arg, const char *call_sid, const char *pod, struct slice path,
                         char ticket[GATEWAY_TICKET_SIZE]);

/*
 * The store has ended this call, and nobody had asked for that: if it has open connections here, the gateway
 * asks at once whether it can keep them. Does not use the store inside the call. `arg` is the gateway.
 */
void gateway_call_lost(void *arg, const char *call_sid);

/* Something has happened to a call that this router holds or carries: see store_on_changed. */
void gateway_call_changed(struct gateway *gateway, const char *call_sid);

/* Connections that are open now, with and without a pod. */
size_t gateway_connections(const struct gateway *gateway);

/* Are there others on the same store, or may there be? */
bool gateway_shares_store(const struct gateway *gateway);

/*
 * Calls that are open, being opened or being released, or that closed a moment ago and may come back to
 * another router. 0 if no other one shares the store: then nobody is there to come back to.
 */
size_t gateway_returning_calls(const struct gateway *gateway);

/*
 * Other routers on the same store that were alive when it was asked last; asks anew; and whether the answer
 * is still to come.
 */
uint64_t gateway_others(const struct gateway *gateway);
void gateway_look_for_others(struct gateway *gateway);
bool gateway_is_looking_for_others(const struct gateway *gateway);

/* From now on nothing is opened any more. What is open stays. */
void gateway_drain(struct gateway *gateway);

/*
 * The router goes, and calls come back elsewhere or later: the store hears which ones, and then their streams
 * are closed with 1012 at both ends, also those that are opened from now on. `comes_back`: for the calls of
 * which providers; NULL: for all. May be called again for more of them. And whether the store is being told.
 */
void gateway_depart(struct gateway *gateway, bool (*comes_back)(const char *provider));
bool gateway_is_departing(const struct gateway *gateway);

/*
 * Refuses what is being opened, cuts what is open, and releases the calls that closed a moment ago; then
 * calls `stopped`, later. Calls that were cut keep their pods: they may come back to another router. The
 * last word to the store is that this router carries nothing any more. Before the store is closed. Requests
 * that still come are refused.
 */
void gateway_stop(struct gateway *gateway, void (*stopped)(void *arg), void *arg);

/* After gateway_stop has finished and the server is closed. Accepts NULL; always returns NULL. */
struct gateway *gateway_free(struct gateway *gateway);

#endif
