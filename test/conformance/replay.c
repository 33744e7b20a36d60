/*
 * replay.c - the same random commands for core and for the Redis store, every answer and the whole state
 * compared.
 *
 * Core runs in this process, the store on a real redis-server whose clock is this program's. Redis goes
 * first, and where several pods are equally good core takes the same. After every step all pods, all calls,
 * the counts, the tiers and the merchants must be equal. Time passes in whole seconds, because the records in
 * Redis have no finer ones, and a sweep comes at least every 30 of them, as in the router; but now and then
 * there is an outage, in which nobody sweeps and leases run out, up to three times as long as a lease. Some
 * of what the store has sent is sent again much later, as a network may do: it must change nothing.
 *
 * A run is reproduced by its seed: replay-stores --seed N --steps N --shim PATH
 */
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

#include "replay.h"

/* One answer of the store, in waiting. */
struct pending {
    uv_loop_t *loop;
    bool is_done;
    int err;
    const struct result *result;
};

uint64_t replay_random(struct replay *replay)
{
    uint64_t z = (replay->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

unsigned pick(struct replay *replay, unsigned count)
{
    return (unsigned)(replay_random(replay) % count);
}

static void store_answered(void *arg, int err, const struct result *result)
{
    struct pending *pending = arg;

    pending->is_done = true;
    pending->err = err;
    pending->result = result;
    uv_stop(pending->loop); /* an answer from a timer must not wait for the next event */
}

/* Each one told once; sorted by the comparison. */
static void lost_calls_told(void *arg, const struct ended_call *call)
{
    strbuf_printf(arg, "%s %s %s %s %s\n", call->call_sid, call->pod, call->pool, call->merchant_id,
                  call_end_name(call->why));
}

static void store_start(struct replay *replay, const struct command *command, struct pending *pending)
{
    int rc;

    *pending = (struct pending){.loop = &replay->loop};
    replay->was_sent[command->type] = true;
    rc = store_execute(replay->store, command, &replay->arena, store_answered, pending);
    if (rc)
        REPLAY_FAIL(replay, "the store refuses command %d: %s", (int)command->type, strerror(-rc));
}

static const struct result *store_wait(struct replay *replay, const struct pending *pending)
{
    while (!pending->is_done)
        uv_run(&replay->loop, UV_RUN_ONCE);
    if (pending->err)
        REPLAY_FAIL(replay, "the store fails: %s", strerror(-pending->err));
    return pending->result;
}

const struct result *on_store(struct replay *replay, const struct command *command)
{
    struct pending pending;

    store_start(replay, command, &pending);
    return store_wait(replay, &pending);
}

const struct result *on_core(struct replay *replay, const struct command *command)
{
    struct result *result = arena_alloc(&replay->arena, sizeof(*result));
    int rc = result ? core_execute(replay->core, command, replay->now_ms, &replay->arena, result) : -ENOMEM;

    if (rc)
        REPLAY_FAIL(replay, "core fails: %s", strerror(-rc));
    return result;
}

static const char *rendered(struct replay *replay, const struct command *command, const struct result *result)
{
    struct strbuf buf;

    strbuf_init(&buf, &replay->arena, TEXT_MAX);
    render_result(&buf, command, result, &replay->arena);
    if (strbuf_failed(&buf))
        REPLAY_FAIL(replay, "an answer is too long");
    return buf.data;
}

static void remember(struct replay *replay, const struct command *command)
{
    if (replay->history.len > 8000)
        strbuf_reset(&replay->history);
    strbuf_printf(&replay->history, "%" PRIu64 " @%" PRIu64 " ", replay->step, replay->now_ms / 1000);
    render_command(&replay->history, command);
    strbuf_append_char(&replay->history, '\n');
    if (replay->is_verbose)
        fprintf(stderr, "%s", strrchr(replay->history.data, '@'));
}

static void compare(struct replay *replay, const struct command *command, const struct result *on_redis,
                    const struct result *in_core)
{
    const char *redis = rendered(replay, command, on_redis);
    const char *core = rendered(replay, command, in_core);
    struct strbuf text;

    if (strcmp(redis, core) == 0)
        return;
    strbuf_init(&text, &replay->arena, TEXT_MAX);
    render_command(&text, command);
    REPLAY_FAIL(replay, "%s\n--- core says\n%s--- Redis says\n%s", text.data, core, redis);
}

const struct result *both(struct replay *replay, struct command *command)
{
    const struct result *redis;
    const struct result *core;

    remember(replay, command);
    notes_begin(replay);
    redis = on_store(replay, command);
    if (command->type == COMMAND_ALLOCATE && redis->outcome == OUTCOME_OK)
        command->allocate.prefer = redis->allocate.call.pod;
    if (command->type == COMMAND_MOVE_CALL && redis->outcome == OUTCOME_OK)
        command->move.prefer = redis->move.call.pod;
    if (command->type == COMMAND_MOVE_CALL) {
        replay->notes.is_move = !command->move.carrier;
        snprintf(replay->notes.moved_sid, sizeof(replay->notes.moved_sid), "%s", command->move.call_sid);
    }
    notes_expect(replay, command, redis);
    core = on_core(replay, command);
    compare(replay, command, redis, core);
    notes_compare(replay);
    replay->outcomes[command->type][core->outcome]++;
    return core;
}

void count_ended(struct replay *replay, const struct ended_array *ended)
{
    for (size_t i = 0; i < ended->count; i++)
        replay->ended[ended->calls[i].why]++;
}

size_t sid_index(const char *call_sid)
{
    return strtoul(call_sid + strlen("CA"), NULL, 10);
}

struct aligning {
    const char *pod;
    const char *tier;
    struct core *core;
    struct record record;
    char texts[4][256];
};

static void find_pod_record(void *arg, const struct record *record)
{
    struct aligning *aligning = arg;

    if (record->type != RECORD_POD || strcmp(record->pod.name, aligning->pod) != 0)
        return;
    aligning->record = *record;
    snprintf(aligning->texts[0], sizeof(aligning->texts[0]), "%s", record->pod.address);
    snprintf(aligning->texts[1], sizeof(aligning->texts[1]), "%s", record->pod.incarnation);
    aligning->record.pod.name = aligning->pod;
    aligning->record.pod.address = aligning->texts[0];
    aligning->record.pod.incarnation = aligning->texts[1];
    aligning->record.pod.tier = aligning->tier;
}

static bool is_configured(const struct result *status, const char *tier)
{
    for (size_t i = 0; i < status->status.tier_count; i++) {
        if (strcmp(status->status.tiers[i].name, tier) == 0)
            return status->status.tiers[i].is_configured;
    }
    return false;
}

/*
 * When one sweep frees several pods of tiers that were removed, or other pods go in the same sweep, then
 * which new tier each of them joins depends on the order in which it looks at them, and there is none. Core
 * is then told to have done it the way Redis did. Nothing else may differ.
 */
static void align_tiers(struct replay *replay, const struct result *redis, const struct result *core)
{
    struct command command = {.type = COMMAND_STATUS};
    const struct result *status = on_core(replay, &command);

    for (size_t i = 0; i < core->pods.count && replay->has_swept; i++) {
        const struct pod_info *pod = &core->pods.pods[i];
        const char *tier = redis->pods.count == core->pods.count ? redis->pods.pods[i].tier : pod->tier;
        const char *before = replay->tiers[strtoul(pod->name + strlen("voice-agent-"), NULL, 10)];
        struct aligning aligning = {.pod = pod->name, .tier = tier, .core = replay->core};

        if (strcmp(pod->tier, tier) == 0 || strcmp(before, pod->tier) == 0 || strcmp(before, tier) == 0 ||
            is_configured(status, before) || !is_configured(status, tier) || pod->state != POD_AVAILABLE ||
            pod->calls.count)
            continue;
        core_dump(replay->core, find_pod_record, &aligning);
        if (core_apply(replay->core, &aligning.record))
            REPLAY_FAIL(replay, "core cannot be aligned");
        replay->aligned++;
    }
    for (size_t i = 0; i < PODS; i++)
        replay->tiers[i][0] = '\0';
    for (size_t i = 0; i < redis->pods.count; i++) {
        const struct pod_info *pod = &redis->pods.pods[i];
        size_t at = strtoul(pod->name + strlen("voice-agent-"), NULL, 10);

        snprintf(replay->tiers[at], sizeof(replay->tiers[at]), "%s", pod->tier);
    }
    replay->has_swept = false;
}

static void compare_told(struct replay *replay)
{
    const char *core = render_sorted(&replay->told[0], &replay->arena);
    const char *store = render_sorted(&replay->told[1], &replay->arena);

    if (strcmp(core, store) != 0)
        REPLAY_FAIL(replay, "told of ended calls\n--- core says\n%s--- Redis says\n%s", core, store);
    strbuf_reset(&replay->told[0]);
    strbuf_reset(&replay->told[1]);
}

static void compare_states(struct replay *replay)
{
    struct command commands[] = {
        {.type = COMMAND_PODS, .pods = {.state = -1, .limit = PODS}},
        {.type = COMMAND_CALLS, .calls = {.limit = SIDS}},
        {.type = COMMAND_STATUS},
        {.type = COMMAND_STATUS, .status = {.with_sets = true}},
        {.type = COMMAND_TIERS},
        {.type = COMMAND_MERCHANTS},
        {.type = COMMAND_WAITING, .waiting = {.limit = SIDS}},
        {.type = COMMAND_STORY, .call = {.call_sid = replay->sid_names[replay->step % SIDS]}},
    };
    struct pending pending[ARRAY_LEN(commands)];
    char error[256];

    compare_told(replay);

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        store_start(replay, &commands[i], &pending[i]);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        (void)store_wait(replay, &pending[i]);
    align_tiers(replay, pending[0].result, on_core(replay, &commands[0]));
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        compare(replay, &commands[i], pending[i].result, on_core(replay, &commands[i]));
    for (size_t i = 0; i < pending[ARRAY_LEN(commands) - 1].result->story.past_count; i++)
        replay->past[pending[ARRAY_LEN(commands) - 1].result->story.past[i].how]++;
    if (!core_check(replay->core, error, sizeof(error)))
        REPLAY_FAIL(replay, "core is broken: %s", error);
}

static void replay_step(struct replay *replay)
{
    static const struct {
        void (*run)(struct replay *replay);
        unsigned weight;
    } operations[] = {
#define REPLAY_STEP(name, step_weight) {step_##name, step_weight},
        REPLAY_STEPS(REPLAY_STEP)
#undef REPLAY_STEP
    };
    unsigned total = 0;
    unsigned chosen;

    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        total += operations[i].weight;
    chosen = pick(replay, total);
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        if (chosen < operations[i].weight) {
            operations[i].run(replay);
            break;
        }
        chosen -= operations[i].weight;
    }
    compare_states(replay);
    arena_reset(&replay->arena);
}

static void replay_open(struct replay *replay)
{
    struct core_settings core = {.lease_ttl_ms = LEASE_S * UINT64_C(1000),
                                 .call_max_duration_ms = 3600000,
                                 .draining_ttl_ms = 360000,
                                 .heartbeat_ttl_ms = 90000,
                                 .hold_max_calls = 12,
                                 .hold_ageing_ms = 6000};
    struct redis_settings settings = {.key_prefix = "voice:",
                                      .core = core,
                                      .call_info_ttl_ms = 4 * 3600000, /* longer than the longest outage */
                                      .tier_refresh_ms = 3600000,
                                      .mailbox_look_ms = 3600000}; /* the replay reads them itself */
    struct store_health health;

    /* In every fourth run calls wait only if their merchant says so, and none is rescued. */
    if (replay->seed % 4 != 0) {
        settings.core.hold_max_wait_ms = core.hold_max_wait_ms = 60000;
        settings.core.rescues = core.rescues = true;
    }
    snprintf(settings.link.servers[0].host, sizeof(settings.link.servers[0].host), "%s",
             replay->server.socket);
    settings.link.server_count = 1;
    settings.link.user = "";
    settings.link.password = "";
    settings.link.timeout_ms = TIMEOUT_S * UINT64_C(1000);
    if (core_new(&core, &replay->core) || uv_loop_init(&replay->loop) ||
        redis_open(&replay->loop, &settings, &replay->store))
        REPLAY_FAIL(replay, "no memory");
    core_on_ended(replay->core, lost_calls_told, &replay->told[0]);
    store_on_ended(replay->store, lost_calls_told, &replay->told[1]);
    notes_open(replay);
    do {
        uv_run(&replay->loop, UV_RUN_ONCE);
        store_health(replay->store, &health);
    } while (!health.is_ready);
}

static void replay_closed(void *arg UNUSED)
{
}

static void report(const struct replay *replay)
{
    printf("seed %" PRIu64 ": %" PRIu64 " steps, no difference (%" PRIu64 " allocations, %" PRIu64
           " refused, %" PRIu64 " releases, calls ended: %" PRIu64 " expired, %" PRIu64 " pod gone, %" PRIu64
           " restarted, %" PRIu64 " unmentioned; %" PRIu64 " moved; %" PRIu64 " changes of tiers; %" PRIu64
           " pods aligned; %" PRIu64 " outages, %" PRIu64 " renewed after their lease, %" PRIu64
           " adopted, %" PRIu64 " over, %" PRIu64 " undone, %" PRIu64 " late scripts; %" PRIu64
           " pods absent, %" PRIu64 " kept, %" PRIu64 " calls outlived a restart)\n",
           replay->seed, replay->step, replay->outcomes[COMMAND_ALLOCATE][OUTCOME_OK],
           replay->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS], replay->outcomes[COMMAND_RELEASE][OUTCOME_OK],
           replay->ended[CALL_END_EXPIRED], replay->ended[CALL_END_POD_GONE],
           replay->ended[CALL_END_RESTARTED], replay->ended[CALL_END_UNMENTIONED], replay->moved,
           replay->outcomes[COMMAND_TIERS_SET][OUTCOME_OK], replay->aligned, replay->outages, replay->revived,
           replay->adopted, replay->over, replay->outcomes[COMMAND_UNDO][OUTCOME_OK], replay->late_sent,
           replay->absent, replay->kept, replay->outlived);
}

