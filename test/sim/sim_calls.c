/* sim_calls.c - the shadow of the calls, and the steps in which they begin, move and end. */
#include "sim.h"

struct shadow_call *shadow_call(struct sim *sim, const char *sid)
{
    SIM_CHECK(sim, strncmp(sid, "CA", 2) == 0, "unexpected call %s", sid);
    return &sim->calls[strtol(sid + 2, NULL, 10)];
}

static struct stream *stream_of(struct sim *sim, const struct shadow_call *call)
{
    return &sim->streams[call - sim->calls];
}

bool is_live(const struct sim *sim, const struct shadow_call *call)
{
    return call->is_known && call->expires_at_ms > sim->now_ms;
}

bool is_over(const struct sim *sim, const struct shadow_call *call)
{
    return call->has_end && call->over_at_ms + ENDED_KEEP_MS > sim->now_ms;
}

bool is_older(const struct shadow_call *call, uint64_t started_at_ms)
{
    return started_at_ms == 0 || call->placed_at_ms / 1000 * 1000 + RESTART_SKEW_MS <= started_at_ms;
}

size_t shadow_load(const struct sim *sim, int pod)
{
    size_t load = 0;

    for (int i = 0; i < SIDS; i++)
        load += sim->calls[i].is_known && sim->calls[i].pod == pod;
    return load;
}

uint64_t sim_first_lease_ms(const struct sim *sim)
{
    return sim->settings.connect_timeout_ms ? sim->settings.connect_timeout_ms
                                            : sim->settings.call_max_duration_ms;
}

unsigned known_or_any(struct sim *sim)
{
    unsigned at = pick(sim, SIDS);

    for (unsigned i = 0; at < 50 && i < SIDS; i++) {
        if (sim->calls[(at + i) % SIDS].is_known)
            return (at + i) % SIDS;
    }
    return at;
}

void shadow_keep(struct sim *sim, struct shadow_call *call, uint64_t lease_ms)
{
    sim->counts.kept[sim->command.type] += !is_live(sim, call);
    call->kept_at_ms = sim->now_ms;
    call->short_lease_ms = 0;
    call->expires_at_ms = sim->now_ms + lease_ms;
}

void shadow_renew(struct sim *sim, struct shadow_call *call)
{
    shadow_keep(sim, call, sim->settings.lease_ttl_ms);
    /* It has begun anew: the end of the one before it is forgotten. */
    if (!call->was_renewed)
        call->has_end = false;
    call->was_renewed = true;
    call->misses = 0;
}

/* A lease that has run out ends the call only if nobody has spoken of it for as long as a lease lasts. */
static void check_expiry(struct sim *sim, const struct shadow_call *call, const char *sid)
{
    uint64_t shortest_ms = call->short_lease_ms
                               ? call->short_lease_ms
                               : min_u64(sim->settings.lease_ttl_ms, sim_first_lease_ms(sim));

    SIM_CHECK(sim, !is_live(sim, call), "call %s expired too early", sid);
    SIM_CHECK(sim, call->kept_at_ms + shortest_ms <= sim->now_ms,
              "call %s expired although somebody has kept it", sid);
    SIM_CHECK(sim, sim->command.type == COMMAND_SWEEP, "call %s expired without a sweep", sid);
}

/* When the pod's process started, as the command says that is under way. */
static uint64_t told_start(struct sim *sim, const char *pod)
{
    const struct command *command = &sim->command;

    if (command->type == COMMAND_POD_SEEN && strcmp(command->pod_seen.pod.name, pod) == 0)
        return command->pod_seen.pod.started_at_ms;
    for (size_t i = 0; command->type == COMMAND_SYNC && i < command->sync.count; i++) {
        if (strcmp(command->sync.pods[i].name, pod) == 0 && !command->sync.pods[i].is_kept)
            return command->sync.pods[i].started_at_ms;
    }
    SIM_FAIL(sim, "pod %s restarts although nobody has said so", pod);
}

void shadow_exit(struct sim *sim, const struct shadow_call *call, enum past_end how)
{
    struct shadow_exit *exit = &sim->exits[call - sim->calls];
    unsigned before = exit->at_ms == sim->now_ms ? exit->moves : 0;

    *exit = (struct shadow_exit){.number = ++sim->exit_count,
                                 .at_ms = sim->now_ms,
                                 .moves = before + (how == PAST_MOVED),
                                 .pod = call->pod,
                                 .how = how};
}

