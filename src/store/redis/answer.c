/*
 * answer.c - reads values and calls from a script's answer.
 */
#include "store/redis/answer.h"

#include <stdio.h>

#include "store/redis/script_interface.h"

void answer_init(struct answer *answer, const redisReply *reply, struct arena *arena)
{
    *answer = (struct answer){.reply = reply, .arena = arena};
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        answer->err = -EIO;
}

static const redisReply *answer_next(struct answer *answer)
{
    if (answer->err)
        return NULL;
    if (answer->at >= answer->reply->elements) {
        answer->err = -EIO;
        return NULL;
    }
    return answer->reply->element[answer->at++];
}

struct slice answer_slice(struct answer *answer)
{
    const redisReply *element = answer_next(answer);

    if (element && (element->type == REDIS_REPLY_STRING || element->type == REDIS_REPLY_STATUS))
        return (struct slice){element->str, element->len};
    if (!answer->err)
        answer->err = -EIO;
    return SLICE("");
}

const char *answer_text(struct answer *answer)
{
    struct slice text = answer_slice(answer);
    const char *copy;

    if (text.len == 0)
        return "";
    copy = arena_copy(answer->arena, text.data, text.len);
    if (copy)
        return copy;
    answer->err = -ENOMEM;
    return "";
}

uint64_t answer_u64(struct answer *answer)
{
    const redisReply *element = answer_next(answer);
    uint64_t number = 0;

    if (!element)
        return 0;
    if (element->type == REDIS_REPLY_INTEGER && element->integer >= 0)
        return (uint64_t)element->integer;
    if (element->type != REDIS_REPLY_STRING ||
        record_digits((struct slice){element->str, element->len}, &number))
        answer->err = -EIO;
    return number;
}

uint64_t answer_seconds(struct answer *answer)
{
    uint64_t seconds;

    return record_digits(answer_slice(answer), &seconds) || seconds > UINT64_MAX / 1000 ? 0 : seconds * 1000;
}

uint64_t answer_time(struct answer *answer)
{
    uint64_t time_ms;

    return record_digits(answer_slice(answer), &time_ms) ? 0 : time_ms;
}

uint64_t answer_drain_end(struct answer *answer, bool *ret_is_surplus)
{
    size_t at = answer->at;
    struct slice text = answer_slice(answer);

    *ret_is_surplus = slice_equals(text, SCRIPT_DRAIN_IS_SURPLUS);
    if (*ret_is_surplus || slice_equals(text, SCRIPT_DRAIN_HAS_NO_END))
        return DRAIN_WITHOUT_END;
    if (!answer->err)
        answer->at = at;
    return answer_time(answer);
}

bool answer_cursor(struct answer *answer, char cursor[REDIS_CURSOR_MAX])
{
    struct slice text = answer_slice(answer);

    if (!answer->err && (text.len < 1 || text.len >= REDIS_CURSOR_MAX))
        answer->err = -EIO;
    if (answer->err)
        return true;
    snprintf(cursor, REDIS_CURSOR_MAX, "%.*s", (int)text.len, text.data);
    return strcmp(cursor, "0") == 0;
}

static enum call_end answer_why(struct answer *answer)
{
    struct slice why = answer_slice(answer);

    if (slice_equals(why, SCRIPT_END_EXPIRED))
        return CALL_END_EXPIRED;
    if (slice_equals(why, SCRIPT_END_POD_GONE))
        return CALL_END_POD_GONE;
    if (slice_equals(why, SCRIPT_END_RESTARTED))
        return CALL_END_RESTARTED;
    if (!slice_equals(why, SCRIPT_END_UNMENTIONED) && !answer->err)
        answer->err = -EIO;
    return CALL_END_UNMENTIONED;
}

void answer_ended(struct answer *answer, size_t count, struct ended_array *ended)
{
    for (size_t i = 0; i < count && !answer->err; i++) {
        struct ended_call call;

        call.call_sid = answer_text(answer);
        call.pod = answer_text(answer);
        call.pool = answer_text(answer);
        call.merchant_id = answer_text(answer);
        call.why = answer_why(answer);
        if (!answer->err)
            answer->err = ended_array_add(ended, answer->arena, &call);
    }
}

/* The address of a pod, and the source that named it. */
static const char *answer_place(struct answer *answer, enum pod_source *ret_source)
{
    struct slice text = answer_slice(answer);
    struct pod_record record;
    struct slice address;
    const char *copy;

    *ret_source = POD_SOURCE_API;
    if (answer->err || text.len == 0)
        return "";
    /* A record that was spoiled by hand: the call has its pod all the same. */
    if (record_string(text, SCRIPT_POD_ADDRESS, &address) || !name_is_address(address.data, address.len))
        return "";
    if (record_string(text, SCRIPT_POD_SOURCE, &record.source) || pod_record_source(&record, ret_source))
        *ret_source = POD_SOURCE_API;
    copy = arena_copy(answer->arena, address.data, address.len);
    if (!copy)
        answer->err = -ENOMEM;
    return copy ? copy : "";
}

const char *answer_address(struct answer *answer)
{
    enum pod_source source;

    return answer_place(answer, &source);
}

