/*
 * sim_core.c - random operations on core, with a second opinion.
 *
 * Every step carries out one random command: calls come and go, time passes, leases expire, pods flap,
 * restart, vanish and drain, the configuration changes, the process restarts from its records. After every
 * step core_check() looks at everything, and a shadow - a few arrays that only know what core has answered -
 * says whether the answers fit together: no call with two pods, no call lost without a reason that was given,
 * no call that comes back although it was ended on purpose, no pod with more calls than it may have.
 *
 * A run is reproduced by its seed: sim-core --seed N --steps N
 */
#include <time.h>

#include "sim.h"

enum {
    ARENA_MAX = 16 * 1024 * 1024,
    DUMP_MAX = 1024 * 1024,
};

static uint64_t sim_random(struct sim *sim)
{
    uint64_t z = (sim->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

unsigned pick(struct sim *sim, unsigned count)
{
    return (unsigned)(sim_random(sim) % count);
}

int pod_index(struct sim *sim, const char *name)
{
    static const char prefix[] = "voice-agent-";

    SIM_CHECK(sim, strncmp(name, prefix, strlen(prefix)) == 0, "unexpected pod %s", name);
    return (int)strtol(name + strlen(prefix), NULL, 10);
}

static void replicate(void *arg, const struct record *record)
{
    struct sim *sim = arg;
    int rc = core_apply(sim->replica, record);

    SIM_CHECK(sim, rc == 0, "record of type %d cannot be applied: %d", (int)record->type, rc);
}

void execute(struct sim *sim)
{
    int rc;

    settle(sim); /* the command before, of the same step */
    memset(sim->was_told, 0, sizeof(sim->was_told));
    rc = core_execute(sim->core, &sim->command, sim->now_ms, &sim->arena, &sim->result);
    SIM_CHECK(sim, rc == 0, "core_execute: %d", rc);
    sim->is_unsettled = true;
    settle_others(sim);
    sim->counts.outcomes[sim->command.type][sim->result.outcome]++;
}

void look(struct sim *sim, struct command command, struct result *ret_result)
{
    int rc = core_execute(sim->core, &command, sim->now_ms, &sim->arena, ret_result);

    SIM_CHECK(sim, rc == 0, "query failed: %d", rc);
}

/* Mostly milliseconds; sometimes long enough for drains, leases or everything to run out. */
static void sim_time(struct sim *sim)
{
    unsigned kind = pick(sim, 100);

    sim->now_ms += kind < 80 ? pick(sim, 2000) : kind < 97 ? pick(sim, 60000) : pick(sim, 1200000);
}

/* A dump as text. */
struct dump {
    struct strbuf buf;
    uint64_t now_ms;
};

static void dump_line(void *arg, const struct record *record)
{
    struct dump *dump = arg;
    struct strbuf *buf = &dump->buf;

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
                      record->pod.is_ready, record->pod.is_terminating,
                      record->pod.is_pinned + 2 * record->pod.is_surplus, record->pod.draining_until_ms,
                      record->pod.held_until_ms);
        break;
    case RECORD_CALL:
        strbuf_printf(buf, "C %s %s %s %s %s %" PRIu64 " %" PRIu64 "\n", record->call.call_sid,
                      record->call.pod, record->call.pool, record->call.merchant_id, record->call.provider,
                      record->call.allocated_at_ms, record->call.expires_at_ms);
        break;
    case RECORD_RENEWED:
    case RECORD_RENEWED_BY:
        strbuf_printf(buf, "R %s %" PRIu64 "\n", record->renewed.call_sid, record->renewed.expires_at_ms);
        strbuf_printf(buf, "B %s %" PRIu64 " %" PRIu64 "\n", record->renewed.call_sid, record->renewed.at_ms,
                      record->renewed.by);
        break;
    case RECORD_CONNECTED:
        strbuf_printf(buf, "C! %s\n", record->connected.call_sid);
        break;
    case RECORD_PLACED:
        strbuf_printf(buf, "L %s %" PRIu64 "\n", record->placed.call_sid, record->placed.at_ms);
        break;
    case RECORD_TOMBSTONE:
        /* One that is too old to count is forgotten sooner or later: nobody can tell when. */
        if (record->tombstone.at_ms + ENDED_KEEP_MS > dump->now_ms)
            strbuf_printf(buf, "O %s %" PRIu64 " %" PRIu64 "\n", record->tombstone.call_sid,
                          record->tombstone.why, record->tombstone.at_ms);
        break;
    case RECORD_VERSION:
        strbuf_printf(buf, "V %s %" PRIu64 " %" PRIu64 " %s %s\n", record->version.merchant_id,
                      record->version.number, record->version.at_ms, record->version.by,
                      record->version.text);
        break;
    case RECORD_WAITING:
        strbuf_printf(buf, "W %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s %s\n",
                      record->waiting.call_sid, record->waiting.since_ms, record->waiting.until_ms,
                      record->waiting.flags, record->waiting.ahead_ms, record->waiting.priority,
                      record->waiting.merchant_id, record->waiting.provider, record->waiting.pools);
        break;
    case RECORD_GRANTED:
        strbuf_printf(buf, "G %s %" PRIu64 "\n", record->granted.call_sid, record->granted.since_ms);
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
    char **lines =
        arena_alloc(&sim->arena, (PODS + 8 * SIDS + HISTORY_MAX * (MERCHANTS + 1)) * sizeof(*lines));
    struct dump raw = {.now_ms = sim->now_ms};
    struct strbuf sorted;
    size_t count = 0;

    strbuf_init(&raw.buf, &sim->arena, DUMP_MAX);
    strbuf_init(&sorted, &sim->arena, DUMP_MAX);
    core_dump(core, dump_line, &raw);
    SIM_CHECK(sim, lines && !strbuf_failed(&raw.buf), "the dump is too long");
    for (char *line = raw.buf.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        lines[count++] = line;
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    strbuf_append_char(&sorted, '\n'); /* every line has one before it, too */
    for (size_t i = 0; i < count; i++)
        strbuf_printf(&sorted, "%s\n", lines[i]);
    SIM_CHECK(sim, !strbuf_failed(&sorted), "the dump is too long");
    return sorted.data;
}

/* What no query shows: who has renewed a call, when it was moved, and the ends that are recorded. */
static void check_dump(struct sim *sim, const char *dump)
{
    char line[96];

    for (int i = 0; i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[i];

        snprintf(line, sizeof(line), "\nR CA%d %" PRIu64 "\n", i, call->expires_at_ms);
        SIM_CHECK(sim, (strstr(dump, line) != NULL) == (call->is_known && call->was_renewed),
                  "CA%d: whether it was ever renewed is wrong", i);
        snprintf(line, sizeof(line), "\nL CA%d %" PRIu64 "\n", i, call->placed_at_ms);
        SIM_CHECK(sim,
                  (strstr(dump, line) != NULL) ==
                      (call->is_known && call->placed_at_ms != call->allocated_at_ms),
                  "CA%d: when it got its pod is wrong", i);
        snprintf(line, sizeof(line), "\nO CA%d %d %" PRIu64 "\n", i, (int)call->why, call->over_at_ms);
        SIM_CHECK(sim, (strstr(dump, line) != NULL) == is_over(sim, call), "CA%d: its recorded end is wrong",
                  i);
        snprintf(line, sizeof(line), "\nW CA%d %" PRIu64 " %" PRIu64 " %d ", i, call->wait.since_ms,
                 call->wait.until_ms, call->wait.is_rescued + 2 * call->wait.was_renewed);
        SIM_CHECK(sim,
                  (strstr(dump, line) != NULL) ==
                      (call->wait.is_waiting || (call->is_known && call->is_granted)),
                  "CA%d: its wait is wrong", i);
        snprintf(line, sizeof(line), "\nG CA%d %" PRIu64 "\n", i, call->wait.since_ms);
        SIM_CHECK(sim, (strstr(dump, line) != NULL) == (call->is_known && call->is_granted),
                  "CA%d: whether it is granted is wrong", i);
    }
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
    check_dump(sim, original);
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

/* A full disk, a stopped process. */
static void sim_deaf(struct sim *sim)
{
    sim->now_ms += pick(sim, 3600000);
    core_after_outage(sim->core, sim->now_ms);
    core_after_outage(sim->replica, sim->now_ms); /* it has no record of this */
    shadow_forgive(sim);
    sim_serve(sim); /* as the leader does: some that were overdue are not any more */
}

/* Nobody can reach the store for up to three leases; then all speak at once, before anything is swept. */
static void sim_outage(struct sim *sim)
{
    sim->now_ms += pick(sim, 3 * (unsigned)sim->settings.lease_ttl_ms);
    sim->outage = 2 + pick(sim, 30);
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
    core_on_finished(sim->core, shadow_over, sim);
    core_on_changed(sim->core, shadow_told, sim);
    shadow_restart(sim);
    sim->counts.restarts++;
    sim_serve(sim);
}

/* Core's list of calls is the shadow's, no more and no less. */
static void check_calls(struct sim *sim)
{
    struct result calls;
    size_t known = 0;

    look(sim, (struct command){.type = COMMAND_CALLS, .calls = {.limit = PAGE_MAX}}, &calls);
    for (size_t i = 0; i < calls.calls.count; i++) {
        const struct call_info *info = &calls.calls.calls[i];
        const struct shadow_call *call = shadow_call(sim, info->call_sid);

        SIM_CHECK(sim, call->is_known, "call %s is there but nobody was told", info->call_sid);
        SIM_CHECK(sim, call->pod == pod_index(sim, info->pod), "call %s is on %s instead of %d",
                  info->call_sid, info->pod, call->pod);
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

    look(sim, (struct command){.type = COMMAND_STATUS}, &status);
    look(sim, (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}}, &pods);
    for (size_t i = 0; i < pods.pods.count; i++) {
        const struct pod_info *pod = &pods.pods.pods[i];
        int at = pod_index(sim, pod->name);
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

struct operation {
    void (*run)(struct sim *sim);
    unsigned weight;
};

static void run_one_of(struct sim *sim, const struct operation *operations, size_t count)
{
    unsigned total = 0;
    unsigned chosen;

    for (size_t i = 0; i < count; i++)
        total += operations[i].weight;
    chosen = pick(sim, total);
    for (size_t i = 0; i < count; i++) {
        if (chosen < operations[i].weight) {
            operations[i].run(sim);
            return;
        }
        chosen -= operations[i].weight;
    }
}

static void run_operation(struct sim *sim)
{
    static const struct operation any[] = {
        {sim_allocate, 30}, {sim_undo, 6},     {sim_release, 12}, {sim_hold, 6},       {sim_leave, 3},
        {sim_move, 4},      {sim_renew, 6},    {sim_carry, 5},    {sim_heartbeat, 12}, {sim_drain, 4},
        {sim_pod_seen, 14}, {sim_pod_gone, 2}, {sim_sync, 2},     {sim_sweep, 5},      {sim_rebalance, 3},
        {sim_scale, 3},     {sim_tiers, 1},    {sim_merchant, 2}, {sim_time, 8},       {sim_restart, 1},
        {sim_deaf, 1},      {sim_outage, 2},   {sim_keep, 12},    {sim_serve, 6},      {sim_depart, 1},
    };
    static const struct operation after_outage[] = {
        {sim_allocate, 6}, {sim_undo, 1},  {sim_release, 2}, {sim_hold, 3},      {sim_leave, 1},
        {sim_move, 3},     {sim_renew, 2}, {sim_carry, 1},   {sim_heartbeat, 4}, {sim_keep, 3},
    };

    if (sim->outage == 0)
        run_one_of(sim, any, ARRAY_LEN(any));
    else if (--sim->outage)
        run_one_of(sim, after_outage, ARRAY_LEN(after_outage));
    else
        sim_sweep(sim);
}

static void sim_step(struct sim *sim)
{
    char error[256];

    run_operation(sim);
    settle(sim);
    if (!core_check(sim->core, error, sizeof(error)))
        SIM_FAIL(sim, "%s", error);
    SIM_CHECK(sim, sim->tombstones_told == sim->tombstones_due,
              "a carrier was not told that its call is over");
    check_calls(sim);
    check_loads(sim);
    check_story(sim, (int)(sim->step % SIDS));
    if (sim->step % 64 == 0)
        check_replica(sim);
    arena_reset(&sim->arena);
}

static void report(const struct sim *sim)
{
    const struct sim_counts *counts = &sim->counts;

    printf("seed %" PRIu64 ": %" PRIu64 " steps, no invariant broken (%" PRIu64 " allocations, %" PRIu64
           " refused, %" PRIu64 " undone, %" PRIu64 " releases, calls ended: %" PRIu64 " expired, %" PRIu64
           " pod gone, %" PRIu64 " restarted, %" PRIu64 " unmentioned; %" PRIu64 " moved; %" PRIu64
           " restarts)\n",
           sim->seed, sim->step, counts->outcomes[COMMAND_ALLOCATE][OUTCOME_OK],
           counts->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS], counts->outcomes[COMMAND_UNDO][OUTCOME_OK],
           counts->outcomes[COMMAND_RELEASE][OUTCOME_OK], counts->ended[CALL_END_EXPIRED],
           counts->ended[CALL_END_POD_GONE], counts->ended[CALL_END_RESTARTED],
           counts->ended[CALL_END_UNMENTIONED], counts->moved, counts->restarts);
    printf("expired but kept: %" PRIu64 " by allocations, %" PRIu64 " renewals, %" PRIu64 " holds, %" PRIu64
           " heartbeats, %" PRIu64 " moves; lost but adopted: %" PRIu64 " by renewals, %" PRIu64
           " heartbeats (%" PRIu64 " of streams); over: %" PRIu64 " late renewals, %" PRIu64
           " heartbeats, %" PRIu64 " holds, %" PRIu64 " begun anew, %" PRIu64 " carriers told\n",
           counts->kept[COMMAND_ALLOCATE], counts->kept[COMMAND_RENEW], counts->kept[COMMAND_HOLD],
           counts->kept[COMMAND_HEARTBEAT], counts->kept[COMMAND_MOVE_CALL], counts->adopted[COMMAND_RENEW],
           counts->adopted[COMMAND_HEARTBEAT], counts->streams_kept, counts->late[COMMAND_RENEW],
           counts->late[COMMAND_HEARTBEAT], counts->late[COMMAND_HOLD], counts->begun_anew,
           sim->tombstones_told);
    printf("absent: %" PRIu64 " pods by a deletion, %" PRIu64 " by syncs, %" PRIu64 " seen again, %" PRIu64
           " syncs kept some; %" PRIu64 " calls outlived a restart\n",
           counts->absent[COMMAND_POD_GONE], counts->absent[COMMAND_SYNC], counts->unabsent,
           counts->kept_pods, counts->outlived);
    printf("waiting: %" PRIu64 " joined, %" PRIu64 " rejoined, %" PRIu64 " rescued, %" PRIu64
           " found the line full; %" PRIu64 " granted, %" PRIu64 " abandoned, %" PRIu64 " timed out, %" PRIu64
           " released, %" PRIu64 " undone, %" PRIu64 " adopted, %" PRIu64 " waited again, %zu left\n",
           counts->joined, counts->rejoined, counts->rescued, counts->line_full, counts->granted,
           counts->waits_abandoned, counts->waits_timed_out, counts->waits_released, counts->waits_undone,
           counts->waits_adopted, counts->waited_again, shadow_line_size(sim));
    printf("granted: taken by %" PRIu64 " allocations, %" PRIu64 " holds, %" PRIu64 " renewals, %" PRIu64
           " heartbeats; %" PRIu64 " not taken; %" PRIu64
           " passed an overdue call; rescued by a move: %" PRIu64 "; %" PRIu64 " departed, %" PRIu64
           " releases kept, %" PRIu64 " resumes refused, %" PRIu64 " of ended calls\n",
           counts->taken[COMMAND_ALLOCATE], counts->taken[COMMAND_HOLD], counts->taken[COMMAND_RENEW],
           counts->taken[COMMAND_HEARTBEAT], counts->untaken, counts->passed_over, counts->rescue_moves,
           counts->departed, counts->kept_releases, counts->resumes_refused, counts->resumed_ends);
}

static bool have_happened(const char *what, const uint64_t *counts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!counts[i]) {
            fprintf(stderr, "number %zu of %s that must happen did not\n", i, what);
            return false;
        }
    }
    return true;
}

/* A run in which something never happened has tested less than it says. */
static bool nothing_was_left_out(const struct sim *sim)
{
    const struct sim_counts *counts = &sim->counts;
    const uint64_t must_happen[] = {
        counts->outcomes[COMMAND_ALLOCATE][OUTCOME_OK],
        counts->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS],
        counts->outcomes[COMMAND_UNDO][OUTCOME_OK],
        counts->outcomes[COMMAND_UNDO][OUTCOME_CONFLICT],
        counts->outcomes[COMMAND_UNDO][OUTCOME_NOT_FOUND],
        counts->outcomes[COMMAND_LEAVE][OUTCOME_OK],
        counts->outcomes[COMMAND_LEAVE][OUTCOME_CONFLICT],
        counts->outcomes[COMMAND_MOVE_CALL][OUTCOME_NO_PODS],
        counts->outcomes[COMMAND_TIERS_SET][OUTCOME_INVALID],
        counts->ended[CALL_END_EXPIRED],
        counts->ended[CALL_END_POD_GONE],
        counts->ended[CALL_END_RESTARTED],
        counts->ended[CALL_END_UNMENTIONED],
        counts->kept[COMMAND_ALLOCATE],
        counts->kept[COMMAND_RENEW],
        counts->kept[COMMAND_HOLD],
        counts->kept[COMMAND_HEARTBEAT],
        counts->kept[COMMAND_MOVE_CALL],
        counts->adopted[COMMAND_RENEW],
        counts->adopted[COMMAND_HEARTBEAT],
        counts->full[COMMAND_RENEW],
        counts->full[COMMAND_HEARTBEAT],
        counts->late[COMMAND_RENEW],
        counts->late[COMMAND_HEARTBEAT],
        counts->late[COMMAND_HOLD],
        counts->exits[PAST_RELEASED],
        counts->exits[PAST_UNDONE],
        counts->exits[PAST_MOVED],
        counts->exits[PAST_EXPIRED],
        counts->exits[PAST_UNMENTIONED],
        counts->begun_anew,
        counts->attempts_lost,
        counts->streams_kept,
        counts->moved,
        counts->restarts,
        counts->absent[COMMAND_POD_GONE],
        counts->absent[COMMAND_SYNC],
        counts->unabsent,
        counts->kept_pods,
        counts->outlived,
        sim->tombstones_told,
    };
    const uint64_t must_wait[] = {
        counts->joined,
        counts->rejoined,
        counts->waited_again,
        counts->elsewhere,
        counts->line_full,
        counts->granted,
        counts->waits_abandoned,
        counts->waits_timed_out,
        counts->waits_released,
        counts->waits_undone,
        counts->waits_adopted,
        counts->taken[COMMAND_ALLOCATE],
        counts->taken[COMMAND_HOLD],
        counts->taken[COMMAND_RENEW],
        counts->taken[COMMAND_HEARTBEAT],
        counts->untaken,
        counts->passed_over,
        counts->departed,
        counts->resumes_refused,
        counts->resumed_ends,
    };
    const uint64_t must_rescue[] = {counts->rescued, counts->rescue_moves, counts->kept_releases};

    return have_happened("what", must_happen, ARRAY_LEN(must_happen)) &&
           (sim->settings.hold_max_wait_ms == 0 ||
            have_happened("the waits", must_wait, ARRAY_LEN(must_wait))) &&
           (sim->settings.hold_max_wait_ms == 0 || !sim->settings.rescues ||
            have_happened("the rescues", must_rescue, ARRAY_LEN(must_rescue)));
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
                                          .connect_timeout_ms = sim.seed % 2 ? 0 : 300000,
                                          .draining_ttl_ms = 360000,
                                          .heartbeat_ttl_ms = 90000,
                                          .hold_max_wait_ms = sim.seed % 5 ? 60000 : 0,
                                          .hold_max_calls = 12,
                                          .hold_ageing_ms = 3000,
                                          .rescues = sim.seed % 7 != 0};
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
    core_on_finished(sim.core, shadow_over, &sim);
    core_on_changed(sim.core, shadow_told, &sim);
    for (sim.step = 0; sim.step < steps; sim.step++) {
        sim_step(&sim);
        if (sim.step && sim.step % 1000000 == 0)
            fprintf(stderr, "%" PRIu64 " steps\n", sim.step);
    }
    check_nobody_forgotten(&sim);
    report(&sim);
    core_free(sim.core);
    core_free(sim.replica);
    arena_release(&sim.arena);
    return steps < 100000 || nothing_was_left_out(&sim) ? 0 : 1;
}