void check_story(struct sim *sim, int at)
{
    const char *sid = sim->sid_names[at];
    const struct shadow_exit *known = &sim->exits[at];
    /* The last one of a call is kept, unless it is too old or too many came after it. */
    bool is_kept = known->number && known->at_ms + PAST_KEEP_MS > sim->now_ms &&
                   sim->exit_count - known->number < PAST_CALLS_MAX;
    const struct past_call *last;
    struct result story;

    look(sim, (struct command){.type = COMMAND_STORY, .call = {.call_sid = sid}}, &story);
    SIM_CHECK(sim, story.story.is_live == sim->calls[at].is_known, "the story of %s is another call's", sid);
    SIM_CHECK(sim, story.story.is_waiting == sim->calls[at].wait.is_waiting,
              "the story of %s: whether it waits is wrong", sid);
    SIM_CHECK(sim, is_kept == (story.story.past_count > 0), "the story of %s has %zu pods", sid,
              story.story.past_count);
    if (!is_kept)
        return;
    last = &story.story.past[story.story.past_count - 1];
    SIM_CHECK(sim, last->how == known->how && last->ended_at_ms == known->at_ms, "%s has ended: %s", sid,
              past_end_name(last->how));
    SIM_CHECK(sim, pod_index(sim, last->pod) == known->pod, "%s has ended on another pod", sid);
    sim->counts.exits[last->how]++;
}

/* Core says that a call has ended: it must have been there, on that pod, and with a reason. */
void shadow_end(void *arg, const struct ended_call *end)
{
    struct sim *sim = arg;
    struct shadow_call *call = shadow_call(sim, end->call_sid);

    SIM_CHECK(sim, call->is_known, "call %s ended but was not there", end->call_sid);
    SIM_CHECK(sim, call->pod == pod_index(sim, end->pod), "call %s ended on the wrong pod", end->call_sid);
    if (end->why == CALL_END_EXPIRED)
        check_expiry(sim, call, end->call_sid);
    SIM_CHECK(sim, end->why != CALL_END_EXPIRED || !call->is_granted,
              "call %s expired though it was not taken", end->call_sid);
    /* No pod is free then: that is seen after the command alone. */
    if (end->why == CALL_END_POD_GONE || end->why == CALL_END_RESTARTED)
        SIM_CHECK(sim,
                  !sim->settings.rescues || !call->can_move || !shadow_has_carrier(sim, call) ||
                      shadow_max_wait_ms(sim, call->merchant) == 0,
                  "call %s was lost although it could go on", end->call_sid);
    if (end->why == CALL_END_POD_GONE || end->why == CALL_END_RESTARTED)
        SIM_CHECK(sim, !call->is_granted, "call %s was lost although it could wait again", end->call_sid);
    if (end->why == CALL_END_RESTARTED)
        SIM_CHECK(sim, is_older(call, told_start(sim, end->pod)),
                  "call %s ended with a process before its own", end->call_sid);
    if (end->why == CALL_END_UNMENTIONED)
        SIM_CHECK(sim, call->misses >= HEARTBEAT_MISSES, "call %s ended although it was not left out",
                  end->call_sid);
    if (end->why == CALL_END_UNMENTIONED)
        SIM_CHECK(sim, sim->now_ms - call->placed_at_ms > HEARTBEAT_YOUNG_MS, "call %s ended too young",
                  end->call_sid);
    call->is_known = false;
    call->is_granted = false;
    shadow_exit(sim, call, (enum past_end)(PAST_EXPIRED + end->why));
    sim->counts.ended[end->why]++;
}

void shadow_over(void *arg, const char *call_sid)
{
    struct sim *sim = arg;
    struct shadow_call *call = shadow_call(sim, call_sid);

    SIM_CHECK(sim, call->is_known && call->is_carried, "of the end of %s somebody was told who has left",
              call_sid);
    stream_of(sim, call)->is_open = false;
    sim->tombstones_told++;
}

/* The call was ended on purpose, or undone. */
static void shadow_finish(struct sim *sim, struct shadow_call *call, enum past_end how)
{
    shadow_exit(sim, call, how);
    sim->tombstones_due += call->is_carried;
    call->is_known = false;
    /* A granted call counts as renewed: it has a holder who may still speak of it. */
    if (!call->was_renewed && (!call->is_granted || how == PAST_UNDONE)) {
        call->is_granted = false;
        return;
    }
    call->is_granted = false;
    call->has_end = true;
    call->over_at_ms = sim->now_ms;
    call->why = (enum finish_reason)how;
}

void check_ended(struct sim *sim, const struct ended_array *ended)
{
    for (size_t i = 0; i < ended->count; i++)
        SIM_CHECK(sim, !shadow_call(sim, ended->calls[i].call_sid)->is_known,
                  "nobody was told of the end of %s", ended->calls[i].call_sid);
}

