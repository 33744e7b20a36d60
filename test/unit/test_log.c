/* test_log.c - the bytes of the log: checksum, records, frames, file headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/embedded/batch.h"
#include "store/embedded/crc32c.h"
#include "store/embedded/frame.h"
#include "store/embedded/pending.h"
#include "store/embedded/record_codec.h"

enum { MUTATIONS = 300000 };

/* xorshift: the same bytes in every run. */
static uint64_t test_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static const struct record examples[] = {
    {.type = RECORD_TIERS, .tiers = {.text = "{\"gold\":1}"}},
    {.type = RECORD_MERCHANT, .merchant = {.id = "9shines", .text = "{\"tier\":\"gold\"}"}},
    {.type = RECORD_MERCHANT_GONE, .merchant = {.id = "9shines"}},
    {.type = RECORD_POD,
     .pod = {.name = "voice-agent-0",
             .address = "127.0.0.1:9000",
             .incarnation = "u-1:0",
             .tier = "merchant:9shines",
             .source = POD_SOURCE_KUBERNETES,
             .is_ready = true,
             .is_pinned = true,
             .draining_until_ms = UINT64_MAX,
             .held_until_ms = 127}},
    {.type = RECORD_POD,
     .pod = {.name = "p", .address = "", .incarnation = "", .tier = "t", .is_terminating = true}},
    {.type = RECORD_POD_GONE, .pod = {.name = "voice-agent-0"}},
    {.type = RECORD_CALL,
     .call = {.call_sid = "CA1",
              .pod = "voice-agent-0",
              .pool = "pool:gold",
              .merchant_id = "",
              .provider = "twilio",
              .allocated_at_ms = 1770544800000,
              .expires_at_ms = 128}},
    {.type = RECORD_CALL_GONE, .call = {.call_sid = "CA1"}},
    {.type = RECORD_RENEWED, .renewed = {.call_sid = "CA1", .expires_at_ms = 1770544800000}},
    {.type = RECORD_RENEWED_BY,
     .renewed =
         {.call_sid = "CA1", .expires_at_ms = 1770544800000, .at_ms = 1770543900000, .by = RENEWED_BY_POD}},
    {.type = RECORD_TOMBSTONE,
     .tombstone = {.call_sid = "CA1", .why = FINISH_CLOSED, .at_ms = 1770544800000}},
    {.type = RECORD_PLACED, .placed = {.call_sid = "CA1", .at_ms = 1770544800001}},
    {.type = RECORD_VERSION,
     .version = {.merchant_id = "", .by = "API_KEY 2", .text = "{\"gold\":1}", .number = 300, .at_ms = 0}},
    {.type = RECORD_VERSION,
     .version = {.merchant_id = "m", .by = "", .text = "", .number = 1, .at_ms = 1770544800001}},
    {.type = RECORD_WAITING,
     .waiting = {.call_sid = "CA2",
                 .merchant_id = "9shines",
                 .provider = "plivo",
                 .pools = "merchant:9shines pool:gold",
                 .since_ms = 1770544800000,
                 .until_ms = UINT64_MAX,
                 .priority = 9,
                 .ahead_ms = 54000,
                 .flags = RECORD_WAITING_FLAGS}},
    {.type = RECORD_WAITING, .waiting = {.call_sid = "CA3", .merchant_id = "", .provider = "", .pools = ""}},
    {.type = RECORD_WAITING_GONE, .waiting = {.call_sid = "CA2"}},
    {.type = RECORD_GRANTED, .granted = {.call_sid = "CA1", .since_ms = 1770544700000}},
    {.type = RECORD_CONNECTED, .connected = {.call_sid = "CA1"}},
};

static void same_text(const char *a, const char *b)
{
    assert_string_equal(a ? a : "", b ? b : "");
}

