/*
 * commands.c - the arguments and the answer of each command that changes one call or one pod.
 *
 * Renewals and heartbeats of many calls go in batches. Queries are in queries.c, call_queries.c and
 * merchants.c, bulk commands in files of their own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/version.h"
#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* The end of every decoder: what was read, or why not. */
static int answer_end(const struct operation *operation, const struct answer *answer)
{
    if (answer->err == -EIO || (answer->err == 0 && answer_left(answer) > 0))
        return operation_unexpected(operation);
    return answer->err;
}

/* ALLOCATE */

int allocate_encode(struct operation *operation, struct args *args)
{
    const struct command *command = &operation->command;

    args_add_text(args, command->allocate.call_sid);
    args_add_text(args, command->allocate.merchant_id);
    args_add_text(args, command->allocate.provider);
    args_add_u64(args, command->allocate.attempt);
    args_add_text(args, command->allocate.is_webhook ? SCRIPT_YES : "");
    return 0;
}

int allocate_decode(struct operation *operation, const redisReply *reply)
{
    const struct command *command = &operation->command;
    struct result *result = operation->result;
    struct call_info *call = &result->allocate.call;
    struct answer answer;
    uint64_t kind;

    answer_init(&answer, reply, operation->arena);
    result->allocate.attempt = command->allocate.attempt;
    kind = answer_u64(&answer);
    if (kind == SCRIPT_CALL_NO_POD) {
        result->outcome = OUTCOME_NO_PODS;
        result->allocate.refusal = answer_refusal(&answer, &result->allocate.merchant_unreadable);
        answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_CALL_FORBIDDEN) {
        result_forbid(operation->result);
        return answer_end(operation, &answer);
    }
    result->allocate.was_existing = kind == SCRIPT_CALL_EXISTING;
    call->call_sid = arena_strdup(operation->arena, command->allocate.call_sid);
    call->pod = answer_text(&answer);
    call->pool = answer_text(&answer);
    if (result->allocate.was_existing) {
        call->merchant_id = answer_text(&answer);
        call->provider = answer_text(&answer);
    } else {
        call->merchant_id = arena_strdup(operation->arena, command->allocate.merchant_id);
        call->provider = arena_strdup(operation->arena, command->allocate.provider);
    }
    if (!call->call_sid || !call->merchant_id || !call->provider)
        return -ENOMEM;
    call->allocated_at_ms = answer_seconds(&answer);
    call->expires_at_ms = answer_u64(&answer);
    call->address = answer_address(&answer);
    result->allocate.merchant_unreadable = answer_u64(&answer) != 0;
    answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    return answer_end(operation, &answer);
}

/* MOVE_CALL */

int move_call_encode(struct operation *operation, struct args *args)
{
    const struct redis_store *store = operation->store;
    uint64_t aside_ms = operation->command.move.aside_ms;

    args_begin(args, operation, operation->arena,
               SCRIPT_MOVE_CALL_ARGS + store->tiers->chain_count + SCRIPT_MOVE_CALL_EACH);
    args_add_text(args, store->first.lease);
    args_add_u64(args, store->call_info_ttl_ms);
    args_add_u64(args, aside_ms ? aside_ms : store->core.draining_ttl_ms);
    args_add(args, store->tiers->merchants);
    args_add_u64(args, store->tiers->chain_count);
    for (size_t i = 0; i < store->tiers->chain_count; i++)
        args_add(args, store->tiers->chain[i]);
    args_add_text(args, operation->command.move.call_sid);
    args_add_text(args, operation->command.move.from_pod);
    return 0;
}

int move_call_decode(struct operation *operation, const redisReply *reply)
{
    const char *call_sid = operation->command.move.call_sid;
    struct result *result = operation->result;
    struct call_info *call = &result->move.call;
    struct answer answer;
    uint64_t kind;

    answer_init(&answer, reply, operation->arena);
    kind = answer_u64(&answer);
    if (kind == SCRIPT_CALL_NO_POD) {
        result->outcome = OUTCOME_NO_PODS;
        result->move.refusal = answer_refusal(&answer, &result->move.merchant_unreadable);
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_MOVE_NOT_FOUND) {
        result->outcome = OUTCOME_NOT_FOUND;
        answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
        return answer_end(operation, &answer);
    }
    result->move.was_moved = kind == SCRIPT_CALL_PLACED;
    call->call_sid = arena_strdup(operation->arena, call_sid);
    answer_call(&answer, call);
    result->move.merchant_unreadable = answer_u64(&answer) != 0;
    if (!call->call_sid)
        return -ENOMEM;
    return answer_end(operation, &answer);
}