void shadow_forgive(struct sim *sim)
{
    uint64_t lease_end_ms = sim->now_ms + sim->settings.lease_ttl_ms;

    for (int i = 0; i < SIDS; i++) {
        struct shadow_call *call = &sim->calls[i];

        call->wait.heard_at_ms = sim->now_ms;
        if (call->is_granted) {
            call->kept_at_ms = sim->now_ms;
            call->expires_at_ms = sim->now_ms + WAIT_TAKE_MS;
        } else if (call->expires_at_ms < lease_end_ms) {
            call->expires_at_ms = lease_end_ms;
        }
    }
}

/* Its carrier has died with the process: it has less time to come back than others. */
static void shadow_orphan(struct sim *sim, struct shadow_call *call)
{
    if (!sim->settings.rescues || !call->is_known || call->is_granted || !call->is_the_gateways)
        return;
    call->kept_at_ms = sim->now_ms;
    call->short_lease_ms = RESUME_MS;
    call->expires_at_ms = sim->now_ms + RESUME_MS;
    call->unsettled_at_ms = sim->now_ms;
}

void shadow_restart(struct sim *sim)
{
    shadow_forgive(sim);
    for (int i = 0; i < SIDS; i++) {
        sim->calls[i].misses = 0;
        sim->calls[i].attempts_are_lost = true;
        sim->calls[i].is_carried = false;
        sim->calls[i].can_move = false;
        sim->calls[i].unsettled_at_ms = 0;
        sim->calls[i].resumes = 0;
        sim->calls[i].claim = 0;
        sim->calls[i].wait.is_held = false;
        sim->calls[i].wait.lost_pod_at_ms =
            sim->settings.rescues && sim->calls[i].wait.is_rescued ? sim->now_ms : 0;
        sim->calls[i].wait.attempt = 0;
        sim->calls[i].wait.awaits_stream = false;
        shadow_orphan(sim, &sim->calls[i]);
        sim->streams[i].is_open = false;
        sim->exits[i] = (struct shadow_exit){0};
    }
    sim->carrier_at_ms = 0;
    memset(sim->grants, 0, sizeof(sim->grants));
}

static int attempt_index(const struct shadow_call *call, uint64_t attempt)
{
    for (unsigned i = 0; i < call->attempt_count; i++) {
        if (call->attempts[i] == attempt)
            return (int)i;
    }
    return -1;
}

static void shadow_attempt(struct sim *sim, struct shadow_call *call, uint64_t attempt)
{
    if (attempt_index(call, attempt) >= 0)
        return;
    if (attempt == 0 || call->attempt_count == ATTEMPTS_MAX) {
        sim->counts.attempts_lost += call->attempt_count == ATTEMPTS_MAX;
        call->attempts_are_lost = true;
    } else {
        call->attempts[call->attempt_count++] = attempt;
    }
}

/* Only a merchant can have an empty chain: its fallback names nothing that is configured. */
static void check_refused(struct sim *sim, bool has_merchant, const struct refusal *refusal)
{
    SIM_CHECK(sim, refusal->count > 0 || has_merchant, "a refusal without a chain");
    for (size_t i = 0; i < refusal->count; i++)
        SIM_CHECK(sim, refusal->steps[i].by_state[POD_AVAILABLE] == 0, "refused although %s has a pod",
                  refusal->steps[i].pool);
}

const char *some_provider(struct sim *sim)
{
    static const char *const providers[] = {"twilio", "twilio", "plivo", ""};

    return providers[pick(sim, ARRAY_LEN(providers))];
}

/* May a webhook of the provider not speak for the call? */
static bool is_forbidden(const struct shadow_call *call, const char *provider)
{
    return (call->is_known || call->wait.is_waiting) && strcmp(call->provider, provider) != 0;
}

/* Is this one resume too many? If it is none at all, or one that is allowed: false, and it is counted. */
static bool is_resume_refused(struct sim *sim, struct shadow_call *call)
{
    if (!sim->command.allocate.is_resume)
        return false;
    if (call->resumes == 0 || sim->now_ms - call->resumes_from_ms >= RESUMES_MS) {
        call->resumes_from_ms = sim->now_ms;
        call->resumes = 0;
    }
    if (call->resumes >= RESUMES_MAX) {
        sim->counts.resumes_refused++;
        return true;
    }
    call->resumes++;
    return false;
}

