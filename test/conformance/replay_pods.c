/* replay_pods.c - steps of pods, tiers and merchants, of time, and of queries: see replay.c. */
#include "../support/random_configs.h"
#include "replay.h"

void step_drain(struct replay *replay)
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

void step_pod_seen(struct replay *replay)
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

void step_pod_gone(struct replay *replay)
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

void step_sync(struct replay *replay)
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
void step_sweep(struct replay *replay)
{
    struct command command = {.type = COMMAND_SWEEP, .sweep = {.limit = 0}};

    count_ended(replay, &both(replay, &command)->sweep.ended);
    replay->swept_at_ms = replay->now_ms;
    replay->has_swept = true;
}

void step_scale(struct replay *replay)
{
    struct command command = {
        .type = COMMAND_SCALE,
        .scale = {.by_set = pick(replay, 4) > 0, .limit = pick(replay, 3) ? 0 : 1 + pick(replay, 3)}};

    both(replay, &command);
}

void step_rebalance(struct replay *replay)
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

void step_tiers(struct replay *replay)
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

void step_merchant(struct replay *replay)
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
void step_time(struct replay *replay)
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
void step_outage(struct replay *replay)
{
    replay->now_ms += pick(replay, 3 * LEASE_S) * UINT64_C(1000);
    *replay->server.clock_ms = replay->now_ms;
    replay->swept_at_ms = replay->now_ms; /* the next sweep comes when it would come then */
    replay->outages++;
}

/* Questions that the comparison after every step does not ask. */
void step_query(struct replay *replay)
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
void step_pages(struct replay *replay)
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
