/*
 * commands.c - the arguments and the answer of each command that changes one call or one pod.
 *
 * Renewals and heartbeats of many calls go in batches. Queries are in queries.c and merchants.c,
 * bulk commands in files of their own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* The end of every decoder: what was read, or why not. */
static int answer_end(const struct operation *operation, const struct answer *answer)
{
    if (answer->err == -EIO || (answer->err == 0 && answer_left(answer) > 0))
        return operation_unexpected(operation);
    return answer->err;
}

static const char *pool_label(struct arena *arena, const char *tier)
{
    size_t size = strlen("pool:") + strlen(tier) + 1;
    char *label;

    if (strncmp(tier, MERCHANT_POOL_PREFIX, strlen(MERCHANT_POOL_PREFIX)) == 0)
        return tier;
    label = arena_alloc(arena, size);
    if (label)
        snprintf(label, size, "pool:%s", tier);
    return label;
}

static int name_array_init(struct name_array *array, struct arena *arena, size_t max)
{
    *array = (struct name_array){0};
    array->names = arena_alloc(arena, (max + 1) * sizeof(*array->names));
    return array->names ? 0 : -ENOMEM;
}

static int name_array_add(struct name_array *array, struct arena *arena, const char *name)
{
    const char *copy = arena_strdup(arena, name);

    if (!copy)
        return -ENOMEM;
    array->names[array->count++] = copy;
    return 0;
}

/* ALLOCATE */

int allocate_encode(struct operation *operation, struct args *args)
{
    const struct command *command = &operation->command;

    args_add_text(args, command->allocate.call_sid);
    args_add_text(args, command->allocate.merchant_id);
    args_add_text(args, command->allocate.provider);
    args_add_u64(args, command->allocate.attempt);
    args_add_text(args, command->allocate.is_webhook ? "1" : "");
    return 0;
}

static void refusal_step_read(struct answer *answer, struct refusal_step *step)
{
    struct slice tier = answer_slice(answer);
    bool is_merchant = tier.len >= strlen(MERCHANT_POOL_PREFIX) &&
                       memcmp(tier.data, MERCHANT_POOL_PREFIX, strlen(MERCHANT_POOL_PREFIX)) == 0;
    uint32_t out;

    *step = (struct refusal_step){.is_configured = true};
    snprintf(step->pool, sizeof(step->pool), "%s%.*s", is_merchant ? "" : "pool:", (int)tier.len, tier.data);
    step->pods = (uint32_t)answer_u64(answer);
    step->by_state[POD_DRAINING] = (uint32_t)answer_u64(answer);
    step->by_state[POD_SUSPENDED] = (uint32_t)answer_u64(answer);
    out = step->by_state[POD_DRAINING] + step->by_state[POD_SUSPENDED];
    step->by_state[POD_BUSY] = step->pods > out ? step->pods - out : 0;
}

/* NULL after a failure, which the answer knows. */
static const struct refusal *refusal_read(struct operation *operation, struct answer *answer,
                                          const char *call_sid, bool *ret_unreadable)
{
    struct refusal *refusal = arena_alloc(operation->arena, sizeof(*refusal));
    struct slice missing;
    size_t count;

    *ret_unreadable = answer_u64(answer) != 0;
    missing = answer_slice(answer);
    if (!refusal) {
        answer->err = -ENOMEM;
        return NULL;
    }
    *refusal = (struct refusal){.at_ms = answer_u64(answer)};
    count = answer_u64(answer);
    if (count > answer_left(answer) / 4) {
        answer->err = answer->err ? answer->err : -EIO;
        return NULL;
    }
    refusal->steps = arena_alloc(operation->arena, (count + 1) * sizeof(*refusal->steps));
    if (!refusal->steps) {
        answer->err = -ENOMEM;
        return NULL;
    }
    if (missing.len) {
        struct refusal_step *step = &refusal->steps[refusal->count++];

        *step = (struct refusal_step){0};
        snprintf(step->pool, sizeof(step->pool), MERCHANT_POOL_PREFIX "%.*s", (int)missing.len, missing.data);
    }
    for (size_t i = 0; i < count; i++)
        refusal_step_read(answer, &refusal->steps[refusal->count++]);
    operation->result->outcome = OUTCOME_NO_PODS;
    if (answer->err)
        return NULL;
    refusals_remember(&operation->store->refusals, call_sid, refusal);
    return refusal;
}

