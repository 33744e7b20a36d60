/*
 * http.h - an HTTP/1.1 server on the loop: accept, parse, limits, timeouts, route, respond, stream,
 * upgrade.
 *
 * Knows nothing of calls and pods. Everything runs on the loop thread. A handler may answer at once
 * or later; until it has answered, its request and the request's arena stay valid, even if the
 * client has gone.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <uv.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "http/route.h"

struct http_server;  /* opaque: see server.c */
struct http_request; /* opaque: see request.h */
struct trusted;      /* opaque: see forwarded.h */

enum {
    HTTP_HEADER_MAX = 8 * 1024,        /* request line and headers together; more: 431 */
    HTTP_BODY_MAX = 64 * 1024,         /* more: 413 */
    HTTP_HEADERS_MAX = 100,            /* header lines; more: 431 */
    HTTP_CONNECTION_ELEMENTS_MAX = 16, /* in all Connection headers together; more: 400 */
    HTTP_REQUEST_ID_MAX = 128,
    HTTP_PARAMS_MAX = 4,
    HTTP_ARENA_MAX = 8 * 1024 * 1024,  /* what one request may take in memory */
    HTTP_RESERVE_MAX = 256,            /* connections beyond the limit, for vital routes */
    HTTP_LARGE_MAX = 32 * 1024 * 1024, /* requests of more than 4 KiB, all together; beyond it: 503 */
    HTTP_UNSENT_MAX =
        64 * 1024 * 1024, /* answers that wait for their clients; beyond it the oldest is cut off */
};

struct http_settings {
    uint64_t read_timeout_ms;  /* for the whole header, and again for the whole body: then 408 */
    uint64_t write_timeout_ms; /* a client that does not read its answer is cut off */
    uint64_t idle_timeout_ms;  /* between requests */
    /*
     * At this many the connection that has been idle longest is closed for a new one. If none is idle, nor
     * slow in sending its request, new ones get 503, but for vital paths.
     */
    size_t max_connections;
    size_t max_connections_per_client; /* of one address or IPv6 /64: beyond it 503 likewise; 0: any number */
    const struct trusted *trusted; /* proxies, which are not counted as one client; borrowed; NULL: none */
};

int http_server_new(uv_loop_t *loop, const struct http_settings *settings,
                    struct http_server **ret_server) MUST_CHECK;

/*
 * Adds a route; borrows the row. `arg` is given to its handler. A path that is routed for other
 * methods answers 405 with Allow. HEAD is answered by the handler of GET, without the body.
 *
 * A vital row is answered even when all connections are taken and none is idle, when descriptors
 * have run out, or when the client has as many connections as it may. Then HTTP_RESERVE_MAX more
 * connections are let in, each for one request, which must come within two seconds. A request for
 * another route gets 503. When there are too many of these connections, the oldest is closed, with
 * a 503 if nothing was answered yet.
 *
 * 0; -EINVAL: a method or a pattern that cannot be routed, or another authentication than the rows
 * of the same path; -EEXIST; -ENOSPC; -ENOMEM.
 */
int http_server_route(struct http_server *server, const struct http_route *route, void *arg) MUST_CHECK;

/* What a server asks and tells about each request. Each function may be NULL. */
struct http_hooks {
    /*
     * May this client ask? Runs once for each request whose header was read, before its body is
     * waited for. `route` is the row of the path and the method; if the path has no such method,
     * the first row of the path; NULL if no row has the path. 0: the request goes on. Else the
     * status that refuses it, with *ret_error as the sentence of the JSON error; headers may have
     * been added with http_response_header. The request has no route, no body and no id yet, and a
     * refused one never has a route: its client learns nothing of which paths exist.
     */
    int (*guard)(struct http_request *request, const struct http_route *route, void *arg,
                 const char **ret_error);
    /*
     * Runs before the handler of each route. False: the handler must not run; the request was
     * answered.
     */
    bool (*admit)(struct http_request *request, const struct http_route *route, void *arg);
    /*
     * Runs after the answer to each request was handed to the kernel (or the client was gone). That
     * includes requests that the server itself refused. Those have no method if it could not be
     * read. `route` is that of http_request_route.
     */
    void (*done)(struct http_request *request, const struct http_route *route, void *arg);
    void *arg;
};

