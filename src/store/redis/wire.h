/*
 * wire.h - one connection, to a Redis or to a sentinel: commands go out in order, replies come in
 * that order.
 *
 * A request belongs to the wire that it was sent on; its reply, or its failure, comes from there
 * and from nowhere else. A wire is never used again: a new connection is a new wire. It has no
 * timeouts: its owner drops it when he has waited long enough. Functions in this file do not log.
 */
#ifndef STORE_REDIS_WIRE_H
#define STORE_REDIS_WIRE_H

#include "base/list.h"
#include "store/redis/link.h"

struct wire; /* opaque: see wire.c */

enum { WIRE_REASON_MAX = 640 };

/* Part of the owner's struct for each command; in the wire's list until `done`. */
struct wire_request {
    struct list link;
    /*
     * `err` 0: the reply, also one of type REDIS_REPLY_ERROR. -ENOTCONN: the wire is lost or
     * dropped.
     */
    void (*done)(struct wire_request *request, int err, const redisReply *reply);
};

struct wire_hooks {
    void (*opened)(void *arg); /* inside wire_flush */
    /* The wire is gone; its requests have failed already. The owner forgets it. */
    void (*lost)(void *arg, const char *reason);
    void (*dirty)(
        void *arg); /* call wire_flush before the loop waits; may come inside wire_open and wire_send */
    void (*freed)(void *arg); /* nothing of the wire is left on the loop */
    void *arg;
    /*
     * After wire_subscribe: a message, or data NULL: subscribed. Borrowed for the call. May be NULL
     * before.
     */
    void (*heard)(void *arg, struct slice message);
};

/*
 * Starts to connect. `first_address` says which address of a name with several ones comes first.
 * `tls` NULL: clear text; else it stays as long as the wire. What fails at once is reported by
 * wire_flush. 0 or -ENOMEM.
 */
int wire_open(uv_loop_t *loop, const struct redis_address *address, unsigned first_address,
              struct tls_client_context *tls, const struct wire_hooks *hooks,
              struct wire **ret_wire) MUST_CHECK;

/* The server has accepted the connection, and the handshake of TLS is not done. */
bool wire_is_shaking_hands(const struct wire *wire);

/* The name is being looked up, which takes as long as the system's resolver wants. */
bool wire_is_resolving(const struct wire *wire);

/*
 * Copies the command, which is in Redis's protocol and has a NUL behind it: hiredis looks there. 0;
 * -ENOTCONN unless it is open; -ENOMEM.
 */
int wire_send(struct wire *wire, const char *command, size_t len, struct wire_request *request) MUST_CHECK;

/*
 * From now on the wire hears what is published on the channel, and nothing more may be sent but
 * this again. 0; -ENOTCONN; -ENOMEM.
 */
int wire_subscribe(struct wire *wire, const char *channel) MUST_CHECK;

/* Nothing that was sent is without an answer. */
bool wire_is_idle(const struct wire *wire);

/*
 * Sends the commands that wait, and runs the hooks `opened` and `lost` for events since the last
 * call.
 */
void wire_flush(struct wire *wire);

/* All requests fail with -ENOTCONN now; of the hooks only `freed` comes. */
void wire_drop(struct wire *wire);

#endif
