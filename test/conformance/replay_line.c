/*
 * replay_line.c - steps of calls that wait; and what routers are told, compared: see replay.c.
 *
 * Core is one process, whose name is CARRIER: it alone carries calls, and keeps waiting ones. But calls may
 * join the line for other processes: one that is alive, and one that is not.
 */
#include <unistd.h>

#include "replay.h"

static const char *const holders[] = {CARRIER, CARRIER, "router-2", REPLAY_DEAD, NULL};

static bool is_waiting_now(struct replay *replay, const char *call_sid)
{
    struct command look = {.type = COMMAND_CALL, .call = {.call_sid = call_sid}};

    return on_core(replay, &look)->outcome == OUTCOME_WAITING;
}

/* Mostly a call that waits; NULL: take any name. */
const struct waiting_call *some_waiting(struct replay *replay, size_t at)
{
    struct command look = {.type = COMMAND_WAITING, .waiting = {.limit = SIDS}};
    const struct result *known = on_core(replay, &look);

    return at % 8 && known->waiting.count ? &known->waiting.calls[at % known->waiting.count] : NULL;
}

static const char *waiting_or_any(struct replay *replay)
{
    size_t at = pick(replay, SIDS);
    const struct waiting_call *call = pick(replay, 3) ? some_waiting(replay, at) : NULL;

    return call ? call->call_sid : replay->sid_names[at];
}

/* Asks to wait: a new call, or one that waits or was granted. */
void step_wait(struct replay *replay)
{
    char merchant[16] = "";
    struct command command = {.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = pick(replay, 2)
                                                           ? waiting_or_any(replay)
                                                           : replay->sid_names[pick(replay, SIDS)],
                                           .merchant_id = merchant,
                                           .provider = some_provider(replay),
                                           .waits = pick(replay, 8) != 0,
                                           .awaits_stream = pick(replay, 3) == 0,
                                           .holder = holders[pick(replay, ARRAY_LEN(holders))]}};
    const struct result *result;

    if (pick(replay, 2))
        snprintf(merchant, sizeof(merchant), "m%u", pick(replay, MERCHANTS));
    command.allocate.is_webhook = command.allocate.provider[0] && pick(replay, 4) == 0;
    command.allocate.attempt = ++replay->next_attempt;
    replay->attempts[sid_index(command.allocate.call_sid)][pick(replay, ATTEMPTS)] = replay->next_attempt;
    if (pick(replay, 6) == 0) {
        command.allocate.is_resume = true;
        command.allocate.resume_pod = pick(replay, 2) ? replay->pod_names[pick(replay, PODS)] : NULL;
    }
    result = both(replay, &command);
    if (result->outcome != OUTCOME_INVALID) {
        replay->line.joined += result->outcome == OUTCOME_WAITING && result->allocate.has_joined;
        replay->line.taken += result->outcome == OUTCOME_OK && result->allocate.was_taken;
        replay->line.full += result->outcome == OUTCOME_NO_PODS && result->allocate.is_full;
        replay->line.timed_out += result->outcome == OUTCOME_NO_PODS && result->allocate.has_ended;
        replay->line.over += result->outcome == OUTCOME_NOT_FOUND;
    }
}

/* Every client that waits asks again, but for some: so lines live for a while. */
void step_ask_again(struct replay *replay)
{
    struct command look = {.type = COMMAND_WAITING, .waiting = {.limit = SIDS}};
    const struct result *line = on_core(replay, &look);
    size_t count = line->waiting.count;

    for (size_t i = 0; i < count; i++) {
        const struct waiting_call *call = &line->waiting.calls[i];
        struct command command = {.type = COMMAND_ALLOCATE,
                                  .allocate = {.call_sid = call->call_sid,
                                               .merchant_id = call->merchant_id,
                                               .provider = call->provider,
                                               .waits = true,
                                               .holder = call->holder[0] ? call->holder : NULL,
                                               .attempt = ++replay->next_attempt}};

        if (pick(replay, 4) == 0)
            continue;
        both(replay, &command);
    }
}

/* The claim of the newest stream of a call, as its holder knows it; or that of an older one. */
uint64_t some_claim(struct replay *replay, const struct waiting_call *known)
{
    uint64_t claim = known ? known->claim : replay->claims[pick(replay, ARRAY_LEN(replay->claims))];

    return pick(replay, 6) ? claim : claim / 2;
}

