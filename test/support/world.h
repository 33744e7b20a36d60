/*
 * world.h - a store for a test, or core alone; the test owns its clock.
 *
 * The cases of test/conformance run in three worlds: core without a store, the embedded store in
 * its own directory, and the Redis store on a real redis-server. Unit tests of core use the first
 * one. Every command is carried out to its end. Time passes only in world_advance(): a program
 * that links world.c needs -Wl,--wrap=clock_elapsed_ms. Where there is a core, core_check() runs
 * after each command.
 */
#ifndef TEST_SUPPORT_WORLD_H
#define TEST_SUPPORT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis_server.h"
#include <uv.h>

#include "core/core.h"
#include "store/store.h"

enum {
    MINUTE = 60000,
    HOUR = 60 * MINUTE,
    LEASE = 15 * MINUTE,
    WAIT_MAX = 2 * MINUTE,
    WAITING_MAX = 8,
    AGEING = 6000,
    TOLD_MAX = 128,
};

#define CARRIER "router-0" /* the process that holds, carries and leaves calls */

/* The names of the first two pods of add_pods(). */
#define POD0 "voice-agent-0"
#define POD1 "voice-agent-1"

#define ONE_TIER "{\"standard\":1}"

enum world_type { WORLD_CORE, WORLD_EMBEDDED, WORLD_REDIS };

/* The type of a world, and the data that all worlds of that kind share. */
struct world_kind {
    enum world_type type;
    const char *name;
    struct redis_server *server; /* only of WORLD_REDIS */
    unsigned worlds;             /* made so far: each has its own keys */
};

extern struct world_kind world_core; /* for unit tests of core */

struct world {
    struct world_kind *kind;
    uv_loop_t loop;
    struct store *store; /* NULL: core alone */
    struct core *core;   /* NULL with Redis; borrowed from the embedded store */
    uint64_t now_ms;     /* the clock of a core alone; world_now() is that of any world */
    struct arena arena;
    struct result result;
    char dir[64];
    struct core_settings settings;
    size_t told;                              /* calls that ended without being released */
    size_t told_of[CALL_END_UNMENTIONED + 1]; /* the same, by reason */
    char told_merchant[MERCHANT_ID_MAX + 1];  /* of the last one */
};

/* `tiers` NULL: the defaults. */
void world_init(struct world *world, struct world_kind *kind, const char *tiers);
/* With pods voice-agent-0 and so on. */
void world_init_pods(struct world *world, struct world_kind *kind, const char *tiers, int count);
void world_init_with(struct world *world, struct world_kind *kind, const char *tiers,
                     uint64_t connect_timeout_ms);
/* The same with pods, where calls wait for WAIT_MAX, at most WAITING_MAX of them, and are rescued. */
void world_init_waiting(struct world *world, struct world_kind *kind, const char *tiers, int count);
/* The same with another limit for those who wait. */
void world_init_line(struct world *world, struct world_kind *kind, const char *tiers, int count,
                     uint64_t max_calls);
/* As world_init_waiting, with one pod, which CA1 has. */
void world_init_busy(struct world *world, struct world_kind *kind);
void world_release(struct world *world);

/* Lets time pass, for the store alone. */
void world_advance(struct world *world, uint64_t ms);
uint64_t world_now(const struct world *world);

/* Reports the ends of carried calls; with Redis not at once. */
void world_on_finished(struct world *world, call_finished_fn fn, void *arg);
/* The same for what happens to calls that are held or carried. */
void world_on_changed(struct world *world, call_changed_fn fn, void *arg);

/* For both: adds the name and a space to a text of TOLD_MAX. */
void note_told(void *arg, const char *call_sid);
/* With Redis the word is a message, which arrives later. */
void wait_until_told(struct world *world, const char *told, const char *expected);

/* An empty core with the settings of the worlds. The caller frees it. */
struct core *world_new_core(void);
/* Only of a core alone: another process continues from a dump of the records. */
void world_reload(struct world *world);

/* Valid until the world is released. A store error fails the test. */
struct result *run(struct world *world, const struct command *command);
size_t call_count(struct world *world);

struct result *tiers_set(struct world *world, const char *text);
struct pod_seen seen_of(const char *name);
struct result *see(struct world *world, struct pod_seen seen);
void add_pods(struct world *world, int count);
/* A pod registers itself. */
struct result *register_pod(struct world *world, const char *name);
/* The pod's source says that it is gone; or that it does not show it. */
struct result *remove_pod(struct world *world, const char *name);
struct result *miss_pod(struct world *world, const char *name);
struct result *merchant_set(struct world *world, const char *id, const char *text);
struct result *allocate_for(struct world *world, const char *sid, const char *merchant);
struct result *allocate(struct world *world, const char *sid);
/* Calls with the names CA0, CA1 and so on; each gets a pod. */
void allocate_many(struct world *world, int count);
struct result *release(struct world *world, const char *sid);
struct result *renew(struct world *world, const char *sid);
struct result *heartbeat(struct world *world, const char *pod, const char *sid);
struct result *drain(struct world *world, const char *pod, uint64_t ttl_ms);
struct result *undrain(struct world *world, const char *pod);
struct result *move(struct world *world, const char *sid, const char *from, uint64_t aside_ms);
struct result *sweep(struct world *world);
/* A request that waits, without a holder; and with CARRIER as its holder. */
struct result *wait_for(struct world *world, const char *sid, const char *merchant);
struct result *wait_held(struct world *world, const char *sid);
struct result *resume(struct world *world, const char *sid, const char *pod_name);
/* CARRIER keeps a call that waits since then, at most until then; 0: it does not know. */
struct result *keep_waiting(struct world *world, const char *sid, uint64_t since_ms, uint64_t until_ms);
/* Its merchant_id and provider are added. */
struct result *keep_as(struct world *world, const char *holder, struct keep_call call);
/* For a stream that is held. */
struct result *hold_as(struct world *world, const char *carrier, const char *sid, uint64_t claim);
struct result *serve(struct world *world);
/* A renewal by CARRIER of a call that may be moved to another pod. */
struct result *carry_movable(struct world *world, const char *sid, const char *pod_name);
/* As the call itself and the list of calls say it. */
enum call_state state_of(struct world *world, const char *sid);
const struct waiting_call *waiting_of(struct world *world, const char *sid);
size_t waiting_count(struct world *world);
/* Of the request `attempt`; 0: the store gives it a number. */
struct result *ask(struct world *world, const char *sid, uint64_t attempt);
struct result *undo(struct world *world, const char *sid, uint64_t attempt);
struct result *release_as(struct world *world, const char *sid, const char *pod_name, enum finish_reason why);
/* The next three are commands of the process CARRIER; carry is a renewal that names the pod. */
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

/* The cases, by subject; each is a list that ends with an entry without a name. */
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
extern const struct world_case cases_history[];
extern const struct world_case cases_activity[];
extern const struct world_case cases_autoscale[];
extern const struct world_case cases_story[];
extern const struct world_case cases_line[];
extern const struct world_case cases_holders[];
extern const struct world_case cases_rescue[];
/* Of a store, not of core: the numbers that it gives to requests, and its events. */
extern const struct world_case cases_attempts[];
extern const struct world_case cases_events[];
extern const struct world_case cases_line_events[];

#endif
