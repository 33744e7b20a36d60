/*
 * clients.h - counts the connections of each client. Internal to the module.
 *
 * A client is an address; an IPv6 one is its /64, which one machine may have as a whole. Trusted proxies
 * speak for many clients and are not counted. A client is remembered only while it has connections, so that
 * there are never more of them than connections. Does no I/O and does not log.
 */
#ifndef HTTP_CLIENTS_H
#define HTTP_CLIENTS_H

#include "base/map.h"
#include "http/forwarded.h"

struct client; /* opaque: see clients.c */

struct clients {
    struct map map;
    size_t max;                    /* connections of each; 0: any number, and nothing is remembered */
    const struct trusted *trusted; /* borrowed; NULL: nobody */
};

void clients_init(struct clients *clients, size_t max, const struct trusted *trusted);

/* All connections have left. */
void clients_release(struct clients *clients);

/*
 * One more connection from `peer`, an address as text. 0: *ret_client is to be given back with clients_leave;
 * NULL if it is not counted, as also one whose address cannot be read. -EAGAIN: it has as many as it may.
 * -ENOMEM.
 */
int clients_enter(struct clients *clients, const char *peer, struct client **ret_client) MUST_CHECK;

/* Accepts NULL. */
void clients_leave(struct clients *clients, struct client *client);

#endif
