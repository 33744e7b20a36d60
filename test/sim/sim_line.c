/*
 * sim_line.c - the shadow of the line: who waits, in which order, and what becomes of each.
 *
 * A command may grant pods to calls that it does not name, and the loss of a pod may move calls or send them
 * to the line. settle() reads the calls and the line after each command, and accepts only what the rules
 * allow. Every call that joined must leave in exactly one way.
 */
#include "sim.h"

void shadow_told(void *arg, const char *call_sid)
{
    struct sim *sim = arg;

    sim->was_told[shadow_call(sim, call_sid) - sim->calls] = true;
}

bool shadow_is_overdue(const struct sim *sim, const struct shadow_call *call)
{
    uint64_t silent_at_ms =
        call->wait.heard_at_ms + (call->wait.awaits_stream ? WAIT_FIRST_MS : WAIT_SILENT_MS);

    return sim->now_ms >= min_u64(call->wait.until_ms, silent_at_ms);
}

bool shadow_has_carrier(const struct sim *sim, const struct shadow_call *call)
{
    return call->is_carried && sim->carrier_at_ms && sim->now_ms - sim->carrier_at_ms <= CARRIER_TTL_MS;
}

/* A number of the merchant's configuration, or `missing`. */
static uint64_t number_of(const struct sim *sim, const char *merchant, const char *member, uint64_t missing)
{
    const char *text = merchant[0] ? sim->merchants[strtol(merchant + 1, NULL, 10)] : NULL;
    const char *found = text ? strstr(text, member) : NULL;

    return found ? strtoull(found + strlen(member), NULL, 10) : missing;
}

uint64_t shadow_max_wait_ms(const struct sim *sim, const char *merchant)
{
    uint64_t seconds = number_of(sim, merchant, "\"hold_seconds\":", UINT64_MAX);

    return seconds == UINT64_MAX ? sim->settings.hold_max_wait_ms : seconds * 1000;
}

size_t shadow_line_size(const struct sim *sim)
{
    size_t size = 0;

    for (int i = 0; i < SIDS; i++)
        size += sim->calls[i].wait.is_waiting;
    return size;
}

bool shadow_line_is_full(const struct sim *sim, const char *merchant)
{
    uint64_t of_merchant = 0;

    for (int i = 0; i < SIDS; i++)
        of_merchant +=
            merchant[0] && sim->calls[i].wait.is_waiting && strcmp(sim->calls[i].merchant, merchant) == 0;
    return shadow_line_size(sim) >= sim->settings.hold_max_calls ||
           of_merchant >= number_of(sim, merchant, "\"max_waiting\":", UINT64_MAX);
}

void shadow_take_pools(struct shadow_call *call, const struct waiting_call *answer)
{
    size_t len = (size_t)snprintf(call->wait.pools, sizeof(call->wait.pools), " ");

    for (size_t i = 0; i < answer->pool_count; i++)
        len +=
            (size_t)snprintf(call->wait.pools + len, sizeof(call->wait.pools) - len, "%s ", answer->pools[i]);
}

static bool waits_for(const struct shadow_call *call, const char *label)
{
    char text[POOL_LABEL_MAX + 3];

    snprintf(text, sizeof(text), " %s ", label);
    return call->wait.is_waiting && strstr(call->wait.pools, text);
}

/* Does the first one stand before the second? */
static bool stands_before(const struct sim *sim, const struct shadow_call *a, const struct shadow_call *b)
{
    if (a->wait.place != b->wait.place)
        return a->wait.place < b->wait.place;
    return strcmp(sim->sid_names[a - sim->calls], sim->sid_names[b - sim->calls]) < 0;
}

/* What was known of it is gone, but for its recorded end, its provider, its merchant, its resumes and its
 * wait. */
static void shadow_clear(struct shadow_call *call)
{
    struct shadow_call kept = {.pod = call->pod,
                               .claim = call->claim,
                               .resumes = call->resumes,
                               .resumes_from_ms = call->resumes_from_ms,
                               .provider = call->provider,
                               .wait = call->wait,
                               .has_end = call->has_end,
                               .over_at_ms = call->over_at_ms,
                               .why = call->why};

    memcpy(kept.merchant, call->merchant, sizeof(kept.merchant));
    *call = kept;
}

