/*
 * core_fixture.h - a core of its own, with a clock that the test moves on.
 *
 * Every command is followed by core_check. Only for the unit tests of core.
 */
#ifndef TEST_SUPPORT_CORE_FIXTURE_H
#define TEST_SUPPORT_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/core.h"

enum {
    MINUTE = 60000,
    HOUR = 60 * MINUTE,
    LEASE = 15 * MINUTE,
};

#define CARRIER "router-0" /* the process that holds, carries and leaves calls */

struct world {
    struct core *core;
    struct arena arena;
    struct result result;
    uint64_t now_ms;
};

static inline struct result *run(struct world *world, const struct command *command)
{
    char error[256] = "";

    assert_int_equal(core_execute(world->core, command, world->now_ms, &world->arena, &world->result), 0);
    if (!core_check(world->core, error, sizeof(error)))
        fail_msg("%s", error);
    return &world->result;
}

static inline struct result *tiers_set(struct world *world, const char *text)
{
    return run(world, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {.text = text}});
}

static inline void world_init_with(struct world *world, const char *tiers, uint64_t connect_timeout_ms)
{
    struct core_settings settings = {.lease_ttl_ms = LEASE,
                                     .call_max_duration_ms = 4 * HOUR,
                                     .connect_timeout_ms = connect_timeout_ms,
                                     .draining_ttl_ms = 6 * MINUTE,
                                     .heartbeat_ttl_ms = 90000};

    *world = (struct world){.now_ms = UINT64_C(1770000000000)};
    arena_init(&world->arena, 16 * 1024 * 1024);
    assert_int_equal(core_new(&settings, &world->core), 0);
    if (tiers)
        assert_int_equal(tiers_set(world, tiers)->outcome, OUTCOME_OK);
}

static inline void world_init(struct world *world, const char *tiers)
{
    world_init_with(world, tiers, 0);
}

static inline void world_release(struct world *world)
{
    core_free(world->core);
    arena_release(&world->arena);
}

static inline struct pod_seen seen_of(const char *name)
{
    return (struct pod_seen){.name = name,
                             .address = "10.0.0.1:8000",
                             .incarnation = "uid-1",
                             .source = POD_SOURCE_KUBERNETES,
                             .is_ready = true};
}

static inline struct result *see(struct world *world, struct pod_seen seen)
{
    return run(world, &(struct command){.type = COMMAND_POD_SEEN, .pod_seen = {.pod = seen}});
}

static inline void add_pods(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "voice-agent-%d", i);
        assert_int_equal(see(world, seen_of(name))->outcome, OUTCOME_OK);
        assert_true(world->result.pod_seen.is_new);
    }
}

static inline struct result *allocate_for(struct world *world, const char *sid, const char *merchant)
{
    return run(world, &(struct command){
                          .type = COMMAND_ALLOCATE,
                          .allocate = {.call_sid = sid, .merchant_id = merchant, .provider = "twilio"},
                      });
}

static inline struct result *allocate(struct world *world, const char *sid)
{
    return allocate_for(world, sid, "");
}

static inline struct result *release(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_RELEASE, .release = {.call_sid = sid}});
}

static inline struct result *renew(struct world *world, const char *sid)
{
    const char *sids[] = {sid};

    return run(world, &(struct command){.type = COMMAND_RENEW, .renew = {.call_sids = sids, .count = 1}});
}

static inline struct result *heartbeat(struct world *world, const char *pod, const char *sid)
{
    const char *sids[] = {sid};

    return run(world, &(struct command){.type = COMMAND_HEARTBEAT,
                                        .heartbeat = {.pod = pod, .call_sids = sids, .count = sid ? 1 : 0}});
}

static inline struct result *drain(struct world *world, const char *pod, uint64_t ttl_ms)
{
    return run(world, &(struct command){.type = COMMAND_DRAIN, .drain = {.pod = pod, .ttl_ms = ttl_ms}});
}

static inline struct result *sweep(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_SWEEP});
}

static inline const struct pod_info *pod(struct world *world, const char *name)
{
    run(world, &(struct command){.type = COMMAND_POD, .pod = {.name = name}});
    assert_int_equal(world->result.outcome, OUTCOME_OK);
    return &world->result.pod;
}

static inline bool pod_exists(struct world *world, const char *name)
{
    return run(world, &(struct command){.type = COMMAND_POD, .pod = {.name = name}})->outcome == OUTCOME_OK;
}

static inline const struct tier_status *tier(struct world *world, const char *name)
{
    run(world, &(struct command){.type = COMMAND_STATUS});
    for (size_t i = 0; i < world->result.status.tier_count; i++) {
        if (strcmp(world->result.status.tiers[i].name, name) == 0)
            return &world->result.status.tiers[i];
    }
    fail_msg("no tier %s", name);
    abort(); /* never reached, but the compiler cannot know */
}

static inline struct result *ask(struct world *world, const char *sid, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .attempt = attempt}});
}

static inline struct result *undo(struct world *world, const char *sid, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_UNDO, .undo = {sid, attempt}});
}

static inline struct result *hold(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_HOLD, .hold = {sid, CARRIER}});
}

static inline struct result *leave(struct world *world, const char *sid, uint64_t expires_at_ms)
{
    return run(world, &(struct command){.type = COMMAND_LEAVE, .leave = {sid, CARRIER, expires_at_ms}});
}

static inline struct result *release_as(struct world *world, const char *sid, const char *pod_name,
                                        enum call_over why)
{
    return run(world, &(struct command){.type = COMMAND_RELEASE,
                                        .release = {.call_sid = sid, .pod = pod_name, .why = why}});
}

/* A carrier's renewal that names the pod. */
static inline struct result *carry(struct world *world, const char *sid, const char *pod_name)
{
    const char *sids[] = {sid};
    const char *pods[] = {pod_name};

    return run(world, &(struct command){.type = COMMAND_RENEW, .renew = {sids, 1, CARRIER, pods}});
}

static inline struct result *move(struct world *world, const char *sid, const char *from)
{
    return run(world, &(struct command){.type = COMMAND_MOVE_CALL, .move = {sid, from, MINUTE, NULL}});
}

static inline const struct call_info *call_of(struct world *world, const char *sid)
{
    run(world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = sid}});
    assert_int_equal(world->result.outcome, OUTCOME_OK);
    return &world->result.call.call;
}

static inline bool call_exists(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = sid}})->outcome ==
           OUTCOME_OK;
}

static inline struct result *remove_pod(struct world *world, const char *name)
{
    return run(world, &(struct command){.type = COMMAND_POD_GONE, .pod_gone = {name, POD_SOURCE_KUBERNETES}});
}

/* The pod is deleted and comes back: its calls are lost, and no end of them is recorded. */
static inline void lose_calls_of(struct world *world, const char *name)
{
    assert_int_equal(remove_pod(world, name)->outcome, OUTCOME_OK);
    assert_int_equal(see(world, seen_of(name))->outcome, OUTCOME_OK);
}

#endif