/* Calls that wait, that were granted, that have ended, and that the store has lost. */
void step_keep(struct replay *replay)
{
    struct keep_call calls[6];
    struct command command = {.type = COMMAND_KEEP, .keep = {.calls = calls, .holder = CARRIER}};
    const struct result *result;

    for (; command.keep.count < ARRAY_LEN(calls); command.keep.count++) {
        struct keep_call *keep = &calls[command.keep.count];
        struct waiting_call *call = &keep->call;
        const struct waiting_call *known = some_waiting(replay, pick(replay, SIDS));

        *keep = (struct keep_call){.is_first = pick(replay, 5) == 0};
        if (known && pick(replay, 3)) {
            *call = *known;
            call->claim = some_claim(replay, known);
        } else {
            *call = (struct waiting_call){.call_sid = replay->sid_names[pick(replay, SIDS)],
                                          .merchant_id = pick(replay, 2) ? "m1" : "",
                                          .provider = some_provider(replay),
                                          .since_ms = replay->now_ms - pick(replay, 60) * UINT64_C(1000),
                                          .until_ms = replay->now_ms + pick(replay, 60) * UINT64_C(1000),
                                          .claim = some_claim(replay, NULL)};
            if (pick(replay, 3))
                call->since_ms = 0;
            if (pick(replay, 4) == 0)
                call->until_ms = 0;
        }
        if (!keep->is_first && pick(replay, 4) == 0)
            keep->attempt = replay->attempts[sid_index(call->call_sid)][pick(replay, ATTEMPTS)];
    }
    result = both(replay, &command);
    for (size_t i = 0; i < result->keep.count; i++) {
        replay->line.kept[result->keep.calls[i].answer]++;
        if (result->keep.calls[i].call.claim)
            replay->claims[pick(replay, ARRAY_LEN(replay->claims))] = result->keep.calls[i].call.claim;
    }
}

void step_serve(struct replay *replay)
{
    struct command command = {.type = COMMAND_SERVE, .serve = {.limit = 0}};
    const struct result *result = both(replay, &command);

    for (size_t i = 0; i < result->serve.ended_count; i++)
        replay->line.ended[result->serve.ended[i].how]++;
    replay->line.granted += result->serve.granted;
}

void step_depart(struct replay *replay)
{
    const char *sids[4];
    struct command command = {.type = COMMAND_DEPART, .depart = {.call_sids = sids, .carrier = CARRIER}};

    for (; command.depart.count < ARRAY_LEN(sids); command.depart.count++) {
        size_t at = pick(replay, SIDS);
        const struct call_info *call = some_call(replay, at);

        sids[command.depart.count] = call ? call->call_sid : replay->sid_names[at];
    }
    replay->line.departed += both(replay, &command)->depart.count;
}

/* The line page by page: the pages of both are the same. */
void step_line_pages(struct replay *replay)
{
    struct command command = {.type = COMMAND_WAITING, .waiting = {.limit = 1 + pick(replay, 3)}};

    do {
        command.waiting.cursor = both(replay, &command)->waiting.next_cursor;
    } while (command.waiting.cursor[0]);
}

/* A call leaves the line, or a granted one its pod, by one way or another. */
void step_line_leave(struct replay *replay)
{
    const char *call_sid = waiting_or_any(replay);
    struct command release = {.type = COMMAND_RELEASE,
                              .release = {.call_sid = call_sid,
                                          .why = (enum finish_reason)pick(replay, FINISH_REASONS),
                                          .provider = pick(replay, 3) ? NULL : "twilio"}};
    struct command undo = {.type = COMMAND_UNDO,
                           .undo = {.call_sid = call_sid,
                                    .attempt = replay->attempts[sid_index(call_sid)][pick(replay, ATTEMPTS)],
                                    .spares_place = pick(replay, 4) == 0}};
    bool is_waiting = is_waiting_now(replay, call_sid);
    const struct result *result;

    if (pick(replay, 2) && undo.undo.attempt)
        result = both(replay, &undo);
    else
        result = both(replay, &release);
    replay->line.left += is_waiting && result->outcome == OUTCOME_OK && result->release.was_waiting;
}

/*
 * What routers are told
 */

static const char *holder_of(const struct replay *replay, const char *call_sid)
{
    return replay->notes.holders[sid_index(call_sid)];
}

static void core_finished(void *arg, const char *call_sid)
{
    struct replay *replay = arg;

    strbuf_printf(&replay->notes.core, CARRIER " %s\n", call_sid);
}

