/*
 * sim_life.c - steps that keep calls alive, or bring back those that core has lost: renewals, streams and
 * heartbeats. Which list of the answer each call belongs to is foretold.
 */
#include "sim.h"

/* The lists of an answer, each read from its beginning; NULL where the command has none. */
struct lists {
    const struct name_array *renewed, *adopted, *over, *conflicts, *unknown;
    size_t renewed_at, adopted_at, over_at, conflicts_at, unknown_at;
};

/* Takes the call off the front of the list, if it stands there. */
static bool take(const struct name_array *list, size_t *at, const char *sid)
{
    if (!list || *at >= list->count || strcmp(list->names[*at], sid) != 0)
        return false;
    (*at)++;
    return true;
}

static void check_all_taken(struct sim *sim, const struct lists *lists)
{
    SIM_CHECK(sim,
              lists->renewed_at == lists->renewed->count && lists->adopted_at == lists->adopted->count &&
                  lists->over_at == lists->over->count && lists->conflicts_at == lists->conflicts->count &&
                  (!lists->unknown || lists->unknown_at == lists->unknown->count),
              "the answer names a call too often");
}

/* Is there no room for another call on the pod? */
static bool pod_is_full(struct sim *sim, int at)
{
    struct result pod, status;

    look(sim, (struct command){.type = COMMAND_POD, .pod = {.name = sim->pod_names[at]}}, &pod);
    look(sim, (struct command){.type = COMMAND_STATUS}, &status);
    SIM_CHECK(sim, pod.outcome == OUTCOME_OK, "pod %s has left", sim->pod_names[at]);
    for (size_t i = 0; i < status.status.tier_count; i++) {
        if (strcmp(status.status.tiers[i].name, pod.pod.tier) == 0)
            return pod.pod.calls.count >= status.status.tiers[i].max_concurrent;
    }
    SIM_FAIL(sim, "pod %s is in an unknown tier", sim->pod_names[at]);
}

/*
 * A call that is not there, and that somebody says is on `pod`: it is over, or adopted, or there is no room;
 * unknown if core does not know the pod.
 */
static void expect_lost(struct sim *sim, struct lists *lists, const char *sid, int pod, const char *provider)
{
    struct shadow_call *call = shadow_call(sim, sid);
    enum command_type type = sim->command.type;

    if (is_over(sim, call)) {
        SIM_CHECK(sim, take(lists->over, &lists->over_at, sid), "call %s is over, but is not told so", sid);
        sim->counts.late[type]++;
        return;
    }
    if (pod != NOWHERE && take(lists->adopted, &lists->adopted_at, sid)) {
        sim->counts.waits_adopted += call->wait.is_waiting;
        *call = (struct shadow_call){.is_known = true,
                                     .pod = pod,
                                     .provider = provider,
                                     .allocated_at_ms = sim->now_ms,
                                     .placed_at_ms = sim->now_ms,
                                     .expires_at_ms = sim->now_ms + sim->settings.lease_ttl_ms,
                                     .kept_at_ms = sim->now_ms,
                                     .was_renewed = true};
        sim->counts.adopted[type]++;
        return;
    }
    if (pod != NOWHERE && take(lists->conflicts, &lists->conflicts_at, sid)) {
        /* A heartbeat that also ends calls has made room since. */
        SIM_CHECK(sim,
                  (type == COMMAND_HEARTBEAT && sim->result.heartbeat.ended.count) || pod_is_full(sim, pod),
                  "call %s was not adopted although %s has room", sid, sim->pod_names[pod]);
        sim->counts.full[type]++;
        return;
    }
    SIM_CHECK(sim, take(lists->unknown, &lists->unknown_at, sid), "call %s is in the wrong list", sid);
}

/* A call that is there, and that somebody says is on `pod` (or anywhere): renewed, or a conflict. */
static void expect_known(struct sim *sim, struct lists *lists, const char *sid, int pod, const char *provider)
{
    struct shadow_call *call = shadow_call(sim, sid);

    if (pod != NOWHERE && pod != call->pod) {
        SIM_CHECK(sim, take(lists->conflicts, &lists->conflicts_at, sid),
                  "call %s is elsewhere, but no conflict", sid);
        return;
    }
    SIM_CHECK(sim, take(lists->renewed, &lists->renewed_at, sid), "call %s was not renewed", sid);
    shadow_take(sim, call);
    shadow_renew(sim, call);
    call->is_the_gateways = false;
    if (!call->provider[0])
        call->provider = provider;
}

