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
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../support/random_configs.h"
#include "../support/redis_server.h"
#include "base/log.h"
#include "core/core.h"
#include "render.h"
#include "store/redis/redis.h"

enum {
    PODS = 14,
    SIDS = 60,
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
};

static const char CARRIER[] = "router-1";

/* One answer of the store, in waiting. */
struct pending {
    uv_loop_t *loop;
    bool is_done;
    int err;
    const struct result *result;
};

static uint64_t replay_random(struct replay *replay)
{
    uint64_t z = (replay->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static unsigned pick(struct replay *replay, unsigned count)
{
    return (unsigned)(replay_random(replay) % count);
}

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

static const struct result *on_store(struct replay *replay, const struct command *command)
{
    struct pending pending;

    store_start(replay, command, &pending);
    return store_wait(replay, &pending);
}

static const struct result *on_core(struct replay *replay, const struct command *command)
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

static const struct result *both(struct replay *replay, struct command *command)
{
    const struct result *redis;
    const struct result *core;

    remember(replay, command);
    redis = on_store(replay, command);
    if (command->type == COMMAND_ALLOCATE && redis->outcome == OUTCOME_OK)
        command->allocate.prefer = redis->allocate.call.pod;
    if (command->type == COMMAND_MOVE_CALL && redis->outcome == OUTCOME_OK)
        command->move.prefer = redis->move.call.pod;
    core = on_core(replay, command);
    compare(replay, command, redis, core);
    replay->outcomes[command->type][core->outcome]++;
    return core;
}

static void count_ended(struct replay *replay, const struct ended_array *ended)
{
    for (size_t i = 0; i < ended->count; i++)
        replay->ended[ended->calls[i].why]++;
}

static size_t sid_index(const char *call_sid)
{
    return strtoul(call_sid + strlen("CA"), NULL, 10);
}

/* Mostly the same one, so that webhooks often meet calls of their own. */
static const char *some_provider(struct replay *replay)
{
    return pick(replay, 3) ? "twilio" : pick(replay, 2) ? "plivo" : "";
}

/* A pod, or some pods: those whose names begin like that. */
static const char *some_pattern(struct replay *replay, char pattern[POD_NAME_MAX + 2])
{
    const char *pod = replay->pod_names[pick(replay, PODS)];

    snprintf(pattern, POD_NAME_MAX + 2, "%.*s%s", (int)strlen(pod) - (int)pick(replay, 2), pod,
             pick(replay, 2) ? "*" : "");
    return pattern;
}

static void step_allocate(struct replay *replay)
{
    char merchant[16] = "";
    struct command command = {.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = replay->sid_names[pick(replay, SIDS)],
                                           .merchant_id = merchant,
                                           .provider = some_provider(replay)}};

    if (pick(replay, 2))
        snprintf(merchant, sizeof(merchant), "m%u", pick(replay, MERCHANTS));
    command.allocate.is_webhook = command.allocate.provider[0] && pick(replay, 2);
    command.allocate.attempt = ++replay->next_attempt;
    replay->attempts[sid_index(command.allocate.call_sid)][pick(replay, ATTEMPTS)] = replay->next_attempt;
    if (pick(replay, 200) == 0)
        command.allocate.call_sid = "not a sid";
    both(replay, &command);
}

static void step_release(struct replay *replay)
{
    char pattern[POD_NAME_MAX + 2];
    struct command command = {.type = COMMAND_RELEASE,
                              .release = {.call_sid = replay->sid_names[pick(replay, SIDS)],
                                          .why = (enum finish_reason)pick(replay, FINISH_REASONS)}};

    if (pick(replay, 4) == 0)
        command.release.pod = some_pattern(replay, pattern);
    if (pick(replay, 3) == 0)
        command.release.provider = pick(replay, 2) ? "twilio" : "plivo";
    both(replay, &command);
}

/* Mostly a call that is there; NULL: take any name. */
static const struct call_info *some_call(struct replay *replay, size_t at)
{
    struct command look = {.type = COMMAND_CALLS, .calls = {.limit = SIDS}};
    const struct result *known = on_core(replay, &look);

    return at < 50 && known->calls.count ? &known->calls.calls[at % known->calls.count] : NULL;
}

static void step_undo(struct replay *replay)
{
    const struct call_info *call = some_call(replay, pick(replay, SIDS));
    size_t at = call ? sid_index(call->call_sid) : pick(replay, SIDS);
    struct command command = {
        .type = COMMAND_UNDO,
        .undo = {.call_sid = replay->sid_names[at], .attempt = replay->attempts[at][pick(replay, ATTEMPTS)]}};

    if (command.undo.attempt)
        both(replay, &command);
}

/* Mostly with the end of the lease as it is. */
static void step_leave(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct call_info *call = some_call(replay, at);
    struct command command = {
        .type = COMMAND_LEAVE,
        .leave = {.call_sid = call ? call->call_sid : replay->sid_names[at],
                  .carrier = CARRIER,
                  .expires_at_ms = call ? call->expires_at_ms + (pick(replay, 4) == 0) : 1}};

    if (pick(replay, 6) == 0)
        command.leave.expires_at_ms = 0;
    both(replay, &command);
}

static void step_hold(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct call_info *call = some_call(replay, at);
    struct command command = {
        .type = COMMAND_HOLD,
        .hold = {.call_sid = call ? call->call_sid : replay->sid_names[at], .carrier = CARRIER}};

    replay->revived += call && call->expires_at_ms <= replay->now_ms;
    both(replay, &command);
}

/* Mostly a call that is there, off the pod that carries it. */
static void step_move(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct call_info *call = some_call(replay, at);
    struct command command = {
        .type = COMMAND_MOVE_CALL,
        .move = {.call_sid = call ? call->call_sid : replay->sid_names[at],
                 .from_pod = call && pick(replay, 8) ? call->pod : replay->pod_names[pick(replay, PODS)],
                 .aside_ms = pick(replay, 100) * UINT64_C(1000)}};
    const struct result *result = both(replay, &command);

    if (result->outcome == OUTCOME_OK && result->move.was_moved) {
        replay->moved++;
        replay->moved_at_ms[sid_index(command.move.call_sid)] = replay->now_ms;
    }
}

static size_t some_sids(struct replay *replay, const char **sids, size_t max)
{
    size_t count = pick(replay, (unsigned)max + 1);

    for (size_t i = 0; i < count; i++)
        sids[i] = replay->sid_names[pick(replay, SIDS)];
    return count;
}

static void step_renew(struct replay *replay)
{
    const char *sids[8];
    size_t count = some_sids(replay, sids, ARRAY_LEN(sids));
    struct command command = {.type = COMMAND_RENEW, .renew = {.call_sids = sids, .count = count}};
    char pattern[POD_NAME_MAX + 2];

    if (pick(replay, 3) == 0)
        command.renew.pattern = some_pattern(replay, pattern);
    replay->over += both(replay, &command)->renew.finished.count;
}

/* What a gateway says of its streams: mostly calls that are there, each with the pod that has it. */
static void step_renew_carried(struct replay *replay)
{
    const char *sids[6];
    const char *pods[6];
    const char *providers[6];
    struct command command = {
        .type = COMMAND_RENEW,
        .renew = {.call_sids = sids, .pods = pods, .providers = providers, .carrier = CARRIER}};
    const struct result *result;

    for (; command.renew.count < ARRAY_LEN(sids); command.renew.count++) {
        size_t at = pick(replay, SIDS);
        const struct call_info *call = some_call(replay, at);

        sids[command.renew.count] = call ? call->call_sid : replay->sid_names[at];
        pods[command.renew.count] =
            call && pick(replay, 8) ? call->pod : replay->pod_names[pick(replay, PODS)];
        providers[command.renew.count] = some_provider(replay);
        replay->revived += call && call->expires_at_ms <= replay->now_ms;
    }
    result = both(replay, &command);
    replay->adopted += result->renew.adopted.count;
    replay->over += result->renew.finished.count;
}

/* One process alone: what several say to each other is in cases_time.c. */
static void step_present(struct replay *replay)
{
    struct command command = {.type = COMMAND_PRESENT,
                              .present = {.carrier = pick(replay, 20) ? "router-0" : "no,name",
                                          .is_leaving = pick(replay, 4) == 0}};

    both(replay, &command);
}

static void step_heartbeat(struct replay *replay)
{
    const char *pod = replay->pod_names[pick(replay, PODS)];
    struct command look = {.type = COMMAND_POD, .pod = {.name = pod}};
    const struct result *known = on_core(replay, &look);
    const char *sids[8];
    size_t count = 0;
    struct command command;

    /* Mostly what the pod really carries, sometimes something else as well. */
    for (size_t i = 0; known->outcome == OUTCOME_OK && i < known->pod.calls.count && count < 6; i++) {
        if (pick(replay, 4))
            sids[count++] = known->pod.calls.names[i];
    }
    if (pick(replay, 4) == 0)
        count += some_sids(replay, sids + count, 2);
    command = (struct command){.type = COMMAND_HEARTBEAT,
                               .heartbeat = {.pod = pod, .call_sids = sids, .count = count}};
    /* Sometimes the same again: what it leaves out, it leaves out twice in a row. */
    for (unsigned times = pick(replay, 6) ? 1 : HEARTBEAT_MISSES; times > 0; times--) {
        known = both(replay, &command);
        if (known->outcome != OUTCOME_OK)
            break;
        count_ended(replay, &known->heartbeat.ended);
        replay->over += known->heartbeat.finished.count;
    }
}

static void step_drain(struct replay *replay)
{
    const char *pod = replay->pod_names[pick(replay, PODS)];
    struct command drain = {.type = COMMAND_DRAIN,
                            .drain = {.pod = pod, .ttl_ms = pick(replay, 200) * UINT64_C(1000)}};
    struct command undrain = {.type = COMMAND_UNDRAIN, .undrain = {.pod = pod}};

    if (pick(replay, 20) == 0) /* seldom: nothing but an undrain brings the pod back */
        drain.drain.ttl_ms = DRAIN_WITHOUT_END;
    both(replay, pick(replay, 3) ? &drain : &undrain);
}

/*
 * When the process of the pod may have started: around the time at which it got one of its calls, where a
 * millisecond makes the difference.
 */
static uint64_t random_start(struct replay *replay, unsigned at)
{
    struct command look = {.type = COMMAND_POD, .pod = {.name = replay->pod_names[at]}};
    const struct result *pod = on_core(replay, &look);
    const char *call_sid;
    uint64_t placed_at_ms;

    if (pick(replay, 4) == 0)
        return pick(replay, 2) ? replay->now_ms : 0;
    if (pod->outcome != OUTCOME_OK || pod->pod.calls.count == 0)
        return replay->now_ms - pick(replay, 60000);
    call_sid = pod->pod.calls.names[pick(replay, (unsigned)pod->pod.calls.count)];
    look = (struct command){.type = COMMAND_CALL, .call = {.call_sid = call_sid}};
    placed_at_ms = on_core(replay, &look)->call.call.allocated_at_ms;
    if (replay->moved_at_ms[sid_index(call_sid)] > placed_at_ms && pick(replay, 4))
        placed_at_ms = replay->moved_at_ms[sid_index(call_sid)];
    return placed_at_ms + RESTART_SKEW_MS - 1 + pick(replay, 3);
}

static struct pod_seen random_seen(struct replay *replay, unsigned at, char incarnation[16])
{
    static const char *const pinned[] = {"standard", "standard", "gold",        "b",
                                         "m1",       "m2",       "merchant:m1", "merchant:gold"};
    struct replay_pod *pod = &replay->pods[at];

    if (pick(replay, 8) == 0)
        pod->incarnation++;
    snprintf(incarnation, 16, "uid-%u", pod->incarnation);
    return (struct pod_seen){
        .name = replay->pod_names[at],
        .address = pick(replay, 2) ? "10.0.0.1:8000" : "",
        .incarnation = pod->source == POD_SOURCE_STATIC ? NULL : incarnation,
        .tier = pick(replay, 10) == 0 ? pinned[pick(replay, (unsigned)ARRAY_LEN(pinned))] : NULL,
        .source = pick(replay, 60) ? pod->source : (enum pod_source)pick(replay, 3),
        .is_ready = pick(replay, 5) != 0,
        .is_terminating = pick(replay, 20) == 0,
        .hold_back = pick(replay, 6) == 0,
        .started_at_ms = random_start(replay, at),
    };
}

/* How many calls the pod has, if this would be a new incarnation of it; else 0. */
static size_t calls_before(struct replay *replay, const struct pod_seen *seen)
{
    struct command look = {.type = COMMAND_POD, .pod = {.name = seen->name}};
    const struct result *known = on_core(replay, &look);

    if (known->outcome != OUTCOME_OK || known->pod.source != seen->source || !seen->incarnation ||
        strcmp(known->pod.incarnation, seen->incarnation) == 0)
        return 0;
    return known->pod.calls.count;
}

static void step_pod_seen(struct replay *replay)
{
    char incarnation[16];
    struct pod_seen seen = random_seen(replay, pick(replay, PODS), incarnation);
    struct command command = {.type = COMMAND_POD_SEEN, .pod_seen = {.pod = seen}};
    const struct result *result;
    size_t calls;

    if (seen.source == POD_SOURCE_API) {
        command.pod_seen.is_registration = true;
        command.pod_seen.pod.is_ready = true;
        command.pod_seen.pod.is_terminating = false;
        if (pick(replay, 4) == 0)
            command.pod_seen.pod.incarnation = NULL;
    }
    calls = calls_before(replay, &command.pod_seen.pod);
    result = both(replay, &command);
    if (result->outcome != OUTCOME_OK)
        return;
    count_ended(replay, &result->pod_seen.ended);
    replay->outlived += calls > result->pod_seen.ended.count ? calls - result->pod_seen.ended.count : 0;
}

static void step_pod_gone(struct replay *replay)
{
    unsigned at = pick(replay, PODS);
    struct command command = {.type = COMMAND_POD_GONE,
                              .pod_gone = {.pod = replay->pod_names[at],
                                           .source = replay->pods[at].source,
                                           .is_absent = pick(replay, 2)}};
    const struct result *result = both(replay, &command);

    if (result->outcome != OUTCOME_OK)
        return;
    count_ended(replay, &result->pod_gone.ended);
    replay->absent += result->pod_gone.has_stayed;
}

static void step_sync(struct replay *replay)
{
    enum pod_source source = pick(replay, 2) ? POD_SOURCE_KUBERNETES : POD_SOURCE_STATIC;
    struct pod_seen seen[PODS];
    char incarnations[PODS][16];
    size_t count = 0;
    struct command command;
    const struct result *result;

    for (unsigned i = 0; i < PODS; i++) {
        if (replay->pods[i].source == source && pick(replay, 8)) {
            seen[count] = random_seen(replay, i, incarnations[i]);
            seen[count].is_kept = pick(replay, 8) == 0;
            replay->kept += seen[count].is_kept;
            seen[count++].source = source;
        }
    }
    command = (struct command){
        .type = COMMAND_SYNC,
        .sync = {.source = source, .pods = seen, .count = count, .spares_calls = pick(replay, 2)}};
    result = both(replay, &command);
    if (result->outcome != OUTCOME_OK)
        return;
    count_ended(replay, &result->sync.ended);
    replay->absent += result->sync.absent.count;
}

/* Both sweep to the end; how far each step goes is their own affair. */
static void step_sweep(struct replay *replay)
{
    struct command command = {.type = COMMAND_SWEEP, .sweep = {.limit = 0}};

    count_ended(replay, &both(replay, &command)->sweep.ended);
    replay->swept_at_ms = replay->now_ms;
    replay->has_swept = true;
}

static void step_scale(struct replay *replay)
{
    struct command command = {
        .type = COMMAND_SCALE,
        .scale = {.by_set = pick(replay, 4) > 0, .limit = pick(replay, 3) ? 0 : 1 + pick(replay, 3)}};

    both(replay, &command);
}

static void step_rebalance(struct replay *replay)
{
    struct command command = {.type = COMMAND_REBALANCE, .rebalance = {.limit = pick(replay, 5)}};

    both(replay, &command);
}

/* Some are trials, and some want a version that may be another one by now. */
static struct change random_change(struct replay *replay)
{
    static const char *const keys[] = {NULL, "ops", "API_KEY 2"};

    return (struct change){.by = keys[pick(replay, (unsigned)ARRAY_LEN(keys))],
                           .is_trial = pick(replay, 6) == 0,
                           .if_version = pick(replay, 4) ? 0 : 1 + pick(replay, 30)};
}

/* A version of the tiers (NULL) or of a merchant; NULL: there is none, or it is a removal. */
static const char *random_version(struct replay *replay, const char *merchant_id)
{
    struct command command = {.type = COMMAND_HISTORY, .history = {.merchant_id = merchant_id}};
    const struct result *result = both(replay, &command);
    const char *text;

    if (result->outcome != OUTCOME_OK)
        return NULL;
    text = result->history.versions[pick(replay, (unsigned)result->history.count)].text;
    replay->full_histories += result->history.count == HISTORY_MAX;
    return text[0] ? arena_strdup(&replay->arena, text) : NULL;
}

static void step_tiers(struct replay *replay)
{
    const char *kept = pick(replay, 3) == 0 ? random_version(replay, NULL) : NULL;
    struct command command = {
        .type = COMMAND_TIERS_SET,
        .tiers_set = {.text = random_tiers[pick(replay, (unsigned)ARRAY_LEN(random_tiers))],
                      .change = random_change(replay)}};

    if (kept) {
        command.tiers_set.text = kept;
        command.tiers_set.change.is_stored = true;
    }
    both(replay, &command);
}

static void step_merchant(struct replay *replay)
{
    char id[16];
    struct command command = {
        .type = COMMAND_MERCHANT_SET,
        .merchant_set = {.merchant_id = id,
                         .text = random_merchants[pick(replay, (unsigned)ARRAY_LEN(random_merchants))],
                         .change = random_change(replay)}};
    const char *kept;

    snprintf(id, sizeof(id), "m%u", pick(replay, MERCHANTS));
    kept = pick(replay, 4) == 0 ? random_version(replay, id) : NULL;
    if (kept) {
        command.merchant_set.text = kept;
        command.merchant_set.change.is_stored = true;
    } else if (pick(replay, 4) == 0) {
        command = (struct command){.type = COMMAND_MERCHANT_REMOVE,
                                   .merchant_remove = {.merchant_id = id, .change = random_change(replay)}};
    }
    both(replay, &command);
}

/* Mostly seconds; sometimes long enough for drains, leases or everything to run out. */
static void step_time(struct replay *replay)
{
    unsigned kind = pick(replay, 100);
    uint64_t left = kind < 80 ? pick(replay, 3) : kind < 97 ? pick(replay, 60) : pick(replay, 1200);

    while (left > 0) {
        uint64_t due = SWEEP_EVERY_S - (replay->now_ms - replay->swept_at_ms) / 1000;
        uint64_t hop = min_u64(left, due);

        replay->now_ms += hop * 1000;
        *replay->server.clock_ms = replay->now_ms;
        left -= hop;
        if (replay->now_ms - replay->swept_at_ms >= SWEEP_EVERY_S * UINT64_C(1000))
            step_sweep(replay);
    }
}

/* Nobody could be heard, and nobody has swept: leases, drains and holds have run out meanwhile. */
static void step_outage(struct replay *replay)
{
    replay->now_ms += pick(replay, 3 * LEASE_S) * UINT64_C(1000);
    *replay->server.clock_ms = replay->now_ms;
    replay->swept_at_ms = replay->now_ms; /* the next sweep comes when it would come then */
    replay->outages++;
}

/* Questions that the comparison after every step does not ask. */
static void step_query(struct replay *replay)
{
    static const char *const tiers[] = {"gold", "standard", "basic", "merchant:m1", "m1", "nowhere"};
    char merchant[16];
    struct command command;

    snprintf(merchant, sizeof(merchant), "m%u", pick(replay, MERCHANTS));
    switch (pick(replay, 5)) {
    case 4: /* all that pass the filters, on one page */
        command = (struct command){
            .type = COMMAND_CALLS,
            .calls = {.pod = pick(replay, 3) ? NULL : replay->pod_names[pick(replay, PODS)],
                      .merchant_id = pick(replay, 3) ? NULL : merchant,
                      .state = (enum call_state)pick(replay, CALL_STATES),
                      .older_than_ms = pick(replay, 2) ? 0 : pick(replay, 600) * UINT64_C(1000),
                      .limit = SIDS}};
        break;
    case 0:
        command = (struct command){.type = COMMAND_CALL,
                                   .call = {.call_sid = replay->sid_names[pick(replay, SIDS)]}};
        break;
    case 1:
        command =
            (struct command){.type = COMMAND_POD, .pod = {.name = replay->pod_names[pick(replay, PODS)]}};
        break;
    case 2:
        command = (struct command){.type = COMMAND_MERCHANT, .merchant = {.merchant_id = merchant}};
        break;
    default:
        command = (struct command){
            .type = COMMAND_PODS,
            .pods = {.tier = pick(replay, 2) ? tiers[pick(replay, (unsigned)ARRAY_LEN(tiers))] : NULL,
                     .state = (int)pick(replay, 3) - 1, /* any, available, busy */
                     .limit = 1 + pick(replay, 5),
                     .cursor = pick(replay, 2) ? replay->pod_names[pick(replay, PODS)] : NULL}};
    }
    both(replay, &command);
}

/* All calls, a few at a time: every one must come once. */
static void step_pages(struct replay *replay)
{
    struct command command = {.type = COMMAND_CALLS, .calls = {.limit = 1 + pick(replay, 4)}};
    size_t seen = 0;
    uint64_t total;

    do {
        const struct result *page = on_store(replay, &command);

        for (size_t i = 0; i < page->calls.count; i++) {
            struct command one = {.type = COMMAND_CALL, .call = {.call_sid = page->calls.calls[i].call_sid}};

            (void)on_core(replay, &one);
        }
        seen += page->calls.count;
        total = page->calls.total;
        command.calls.cursor = page->calls.next_cursor;
    } while (command.calls.cursor[0]);
    if (seen != total || total != core_call_count(replay->core))
        REPLAY_FAIL(replay, "%zu calls came in pages, %" PRIu64 " are said to be there, core has %zu", seen,
                    total, core_call_count(replay->core));
}

static int raw_connect(struct replay *replay)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", replay->server.socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        REPLAY_FAIL(replay, "no second connection to Redis: %s", strerror(errno));
    return fd;
}

