/*
 * sim_core.c - random operations on core, with a second opinion.
 *
 * Every step carries out one random command: calls come and go, time passes, leases expire, pods flap,
 * restart, vanish and drain, the configuration changes, the process restarts from its records. After every
 * step core_check() looks at everything, and a shadow - a few arrays that only know what core has answered -
 * says whether the answers fit together: no call with two pods, no call lost without a reason that was given,
 * no pod with more calls than it may have.
 *
 * A run is reproduced by its seed: sim-core --seed N --steps N
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/strbuf.h"
#include "core/core.h"

enum {
    PODS = 14,
    SIDS = 60,
    MERCHANTS = 6,
    ARENA_MAX = 4 * 1024 * 1024,
    DUMP_MAX = 1024 * 1024,
};

struct shadow_call {
    bool is_known; /* answered with success, and no end was reported */
    int pod;
    uint64_t allocated_at_ms;
    uint64_t expires_at_ms;
};

struct shadow_pod {
    unsigned incarnation;
    unsigned accepted; /* the incarnation that core was last told with success */
    enum pod_source source;
    uint32_t last_load;
};

struct sim {
    uint64_t seed;
    uint64_t random;
    uint64_t step;
    uint64_t now_ms;
    struct core_settings settings;
    struct core *core;
    struct core *replica; /* fed with nothing but the records */
    struct arena arena;
    struct command command;
    struct result result;
    struct shadow_call calls[SIDS];
    struct shadow_pod pods[PODS];
    char sid_names[SIDS][16];
    char pod_names[PODS][24];
    uint64_t outcomes[COMMAND_TYPES][OUTCOME_CONFLICT + 1];
    uint64_t moved;
    uint64_t restarts;
    uint64_t ended[4];
};

static uint64_t sim_random(struct sim *sim)
{
    uint64_t z = (sim->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static unsigned pick(struct sim *sim, unsigned count)
{
    return (unsigned)(sim_random(sim) % count);
}

#define SIM_FAIL(sim, ...)                                                                                   \
    do {                                                                                                     \
        fprintf(stderr, "\nFAILED: ");                                                                       \
        fprintf(stderr, __VA_ARGS__);                                                                        \
        fprintf(stderr, "\nreproduce: sim-core --seed %" PRIu64 " --steps %" PRIu64 " (command %d)\n",       \
                (sim)->seed, (sim)->step + 1, (int)(sim)->command.type);                                     \
        exit(1);                                                                                             \
    } while (0)

#define SIM_CHECK(sim, condition, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            SIM_FAIL(sim, __VA_ARGS__);                                                                      \
    } while (0)

static int index_of(struct sim *sim, const char *name, const char *prefix)
{
    SIM_CHECK(sim, strncmp(name, prefix, strlen(prefix)) == 0, "unexpected name %s", name);
    return (int)strtol(name + strlen(prefix), NULL, 10);
}

static struct shadow_call *shadow_call(struct sim *sim, const char *sid)
{
    return &sim->calls[index_of(sim, sid, "CA")];
}

static bool is_live(const struct sim *sim, const struct shadow_call *call)
{
    return call->is_known && call->expires_at_ms > sim->now_ms;
}

static void replicate(void *arg, const struct record *record)
{
    struct sim *sim = arg;
    int rc = core_apply(sim->replica, record);

    SIM_CHECK(sim, rc == 0, "record of type %d cannot be applied: %d", (int)record->type, rc);
}

static void execute(struct sim *sim)
{
    int rc = core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &sim->result);

    SIM_CHECK(sim, rc == 0, "core_execute: %d", rc);
    sim->outcomes[sim->command.type][sim->result.outcome]++;
}

/* Core says that a call has ended: it must have been alive, on that pod, and with a reason. */
static void shadow_end(void *arg, const struct ended_call *end)
{
    struct sim *sim = arg;
    struct shadow_call *call = shadow_call(sim, end->call_sid);

    SIM_CHECK(sim, call->is_known, "call %s ended but was not there", end->call_sid);
    SIM_CHECK(sim, call->pod == index_of(sim, end->pod, "voice-agent-"), "call %s ended on the wrong pod",
              end->call_sid);
    if (end->why == CALL_END_EXPIRED)
        SIM_CHECK(sim, !is_live(sim, call), "call %s expired too early", end->call_sid);
    if (end->why == CALL_END_UNMENTIONED)
        SIM_CHECK(sim, sim->now_ms - call->allocated_at_ms > HEARTBEAT_YOUNG_MS, "call %s ended too young",
                  end->call_sid);
    call->is_known = false;
    sim->ended[end->why]++;
}