/* The call had a pod. */
static void allocated_existing(struct sim *sim, struct shadow_call *call)
{
    const struct command *command = &sim->command;
    const struct result *result = &sim->result;
    const char *sid = command->allocate.call_sid;

    if (command->allocate.is_resume)
        call->unsettled_at_ms = sim->now_ms;
    SIM_CHECK(sim, result->outcome == OUTCOME_OK, "allocate: outcome %d", (int)result->outcome);
    SIM_CHECK(sim, result->allocate.was_taken == call->is_granted, "call %s: was_taken is wrong", sid);
    SIM_CHECK(sim, result->allocate.was_existing == !call->is_granted, "call %s: was_existing is wrong", sid);
    if (call->is_granted) {
        SIM_CHECK(sim, result->allocate.waited_ms == sim->now_ms - call->wait.since_ms,
                  "call %s has waited for another time", sid);
        /* The requests before it were told that the call waits: they do not keep the pod. */
        if (!command->allocate.is_webhook && call->claim == 0 && !call->attempts_are_lost)
            call->attempt_count = 0;
        shadow_take(sim, call);
        call->kept_at_ms = sim->now_ms;
        call->expires_at_ms = sim->now_ms + sim_first_lease_ms(sim);
    } else if (!is_live(sim, call)) {
        shadow_keep(sim, call, sim_first_lease_ms(sim));
    }
    SIM_CHECK(sim, pod_index(sim, result->allocate.call.pod) == call->pod, "call %s got a second pod", sid);
    shadow_attempt(sim, call, command->allocate.attempt);
}

/* The call waited. */
static void allocated_waiting(struct sim *sim, struct shadow_call *call)
{
    const struct command *command = &sim->command;
    const struct result *result = &sim->result;
    const char *sid = command->allocate.call_sid;
    bool is_over_now =
        command->allocate.waits && (call->wait.until_ms <= sim->now_ms || is_resume_refused(sim, call));

    if (!command->allocate.waits || is_over_now) {
        SIM_CHECK(sim, result->outcome == OUTCOME_NO_PODS && !result->allocate.is_full,
                  "%s waits: outcome %d", sid, (int)result->outcome);
        SIM_CHECK(sim, result->allocate.has_ended == is_over_now, "%s waits: has_ended is wrong", sid);
        if (!is_over_now)
            return;
        call->wait.is_waiting = false;
        shadow_record_end(sim, call, FINISH_TIMED_OUT);
        sim->counts.waits_timed_out++;
        return;
    }
    call->wait.heard_at_ms = sim->now_ms;
    call->wait.awaits_stream = command->allocate.awaits_stream;
    call->wait.is_held = command->allocate.holder != NULL;
    call->wait.attempt = command->allocate.attempt;
    if (result->outcome == OUTCOME_WAITING) {
        SIM_CHECK(sim, !result->allocate.has_joined, "%s has joined twice", sid);
        shadow_take_pools(call, &result->allocate.waiting);
        return;
    }
    SIM_CHECK(sim, result->outcome == OUTCOME_OK && result->allocate.was_taken, "%s waits: outcome %d", sid,
              (int)result->outcome);
    snprintf(call->wait.pools, sizeof(call->wait.pools), " %s ", result->allocate.call.pool);
    shadow_grant(sim, call, &result->allocate.call);
    allocated_existing(sim, call);
}

