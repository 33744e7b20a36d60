/*
 * answer.c - reads values, calls and pod records from a script's answer.
 */
#include "store/redis/answer.h"

#include <stdio.h>

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

static int parse_digits(struct slice text, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (text.len < 1 || text.len > 19)
        return -EIO;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EIO;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret_number = number;
    return 0;
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
        parse_digits((struct slice){element->str, element->len}, &number))
        answer->err = -EIO;
    return number;
}

uint64_t answer_seconds(struct answer *answer)
{
    uint64_t seconds;

    return parse_digits(answer_slice(answer), &seconds) || seconds > UINT64_MAX / 1000 ? 0 : seconds * 1000;
}

bool answer_cursor(struct answer *answer, char cursor[24])
{
    struct slice text = answer_slice(answer);

    if (!answer->err && (text.len < 1 || text.len >= 24))
        answer->err = -EIO;
    if (answer->err)
        return true;
    snprintf(cursor, 24, "%.*s", (int)text.len, text.data);
    return strcmp(cursor, "0") == 0;
}

static enum call_end answer_why(struct answer *answer)
{
    struct slice why = answer_slice(answer);

    if (slice_equals(why, "expired"))
        return CALL_END_EXPIRED;
    if (slice_equals(why, "gone"))
        return CALL_END_POD_GONE;
    if (slice_equals(why, "restarted"))
        return CALL_END_RESTARTED;
    if (!slice_equals(why, "unmentioned") && !answer->err)
        answer->err = -EIO;
    return CALL_END_UNMENTIONED;
}

int ended_add(struct ended_array *ended, struct arena *arena, const struct ended_call *call)
{
    /* Grows when the count reaches a power of two, as in core. */
    if ((ended->count & (ended->count - 1)) == 0) {
        size_t room = ended->count ? ended->count * 2 : 1;
        struct ended_call *calls = arena_alloc(arena, room * sizeof(*calls));

        if (!calls)
            return -ENOMEM;
        if (ended->count)
            memcpy(calls, ended->calls, ended->count * sizeof(*calls));
        ended->calls = calls;
    }
    ended->calls[ended->count++] = *call;
    return 0;
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
            answer->err = ended_add(ended, answer->arena, &call);
    }
}

/* What stands behind "key": in the record. */
static int record_value(struct slice text, const char *key, struct slice *ret_value)
{
    char pattern[32];
    const char *at;
    const char *end = text.data + text.len;
    int len = snprintf(pattern, sizeof(pattern), "\"%s\":", key);

    at = memmem(text.data, text.len, pattern, (size_t)len);
    if (!at)
        return -EIO;
    at += len;
    *ret_value = (struct slice){at, (size_t)(end - at)};
    return 0;
}

static int record_bool(struct slice text, const char *key, bool *ret_value)
{
    struct slice value;

    if (record_value(text, key, &value))
        return -EIO;
    *ret_value = value.len >= 4 && memcmp(value.data, "true", 4) == 0;
    return *ret_value || (value.len >= 5 && memcmp(value.data, "false", 5) == 0) ? 0 : -EIO;
}

/* No name in a record has anything that JSON would escape. */
static int record_string(struct slice text, const char *key, struct slice *ret_value)
{
    struct slice value;
    const char *end;

    if (record_value(text, key, &value) || value.len < 2 || value.data[0] != '"')
        return -EIO;
    end = memchr(value.data + 1, '"', value.len - 1);
    if (!end)
        return -EIO;
    *ret_value = (struct slice){value.data + 1, (size_t)(end - value.data - 1)};
    return 0;
}

static int record_number(struct slice text, const char *key, uint64_t *ret_value)
{
    struct slice value;
    size_t digits = 0;

    if (record_value(text, key, &value))
        return -EIO;
    while (digits < value.len && value.data[digits] >= '0' && value.data[digits] <= '9')
        digits++;
    return parse_digits((struct slice){value.data, digits}, ret_value);
}

int pod_record_read(struct slice text, struct pod_record *ret_record)
{
    struct pod_record record;

    if (record_bool(text, "ready", &record.is_ready) ||
        record_bool(text, "terminating", &record.is_terminating) ||
        record_bool(text, "pinned", &record.is_pinned) ||
        record_number(text, "held_until", &record.held_until_ms) ||
        record_string(text, "tier", &record.tier) || record_string(text, "source", &record.source) ||
        record_string(text, "incarnation", &record.incarnation) ||
        record_string(text, "address", &record.address))
        return -EIO;
    *ret_record = record;
    return 0;
}

int pod_record_source(const struct pod_record *record, enum pod_source *ret_source)
{
    for (int source = POD_SOURCE_API; source <= POD_SOURCE_KUBERNETES; source++) {
        if (slice_equals(record->source, pod_source_name((enum pod_source)source))) {
            *ret_source = (enum pod_source)source;
            return 0;
        }
    }
    return -EIO;
}

/* The address, and who named it. */
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
    if (record_string(text, "address", &address) || !name_is_address(address.data, address.len))
        return "";
    if (record_string(text, "source", &record.source) || pod_record_source(&record, ret_source))
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
