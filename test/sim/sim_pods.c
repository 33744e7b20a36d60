/* sim_pods.c - steps about pods, their tiers and the merchants. */
#include "../support/random_configs.h"
#include "sim.h"

void sim_drain(struct sim *sim)
{
    const char *pod = sim->pod_names[pick(sim, PODS)];

    if (pick(sim, 3))
        sim->command = (struct command){
            .type = COMMAND_DRAIN,
            .drain = {.pod = pod, .ttl_ms = pick(sim, 20) ? pick(sim, 200000) : DRAIN_WITHOUT_END}};
    else
        sim->command = (struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = pod}};
    execute(sim);
}

/* When the process of the pod may have started: around the times of its calls, where it makes a difference.
 */
static uint64_t random_start(struct sim *sim, unsigned at)
{
    unsigned from = pick(sim, SIDS);

    if (pick(sim, 4) == 0)
        return pick(sim, 2) ? sim->now_ms : 0;
    for (unsigned i = 0; i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[(from + i) % SIDS];

        if (call->is_known && call->pod == (int)at)
            return call->placed_at_ms + pick(sim, 2 * RESTART_SKEW_MS) - pick(sim, 2);
    }
    return sim->now_ms - pick(sim, 60000);
}

/* One observation of pod number `at`, of whatever has become of it. */
static struct pod_seen random_seen(struct sim *sim, unsigned at, char incarnation[16])
{
    struct shadow_pod *pod = &sim->pods[at];

    if (pick(sim, 20) == 0)
        pod->incarnation++;
    snprintf(incarnation, 16, "uid-%u", pod->incarnation);
    return (struct pod_seen){
        .name = sim->pod_names[at],
        .address = pick(sim, 2) ? "10.0.0.1:8000" : "",
        .incarnation = pod->source == POD_SOURCE_STATIC ? NULL : incarnation,
        .tier = pick(sim, 30)  ? NULL
                : pick(sim, 2) ? "standard"
                               : "m1",
        .source = pod->source,
        .is_ready = pick(sim, 5) != 0,
        .is_terminating = pick(sim, 20) == 0,
        .hold_back = pick(sim, 6) == 0,
        .started_at_ms = random_start(sim, at),
    };
}

/* An observation was taken over: what is left is younger than the process. */
static void shadow_seen(struct sim *sim, const struct pod_seen *seen)
{
    int at = pod_index(sim, seen->name);
    struct shadow_pod *pod = &sim->pods[at];

    if (!seen->is_terminating) {
        sim->counts.unabsent += pod->is_absent && shadow_load(sim, at) > 0;
        pod->is_absent = false;
    }
    if (pod->accepted == pod->incarnation)
        return;
    pod->accepted = pod->incarnation;
    for (int i = 0; seen->incarnation && i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[i];

        /* One that came in the same step came to the new process. */
        if (!call->is_known || call->pod != at || call->has_arrived)
            continue;
        SIM_CHECK(sim, !is_older(call, seen->started_at_ms), "CA%d has outlived the process of its pod", i);
        sim->counts.outlived++;
    }
}

/* The pod is not shown any more: it has left, or it stays for its calls and gets no other. */
static void shadow_absent(struct sim *sim, int at, bool has_stayed)
{
    struct result pod;

    look(sim, (struct command){.type = COMMAND_POD, .pod = {.name = sim->pod_names[at]}}, &pod);
    SIM_CHECK(sim, has_stayed == (shadow_load(sim, at) > 0), "%s: whether it has stayed is wrong",
              sim->pod_names[at]);
    SIM_CHECK(sim, (pod.outcome == OUTCOME_OK) == has_stayed, "%s: whether it is there is wrong",
              sim->pod_names[at]);
    SIM_CHECK(sim, !has_stayed || pod.pod.state == POD_DRAINING, "%s is absent and does not drain",
              sim->pod_names[at]);
    sim->pods[at].is_absent = has_stayed;
    sim->counts.absent[sim->command.type] += has_stayed;
}

void sim_pod_seen(struct sim *sim)
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
    shadow_seen(sim, &seen);
    check_ended(sim, &sim->result.pod_seen.ended);
}

void sim_pod_gone(struct sim *sim)
{
    unsigned at = pick(sim, PODS);
    bool is_absent = pick(sim, 2);

    sim->command = (struct command){
        .type = COMMAND_POD_GONE,
        .pod_gone = {.pod = sim->pod_names[at], .source = sim->pods[at].source, .is_absent = is_absent}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome != OUTCOME_CONFLICT, "pod %s has an unexpected source",
              sim->pod_names[at]);
    if (sim->result.outcome != OUTCOME_OK)
        return;
    check_ended(sim, &sim->result.pod_gone.ended);
    SIM_CHECK(sim, !is_absent || sim->result.pod_gone.ended.count == 0, "an absence ended a call");
    SIM_CHECK(sim, is_absent || shadow_load(sim, (int)at) == 0, "a pod that is gone has a call");
    shadow_absent(sim, (int)at, sim->result.pod_gone.has_stayed);
}

static bool is_among(const char *name, const struct pod_seen *seen, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(seen[i].name, name) == 0)
            return true;
    }
    return false;
}

static size_t kept_load(struct sim *sim, const struct pod_seen *seen, size_t count)
{
    size_t load = 0;

    for (size_t i = 0; i < count; i++)
        load += seen[i].is_kept ? shadow_load(sim, pod_index(sim, seen[i].name)) : 0;
    return load;
}