static bool pod_is_there(struct sim *sim, int at)
{
    struct result pod;

    look(sim, (struct command){.type = COMMAND_POD, .pod = {.name = sim->pod_names[at]}}, &pod);
    return pod.outcome == OUTCOME_OK;
}

/* One renewal. `pods` NULL: nobody says where the calls are. */
static void renew(struct sim *sim, const char *const *sids, const int *pods, size_t count, bool is_carrier)
{
    const char *names[SIDS] = {NULL};
    const char *providers[SIDS];
    bool can_move[SIDS];
    bool has_can_move = pick(sim, 8) != 0;
    struct lists lists = {
        .renewed = &sim->result.renew.renewed,
        .adopted = &sim->result.renew.adopted,
        .over = &sim->result.renew.finished,
        .conflicts = &sim->result.renew.conflicts,
        .unknown = &sim->result.renew.unknown,
    };

    for (size_t i = 0; pods && i < count; i++)
        names[i] = pods[i] == NOWHERE ? NULL : sim->pod_names[pods[i]];
    for (size_t i = 0; i < count; i++)
        providers[i] = pods ? some_provider(sim) : "";
    for (size_t i = 0; i < count; i++)
        can_move[i] = pick(sim, 4) != 0;
    sim->command = (struct command){.type = COMMAND_RENEW,
                                    .renew = {.call_sids = sids,
                                              .count = count,
                                              .carrier = is_carrier ? "router-0" : NULL,
                                              .pods = pods ? names : NULL,
                                              .providers = pods ? providers : NULL,
                                              .can_move = has_can_move ? can_move : NULL}};
    execute(sim);
    if (is_carrier)
        sim->carrier_at_ms = sim->now_ms;
    SIM_CHECK(sim, sim->result.renew.expires_at_ms == sim->now_ms + sim->settings.lease_ttl_ms,
              "the answer has another lease");
    for (size_t i = 0; i < count; i++) {
        struct shadow_call *call = shadow_call(sim, sids[i]);
        int pod = pods ? pods[i] : NOWHERE;

        if (call->is_known)
            expect_known(sim, &lists, sids[i], pod, providers[i]);
        else
            expect_lost(sim, &lists, sids[i], pod != NOWHERE && pod_is_there(sim, pod) ? pod : NOWHERE,
                        providers[i]);
        if (is_carrier && call->is_known && (pod == NOWHERE || pod == call->pod)) {
            call->is_carried = true;
            call->was_connected = true;
            call->is_the_gateways = true;
            call->can_move = pod != NOWHERE && has_can_move && can_move[i];
        }
    }
    check_all_taken(sim, &lists);
}

static bool is_among(const char *const *sids, size_t count, const char *sid)
{
    for (size_t i = 0; i < count; i++) {
        if (sids[i] == sid)
            return true;
    }
    return false;
}

/* Agents, who say nothing of pods; and renewals that name one, be it the wrong one. */
void sim_renew(struct sim *sim)
{
    const char *sids[8];
    int pods[8];
    size_t count = 0;
    bool has_pods = pick(sim, 2);

    for (unsigned more = pick(sim, ARRAY_LEN(sids) + 1); more > 0; more--) {
        unsigned at = sim->outage ? known_or_any(sim) : pick(sim, SIDS);
        unsigned kind = pick(sim, 6);

        /* On two pods at once: what the answer says could not be told apart. */
        if (has_pods && is_among(sids, count, sim->sid_names[at]))
            continue;
        sids[count] = sim->sid_names[at];
        pods[count++] = kind == 0 ? NOWHERE : kind == 1 ? (int)pick(sim, PODS) : sim->calls[at].pod;
    }
    renew(sim, sids, has_pods ? pods : NULL, count, has_pods || pick(sim, 2));
}

/*
 * The gateway renews the calls of all its streams. A stream is closed for a recorded end, or because the call
 * has no slot there any more: nothing else, and no loss of data, closes one.
 */