static void same_record(const struct record *a, const struct record *b)
{
    assert_int_equal(a->type, b->type);
    switch (a->type) {
    case RECORD_TIERS:
        same_text(a->tiers.text, b->tiers.text);
        break;
    case RECORD_MERCHANT:
    case RECORD_MERCHANT_GONE:
        same_text(a->merchant.id, b->merchant.id);
        same_text(a->merchant.text, b->merchant.text);
        break;
    case RECORD_POD:
    case RECORD_POD_GONE:
        same_text(a->pod.name, b->pod.name);
        same_text(a->pod.address, b->pod.address);
        same_text(a->pod.incarnation, b->pod.incarnation);
        same_text(a->pod.tier, b->pod.tier);
        assert_int_equal(a->pod.source, b->pod.source);
        assert_int_equal(a->pod.is_ready, b->pod.is_ready);
        assert_int_equal(a->pod.is_terminating, b->pod.is_terminating);
        assert_int_equal(a->pod.is_pinned, b->pod.is_pinned);
        assert_true(a->pod.draining_until_ms == b->pod.draining_until_ms);
        assert_true(a->pod.held_until_ms == b->pod.held_until_ms);
        break;
    case RECORD_CALL:
    case RECORD_CALL_GONE:
        same_text(a->call.call_sid, b->call.call_sid);
        same_text(a->call.pod, b->call.pod);
        same_text(a->call.pool, b->call.pool);
        same_text(a->call.merchant_id, b->call.merchant_id);
        same_text(a->call.provider, b->call.provider);
        assert_true(a->call.allocated_at_ms == b->call.allocated_at_ms);
        assert_true(a->call.expires_at_ms == b->call.expires_at_ms);
        break;
    case RECORD_RENEWED:
    case RECORD_RENEWED_BY:
        same_text(a->renewed.call_sid, b->renewed.call_sid);
        assert_true(a->renewed.expires_at_ms == b->renewed.expires_at_ms);
        assert_true(a->renewed.at_ms == b->renewed.at_ms);
        assert_true(a->renewed.by == b->renewed.by);
        break;
    case RECORD_PLACED:
        same_text(a->placed.call_sid, b->placed.call_sid);
        assert_true(a->placed.at_ms == b->placed.at_ms);
        break;
    case RECORD_VERSION:
        same_text(a->version.merchant_id, b->version.merchant_id);
        same_text(a->version.by, b->version.by);
        same_text(a->version.text, b->version.text);
        assert_true(a->version.number == b->version.number);
        assert_true(a->version.at_ms == b->version.at_ms);
        break;
    case RECORD_WAITING:
    case RECORD_WAITING_GONE:
        same_text(a->waiting.call_sid, b->waiting.call_sid);
        same_text(a->waiting.merchant_id, b->waiting.merchant_id);
        same_text(a->waiting.provider, b->waiting.provider);
        same_text(a->waiting.pools, b->waiting.pools);
        assert_true(a->waiting.since_ms == b->waiting.since_ms);
        assert_true(a->waiting.until_ms == b->waiting.until_ms);
        assert_true(a->waiting.priority == b->waiting.priority);
        assert_true(a->waiting.ahead_ms == b->waiting.ahead_ms);
        assert_true(a->waiting.flags == b->waiting.flags);
        break;
    case RECORD_GRANTED:
        same_text(a->granted.call_sid, b->granted.call_sid);
        assert_true(a->granted.since_ms == b->granted.since_ms);
        break;
    case RECORD_CONNECTED:
        same_text(a->connected.call_sid, b->connected.call_sid);
        break;
    case RECORD_TOMBSTONE:
        same_text(a->tombstone.call_sid, b->tombstone.call_sid);
        assert_true(a->tombstone.why == b->tombstone.why);
        assert_true(a->tombstone.at_ms == b->tombstone.at_ms);
        break;
    }
}

static void encode_examples(struct strbuf *buf)
{
    strbuf_init(buf, NULL, 65536);
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        record_encode(buf, &examples[i]);
    assert_false(strbuf_failed(buf));
}

static void crc32c__known_values(void **state)
{
    unsigned char zeros[32] = {0};
    char noise[1000];
    uint64_t seed = 7;

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_table(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, zeros, sizeof(zeros)), 0x8a9136aa); /* RFC 3720 */
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)test_random(&seed);
    for (size_t len = 0; len < sizeof(noise); len += 13) {
        assert_int_equal(crc32c(0, noise, len), crc32c_table(0, noise, len));
        assert_int_equal(crc32c(crc32c(0, noise, len / 3), noise + len / 3, len - len / 3),
                         crc32c(0, noise, len));
    }
}

static void record__comes_back_as_it_was(void **state)
{
    struct record record;
    struct strbuf buf;
    size_t at = 0;
    size_t used;

    (void)state;
    encode_examples(&buf);
    for (size_t i = 0; i < ARRAY_LEN(examples); i++, at += used) {
        assert_int_equal(record_decode(buf.data + at, buf.len - at, &record, &used), 0);
        same_record(&examples[i], &record);
    }
    assert_int_equal(at, buf.len);
    strbuf_release(&buf);
}