void answer_call_record(struct answer *answer, struct call_info *call)
{
    call->pod = answer_text(answer);
    call->pool = answer_text(answer);
    call->merchant_id = answer_text(answer);
    call->provider = answer_text(answer);
    call->allocated_at_ms = answer_seconds(answer);
}

void answer_call(struct answer *answer, struct call_info *call)
{
    answer_call_record(answer, call);
    call->expires_at_ms = answer_u64(answer);
    call->address = answer_place(answer, &call->pod_source);
}

static void answer_refusal_step(struct answer *answer, struct refusal_step *step)
{
    struct slice tier = answer_slice(answer);
    uint32_t out;

    *step = (struct refusal_step){.is_configured = true};
    pool_label(tier, step->pool);
    step->pods = (uint32_t)answer_u64(answer);
    step->by_state[POD_DRAINING] = (uint32_t)answer_u64(answer);
    step->by_state[POD_SUSPENDED] = (uint32_t)answer_u64(answer);
    out = step->by_state[POD_DRAINING] + step->by_state[POD_SUSPENDED];
    step->by_state[POD_BUSY] = step->pods > out ? step->pods - out : 0;
}

/* Room for `count` steps, and one more for a missing pool. NULL: the answer has failed. */
static struct refusal *answer_refusal_new(struct answer *answer, size_t count)
{
    struct refusal *refusal = arena_alloc(answer->arena, sizeof(*refusal));

    if (!answer->err && count > answer_left(answer))
        answer->err = -EIO;
    if (answer->err)
        return NULL;
    if (refusal) {
        *refusal = (struct refusal){0};
        refusal->steps = arena_alloc(answer->arena, (count + 1) * sizeof(*refusal->steps));
    }
    if (refusal && refusal->steps)
        return refusal;
    answer->err = -ENOMEM;
    return NULL;
}

const struct refusal *answer_refusal(struct answer *answer, bool *ret_unreadable)
{
    struct refusal *refusal;
    struct slice missing;
    uint64_t at_ms;
    size_t count;

    *ret_unreadable = answer_u64(answer) != 0;
    missing = answer_slice(answer);
    at_ms = answer_u64(answer);
    count = answer_u64(answer);
    refusal = answer_refusal_new(answer, count);
    if (!refusal)
        return NULL;
    refusal->at_ms = at_ms;
    if (missing.len) {
        struct refusal_step *step = &refusal->steps[refusal->count++];

        *step = (struct refusal_step){0};
        merchant_pool_name(missing, step->pool);
    }
    for (size_t i = 0; i < count; i++)
        answer_refusal_step(answer, &refusal->steps[refusal->count++]);
    return answer->err ? NULL : refusal;
}

int answer_end(const struct operation *operation, const struct answer *answer)
{
    if (answer->err == -EIO || (answer->err == 0 && answer_left(answer) > 0))
        return operation_unexpected(operation);
    return answer->err;
}

/* Tiers with spaces between them, as the labels of their pools. */
static void answer_pools(struct answer *answer, struct waiting_call *call)
{
    struct slice text = answer_slice(answer);
    size_t room = 1;
    const char **pools;

    for (size_t i = 0; i < text.len; i++)
        room += text.data[i] == ' ';
    pools = arena_alloc(answer->arena, room * sizeof(*pools));
    if (!pools) {
        answer->err = -ENOMEM;
        return;
    }
    call->pools = pools;
    while (text.len > 0 && !answer->err) {
        const char *space = memchr(text.data, ' ', text.len);
        struct slice tier = {text.data, space ? (size_t)(space - text.data) : text.len};
        char label[POOL_LABEL_MAX + 1];

        pool_label(tier, label);
        pools[call->pool_count] = arena_strdup(answer->arena, label);
        if (!pools[call->pool_count++])
            answer->err = -ENOMEM;
        text = (struct slice){tier.data + tier.len + (space != NULL), text.len - tier.len - (space != NULL)};
    }
}

void answer_waiting(struct answer *answer, struct waiting_call *call)
{
    call->merchant_id = answer_text(answer);
    call->provider = answer_text(answer);
    call->since_ms = answer_u64(answer);
    call->until_ms = answer_u64(answer);
    call->holder = answer_text(answer);
    call->priority = (uint32_t)answer_u64(answer);
    call->position = answer_u64(answer);
    call->estimate_ms = answer_u64(answer);
    call->heard_at_ms = answer_u64(answer);
    call->is_rescued = answer_u64(answer) != 0;
    call->claim = answer_u64(answer);
    answer_pools(answer, call);
}

void answer_free_pods(struct answer *answer, const struct refusal *refusal)
{
    for (size_t i = 0; refusal && i < refusal->count && !answer->err; i++) {
        struct refusal_step *step = &refusal->steps[i];
        uint32_t free;

        if (!step->is_configured)
            continue; /* a missing pool is no step of the script */
        free = (uint32_t)min_u64(answer_u64(answer), step->by_state[POD_BUSY]);
        step->by_state[POD_AVAILABLE] = free;
        step->by_state[POD_BUSY] -= free;
    }
}
