/*
 * autoscale_day.c - plays the calls of a day through core, with an autoscaler as KEDA and an HPA are, in
 * simulated time.
 *
 * autoscale-day --kind deployment|statefulset [--from HOUR] [--hours N] [--seed N] [--csv FILE]
 *
 * Calls come by the hour of the day. The autoscaler reads desired_pods every 15 s and obeys with the HPA's
 * rules: 10 % tolerance, at most twice as many pods or four more in a step up, and the highest number of the
 * last five minutes on the way down. Pods take a while to start. A Deployment removes any of its pods, here
 * a random one, which is the worst case; a StatefulSet removes its highest ordinals. A pod that is removed
 * terminates when its preStop hook has seen it drained.
 *
 * Broken rules end the program with 1: a pod that goes with a live call, a violation of core_check(), a
 * StatefulSet that begins to remove a pod with a call, and pods that do not follow the calls.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/autoscale.h"
#include "core/core.h"

enum {
    SLOTS = 400, /* pods at once, those that terminate included */
    CALLS = 4000,
    ARENA_MAX = 4 * 1024 * 1024,
    AUTOSCALE_S = 15,  /* the HPA's interval */
    STABILISE_S = 300, /* its window on the way down */
    SCALE_S = 5,       /* of the leader */
    SWEEP_S = 30,      /* the same */
    REBALANCE_S = 60,  /* the same */
    START_MIN_S = 15,  /* until a pod is ready */
    START_MORE_S = 30, /* at most so much longer */
    CALL_MEAN_S = 180,
    CALL_MIN_S = 5,
    FIRST_PODS = 10,
};

static const char tiers[] =
    "{\"gold\":{\"buffer\":8,\"min\":6,\"max\":120},"
    "\"basic\":{\"type\":\"shared\",\"max_concurrent\":3,\"buffer\":6,\"min\":2,\"max\":40}}";

enum slot_state { SLOT_FREE, SLOT_STARTING, SLOT_READY, SLOT_TERMINATING };

struct slot {
    enum slot_state state;
    uint64_t ready_at;
    unsigned calls;
    char name[32];
};

struct live_call {
    uint64_t ends_at; /* 0: no call */
    size_t slot;
};

struct day {
    struct core *core;
    struct arena arena;
    struct result result;
    bool is_set;
    uint64_t random;
    uint64_t now; /* seconds */
    uint64_t replicas;
    uint64_t named; /* pods of a Deployment that had a name */
    struct slot slots[SLOTS];
    struct live_call calls[CALLS];
    uint64_t recommended[STABILISE_S / AUTOSCALE_S];
    size_t recommendations;
    uint64_t allocated, refused, removed, removed_with_calls;
    uint64_t least_pods, most_pods, most_calls;
    FILE *csv;
};

#define DAY_CHECK(day, condition, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "at %" PRIu64 " s: ", (day)->now);                                               \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fputc('\n', stderr);                                                                             \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static uint64_t next_random(struct day *day)
{
    day->random ^= day->random << 13;
    day->random ^= day->random >> 7;
    day->random ^= day->random << 17;
    return day->random;
}

static double next_share(struct day *day)
{
    return (double)(next_random(day) >> 11) / (double)(UINT64_C(1) << 53);
}

static const struct result *run(struct day *day, const struct command *command)
{
    arena_reset(&day->arena);
    day->result = (struct result){0};
    DAY_CHECK(day,
              core_execute(day->core, command, (1000000 + day->now) * 1000, &day->arena, &day->result) == 0,
              "no memory");
    return &day->result;
}

/* Pods */

static void see(struct day *day, const struct slot *slot)
{
    const struct pod_seen seen = {.name = slot->name,
                                  .address = "",
                                  .incarnation = "1",
                                  .source = POD_SOURCE_KUBERNETES,
                                  .is_ready = slot->state == SLOT_READY,
                                  .is_terminating = slot->state == SLOT_TERMINATING};

    run(day, &(struct command){.type = COMMAND_POD_SEEN, .pod_seen = {.pod = seen}});
}

static void start_pod(struct day *day, size_t at)
{
    struct slot *slot = &day->slots[at];

    *slot = (struct slot){.state = SLOT_STARTING,
                          .ready_at = day->now + START_MIN_S + next_random(day) % START_MORE_S};
    if (day->is_set)
        snprintf(slot->name, sizeof(slot->name), "agent-%zu", at);
    else
        snprintf(slot->name, sizeof(slot->name), "agent-7c9d-p%" PRIu64 "x", day->named++);
}

/* Kubernetes wants the pod gone: it is told to end, and ends when it is drained. */
static void remove_pod(struct day *day, struct slot *slot)
{
    if (slot->state == SLOT_STARTING) {
        slot->state = SLOT_FREE;
        return;
    }
    slot->state = SLOT_TERMINATING;
    day->removed++;
    day->removed_with_calls += slot->calls > 0;
    see(day, slot);
}