/* As core says it. */
static void operation_forbid(struct operation *operation)
{
    operation->result->outcome = OUTCOME_FORBIDDEN;
    operation->result->error = "the call is not this provider's";
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
    if (kind == 2) {
        result->allocate.refusal = refusal_read(operation, &answer, command->allocate.call_sid,
                                                &result->allocate.merchant_unreadable);
        answer_ended(&answer, answer_left(&answer) / 5, &operation->lost);
        return answer_end(operation, &answer);
    }
    if (kind == 3) {
        operation_forbid(operation);
        return answer_end(operation, &answer);
    }
    result->allocate.was_existing = kind == 1;
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
    answer_ended(&answer, answer_left(&answer) / 5, &operation->lost);
    return answer_end(operation, &answer);
}

/* MOVE_CALL */

static int move_encode(struct operation *operation, struct args *args)
{
    const struct redis_store *store = operation->store;
    uint64_t aside_ms = operation->command.move.aside_ms;

    args_begin(args, operation, operation->arena, 7 + store->tiers->chain_count);
    args_add_text(args, store->first_lease);
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

static int move_decode(struct operation *operation, const redisReply *reply)
{
    const char *call_sid = operation->command.move.call_sid;
    struct result *result = operation->result;
    struct call_info *call = &result->move.call;
    struct answer answer;
    uint64_t kind;

    answer_init(&answer, reply, operation->arena);
    kind = answer_u64(&answer);
    if (kind == 2) {
        result->move.refusal = refusal_read(operation, &answer, call_sid, &result->move.merchant_unreadable);
        return answer_end(operation, &answer);
    }
    if (kind == 3) {
        result->outcome = OUTCOME_NOT_FOUND;
        answer_ended(&answer, answer_left(&answer) / 5, &operation->lost);
        return answer_end(operation, &answer);
    }
    result->move.was_moved = kind == 0;
    call->call_sid = arena_strdup(operation->arena, call_sid);
    answer_call(&answer, call);
    result->move.merchant_unreadable = answer_u64(&answer) != 0;
    if (!call->call_sid)
        return -ENOMEM;
    return answer_end(operation, &answer);
}

/* RELEASE */

static int release_encode(struct operation *operation, struct args *args)
{
    const struct command *command = &operation->command;

    args_add_text(args, command->release.call_sid);
    if (operation->is_detailed) {
        args_add_text(args, command->release.pod ? command->release.pod : "");
        args_add_text(args, call_over_name(command->release.why));
        args_add_text(args, command->release.provider ? command->release.provider : "");
    }
    return 0;
}

/* What scripts/redis/release.lua says of a call that it has released, behind its first number. */
static int read_released(struct operation *operation, struct answer *answer, const char *call_sid)
{
    struct result *result = operation->result;
    struct call_info *call = &result->release.call;
    const char *tier;

    call->call_sid = arena_strdup(operation->arena, call_sid);
    answer_call_record(answer, call);
    call->address = answer_address(answer);
    tier = answer_text(answer);
    result->release.released_to = tier[0] ? pool_label(operation->arena, tier) : "";
    result->release.was_draining = answer_u64(answer) != 0;
    if (!call->call_sid || !result->release.released_to)
        return -ENOMEM;
    return answer_end(operation, answer);
}

static int release_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case 0:
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case 2:
        operation_forbid(operation);
        return answer_end(operation, &answer);
    default:
        return read_released(operation, &answer, operation->command.release.call_sid);
    }
}

/* UNDO: also by undo.c, for several at once */

