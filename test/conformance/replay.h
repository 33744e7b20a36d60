/* replay.h - what the files of replay-stores share: see replay.c. */
#ifndef TEST_CONFORMANCE_REPLAY_H
#define TEST_CONFORMANCE_REPLAY_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../support/redis_server.h"
#include "base/log.h"
#include "core/core.h"
#include "render.h"
#include "store/redis/redis.h"

enum {
    PODS = 14,
    SIDS = 48, /* so many at most end in one script */
    MERCHANTS = 6,
    SWEEP_EVERY_S = 30,
    LEASE_S = 900,
    TIMEOUT_S = 60, /* the store's: a slow machine is no difference between stores */
    ATTEMPTS = 2,   /* remembered of each call, to be undone */
    LATE_MAX = 16,
    ARENA_MAX = 64 * 1024 * 1024,
    TEXT_MAX = 1024 * 1024,
    SKIPPED = 77,
};

struct replay_pod {
    unsigned incarnation;
    enum pod_source source;
};

/* A script that the store has called, as Redis shows it to whoever watches. */
struct late {
    char *line;
    uint64_t sent_at_ms;
};

struct replay {
    const char *program;
    const char *shim;
    uint64_t seed;
    uint64_t random;
    uint64_t step;
    uint64_t now_ms;
    uint64_t swept_at_ms;
    uv_loop_t loop;
    struct redis_server server;
    struct store *store;
    struct core *core;
    struct arena arena;
    struct replay_pod pods[PODS];
    char sid_names[SIDS][16];
    char pod_names[PODS][24];
    struct strbuf history; /* the last commands, to be shown when something differs */
    uint64_t outcomes[COMMAND_TYPES][OUTCOMES];
    bool was_sent[COMMAND_TYPES]; /* as a step, or to compare the states */
    uint64_t ended[CALL_END_UNMENTIONED + 1];
    uint64_t moved;                       /* calls, to another pod */
    uint64_t aligned;                     /* pods of a removed tier that joined another one in Redis */
    char tiers[PODS][POOL_LABEL_MAX + 1]; /* of the pods, before this step */
    bool has_swept;                       /* in this step */
    struct strbuf told[2]; /* the calls that ended in this step, as core and the store told it */
    uint64_t attempts[SIDS][ATTEMPTS];
    uint64_t claims[4];         /* that streams got */
    uint64_t moved_at_ms[SIDS]; /* 0: never */
    uint64_t next_attempt;
    struct late late[LATE_MAX]; /* what was sent, to be sent again */
    size_t late_count;
    uint64_t late_sent;
    uint64_t outages;
    uint64_t revived;         /* renewed although the lease had run out */
    uint64_t adopted;         /* by a renewal that named the pod */
    uint64_t outlived;        /* calls that a new incarnation of their pod has kept */
    uint64_t absent;          /* pods that were not shown, and stayed for their calls */
    uint64_t kept;            /* pods that a sync knew nothing of but that they exist */
    uint64_t over;            /* renewals and heartbeats of calls whose end is recorded */
    uint64_t full_histories;  /* with as many versions as are kept */
    uint64_t past[PAST_ENDS]; /* calls in stories that ended that way */
    bool is_verbose;
    struct {
        uint64_t joined;
        uint64_t full;
        uint64_t taken;     /* by an allocation */
        uint64_t timed_out; /* found by an allocation */
        uint64_t over;      /* resumed after their end was recorded */
        uint64_t left;
        uint64_t granted; /* by serve alone */
        uint64_t ended[WAIT_ENDS];
        uint64_t kept[KEEP_ELSEWHERE + 1];
        uint64_t departed;
        uint64_t rescued; /* calls in line that had a pod */
        uint64_t notes;
    } line;
    struct {
        struct strbuf core; /* what routers were told by this command */
        struct strbuf redis;
        int raw;
        bool is_alive; /* CARRIER, before this command */
        bool is_move;  /* of moved_sid, by this command */
        char moved_sid[CALL_SID_MAX + 1];
        char holders[SIDS][CARRIER_MAX + 1]; /* of waiting and granted calls; else CARRIER; "": nobody */
        char pods[SIDS][POD_NAME_MAX + 1];   /* of live calls, as Redis has them */
    } notes;
};

