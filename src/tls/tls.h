/*
 * tls.h - a listener that speaks TLS and hands on clear text.
 *
 * It accepts, does the handshake, and then carries the bytes between the client and one end of a socket pair,
 * whose other end is given to whoever wants clear text. Knows nothing of what is said. Everything runs on the
 * loop thread. TLS 1.2 and 1.3, one certificate chain, HTTP/1.1 by ALPN.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <uv.h>

#include "base/base.h"
#include "metrics/metrics.h"
#include "tls/files.h"

struct tls_server; /* opaque: see server.c */

enum {
    /*
     * At once, and an eighth of the descriptors where those are few; at one more the oldest that waits for
     * its client makes room.
     */
    TLS_HANDSHAKES_MAX = 1024,
};

/* What is odd about files that can be used. */
struct tls_notes {
    int64_t not_after_s; /* since 1970 */
    bool is_expired;
    bool is_early; /* not valid yet */
};

/*
 * Takes `fd`, the clear text end of a connection; copies `peer`. `client_fd` is the client's socket, to look
 * at: it stays open at least until the other end of `fd` is closed. A negative errno: `fd` is not taken.
 */
typedef int (*tls_accepted_fn)(void *arg, int fd, int client_fd, const char *peer);

struct tls_settings {
    const char *certificate_file; /* PEM, the chain; borrowed, read again by tls_server_reload */
    const char *key_file;         /* PEM, not encrypted; likewise */
    uint64_t handshake_timeout_ms;
    uint64_t write_timeout_ms; /* for what is unsent when the clear text end has closed */
    uint64_t patience_ms;      /* with a client that acknowledges nothing: then it has vanished */
    /*
     * Beyond it the oldest handshake that waits for its client makes room; if there is none, new ones are
     * closed without a word. Open connections are closed by whoever has their clear text.
     */
    size_t max_connections;
    tls_accepted_fn accepted; /* runs when a handshake is done */
    void *arg;
};

/* Could these files be used? 0 with *ret_notes, or a negative errno with *ret_problem. */
int tls_check_files(const char *certificate_file, const char *key_file, struct tls_notes *ret_notes,
                    struct tls_problem *ret_problem) MUST_CHECK;

/*
 * Reads the files. -EINVAL, or an error of reading: *ret_problem says what is wrong. -ENOMEM: it may not.
 */
int tls_server_new(uv_loop_t *loop, const struct tls_settings *settings, struct metrics *metrics,
                   struct tls_server **ret_server, struct tls_notes *ret_notes,
                   struct tls_problem *ret_problem) MUST_CHECK;

/* Adds every family of metrics of a TLS server, for their list. 0 or -ENOMEM. */
int tls_server_list_metrics(struct metrics *metrics) MUST_CHECK;

/*
 * Binds and listens at `address`, an IP address as text; "": at all of them, of both families where there are
 * both. Port 0 picks a free one. 0 or a negative errno; -EADDRNOTAVAIL: this machine does not have the
 * address.
 */
int tls_server_listen(struct tls_server *server, const char *address, uint16_t port) MUST_CHECK;
/* The same on `fd`, a socket that somebody else has bound. It is the server's from now on, and closed if this
 * fails. */
int tls_server_listen_on(struct tls_server *server, int fd) MUST_CHECK;
uint16_t tls_server_port(const struct tls_server *server);

/*
 * Reads the files again. Handshakes that begin from now on use what is in them; connections that are open
 * are not touched. On failure all stays as it was.
 */
int tls_server_reload(struct tls_server *server, struct tls_notes *ret_notes,
                      struct tls_problem *ret_problem) MUST_CHECK;

/* Those that are open, without those that are in their handshake. */
size_t tls_server_connections(const struct tls_server *server);

/* Stops accepting, behind those who have connected already. Their handshakes, of whom there are so many, go
 * on. */
void tls_server_leave(struct tls_server *server);
size_t tls_server_handshakes(const struct tls_server *server);

/* Stops accepting and gives up handshakes; connections go on until somebody ends them. */
void tls_server_drain(struct tls_server *server);

/* Closes everything that is left, frees the server, then calls `closed`, later. */
void tls_server_close(struct tls_server *server, void (*closed)(void *arg), void *arg);

#endif
