/*
 * world.h - a store to be tested, whichever it is: the cases know only what store.h says.
 *
 * Every command is carried out to its end. The embedded store lives in a directory of its own, the Redis
 * store on a real redis-server; both have a clock that the test can move on.
 */
#ifndef TEST_CONFORMANCE_WORLD_H
#define TEST_CONFORMANCE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/redis_server.h"
#include <uv.h>

#include "core/core.h"
#include "store/store.h"

enum {
    MINUTE = 60000,
    HOUR = 60 * MINUTE,
    MORE = 10000, /* some more than is needed: the embedded store's clock runs on by itself */
};

#define CARRIER "router-0"

/* Which store, and what all worlds of that kind share. */
struct world_kind {
    const char *name;
    struct redis_server *server; /* NULL: the embedded store */
    unsigned worlds;             /* made so far: each has keys of its own */
};

struct world {
    struct world_kind *kind;
    uv_loop_t loop;
    struct store *store;
    struct arena arena;
    struct result result;
    char dir[64];
    size_t told; /* calls that ended without being released */
};

/* `tiers` NULL: the defaults. */
void world_init(struct world *world, struct world_kind *kind, const char *tiers);
void world_init_with(struct world *world, struct world_kind *kind, const char *tiers,
                     uint64_t connect_timeout_ms);
void world_release(struct world *world);

/* Lets time pass, for the store alone. */
void world_advance(struct world *world, uint64_t ms);

/* Valid until the world is released. A store error fails the test. */
struct result *run(struct world *world, const struct command *command);
size_t call_count(struct world *world);

struct result *tiers_set(struct world *world, const char *text);
struct pod_seen seen_of(const char *name);
struct result *see(struct world *world, struct pod_seen seen);
void add_pods(struct world *world, int count);
struct result *allocate_for(struct world *world, const char *sid, const char *merchant);
struct result *allocate(struct world *world, const char *sid);
struct result *release(struct world *world, const char *sid);
struct result *renew(struct world *world, const char *sid);
struct result *heartbeat(struct world *world, const char *pod, const char *sid);
struct result *drain(struct world *world, const char *pod, uint64_t ttl_ms);
struct result *move(struct world *world, const char *sid, const char *from, uint64_t aside_ms);
struct result *sweep(struct world *world);
/* Of the request `attempt`; 0: the store gives it a number. */
struct result *ask(struct world *world, const char *sid, uint64_t attempt);
struct result *undo(struct world *world, const char *sid, uint64_t attempt);
struct result *release_as(struct world *world, const char *sid, const char *pod_name, enum call_over why);
/* The next three are the words of the process CARRIER; carry is a renewal that names the pod. */
struct result *hold(struct world *world, const char *sid);
struct result *carry(struct world *world, const char *sid, const char *pod_name);
struct result *leave(struct world *world, const char *sid, uint64_t expires_at_ms);
/* The pod is deleted and comes back: its calls are lost, and no end of them is recorded. */
void lose_calls_of(struct world *world, const char *pod_name);
const struct call_info *call_of(struct world *world, const char *sid);
bool call_exists(struct world *world, const char *sid);
const struct pod_info *pod(struct world *world, const char *name);
bool pod_exists(struct world *world, const char *name);
const struct tier_status *tier(struct world *world, const char *name);

/* The cases, by what they are about; each is a list that ends with an entry without a name. */
struct world_case {
    const char *name;
    CMUnitTestFunction run;
};

extern const struct world_case cases_calls[];
extern const struct world_case cases_chains[];
extern const struct world_case cases_pods[];
extern const struct world_case cases_absent[];
extern const struct world_case cases_time[];
extern const struct world_case cases_edges[];
extern const struct world_case cases_carried[];
extern const struct world_case cases_owner[];
extern const struct world_case cases_events[];

#endif