/* What an answer names as ended has been told before. */
static void check_ended(struct sim *sim, const struct ended_array *ended)
{
    for (size_t i = 0; i < ended->count; i++)
        SIM_CHECK(sim, !shadow_call(sim, ended->calls[i].call_sid)->is_known,
                  "nobody was told of the end of %s", ended->calls[i].call_sid);
}

static void sim_allocate(struct sim *sim)
{
    const char *sid = sim->sid_names[pick(sim, SIDS)];
    char merchant[16] = "";
    struct shadow_call *call = shadow_call(sim, sid);
    const struct result *result = &sim->result;
    bool was_live = is_live(sim, call);

    if (pick(sim, 2))
        snprintf(merchant, sizeof(merchant), "m%u", pick(sim, MERCHANTS));
    sim->command =
        (struct command){.type = COMMAND_ALLOCATE,
                         .allocate = {.call_sid = sid, .merchant_id = merchant, .provider = "twilio"}};
    execute(sim);
    if (result->outcome == OUTCOME_NO_PODS) {
        SIM_CHECK(sim, !was_live, "call %s was refused although it has a pod", sid);
        SIM_CHECK(sim, result->allocate.refusal->count > 0, "a refusal without a chain");
        for (size_t i = 0; i < result->allocate.refusal->count; i++)
            SIM_CHECK(sim, result->allocate.refusal->steps[i].by_state[POD_AVAILABLE] == 0,
                      "refused although %s has a pod", result->allocate.refusal->steps[i].pool);
        return;
    }
    SIM_CHECK(sim, result->outcome == OUTCOME_OK, "allocate: outcome %d", (int)result->outcome);
    SIM_CHECK(sim, result->allocate.was_existing == was_live, "call %s: was_existing is wrong", sid);
    if (result->allocate.was_existing) {
        SIM_CHECK(sim, index_of(sim, result->allocate.call.pod, "voice-agent-") == call->pod,
                  "call %s got a second pod", sid);
        return;
    }
    *call = (struct shadow_call){true, index_of(sim, result->allocate.call.pod, "voice-agent-"), sim->now_ms,
                                 sim->now_ms + sim->settings.call_max_duration_ms};
}

static void sim_release(struct sim *sim)
{
    const char *sid = sim->sid_names[pick(sim, SIDS)];
    struct shadow_call *call = shadow_call(sim, sid);

    sim->command = (struct command){.type = COMMAND_RELEASE, .release = {.call_sid = sid}};
    execute(sim);
    SIM_CHECK(sim, (sim->result.outcome == OUTCOME_OK) == call->is_known, "release of %s: outcome %d", sid,
              (int)sim->result.outcome);
    if (sim->result.outcome == OUTCOME_OK)
        SIM_CHECK(sim, index_of(sim, sim->result.release.call.pod, "voice-agent-") == call->pod,
                  "release of %s freed another pod", sid);
    call->is_known = false;
}

static void shadow_move(struct sim *sim, struct shadow_call *call, int from)
{
    const struct call_info *now = &sim->result.move.call;
    int pod = index_of(sim, now->pod, "voice-agent-");

    SIM_CHECK(sim, sim->result.move.was_moved == (call->pod == from), "call %s: was_moved is wrong",
              now->call_sid);
    SIM_CHECK(sim, pod != from, "call %s came back to the pod that it was taken from", now->call_sid);
    SIM_CHECK(sim, now->allocated_at_ms == call->allocated_at_ms, "call %s got another age", now->call_sid);
    if (!sim->result.move.was_moved) {
        SIM_CHECK(sim, pod == call->pod, "call %s was moved although it was elsewhere", now->call_sid);
        return;
    }
    sim->moved++;
    call->pod = pod;
    call->expires_at_ms = sim->now_ms + sim->settings.call_max_duration_ms;
}