static void raw_send(struct replay *replay, int fd, const char *line)
{
    if (dprintf(fd, "%s\r\n", line) < 0)
        REPLAY_FAIL(replay, "cannot write to Redis: %s", strerror(errno));
}

/* The next line, without its end, in the arena. */
static char *raw_line(struct replay *replay, int fd)
{
    struct strbuf line;
    char c;

    strbuf_init(&line, &replay->arena, TEXT_MAX);
    while (read(fd, &c, 1) == 1 && c != '\n') {
        if (c != '\r')
            strbuf_append_char(&line, c);
    }
    if (strbuf_failed(&line) || line.len == 0)
        REPLAY_FAIL(replay, "nothing from Redis");
    return line.data;
}

/* Any step that changes something, watched from outside: the script that it calls is kept, to be sent again.
 */
static void step_watched(struct replay *replay)
{
    static void (*const steps[])(struct replay * replay) = {
        step_allocate, step_release, step_hold,      step_undo,     step_renew_carried, step_leave,
        step_move,     step_drain,   step_heartbeat, step_pod_seen, step_merchant};
    int fd = raw_connect(replay);
    char *line;

    raw_send(replay, fd, "MONITOR");
    (void)raw_line(replay, fd);
    steps[pick(replay, (unsigned)ARRAY_LEN(steps))](replay);
    /* A marker behind it: a step may have asked for nothing, or for several scripts. */
    {
        int marker = raw_connect(replay);

        raw_send(replay, marker, "ECHO watched");
        (void)raw_line(replay, marker);
        (void)close(marker);
    }
    for (line = raw_line(replay, fd); !strstr(line, "\"watched\""); line = raw_line(replay, fd)) {
        char *script = strstr(line, "] \"EVALSHA\"");

        if (!script || strstr(line, " lua] ") || replay->late_count == LATE_MAX)
            continue;
        replay->late[replay->late_count].line = strdup(script + 2);
        replay->late[replay->late_count++].sent_at_ms = replay->now_ms;
    }
    (void)close(fd);
}

