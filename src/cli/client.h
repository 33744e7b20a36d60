/*
 * client.h - asks a running router over HTTP, one request after the other.
 *
 * Blocks until the answer is there or the time is over: for commands, never for the router's own loop.
 * Only client_new prints.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/strbuf.h"
#include "cli/cli.h"

struct client; /* opaque: see client.c */

/* Which port of the router on this machine is asked; a URL that was given goes before it. */
enum client_port {
    CLIENT_API,
    CLIENT_METRICS, /* answers until the exit, also while a stopped router waits for its streams */
};

struct client_request {
    const char *path;   /* from "/" on */
    const char *json;   /* the body; NULL: none */
    const char *method; /* NULL: POST with a body, GET without one */
    uint64_t timeout_ms;
};

/* A piece of an answer that goes on. False: enough. */
typedef bool (*client_piece_fn)(void *arg, struct slice piece);

/*
 * A client for the router that the options name, with their key. Returns EXIT_OK, or prints what is wrong and
 * returns another exit status. Free it with client_free.
 */
int client_new(const struct cli_options *options, enum client_port port,
               struct client **ret_client) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct client *client_free(struct client *client);
void client_freep(struct client **client);

/*
 * Asks. *ret_status is that of the answer, and client_body() has its body. Negative: no answer, or one that
 * is too long; client_error() says why.
 */
int client_ask(struct client *client, const struct client_request *request, int *ret_status) MUST_CHECK;

/*
 * Asks for a stream (text/event-stream), and gives `fn` its pieces until the router ends it. `last_event_id`
 * may be NULL; timeout_ms is how long the router may be silent. An answer that is no such stream is not given
 * to `fn`: client_body() has it. Negative as client_ask, also when the stream breaks off.
 */
int client_stream(struct client *client, const struct client_request *request, const char *last_event_id,
                  client_piece_fn fn, void *arg, int *ret_status) MUST_CHECK;

/* Valid until the next request. */
struct slice client_body(const struct client *client);
const char *client_error(const struct client *client);

/* What a refusal says: "error" of the JSON body, or the status alone. Valid until the next request. */
const char *client_refusal(struct client *client, int status);

/* Where it asks. */
const char *client_url(const struct client *client);

/* Appends a part of a path, with every character escaped that needs it. */
void client_append_escaped(const struct client *client, struct strbuf *buf, const char *text);

/*
 * A handle of libcurl (CURL *) with the same key and options, for requests beside those of client_ask: the
 * caller sets its URL, where its answer goes and its times, and frees it before the client. NULL: no memory.
 */
void *client_new_handle(const struct client *client);

#endif