/* Copies `hooks`. */
void http_server_hooks(struct http_server *server, const struct http_hooks *hooks);

/*
 * Binds and listens at `address`, an IP address as text; "": at all of them, of both families where there are
 * both. Port 0 picks a free one. 0 or a negative errno; -EADDRNOTAVAIL: this machine does not have the
 * address.
 */
int http_server_listen(struct http_server *server, const char *address, uint16_t port) MUST_CHECK;
/* The same on `fd`, a socket that somebody else has bound. It is the server's from now on. */
int http_server_listen_on(struct http_server *server, int fd) MUST_CHECK;
uint16_t http_server_port(const struct http_server *server);

/*
 * Takes `fd`, a connected stream socket that somebody else accepted, as a connection like those the server
 * accepts itself, with the same limits. `peer` is the client's address as text; copied. `peer` NULL: it is
 * that of the socket. `tls_fd`: -1, or what comes out of `fd` in clear text came encrypted on this socket of
 * the client, which is only looked at, never read, and is not closed before the other end of `fd` is. On
 * failure `fd` is still the caller's; -ESHUTDOWN: the server takes no more connections.
 */
int http_server_adopt(struct http_server *server, int fd, const char *peer, int tls_fd) MUST_CHECK;

/*
 * From now on every answer says "Connection: close". A client that asks again and again goes elsewhere by
 * itself, before http_server_drain closes a connection on which it may just be sending its next request.
 */
void http_server_leave(struct http_server *server);

/*
 * Stops accepting and closes idle connections; answers to requests in flight say "Connection: close". What
 * has arrived is read first, and a connection that has not asked anything yet gets a second to do so: only a
 * request that is still on its way on a connection that was idle can be lost.
 */
void http_server_drain(struct http_server *server);

/* After http_server_drain: closes what is left. */
void http_server_cut(struct http_server *server);

/*
 * Connections within the limit that are open now; how many were closed since the start to make room for
 * others, and how many beyond the limit got a 503.
 */
size_t http_server_connections(const struct http_server *server);
uint64_t http_server_evicted(const struct http_server *server);
uint64_t http_server_refused(const struct http_server *server);

/*
 * Closes everything that is left, frees the server, then calls `closed`. Waits for handlers that have not
 * answered yet, because they still hold their requests.
 */
void http_server_close(struct http_server *server, void (*closed)(void *arg), void *arg);

/*
 * The request. Slices stay valid until the request has been answered; on_done may still use them.
 */
struct slice http_request_method(const struct http_request *request);
struct slice http_request_path(const struct http_request *request);  /* as sent, without the query */
struct slice http_request_query(const struct http_request *request); /* without the '?' */
/* Path and query as sent, with the '?' if there was one; of an absolute target what follows the authority. */
struct slice http_request_target(const struct http_request *request);
struct slice http_request_body(const struct http_request *request);
/* The first header of that name (lower case), or a slice with data NULL. */
struct slice http_request_header(const struct http_request *request, const char *name);
/* All headers, in the order in which they came; `index` is less than the count. */
size_t http_request_header_count(const struct http_request *request);
void http_request_header_at(const struct http_request *request, size_t index, struct slice *ret_name,
                            struct slice *ret_value);
/* A parameter of the pattern, percent-decoded and NUL-terminated; NULL if the pattern has no such one. */
const char *http_request_param(const struct http_request *request, const char *name);
/*
 * The row of the path and the method; if the path has no such method, the first row of the path.
 * NULL: no row has the path, or the request was refused before it was dispatched.
 */
const struct http_route *http_request_route(const struct http_request *request);
/* Has the request got as far as the admit hook and the handler? */
bool http_request_was_handled(const struct http_request *request);
/* Echoed from X-Request-Id if that is 1 to 128 printable characters, else made. */
const char *http_request_id(const struct http_request *request);
struct arena *http_request_arena(struct http_request *request);
/* What a guard keeps with the request for its handler, in the arena; NULL until it is set. */
void http_request_set_user(struct http_request *request, void *user);
void *http_request_user(const struct http_request *request);
/* The peer's address as text. */
const char *http_request_peer(const struct http_request *request);
/* Did it come encrypted, to a listener of our own? Says nothing of what a proxy before us did. */
bool http_request_is_tls(const struct http_request *request);
uint64_t
http_request_started_ns(const struct http_request *request); /* clock_elapsed_ns when its first byte came */
/* Did its client wait on purpose: a long poll, or a stream? */
bool http_request_was_held(const struct http_request *request);
/*
 * Has the client closed its side, or gone, before it was answered? An end that has not been read yet counts,
 * too: the socket is looked at, unless that was done less than HTTP_LOOK_AGAIN_NS ago. One that only says
 * that it sends nothing more cannot be told from one that has gone, and counts as that, as with most servers.
 */