void shadow_join(struct sim *sim, struct shadow_call *call, uint64_t since_ms, uint64_t until_ms)
{
    unsigned priority = (unsigned)number_of(sim, call->merchant, "\"priority\":", 0);

    call->wait = (struct shadow_wait){
        .is_waiting = true,
        .since_ms = since_ms,
        .until_ms = until_ms,
        .heard_at_ms = sim->now_ms,
        .priority = priority,
        .place = (int64_t)since_ms - (int64_t)(priority * sim->settings.hold_ageing_ms),
    };
}

void shadow_record_end(struct sim *sim, struct shadow_call *call, enum finish_reason why)
{
    call->has_end = true;
    call->over_at_ms = sim->now_ms;
    call->why = why;
}

void shadow_take(struct sim *sim, struct shadow_call *call)
{
    sim->counts.taken[sim->command.type] += call->is_granted;
    call->is_granted = false;
    call->short_lease_ms = 0;
}

static void count_grant(struct sim *sim, const char *label)
{
    uint64_t minute = sim->now_ms / 60000;
    struct shadow_grants *entry = NULL;

    for (size_t i = 0; i < ARRAY_LEN(sim->grants); i++) {
        struct shadow_grants *one = &sim->grants[i];

        if (one->minute == minute && strcmp(one->label, label) == 0) {
            one->count++;
            return;
        }
        if (!entry && (one->count == 0 || one->minute + 10 <= minute))
            entry = one;
    }
    SIM_CHECK(sim, entry, "too many pools");
    *entry = (struct shadow_grants){.minute = minute, .count = 1};
    snprintf(entry->label, sizeof(entry->label), "%s", label);
}

/* An observation may have brought the pod back in the same command. */
static void check_not_absent(struct sim *sim, const struct call_info *info)
{
    SIM_CHECK(sim,
              !sim->pods[pod_index(sim, info->pod)].is_absent || sim->command.type == COMMAND_POD_SEEN ||
                  sim->command.type == COMMAND_SYNC,
              "%s got %s, which is absent", info->call_sid, info->pod);
}

void shadow_grant(struct sim *sim, struct shadow_call *call, const struct call_info *info)
{
    int at = (int)(call - sim->calls);
    struct shadow_wait *wait = &call->wait;

    SIM_CHECK(sim, !shadow_is_overdue(sim, call), "CA%d was granted although it is overdue", at);
    SIM_CHECK(sim, waits_for(call, info->pool), "CA%d was granted %s, for which it does not wait", at,
              info->pool);
    check_not_absent(sim, info);
    SIM_CHECK(sim, info->allocated_at_ms == (wait->is_rescued ? wait->since_ms : sim->now_ms),
              "CA%d has another age", at);
    SIM_CHECK(sim, strcmp(info->provider, call->provider) == 0, "CA%d has another provider", at);
    SIM_CHECK(sim, strcmp(info->merchant_id, call->merchant) == 0, "CA%d has another merchant", at);
    SIM_CHECK(sim, !wait->is_held || sim->was_told[at], "the holder of CA%d was not told of its pod", at);
    count_grant(sim, info->pool);
    sim->counts.granted++;
    shadow_clear(call);
    call->is_known = true;
    call->is_granted = true;
    call->has_arrived = true;
    call->pod = pod_index(sim, info->pod);
    call->allocated_at_ms = info->allocated_at_ms;
    call->placed_at_ms = sim->now_ms;
    call->kept_at_ms = sim->now_ms;
    call->short_lease_ms = WAIT_TAKE_MS;
    call->expires_at_ms = sim->now_ms + WAIT_TAKE_MS;
    call->was_renewed = wait->is_rescued && wait->was_renewed;
    call->unsettled_at_ms = wait->is_rescued ? sim->now_ms : 0;
    call->attempts_are_lost = wait->attempt == 0;
    call->attempts[0] = wait->attempt;
    call->attempt_count = wait->attempt ? 1 : 0;
    wait->is_waiting = false;
    memcpy(wait->stood_in, wait->pools, sizeof(wait->stood_in));
    /* For check_order: the pool that it got. */
    snprintf(wait->pools, sizeof(wait->pools), "%s", info->pool);
}

