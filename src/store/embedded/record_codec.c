/*
 * record_codec.c - encodes and decodes records by a description of each type's members.
 */
#include "store/embedded/record_codec.h"

enum {
    VARINT_MAX = 10,
    TEXTS_MAX = 5, /* of one record */
    NUMBERS_MAX = 5,
    POD_READY = 1,
    POD_TERMINATING = 2,
    POD_PINNED = 4,
    POD_SURPLUS = 8,
    POD_FLAGS = POD_READY | POD_TERMINATING | POD_PINNED | POD_SURPLUS,
};

/* The members of a record by kind, so that there is one place that says what stands where. */
struct members {
    const char **texts[TEXTS_MAX];
    size_t text_count;
    uint64_t *numbers[NUMBERS_MAX];
    size_t number_count;
    bool has_pod_bytes; /* source and flags */
};

static int record_members(struct record *record, struct members *ret)
{
    *ret = (struct members){0};
    switch (record->type) {
    case RECORD_TIERS:
        ret->texts[ret->text_count++] = &record->tiers.text;
        return 0;
    case RECORD_MERCHANT:
        ret->texts[ret->text_count++] = &record->merchant.id;
        ret->texts[ret->text_count++] = &record->merchant.text;
        return 0;
    case RECORD_MERCHANT_GONE:
        ret->texts[ret->text_count++] = &record->merchant.id;
        return 0;
    case RECORD_POD:
        ret->texts[ret->text_count++] = &record->pod.name;
        ret->texts[ret->text_count++] = &record->pod.address;
        ret->texts[ret->text_count++] = &record->pod.incarnation;
        ret->texts[ret->text_count++] = &record->pod.tier;
        ret->numbers[ret->number_count++] = &record->pod.draining_until_ms;
        ret->numbers[ret->number_count++] = &record->pod.held_until_ms;
        ret->has_pod_bytes = true;
        return 0;
    case RECORD_POD_GONE:
        ret->texts[ret->text_count++] = &record->pod.name;
        return 0;
    case RECORD_CALL:
        ret->texts[ret->text_count++] = &record->call.call_sid;
        ret->texts[ret->text_count++] = &record->call.pod;
        ret->texts[ret->text_count++] = &record->call.pool;
        ret->texts[ret->text_count++] = &record->call.merchant_id;
        ret->texts[ret->text_count++] = &record->call.provider;
        ret->numbers[ret->number_count++] = &record->call.allocated_at_ms;
        ret->numbers[ret->number_count++] = &record->call.expires_at_ms;
        return 0;
    case RECORD_CALL_GONE:
        ret->texts[ret->text_count++] = &record->call.call_sid;
        return 0;
    case RECORD_RENEWED:
        ret->texts[ret->text_count++] = &record->renewed.call_sid;
        ret->numbers[ret->number_count++] = &record->renewed.expires_at_ms;
        return 0;
    case RECORD_RENEWED_BY:
        ret->texts[ret->text_count++] = &record->renewed.call_sid;
        ret->numbers[ret->number_count++] = &record->renewed.expires_at_ms;
        ret->numbers[ret->number_count++] = &record->renewed.at_ms;
        ret->numbers[ret->number_count++] = &record->renewed.by;
        return 0;
    case RECORD_TOMBSTONE:
        ret->texts[ret->text_count++] = &record->tombstone.call_sid;
        ret->numbers[ret->number_count++] = &record->tombstone.why;
        ret->numbers[ret->number_count++] = &record->tombstone.at_ms;
        return 0;
    case RECORD_PLACED:
        ret->texts[ret->text_count++] = &record->placed.call_sid;
        ret->numbers[ret->number_count++] = &record->placed.at_ms;
        return 0;
    case RECORD_VERSION:
        ret->texts[ret->text_count++] = &record->version.merchant_id;
        ret->texts[ret->text_count++] = &record->version.by;
        ret->texts[ret->text_count++] = &record->version.text;
        ret->numbers[ret->number_count++] = &record->version.number;
        ret->numbers[ret->number_count++] = &record->version.at_ms;
        return 0;
    case RECORD_WAITING:
        ret->texts[ret->text_count++] = &record->waiting.call_sid;
        ret->texts[ret->text_count++] = &record->waiting.merchant_id;
        ret->texts[ret->text_count++] = &record->waiting.provider;
        ret->texts[ret->text_count++] = &record->waiting.pools;
        ret->numbers[ret->number_count++] = &record->waiting.since_ms;
        ret->numbers[ret->number_count++] = &record->waiting.until_ms;
        ret->numbers[ret->number_count++] = &record->waiting.priority;
        ret->numbers[ret->number_count++] = &record->waiting.ahead_ms;
        ret->numbers[ret->number_count++] = &record->waiting.flags;
        return 0;
    case RECORD_WAITING_GONE:
        ret->texts[ret->text_count++] = &record->waiting.call_sid;
        return 0;
    case RECORD_GRANTED:
        ret->texts[ret->text_count++] = &record->granted.call_sid;
        ret->numbers[ret->number_count++] = &record->granted.since_ms;
        return 0;
    case RECORD_CONNECTED:
        ret->texts[ret->text_count++] = &record->connected.call_sid;
        return 0;
    }
    return -EOPNOTSUPP;
}

