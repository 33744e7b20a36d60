/*
 * server.h - what the connections of one server share. Internal to the module.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <llhttp.h>

#include "base/list.h"
#include "base/log_repeat.h"
#include "http/clients.h"
#include "http/http.h"
#include "http/router.h"

struct http_connection;

/* What a connection waits for. Each has one fixed limit, so that appending keeps the lists in order. */
enum http_wait {
    WAIT_NONE,   /* a handler works; it has its own limits */
    WAIT_SILENT, /* the first request */
    WAIT_IDLE,   /* the next one */
    WAIT_READ,
    WAIT_WRITE,
    WAIT_LINGER,
    WAIT_RESERVE, /* the whole request of one that is over the limit */
    WAIT_FIRST,   /* the first request of one that came just before the server stopped accepting */
    WAIT_COUNT,
};

enum {
    SERVER_POOL_MAX = 256,      /* buffers, and requests, kept for the next use */
    SERVER_SCRATCH = 64 * 1024, /* to build answers in, and to read into what nobody wants */
    SERVER_LINGER_MS = 2000,
    SERVER_RESERVE_MS = 2000,
    SERVER_FIRST_MS = 1000,
    SERVER_DATE_MAX = 64,
    SERVER_ID_PREFIX = 12, /* random digits of this process, in front of every id it makes */
    SERVER_ID_DIGITS = 12,
};

struct http_buffer {
    struct http_buffer *next;
};

struct http_server {
    uv_loop_t *loop;
    struct http_settings settings;
    struct router router;
    llhttp_settings_t parser_settings;
    struct http_hooks hooks;

    uv_tcp_t listener;
    uv_timer_t timer; /* runs while there are connections */
    uv_idle_t idle;   /* runs while wants_turn */
    bool wants_turn;  /* a connection is ready, or an accept was put off: the loop must not wait */
    bool has_listener;
    bool is_listening;
    bool is_accept_pending; /* libuv holds a connection: there was no memory, */
    bool is_accept_put_off; /* or others had to have their turn first */
    unsigned accepted;      /* in this turn of the loop */
    bool is_leaving;        /* every answer is the last one of its connection */
    bool is_draining;       /* and idle connections are closed */
    bool is_closing;
    uint16_t port;
    struct log_repeat accept_failures;

    struct list all;
    struct list waiting[WAIT_COUNT];
    uint64_t wait_ms[WAIT_COUNT];
    uint64_t tick_ms;
    struct list ready;

    size_t connections; /* open and within the limit */
    uint64_t evicted;   /* closed to make room: see evict.h */
    struct log_repeat evictions;
    struct list unread; /* answers that wait for their clients, the one looked at longest ago first */
    struct clients clients;
    struct log_repeat crowded; /* connections of clients that had as many as they may */
    size_t held;               /* requests whose clients wait on purpose: see http_request_hold */
    size_t held_max;
    struct list large_ones; /* requests in buffers that are not from the pool, the oldest first */
    struct list reserve;    /* those over the limit, the oldest first: see reserve.h */
    size_t reserve_count;
    struct log_repeat crowds; /* times when a new connection was over a limit of the server */
    uint64_t descriptors_max;
    uint64_t descriptors_reserved; /* for what is over the limit, and for everything else */
    size_t large;                  /* bytes of buffers that are not from the pool */
    size_t unsent;                 /* bytes of answers that wait for their clients */
    struct log_repeat unread_cut;  /* answers that were cut off */
    size_t objects;                /* connections and handles that must go before the server is freed */
    uint64_t refused;

    struct http_buffer *buffers;
    size_t buffer_count;
    struct http_request *requests;
    size_t request_count;

    char id_prefix[SERVER_ID_PREFIX + 1];
    uint64_t id_next;
    uint64_t date_until_ms; /* uv_now */
    size_t date_len;
    char date[SERVER_DATE_MAX]; /* "Date: ...\r\n" */

    void (*closed)(void *arg);
    void *closed_arg;
    char scratch[SERVER_SCRATCH];
};

/* A buffer of CONNECTION_BUFFER bytes; NULL: no memory. */
char *server_take_buffer(struct http_server *server);
void server_give_buffer(struct http_server *server, char *buffer);

/* Calls connection_resume when the loop comes round: for what must not happen inside a caller's call. */
void server_make_ready(struct http_server *server, struct http_connection *connection);

/* Brings `date` up to date. */
void server_refresh_date(struct http_server *server);

/* It takes no room any more, among the server's connections. */
void server_discount(struct http_server *server, struct http_connection *connection);

/* A connection's socket has closed, or was taken away. */
void server_lost_socket(struct http_server *server, struct http_connection *connection);
/* A connection, or a handle of the server, is gone. May free the server. */
void server_lost_object(struct http_server *server);

#endif