void shadow_leave_pod(struct sim *sim, struct shadow_call *call)
{
    bool was_renewed = call->was_renewed;

    shadow_exit(sim, call, PAST_MOVED);
    shadow_join(sim, call, call->allocated_at_ms, sim->now_ms + shadow_max_wait_ms(sim, call->merchant));
    call->wait.is_rescued = true;
    call->wait.lost_pod_at_ms = sim->now_ms;
    call->wait.was_renewed = was_renewed;
    call->wait.is_held = true;
    call->wait.has_joined = true;
    shadow_clear(call);
    sim->streams[call - sim->calls].is_open = false;
    sim->counts.rescued++;
}

static bool is_told_of_pods(const struct sim *sim)
{
    enum command_type type = sim->command.type;

    return type == COMMAND_POD_GONE || type == COMMAND_POD_SEEN || type == COMMAND_SYNC ||
           type == COMMAND_SWEEP;
}

/* A call was granted, and is granted now. Was it in line between, because its pod has restarted? */
static bool was_granted_again(struct sim *sim, const struct shadow_call *call, const struct call_info *info)
{
    const struct shadow_exit *known = &sim->exits[call - sim->calls];
    unsigned moves = 0;
    struct result story;

    if (pod_index(sim, info->pod) != call->pod)
        return true;
    look(sim, (struct command){.type = COMMAND_STORY, .call = {.call_sid = info->call_sid}}, &story);
    for (size_t i = 0; i < story.story.past_count; i++)
        moves += story.story.past[i].how == PAST_MOVED && story.story.past[i].ended_at_ms == sim->now_ms;
    return moves > (known->at_ms == sim->now_ms ? known->moves : 0);
}

/* The call was granted a pod, and has lost it before it was taken: it waits where it stood, whatever it is by
 * now. */
static void shadow_wait_again(struct sim *sim, struct shadow_call *call)
{
    int at = (int)(call - sim->calls);

    SIM_CHECK(sim, is_told_of_pods(sim), "CA%d lost the pod that it was granted for no reason", at);
    SIM_CHECK(sim, !call->wait.is_held || sim->was_told[at],
              "the holder of CA%d was not told that it waits again", at);
    shadow_exit(sim, call, PAST_MOVED);
    call->wait.is_waiting = true;
    call->wait.has_joined = true;
    call->wait.heard_at_ms = sim->now_ms;
    memcpy(call->wait.pools, call->wait.stood_in, sizeof(call->wait.pools));
    shadow_clear(call);
    sim->counts.waited_again++;
}

/* The pod of a call was lost in this command, and the call goes on: may it? */
static void check_rescue(struct sim *sim, const struct shadow_call *call)
{
    int at = (int)(call - sim->calls);

    SIM_CHECK(sim, is_told_of_pods(sim), "CA%d left its pod for no reason", at);
    SIM_CHECK(sim, sim->settings.rescues && call->can_move && shadow_has_carrier(sim, call),
              "CA%d was rescued although nobody can connect it", at);
    SIM_CHECK(sim, sim->was_told[at], "the carrier of CA%d was not told of its rescue", at);
}

static void shadow_rescue_move(struct sim *sim, struct shadow_call *call, const struct call_info *info)
{
    check_rescue(sim, call);
    check_not_absent(sim, info);
    SIM_CHECK(sim, info->allocated_at_ms == call->allocated_at_ms, "%s got another age", info->call_sid);
    shadow_exit(sim, call, PAST_MOVED);
    sim->counts.rescue_moves++;
    call->pod = pod_index(sim, info->pod);
    call->has_arrived = true;
    call->placed_at_ms = sim->now_ms;
    call->unsettled_at_ms = sim->now_ms;
    call->misses = 0;
    call->short_lease_ms = 0;
    shadow_keep(sim, call, sim_first_lease_ms(sim));
    sim->streams[call - sim->calls].pod = call->pod;
}

static void shadow_rescue_wait(struct sim *sim, struct shadow_call *call)
{
    check_rescue(sim, call);
    SIM_CHECK(sim, shadow_max_wait_ms(sim, call->merchant) > 0, "CA%d waits although it may not",
              (int)(call - sim->calls));
    shadow_leave_pod(sim, call);
}

/* All calls and the whole line, by call. */
struct sight {
    const struct call_info *calls[SIDS];
    const struct waiting_call *waiting[SIDS];
};

