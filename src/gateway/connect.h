/*
 * connect.h - a connection to an address: host:port, [v6]:port or host.
 *
 * A host that is no IP address is looked up, and its addresses are tried in turn; the time limit is for all.
 */
#ifndef GATEWAY_CONNECT_H
#define GATEWAY_CONNECT_H

#include <uv.h>

#include "http/forwarded.h"

struct connecting; /* opaque: see connect.c */

/*
 * `err` 0: `tcp` is connected and the caller's to uv_close and free(). Else `tcp` is NULL: -ETIMEDOUT,
 * -ECONNREFUSED, -EACCES (no pod may be at any of its addresses), or whatever else the network or the lookup
 * said (a code of libuv).
 */
typedef void (*connect_done_fn)(void *arg, int err, uv_tcp_t *tcp);

struct connect_target {
    const char *address;
    const struct trusted *allow; /* if it is guarded: see http/address_rule.h; borrowed until `done` */
    uint64_t timeout_ms;
    uint16_t default_port;
    bool is_guarded; /* connects only where a pod that registered itself may be */
};

/* 0; -EINVAL: that is no address; -ENOMEM. Copies the address. */
int connect_start(uv_loop_t *loop, const struct connect_target *target, connect_done_fn done, void *arg,
                  struct connecting **ret_connecting) MUST_CHECK;

/*
 * Does an error say that this process can connect to nobody at the moment, because descriptors, ports or
 * memory have run out, or lookups of other names are in the way? Then nothing is known about the other side.
 */
bool connect_failed_here(int err);

/* Ends it early: `done` runs with -ECANCELED, later. Not after `done`. */
void connect_cancel(struct connecting *connecting);

#endif