static void check_move_refused(struct sim *sim, const struct shadow_call *call, int from)
{
    const struct refusal *refusal = sim->result.move.refusal;

    SIM_CHECK(sim, call->pod == from, "a call was refused a pod although it was elsewhere");
    SIM_CHECK(sim, refusal->count > 0, "a refusal without a chain");
    for (size_t i = 0; i < refusal->count; i++)
        SIM_CHECK(sim, refusal->steps[i].by_state[POD_AVAILABLE] == 0, "refused although %s has a pod",
                  refusal->steps[i].pool);
}

/* A call, mostly one that is there. */
static unsigned known_or_any(struct sim *sim)
{
    unsigned at = pick(sim, SIDS);

    for (unsigned i = 0; at < 50 && i < SIDS; i++) {
        if (sim->calls[(at + i) % SIDS].is_known)
            return (at + i) % SIDS;
    }
    return at;
}

static void sim_move(struct sim *sim)
{
    const char *sid = sim->sid_names[known_or_any(sim)];
    struct shadow_call *call = shadow_call(sim, sid);
    int from = call->is_known && pick(sim, 4) ? call->pod : (int)pick(sim, PODS);
    bool was_live = is_live(sim, call);
    struct result pod;

    sim->command = (struct command){
        .type = COMMAND_MOVE_CALL,
        .move = {.call_sid = sid, .from_pod = sim->pod_names[from], .aside_ms = pick(sim, 100000)}};
    execute(sim);
    SIM_CHECK(sim, (sim->result.outcome == OUTCOME_NOT_FOUND) == !was_live, "move of %s: outcome %d", sid,
              (int)sim->result.outcome);
    if (!was_live)
        return;
    if (sim->result.outcome == OUTCOME_OK)
        shadow_move(sim, call, from);
    else
        check_move_refused(sim, call, from);
    if (sim->result.outcome == OUTCOME_OK && !sim->result.move.was_moved)
        return;
    sim->command = (struct command){.type = COMMAND_POD, .pod = {.name = sim->pod_names[from]}};
    SIM_CHECK(sim, core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &pod) == 0,
              "query failed");
    SIM_CHECK(sim, pod.outcome == OUTCOME_OK && pod.pod.state == POD_DRAINING, "%s was not put aside",
              sim->pod_names[from]);
}

static size_t some_sids(struct sim *sim, const char **sids, size_t max)
{
    size_t count = pick(sim, (unsigned)max + 1);

    for (size_t i = 0; i < count; i++)
        sids[i] = sim->sid_names[pick(sim, SIDS)];
    return count;
}

static void sim_renew(struct sim *sim)
{
    const char *sids[8];
    size_t count = some_sids(sim, sids, ARRAY_LEN(sids));

    sim->command = (struct command){.type = COMMAND_RENEW, .renew = {.call_sids = sids, .count = count}};
    execute(sim);
    for (size_t i = 0; i < sim->result.renew.renewed.count; i++) {
        struct shadow_call *call = shadow_call(sim, sim->result.renew.renewed.names[i]);

        SIM_CHECK(sim, is_live(sim, call), "renewed a call that is not alive");
        call->expires_at_ms = sim->now_ms + sim->settings.lease_ttl_ms;
    }
    for (size_t i = 0; i < sim->result.renew.unknown.count; i++) {
        struct shadow_call *call = shadow_call(sim, sim->result.renew.unknown.names[i]);

        SIM_CHECK(sim, !is_live(sim, call), "did not renew a call that is alive");
    }
    SIM_CHECK(sim, sim->result.renew.renewed.count + sim->result.renew.unknown.count == count,
              "renew lost a call");
}

static void shadow_heartbeat(struct sim *sim, int pod, const char *const *sids, size_t count)
{
    const struct result *result = &sim->result;

    for (size_t i = 0; i < result->heartbeat.renewed.count; i++) {
        struct shadow_call *call = shadow_call(sim, result->heartbeat.renewed.names[i]);

        SIM_CHECK(sim, call->is_known && call->pod == pod, "heartbeat renewed a call of another pod");
        call->expires_at_ms = sim->now_ms + sim->settings.lease_ttl_ms;
    }
    check_ended(sim, &result->heartbeat.ended);
    SIM_CHECK(sim,
              result->heartbeat.renewed.count + result->heartbeat.adopted.count +
                      result->heartbeat.conflicts.count ==
                  count,
              "heartbeat lost a call");
    for (size_t i = 0; i < result->heartbeat.ended.count; i++) {
        for (size_t k = 0; k < count; k++)
            SIM_CHECK(sim, strcmp(result->heartbeat.ended.calls[i].call_sid, sids[k]) != 0,
                      "heartbeat ended a call that it listed");
    }
}