/* RELEASE */

int release_encode(struct operation *operation, struct args *args)
{
    const struct command *command = &operation->command;

    args_add_text(args, command->release.call_sid);
    if (operation->is_detailed) {
        args_add_text(args, command->release.pod ? command->release.pod : "");
        args_add_text(args, finish_reason_name(command->release.why));
        args_add_text(args, command->release.provider ? command->release.provider : "");
    }
    return 0;
}

/*
 * The answer of release_and_allocate.lua for a released call, behind its first number. `how`: it is to be
 * remembered. PAST_UNDONE: the script has done so.
 */
static int read_released(struct operation *operation, struct answer *answer, const char *call_sid,
                         enum past_end how)
{
    struct past_note note;
    struct result *result = operation->result;
    struct call_info *call = &result->release.call;
    char label[POOL_LABEL_MAX + 1] = "";
    struct slice tier;

    call->call_sid = arena_strdup(operation->arena, call_sid);
    answer_call_record(answer, call);
    call->address = answer_address(answer);
    tier = answer_slice(answer);
    if (tier.len)
        pool_label(tier, label);
    result->release.released_to = arena_strdup(operation->arena, label);
    result->release.was_draining = answer_u64(answer) != 0;
    note.renewed = answer_text(answer);
    note.at = answer_text(answer);
    if (!call->call_sid || !result->release.released_to)
        return -ENOMEM;
    if (!answer->err && how != PAST_UNDONE)
        past_note(operation->store, call, (enum finish_reason)how, &note);
    return answer_end(operation, answer);
}

int release_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case SCRIPT_RELEASE_NOT_FOUND:
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_FORBIDDEN:
        result_forbid(operation->result);
        return answer_end(operation, &answer);
    default:
        return read_released(operation, &answer, operation->command.release.call_sid,
                             (enum past_end)operation->command.release.why);
    }
}

/* UNDO: also by undo.c, for several at once */

int undo_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_UNDO_EACH);
    args_add_text(args, operation->command.undo.call_sid);
    args_add_u64(args, operation->command.undo.attempt);
    return 0;
}

int undo_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1)
        return operation_unexpected(operation);
    if (reply->element[0]->type == REDIS_REPLY_ERROR)
        return redis_link_report(operation->store->link, reply->element[0]->str);
    answer_init(&answer, reply->element[0], operation->arena);
    switch (answer_u64(&answer)) {
    case SCRIPT_RELEASE_NOT_FOUND:
        result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_DONE:
        return read_released(operation, &answer, operation->command.undo.call_sid, PAST_UNDONE);
    default:
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_UNDO;
        return answer_end(operation, &answer);
    }
}

/* HOLD */

int hold_encode(struct operation *operation, struct args *args)
{
    const char *carrier = operation->command.hold.carrier;

    args_begin(args, operation, operation->arena, SCRIPT_HOLD_ARGS);
    args_add_u64(args, operation->store->core.lease_ttl_ms);
    args_add_u64(args, operation->store->call_info_ttl_ms);
    args_add_text(args, carrier ? carrier : "");
    args_add_text(args, operation->command.hold.call_sid);
    mailbox_expect(operation->store, carrier);
    return 0;
}

int hold_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct call_info *call = &result->hold.call;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == SCRIPT_HOLD_NOT_FOUND) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->hold.has_ended = answer_u64(&answer) != 0;
        answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
        return answer_end(operation, &answer);
    }
    call->call_sid = arena_strdup(operation->arena, operation->command.hold.call_sid);
    answer_call(&answer, call);
    result->hold.was_connected = answer_u64(&answer) != 0;
    return call->call_sid ? answer_end(operation, &answer) : -ENOMEM;
}

/* LEAVE */

int leave_encode(struct operation *operation, struct args *args)
{
    const char *carrier = operation->command.leave.carrier;

    args_begin(args, operation, operation->arena, SCRIPT_LEAVE_ARGS);
    args_add_text(args, operation->command.leave.call_sid);
    args_add_text(args, carrier ? carrier : "");
    args_add_u64(args, operation->command.leave.expires_at_ms);
    args_add_text(args, redis_link_up_ms(operation->store->link) < CARRIER_TTL_MS ? SCRIPT_YES : "");
    return 0;
}

