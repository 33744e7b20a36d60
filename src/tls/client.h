/*
 * client.h - the client's side of TLS: takes a connected socket and gives back one for clear text.
 *
 * It does the handshake, verifies the chain and the name of the server, and then carries the bytes
 * between the server and one end of a socket pair, whose other end is the caller's. Knows nothing of
 * what is said. When the connection ends, for whatever reason, the caller's end reads an end of file;
 * tls_client_fault says why. Loop thread only. TLS 1.2 and 1.3. Functions in this file do not log.
 */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

#include <uv.h>

#include "tls/files.h"

struct tls_client;         /* one connection: see client.c */
struct tls_client_context; /* what many connections share: see client_context.c */

enum { TLS_CLIENT_DETAIL_MAX = 160 };

/* The strings are borrowed, and read again by tls_client_context_reload. */
struct tls_client_settings {
    const char *authorities_file; /* PEM; "": those that the system trusts */
    const char *certificate_file; /* PEM, our own, with its chain; "": none */
    const char *key_file;         /* of that certificate */
    const char *server_name;      /* that the certificates of servers must have; "": the host connected to */
};

enum tls_client_fault {
    TLS_FAULT_NONE,                /* it is open, or was closed in good order */
    TLS_FAULT_UNTRUSTED,           /* nobody whom we trust vouches for the server */
    TLS_FAULT_WRONG_NAME,          /* the certificate is of another server */
    TLS_FAULT_EXPIRED,             /* or not valid yet: the detail says which */
    TLS_FAULT_WANTS_CERTIFICATE,   /* the server demands a certificate, and we have none */
    TLS_FAULT_REFUSES_CERTIFICATE, /* the server does not accept ours */
    TLS_FAULT_NOT_TLS,             /* the server speaks something else */
    TLS_FAULT_CLOSED,              /* the server went away during the handshake */
    TLS_FAULT_OTHER,
};

/*
 * Reads the files. -EINVAL, or an error of reading: *ret_problem says what is wrong. -ENOMEM: it may
 * not.
 */
int tls_client_context_new(const struct tls_client_settings *settings,
                           struct tls_client_context **ret_context,
                           struct tls_problem *ret_problem) MUST_CHECK;

/*
 * Reads the files again, for connections that begin from now on. On failure all stays as it was.
 */
int tls_client_context_reload(struct tls_client_context *context, struct tls_problem *ret_problem) MUST_CHECK;

/* Accepts NULL; always returns NULL. After its connections. */
struct tls_client_context *tls_client_context_free(struct tls_client_context *context);

/* Neither runs inside a call of this header, except `closed` inside tls_client_stop. */
struct tls_client_hooks {
    void (*opened)(void *arg); /* the server is the right one: clear text may be sent */
    void (*closed)(void *arg); /* nothing of it is on the loop any more, and tls_client_stop was called */
    void *arg;
};

/*
 * Begins a handshake on `fd`, a connected socket, with the server that is called `host`, a name or an
 * address. 0: `fd` is taken, and *ret_fd is the caller's end, which does not block. Else a negative
 * errno, and `fd` is the caller's still.
 */
int tls_client_start(uv_loop_t *loop, struct tls_client_context *context, int fd, const char *host,
                     const struct tls_client_hooks *hooks, struct tls_client **ret_client,
                     int *ret_fd) MUST_CHECK;

/* Sends now what was written to the caller's end, not in the next turn of the loop. */
void tls_client_push(struct tls_client *client);

/* *ret_detail is borrowed from the client. */
enum tls_client_fault tls_client_fault(const struct tls_client *client, const char **ret_detail);

/*
 * Ends the connection, if it has not ended yet: what the socket takes at once of what was written to
 * the caller's end is sent. The client is not the caller's any more.
 */
void tls_client_stop(struct tls_client *client);

#endif