#define CARRIER "router-1"
#define REPLAY_DEAD "router-9" /* a process that is never alive */

#define REPLAY_FAIL(replay, ...)                                                                             \
    do {                                                                                                     \
        fprintf(stderr, "%s\nFAILED: ", (replay)->history.data ? (replay)->history.data : "");               \
        fprintf(stderr, __VA_ARGS__);                                                                        \
        fprintf(stderr, "\nreproduce: %s --shim %s --seed %" PRIu64 " --steps %" PRIu64 "\n",                \
                (replay)->program, (replay)->shim, (replay)->seed, (replay)->step + 1);                      \
        log_flush();                                                                                         \
        redis_server_stop(&(replay)->server);                                                                \
        exit(1);                                                                                             \
    } while (0)

uint64_t replay_random(struct replay *replay);
unsigned pick(struct replay *replay, unsigned count);
/* One of them alone; a failure ends the program. */
const struct result *on_store(struct replay *replay, const struct command *command);
const struct result *on_core(struct replay *replay, const struct command *command);
/* Both, and their answers are the same; core's. */
const struct result *both(struct replay *replay, struct command *command);
void count_ended(struct replay *replay, const struct ended_array *ended);
size_t sid_index(const char *call_sid);
const char *some_provider(struct replay *replay);
/* Mostly a call that is there; NULL: take any name. */
const struct call_info *some_call(struct replay *replay, size_t at);

/* replay_raw.c: a second connection to Redis */
int raw_connect(struct replay *replay);
void raw_send(struct replay *replay, int fd, const char *line);
/* The next line, without its end, in the arena. */
char *raw_line(struct replay *replay, int fd);

/* Mostly a call that waits; NULL: take any name. */
const struct waiting_call *some_waiting(struct replay *replay, size_t at);
/* Of a stream of this call, or of another one (NULL). */
uint64_t some_claim(struct replay *replay, const struct waiting_call *known);

/* replay_line.c: what routers are told */
void notes_open(struct replay *replay);
/* Before each command. */
void notes_begin(struct replay *replay);
/* Redis has executed the command: core is to choose the same pods, and to tell the same routers. */
void notes_expect(struct replay *replay, const struct command *command, const struct result *redis);
/* Both have executed it, and have told the same. */
void notes_compare(struct replay *replay);
void notes_close(struct replay *replay);

/* Each is one step, chosen at random by replay_step(), and its weight. */
// clang-format off
#define REPLAY_STEPS(X) \
    X(allocate, 24) \
    X(wait, 24) \
    X(ask_again, 3) \
    X(keep, 6) \
    X(serve, 8) \
    X(line_leave, 4) \
    X(line_pages, 1) \
    X(depart, 2) \
    X(release, 12) \
    X(renew, 6) \
    X(heartbeat, 10) \
    X(drain, 4) \
    X(pod_seen, 14) \
    X(pod_gone, 3) \
    X(sync, 3) \
    X(sweep, 3) \
    X(rebalance, 3) \
    X(scale, 3) \
    X(tiers, 1) \
    X(merchant, 2) \
    X(time, 8) \
    X(query, 4) \
    X(pages, 1) \
    X(move, 6) \
    X(leave, 6) \
    X(hold, 6) \
    X(undo, 6) \
    X(renew_carried, 8) \
    X(outage, 1) \
    X(watched, 1) \
    X(late, 1) \
    X(present, 1)
// clang-format on
#define REPLAY_STEP(name, weight) void step_##name(struct replay *replay);
REPLAY_STEPS(REPLAY_STEP)
#undef REPLAY_STEP

#endif