int leave_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case SCRIPT_RELEASE_NOT_FOUND:
        result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_DONE:
        return read_released(operation, &answer, operation->command.leave.call_sid, PAST_CLOSED);
    case SCRIPT_LEAVE_RENEWED:
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_LEAVE;
        return answer_end(operation, &answer);
    default:
        result->outcome = OUTCOME_CONFLICT;
        result->error = "another router carries the call";
        result->release.is_carried = true;
        return answer_end(operation, &answer);
    }
}

/* RENEW, a bounded number of calls at a time */

static int renew_next(struct operation *operation);

/* Where the call belongs whose letter comes next; NULL: that is none of renew.lua's. */
static struct name_array *renew_list(struct answer *answer, struct result *result)
{
    struct slice what = answer_slice(answer);

    return slice_equals(what, SCRIPT_CALL_RENEWED)    ? &result->renew.renewed
           : slice_equals(what, SCRIPT_CALL_ADOPTED)  ? &result->renew.adopted
           : slice_equals(what, SCRIPT_CALL_UNKNOWN)  ? &result->renew.unknown
           : slice_equals(what, SCRIPT_CALL_ENDED)    ? &result->renew.finished
           : slice_equals(what, SCRIPT_CALL_CONFLICT) ? &result->renew.conflicts
                                                      : NULL;
}

static void renew_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct result *result;
    struct answer answer;
    size_t end;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    result = operation->result;
    if (err < 0) {
        operation_finish(operation, err);
        return;
    }
    end = (size_t)min_u64(operation->command.renew.count, operation->at + (uint64_t)REDIS_RENEW_BATCH);
    answer_init(&answer, reply, operation->arena);
    result->renew.expires_at_ms = answer_u64(&answer);
    while (operation->at < end && err == 0) {
        struct name_array *list = renew_list(&answer, result);

        err =
            list ? name_array_add(list, operation->arena, operation->command.renew.call_sids[operation->at++])
                 : operation_unexpected(operation);
    }
    answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    if (err == 0)
        err = answer_end(operation, &answer);
    if (err < 0 || operation->at == operation->command.renew.count) {
        operation_finish(operation, err);
        return;
    }
    err = renew_next(operation);
    if (err < 0)
        operation_finish(operation, err);
}

static int renew_next(struct operation *operation)
{
    size_t end = (size_t)min_u64(operation->command.renew.count, operation->at + (uint64_t)REDIS_RENEW_BATCH);
    const struct command *command = &operation->command;
    struct args args;

    args_begin(&args, operation, operation->arena,
               SCRIPT_RENEW_ARGS + SCRIPT_RENEW_EACH * (end - operation->at));
    args_add_u64(&args, operation->store->core.lease_ttl_ms);
    args_add_u64(&args, operation->store->call_info_ttl_ms);
    args_add_text(&args, command->renew.carrier ? command->renew.carrier : "");
    for (size_t i = operation->at; i < end; i++) {
        args_add_text(&args, command->renew.call_sids[i]);
        args_add_text(&args, command->renew.pods      ? command->renew.pods[i]
                             : command->renew.pattern ? command->renew.pattern
                                                      : "");
        args_add_text(&args, command->renew.providers ? command->renew.providers[i] : "");
    }
    mailbox_expect(operation->store, command->renew.carrier);
    return args_call(&args, operation, SCRIPT_RENEW, renew_answered);
}

int operation_renew(struct operation *operation)
{
    struct result *result = operation->result;
    struct name_array *lists[] = {&result->renew.renewed, &result->renew.adopted, &result->renew.unknown,
                                  &result->renew.finished, &result->renew.conflicts};
    int err = 0;

    for (size_t i = 0; err == 0 && i < ARRAY_LEN(lists); i++)
        err = name_array_init(lists[i], operation->arena, operation->command.renew.count);
    return err < 0 ? err : renew_next(operation);
}

/*
 * HEARTBEAT, a bounded number of calls at a time. Whether the pod has left one out, only the last part can
 * tell: it names all of them.
 */

static int heartbeat_next(struct operation *operation);

static size_t heartbeat_end(const struct operation *operation)
{
    return (size_t)min_u64(operation->command.heartbeat.count,
                           operation->at + (uint64_t)REDIS_HEARTBEAT_BATCH);
}