enum { HTTP_LOOK_AGAIN_NS = 2 * 1000 * 1000 };
bool http_request_is_abandoned(struct http_request *request);
/*
 * http_respond is to look whether the client has gone, right before it sends. If so, or if the first write
 * fails, nothing is sent, and `unsent` runs once, just before on_done. What the kernel took may be lost as
 * well, and so may an answer that waits because the client does not read, but nobody can tell: an end or a
 * reset that comes later is no sign of that, because clients that have read their answer close their
 * connections, too, and some with a reset. `unsent` NULL: nothing is to run any more.
 */
void http_request_on_unsent(struct http_request *request, void (*unsent)(void *arg), void *arg);
/* For on_done: the status that was answered, 0 if the client was gone before. */
int http_request_status(const struct http_request *request);

/* Adds a header to the answer; copies both. Call before http_respond. */
void http_response_header(struct http_request *request, const char *name, const char *value);

/*
 * Answers. `body` is borrowed until on_done has run: take it from the request's arena, or make it static.
 * Exactly one of http_respond, http_stream_begin and http_upgrade is called for each request. It is the last
 * thing done with a request: outside the handler's own call, on_done runs before http_respond returns.
 */
void http_respond(struct http_request *request, int status, const char *content_type, struct slice body);

/* {"success":false,"error":message,"code":code} with the code that belongs to the status. */
void http_respond_error(struct http_request *request, int status, const char *message);

/*
 * For a handler that lets its client wait on purpose, for a stream or a long poll: such requests may take a
 * quarter of max_connections, and one at least, because nobody else can use their connections. Called once,
 * before http_stream_begin, which insists on it, or before the wait. False: there are that many; this one has
 * been answered with 503 and is gone.
 */
bool http_request_hold(struct http_request *request) MUST_CHECK;
/* The same, but if there are that many, the caller answers: it has an answer for a client that cannot wait.
 */
bool http_request_try_hold(struct http_request *request) MUST_CHECK;

/*
 * A streamed answer (chunked), after http_request_hold. `on_close` runs once when the client has gone or
 * http_stream_end was sent; after it the request must not be used. http_stream_write copies; -EAGAIN: the
 * client reads too slowly and HTTP_STREAM_BUFFER_MAX bytes wait already, nothing was taken. -EPIPE: the
 * client has gone, on_close is on its way. http_stream_end sends `last`, at most HTTP_STREAM_LAST_MAX bytes,
 * however much waits already: a client that is cut off for reading too slowly can still be told.
 */
enum {
    HTTP_STREAM_BUFFER_MAX = 256 * 1024,
    HTTP_STREAM_LAST_MAX = 1024,
};
void http_stream_begin(struct http_request *request, int status, const char *content_type,
                       void (*on_close)(void *arg), void *arg);
int http_stream_write(struct http_request *request, struct slice data) MUST_CHECK;
void http_stream_end(struct http_request *request, struct slice last);

/*
 * Did the client ask for an upgrade ("Connection: upgrade" and an Upgrade header)? A handler that does not
 * want it simply answers.
 */
bool http_request_wants_upgrade(const struct http_request *request);

/*
 * Takes the connection away from the server: *ret_tcp is the caller's to uv_close, and its memory is the
 * caller's to free() in the close callback. Nothing was answered yet; `early` gets the bytes that the client
 * sent after its header (in the request's arena, copy them before this call's request is gone). on_done runs
 * with status 101. After it the request must not be used. -EPIPE: the client has gone; -ENOMEM: the request
 * must still be answered.
 */
int http_upgrade(struct http_request *request, uv_tcp_t **ret_tcp, struct slice *ret_early) MUST_CHECK;

#endif