static void sim_heartbeat(struct sim *sim)
{
    int pod = (int)pick(sim, PODS);
    const char *sids[8];
    size_t count = 0;

    /* Mostly what the pod really carries, sometimes something else as well. */
    for (int i = 0; i < SIDS && count < 6; i++) {
        if (sim->calls[i].is_known && sim->calls[i].pod == pod && pick(sim, 4))
            sids[count++] = sim->sid_names[i];
    }
    if (pick(sim, 4) == 0)
        count += some_sids(sim, sids + count, 2);
    sim->command =
        (struct command){.type = COMMAND_HEARTBEAT,
                         .heartbeat = {.pod = sim->pod_names[pod], .call_sids = sids, .count = count}};
    execute(sim);
    if (sim->result.outcome == OUTCOME_NOT_FOUND)
        return;
    for (size_t i = 0; i < sim->result.heartbeat.adopted.count; i++) {
        struct shadow_call *call = shadow_call(sim, sim->result.heartbeat.adopted.names[i]);

        SIM_CHECK(sim, !is_live(sim, call), "heartbeat adopted a call that has a pod");
        *call = (struct shadow_call){true, pod, sim->now_ms, sim->now_ms + sim->settings.lease_ttl_ms};
    }
    shadow_heartbeat(sim, pod, sids, count);
}

static void sim_drain(struct sim *sim)
{
    const char *pod = sim->pod_names[pick(sim, PODS)];

    if (pick(sim, 3))
        sim->command =
            (struct command){.type = COMMAND_DRAIN, .drain = {.pod = pod, .ttl_ms = pick(sim, 200000)}};
    else
        sim->command = (struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = pod}};
    execute(sim);
}

/* One observation of pod number `at`, of whatever has become of it. */
static struct pod_seen random_seen(struct sim *sim, unsigned at, char incarnation[16])
{
    struct shadow_pod *pod = &sim->pods[at];

    if (pick(sim, 40) == 0)
        pod->incarnation++;
    snprintf(incarnation, 16, "uid-%u", pod->incarnation);
    return (struct pod_seen){
        .name = sim->pod_names[at],
        .address = pick(sim, 2) ? "10.0.0.1:8000" : "",
        .incarnation = pod->source == POD_SOURCE_STATIC ? NULL : incarnation,
        .tier = pick(sim, 30) == 0 ? "standard" : NULL,
        .source = pod->source,
        .is_ready = pick(sim, 5) != 0,
        .is_terminating = pick(sim, 20) == 0,
        .hold_back = pick(sim, 6) == 0,
    };
}

static void sim_pod_seen(struct sim *sim)
{
    unsigned at = pick(sim, PODS);
    char incarnation[16];
    struct pod_seen seen = random_seen(sim, at, incarnation);
    bool is_registration = seen.source == POD_SOURCE_API;

    if (is_registration) {
        seen.is_ready = true;
        seen.is_terminating = false;
    }
    sim->command = (struct command){.type = COMMAND_POD_SEEN,
                                    .pod_seen = {.pod = seen, .is_registration = is_registration}};
    execute(sim);
    /* A readiness blip, a drain, a new address: none of them ends a call. */
    if (sim->result.outcome != OUTCOME_OK)
        return;
    SIM_CHECK(sim,
              sim->pods[at].accepted != sim->pods[at].incarnation || sim->result.pod_seen.ended.count == 0,
              "an observation of the same incarnation ended a call");
    sim->pods[at].accepted = sim->pods[at].incarnation;
    check_ended(sim, &sim->result.pod_seen.ended);
}