static void look_at_all(struct sim *sim, struct sight *ret_sight)
{
    struct result calls, waiting;

    *ret_sight = (struct sight){0};
    look(sim, (struct command){.type = COMMAND_CALLS, .calls = {.limit = SIDS}}, &calls);
    look(sim, (struct command){.type = COMMAND_WAITING, .waiting = {.limit = SIDS}}, &waiting);
    for (size_t i = 0; i < calls.calls.count; i++)
        ret_sight->calls[shadow_call(sim, calls.calls.calls[i].call_sid) - sim->calls] =
            &calls.calls.calls[i];
    for (size_t i = 0; i < waiting.waiting.count; i++)
        ret_sight->waiting[shadow_call(sim, waiting.waiting.calls[i].call_sid) - sim->calls] =
            &waiting.waiting.calls[i];
}

/* A call that waits: as core says, or granted meanwhile. */
static void settle_waiting(struct sim *sim, struct shadow_call *call, const struct waiting_call *waiting,
                           const struct call_info *info)
{
    const struct shadow_wait *wait = &call->wait;
    int at = (int)(call - sim->calls);

    if (info) {
        SIM_CHECK(sim, info->activity.is_granted, "CA%d has a pod that it has not asked for", at);
        shadow_grant(sim, call, info);
        return;
    }
    SIM_CHECK(sim, waiting, "CA%d was forgotten", at);
    SIM_CHECK(sim,
              waiting->since_ms == wait->since_ms && waiting->until_ms == wait->until_ms &&
                  waiting->heard_at_ms == wait->heard_at_ms && waiting->priority == wait->priority,
              "the times of CA%d in line are wrong", at);
    SIM_CHECK(sim, waiting->is_rescued == wait->is_rescued && (waiting->holder[0] != '\0') == wait->is_held,
              "CA%d: whether it is rescued, or held, is wrong", at);
    SIM_CHECK(sim, strcmp(waiting->merchant_id, call->merchant) == 0, "CA%d has another merchant", at);
    SIM_CHECK(sim, strcmp(waiting->provider, call->provider) == 0, "CA%d has another provider", at);
    if (!wait->pools[0])
        shadow_take_pools(call, waiting); /* its pod has just been lost */
}

static void settle_one(struct sim *sim, struct shadow_call *call, const struct sight *sight)
{
    int at = (int)(call - sim->calls);
    const struct call_info *info = sight->calls[at];
    const struct waiting_call *waiting = sight->waiting[at];
    bool is_unseen = false; /* into the line and out of it again: nobody has seen for what it waited */

    SIM_CHECK(sim, !info || !waiting, "CA%d waits and has a pod", at);
    if (call->is_known && call->is_granted &&
        (waiting || (info && info->activity.is_granted && was_granted_again(sim, call, info)))) {
        shadow_wait_again(sim, call);
        is_unseen = info && !call->wait.pools[0];
    } else if (call->is_known && (waiting || (info && info->activity.is_granted && !call->is_granted))) {
        shadow_rescue_wait(sim, call);
        is_unseen = info != NULL;
    } else if (call->is_known && info && pod_index(sim, info->pod) != call->pod) {
        shadow_rescue_move(sim, call, info);
    }
    if (is_unseen)
        snprintf(call->wait.pools, sizeof(call->wait.pools), " %s ", info->pool);
    if (call->wait.is_waiting)
        settle_waiting(sim, call, waiting, info);
    else
        SIM_CHECK(sim, !waiting, "CA%d waits, but nobody was told", at);
    if (is_unseen)
        call->wait.stood_in[0] = '\0';
}