static int undo_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 2);
    args_add_text(args, operation->command.undo.call_sid);
    args_add_u64(args, operation->command.undo.attempt);
    return 0;
}

static int undo_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1)
        return operation_unexpected(operation);
    if (reply->element[0]->type == REDIS_REPLY_ERROR)
        return redis_link_report(operation->store->link, reply->element[0]->str);
    answer_init(&answer, reply->element[0], operation->arena);
    switch (answer_u64(&answer)) {
    case 0:
        result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case 1:
        return read_released(operation, &answer, operation->command.undo.call_sid);
    default:
        result->outcome = OUTCOME_CONFLICT;
        result->error = "somebody else has the call";
        return answer_end(operation, &answer);
    }
}

/* HOLD */

static int hold_encode(struct operation *operation, struct args *args)
{
    const char *carrier = operation->command.hold.carrier;

    args_begin(args, operation, operation->arena, 4);
    args_add_u64(args, operation->store->core.lease_ttl_ms);
    args_add_u64(args, operation->store->call_info_ttl_ms);
    args_add_text(args, carrier ? carrier : "");
    args_add_text(args, operation->command.hold.call_sid);
    mail_expect(operation->store, carrier);
    return 0;
}

static int hold_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct call_info *call = &result->hold.call;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == 0) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->hold.has_ended = answer_u64(&answer) != 0;
        answer_ended(&answer, answer_left(&answer) / 5, &operation->lost);
        return answer_end(operation, &answer);
    }
    call->call_sid = arena_strdup(operation->arena, operation->command.hold.call_sid);
    answer_call(&answer, call);
    result->hold.was_connected = answer_u64(&answer) != 0;
    return call->call_sid ? answer_end(operation, &answer) : -ENOMEM;
}

/* LEAVE */

static int leave_encode(struct operation *operation, struct args *args)
{
    const char *carrier = operation->command.leave.carrier;

    args_begin(args, operation, operation->arena, 4);
    args_add_text(args, operation->command.leave.call_sid);
    args_add_text(args, carrier ? carrier : "");
    args_add_u64(args, operation->command.leave.expires_at_ms);
    args_add_text(args, redis_link_up_ms(operation->store->link) < CARRIER_TTL_MS ? "1" : "0");
    return 0;
}

static int leave_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case 0:
        result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case 1:
        return read_released(operation, &answer, operation->command.leave.call_sid);
    case 2:
        result->outcome = OUTCOME_CONFLICT;
        result->error = "somebody has renewed the call";
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

    switch (what.len == 1 ? what.data[0] : 0) {
    case 'r':
        return &result->renew.renewed;
    case 'a':
        return &result->renew.adopted;
    case 'u':
        return &result->renew.unknown;
    case 'o':
        return &result->renew.over;
    case 'c':
        return &result->renew.conflicts;
    default:
        return NULL;
    }
}

static void renew_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct result *result = operation->result;
    struct answer answer;
    size_t end;

    if (err) {
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
    answer_ended(&answer, answer_left(&answer) / 5, &operation->lost);
    if (err == 0)
        err = answer_end(operation, &answer);
    if (err || operation->at == operation->command.renew.count) {
        operation_finish(operation, err);
        return;
    }
    err = renew_next(operation);
    if (err)
        operation_finish(operation, err);
}

static int renew_next(struct operation *operation)
{
    size_t end = (size_t)min_u64(operation->command.renew.count, operation->at + (uint64_t)REDIS_RENEW_BATCH);
    const struct command *command = &operation->command;
    struct args args;

    args_begin(&args, operation, operation->arena, 3 + 3 * (end - operation->at));
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
    mail_expect(operation->store, command->renew.carrier);
    return args_call(&args, operation, "renew", renew_answered);
}

