/*
 * connection.h - one client: its socket, its session, and the pair of sockets behind it. Internal to the
 * module.
 *
 * `outer` is the client's socket, `inner` our end of the pair. What is read from one is written to the other
 * at once; what that does not take is kept, one piece in each direction, and no more is read until it is
 * gone. So a slow reader on one side holds back the writer on the other, and memory is bounded.
 */
#ifndef TLS_CONNECTION_H
#define TLS_CONNECTION_H

#include <netinet/in.h>

#include "tls/hello.h"
#include "tls/server.h"
#include "tls/work.h"

enum tls_state {
    TLS_HANDSHAKING,
    TLS_OPEN,
    TLS_CLOSED,
};

/* What one side did not take yet. */
struct tls_piece {
    char *data; /* NULL: nothing */
    size_t at;
    size_t len;
};

struct tls_connection {
    unsigned magic;
    struct tls_server *server;
    enum tls_state state;
    struct list link;        /* of its state */
    struct list ending_link; /* see tls_server.ending */
    struct list turn_link;   /* see lines.h */
    uint64_t deadline_ms; /* uv_now, as all times here; of the handshake, and of what is unsent at the end */
    uint64_t moved_ms;    /* when the client last took something */
    SSL *ssl;             /* NULL until the client has sent something */
    struct tls_work work;
    struct tls_hello hello;
    uint64_t dataless_counted; /* of work.dataless, what the metric has */

    uv_poll_t outer;
    uv_poll_t inner;
    int outer_fd;
    int inner_fd; /* -1 until the handshake is done */
    int outer_events;
    int inner_events;
    unsigned handles; /* that must close before it is freed */

    struct tls_piece to_client;
    struct tls_piece to_inner;
    struct tls_piece ahead; /* that the client has sent and OpenSSL has not asked for yet; see wire.h */
    bool read_wants_write;  /* as OpenSSL says: it has something of its own to send before it can read on */
    bool is_blocked;        /* the client takes no more at the moment */
    bool client_ended;      /* sends nothing more */
    bool inner_ended;
    bool inner_is_shut;  /* was told that the client sends nothing more */
    bool client_is_shut; /* likewise */
    bool inner_is_gone;  /* it has closed; what it has sent may still be there */
    bool has_more;       /* its share of this turn was used up, and no poll may say that there is more */
    bool is_answered;    /* it has got something of us: its handshake is behind the first step */
    bool is_held_back;   /* OpenSSL was told that there is nothing to read, because of that share */
    bool wire_ended;     /* the client's socket was at its end */
    bool is_too_long;    /* its hello is; see hello.h */
    char peer[INET6_ADDRSTRLEN];
};

enum { TLS_CONNECTION_MAGIC = 0x746c7363 };

/* Takes `fd`, which was accepted. 0, or a negative errno: `fd` is still the caller's. */
int tls_connection_new(struct tls_server *server, int fd, const struct sockaddr *address) MUST_CHECK;

/* Closes both sides at once, whatever is unsent. Does nothing if that is under way. */
void tls_connection_close(struct tls_connection *connection);

/* Is still in its handshake: gives it up. */
void tls_connection_give_up(struct tls_connection *connection, enum handshake_end end);

/* Its turn has come: goes on with what it had not finished. */
void tls_connection_go_on(struct tls_connection *connection);

/* Keeps what was not taken, at most SERVER_PIECE bytes; false without memory. */
bool tls_piece_keep(struct tls_piece *piece, const char *data, size_t len) MUST_CHECK;
void tls_piece_taken(struct tls_piece *piece, size_t taken);

/* For the handshake. Waits for `events` of the client's socket, 0 for none; false: it cannot be polled. */
bool tls_connection_wait(struct tls_connection *connection, int events) MUST_CHECK;

/* The handshake is done: gives the clear text end away, and moves what is here already. */
void tls_connection_opened(struct tls_connection *connection);

#endif