static int heartbeat_read_calls(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    size_t end = heartbeat_end(operation);
    int err = 0;

    for (; err == 0 && operation->at < end && answer->err == 0; operation->at++) {
        struct slice what = answer_slice(answer);
        struct name_array *array = slice_equals(what, SCRIPT_CALL_RENEWED)    ? &result->heartbeat.renewed
                                   : slice_equals(what, SCRIPT_CALL_ADOPTED)  ? &result->heartbeat.adopted
                                   : slice_equals(what, SCRIPT_CALL_CONFLICT) ? &result->heartbeat.conflicts
                                   : slice_equals(what, SCRIPT_CALL_ENDED)    ? &result->heartbeat.finished
                                                                              : NULL;

        if (!array)
            return operation_unexpected(operation);
        err = name_array_add(array, operation->arena, operation->command.heartbeat.call_sids[operation->at]);
    }
    return err;
}

static int heartbeat_read_ended(struct operation *operation, struct answer *answer)
{
    int err = 0;

    while (err == 0 && answer_left(answer) >= SCRIPT_ENDED_TEXTS) {
        struct ended_array one = {0};

        answer_ended(answer, 1, &one);
        if (one.count)
            err =
                ended_array_add(one.calls[0].why == CALL_END_UNMENTIONED ? &operation->result->heartbeat.ended
                                                                         : &operation->lost,
                                operation->arena, &one.calls[0]);
    }
    return err < 0 ? err : answer_end(operation, answer);
}

static void heartbeat_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err < 0) {
        operation_finish(operation, err);
        return;
    }
    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == SCRIPT_POD_UNKNOWN) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        operation_finish(operation, answer_end(operation, &answer));
        return;
    }
    err = heartbeat_read_calls(operation, &answer);
    if (err == 0)
        err = heartbeat_read_ended(operation, &answer);
    if (err < 0 || operation->at == operation->command.heartbeat.count) {
        operation_finish(operation, err);
        return;
    }
    err = heartbeat_next(operation);
    if (err < 0)
        operation_finish(operation, err);
}

static int heartbeat_next(struct operation *operation)
{
    const struct command *command = &operation->command;
    size_t end = heartbeat_end(operation);
    bool is_last = end == command->heartbeat.count;
    size_t from = is_last ? 0 : operation->at;
    struct args args;

    args_begin(&args, operation, operation->arena, SCRIPT_HEARTBEAT_ARGS + end - from);
    args_add_text(&args, command->heartbeat.pod);
    args_add_u64(&args, operation->store->core.lease_ttl_ms);
    args_add_u64(&args, operation->store->call_info_ttl_ms);
    if (is_last)
        args_add_u64(&args, HEARTBEAT_MISSES);
    else
        args_add_text(&args, "");
    args_add_u64(&args, HEARTBEAT_YOUNG_MS);
    args_add_u64(&args, operation->at);
    for (size_t i = from; i < end; i++)
        args_add_text(&args, command->heartbeat.call_sids[i]);
    return args_call(&args, operation, SCRIPT_HEARTBEAT, heartbeat_answered);
}

int operation_heartbeat(struct operation *operation)
{
    struct result *result = operation->result;
    size_t count = operation->command.heartbeat.count;
    int err = name_array_init(&result->heartbeat.renewed, operation->arena, count);

    if (err == 0)
        err = name_array_init(&result->heartbeat.adopted, operation->arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.finished, operation->arena, count);
    if (err == 0)
        err = name_array_init(&result->heartbeat.conflicts, operation->arena, count);
    return err < 0 ? err : heartbeat_next(operation);
}

/* PRESENT */

int present_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_PRESENT_ARGS);
    args_add_text(args, operation->command.present.carrier);
    args_add_text(args, operation->command.present.is_leaving ? SCRIPT_YES : "");
    args_add_text(args, SMART_ROUTER_VERSION);
    return 0;
}

int present_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->present.others = answer_u64(&answer);
    return answer_end(operation, &answer);
}

/* DRAIN, UNDRAIN */

int drain_encode(struct operation *operation, struct args *args)
{
    uint64_t ttl_ms = operation->command.drain.ttl_ms;

    args_begin(args, operation, operation->arena, SCRIPT_DRAIN_ARGS);
    args_add_text(args, operation->command.drain.pod);
    if (ttl_ms == DRAIN_WITHOUT_END)
        args_add_text(args, "");
    else
        args_add_u64(args, ttl_ms ? ttl_ms : operation->store->core.draining_ttl_ms);
    return 0;
}

