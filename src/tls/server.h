/*
 * server.h - what the connections of one listener share. Internal to the room.
 */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include <openssl/ssl.h>

#include "base/complaint.h"
#include "base/list.h"
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
    uv_idle_t turn;   /* runs while somebody is in line: in each turn of the loop, before it polls */
    uint64_t tick_ms;
    uint16_t port;
    bool is_accepting;
    bool is_accept_paused; /* there are no descriptors; the timer tries again */
    bool is_accept_held;   /* too many handshakes wait for us; a turn goes on when there are fewer */
    bool is_closing;
    bool owing_had_turn;    /* then it is the handshakes' turn */
    bool answered_had_step; /* then it is the hellos' turn */
    uint64_t polled_ms;     /* uv_now of the poll whose clients are being served */
    uint64_t polled_ns;     /* when the first of them was */
    uint64_t accept_logged_ms;
    uint64_t refusal_logged_ms;
    uint64_t refused_unlogged;
    struct complaint cuts;

    struct list handshaking; /* the oldest first; all have the same limit */
    struct list open;
    struct list ending;   /* of those that are open: the clear text has ended, and not all is sent */
    struct list owing;    /* likewise, and they owe data: see work.h; one in each turn */
    struct list again;    /* of those that are open: the last turn had no time for all that they want */
    struct list hellos;   /* handshakes that could go on and have got nothing of us: a few in each turn */
    struct list answered; /* likewise, behind our first answer */
    size_t handshaking_count;
    size_t handshakes_max;
    size_t line_max; /* of hellos and of answered: beyond it nobody is accepted */
    size_t open_count;
    size_t objects; /* connections and handles that must go before the server is freed */

    struct metrics_series *handshakes[HANDSHAKE_ENDS];
    struct metrics_series *connections;
    struct metrics_series *dataless;
    struct metrics_series *cut;
    struct metrics_series *not_after;

    void (*closed)(void *arg);
    void *closed_arg;
    char scratch[SERVER_PIECE];      /* of clear text */
    char wire_scratch[SERVER_PIECE]; /* of what OpenSSL reads meanwhile */
};

/* Keeps the timer going; for who has got a deadline. */
void tls_server_tick_on(struct tls_server *server);

/* Counts how a handshake ended. */
void tls_server_count(struct tls_server *server, enum handshake_end end);

/* A connection could not be had: says so, at most once in a while. */
void tls_server_log_failure(struct tls_server *server, int err);

/* A connection is cut because of its records without data: counts it, and says so at most once in a while. */
void tls_server_log_cut(struct tls_server *server, const char *peer);

/* May those whose sockets the loop has polled still be served at once? If not they get in line. */
bool tls_server_has_time(struct tls_server *server) MUST_CHECK;

/* For tls_connection.turn_link: goes on in the next turn. The owing and the handshakes: in one of the next.
 */
void tls_server_again(struct tls_server *server, struct list *link);
void tls_server_owing(struct tls_server *server, struct list *link);
void tls_server_ready(struct tls_server *server, struct list *link, bool is_answered);

/* A connection, or a handle of the server, is gone. May free the server. */
void tls_server_lost_object(struct tls_server *server);

#endif