enum {
    SOME_STEPS = 20000,  /* in so many steps each of these is there, whatever the seed, */
    RARE_STEPS = 100000, /* and the rare ones in so many */
};

/* A run in which something never happened has compared less than it says. */
static bool nothing_was_left_out(const struct replay *replay)
{
    const struct {
        const char *what;
        uint64_t count;
        uint64_t from_steps;
    } seen[] = {
        {"allocate: ok", replay->outcomes[COMMAND_ALLOCATE][OUTCOME_OK], SOME_STEPS},
        {"allocate: no_pods", replay->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS], SOME_STEPS},
        {"call ended: expired", replay->ended[CALL_END_EXPIRED], SOME_STEPS},
        {"call ended: pod gone", replay->ended[CALL_END_POD_GONE], SOME_STEPS},
        {"call ended: restarted", replay->ended[CALL_END_RESTARTED], SOME_STEPS},
        {"call ended: unmentioned", replay->ended[CALL_END_UNMENTIONED], SOME_STEPS},
        {"tiers_set: invalid", replay->outcomes[COMMAND_TIERS_SET][OUTCOME_INVALID], SOME_STEPS},
        {"pod_seen: conflict", replay->outcomes[COMMAND_POD_SEEN][OUTCOME_CONFLICT], SOME_STEPS},
        {"a call that moved", replay->moved, SOME_STEPS},
        {"move_call: no_pods", replay->outcomes[COMMAND_MOVE_CALL][OUTCOME_NO_PODS], SOME_STEPS},
        {"allocate: forbidden", replay->outcomes[COMMAND_ALLOCATE][OUTCOME_FORBIDDEN], SOME_STEPS},
        {"release: forbidden", replay->outcomes[COMMAND_RELEASE][OUTCOME_FORBIDDEN], SOME_STEPS},
        {"hold: conflict", replay->outcomes[COMMAND_HOLD][OUTCOME_CONFLICT], SOME_STEPS},
        {"keep: elsewhere", replay->line.kept[KEEP_ELSEWHERE], SOME_STEPS},
        {"leave: ok", replay->outcomes[COMMAND_LEAVE][OUTCOME_OK], SOME_STEPS},
        {"leave: conflict", replay->outcomes[COMMAND_LEAVE][OUTCOME_CONFLICT], SOME_STEPS},
        {"an outage", replay->outages, SOME_STEPS},
        {"a renewal after the lease", replay->revived, SOME_STEPS},
        {"an adopted call", replay->adopted, RARE_STEPS},
        {"a renewal of an ended call", replay->over, SOME_STEPS},
        {"undo: ok", replay->outcomes[COMMAND_UNDO][OUTCOME_OK], SOME_STEPS},
        {"undo: conflict", replay->outcomes[COMMAND_UNDO][OUTCOME_CONFLICT], SOME_STEPS},
        {"a late script", replay->late_sent, SOME_STEPS},
        {"an absent pod", replay->absent, SOME_STEPS},
        {"an absent pod that is kept", replay->kept, SOME_STEPS},
        {"a call that outlived a restart", replay->outlived, SOME_STEPS},
        {"a full history", replay->full_histories, SOME_STEPS},
        {"tiers_set: conflict", replay->outcomes[COMMAND_TIERS_SET][OUTCOME_CONFLICT], SOME_STEPS},
        {"merchant_set: conflict", replay->outcomes[COMMAND_MERCHANT_SET][OUTCOME_CONFLICT], SOME_STEPS},
    };

    for (enum command_type type = 0; type < COMMAND_TYPES; type++) {
        if (!replay->was_sent[type]) {
            fprintf(stderr, "replay-stores: no step has sent %s\n", command_name(type));
            return false;
        }
    }
    for (enum past_end how = 0; how < PAST_ENDS; how++) {
        if (!replay->past[how]) {
            fprintf(stderr, "replay-stores: no story of a call that ended: %s\n", past_end_name(how));
            return false;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        if (!seen[i].count && replay->step >= seen[i].from_steps) {
            fprintf(stderr, "replay-stores: never seen: %s\n", seen[i].what);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct replay replay;
    uint64_t steps = SOME_STEPS;
    bool is_complete;
    int rc;

    replay.program = argv[0];
    replay.seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            replay.seed = strtoull(argv[i + 1], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0)
            steps = strtoull(argv[i + 1], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--shim") == 0)
            replay.shim = argv[i + 1];
        else if (strcmp(argv[i], "--verbose") == 0)
            replay.is_verbose = true, i--;
        else
            return fprintf(stderr, "usage: replay-stores --shim PATH [--seed N] [--steps N] [--verbose]\n"),
                   2;
    }
    if (!replay.shim)
        return fprintf(stderr, "replay-stores: --shim says where the clock shim is\n"), 2;
    printf("seed %" PRIu64 "\n", replay.seed);
    fflush(stdout);
    replay.random = replay.seed;
    replay.now_ms = UINT64_C(1770000000000);
    replay.swept_at_ms = replay.now_ms;
    rc = redis_server_start(&replay.server, replay.shim, replay.now_ms);
    if (rc == -ENOENT)
        return printf("skipped: redis-server is not installed\n"), SKIPPED;
    if (rc)
        return fprintf(stderr, "redis-server does not start: %s\n", strerror(-rc)), 1;
    arena_init(&replay.arena, ARENA_MAX);
    strbuf_init(&replay.history, NULL, TEXT_MAX);
    strbuf_init(&replay.told[0], NULL, TEXT_MAX);
    strbuf_init(&replay.told[1], NULL, TEXT_MAX);
    for (unsigned i = 0; i < SIDS; i++)
        snprintf(replay.sid_names[i], sizeof(replay.sid_names[i]), "CA%u", i);
    for (unsigned i = 0; i < PODS; i++) {
        snprintf(replay.pod_names[i], sizeof(replay.pod_names[i]), "voice-agent-%u", i);
        replay.pods[i].source = (enum pod_source)(i % 3);
    }
    replay_open(&replay);
    for (; replay.step < steps; replay.step++) {
        replay_step(&replay);
        if (replay.step && replay.step % 100000 == 0)
            fprintf(stderr, "%" PRIu64 " steps\n", replay.step);
    }
    report(&replay);
    is_complete = steps < SOME_STEPS || nothing_was_left_out(&replay);
    store_close(replay.store, replay_closed, NULL);
    uv_run(&replay.loop, UV_RUN_DEFAULT);
    uv_loop_close(&replay.loop);
    core_free(replay.core);
    strbuf_release(&replay.history);
    strbuf_release(&replay.told[0]);
    strbuf_release(&replay.told[1]);
    notes_close(&replay);
    while (replay.late_count > 0)
        free(replay.late[--replay.late_count].line);
    arena_release(&replay.arena);
    redis_server_stop(&replay.server);
    return is_complete ? 0 : 1;
}