/* The call was not known, or only its end. */
static void allocated_new(struct sim *sim, struct shadow_call *call)
{
    const struct command *command = &sim->command;
    const struct result *result = &sim->result;
    const char *sid = command->allocate.call_sid;
    const char *merchant = command->allocate.merchant_id;
    bool has_timed_out = is_over(sim, call) && call->why == FINISH_TIMED_OUT;
    bool may_wait = command->allocate.waits && shadow_max_wait_ms(sim, merchant) > 0 && !has_timed_out;
    bool is_full = may_wait && shadow_line_is_full(sim, merchant);

    if (command->allocate.is_resume && is_over(sim, call)) {
        SIM_CHECK(sim,
                  result->outcome == OUTCOME_NOT_FOUND && result->allocate.has_ended &&
                      result->allocate.why == call->why,
                  "%s was resumed although it is over", sid);
        sim->counts.resumed_ends++;
        return;
    }
    if (result->outcome == OUTCOME_NO_PODS) {
        SIM_CHECK(sim, !may_wait || is_full, "%s was refused although it may wait", sid);
        SIM_CHECK(sim, result->allocate.is_full == is_full, "%s was refused: is_full is wrong", sid);
        sim->counts.line_full += is_full;
        check_refused(sim, merchant[0] != '\0', result->allocate.refusal);
        return;
    }
    sim->counts.begun_anew += is_over(sim, call);
    *call = (struct shadow_call){.pod = call->pod,
                                 .provider = command->allocate.provider,
                                 .has_end = call->has_end,
                                 .over_at_ms = call->over_at_ms,
                                 .why = call->why};
    snprintf(call->merchant, sizeof(call->merchant), "%s", merchant);
    if (result->outcome == OUTCOME_WAITING) {
        SIM_CHECK(sim, result->allocate.has_joined && may_wait && !is_full, "%s has joined", sid);
        shadow_join(sim, call, sim->now_ms, sim->now_ms + shadow_max_wait_ms(sim, merchant));
        call->wait.awaits_stream = command->allocate.awaits_stream;
        call->wait.is_held = command->allocate.holder != NULL;
        call->wait.attempt = command->allocate.attempt;
        (void)is_resume_refused(sim, call);
        shadow_take_pools(call, &result->allocate.waiting);
        sim->counts.joined++;
        return;
    }
    SIM_CHECK(sim, result->outcome == OUTCOME_OK, "allocate: outcome %d", (int)result->outcome);
    SIM_CHECK(sim, !result->allocate.was_existing && !result->allocate.was_taken, "call %s is new", sid);
    call->is_known = true;
    call->pod = pod_index(sim, result->allocate.call.pod);
    call->allocated_at_ms = sim->now_ms;
    call->placed_at_ms = sim->now_ms;
    call->expires_at_ms = sim->now_ms + sim_first_lease_ms(sim);
    call->kept_at_ms = sim->now_ms;
    call->unsettled_at_ms = command->allocate.is_resume ? sim->now_ms : 0;
    (void)is_resume_refused(sim, call);
    SIM_CHECK(sim, !sim->pods[call->pod].is_absent, "call %s got a pod that is absent", sid);
    snprintf(sim->new_pool, sizeof(sim->new_pool), "%s", result->allocate.call.pool);
    shadow_attempt(sim, call, command->allocate.attempt);
}

static void allocate_once(struct sim *sim, struct shadow_call *call, const char *merchant)
{
    const char *sid = sim->sid_names[call - sim->calls];
    const struct result *result = &sim->result;
    /* Mostly a new request; sometimes the same again, or one without a name. */
    uint64_t attempt = pick(sim, 6) ? ++sim->last_attempt : pick(sim, 3) ? sim->last_attempt : 0;
    const char *provider = some_provider(sim);
    bool is_webhook = provider[0] && pick(sim, 2);
    bool is_resume = pick(sim, 6) == 0;

    sim->command =
        (struct command){.type = COMMAND_ALLOCATE,
                         .allocate = {.call_sid = sid,
                                      .merchant_id = merchant,
                                      .provider = provider,
                                      .is_webhook = is_webhook,
                                      .attempt = attempt,
                                      .waits = pick(sim, 3) != 0,
                                      .awaits_stream = pick(sim, 4) == 0,
                                      .holder = pick(sim, 2) ? "router-0" : NULL,
                                      .is_resume = is_resume,
                                      .resume_pod = pick(sim, 2) ? sim->pod_names[pick(sim, PODS)] : NULL}};
    execute(sim);
    if (is_webhook && is_forbidden(call, provider)) {
        SIM_CHECK(sim, result->outcome == OUTCOME_FORBIDDEN && !result->allocate.call.pod,
                  "call %s was shown to a webhook of %s", sid, provider);
        return;
    }
    SIM_CHECK(sim, result->outcome != OUTCOME_OK || result->allocate.attempt == attempt,
              "the answer is another request's");
    if (call->is_known && is_resume_refused(sim, call))
        SIM_CHECK(sim, result->outcome == OUTCOME_CONFLICT, "call %s was resumed too often", sid);
    else if (call->is_known)
        allocated_existing(sim, call);
    else if (call->wait.is_waiting)
        allocated_waiting(sim, call);
    else
        allocated_new(sim, call);
    settle(sim);
}

void sim_allocate(struct sim *sim)
{
    /* After an outage the callers who were there before come back. */
    struct shadow_call *call = &sim->calls[sim->outage ? known_or_any(sim) : pick(sim, SIDS)];
    unsigned times = pick(sim, 40) ? 1 : pick(sim, 2 * ATTEMPTS_MAX);
    char merchant[16] = "";

    if (pick(sim, 2))
        snprintf(merchant, sizeof(merchant), "m%u", pick(sim, MERCHANTS));
    for (unsigned i = 0; i < times; i++)
        allocate_once(sim, call, merchant);
}

/* A call, mostly one that is there, or waits. */
static struct shadow_call *some_call(struct sim *sim)
{
    unsigned at = pick(sim, SIDS);