/* A script arrives long after its router has given it up. */
static void step_late(struct replay *replay)
{
    size_t at = replay->late_count ? pick(replay, (unsigned)replay->late_count) : 0;
    const char *answer;
    int fd;

    if (replay->late_count == 0 ||
        replay->now_ms <= replay->late[at].sent_at_ms + (TIMEOUT_S + 1) * UINT64_C(1000))
        return;
    fd = raw_connect(replay);
    raw_send(replay, fd, replay->late[at].line);
    answer = raw_line(replay, fd);
    /* What only looks is answered; what changes something says that it comes too late. */
    if (strncmp(answer, "-LATE ", 6) != 0 && strncmp(answer, "*", 1) != 0 &&
        strncmp(answer, "-NOSCRIPT", 9) != 0)
        REPLAY_FAIL(replay, "a late script is answered with %s:\n%s", answer, replay->late[at].line);
    replay->late_sent += strncmp(answer, "-LATE ", 6) == 0;
    (void)close(fd);
    free(replay->late[at].line);
    replay->late[at] = replay->late[--replay->late_count];
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
        {step_allocate, 30},     {step_release, 12},  {step_renew, 6},    {step_heartbeat, 10},
        {step_drain, 4},         {step_pod_seen, 14}, {step_pod_gone, 2}, {step_sync, 2},
        {step_sweep, 3},         {step_rebalance, 3}, {step_scale, 3},    {step_tiers, 1},
        {step_merchant, 2},      {step_time, 8},      {step_query, 4},    {step_pages, 1},
        {step_move, 5},          {step_leave, 6},     {step_hold, 6},     {step_undo, 6},
        {step_renew_carried, 6}, {step_outage, 1},    {step_watched, 1},  {step_late, 1},
        {step_present, 1},
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
                                 .heartbeat_ttl_ms = 90000};
    struct redis_settings settings = {.key_prefix = "voice:",
                                      .core = core,
                                      .call_info_ttl_ms = 4 * 3600000, /* longer than the longest outage */
                                      .tier_refresh_ms = 3600000};
    struct store_health health;

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