static size_t pods_of(const struct day *day)
{
    size_t count = 0;

    for (size_t i = 0; i < SLOTS; i++)
        count += day->slots[i].state == SLOT_STARTING || day->slots[i].state == SLOT_READY;
    return count;
}

/* The controller of a StatefulSet: the ordinals below the number of replicas. */
static void control_set(struct day *day)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &day->slots[i];

        if (i < day->replicas && slot->state == SLOT_FREE)
            start_pod(day, i);
        else if (i >= day->replicas && (slot->state == SLOT_STARTING || slot->state == SLOT_READY))
            remove_pod(day, slot);
    }
}

static void control_deployment(struct day *day)
{
    size_t pods = pods_of(day);

    for (size_t i = 0; i < SLOTS && pods < day->replicas; i++) {
        if (day->slots[i].state != SLOT_FREE)
            continue;
        start_pod(day, i);
        pods++;
    }
    while (pods > day->replicas) {
        struct slot *slot = &day->slots[next_random(day) % SLOTS];

        if (slot->state != SLOT_STARTING && slot->state != SLOT_READY)
            continue;
        remove_pod(day, slot);
        pods--;
    }
}

static void live_pods(struct day *day)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &day->slots[i];

        if (slot->state == SLOT_STARTING && slot->ready_at <= day->now) {
            slot->state = SLOT_READY;
            see(day, slot);
        } else if (slot->state == SLOT_TERMINATING && slot->calls == 0) { /* preStop has seen it drained */
            const struct command gone = {.type = COMMAND_POD_GONE,
                                         .pod_gone = {.pod = slot->name, .source = POD_SOURCE_KUBERNETES}};

            DAY_CHECK(day, run(day, &gone)->pod_gone.ended.count == 0, "%s took a call with it", slot->name);
            slot->state = SLOT_FREE;
        }
    }
}

/* Calls */

/* Arrivals in a second: a night, a morning that rises, a break at noon, and a peak at nine. */
static double arrivals(uint64_t now)
{
    double hour = fmod((double)now / 3600, 24);
    double rate = 0.01;

    if (hour > 6 && hour < 22)
        rate += 0.30 * pow(sin((hour - 6) / 16 * M_PI), 2);
    if (hour > 12 && hour < 13)
        rate *= 0.7;
    if (hour > 9 && hour < 9.25)
        rate *= 1.6;
    return rate;
}

static void begin_call(struct day *day, size_t at)
{
    char sid[32];
    struct command command = {.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = sid, .merchant_id = "", .provider = ""}};
    const struct result *result;
    size_t slot = 0;

    snprintf(sid, sizeof(sid), "CA%zu", at);
    result = run(day, &command);
    if (result->outcome != OUTCOME_OK) {
        day->refused++;
        return;
    }
    day->allocated++;
    while (slot < SLOTS && (day->slots[slot].state == SLOT_FREE ||
                            strcmp(day->slots[slot].name, result->allocate.call.pod) != 0))
        slot++;
    DAY_CHECK(day, slot < SLOTS && day->slots[slot].state == SLOT_READY, "%s got a pod that is not ready",
              sid);
    day->slots[slot].calls++;
    day->calls[at] = (struct live_call){
        .ends_at = day->now + CALL_MIN_S + (uint64_t)(-log(1 - next_share(day)) * (CALL_MEAN_S - CALL_MIN_S)),
        .slot = slot};
}

static void end_call(struct day *day, size_t at)
{
    char sid[32];

    snprintf(sid, sizeof(sid), "CA%zu", at);
    DAY_CHECK(day,
              run(day, &(struct command){.type = COMMAND_RELEASE, .release = {.call_sid = sid}})->outcome ==
                  OUTCOME_OK,
              "%s was cut off", sid);
    day->slots[day->calls[at].slot].calls--;
    day->calls[at].ends_at = 0;
}

static void live_calls(struct day *day)
{
    size_t at = 0;

    for (size_t i = 0; i < CALLS; i++) {
        if (day->calls[i].ends_at && day->calls[i].ends_at <= day->now)
            end_call(day, i);
    }
    /* At most one in a second, as the rate is below one. */
    if (next_share(day) < arrivals(day->now)) {
        while (at < CALLS && day->calls[at].ends_at)
            at++;
        DAY_CHECK(day, at < CALLS, "too many calls");
        begin_call(day, at);
    }
}

/* The autoscaler */

static uint64_t desired_pods(struct day *day)
{
    const struct command look = {.type = COMMAND_STATUS, .status = {.with_sets = day->is_set}};

    return autoscale_of(run(day, &look), NULL).desired_pods;
}