    for (unsigned i = 0; pick(sim, 4) == 0 && i < SIDS; i++) {
        if (sim->calls[(at + i) % SIDS].wait.is_waiting)
            return &sim->calls[(at + i) % SIDS];
    }
    return &sim->calls[known_or_any(sim)];
}

/* One request of those that asked for the call, or one that asked for something else. */
static uint64_t some_attempt(struct sim *sim, const struct shadow_call *call)
{
    if (call->wait.is_waiting && pick(sim, 4))
        return call->wait.attempt;
    if (call->attempt_count && pick(sim, 8))
        return call->attempts[pick(sim, call->attempt_count)];
    return pick(sim, 4) ? sim->last_attempt - pick(sim, 20) : 0;
}

/* The undo of a request of a waiting call. */
static void undo_waiting(struct sim *sim, struct shadow_call *call, uint64_t attempt)
{
    const char *sid = sim->sid_names[call - sim->calls];
    bool spares_place = pick(sim, 3) == 0;
    bool is_last = attempt && attempt == call->wait.attempt && !spares_place;

    sim->command = (struct command){
        .type = COMMAND_UNDO, .undo = {.call_sid = sid, .attempt = attempt, .spares_place = spares_place}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome == (is_last ? OUTCOME_OK : OUTCOME_NOT_FOUND),
              "undo of %s, which waits: outcome %d", sid, (int)sim->result.outcome);
    if (!is_last)
        return;
    SIM_CHECK(sim, sim->result.release.was_waiting, "undo of %s: it waited", sid);
    call->wait.is_waiting = false;
    sim->counts.waits_undone++;
}

void sim_undo(struct sim *sim)
{
    struct shadow_call *call = some_call(sim);
    const char *sid = sim->sid_names[call - sim->calls];
    uint64_t attempt = some_attempt(sim, call);
    int at = attempt_index(call, attempt);
    enum outcome expected = OUTCOME_NOT_FOUND;

    if (call->wait.is_waiting) {
        undo_waiting(sim, call, attempt);
        return;
    }
    if (call->is_known && at >= 0 && !call->attempts_are_lost) {
        call->attempts[at] = call->attempts[--call->attempt_count];
        expected = call->attempt_count || call->was_renewed ? OUTCOME_CONFLICT : OUTCOME_OK;
    }
    sim->command = (struct command){.type = COMMAND_UNDO, .undo = {.call_sid = sid, .attempt = attempt}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome == expected, "undo of %s: outcome %d instead of %d", sid,
              (int)sim->result.outcome, (int)expected);
    if (expected != OUTCOME_OK)
        return;
    SIM_CHECK(sim, pod_index(sim, sim->result.release.call.pod) == call->pod, "undo of %s freed another pod",
              sid);
    shadow_finish(sim, call, PAST_UNDONE);
}

/* A release was answered with success. */
static void shadow_released(struct sim *sim, struct shadow_call *call, enum finish_reason why)
{
    const struct result *result = &sim->result;
    const char *sid = sim->sid_names[call - sim->calls];

    SIM_CHECK(sim, result->release.was_waiting == (call->wait.is_waiting && !result->release.is_kept),
              "release of %s: was_waiting", sid);
    if (call->wait.is_waiting && result->release.is_kept) {
        sim->counts.kept_releases++;
        return;
    }
    if (call->wait.is_waiting) {
        SIM_CHECK(sim, result->release.waited_ms == sim->now_ms - call->wait.since_ms,
                  "%s has waited for another time", sid);
        call->wait.is_waiting = false;
        shadow_record_end(sim, call, why);
        sim->counts.waits_released++;
        return;
    }
    SIM_CHECK(sim, pod_index(sim, result->release.call.pod) == call->pod, "release of %s freed another pod",
              sid);
    if (result->release.is_kept)
        sim->counts.kept_releases++;
    else
        shadow_finish(sim, call, (enum past_end)why);
}

