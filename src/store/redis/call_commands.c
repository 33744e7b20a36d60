/*
 * call_commands.c - the arguments and the answer of each command that changes one call: allocate, move,
 * release, undo, hold.
 */
#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* ALLOCATE */

/* What it asks for beside a pod: see scripts/redis/lib/options.lua. Nearly always there is nothing to say. */
static void add_options(struct args *args, const struct redis_store *store, const struct command *command)
{
    const char *webhook = command->allocate.is_webhook ? SCRIPT_YES : "";
    struct strbuf text;

    if (!command->allocate.waits && !command->allocate.is_resume) {
        args_add_text(args, webhook);
        return;
    }
    strbuf_init(&text, args->arena, 512 + CARRIER_MAX + POD_NAME_MAX);
    strbuf_printf(&text, "%s%s%s%s%s\n", command->allocate.is_webhook ? SCRIPT_YES : "0",
                  command->allocate.waits ? SCRIPT_ASK_WAITS : "",
                  command->allocate.awaits_stream ? SCRIPT_ASK_AWAITS_STREAM : "",
                  command->allocate.is_resume ? SCRIPT_ASK_RESUMES : "",
                  store->core.rescues ? SCRIPT_ASK_UNSETTLES : "");
    strbuf_printf(&text, "%s\n%s\n%s\n%s\n%s", command->allocate.holder ? command->allocate.holder : "",
                  command->allocate.resume_pod ? command->allocate.resume_pod : "", store->hold.max_wait,
                  store->hold.max_calls, store->hold.ageing);
    if (strbuf_failed(&text))
        args->failed = true;
    else
        args_add(args, strbuf_slice(&text));
}

int allocate_encode(struct operation *operation, struct args *args)
{
    const struct command *command = &operation->command;

    args_add_text(args, command->allocate.call_sid);
    args_add_text(args, command->allocate.merchant_id);
    args_add_text(args, command->allocate.provider);
    args_add_u64(args, command->allocate.attempt);
    add_options(args, operation->store, command);
    operation->store->line.is_used |= command->allocate.waits;
    if (command->allocate.waits)
        mailbox_expect(operation->store, command->allocate.holder, true);
    return 0;
}

