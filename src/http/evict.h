/*
 * evict.h - which connection is closed when connections, or memory for large requests, run out.
 * Internal to the module.
 *
 * Nobody may lock out the others by holding connections on which nothing is asked. In this order:
 *
 * 1. the oldest one that has not asked anything for EVICT_PATIENCE_MS since it was accepted;
 * 2. the oldest one that has been refused and is only kept until its client has seen the answer;
 * 3. the one that has been idle longest, whether it has asked something before or not;
 * 4. the oldest one that has been sending one header, or one body, for more than EVICT_PATIENCE_MS. It is
 *    answered with 503;
 * 5. one whose client has taken less than EVICT_TAKEN_MIN bytes of its answer for EVICT_PATIENCE_MS;
 * 6. the oldest one that has been sending one header, or one body, for EVICT_HASTE_MS, or has ever done so: a
 *    request comes in one or two packets. It is answered with 503. So whoever wants to keep all connections
 *    has to send something on each of them more often than every EVICT_HASTE_MS.
 *
 * A connection that has asked before is one of a proxy or a client that means to ask again, and it could be
 * doing so right now. So it goes later, and none is closed for which something has arrived, on a TLS
 * client's own socket as well; one with a part of a TLS record only if there is no other to take in 1 to 3.
 * A handler at work, a stream and a long poll are never cut off, nor is an
 * answer that its client is taking.
 */
#ifndef HTTP_EVICT_H
#define HTTP_EVICT_H

#include "http/connection.h"

enum {
    EVICT_PATIENCE_MS = 1000,
    EVICT_HASTE_MS = 100,
    EVICT_TAKEN_MIN = 4096,
    EVICT_LOOKS_MAX = 64, /* connections of one list that are looked at: others want their turn */
};

/* Closes one, which no longer counts when this returns. False: there is none. Logs it now and then. */
bool evict_one(struct http_server *server);

/*
 * Its request needs `wanted` bytes more than HTTP_LARGE_MAX leaves: large requests that have been sent for
 * more than EVICT_PATIENCE_MS are answered with 503, the oldest first, until there is room or there are no
 * more.
 */
void evict_large(struct http_connection *connection, size_t wanted);

/* More of the request it is at has come: was that slow? */
void evict_note_read(struct http_connection *connection);

/* Its answer begins to wait for the client. */
void evict_note_write(struct http_connection *connection);

#endif