static void sim_pod_gone(struct sim *sim)
{
    unsigned at = pick(sim, PODS);

    sim->command = (struct command){.type = COMMAND_POD_GONE,
                                    .pod_gone = {.pod = sim->pod_names[at], .source = sim->pods[at].source}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome != OUTCOME_CONFLICT, "pod %s has an unexpected source",
              sim->pod_names[at]);
    if (sim->result.outcome == OUTCOME_OK)
        check_ended(sim, &sim->result.pod_gone.ended);
}

static void sim_sync(struct sim *sim)
{
    enum pod_source source = pick(sim, 2) ? POD_SOURCE_KUBERNETES : POD_SOURCE_STATIC;
    struct pod_seen seen[PODS];
    char incarnations[PODS][16];
    size_t count = 0;

    for (unsigned i = 0; i < PODS; i++) {
        if (sim->pods[i].source == source && pick(sim, 8))
            seen[count++] = random_seen(sim, i, incarnations[i]);
    }
    sim->command =
        (struct command){.type = COMMAND_SYNC, .sync = {.source = source, .pods = seen, .count = count}};
    execute(sim);
    if (sim->result.outcome != OUTCOME_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        struct shadow_pod *pod = &sim->pods[index_of(sim, seen[i].name, "voice-agent-")];

        pod->accepted = pod->incarnation;
    }
    check_ended(sim, &sim->result.sync.ended);
}

static void check_nothing_lost(struct sim *sim)
{
    struct result pods;

    sim->command = (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}};
    SIM_CHECK(sim, core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &pods) == 0,
              "query failed");
    for (size_t i = 0; i < pods.pods.count; i++) {
        const struct pod_info *pod = &pods.pods.pods[i];

        SIM_CHECK(sim, pod->state != POD_DRAINING || pod->is_draining, "%s is lost in a drain that has ended",
                  pod->name);
        SIM_CHECK(sim, pod->state != POD_SUSPENDED || pod->is_ready || pod->calls.count,
                  "%s is suspended for nothing", pod->name);
    }
}

static void sim_sweep(struct sim *sim)
{
    do {
        sim->command = (struct command){.type = COMMAND_SWEEP, .sweep = {.limit = 1 + pick(sim, 20)}};
        execute(sim);
        check_ended(sim, &sim->result.sweep.ended);
    } while (sim->result.sweep.more);
    for (int i = 0; i < SIDS; i++)
        SIM_CHECK(sim, !sim->calls[i].is_known || is_live(sim, &sim->calls[i]), "the sweep left a dead call");
    check_nothing_lost(sim);
}

static void sim_rebalance(struct sim *sim)
{
    sim->command = (struct command){.type = COMMAND_REBALANCE, .rebalance = {.limit = pick(sim, 5)}};
    execute(sim);
}

static void sim_tiers(struct sim *sim)
{
    static const char *const configs[] = {
        "{}",
        "{\"gold\":2,\"standard\":3,\"basic\":{\"type\":\"shared\",\"target\":2,\"max_concurrent\":4}}",
        "{\"standard\":{\"type\":\"shared\",\"max_concurrent\":2,\"target\":4}}",
        "{\"tiers\":{\"standard\":2,\"vip\":{\"target\":2,\"reserved\":true},\"merchant:m1\":{\"target\":2}},"
        "\"default_chain\":[\"standard\"]}",
        "{\"basic\":{\"type\":\"exclusive\",\"target\":3},\"gold\":{\"type\":\"shared\",\"max_concurrent\":2,"
        "\"target\":2}}",
        "{\"a\":1,\"b\":{\"type\":\"shared\",\"target\":3,\"max_concurrent\":1}}",
        "{\"a\":-1}",
        "nonsense",
    };

    sim->command = (struct command){.type = COMMAND_TIERS_SET,
                                    .tiers_set = {.text = configs[pick(sim, (unsigned)ARRAY_LEN(configs))]}};
    execute(sim);
}

