/*
 * server.h - what the connections of one listener share. Internal to the module.
 */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include <openssl/ssl.h>

#include "base/list.h"
#include "base/log_repeat.h"
#include "tls/lines.h"
#include "tls/tls.h"

/* How a handshake ended. */
enum handshake_end {
    HANDSHAKE_OK,
    HANDSHAKE_FAILED,  /* what came was no good, or the client went away */
    HANDSHAKE_TIMEOUT, /* it took too long */
    HANDSHAKE_CROWDED, /* too many others had begun one since, and it waited for its client */
    HANDSHAKE_REFUSED, /* max_connections, and nobody could make room: it was not begun */
    HANDSHAKE_ENDS,
};

/* Why a connection gets in line for a later turn of the loop. */
enum tls_wait {
    TLS_WAIT_HELLO,    /* its handshake could go on, and it has got nothing of us */
    TLS_WAIT_ANSWERED, /* likewise, behind our first answer */
    TLS_WAIT_OWING,    /* it is open and owes data: see work.h */
    TLS_WAIT_SHARE,    /* it has used up its share of this turn */
    TLS_WAIT_BUSY,     /* others have used up the time of this turn */
    TLS_WAITS,
};

enum {
    SERVER_PIECE = 16 * 1024, /* what one record of TLS carries at most */
    SERVER_LINGER_MAX_MS = 60 * 1000,
};

struct tls_server {
    uv_loop_t *loop;
    struct tls_settings settings;
    SSL_CTX *context;
    BIO_METHOD *wire_method;

    int fd; /* that listens; -1: none */
    uv_poll_t listener;
    uv_timer_t timer; /* runs while somebody has a deadline */
    uv_idle_t turn;   /* runs while wants_turn: in each turn of the loop, before it polls */
    bool wants_turn;  /* a connection is in line */
    uint64_t tick_ms;
    uint16_t port;
    bool is_accepting;
    bool is_accept_paused; /* there are no descriptors; the timer tries again */
    bool is_accept_held;   /* too many handshakes wait for us; a turn goes on when there are fewer */
    bool is_closing;
    struct log_repeat accept_failures;
    struct log_repeat refusals;
    struct log_repeat cuts;

    struct list handshaking; /* the oldest first; all have the same limit */
    struct list open;
    struct list ending; /* of those that are open: the clear text has ended, and not all is sent */
    struct tls_lines lines;
    size_t handshaking_count;
    size_t handshakes_max;
    size_t open_count;
    size_t objects; /* connections and handles that must go before the server is freed */

    struct metrics_series *handshakes[HANDSHAKE_ENDS];
    struct metrics_series *connections;
    struct metrics_series *dataless;
    struct metrics_series *cut;
    struct metrics_series *waits[TLS_WAITS];
    struct metrics_series *not_after;

    void (*closed)(void *arg);
    void *closed_arg;
    char scratch[SERVER_PIECE];      /* of clear text */
    char wire_scratch[SERVER_PIECE]; /* of what OpenSSL reads meanwhile */
};

/* Keeps the timer going, for a connection that has got a deadline. */
void tls_server_tick_on(struct tls_server *server);

/* Counts how a handshake ended. */
void tls_server_count(struct tls_server *server, enum handshake_end end);

/* A connection could not be had: says so, at most once in a while. */
void tls_server_log_failure(struct tls_server *server, int err);

/* A connection is cut because of its records without data: counts it, and says so at most once in a while. */
void tls_server_log_cut(struct tls_server *server, const char *peer);

/* May those whose sockets the loop has polled still be served at once? If not they get in line. */
bool tls_server_has_time(struct tls_server *server) MUST_CHECK;

/*
 * For tls_connection.turn_link: gets in line, and is counted. A connection that waits without a
 * line is only counted.
 */
void tls_server_wait(struct tls_server *server, struct list *link, enum tls_wait why);
void tls_server_count_wait(struct tls_server *server, enum tls_wait why);

/* A connection, or a handle of the server, is gone. May free the server. */
void tls_server_lost_object(struct tls_server *server);

#endif