int drain_decode(struct operation *operation, const redisReply *reply)
{
    bool is_surplus; /* never, right after a drain */
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == SCRIPT_POD_UNKNOWN) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    }
    operation->result->drain.calls_left = answer_u64(&answer);
    operation->result->drain.until_ms = answer_drain_end(&answer, &is_surplus);
    return answer_end(operation, &answer);
}

int undrain_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_UNDRAIN_ARGS);
    args_add_text(args, operation->command.undrain.pod);
    return 0;
}

int undrain_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->outcome = answer_u64(&answer) == SCRIPT_POD_UNKNOWN ? OUTCOME_NOT_FOUND : OUTCOME_OK;
    return answer_end(operation, &answer);
}

/* POD_SEEN, POD_GONE */

void args_add_seen(struct args *args, const struct pod_seen *seen)
{
    /* Every combination of the three flags is a text of its own, so that nothing has to be built. */
    static const char *const flags[] = {
        "",
        SCRIPT_SEEN_IS_READY,
        SCRIPT_SEEN_IS_TERMINATING,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_IS_TERMINATING,
        SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_TERMINATING SCRIPT_SEEN_HOLD_BACK,
        SCRIPT_SEEN_IS_READY SCRIPT_SEEN_IS_TERMINATING SCRIPT_SEEN_HOLD_BACK,
    };
    const struct tier *tier = seen->tier ? tier_config_resolve(args->tiers, seen->tier) : NULL;

    args_add_text(args, seen->name);
    args_add_text(args, seen->address);
    args_add_text(args, seen->incarnation ? seen->incarnation : "");
    args_add_copy(args, tier ? tier->name : "");
    args_add_text(args, pod_source_name(seen->source));
    args_add_text(
        args, flags[(seen->is_ready ? 1 : 0) | (seen->is_terminating ? 2 : 0) | (seen->hold_back ? 4 : 0)]);
    args_add_u64(args, seen->started_at_ms);
}

int pod_seen_encode(struct operation *operation, struct args *args)
{
    args_begin_fenced(args, operation, operation->arena, SCRIPT_SEEN_ARGS + SCRIPT_SEEN_EACH);
    args_add_u64(args, operation->store->core.heartbeat_ttl_ms);
    args_add_text(args, operation->command.pod_seen.is_registration ? SCRIPT_YES : "");
    args_add_seen(args, &operation->command.pod_seen.pod);
    return 0;
}

int pod_seen_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;
    struct slice what;

    answer_init(&answer, reply, operation->arena);
    what = answer_slice(&answer);
    if (slice_equals(what, SCRIPT_SEEN_CONFLICT))
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_REGISTRATION);
    if (slice_equals(what, SCRIPT_SEEN_TOO_MANY))
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_FULL_OF_PODS);
    result->pod_seen.is_new = slice_equals(what, SCRIPT_SEEN_NEW);
    result->pod_seen.tier = answer_text(&answer);
    answer_ended(&answer, answer_u64(&answer), &result->pod_seen.ended);
    return answer_end(operation, &answer);
}

int pod_gone_encode(struct operation *operation, struct args *args)
{
    args_begin_fenced(args, operation, operation->arena, SCRIPT_GONE_ARGS + SCRIPT_GONE_EACH);
    args_add_text(args, pod_source_name(operation->command.pod_gone.source));
    args_add_text(args, operation->command.pod_gone.is_absent ? SCRIPT_GONE_IS_ABSENT : SCRIPT_GONE_IS_GONE);
    args_add_text(args, operation->command.pod_gone.pod);
    return 0;
}

int pod_gone_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    uint64_t what;

    answer_init(&answer, reply, operation->arena);
    what = answer_u64(&answer);
    answer_ended(&answer, answer_u64(&answer), &operation->result->pod_gone.ended);
    operation->result->pod_gone.has_stayed = what == SCRIPT_GONE_STAYS;
    if (what == SCRIPT_GONE_UNKNOWN)
        operation->result->outcome = OUTCOME_NOT_FOUND;
    if (what == SCRIPT_GONE_CONFLICT)
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_REMOVAL);
    return answer_end(operation, &answer);
}
