/* replay_calls.c - steps of calls: see replay.c. */
#include "replay.h"

/* Mostly the same one, so that webhooks often meet calls of their own. */
const char *some_provider(struct replay *replay)
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

void step_allocate(struct replay *replay)
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

void step_release(struct replay *replay)
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
const struct call_info *some_call(struct replay *replay, size_t at)
{
    struct command look = {.type = COMMAND_CALLS, .calls = {.limit = SIDS}};
    const struct result *known = on_core(replay, &look);

    return at < 50 && known->calls.count ? &known->calls.calls[at % known->calls.count] : NULL;
}

void step_undo(struct replay *replay)
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
void step_leave(struct replay *replay)
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

void step_hold(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct call_info *call = some_call(replay, at);
    struct command command = {
        .type = COMMAND_HOLD,
        .hold = {.call_sid = call ? call->call_sid : replay->sid_names[at], .carrier = CARRIER}};

    if (pick(replay, 3) == 0) {
        const struct waiting_call *waiting = call ? NULL : some_waiting(replay, at);

        command.hold.is_held = true;
        command.hold.claim = some_claim(replay, waiting);
        if (waiting)
            command.hold.call_sid = waiting->call_sid;
    } else {
        command.hold.is_new = pick(replay, 3) == 0;
    }
    if (both(replay, &command)->outcome == OUTCOME_OK)
        replay->revived += call && call->expires_at_ms <= replay->now_ms;
}

/* Mostly a call that is there, off the pod that carries it. */
void step_move(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct call_info *call = some_call(replay, at);
    struct command command = {
        .type = COMMAND_MOVE_CALL,
        .move = {.call_sid = call ? call->call_sid : replay->sid_names[at],
                 .from_pod = call && pick(replay, 8) ? call->pod : replay->pod_names[pick(replay, PODS)],
                 .aside_ms = pick(replay, 100) * UINT64_C(1000),
                 .spares_pod = pick(replay, 3) == 0,
                 /* Where none is rescued, the gateway does not ask for it either. */
                 .carrier = pick(replay, 2) && replay->seed % 4 != 0 ? CARRIER : NULL}};
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

void step_renew(struct replay *replay)
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
void step_renew_carried(struct replay *replay)
{
    const char *sids[6];
    const char *pods[6];
    const char *providers[6];
    bool can_move[6];
    struct command command = {.type = COMMAND_RENEW,
                              .renew = {.call_sids = sids,
                                        .pods = pods,
                                        .providers = providers,
                                        .carrier = CARRIER,
                                        .can_move = pick(replay, 8) ? can_move : NULL}};
    const struct result *result;

    for (; command.renew.count < ARRAY_LEN(sids); command.renew.count++) {
        size_t at = pick(replay, SIDS);
        const struct call_info *call = some_call(replay, at);

        sids[command.renew.count] = call ? call->call_sid : replay->sid_names[at];
        pods[command.renew.count] =
            call && pick(replay, 8) ? call->pod : replay->pod_names[pick(replay, PODS)];
        providers[command.renew.count] = some_provider(replay);
        can_move[command.renew.count] = pick(replay, 4) != 0;
        replay->revived += call && call->expires_at_ms <= replay->now_ms;
    }
    result = both(replay, &command);
    replay->adopted += result->renew.adopted.count;
    replay->over += result->renew.finished.count;
}

/* One process alone: what several say to each other is in cases_time.c. */
void step_present(struct replay *replay)
{
    struct command command = {.type = COMMAND_PRESENT,
                              .present = {.carrier = pick(replay, 20) ? "router-0" : "no,name",
                                          .is_leaving = pick(replay, 4) == 0}};

    both(replay, &command);
}

void step_heartbeat(struct replay *replay)
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