static void sim_merchant(struct sim *sim)
{
    static const char *const configs[] = {
        "{\"tier\":\"gold\"}",       "{\"tier\":\"standard\"}",
        "{\"pool\":\"m1\"}",         "{\"fallback\":[\"basic\",\"a\"]}",
        "{\"tier\":\"vip\"}",        "{}",
        "{\"pool\":\"nobody\"}",     "{\"tier\":\"b\"}",
        "{\"fallback\":[\"none\"]}", "{\"tier\":7}",
    };
    char id[16];

    snprintf(id, sizeof(id), "m%u", pick(sim, MERCHANTS));
    if (pick(sim, 4))
        sim->command = (struct command){
            .type = COMMAND_MERCHANT_SET,
            .merchant_set = {.merchant_id = id, .text = configs[pick(sim, (unsigned)ARRAY_LEN(configs))]}};
    else
        sim->command = (struct command){.type = COMMAND_MERCHANT_REMOVE, .merchant = {.merchant_id = id}};
    execute(sim);
}

/* Mostly milliseconds; sometimes long enough for drains, leases or everything to run out. */
static void sim_time(struct sim *sim)
{
    unsigned kind = pick(sim, 100);

    sim->now_ms += kind < 80 ? pick(sim, 2000) : kind < 97 ? pick(sim, 60000) : pick(sim, 1200000);
}

static void dump_line(void *arg, const struct record *record)
{
    struct strbuf *buf = arg;

    switch (record->type) {
    case RECORD_TIERS:
        strbuf_printf(buf, "T %s\n", record->tiers.text);
        break;
    case RECORD_MERCHANT:
        strbuf_printf(buf, "M %s %s\n", record->merchant.id, record->merchant.text);
        break;
    case RECORD_POD:
        strbuf_printf(buf, "P %s %s %s %s %d %d%d%d %" PRIu64 " %" PRIu64 "\n", record->pod.name,
                      record->pod.address, record->pod.incarnation, record->pod.tier, (int)record->pod.source,
                      record->pod.is_ready, record->pod.is_terminating, record->pod.is_pinned,
                      record->pod.draining_until_ms, record->pod.held_until_ms);
        break;
    case RECORD_CALL:
        strbuf_printf(buf, "C %s %s %s %s %s %" PRIu64 " %" PRIu64 "\n", record->call.call_sid,
                      record->call.pod, record->call.pool, record->call.merchant_id, record->call.provider,
                      record->call.allocated_at_ms, record->call.expires_at_ms);
        break;
    default:
        strbuf_printf(buf, "? %d\n", (int)record->type);
    }
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The dump with its lines sorted, because slots and hash tables may differ in their order. */
static const char *sorted_dump(struct sim *sim, const struct core *core)
{
    char **lines = arena_alloc(&sim->arena, (PODS + SIDS + MERCHANTS + 1) * sizeof(*lines));
    struct strbuf raw, sorted;
    size_t count = 0;

    strbuf_init(&raw, &sim->arena, DUMP_MAX);
    strbuf_init(&sorted, &sim->arena, DUMP_MAX);
    core_dump(core, dump_line, &raw);
    SIM_CHECK(sim, lines && !strbuf_failed(&raw), "the dump is too long");
    for (char *line = raw.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        lines[count++] = line;
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++)
        strbuf_printf(&sorted, "%s\n", lines[i]);
    SIM_CHECK(sim, !strbuf_failed(&sorted), "the dump is too long");
    return sorted.data;
}

/* What the records say must be what core is. */
static void check_replica(struct sim *sim)
{
    const char *original = sorted_dump(sim, sim->core);
    const char *replica = sorted_dump(sim, sim->replica);
    char error[256];

    if (strcmp(original, replica) != 0)
        SIM_FAIL(sim, "the records do not tell the whole story:\n%s\nbut from the records:\n%s", original,
                 replica);
    if (!core_check(sim->replica, error, sizeof(error)))
        SIM_FAIL(sim, "the replica is broken: %s", error);
}

static struct core *new_core(struct sim *sim)
{
    struct core *core = NULL;

    SIM_CHECK(sim, core_new(&sim->settings, &core) == 0, "core_new");
    return core;
}

static void replicate_to(void *arg, const struct record *record)
{
    int rc = core_apply(arg, record);

    if (rc) {
        fprintf(stderr, "a dumped record of type %d cannot be applied: %d\n", (int)record->type, rc);
        abort();
    }
}

/* Nobody could be heard for a while: every lease has as long again. */
static void shadow_forgive(struct sim *sim)
{
    uint64_t lease_end_ms = sim->now_ms + sim->settings.lease_ttl_ms;

    for (int i = 0; i < SIDS; i++) {
        if (sim->calls[i].expires_at_ms < lease_end_ms)
            sim->calls[i].expires_at_ms = lease_end_ms;
    }
}

/* A full disk, a stopped process. */
static void sim_deaf(struct sim *sim)
{
    sim->now_ms += pick(sim, 3600000);
    core_listens_again(sim->core, sim->now_ms);
    core_listens_again(sim->replica, sim->now_ms); /* it has no record of this */
    shadow_forgive(sim);
}

/* The process dies; the next one has the records, or a dump of them, and nothing else. */
static void sim_restart(struct sim *sim)
{
    struct core *next = new_core(sim);

    check_replica(sim);
    core_free(sim->core);
    sim->core = sim->replica;
    sim->replica = next;
    core_loaded(sim->core, sim->now_ms);
    core_dump(sim->core, replicate_to, next);
    core_on_record(sim->core, replicate, sim);
    core_on_ended(sim->core, shadow_end, sim);
    shadow_forgive(sim);
    sim->restarts++;
}

/* Core's list of calls is the shadow's, no more and no less. */
static void check_calls(struct sim *sim)
{
    struct result calls;
    size_t known = 0;

    sim->command = (struct command){.type = COMMAND_CALLS, .calls = {.limit = PAGE_MAX}};
    SIM_CHECK(sim, core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &calls) == 0,
              "query failed");
    for (size_t i = 0; i < calls.calls.count; i++) {
        const struct call_info *info = &calls.calls.calls[i];
        const struct shadow_call *call = shadow_call(sim, info->call_sid);

        SIM_CHECK(sim, call->is_known, "call %s is there but nobody was told", info->call_sid);
        SIM_CHECK(sim, call->pod == index_of(sim, info->pod, "voice-agent-"),
                  "call %s is on %s instead of %d", info->call_sid, info->pod, call->pod);
        SIM_CHECK(sim, call->expires_at_ms == info->expires_at_ms, "call %s has another lease",
                  info->call_sid);
    }
    for (int i = 0; i < SIDS; i++)
        known += sim->calls[i].is_known;
    SIM_CHECK(sim, known == calls.calls.count, "%zu calls were acknowledged, %zu are there", known,
              calls.calls.count);
}

