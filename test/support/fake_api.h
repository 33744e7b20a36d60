/*
 * fake_api.h - the API without a server and without a store: for what real ones do rarely.
 *
 * The handlers run against a store that answers what a test tells it to, and against a stand-in for the
 * server that only remembers the answer.
 */
#ifndef TEST_FAKE_API_H
#define TEST_FAKE_API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/keys.h"

enum { ROUTES_MAX = 96 };

/* The stand-in for the server: routes, and one request at a time. */
struct http_server {
    struct {
        const struct http_route *row;
        void *arg;
    } routes[ROUTES_MAX];
    size_t count;
    struct http_hooks hooks;
};

struct http_request {
    const char *method;
    const char *path;
    const char *query;
    const char *body;
    const char *param;
    const struct http_route *route; /* NULL: none */
    bool was_handled;
    bool is_held;
    struct arena arena;
    uint64_t started_ns;
    int answers;
    int status;
    char content_type[64];
    char retry_after[16];
    char *answer;
    void (*unsent)(void *arg);
    void *unsent_arg;
};

/* The store that a test tells what to answer. */
struct fake_store {
    struct store store;
    struct command command; /* the last one */
    int commands;
    struct arena *arena; /* of the last one: its result goes there */
    int refuse;          /* what execute returns */
    int err;             /* what the callback gets */
    struct result result;
    bool is_ready;
    store_done_fn done;
    void *arg;
};

struct world {
    struct fake_store fake;
    struct metrics *metrics;
    struct api *api;
    struct http_server server;
    struct http_request request;
};

enum { CLIENT_STAYS = -1 };

extern int client_waits_for;   /* looks at it: then it has gone */
extern bool can_hold;          /* may one more request wait on purpose? */
extern struct key *asked_with; /* what the guard would have kept with each request */

extern const struct api_settings plain_settings;

void world_init(struct world *world, const struct api_settings *settings);
void world_release(struct world *world);

/* Runs one request to its end. */
void ask_as(struct world *world, const char *method, const char *pattern, const char *query,
            const char *body);
/* The same: a POST if there is a body, else a GET. */
void ask(struct world *world, const char *pattern, const char *query, const char *body);

/* The same in steps: the handler, the store's answer to what it was asked last, and the end. */
void begin(struct world *world, const char *method, const char *pattern, const char *query, const char *body);
/* With a request of its own, whose arena is initialised. */
void begin_request(struct world *world, struct http_request *request, const char *method, const char *pattern,
                   const char *query, const char *body);
void answer(struct world *world);
void finish(struct world *world);

/* A request that the server itself answered; `pattern` "": no row has its path. */
void refuse(struct world *world, const char *method, const char *pattern, int status);

void assert_answer(const struct world *world, int status, const char *part);

#endif