static void core_changed(void *arg, const char *call_sid)
{
    struct replay *replay = arg;

    if (holder_of(replay, call_sid)[0])
        strbuf_printf(&replay->notes.core, "%s ~%s\n", holder_of(replay, call_sid), call_sid);
}

static const char *core_choice(void *arg, const char *call_sid)
{
    const struct replay *replay = arg;
    const char *pod = replay->notes.pods[sid_index(call_sid)];

    return pod[0] ? pod : NULL;
}

static void set_holder(struct replay *replay, const char *call_sid, const char *holder)
{
    size_t at = sid_index(call_sid);

    snprintf(replay->notes.holders[at], sizeof(replay->notes.holders[at]), "%s", holder ? holder : "");
}

/* In Redis the holder that the call had is told. Core has one process, which needs no telling. */
static void expect_replaced(struct replay *replay, const char *call_sid, const char *holder)
{
    const char *before = holder_of(replay, call_sid);

    if (holder && before[0] && strcmp(before, holder) != 0)
        strbuf_printf(&replay->notes.core, "%s ~%s\n", before, call_sid);
}

void notes_expect(struct replay *replay, const struct command *command, const struct result *redis)
{
    struct command look = {.type = COMMAND_CALLS, .calls = {.limit = SIDS}};
    const struct result *calls = on_store(replay, &look);

    for (size_t i = 0; i < SIDS; i++)
        replay->notes.pods[i][0] = '\0';
    for (size_t i = 0; i < calls->calls.count; i++) {
        size_t at = sid_index(calls->calls.calls[i].call_sid);

        snprintf(replay->notes.pods[at], sizeof(replay->notes.pods[at]), "%s", calls->calls.calls[i].pod);
    }
    if (command->type == COMMAND_ALLOCATE && command->allocate.waits &&
        (redis->outcome == OUTCOME_WAITING || (redis->outcome == OUTCOME_OK && redis->allocate.was_taken))) {
        if (is_waiting_now(replay, command->allocate.call_sid))
            expect_replaced(replay, command->allocate.call_sid, command->allocate.holder);
        set_holder(replay, command->allocate.call_sid, command->allocate.holder);
    }
    if (command->type == COMMAND_MOVE_CALL && redis->outcome == OUTCOME_WAITING && redis->move.was_moved)
        set_holder(replay, command->move.call_sid, command->move.carrier);
    if (command->type == COMMAND_KEEP && redis->outcome == OUTCOME_OK) {
        for (size_t i = 0; i < redis->keep.count; i++) {
            const struct keep_call *keep = &command->keep.calls[i];
            enum keep_answer answer = redis->keep.calls[i].answer;

            if (keep->is_first && (answer == KEEP_WAITING || answer == KEEP_GRANTED))
                expect_replaced(replay, keep->call.call_sid, CARRIER);
            if (answer == KEEP_WAITING || answer == KEEP_REJOINED ||
                (keep->is_first && answer == KEEP_GRANTED))
                set_holder(replay, keep->call.call_sid, CARRIER);
        }
    }
    if (command->type == COMMAND_HOLD && redis->outcome == OUTCOME_OK && redis->hold.was_taken)
        expect_replaced(replay, command->hold.call_sid, CARRIER);
}

/* Who holds what, for the next step. A granted call has the holder that it had in line. */
static void notes_look(struct replay *replay)
{
    struct command waiting = {.type = COMMAND_WAITING, .waiting = {.limit = SIDS}};
    struct command calls = {.type = COMMAND_CALLS, .calls = {.limit = SIDS}};
    const struct result *known = on_core(replay, &calls);
    bool is_granted[SIDS] = {false};

    for (size_t i = 0; i < known->calls.count; i++)
        is_granted[sid_index(known->calls.calls[i].call_sid)] = known->calls.calls[i].activity.is_granted;
    /* A call that is rescued goes to its carrier. */
    for (size_t i = 0; i < SIDS; i++) {
        if (!is_granted[i])
            set_holder(replay, replay->sid_names[i], CARRIER);
    }
    known = on_core(replay, &waiting);
    for (size_t i = 0; i < known->waiting.count; i++)
        set_holder(replay, known->waiting.calls[i].call_sid, known->waiting.calls[i].holder);
}

static const char *raw_word(struct replay *replay, const char *command)
{
    raw_send(replay, replay->notes.raw, command);
    return raw_line(replay, replay->notes.raw);
}

static bool carrier_is_alive(struct replay *replay)
{
    return strcmp(raw_word(replay, "EXISTS voice:carrier:" CARRIER), ":1") == 0;
}