static void record__cut_short_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
        struct record record;
        struct strbuf buf;
        size_t used;

        strbuf_init(&buf, NULL, 65536);
        record_encode(&buf, &examples[i]);
        for (size_t len = 0; len < buf.len; len++) {
            /* A copy of exactly that size, so that the sanitizer sees a read beyond it. */
            char *copy = malloc(len ? len : 1);

            assert_non_null(copy);
            memcpy(copy, buf.data, len);
            assert_int_equal(record_decode(copy, len, &record, &used), -EBADMSG);
            free(copy);
        }
        strbuf_release(&buf);
    }
}

static void record__bad_values_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x00", 1},
        {"\x09", 1},
        {"\x04\x03\x00n\0a\0i\0t\0\x01\x01", 13},                /* no such source */
        {"\x04\x00\x10n\0a\0i\0t\0\x01\x01", 13},                /* no such flag */
        {"\x08s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 13}, /* more than 64 bits */
        {"\x08s\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 14},
    };
    struct record record;
    size_t used;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(record_decode(bad[i].bytes, bad[i].len, &record, &used), -EBADMSG);
}

static void record__of_a_newer_version_is_no_damage(void **state)
{
    struct record record;
    size_t used;

    (void)state;
    assert_int_equal(record_decode("\x11", 1, &record, &used), -EOPNOTSUPP);
    assert_int_equal(record_decode("\xff", 1, &record, &used), -EOPNOTSUPP);
}

static void record__hostile_bytes_never_crash(void **state)
{
    uint64_t seed = 20260208;
    struct strbuf buf;
    size_t decoded = 0;
    char *copy;

    (void)state;
    encode_examples(&buf);
    copy = malloc(buf.len);
    assert_non_null(copy);
    for (int i = 0; i < MUTATIONS; i++) {
        size_t len = 1 + test_random(&seed) % buf.len;
        size_t start = buf.len - len;
        struct record record;
        size_t used;

        /* At the end of the block, so that the sanitizer sees a read beyond it. */
        memcpy(copy + start, buf.data + test_random(&seed) % (buf.len - len + 1), len);
        for (uint64_t flips = test_random(&seed) % 4; flips > 0; flips--)
            copy[start + test_random(&seed) % len] ^= (char)(1 << test_random(&seed) % 8);
        for (size_t at = start; at < buf.len; at += used) {
            if (record_decode(copy + at, buf.len - at, &record, &used) < 0)
                break;
            assert_in_range(used, 1, buf.len - at);
            decoded++;
        }
    }
    assert_true(decoded > 1000);
    free(copy);
    strbuf_release(&buf);
}

static size_t make_frame(char *data, const char *payload, uint64_t seq)
{
    struct frame frame = {
        .kind = FRAME_BATCH,
        .boot = 5,
        .seq = seq,
        .durable_seq = seq - 1,
        .time_ms = 1000 + seq,
        .payload_len = strlen(payload),
    };

    memcpy(data + FRAME_HEADER_SIZE, payload, strlen(payload));
    frame_seal(data, &frame);
    return FRAME_HEADER_SIZE + strlen(payload);
}

static void frame__comes_back_as_it_was(void **state)
{
    char data[256];
    size_t len = make_frame(data, "payload", 42);
    struct frame frame;
    size_t size;

    (void)state;
    assert_int_equal(frame_peek(data, &size), 0);
    assert_int_equal(size, len);
    assert_int_equal(frame_open(data, len, &frame), 0);
    assert_int_equal(frame.kind, FRAME_BATCH);
    assert_int_equal(frame.boot, 5);
    assert_int_equal(frame.seq, 42);
    assert_int_equal(frame.durable_seq, 41);
    assert_int_equal(frame.time_ms, 1042);
    assert_int_equal(frame.payload_len, 7);
    assert_memory_equal(frame.payload, "payload", 7);
}