/* Does the command name the call, so that its step knows what has become of it? */
static bool is_named(struct sim *sim, const char *sid)
{
    const struct command *command = &sim->command;
    const struct result *result = &sim->result;

    switch (command->type) {
    case COMMAND_ALLOCATE:
        return strcmp(command->allocate.call_sid, sid) == 0;
    case COMMAND_UNDO:
        return strcmp(command->undo.call_sid, sid) == 0;
    case COMMAND_RELEASE:
        return strcmp(command->release.call_sid, sid) == 0;
    case COMMAND_HOLD:
        return strcmp(command->hold.call_sid, sid) == 0;
    case COMMAND_LEAVE:
        return strcmp(command->leave.call_sid, sid) == 0;
    case COMMAND_MOVE_CALL:
        return strcmp(command->move.call_sid, sid) == 0;
    case COMMAND_KEEP:
        for (size_t i = 0; i < command->keep.count; i++) {
            if (strcmp(command->keep.calls[i].call.call_sid, sid) == 0)
                return true;
        }
        return false;
    case COMMAND_SERVE:
        for (size_t i = 0; i < result->serve.ended_count; i++) {
            if (strcmp(result->serve.ended[i].call_sid, sid) == 0)
                return true;
        }
        return false;
    case COMMAND_RENEW:
        for (size_t i = 0; i < command->renew.count; i++) {
            if (strcmp(command->renew.call_sids[i], sid) == 0)
                return true;
        }
        return false;
    case COMMAND_HEARTBEAT:
        for (size_t i = 0; i < command->heartbeat.count; i++) {
            if (strcmp(command->heartbeat.call_sids[i], sid) == 0)
                return true;
        }
        return false;
    default:
        return false;
    }
}

void settle_others(struct sim *sim)
{
    struct sight sight;

    look_at_all(sim, &sight);
    for (int i = 0; i < SIDS; i++) {
        if (!is_named(sim, sim->sid_names[i]))
            settle_one(sim, &sim->calls[i], &sight);
    }
}

/* Nobody was overtaken by a grant or by an allocation of this command. */
static void check_order(struct sim *sim)
{
    for (int i = 0; i < SIDS; i++) {
        const struct shadow_call *waiting = &sim->calls[i];

        if (!waiting->wait.is_waiting)
            continue;
        SIM_CHECK(sim,
                  !sim->new_pool[0] || shadow_is_overdue(sim, waiting) || !waits_for(waiting, sim->new_pool),
                  "a call was allocated a pod of %s, for which CA%d waits", sim->new_pool, i);
        for (int k = 0; k < SIDS; k++) {
            const struct shadow_call *granted = &sim->calls[k];

            if (!granted->is_known || !granted->is_granted || !granted->has_arrived ||
                !waits_for(waiting, granted->wait.pools) || !stands_before(sim, waiting, granted))
                continue;
            sim->counts.passed_over += shadow_is_overdue(sim, waiting);
            SIM_CHECK(sim, shadow_is_overdue(sim, waiting) || waiting->wait.has_joined,
                      "CA%d was overtaken by CA%d", i, k);
        }
    }
}

/* Where a call may have a slot, nobody who is not overdue waits for it. */
static void check_free_slots(struct sim *sim)
{
    struct result status;

    look(sim, (struct command){.type = COMMAND_STATUS}, &status);
    SIM_CHECK(sim, status.status.waiting == shadow_line_size(sim), "the size of the line is wrong");
    for (size_t i = 0; i < status.status.tier_count; i++) {
        const struct tier_status *tier = &status.status.tiers[i];
        char label[POOL_LABEL_MAX + 1];
        uint64_t first = 0;

        pool_label(slice_of(tier->name), label);
        for (int k = 0; k < SIDS; k++) {
            const struct shadow_call *call = &sim->calls[k];

            if (!waits_for(call, label))
                continue;
            first += strncmp(call->wait.pools + 1, label, strlen(label)) == 0 &&
                     call->wait.pools[1 + strlen(label)] == ' ';
            SIM_CHECK(sim, !tier->is_configured || tier->free == 0 || shadow_is_overdue(sim, call),
                      "%s has a free slot, and CA%d waits", label, k);
        }
        SIM_CHECK(sim, tier->waiting == first, "%s counts %llu calls that wait for it first, not %llu", label,
                  (unsigned long long)tier->waiting, (unsigned long long)first);
    }
}