void sim_release(struct sim *sim)
{
    struct shadow_call *call = some_call(sim);
    const char *sid = sim->sid_names[call - sim->calls];
    enum finish_reason why = (enum finish_reason)pick(sim, FINISH_REASONS);
    /* Any, the right one, or one that the call may have been on before. */
    unsigned kind = pick(sim, 4);
    int pod = kind < 2 ? NOWHERE : kind == 2 ? call->pod : (int)pick(sim, PODS);
    bool is_right =
        (call->is_known && (pod == NOWHERE || pod == call->pod)) || (call->wait.is_waiting && pod == NOWHERE);
    const char *provider = pick(sim, 3) ? NULL : pick(sim, 2) ? "twilio" : "plivo";
    enum outcome expected = !is_right                                  ? OUTCOME_NOT_FOUND
                            : provider && is_forbidden(call, provider) ? OUTCOME_FORBIDDEN
                                                                       : OUTCOME_OK;
    uint64_t left_at_ms = call->wait.is_waiting ? call->wait.lost_pod_at_ms : call->unsettled_at_ms;
    bool is_kept = sim->settings.rescues && pod == NOWHERE && !provider && why == FINISH_RELEASED &&
                   left_at_ms && sim->now_ms - left_at_ms < UNSETTLED_MS;

    sim->command = (struct command){.type = COMMAND_RELEASE,
                                    .release = {.call_sid = sid,
                                                .pod = pod == NOWHERE ? NULL : sim->pod_names[pod],
                                                .provider = provider,
                                                .why = why}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome == expected, "release of %s: outcome %d", sid,
              (int)sim->result.outcome);
    if (expected != OUTCOME_OK)
        return;
    SIM_CHECK(sim, sim->result.release.is_kept == is_kept, "release of %s: is_kept is wrong", sid);
    shadow_released(sim, call, why);
}

void sim_hold(struct sim *sim)
{
    struct shadow_call *call = some_call(sim);
    const char *sid = sim->sid_names[call - sim->calls];
    const struct result *result = &sim->result;

    sim->command = (struct command){.type = COMMAND_HOLD, .hold = {.call_sid = sid, .carrier = "router-0"}};
    if (pick(sim, 4) == 0) {
        sim->command.hold.is_held = true;
        sim->command.hold.claim = pick(sim, 2) ? call->claim : sim->now_ms - pick(sim, 60000);
    } else {
        sim->command.hold.is_new = pick(sim, 2);
    }
    execute(sim);
    if (sim->command.hold.is_held && (call->is_known || call->wait.is_waiting) &&
        shadow_is_elsewhere(sim, call, sim->command.hold.claim)) {
        SIM_CHECK(sim, result->outcome == OUTCOME_CONFLICT, "hold of %s by an older stream: outcome %d", sid,
                  (int)result->outcome);
        sim->counts.elsewhere++;
        return;
    }
    SIM_CHECK(sim,
              result->outcome == (call->is_known          ? OUTCOME_OK
                                  : call->wait.is_waiting ? OUTCOME_WAITING
                                                          : OUTCOME_NOT_FOUND),
              "hold of %s: outcome %d", sid, (int)result->outcome);
    if (call->wait.is_waiting)
        return;
    if (!call->is_known) {
        SIM_CHECK(sim, result->hold.has_ended == is_over(sim, call), "call %s: has_ended is wrong", sid);
        sim->counts.late[COMMAND_HOLD] += result->hold.has_ended;
        return;
    }
    SIM_CHECK(sim, pod_index(sim, result->hold.call.pod) == call->pod, "hold of %s: another pod", sid);
    SIM_CHECK(sim, result->hold.was_connected == call->was_connected, "call %s: was_connected is wrong", sid);
    SIM_CHECK(sim, result->hold.was_taken == call->is_granted, "call %s: was_taken is wrong", sid);
    SIM_CHECK(sim, !call->is_granted || result->hold.waited_ms == sim->now_ms - call->wait.since_ms,
              "call %s has waited for another time", sid);
    if (sim->command.hold.is_new && (call->claim || call->is_granted))
        shadow_claim(sim, call);
    shadow_take(sim, call);
    shadow_renew(sim, call);
    sim->carrier_at_ms = sim->now_ms;
    call->is_carried = true;
    call->is_the_gateways = true;
    *stream_of(sim, call) = (struct stream){true, call->pod};
}

void sim_leave(struct sim *sim)
{
    struct shadow_call *call = &sim->calls[known_or_any(sim)];
    const char *sid = sim->sid_names[call - sim->calls];
    unsigned kind = pick(sim, 4);
    /* Nothing, the lease as it is, as it was, or as it would be if it had just been renewed. */
    uint64_t expires_at_ms = kind == 0   ? 0
                             : kind == 1 ? call->expires_at_ms
                             : kind == 2 ? call->expires_at_ms - pick(sim, 3)
                                         : sim->now_ms + sim->settings.lease_ttl_ms;
    enum outcome expected = !call->is_known                        ? OUTCOME_NOT_FOUND
                            : call->expires_at_ms == expires_at_ms ? OUTCOME_OK
                                                                   : OUTCOME_CONFLICT;

    call->is_carried = false;
    stream_of(sim, call)->is_open = false;
    sim->command =
        (struct command){.type = COMMAND_LEAVE,
                         .leave = {.call_sid = sid, .carrier = "router-0", .expires_at_ms = expires_at_ms}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome == expected, "leave of %s: outcome %d", sid, (int)sim->result.outcome);
    if (expected == OUTCOME_OK)
        shadow_finish(sim, call, PAST_CLOSED);
}