/* Invariant 1, seen from outside: more calls than allowed only where a change of configuration left them. */
static void check_loads(struct sim *sim)
{
    struct result pods, status;
    uint32_t loads[PODS] = {0};

    sim->command = (struct command){.type = COMMAND_STATUS};
    SIM_CHECK(sim, core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &status) == 0,
              "query failed");
    sim->command = (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}};
    SIM_CHECK(sim, core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &pods) == 0,
              "query failed");
    for (size_t i = 0; i < pods.pods.count; i++) {
        const struct pod_info *pod = &pods.pods.pods[i];
        int at = index_of(sim, pod->name, "voice-agent-");
        uint32_t max = 0;

        for (size_t k = 0; k < status.status.tier_count; k++) {
            if (strcmp(status.status.tiers[k].name, pod->tier) == 0)
                max = status.status.tiers[k].max_concurrent;
        }
        loads[at] = (uint32_t)pod->calls.count;
        SIM_CHECK(sim, max > 0, "pod %s is in an unknown tier", pod->name);
        SIM_CHECK(sim, loads[at] <= max || loads[at] <= sim->pods[at].last_load,
                  "pod %s carries %u calls of %u", pod->name, loads[at], max);
    }
    for (int i = 0; i < PODS; i++)
        sim->pods[i].last_load = loads[i];
}