static void frame__every_flipped_bit_is_noticed(void **state)
{
    char data[256];
    size_t len = make_frame(data, "payload", 42);
    struct frame frame;

    (void)state;
    for (size_t bit = 0; bit < len * 8; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(frame_open(data, len, &frame), -EBADMSG);
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(frame_open(data, cut, &frame), -EBADMSG);
}

static void frame_find__passes_over_what_is_no_frame(void **state)
{
    char data[512] = "\xf5\xc1SR\xf5\xc1SR some noise";
    uint64_t budget = sizeof(data);
    struct frame frame;
    size_t len;

    (void)state;
    assert_null(frame_find(data, 200, 0, &budget, &frame));
    len = 30 + make_frame(data + 30, "x", 9);
    assert_ptr_equal(frame_find(data, len, 0, &budget, &frame), data + 30);
    assert_int_equal(frame.seq, 9);
    assert_null(frame_find(data, len, 31, &budget, &frame));
    assert_null(frame_find(data, len - 1, 0, &budget, &frame));
}

/* Every twelve bytes claim to be a frame that reaches far. */
static void frame_find__gives_up_when_its_budget_is_used_up(void **state)
{
    static const char unit[12] = "\xf5\xc1SR\0\0\0\0\0\x02\0\0"; /* 512 bytes of payload */
    const uint64_t enough = 1000000;
    uint64_t budget = enough;
    struct frame frame;
    char data[4096];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = unit[i % sizeof(unit)];
    len = 3000 + make_frame(data + 3000, "x", 9);
    assert_ptr_equal(frame_find(data, len, 0, &budget, &frame), data + 3000);
    assert_in_range(budget, 1, enough - 100 * (FRAME_HEADER_SIZE + 512));
    budget = 10 * (FRAME_HEADER_SIZE + 512);
    assert_null(frame_find(data, len, 0, &budget, &frame));
    assert_int_equal(budget, 0);
}

static void file_header__another_version_is_told_apart_from_damage(void **state)
{
    struct file_header in = {
        .kind = FILE_SNAPSHOT,
        .may_stand_alone = true,
        .boot = 3,
        .index = 7,
        .first_seq = 8,
        .durable_seq = 6,
        .time_ms = 9,
    };
    struct file_header out;
    char data[FILE_HEADER_SIZE];

    (void)state;
    file_header_write(data, &in);
    assert_int_equal(file_header_read(data, FILE_SNAPSHOT, &out), 0);
    assert_true(out.may_stand_alone);
    assert_int_equal(out.boot, 3);
    assert_int_equal(out.index, 7);
    assert_int_equal(out.first_seq, 8);
    assert_int_equal(out.durable_seq, 6);
    assert_int_equal(out.time_ms, 9);
    assert_int_equal(file_header_read(data, FILE_SEGMENT, &out), -EBADMSG);
    data[16] ^= 1;
    assert_int_equal(file_header_read(data, FILE_SNAPSHOT, &out), -EBADMSG);
    data[16] ^= 1;
    data[8] = FILE_FORMAT_VERSION + 1;
    assert_int_equal(file_header_read(data, FILE_SNAPSHOT, &out), -EOPNOTSUPP);
    assert_int_equal(out.version, FILE_FORMAT_VERSION + 1);
    data[8] = FILE_FORMAT_OLDEST - 1;
    assert_int_equal(file_header_read(data, FILE_SNAPSHOT, &out), -EOPNOTSUPP);
}

static void pending__beyond_the_limit_there_is_none(void **state)
{
    static struct pending *taken[PENDING_MAX];
    struct pending_pool pool;

    (void)state;
    pending_pool_init(&pool);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        taken[i] = pending_get(&pool);
        assert_non_null(taken[i]);
    }
    assert_null(pending_get(&pool));
    pending_put(&pool, taken[5]);
    assert_ptr_equal(pending_get(&pool), taken[5]);
    pending_pool_release(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c__known_values),
        cmocka_unit_test(record__comes_back_as_it_was),
        cmocka_unit_test(record__cut_short_is_refused),
        cmocka_unit_test(record__bad_values_are_refused),
        cmocka_unit_test(record__of_a_newer_version_is_no_damage),
        cmocka_unit_test(record__hostile_bytes_never_crash),
        cmocka_unit_test(frame__comes_back_as_it_was),
        cmocka_unit_test(frame__every_flipped_bit_is_noticed),
        cmocka_unit_test(frame_find__passes_over_what_is_no_frame),
        cmocka_unit_test(frame_find__gives_up_when_its_budget_is_used_up),
        cmocka_unit_test(file_header__another_version_is_told_apart_from_damage),
        cmocka_unit_test(pending__beyond_the_limit_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