int operation_renew(struct operation *operation)
{
    struct result *result = operation->result;
    struct name_array *lists[] = {&result->renew.renewed, &result->renew.adopted, &result->renew.unknown,
                                  &result->renew.over, &result->renew.conflicts};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(lists); i++)
        rc = name_array_init(lists[i], operation->arena, operation->command.renew.count);
    return rc ? rc : renew_next(operation);
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
    int rc = 0;

    for (; rc == 0 && operation->at < end && answer->err == 0; operation->at++) {
        struct slice what = answer_slice(answer);
        struct name_array *array = slice_equals(what, "r")   ? &result->heartbeat.renewed
                                   : slice_equals(what, "a") ? &result->heartbeat.adopted
                                   : slice_equals(what, "c") ? &result->heartbeat.conflicts
                                   : slice_equals(what, "o") ? &result->heartbeat.over
                                                             : NULL;

        if (!array)
            return operation_unexpected(operation);
        rc = name_array_add(array, operation->arena, operation->command.heartbeat.call_sids[operation->at]);
    }
    return rc;
}

static int heartbeat_read_ended(struct operation *operation, struct answer *answer)
{
    int rc = 0;

    while (rc == 0 && answer_left(answer) >= 5) {
        struct ended_array one = {0};

        answer_ended(answer, 1, &one);
        if (one.count)
            rc = ended_add(one.calls[0].why == CALL_END_UNMENTIONED ? &operation->result->heartbeat.ended
                                                                    : &operation->lost,
                           operation->arena, &one.calls[0]);
    }
    return rc ? rc : answer_end(operation, answer);
}

static void heartbeat_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    if (err) {
        operation_finish(operation, err);
        return;
    }
    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == 0) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        operation_finish(operation, answer_end(operation, &answer));
        return;
    }
    err = heartbeat_read_calls(operation, &answer);
    if (err == 0)
        err = heartbeat_read_ended(operation, &answer);
    if (err || operation->at == operation->command.heartbeat.count) {
        operation_finish(operation, err);
        return;
    }
    err = heartbeat_next(operation);
    if (err)
        operation_finish(operation, err);
}

static int heartbeat_next(struct operation *operation)
{
    const struct command *command = &operation->command;
    size_t end = heartbeat_end(operation);
    bool is_last = end == command->heartbeat.count;
    size_t from = is_last ? 0 : operation->at;
    struct args args;

    args_begin(&args, operation, operation->arena, 6 + end - from);
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
    return args_call(&args, operation, "heartbeat", heartbeat_answered);
}

int operation_heartbeat(struct operation *operation)
{
    struct result *result = operation->result;
    size_t count = operation->command.heartbeat.count;
    int rc = name_array_init(&result->heartbeat.renewed, operation->arena, count);

    if (rc == 0)
        rc = name_array_init(&result->heartbeat.adopted, operation->arena, count);
    if (rc == 0)
        rc = name_array_init(&result->heartbeat.over, operation->arena, count);
    if (rc == 0)
        rc = name_array_init(&result->heartbeat.conflicts, operation->arena, count);
    return rc ? rc : heartbeat_next(operation);
}

/* PRESENT */

static int present_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 2);
    args_add_text(args, operation->command.present.carrier);
    args_add_text(args, operation->command.present.is_leaving ? "1" : "0");
    return 0;
}

static int present_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->present.others = answer_u64(&answer);
    return answer_end(operation, &answer);
}

/* DRAIN, UNDRAIN */

static int drain_encode(struct operation *operation, struct args *args)
{
    uint64_t ttl_ms = operation->command.drain.ttl_ms;

    args_begin(args, operation, operation->arena, 2);
    args_add_text(args, operation->command.drain.pod);
    args_add_u64(args, ttl_ms ? ttl_ms : operation->store->core.draining_ttl_ms);
    return 0;
}

static int drain_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    if (answer_u64(&answer) == 0) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    }
    operation->result->drain.has_active_call = answer_u64(&answer) > 0;
    operation->result->drain.until_ms = answer_u64(&answer);
    return answer_end(operation, &answer);
}

static int undrain_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 1);
    args_add_text(args, operation->command.undrain.pod);
    return 0;
}

