/*
 * reserve.h - the connections beyond the limit, which are admitted for vital routes only. Internal
 * to the module.
 *
 * When all of a server's connections are taken and nobody can make room (see evict.h), or
 * descriptors run out, a few more are let in, each for one request and a short time. So are those
 * of a client that has as many as it may: whoever asks for a vital path is answered, everybody else
 * gets 503. When even those are too many the oldest goes. So a flood of clients that say nothing
 * cannot make a process look dead that merely has much to do.
 */
#ifndef HTTP_RESERVE_H
#define HTTP_RESERVE_H

#include "http/connection.h"

/* Says how many descriptors the process may have. */
void reserve_init(struct http_server *server);

/*
 * Is this new one over a limit: that of its client, or of the server when nobody can make room for it? Logs
 * it now and then.
 */
bool reserve_is_needed(struct http_connection *connection);

/* A connection over the limit comes in; the oldest one may have to go for it. */
void reserve_add(struct http_connection *connection);

/* Its socket is gone. Does nothing to one that is not in the reserve. */
void reserve_remove(struct http_connection *connection);

/*
 * Asked when more of a request was read. False: it is over the limit and asked for something that is not
 * vital; it has been answered with 503.
 */
bool reserve_admits(struct http_connection *connection);

/* Its time is over: 503. */
void reserve_expire(struct http_connection *connection);

/* There is no descriptor left: closes what can be missed best. */
void reserve_free_descriptor(struct http_server *server);

#endif