static char *put_varint(char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (char)(unsigned char)(value | 0x80);
    *at++ = (char)value;
    return at;
}

void record_encode(struct strbuf *buf, const struct record *record)
{
    struct record copy = *record;
    struct members members;
    size_t lens[TEXTS_MAX];
    size_t bound = 3 + NUMBERS_MAX * VARINT_MAX;
    char *start;
    char *at;
    int err;

    err = record_members(&copy, &members);
    assert(err == 0);
    for (size_t i = 0; i < members.text_count; i++) {
        lens[i] = *members.texts[i] ? strlen(*members.texts[i]) : 0;
        bound += lens[i] + 1;
    }
    start = at = strbuf_grow(buf, bound);
    if (!at)
        return;
    *at++ = (char)record->type;
    if (members.has_pod_bytes) {
        *at++ = (char)record->pod.source;
        *at++ = (char)((record->pod.is_ready ? POD_READY : 0) |
                       (record->pod.is_terminating ? POD_TERMINATING : 0) |
                       (record->pod.is_pinned ? POD_PINNED : 0) | (record->pod.is_surplus ? POD_SURPLUS : 0));
    }
    for (size_t i = 0; i < members.text_count; i++) {
        if (lens[i])
            memcpy(at, *members.texts[i], lens[i]);
        at += lens[i];
        *at++ = '\0';
    }
    for (size_t i = 0; i < members.number_count; i++)
        at = put_varint(at, *members.numbers[i]);
    assert((size_t)(at - start) <= bound);
    *at = '\0';
    buf->len += (size_t)(at - start);
}

static int get_varint(const char **at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte;

        if (*at == end)
            return -EBADMSG;
        byte = (unsigned char)*(*at)++;
        if (shift == 63 && byte > 1)
            return -EBADMSG;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return 0;
        }
    }
    return -EBADMSG;
}

static int get_pod_bytes(const char **at, const char *end, struct record *record)
{
    unsigned char source;
    unsigned char flags;

    if (end - *at < 2)
        return -EBADMSG;
    source = (unsigned char)*(*at)++;
    flags = (unsigned char)*(*at)++;
    if (source > POD_SOURCE_KUBERNETES || flags & ~POD_FLAGS)
        return -EBADMSG;
    record->pod.source = (enum pod_source)source;
    record->pod.is_ready = flags & POD_READY;
    record->pod.is_terminating = flags & POD_TERMINATING;
    record->pod.is_pinned = flags & POD_PINNED;
    record->pod.is_surplus = flags & POD_SURPLUS;
    return 0;
}

int record_decode(const char *data, size_t len, struct record *ret_record, size_t *ret_used)
{
    const char *at = data;
    const char *end = data + len;
    struct record record = {0};
    struct members members;
    int err;

    if (!len || !data[0])
        return -EBADMSG;
    record.type = (enum record_type)(unsigned char)*at++;
    err = record_members(&record, &members);
    if (err < 0)
        return err;
    if (members.has_pod_bytes) {
        err = get_pod_bytes(&at, end, &record);
        if (err < 0)
            return err;
    }
    for (size_t i = 0; i < members.text_count; i++) {
        const char *nul = memchr(at, '\0', (size_t)(end - at));

        if (!nul)
            return -EBADMSG;
        *members.texts[i] = at;
        at = nul + 1;
    }
    for (size_t i = 0; i < members.number_count; i++) {
        err = get_varint(&at, end, members.numbers[i]);
        if (err < 0)
            return err;
    }
    *ret_record = record;
    *ret_used = (size_t)(at - data);
    return 0;
}
