/*
 * connection.h - one client: its socket, its buffer, its parser, and the request it is at. Internal to the
 * module.
 *
 * A connection handles one request at a time; what the client sends ahead waits in the buffer. It lives
 * until its socket is closed and its request is answered, whichever comes last.
 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <llhttp.h>
#include <netinet/in.h>

#include "base/list.h"
#include "http/request.h"
#include "http/server.h"

#if LLHTTP_VERSION_MAJOR < 9 && !LLHTTP_STRICT_MODE
#error "llhttp must be compiled in strict mode"
#endif

struct http_connection {
    unsigned magic;
    struct http_server *server;
    uv_tcp_t *tcp; /* its own piece of memory, because an upgrade gives it away; NULL once closed */
    struct list link;

    struct list wait_link;
    uint64_t deadline_ms; /* uv_now */
    enum http_wait wait;
    struct list ready_link;
    struct list reserve_link;
    struct list large_link;  /* while its buffer is not from the pool */
    struct list unsent_link; /* while its answer waits for the client: see evict.h */
    size_t unsent;           /* of that answer, and when that was: uv_now */
    uint64_t unsent_ms;
    struct client *client; /* whose it is; NULL: that does not matter */

    llhttp_t parser;
    struct http_request *request; /* NULL between requests */

    /*
     * The current request begins at `start`; the parser has seen everything before `parsed`; the client
     * has sent everything before `len`.
     */
    char *buffer; /* NULL while nothing is in it */
    size_t room;
    size_t start;
    size_t parsed;
    size_t len;

    bool is_processing; /* a frame of connection_process is on the stack */
    bool is_closing;
    bool is_counted; /* among the server's connections */
    bool is_lingering;
    bool is_over_limit; /* in the server's reserve */
    bool has_eof;
    bool is_paused; /* reading was stopped because the buffer is full */
    bool has_asked; /* at least the start of one request has come */
    bool was_slow;  /* in sending a request: see evict.h */
    size_t discarded;
    int tls_fd;      /* -1, or the client's own socket: see http_server_adopt */
    unsigned writes; /* of connection_send that are under way */
    char peer[INET6_ADDRSTRLEN];
};

enum {
    CONNECTION_MAGIC = 0x68747470,
    CONNECTION_BUFFER = 4096, /* what the server's pool holds; larger requests get their own */
    CONNECTION_BUFFER_MAX = HTTP_HEADER_MAX + HTTP_BODY_MAX + 8192,
    CONNECTION_DISCARD_MAX = 4 * 1024 * 1024,
    CONNECTION_AHEAD_MAX = 4, /* requests of one connection that are answered in one turn of the loop */
};

/*
 * Takes `tcp`, which was accepted. `peer` is the client's address; NULL: that of the socket. NULL: no memory,
 * and `tcp` is still the caller's.
 */
struct http_connection *connection_new(struct http_server *server, uv_tcp_t *tcp, const char *peer);
/* Starts to read; on failure it closes itself. */
void connection_start(struct http_connection *connection);

/* Closes the socket without a word. Does nothing if that is under way. */
void connection_close(struct http_connection *connection);
/* The same, but drops what the kernel still has to send. */
void connection_reset(struct http_connection *connection);
/* Says that nothing more comes, and reads a little longer so that the client gets to see the answer. */
void connection_linger(struct http_connection *connection);

/* Answers what it is at, or nothing at all if it has not begun, and ends it. Not while a handler works. */
void connection_refuse(struct http_connection *connection, int status, const char *message);
/* Reads what has come already, and answers it if that is a whole request. */
void connection_hurry(struct http_connection *connection);

/* Its time is over: what happens depends on what it was waiting for. */
void connection_expire(struct http_connection *connection);
/* Closes it if it is between requests, and nothing has come that has not been read yet. */
void connection_drain(struct http_connection *connection);
/* The loop has come round; see server_make_ready. */
void connection_resume(struct http_connection *connection);

/* Waits for `wait`, from now on. */
void connection_await(struct http_connection *connection, enum http_wait wait);

/*
 * The request is in state REQUEST_SENT, and this is not a frame of connection_process: finishes it.
 * The request is gone afterwards, and maybe the connection.
 */
void connection_answered(struct http_connection *connection);

/* Sends now what the kernel takes and copies the rest. A failure closes the connection. */
void connection_send(struct http_connection *connection, const uv_buf_t *bufs, unsigned count);

static inline bool connection_is_gone(const struct http_connection *connection)
{
    return !connection->tcp || connection->is_closing;
}

/* parser.c */
void parser_init(struct http_connection *connection);
/*
 * Feeds what has not been parsed yet. 0: needs more. 1: the request is complete. -EPROTO: refuse it, as
 * request->refuse_status says.
 */
int parser_run(struct http_connection *connection) MUST_CHECK;

#endif