static void sim_step(struct sim *sim)
{
    static const struct {
        void (*run)(struct sim *sim);
        unsigned weight;
    } operations[] = {
        {sim_allocate, 30}, {sim_release, 12},  {sim_renew, 6},    {sim_heartbeat, 10},
        {sim_drain, 4},     {sim_pod_seen, 14}, {sim_pod_gone, 2}, {sim_sync, 2},
        {sim_sweep, 5},     {sim_rebalance, 3}, {sim_tiers, 1},    {sim_merchant, 2},
        {sim_time, 8},      {sim_restart, 1},   {sim_deaf, 1},     {sim_move, 4},
    };
    unsigned total = 0;
    unsigned chosen;
    char error[256];

    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        total += operations[i].weight;
    chosen = pick(sim, total);
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        if (chosen < operations[i].weight) {
            operations[i].run(sim);
            break;
        }
        chosen -= operations[i].weight;
    }
    if (!core_check(sim->core, error, sizeof(error)))
        SIM_FAIL(sim, "%s", error);
    check_calls(sim);
    check_loads(sim);
    if (sim->step % 64 == 0)
        check_replica(sim);
    arena_reset(&sim->arena);
}

static void report(const struct sim *sim)
{
    uint64_t allocated = sim->outcomes[COMMAND_ALLOCATE][OUTCOME_OK];

    printf("seed %" PRIu64 ": %" PRIu64 " steps, no invariant broken (%" PRIu64 " allocations, %" PRIu64
           " refused, %" PRIu64 " releases, calls ended: %" PRIu64 " expired, %" PRIu64 " pod gone, %" PRIu64
           " restarted, %" PRIu64 " unmentioned; %" PRIu64 " moved; %" PRIu64 " restarts)\n",
           sim->seed, sim->step, allocated, sim->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS],
           sim->outcomes[COMMAND_RELEASE][OUTCOME_OK], sim->ended[CALL_END_EXPIRED],
           sim->ended[CALL_END_POD_GONE], sim->ended[CALL_END_RESTARTED], sim->ended[CALL_END_UNMENTIONED],
           sim->moved, sim->restarts);
}

/* A run in which something never happened has tested less than it says. */
static int nothing_was_left_out(const struct sim *sim)
{
    return sim->outcomes[COMMAND_ALLOCATE][OUTCOME_OK] && sim->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS] &&
           sim->ended[CALL_END_EXPIRED] && sim->ended[CALL_END_POD_GONE] && sim->ended[CALL_END_RESTARTED] &&
           sim->ended[CALL_END_UNMENTIONED] && sim->restarts && sim->moved &&
           sim->outcomes[COMMAND_MOVE_CALL][OUTCOME_NO_PODS] &&
           sim->outcomes[COMMAND_TIERS_SET][OUTCOME_INVALID];
}

int main(int argc, char **argv)
{
    static struct sim sim;
    uint64_t steps = 100000;

    sim.seed = (uint64_t)time(NULL);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            sim.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0)
            steps = strtoull(argv[i + 1], NULL, 10);
        else
            return fprintf(stderr, "usage: sim-core [--seed N] [--steps N]\n"), 2;
    }
    printf("seed %" PRIu64 "\n", sim.seed);
    fflush(stdout);
    sim.random = sim.seed;
    sim.now_ms = UINT64_C(1770000000000);
    sim.settings = (struct core_settings){.lease_ttl_ms = 900000,
                                          .call_max_duration_ms = 3600000,
                                          .draining_ttl_ms = 360000,
                                          .heartbeat_ttl_ms = 90000};
    arena_init(&sim.arena, ARENA_MAX);
    for (unsigned i = 0; i < SIDS; i++)
        snprintf(sim.sid_names[i], sizeof(sim.sid_names[i]), "CA%u", i);
    for (unsigned i = 0; i < PODS; i++) {
        snprintf(sim.pod_names[i], sizeof(sim.pod_names[i]), "voice-agent-%u", i);
        sim.pods[i].source = i % 3 == 0   ? POD_SOURCE_API
                             : i % 3 == 1 ? POD_SOURCE_STATIC
                                          : POD_SOURCE_KUBERNETES;
    }
    sim.core = new_core(&sim);
    sim.replica = new_core(&sim);
    core_on_record(sim.core, replicate, &sim);
    core_on_ended(sim.core, shadow_end, &sim);
    for (sim.step = 0; sim.step < steps; sim.step++) {
        sim_step(&sim);
        if (sim.step && sim.step % 1000000 == 0)
            fprintf(stderr, "%" PRIu64 " steps\n", sim.step);
    }
    report(&sim);
    core_free(sim.core);
    core_free(sim.replica);
    arena_release(&sim.arena);
    return steps < 100000 || nothing_was_left_out(&sim) ? 0 : 1;
}
