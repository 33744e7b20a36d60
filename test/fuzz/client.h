/*
 * client.h - a client of the HTTP server in the same process, for fuzz targets: sends bytes in pieces,
 * gathers what comes back, takes it apart.
 */
#ifndef TEST_FUZZ_CLIENT_H
#define TEST_FUZZ_CLIENT_H

#include <uv.h>

#include "base/strbuf.h"
#include "http/http.h"

enum {
    CLIENT_ANSWER_MAX = 16 * 1024 * 1024,
    CLIENT_WHOLE = 0,
    CLIENT_BYTES = 1,
};

struct client {
    uv_loop_t *loop;
    struct http_server *server;
    const char *peer;
    bool is_tls;
    bool (*is_busy)(void *arg); /* will more come by itself? Then nothing is closed yet. May be NULL. */
    void *arg;
};

/* The loop, and a server on it whose timeouts never end; the log is written, and thrown away. */
void client_server_init(uv_loop_t *loop, struct http_server **ret_server);

/*
 * One connection from its start to its end. `cut` CLIENT_WHOLE: everything is sent at once; CLIENT_BYTES:
 * byte by byte; else in pieces whose lengths it decides. What the server sends is appended to `answer`.
 * Asserts that the connection ends.
 */
void client_talk(const struct client *client, struct slice data, unsigned cut, struct strbuf *answer);

struct client_answer {
    int status;
    struct slice head; /* without the status line, with the CRLF of its last line */
    struct slice type; /* data NULL: none */
    struct slice body;
};

/*
 * Takes the next answer from the front of `data`; interim ones are passed over. The body of a chunked one is
 * put together in place. False: there is none any more. Asserts that it is framed as it should be; one that
 * has no body because a HEAD asked for it is recognised by what follows.
 */
bool client_next(struct slice *data, struct client_answer *ret_answer);

/* The value of a header, or data NULL; asserts that there is only one. `name` as the server writes it. */
struct slice client_header(const struct client_answer *answer, const char *name);

#endif