/* A run in which something never happened has compared less than it says. */
static bool nothing_was_left_out(const struct replay *replay)
{
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
    return replay->outcomes[COMMAND_ALLOCATE][OUTCOME_OK] &&
           replay->outcomes[COMMAND_ALLOCATE][OUTCOME_NO_PODS] && replay->ended[CALL_END_EXPIRED] &&
           replay->ended[CALL_END_POD_GONE] && replay->ended[CALL_END_RESTARTED] &&
           replay->ended[CALL_END_UNMENTIONED] && replay->outcomes[COMMAND_TIERS_SET][OUTCOME_INVALID] &&
           replay->outcomes[COMMAND_POD_SEEN][OUTCOME_CONFLICT] && replay->moved &&
           replay->outcomes[COMMAND_MOVE_CALL][OUTCOME_NO_PODS] &&
           replay->outcomes[COMMAND_ALLOCATE][OUTCOME_FORBIDDEN] &&
           replay->outcomes[COMMAND_RELEASE][OUTCOME_FORBIDDEN] &&
           replay->outcomes[COMMAND_LEAVE][OUTCOME_OK] && replay->outcomes[COMMAND_LEAVE][OUTCOME_CONFLICT] &&
           replay->outages && replay->revived && replay->adopted && replay->over &&
           replay->outcomes[COMMAND_UNDO][OUTCOME_OK] && replay->outcomes[COMMAND_UNDO][OUTCOME_CONFLICT] &&
           replay->late_sent && replay->absent && replay->kept && replay->outlived &&
           replay->full_histories && replay->outcomes[COMMAND_TIERS_SET][OUTCOME_CONFLICT] &&
           replay->outcomes[COMMAND_MERCHANT_SET][OUTCOME_CONFLICT];
}

int main(int argc, char **argv)
{
    static struct replay replay;
    uint64_t steps = 20000;
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
    is_complete = steps < 20000 || nothing_was_left_out(&replay);
    store_close(replay.store, replay_closed, NULL);
    uv_run(&replay.loop, UV_RUN_DEFAULT);
    uv_loop_close(&replay.loop);
    core_free(replay.core);
    strbuf_release(&replay.history);
    strbuf_release(&replay.told[0]);
    strbuf_release(&replay.told[1]);
    while (replay.late_count > 0)
        free(replay.late[--replay.late_count].line);
    arena_release(&replay.arena);
    redis_server_stop(&replay.server);
    return is_complete ? 0 : 1;
}