/* The place of each call in the lines of its pools, and the estimate that follows. */
static void check_position(struct sim *sim, const struct shadow_call *call,
                           const struct waiting_call *waiting)
{
    uint64_t minute = sim->now_ms / 60000;
    uint64_t position = 0;
    uint64_t grants = 0;

    for (size_t i = 0; i < waiting->pool_count; i++) {
        uint64_t here = 1;

        for (int k = 0; k < SIDS; k++)
            here += waits_for(&sim->calls[k], waiting->pools[i]) && stands_before(sim, &sim->calls[k], call);
        position = position == 0 ? here : min_u64(position, here);
        for (size_t k = 0; k < ARRAY_LEN(sim->grants); k++) {
            const struct shadow_grants *one = &sim->grants[k];

            if (one->count && strcmp(one->label, waiting->pools[i]) == 0 && one->minute + 10 > minute)
                grants += one->count;
        }
    }
    SIM_CHECK(sim, waiting->position == position, "%s is number %llu, not %llu", waiting->call_sid,
              (unsigned long long)waiting->position, (unsigned long long)position);
    SIM_CHECK(sim, waiting->estimate_ms == (grants ? position * WAIT_ESTIMATE_MS / grants : 0),
              "the estimate of %s is wrong", waiting->call_sid);
}

void settle(struct sim *sim)
{
    struct sight sight;

    if (!sim->is_unsettled)
        return;
    look_at_all(sim, &sight);
    for (int i = 0; i < SIDS; i++)
        settle_one(sim, &sim->calls[i], &sight);
    check_order(sim);
    check_free_slots(sim);
    for (int i = 0; i < SIDS; i++) {
        if (sim->calls[i].wait.is_waiting)
            check_position(sim, &sim->calls[i], sight.waiting[i]);
        sim->calls[i].has_arrived = false;
        sim->calls[i].wait.has_joined = false;
    }
    sim->new_pool[0] = '\0';
    sim->is_unsettled = false;
}

void check_nobody_forgotten(struct sim *sim)
{
    const struct sim_counts *counts = &sim->counts;
    uint64_t came = counts->joined + counts->rejoined + counts->rescued + counts->waited_again;
    uint64_t left = counts->granted + counts->waits_abandoned + counts->waits_timed_out +
                    counts->waits_released + counts->waits_undone + counts->waits_adopted;

    SIM_CHECK(sim, came == left + shadow_line_size(sim),
              "%" PRIu64 " calls joined the line, but %" PRIu64 " left it and %zu stand in it", came, left,
              shadow_line_size(sim));
}

static uint64_t shadow_next_claim(const struct sim *sim, const struct shadow_call *call)
{
    return max_u64(sim->now_ms, call->claim + 1);
}

bool shadow_is_elsewhere(const struct sim *sim, const struct shadow_call *call, uint64_t claim)
{
    uint64_t patience_ms = call->wait.awaits_stream ? WAIT_FIRST_MS : WAIT_SILENT_MS;

    /* While it waits a holder that is silent does not count. */
    return call->claim > claim &&
           (!call->wait.is_waiting || sim->now_ms < call->wait.heard_at_ms + patience_ms);
}

void shadow_claim(struct sim *sim, struct shadow_call *call)
{
    call->claim = shadow_next_claim(sim, call);
}

/* The answer to a keep of a call that the store has lost, or whose end it knows. */
static void keep_lost(struct sim *sim, struct shadow_call *call, const struct keep_call *keep,
                      const struct kept_call *kept)
{
    const struct waiting_call *asked = &keep->call;
    uint64_t until_ms = asked->until_ms;
    enum keep_answer expected = is_over(sim, call)
                                    ? (call->why == FINISH_TIMED_OUT ? KEEP_TIMED_OUT : KEEP_ENDED)
                                : asked->since_ms == 0                ? KEEP_UNKNOWN
                                : until_ms && until_ms <= sim->now_ms ? KEEP_TIMED_OUT
                                                                      : KEEP_REJOINED;

    SIM_CHECK(sim, kept->answer == expected, "keep of %s: %d instead of %d", asked->call_sid,
              (int)kept->answer, (int)expected);
    SIM_CHECK(sim, kept->ended_now == (expected == KEEP_TIMED_OUT && !is_over(sim, call)),
              "keep of %s: ended_now is wrong", asked->call_sid);
    if (kept->ended_now)
        shadow_record_end(sim, call, FINISH_TIMED_OUT);
    if (expected != KEEP_REJOINED)
        return;
    snprintf(call->merchant, sizeof(call->merchant), "%s", asked->merchant_id);
    call->provider = asked->provider[0] ? "twilio" : "";
    if (until_ms == 0) {
        uint64_t max_wait_ms = shadow_max_wait_ms(sim, call->merchant);

        until_ms = sim->now_ms + (max_wait_ms ? max_wait_ms : WAIT_LOST_MS);
    }
    shadow_join(sim, call, asked->since_ms, until_ms);
    call->resumes = 0;
    call->claim = keep->is_first ? sim->now_ms : asked->claim;
    call->wait.attempt = keep->attempt;
    call->wait.is_held = true;
    shadow_take_pools(call, &kept->call);
    SIM_CHECK(sim, kept->call.claim == call->claim && kept->call.until_ms == until_ms,
              "%s has rejoined with another claim or time", asked->call_sid);
    sim->counts.rejoined++;
}