static void check_sync(struct sim *sim, const struct pod_seen *seen, size_t count)
{
    const struct name_array *absent = &sim->result.sync.absent;
    size_t stayed = 0;

    check_ended(sim, &sim->result.sync.ended);
    for (size_t i = 0; i < count; i++) {
        if (!seen[i].is_kept)
            shadow_seen(sim, &seen[i]);
    }
    for (int i = 0; i < PODS; i++) {
        bool has_stayed = false;

        if (sim->pods[i].source != sim->command.sync.source || is_among(sim->pod_names[i], seen, count))
            continue;
        SIM_CHECK(sim, sim->command.sync.spares_calls || shadow_load(sim, i) == 0,
                  "%s is gone and has a call", sim->pod_names[i]);
        for (size_t k = 0; k < absent->count; k++)
            has_stayed |= strcmp(absent->names[k], sim->pod_names[i]) == 0;
        shadow_absent(sim, i, has_stayed);
        stayed += has_stayed;
    }
    SIM_CHECK(sim, stayed == absent->count, "a sync names absent pods that are none");
}

void sim_sync(struct sim *sim)
{
    enum pod_source source = pick(sim, 2) ? POD_SOURCE_KUBERNETES : POD_SOURCE_STATIC;
    struct pod_seen seen[PODS];
    char incarnations[PODS][16];
    size_t count = 0;
    size_t kept;

    for (unsigned i = 0; i < PODS; i++) {
        if (sim->pods[i].source != source || pick(sim, 8) == 0)
            continue;
        if (pick(sim, 8))
            seen[count++] = random_seen(sim, i, incarnations[i]);
        else
            seen[count++] = (struct pod_seen){.name = sim->pod_names[i], .source = source, .is_kept = true};
    }
    sim->command = (struct command){
        .type = COMMAND_SYNC,
        .sync = {.source = source, .pods = seen, .count = count, .spares_calls = pick(sim, 2)}};
    kept = kept_load(sim, seen, count);
    execute(sim);
    SIM_CHECK(sim, kept_load(sim, seen, count) >= kept, "a pod was to be kept as it is, and lost calls");
    sim->counts.kept_pods += kept > 0;
    if (sim->result.outcome == OUTCOME_OK)
        check_sync(sim, seen, count);
}

static void check_nothing_lost(struct sim *sim)
{
    struct result pods;

    look(sim, (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}}, &pods);
    for (size_t i = 0; i < pods.pods.count; i++) {
        const struct pod_info *pod = &pods.pods.pods[i];

        SIM_CHECK(sim, pod->state != POD_DRAINING || pod->is_draining, "%s is lost in a drain that has ended",
                  pod->name);
        SIM_CHECK(sim, pod->state != POD_SUSPENDED || pod->is_ready || pod->calls.count,
                  "%s is suspended for nothing", pod->name);
    }
}

void sim_sweep(struct sim *sim)
{
    do {
        sim->command = (struct command){.type = COMMAND_SWEEP, .sweep = {.limit = 1 + pick(sim, 20)}};
        execute(sim);
        check_ended(sim, &sim->result.sweep.ended);
    } while (sim->result.sweep.more);
    for (int i = 0; i < SIDS; i++)
        SIM_CHECK(sim, !sim->calls[i].is_known || is_live(sim, &sim->calls[i]) || sim->calls[i].is_granted,
                  "the sweep left a dead call");
    check_nothing_lost(sim);
}

void sim_rebalance(struct sim *sim)
{
    sim->command = (struct command){.type = COMMAND_REBALANCE, .rebalance = {.limit = pick(sim, 5)}};
    execute(sim);
}

void sim_scale(struct sim *sim)
{
    sim->command =
        (struct command){.type = COMMAND_SCALE, .scale = {.by_set = pick(sim, 4) > 0, .limit = pick(sim, 5)}};
    execute(sim);
}

/* Some are trials, and some want a version that may be another one by now. */
static struct change random_change(struct sim *sim)
{
    return (struct change){.by = pick(sim, 2) ? "ops" : NULL,
                           .is_trial = pick(sim, 5) == 0,
                           .if_version = pick(sim, 4) ? 0 : 1 + pick(sim, 30)};
}

void sim_tiers(struct sim *sim)
{
    sim->command =
        (struct command){.type = COMMAND_TIERS_SET,
                         .tiers_set = {.text = random_tiers[pick(sim, (unsigned)ARRAY_LEN(random_tiers))],
                                       .change = random_change(sim)}};
    execute(sim);
}

void sim_merchant(struct sim *sim)
{
    unsigned at = pick(sim, MERCHANTS);
    char id[16];

    snprintf(id, sizeof(id), "m%u", at);
    if (pick(sim, 4))
        sim->command = (struct command){
            .type = COMMAND_MERCHANT_SET,
            .merchant_set = {.merchant_id = id,
                             .text = random_merchants[pick(sim, (unsigned)ARRAY_LEN(random_merchants))],
                             .change = random_change(sim)}};
    else
        sim->command = (struct command){.type = COMMAND_MERCHANT_REMOVE,
                                        .merchant_remove = {.merchant_id = id, .change = random_change(sim)}};
    execute(sim);
    if (sim->result.outcome != OUTCOME_OK)
        return;
    if (sim->command.type == COMMAND_MERCHANT_SET && !sim->command.merchant_set.change.is_trial)
        sim->merchants[at] = sim->command.merchant_set.text;
    if (sim->command.type == COMMAND_MERCHANT_REMOVE && !sim->command.merchant_remove.change.is_trial)
        sim->merchants[at] = NULL;
}