/* The notes of all routers, which are then gone. */
static void notes_read(struct replay *replay)
{
    const char *text = raw_word(
        replay, "EVAL \"local found = {} for _, name in ipairs({'" CARRIER "', 'router-2', '" REPLAY_DEAD
                "'}) do for _, note in ipairs(redis.call('LRANGE', 'voice:mail:' .. name, 0, -1)) do "
                "found[#found + 1] = name .. ' ' .. note end redis.call('DEL', 'voice:mail:' .. name) "
                "end return found\" 0");

    if (text[0] != '*')
        REPLAY_FAIL(replay, "the mailboxes cannot be read: %s", text);
    for (unsigned long left = strtoul(text + 1, NULL, 10); left > 0; left--) {
        (void)raw_line(replay, replay->notes.raw); /* its length */
        strbuf_printf(&replay->notes.redis, "%s\n", raw_line(replay, replay->notes.raw));
    }
}

/* Is the call among those that ended in this step without being released? */
static bool was_lost(struct replay *replay, const char *call_sid)
{
    const char *at = replay->told[0].len ? replay->told[0].data : "";
    size_t len = strlen(call_sid);

    for (; *at; at = strchr(at, '\n') + 1) {
        if (strncmp(at, call_sid, len) == 0 && at[len] == ' ')
            return true;
    }
    return false;
}

/*
 * The lines of `notes` that both stores must have, sorted. A process that is not alive is not told in Redis.
 * There the carriers of lost calls are told, too; and with a move, a carrier that has not asked for it.
 */
static const char *notes_that_count(struct replay *replay, const struct strbuf *notes, bool is_redis,
                                    bool is_alive)
{
    struct strbuf kept;
    char *copy = arena_strdup(&replay->arena, notes->len ? notes->data : "");
    char *line;

    strbuf_init(&kept, &replay->arena, TEXT_MAX);
    while (copy && (line = strsep(&copy, "\n")) && line[0]) {
        const char *note = strchr(line, ' ') + 1;
        bool is_carrier = strncmp(line, CARRIER " ", strlen(CARRIER) + 1) == 0;

        if (strncmp(line, REPLAY_DEAD " ", strlen(REPLAY_DEAD) + 1) == 0 && !is_redis)
            continue;
        if (is_carrier && !is_alive && !is_redis)
            continue;
        if (is_redis && note[0] != '~' && was_lost(replay, note))
            continue;
        if (is_redis && replay->notes.is_move && note[0] == '~' &&
            strcmp(note + 1, replay->notes.moved_sid) == 0 && is_carrier) {
            replay->notes.is_move = false; /* this one; another one counts */
            continue;
        }
        strbuf_printf(&kept, "%s\n", line);
    }
    return render_sorted(&kept, &replay->arena);
}

void notes_begin(struct replay *replay)
{
    notes_look(replay);
    replay->notes.is_alive = carrier_is_alive(replay);
}

void notes_compare(struct replay *replay)
{
    bool is_alive = replay->notes.is_alive || carrier_is_alive(replay);
    const char *core;
    const char *redis;

    notes_read(replay);
    core = notes_that_count(replay, &replay->notes.core, false, is_alive);
    redis = notes_that_count(replay, &replay->notes.redis, true, true);
    if (strcmp(core, redis) != 0)
        REPLAY_FAIL(replay, "routers are told\n--- by core\n%s--- by Redis\n%s", core, redis);
    for (const char *at = core; *at; at = strchr(at, '\n') + 1)
        replay->line.notes++;
    strbuf_reset(&replay->notes.core);
    strbuf_reset(&replay->notes.redis);
    replay->notes.is_move = false;
}

void notes_open(struct replay *replay)
{
    strbuf_init(&replay->notes.core, NULL, TEXT_MAX);
    strbuf_init(&replay->notes.redis, NULL, TEXT_MAX);
    core_on_finished(replay->core, core_finished, replay);
    core_on_changed(replay->core, core_changed, replay);
    core_on_choice(replay->core, core_choice, replay);
    replay->notes.raw = raw_connect(replay);
    raw_send(replay, replay->notes.raw, "SET voice:carrier:router-2 1");
    (void)raw_line(replay, replay->notes.raw);
}

void notes_close(struct replay *replay)
{
    strbuf_release(&replay->notes.core);
    strbuf_release(&replay->notes.redis);
    (void)close(replay->notes.raw);
}