static int undrain_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    operation->result->outcome = answer_u64(&answer) ? OUTCOME_OK : OUTCOME_NOT_FOUND;
    return answer_end(operation, &answer);
}

/* POD_SEEN, POD_GONE */

void args_add_seen(struct args *args, const struct pod_seen *seen)
{
    /* Every combination of the three flags is a text of its own, so that nothing has to be built. */
    static const char *const flags[] = {"", "r", "t", "rt", "h", "rh", "th", "rth"};
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

static int seen_encode(struct operation *operation, struct args *args)
{
    args_begin_fenced(args, operation, operation->arena, 2 + REDIS_SEEN_TEXTS);
    args_add_u64(args, operation->store->core.heartbeat_ttl_ms);
    args_add_text(args, operation->command.pod_seen.is_registration ? "1" : "0");
    args_add_seen(args, &operation->command.pod_seen.pod);
    return 0;
}

static int seen_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct answer answer;
    struct slice what;

    answer_init(&answer, reply, operation->arena);
    what = answer_slice(&answer);
    if (slice_equals(what, "x"))
        return operation_invalid(operation, OUTCOME_CONFLICT,
                                 "this pod is managed elsewhere and cannot be registered");
    if (slice_equals(what, "f"))
        return operation_invalid(operation, OUTCOME_CONFLICT, "there are too many pods");
    result->pod_seen.is_new = slice_equals(what, "n");
    result->pod_seen.tier = answer_text(&answer);
    answer_ended(&answer, answer_u64(&answer), &result->pod_seen.ended);
    return answer_end(operation, &answer);
}

static int gone_encode(struct operation *operation, struct args *args)
{
    args_begin_fenced(args, operation, operation->arena, 3);
    args_add_text(args, pod_source_name(operation->command.pod_gone.source));
    args_add_text(args, operation->command.pod_gone.is_absent ? "absent" : "gone");
    args_add_text(args, operation->command.pod_gone.pod);
    return 0;
}

static int gone_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    uint64_t what;

    answer_init(&answer, reply, operation->arena);
    what = answer_u64(&answer);
    answer_ended(&answer, answer_u64(&answer), &operation->result->pod_gone.ended);
    operation->result->pod_gone.has_stayed = what == REDIS_GONE_STAYS;
    if (what == 0)
        operation->result->outcome = OUTCOME_NOT_FOUND;
    if (what == 2)
        return operation_invalid(operation, OUTCOME_CONFLICT,
                                 "this pod is managed elsewhere and cannot be removed");
    return answer_end(operation, &answer);
}

const struct command_spec *command_spec(enum command_type type)
{
    static const struct command_spec specs[COMMAND_TYPES] = {
        [COMMAND_ALLOCATE] = {"allocate", allocate_encode, allocate_decode, true},
        [COMMAND_UNDO] = {"undo", undo_encode, undo_decode, false},
        [COMMAND_RELEASE] = {"release", release_encode, release_decode, true},
        [COMMAND_HOLD] = {"hold", hold_encode, hold_decode, false},
        [COMMAND_LEAVE] = {"leave", leave_encode, leave_decode, false},
        [COMMAND_PRESENT] = {"present", present_encode, present_decode, false},
        [COMMAND_MOVE_CALL] = {"move_call", move_encode, move_decode, true},
        [COMMAND_DRAIN] = {"drain", drain_encode, drain_decode, false},
        [COMMAND_UNDRAIN] = {"undrain", undrain_encode, undrain_decode, false},
        [COMMAND_POD_SEEN] = {"seen", seen_encode, seen_decode, false},
        [COMMAND_POD_GONE] = {"gone", gone_encode, gone_decode, false},
        [COMMAND_STATUS] = {"status", status_encode, status_decode, false},
        [COMMAND_POD] = {"pods", pod_encode, pod_decode, false},
        [COMMAND_CALL] = {"calls", call_encode, call_decode, false},
    };

    assert(specs[type].script);
    return &specs[type];
}