static void keep_granted(struct sim *sim, struct shadow_call *call, const struct keep_call *keep,
                         const struct kept_call *kept)
{
    bool is_elsewhere = !keep->is_first && !keep->attempt && shadow_is_elsewhere(sim, call, keep->call.claim);

    SIM_CHECK(sim, kept->answer == (is_elsewhere ? KEEP_ELSEWHERE : KEEP_GRANTED),
              "%s has a pod, and the keep says %d", keep->call.call_sid, (int)kept->answer);
    sim->counts.elsewhere += is_elsewhere;
    if (keep->is_first) {
        shadow_claim(sim, call);
        call->wait.is_held = true;
    }
    SIM_CHECK(sim, is_elsewhere || kept->call.claim == call->claim, "%s has another claim",
              keep->call.call_sid);
}

static void keep_one(struct sim *sim, const struct keep_call *keep, const struct kept_call *kept)
{
    const struct waiting_call *asked = &keep->call;
    struct shadow_call *call = shadow_call(sim, asked->call_sid);
    struct shadow_wait *wait = &call->wait;
    bool is_elsewhere;

    if (call->is_known) {
        keep_granted(sim, call, keep, kept);
        return;
    }
    if (!wait->is_waiting) {
        keep_lost(sim, call, keep, kept);
        return;
    }
    if (wait->until_ms <= sim->now_ms) {
        SIM_CHECK(sim, kept->answer == KEEP_TIMED_OUT && kept->ended_now, "%s waits for too long",
                  asked->call_sid);
        sim->counts.waits_timed_out++;
        wait->is_waiting = false;
        shadow_record_end(sim, call, FINISH_TIMED_OUT);
        return;
    }
    is_elsewhere = keep->attempt ? wait->attempt && wait->attempt != keep->attempt
                                 : !keep->is_first && shadow_is_elsewhere(sim, call, asked->claim);
    SIM_CHECK(sim, kept->answer == (is_elsewhere ? KEEP_ELSEWHERE : KEEP_WAITING), "keep of %s: %d",
              asked->call_sid, (int)kept->answer);
    sim->counts.elsewhere += is_elsewhere;
    if (is_elsewhere)
        return;
    if (!keep->attempt && (keep->is_first || asked->claim < call->claim))
        shadow_claim(sim, call);
    else if (!keep->attempt)
        call->claim = asked->claim;
    SIM_CHECK(sim, kept->call.claim == call->claim, "%s has another claim", asked->call_sid);
    wait->heard_at_ms = sim->now_ms;
    wait->awaits_stream = false;
    wait->is_held = true;
    shadow_take_pools(call, &kept->call);
}

/* The holder keeps most of what waits, and some that it believes to wait. */
void sim_keep(struct sim *sim)
{
    struct keep_call asked[SIDS];
    char merchants[SIDS][16];
    size_t count = 0;

    for (unsigned i = 0; i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[i];

        if (call->wait.is_waiting ? pick(sim, 4) == 0 : pick(sim, 100) != 0)
            continue;
        snprintf(merchants[count], sizeof(merchants[count]), pick(sim, 2) ? "m%u" : "", pick(sim, MERCHANTS));
        asked[count] = (struct keep_call){
            .call = {.call_sid = sim->sid_names[i],
                     .merchant_id = merchants[count],
                     .provider = pick(sim, 2) ? "twilio" : "",
                     .since_ms = pick(sim, 4) ? sim->now_ms - pick(sim, 60000) : 0,
                     .until_ms = pick(sim, 8) ? sim->now_ms + pick(sim, 300000) - pick(sim, 30000) : 0,
                     .claim = pick(sim, 8) ? call->claim : sim->now_ms - pick(sim, 60000)},
            .is_first = pick(sim, 16) == 0,
            .attempt = pick(sim, 8)   ? 0
                       : pick(sim, 4) ? call->wait.attempt
                                      : call->wait.attempt + 1};
        asked[count].is_first &= asked[count].attempt == 0;
        count++;
    }
    sim->command = (struct command){.type = COMMAND_KEEP,
                                    .keep = {.calls = asked, .count = count, .holder = "router-0"}};
    execute(sim);
    sim->carrier_at_ms = sim->now_ms;
    SIM_CHECK(sim, sim->result.keep.count == count, "a keep has too few answers");
    for (size_t i = 0; i < count; i++)
        keep_one(sim, &asked[i], &sim->result.keep.calls[i]);
    settle(sim); /* while what the command points to is there */
}