/* An HPA with an external metric of the type AverageValue and the target 1. */
static void autoscale(struct day *day)
{
    uint64_t metric = desired_pods(day);
    double ratio = (double)metric / (double)day->replicas;
    uint64_t wanted = fabs(ratio - 1) <= 0.1 ? day->replicas : metric;
    size_t window = ARRAY_LEN(day->recommended);
    uint64_t highest = wanted;
    uint64_t most_up = day->replicas * 2 > day->replicas + 4 ? day->replicas * 2 : day->replicas + 4;

    day->recommended[day->recommendations++ % window] = wanted;
    for (size_t i = 0; i < window && i < day->recommendations; i++)
        highest = day->recommended[i] > highest ? day->recommended[i] : highest;
    if (wanted >= day->replicas)
        day->replicas = min_u64(wanted, most_up);
    else if (highest < day->replicas)
        day->replicas = highest;
    if (day->is_set)
        control_set(day);
    else
        control_deployment(day);
}

static void note(struct day *day)
{
    size_t pods = pods_of(day);
    size_t calls = core_call_count(day->core);

    day->least_pods = min_u64(day->least_pods, pods);
    day->most_pods = pods > day->most_pods ? pods : day->most_pods;
    day->most_calls = calls > day->most_calls ? calls : day->most_calls;
    if (day->csv && day->now % 60 == 0)
        fprintf(day->csv, "%" PRIu64 ",%zu,%zu,%" PRIu64 ",%" PRIu64 "\n", day->now, calls, pods,
                desired_pods(day), day->refused);
}

static void step(struct day *day)
{
    char error[256];

    live_pods(day);
    live_calls(day);
    if (day->now % SWEEP_S == 0)
        run(day, &(struct command){.type = COMMAND_SWEEP});
    if (day->now % REBALANCE_S == 0)
        run(day, &(struct command){.type = COMMAND_REBALANCE});
    if (day->is_set && day->now % SCALE_S == 0)
        run(day, &(struct command){.type = COMMAND_SCALE, .scale = {.by_set = true}});
    if (day->now % AUTOSCALE_S == 0)
        autoscale(day);
    if (day->now % 60 == 0)
        DAY_CHECK(day, core_check(day->core, error, sizeof(error)), "%s", error);
    note(day);
}

static void play(struct day *day, uint64_t from, uint64_t seconds)
{
    const struct core_settings settings = {.lease_ttl_ms = UINT64_C(1000000000),
                                           .call_max_duration_ms = UINT64_C(1000000000),
                                           .draining_ttl_ms = 360000,
                                           .heartbeat_ttl_ms = 60000};

    DAY_CHECK(day, core_new(&settings, &day->core) == 0, "no memory");
    arena_init(&day->arena, ARENA_MAX);
    day->now = from;
    run(day, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {.text = tiers}});
    DAY_CHECK(day, day->result.outcome == OUTCOME_OK, "%s", day->result.error);
    day->replicas = FIRST_PODS;
    for (size_t i = 0; i < FIRST_PODS; i++)
        start_pod(day, i);
    day->least_pods = SLOTS;
    for (; day->now < from + seconds; day->now++)
        step(day);
    day->core = core_free(day->core);
    arena_release(&day->arena);
}

static void judge(const struct day *day)
{
    printf("%s: %" PRIu64 " calls, %" PRIu64 " refused, at most %" PRIu64 " at once; %" PRIu64 " to %" PRIu64
           " pods; %" PRIu64 " pods removed, %" PRIu64 " while they had calls; no call was cut off\n",
           day->is_set ? "statefulset" : "deployment", day->allocated, day->refused, day->most_calls,
           day->least_pods, day->most_pods, day->removed, day->removed_with_calls);
    DAY_CHECK(day, day->removed > 0, "no pod was removed");
    DAY_CHECK(day, day->most_pods >= 2 * day->least_pods, "the pods do not follow the calls");
    DAY_CHECK(day, day->refused * 50 <= day->allocated, "more than 2 %% of the calls were refused");
    DAY_CHECK(day, !day->is_set || day->removed_with_calls == 0, "an ordinal with a call was removed");
}

int main(int argc, char **argv)
{
    static struct day day;
    double hours = 24;
    double from = 0;
    const char *csv = NULL;

    day.random = 42;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kind") == 0)
            day.is_set = strcmp(argv[i + 1], "statefulset") == 0;
        else if (strcmp(argv[i], "--hours") == 0)
            hours = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--from") == 0)
            from = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            day.random = strtoull(argv[i + 1], NULL, 10) * 2654435761U + 1;
        else if (strcmp(argv[i], "--csv") == 0)
            csv = argv[i + 1];
        else
            return fprintf(stderr, "unknown: %s\n", argv[i]), 2;
    }
    day.csv = csv ? fopen(csv, "w") : NULL;
    if (csv && !day.csv)
        return fprintf(stderr, "%s cannot be written\n", csv), 2;
    play(&day, (uint64_t)(from * 3600), (uint64_t)(hours * 3600));
    if (day.csv)
        fclose(day.csv);
    judge(&day);
    return 0;
}