void sim_carry(struct sim *sim)
{
    const char *sids[SIDS];
    int pods[SIDS];
    size_t count = 0;

    for (int i = 0; i < SIDS; i++) {
        if (!sim->streams[i].is_open)
            continue;
        sids[count] = sim->sid_names[i];
        pods[count++] = sim->streams[i].pod;
    }
    renew(sim, sids, pods, count, true);
    sim->counts.streams_kept += sim->result.renew.adopted.count;
    for (size_t i = 0; i < sim->result.renew.finished.count; i++)
        sim->streams[shadow_call(sim, sim->result.renew.finished.names[i]) - sim->calls].is_open = false;
    for (size_t i = 0; i < sim->result.renew.conflicts.count; i++)
        sim->streams[shadow_call(sim, sim->result.renew.conflicts.names[i]) - sim->calls].is_open = false;
    for (int i = 0; i < SIDS; i++) {
        const struct stream *stream = &sim->streams[i];

        if (stream->is_open && pod_is_there(sim, stream->pod))
            SIM_CHECK(sim, sim->calls[i].is_known && sim->calls[i].pod == stream->pod,
                      "the stream of CA%d has no call", i);
    }
}

/* What the pod says that it carries: mostly what it does, but for what it has not noticed yet. */
static size_t heartbeat_sids(struct sim *sim, int pod, const char **sids, size_t max)
{
    bool is_late = pick(sim, 4) == 0; /* it also lists calls that have ended behind its back */
    size_t count = 0;

    for (int i = 0; i < SIDS && count + 2 < max; i++) {
        const struct shadow_call *call = &sim->calls[i];

        if (call->pod == pod && (call->is_known ? pick(sim, 4) != 0 : is_late && pick(sim, 2)))
            sids[count++] = sim->sid_names[i];
    }
    if (pick(sim, 4) == 0) {
        for (unsigned more = pick(sim, 3); more > 0; more--)
            sids[count++] = sim->sid_names[pick(sim, SIDS)];
    }
    return count;
}

/* The pod is about to leave calls out. */
static void shadow_miss(struct sim *sim, int pod, const char *const *sids, size_t count)
{
    for (int i = 0; i < SIDS; i++) {
        struct shadow_call *call = &sim->calls[i];

        if (call->is_known && call->pod == pod && !is_among(sids, count, sim->sid_names[i]))
            call->misses++;
    }
}

/* What the heartbeats leave out has ended, and nothing that they list. */
static void check_unmentioned(struct sim *sim, int pod, const char *const *sids, size_t count)
{
    const struct ended_array *ended = &sim->result.heartbeat.ended;

    check_ended(sim, ended);
    for (size_t i = 0; i < ended->count; i++) {
        const char *sid = sim->sid_names[shadow_call(sim, ended->calls[i].call_sid) - sim->calls];

        SIM_CHECK(sim, !is_among(sids, count, sid), "heartbeat ended a call that it listed");
    }
    for (int i = 0; i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[i];

        SIM_CHECK(sim,
                  !call->is_known || call->pod != pod || call->misses < HEARTBEAT_MISSES ||
                      sim->now_ms - call->placed_at_ms <= HEARTBEAT_YOUNG_MS,
                  "CA%d is there although its pod has left it out", i);
    }
}

void sim_heartbeat(struct sim *sim)
{
    /* After an outage, the pods that carry something. */
    int pod = sim->outage ? sim->calls[known_or_any(sim)].pod : (int)pick(sim, PODS);
    const struct result *result = &sim->result;
    const char *sids[10];
    size_t count = heartbeat_sids(sim, pod, sids, ARRAY_LEN(sids));
    struct lists lists = {
        .renewed = &result->heartbeat.renewed,
        .adopted = &result->heartbeat.adopted,
        .over = &result->heartbeat.finished,
        .conflicts = &result->heartbeat.conflicts,
    };

    sim->command =
        (struct command){.type = COMMAND_HEARTBEAT,
                         .heartbeat = {.pod = sim->pod_names[pod], .call_sids = sids, .count = count}};
    shadow_miss(sim, pod, sids, count);
    execute(sim);
    if (result->outcome == OUTCOME_NOT_FOUND)
        return;
    for (size_t i = 0; i < count; i++) {
        if (shadow_call(sim, sids[i])->is_known)
            expect_known(sim, &lists, sids[i], pod, "");
        else
            expect_lost(sim, &lists, sids[i], pod, "");
    }
    check_all_taken(sim, &lists);
    check_unmentioned(sim, pod, sids, count);
}