static void shadow_move(struct sim *sim, struct shadow_call *call, int from)
{
    const struct call_info *now = &sim->result.move.call;
    int pod = pod_index(sim, now->pod);

    SIM_CHECK(sim, sim->result.move.was_moved == (call->pod == from), "call %s: was_moved is wrong",
              now->call_sid);
    SIM_CHECK(sim, pod != from, "call %s came back to the pod that it was taken from", now->call_sid);
    SIM_CHECK(sim, now->allocated_at_ms == call->allocated_at_ms, "call %s got another age", now->call_sid);
    if (!sim->result.move.was_moved) {
        SIM_CHECK(sim, pod == call->pod, "call %s was moved although it was elsewhere", now->call_sid);
        return;
    }
    SIM_CHECK(sim, !sim->pods[pod].is_absent, "call %s was moved to a pod that is absent", now->call_sid);
    sim->counts.moved++;
    shadow_exit(sim, call, PAST_MOVED);
    call->pod = pod;
    call->placed_at_ms = sim->now_ms;
    call->unsettled_at_ms = sim->now_ms;
    call->misses = 0;
    call->is_granted = false;
    stream_of(sim, call)->pod = pod;
}

/* No pod was free: it waits. */
static void shadow_move_to_line(struct sim *sim, struct shadow_call *call, int from)
{
    const struct result *result = &sim->result;
    const char *sid = sim->sid_names[call - sim->calls];

    SIM_CHECK(sim, result->move.was_moved && call->pod == from, "%s waits although it was elsewhere", sid);
    SIM_CHECK(sim, sim->command.move.carrier && shadow_max_wait_ms(sim, call->merchant) > 0,
              "%s waits although it may not", sid);
    shadow_leave_pod(sim, call);
    shadow_take_pools(call, &result->move.waiting);
}

void sim_move(struct sim *sim)
{
    struct shadow_call *call = some_call(sim);
    const char *sid = sim->sid_names[call - sim->calls];
    int from = call->is_known && pick(sim, 4) ? call->pod : (int)pick(sim, PODS);
    const struct result *result = &sim->result;
    bool spares_pod = pick(sim, 3) == 0;
    struct result pod;

    sim->command = (struct command){.type = COMMAND_MOVE_CALL,
                                    .move = {.call_sid = sid,
                                             .from_pod = sim->pod_names[from],
                                             .aside_ms = pick(sim, 100000),
                                             .spares_pod = spares_pod,
                                             .carrier = pick(sim, 2) ? "router-0" : NULL}};
    execute(sim);
    if (call->wait.is_waiting) {
        SIM_CHECK(sim, result->outcome == OUTCOME_WAITING && !result->move.was_moved,
                  "move of %s, which waits: outcome %d", sid, (int)result->outcome);
        return;
    }
    SIM_CHECK(sim, (result->outcome == OUTCOME_NOT_FOUND) == !call->is_known, "move of %s: outcome %d", sid,
              (int)result->outcome);
    if (!call->is_known)
        return;
    if (result->outcome == OUTCOME_OK) {
        shadow_move(sim, call, from);
    } else if (result->outcome == OUTCOME_WAITING) {
        shadow_move_to_line(sim, call, from);
    } else {
        SIM_CHECK(sim, call->pod == from, "a call was refused a pod although it was elsewhere");
        SIM_CHECK(sim, !sim->command.move.carrier || shadow_max_wait_ms(sim, call->merchant) == 0,
                  "call %s was refused although it may wait", sid);
        if (!spares_pod) /* or its own pod may have room, which it is to leave */
            check_refused(sim, true, result->move.refusal); /* it may have one */
    }
    if (result->outcome != OUTCOME_WAITING &&
        (!is_live(sim, call) || (result->outcome == OUTCOME_OK && result->move.was_moved))) {
        shadow_take(sim, call);
        shadow_keep(sim, call, sim_first_lease_ms(sim));
    }
    if (spares_pod || (result->outcome == OUTCOME_OK && !result->move.was_moved))
        return;
    look(sim, (struct command){.type = COMMAND_POD, .pod = {.name = sim->pod_names[from]}}, &pod);
    SIM_CHECK(sim, pod.outcome == OUTCOME_OK && pod.pod.state == POD_DRAINING, "%s was not put aside",
              sim->pod_names[from]);
}