static void serve_ended(struct sim *sim, const struct ended_wait *ended)
{
    struct shadow_call *call = shadow_call(sim, ended->call_sid);
    int at = (int)(call - sim->calls);

    SIM_CHECK(sim, ended->waited_ms == sim->now_ms - call->wait.since_ms, "CA%d has waited for another time",
              at);
    if (call->is_known) {
        SIM_CHECK(sim, call->is_granted && !is_live(sim, call) && ended->how == WAIT_ABANDONED,
                  "CA%d was ended although its pod is taken", at);
        shadow_exit(sim, call, PAST_EXPIRED);
        call->is_known = false;
        sim->counts.untaken++;
        return;
    }
    SIM_CHECK(sim, call->wait.is_waiting && shadow_is_overdue(sim, call), "the wait of CA%d was ended", at);
    SIM_CHECK(sim, ended->how == (call->wait.until_ms <= sim->now_ms ? WAIT_TIMED_OUT : WAIT_ABANDONED),
              "the wait of CA%d ended as %s", at, wait_end_name(ended->how));
    SIM_CHECK(sim, !call->wait.is_held || sim->was_told[at], "the holder of CA%d was not told of its end",
              at);
    call->wait.is_waiting = false;
    if (ended->how == WAIT_TIMED_OUT)
        shadow_record_end(sim, call, FINISH_TIMED_OUT);
    sim->counts.waits_timed_out += ended->how == WAIT_TIMED_OUT;
    sim->counts.waits_abandoned += ended->how == WAIT_ABANDONED;
}

void sim_serve(struct sim *sim)
{
    do {
        sim->command = (struct command){.type = COMMAND_SERVE, .serve = {.limit = pick(sim, 10)}};
        execute(sim);
        for (size_t i = 0; i < sim->result.serve.ended_count; i++)
            serve_ended(sim, &sim->result.serve.ended[i]);
        settle(sim);
    } while (sim->result.serve.more);
    for (int i = 0; i < SIDS; i++) {
        const struct shadow_call *call = &sim->calls[i];

        SIM_CHECK(sim, !call->wait.is_waiting || !shadow_is_overdue(sim, call), "CA%d was left in line", i);
        SIM_CHECK(sim, !call->is_known || !call->is_granted || is_live(sim, call), "CA%d was left on its pod",
                  i);
    }
}

/* The process is about to stop, and cuts some streams. */
void sim_depart(struct sim *sim)
{
    const char *sids[SIDS];
    size_t expected = 0;
    size_t count = 0;

    for (int i = 0; i < SIDS; i++) {
        if (pick(sim, 3) == 0)
            sids[count++] = sim->sid_names[i];
    }
    sim->command = (struct command){.type = COMMAND_DEPART,
                                    .depart = {.call_sids = sids, .count = count, .carrier = "router-0"}};
    execute(sim);
    for (size_t i = 0; i < count; i++) {
        struct shadow_call *call = shadow_call(sim, sids[i]);

        if (!call->is_known || !call->is_carried)
            continue;
        expected++;
        call->is_carried = false;
        call->unsettled_at_ms = sim->now_ms;
        call->kept_at_ms = sim->now_ms;
        call->short_lease_ms = RESUME_MS;
        call->expires_at_ms = sim->now_ms + RESUME_MS;
        sim->streams[call - sim->calls].is_open = false;
    }
    sim->counts.departed += expected;
    SIM_CHECK(sim, sim->result.depart.count == expected, "%zu calls departed, not %zu",
              sim->result.depart.count, expected);
}