/* Behind the first number: why it got no pod. */
static int read_refused(struct operation *operation, struct answer *answer, uint64_t kind)
{
    struct result *result = operation->result;

    result->outcome = OUTCOME_NO_PODS;
    result->allocate.is_full = kind == SCRIPT_CALL_FULL;
    result->allocate.refusal = answer_refusal(answer, &result->allocate.merchant_unreadable);
    if (kind == SCRIPT_CALL_NOT_NOW || kind == SCRIPT_CALL_TIMED_OUT)
        answer_free_pods(answer, result->allocate.refusal);
    if (kind == SCRIPT_CALL_TIMED_OUT) {
        result->allocate.has_ended = true;
        result->allocate.why = FINISH_TIMED_OUT;
        result->allocate.waited_ms = answer_u64(answer);
    }
    answer_ended(answer, answer_left(answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    return answer_end(operation, answer);
}

static int read_waiting(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct waiting_call *waiting = &result->allocate.waiting;

    result->outcome = OUTCOME_WAITING;
    result->allocate.has_joined = answer_u64(answer) != 0;
    result->allocate.merchant_unreadable = answer_u64(answer) != 0;
    waiting->call_sid = arena_strdup(operation->arena, operation->command.allocate.call_sid);
    answer_waiting(answer, waiting);
    answer_ended(answer, answer_left(answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    return waiting->call_sid ? answer_end(operation, answer) : -ENOMEM;
}

/* Its end is recorded. */
static int read_ended(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct slice why = answer_slice(answer);

    result->outcome = OUTCOME_NOT_FOUND;
    result->allocate.has_ended = true;
    for (int reason = 0; reason < FINISH_REASONS; reason++) {
        /* One that was written by hand counts as the first: somebody wanted the call to end. */
        if (slice_equals(why, finish_reason_name((enum finish_reason)reason)))
            result->allocate.why = (enum finish_reason)reason;
    }
    answer_ended(answer, answer_left(answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    return answer_end(operation, answer);
}

/* The call has a pod: `kind` is SCRIPT_CALL_PLACED, SCRIPT_CALL_EXISTING or SCRIPT_CALL_TAKEN. */
static int read_allocated(struct operation *operation, struct answer *answer, uint64_t kind)
{
    const struct command *command = &operation->command;
    struct result *result = operation->result;
    struct call_info *call = &result->allocate.call;

    result->allocate.was_existing = kind == SCRIPT_CALL_EXISTING;
    result->allocate.was_taken = kind == SCRIPT_CALL_TAKEN;
    call->call_sid = arena_strdup(operation->arena, command->allocate.call_sid);
    call->pod = answer_text(answer);
    call->pool = answer_text(answer);
    if (kind != SCRIPT_CALL_PLACED) {
        call->merchant_id = answer_text(answer);
        call->provider = answer_text(answer);
    } else {
        call->merchant_id = arena_strdup(operation->arena, command->allocate.merchant_id);
        call->provider = arena_strdup(operation->arena, command->allocate.provider);
    }
    if (!call->call_sid || !call->merchant_id || !call->provider)
        return -ENOMEM;
    call->allocated_at_ms = answer_seconds(answer);
    call->expires_at_ms = answer_u64(answer);
    call->address = answer_address(answer);
    result->allocate.merchant_unreadable = answer_u64(answer) != 0;
    if (result->allocate.was_taken)
        result->allocate.waited_ms = answer_u64(answer);
    answer_ended(answer, answer_left(answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
    return answer_end(operation, answer);
}

int allocate_decode(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    uint64_t kind;

    answer_init(&answer, reply, operation->arena);
    operation->result->allocate.attempt = operation->command.allocate.attempt;
    kind = answer_u64(&answer);
    switch (kind) {
    case SCRIPT_CALL_NO_POD:
    case SCRIPT_CALL_FULL:
    case SCRIPT_CALL_NOT_NOW:
    case SCRIPT_CALL_TIMED_OUT:
        return read_refused(operation, &answer, kind);
    case SCRIPT_CALL_WAITING:
        return read_waiting(operation, &answer);
    case SCRIPT_CALL_HAS_ENDED:
        return read_ended(operation, &answer);
    case SCRIPT_CALL_FORBIDDEN:
        result_forbid(operation->result);
        return answer_end(operation, &answer);
    case SCRIPT_CALL_RESUMED_TOO_OFTEN:
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_RESUME);
    default:
        return read_allocated(operation, &answer, kind);
    }
}

/* MOVE_CALL */

int move_call_encode(struct operation *operation, struct args *args)
{
    const struct redis_store *store = operation->store;
    const struct command *command = &operation->command;
    uint64_t aside_ms = command->move.aside_ms;

    args_begin(args, operation, operation->arena,
               SCRIPT_MOVE_CALL_ARGS + args_chain_room(store) + SCRIPT_MOVE_CALL_EACH);
    args_add_text(args, store->first.lease);
    args_add_u64(args, store->call_info_ttl_ms);
    if (command->move.spares_pod)
        args_add_text(args, "");
    else
        args_add_u64(args, aside_ms ? aside_ms : store->core.draining_ttl_ms);
    args_add_text(args, command->move.carrier ? command->move.carrier : store->mailbox.carrier);
    args_add_text(args, command->move.carrier ? command->move.carrier : "");
    args_add_text(args, store->core.rescues ? SCRIPT_YES : "");
    args_add_text(args, store->hold.max_wait);
    args_add_text(args, store->hold.ageing);
    args_add_chain(args, store);
    args_add_text(args, command->move.call_sid);
    args_add_text(args, command->move.from_pod);
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
    if (kind == SCRIPT_CALL_NOT_NOW) {
        result->outcome = OUTCOME_NO_PODS;
        result->move.refusal = answer_refusal(&answer, &result->move.merchant_unreadable);
        answer_free_pods(&answer, result->move.refusal);
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_MOVE_NOT_FOUND) {
        result->outcome = OUTCOME_NOT_FOUND;
        answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_CALL_WAITING) {
        result->outcome = OUTCOME_WAITING;
        result->move.was_moved = answer_u64(&answer) != 0;
        result->move.merchant_unreadable = answer_u64(&answer) != 0;
        result->move.waiting.call_sid = arena_strdup(operation->arena, call_sid);
        answer_waiting(&answer, &result->move.waiting);
        return result->move.waiting.call_sid ? answer_end(operation, &answer) : -ENOMEM;
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

int released_read(struct operation *operation, struct answer *answer, const char *call_sid, enum past_end how)
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
    result->release.was_granted = answer_left(answer) > 0;
    if (result->release.was_granted)
        result->release.waited_ms = answer_u64(answer);
    if (!call->call_sid || !result->release.released_to)
        return -ENOMEM;
    if (!answer->err && how != PAST_UNDONE)
        past_note(operation->store, call, (enum finish_reason)how, &note);
    return answer_end(operation, answer);
}

/* It had no pod: it has left the line. */
static int read_waited(struct operation *operation, struct answer *answer, const char *call_sid)
{
    struct result *result = operation->result;
    struct call_info *call = &result->release.call;

    *call = (struct call_info){.call_sid = arena_strdup(operation->arena, call_sid),
                               .pod = "",
                               .address = "",
                               .pool = "",
                               .merchant_id = answer_text(answer),
                               .provider = answer_text(answer)};
    result->release.released_to = "";
    result->release.was_waiting = true;
    result->release.waited_ms = answer_u64(answer);
    return call->call_sid ? answer_end(operation, answer) : -ENOMEM;
}

/* It goes on. */
static int read_kept(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct call_info *call = &result->release.call;

    call->call_sid = arena_strdup(operation->arena, operation->command.release.call_sid);
    answer_call(answer, call);
    result->release.released_to = "";
    result->release.is_kept = true;
    return call->call_sid ? answer_end(operation, answer) : -ENOMEM;
}

int release_decode(struct operation *operation, const redisReply *reply)
{
    const char *call_sid = operation->command.release.call_sid;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    switch (answer_u64(&answer)) {
    case SCRIPT_RELEASE_NOT_FOUND:
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_FORBIDDEN:
        result_forbid(operation->result);
        return answer_end(operation, &answer);
    case SCRIPT_RELEASE_WAITED:
        return read_waited(operation, &answer, call_sid);
    case SCRIPT_RELEASE_KEPT:
        return read_kept(operation, &answer);
    default:
        return released_read(operation, &answer, call_sid, (enum past_end)operation->command.release.why);
    }
}

/* UNDO: also by undo.c, for several at once */

int undo_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_UNDO_ARGS + SCRIPT_UNDO_EACH);
    args_add_text(args, operation->command.undo.spares_place ? SCRIPT_YES : "");
    args_add_text(args, operation->command.undo.call_sid);
    args_add_u64(args, operation->command.undo.attempt);
    return 0;
}

int undo_decode(struct operation *operation, const redisReply *reply)
{
    const char *call_sid = operation->command.undo.call_sid;
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
        return released_read(operation, &answer, call_sid, PAST_UNDONE);
    case SCRIPT_RELEASE_WAITED:
        return read_waited(operation, &answer, call_sid);
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
    if (operation->command.hold.is_held)
        args_add_u64(args, operation->command.hold.claim);
    else
        args_add_text(args, operation->command.hold.is_new ? SCRIPT_HOLD_IS_NEW : "");
    mailbox_expect(operation->store, carrier, operation->store->core.rescues);
    return 0;
}

/* The ms that it has waited, if this took it; else ''. */
static void read_taken(struct answer *answer, struct result *result)
{
    struct slice waited = answer_slice(answer);

    result->hold.was_taken = waited.len > 0;
    if (waited.len > 0 && record_digits(waited, &result->hold.waited_ms) < 0)
        answer->err = -EIO;
}

int hold_decode(struct operation *operation, const redisReply *reply)
{
    const char *call_sid = operation->command.hold.call_sid;
    struct result *result = operation->result;
    struct call_info *call = &result->hold.call;
    struct answer answer;
    uint64_t kind;

    answer_init(&answer, reply, operation->arena);
    kind = answer_u64(&answer);
    if (kind == SCRIPT_HOLD_NOT_FOUND) {
        result->outcome = OUTCOME_NOT_FOUND;
        result->hold.has_ended = answer_u64(&answer) != 0;
        answer_ended(&answer, answer_left(&answer) / SCRIPT_ENDED_TEXTS, &operation->lost);
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_HOLD_ELSEWHERE) {
        result->outcome = OUTCOME_CONFLICT;
        result->error = REFUSED_HOLD;
        return answer_end(operation, &answer);
    }
    if (kind == SCRIPT_HOLD_WAITING) {
        result->outcome = OUTCOME_WAITING;
        result->hold.waiting.call_sid = arena_strdup(operation->arena, call_sid);
        answer_waiting(&answer, &result->hold.waiting);
        return result->hold.waiting.call_sid ? answer_end(operation, &answer) : -ENOMEM;
    }
    call->call_sid = arena_strdup(operation->arena, call_sid);
    answer_call(&answer, call);
    result->hold.was_connected = answer_u64(&answer) != 0;
    read_taken(&answer, result);
    return call->call_sid ? answer_end(operation, &answer) : -ENOMEM;
}
