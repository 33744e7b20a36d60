/*
 * test_embedded_files.c - files of the embedded store after a crash, after damage, and while they
 * are replaced.
 */
#include "../support/embedded_fixture.h"

#include <endian.h>

#include "store/embedded/crc32c.h"

enum {
    STEPS = 8,
    BOOT_NOW = 111,
    BOOT_BEFORE = 222,
};

#define LOG_1 "log.0000000001"
#define LOG_2 "log.0000000002"
#define LOG_3 "log.0000000003"
#define TORN_1 "torn.0000000001"
#define SNAPSHOT_2 "snapshot.0000000002"

/* A log of one frame per step, and what the state was after each. */
struct history {
    struct fixture f;
    char *bytes; /* of the log, before it was closed */
    size_t ends[STEPS + 1];
    char *dumps[STEPS + 1];
    size_t dump_lens[STEPS + 1];
};

static void history_init(struct history *h, enum embedded_fsync fsync, uint32_t boot)
{
    size_t len;

    memset(h, 0, sizeof(*h));
    fixture_init(&h->f, fsync);
    faults.boot = boot;
    fixture_open(&h->f);
    fixture_add_pods(&h->f);
    for (int i = 0; i <= STEPS; i++) {
        char sid[16];

        bool is_release = i % 3 == 1;

        snprintf(sid, sizeof(sid), "CA%d", is_release ? i - 1 : i);
        assert_int_equal(is_release ? fixture_release_call(&h->f, sid) : fixture_allocate(&h->f, sid), 0);
        assert_int_equal(h->f.result.outcome, OUTCOME_OK);
        h->ends[i] = embedded_of(h->f.store)->active.end;
        h->dumps[i] = fixture_dump(&h->f, &h->dump_lens[i]);
    }
    h->bytes = fixture_read_file(&h->f, LOG_1, &len);
    assert_true(len >= h->ends[STEPS]);
    fixture_close(&h->f);
}

static void history_release(struct history *h)
{
    for (int i = 0; i <= STEPS; i++)
        free(h->dumps[i]);
    free(h->bytes);
    fixture_release(&h->f);
}

/* Is the state now what it was after that step? */
static void history_is(struct history *h, int step)
{
    size_t len;
    char *dump = fixture_dump(&h->f, &len);

    assert_int_equal(len, h->dump_lens[step]);
    assert_memory_equal(dump, h->dumps[step], len);
    free(dump);
}

static int history_step_at(const struct history *h, size_t offset)
{
    int step = -1;

    for (int i = 0; i <= STEPS; i++) {
        if (h->ends[i] <= offset)
            step = i;
    }
    return step;
}

/* Puts the first `len` bytes back as the only file. */
static void history_restore(struct history *h, size_t len, size_t zeros)
{
    fixture_remove_files(h->f.dir);
    fixture_write_file(&h->f, LOG_1, h->bytes, len, zeros);
}

static void torn_tail__at_every_byte_gives_a_prefix(void **state)
{
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    for (size_t cut = h.ends[STEPS - 3]; cut <= h.ends[STEPS]; cut++) {
        for (size_t zeros = 0; zeros <= 5000; zeros += 5000) {
            size_t present = cut;
            int step;

            /* A zero that was cut off and one that was reserved are the same. */
            while (zeros && present < h.ends[STEPS] && !h.bytes[present])
                present++;
            step = history_step_at(&h, present);
            history_restore(&h, cut, zeros);
            fixture_open(&h.f);
            history_is(&h, step);
            if (h.ends[step] >= cut)
                assert_int_equal(h.f.report.cut_bytes, 0);
            else
                assert_in_range(h.f.report.cut_bytes, 1, cut - h.ends[step]);
            /* And the store goes on from there. */
            assert_int_equal(fixture_allocate(&h.f, "CA-after"), 0);
            fixture_close(&h.f);
            fixture_open(&h.f);
            assert_int_equal(h.f.report.cut_bytes, 0);
            assert_int_equal(fixture_call(&h.f, "CA-after"), 0);
            assert_int_equal(h.f.result.outcome, OUTCOME_OK);
            fixture_close(&h.f);
            arena_reset(&h.f.arena);
        }
    }
    history_release(&h);
}

/* Flips a byte of the last frame, of which every byte was written. */
static int history_try_flipped(struct history *h, size_t at, char flip, size_t zeros)
{
    h->bytes[at] ^= flip;
    history_restore(h, h->ends[STEPS], zeros);
    h->bytes[at] ^= flip;
    return fixture_try_open(&h->f);
}

static void last_frame__with_a_wrong_byte_is_refused(void **state)
{
    static const char flips[] = {0x01, 0x10, (char)0x80, (char)0xff};
    static const uint32_t boots[] = {0, BOOT_NOW, BOOT_BEFORE};

    (void)state;
    for (size_t b = 0; b < ARRAY_LEN(boots); b++) {
        struct history h;
        char where[128];

        history_init(&h, EMBEDDED_FSYNC_ALWAYS, boots[b]);
        faults.boot = boots[b] ? BOOT_NOW : 0;
        snprintf(where, sizeof(where), "truncate -s %zu %s/%s", h.ends[STEPS - 1], h.f.dir, LOG_1);
        for (size_t i = h.ends[STEPS - 1]; i < h.ends[STEPS]; i++) {
            for (size_t f = 0; f < ARRAY_LEN(flips); f++) {
                if (i == h.ends[STEPS] - 1 && h.bytes[i] == flips[f])
                    continue; /* a last byte that becomes zero looks like one that was never written */
                assert_int_equal(history_try_flipped(&h, i, flips[f], f % 2 ? 5000 : 0), -EBADMSG);
                assert_non_null(strstr(h.f.error, where));
                assert_non_null(strstr(h.f.error, "told"));
            }
        }
        /* The refusal changed nothing, and the advice in it works. */
        history_restore(&h, h.ends[STEPS], 5000);
        fixture_open(&h.f);
        history_is(&h, STEPS);
        fixture_close(&h.f);
        history_restore(&h, h.ends[STEPS - 1], 0);
        fixture_open(&h.f);
        history_is(&h, STEPS - 1);
        fixture_close(&h.f);
        history_release(&h);
    }
}

/* One frame of several blocks behind the history. Returns where it begins; `bytes` has room for it. */
static size_t history_add_long_frame(struct history *h, char **ret_bytes, size_t *ret_len)
{
    enum { BLOCKS = 5, PAYLOAD = BLOCKS * FRAME_BLOCK_SIZE };
    size_t begin = h->ends[STEPS];
    struct frame frame = {.kind = FRAME_BATCH, .boot = faults.boot, .seq = 1000, .payload_len = PAYLOAD};
    char *bytes = calloc(1, begin + FRAME_HEADER_SIZE + PAYLOAD);

    assert_non_null(bytes);
    memcpy(bytes, h->bytes, begin);
    memset(bytes + begin + FRAME_HEADER_SIZE, 'x', PAYLOAD);
    bytes[begin + FRAME_HEADER_SIZE + PAYLOAD - 1] = '\0'; /* what was written may end with a zero */
    frame_seal(bytes + begin, &frame);
    *ret_bytes = bytes;
    *ret_len = begin + FRAME_HEADER_SIZE + PAYLOAD;
    return begin;
}

/* Blocks that never reached the disk read as zeros: any of them after a power cut, none within one boot. */
static void last_frame__without_a_block_is_torn_after_a_power_cut_only(void **state)
{
    struct history h;
    size_t begin, len;
    char *bytes;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, BOOT_BEFORE);
    begin = history_add_long_frame(&h, &bytes, &len);
    for (size_t at = begin; at < len; at += FRAME_BLOCK_SIZE - at % FRAME_BLOCK_SIZE) {
        size_t block = (size_t)min_u64(FRAME_BLOCK_SIZE - at % FRAME_BLOCK_SIZE, len - at);
        bool is_last = at + block == len;
        char kept[FRAME_BLOCK_SIZE];

        memcpy(kept, bytes + at, block);
        memset(bytes + at, 0, block);
        fixture_remove_files(h.f.dir);
        fixture_write_file(&h.f, LOG_1, bytes, len, 5000);
        faults.boot = BOOT_BEFORE;
        if (!is_last)
            assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
        faults.boot = BOOT_NOW;
        fixture_open(&h.f);
        history_is(&h, STEPS);
        assert_true(h.f.report.cut_bytes > 0);
        fixture_close(&h.f);

        memcpy(bytes + at, kept, block);
        /* Without the end of its header the frame looks like one of an older program, cut before its zero. */
        if (at > begin && at < begin + FRAME_HEADER_SIZE)
            continue;
        /* Half a block is no block: bytes were changed. */
        memset(bytes + at, 0, block / 2);
        fixture_remove_files(h.f.dir);
        fixture_write_file(&h.f, LOG_1, bytes, len, 5000);
        assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
        memcpy(bytes + at, kept, block);
    }
    free(bytes);
    history_release(&h);
}

/* From each byte on zeros, in the file as it was reserved: how a process that was killed leaves its write. */
static void last_frame__that_ends_in_zeros_is_torn_in_any_boot(void **state)
{
    static const uint32_t boots[] = {BOOT_BEFORE, BOOT_NOW};

    (void)state;
    for (size_t b = 0; b < ARRAY_LEN(boots); b++) {
        struct history h;
        size_t begin, len;
        char *bytes;

        history_init(&h, EMBEDDED_FSYNC_NO, BOOT_BEFORE);
        begin = history_add_long_frame(&h, &bytes, &len);
        faults.boot = boots[b];
        for (size_t zeros = 2; zeros < len - begin; zeros += zeros < 100 ? 1 : 97) {
            memset(bytes + len - zeros, 0, zeros);
            fixture_remove_files(h.f.dir);
            fixture_write_file(&h.f, LOG_1, bytes, len, 5000);
            fixture_open(&h.f);
            history_is(&h, STEPS);
            assert_true(h.f.report.cut_bytes > 0);
            fixture_close(&h.f);
        }
        free(bytes);
        history_release(&h);
    }
}

/* Programs before this one wrote a zero where the header's own checksum is now. */
static void last_frame__of_an_older_program_is_judged_by_its_last_byte(void **state)
{
    enum { SHAPE_AT = 44, CRC_AT = 4, LEN_AT = 8 };
    struct history h;
    size_t begin, end;
    uint32_t crc;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    begin = h.ends[STEPS - 1];
    end = h.ends[STEPS];
    memset(h.bytes + begin + SHAPE_AT, 0, 4);
    crc = htole32(crc32c(0, h.bytes + begin + LEN_AT, end - begin - LEN_AT));
    memcpy(h.bytes + begin + CRC_AT, &crc, sizeof(crc));
    history_restore(&h, end, 0);
    fixture_open(&h.f);
    history_is(&h, STEPS);
    fixture_close(&h.f);
    assert_true(h.bytes[end - 1] != 0);
    assert_int_equal(history_try_flipped(&h, begin + FRAME_HEADER_SIZE, 0x10, 5000), -EBADMSG);
    history_restore(&h, end - 1, 5000);
    fixture_open(&h.f);
    history_is(&h, STEPS - 1);
    fixture_close(&h.f);
    history_release(&h);
}

/* Every byte of a frame that has others behind it, and of the file's header. */
static void damage__in_the_middle_is_refused(void **state)
{
    static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_ALWAYS, EMBEDDED_FSYNC_NO};

    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        struct history h;

        history_init(&h, modes[m], 0);
        for (size_t i = 0; i < h.ends[STEPS - 1]; i++) {
            char where[64];
            int r;

            if (i == FILE_HEADER_SIZE) /* the long first frames behave no differently */
                i = h.ends[STEPS - 4];
            h.bytes[i] ^= 0x10;
            history_restore(&h, h.ends[STEPS], 4096);
            h.bytes[i] ^= 0x10;
            r = fixture_try_open(&h.f);
            /* The version is in the header. */
            assert_true(r == -EBADMSG || (r == -EOPNOTSUPP && i >= 8 && i < 12));
            assert_non_null(strstr(h.f.error, LOG_1));
            if (r == -EBADMSG) {
                snprintf(where, sizeof(where), "offset %zu",
                         i < FILE_HEADER_SIZE ? 0 : h.ends[history_step_at(&h, i)]);
                assert_non_null(strstr(h.f.error, where));
                assert_non_null(strstr(h.f.error, "backup"));
            }
        }
        /* The refusal changed nothing: with the right byte back all is well. */
        history_restore(&h, h.ends[STEPS], 0);
        fixture_open(&h.f);
        history_is(&h, STEPS);
        fixture_close(&h.f);
        history_release(&h);
    }
}

static void damage__the_advice_in_the_message_works(void **state)
{
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_ALWAYS, 0);
    h.bytes[h.ends[3] + 20] ^= 1;
    history_restore(&h, h.ends[STEPS], 0);
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
    history_restore(&h, h.ends[3], 0); /* truncate -s */
    fixture_open(&h.f);
    history_is(&h, 3);
    fixture_close(&h.f);
    history_release(&h);
}

/* After a power cut, pages that were not synced yet may be missing in the middle. */
static void power_cut__loses_only_what_was_not_synced(void **state)
{
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, BOOT_BEFORE);
    memset(h.bytes + h.ends[3], 0, 30);
    history_restore(&h, h.ends[STEPS], 0);
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG); /* the machine still runs: no page was lost */
    faults.boot = BOOT_NOW;
    fixture_open(&h.f);
    history_is(&h, 3);
    assert_true(h.f.report.cut_bytes > 0);
    fixture_close(&h.f);
    history_release(&h);

    history_init(&h, EMBEDDED_FSYNC_ALWAYS, BOOT_BEFORE);
    memset(h.bytes + h.ends[3], 0, 30);
    history_restore(&h, h.ends[STEPS], 0);
    faults.boot = BOOT_NOW;
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG); /* it was synced: this is damage */
    history_release(&h);
}

static void clean_close__makes_all_damage_visible(void **state)
{
    struct history h;
    size_t len;
    char *bytes;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_EVERYSEC, BOOT_BEFORE);
    bytes = fixture_read_file(&h.f, LOG_1, &len);
    assert_true(len > h.ends[STEPS]);
    bytes[h.ends[STEPS - 1] + 20] ^= 1;
    fixture_write_file(&h.f, LOG_1, bytes, len, 0);
    free(bytes);
    faults.boot = BOOT_NOW;
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
    history_release(&h);
}

/* Allocates and releases until the log has been replaced by a snapshot `snapshots` times. */
static void work_until_snapshots(struct fixture *f, uint64_t snapshots)
{
    struct store_stats stats = {0};

    for (int i = 0; stats.snapshots < snapshots && i < 100000; i++) {
        char sid[32];

        snprintf(sid, sizeof(sid), "CA-work-%d", i);
        assert_int_equal(fixture_allocate(f, sid), 0);
        assert_int_equal(f->result.outcome, OUTCOME_OK);
        assert_int_equal(fixture_release_call(f, sid), 0);
        assert_int_equal(f->result.outcome, OUTCOME_OK);
        arena_reset(&f->arena);
        store_stats(f->store, &stats);
    }
    assert_true(stats.snapshots >= snapshots);
}

static void snapshot__replaces_the_log_and_loads_again(void **state)
{
    static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_ALWAYS, EMBEDDED_FSYNC_EVERYSEC,
                                                EMBEDDED_FSYNC_NO};

    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        struct fixture f;
        char *before;
        size_t before_len;

        fixture_init(&f, modes[m]);
        f.settings.snapshot_after_bytes = 20000;
        fixture_open(&f);
        fixture_add_pods(&f);
        assert_int_equal(fixture_allocate(&f, "CA-early"), 0);
        work_until_snapshots(&f, 3);
        assert_int_equal(fixture_allocate(&f, "CA-late"), 0);
        before = fixture_dump(&f, &before_len);
        assert_false(fixture_has_file(&f, LOG_1));
        fixture_close(&f);
        fixture_open(&f);
        assert_int_equal(f.report.calls, 2);
        fixture_assert_dump(&f, before, before_len);
        fixture_release(&f);
    }
}

static void snapshot__that_fails_loses_nothing(void **state)
{
    struct store_stats stats;
    struct fixture f;

    (void)state;
    fixture_init(&f, EMBEDDED_FSYNC_NO);
    f.settings.snapshot_after_bytes = 4000;
    fixture_open(&f);
    fixture_add_pods(&f);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    faults.sync = -1; /* nothing else syncs in this mode */
    for (int i = 0; i < 200; i++) {
        assert_int_equal(fixture_allocate(&f, "CA2"), 0);
        assert_int_equal(fixture_release_call(&f, "CA2"), 0);
        arena_reset(&f.arena);
    }
    faults.sync = 0;
    store_stats(f.store, &stats);
    assert_int_equal(stats.snapshots, 0);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(f.report.calls, 1);
    fixture_release(&f);
}

/* snapshot.2 and log.2 as they are after a snapshot, log.1 gone. */
static void make_snapshot_2(struct fixture *f)
{
    fixture_init(f, EMBEDDED_FSYNC_NO);
    f->settings.snapshot_after_bytes = 20000;
    fixture_open(f);
    fixture_add_pods(f);
    assert_int_equal(fixture_allocate(f, "CA1"), 0);
    work_until_snapshots(f, 1);
    assert_int_equal(fixture_allocate(f, "CA2"), 0);
    fixture_close(f);
    assert_true(fixture_has_file(f, SNAPSHOT_2));
    assert_true(fixture_has_file(f, LOG_2));
    assert_false(fixture_has_file(f, LOG_1));
    f->settings.snapshot_after_bytes = 0;
}

static void missing_segment__is_refused(void **state)
{
    struct fixture f;
    char path[128];
    size_t len;
    char *bytes;

    (void)state;
    make_snapshot_2(&f);
    bytes = fixture_read_file(&f, LOG_2, &len);
    snprintf(path, sizeof(path), "%s/%s", f.dir, LOG_2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fixture_try_open(&f), -EBADMSG);
    assert_non_null(strstr(f.error, LOG_2));
    assert_non_null(strstr(f.error, "missing"));

    /* A later one alone is no better, nor is one under a wrong name. */
    fixture_write_file(&f, LOG_3, bytes, len, 0);
    assert_int_equal(fixture_try_open(&f), -EBADMSG);
    fixture_write_file(&f, LOG_2, bytes, len, 0);
    assert_int_equal(fixture_try_open(&f), -EBADMSG);
    assert_non_null(strstr(f.error, LOG_3));

    /* The advice in the message. */
    snprintf(path, sizeof(path), "%s/%s", f.dir, LOG_3);
    assert_int_equal(unlink(path), 0);
    fixture_write_file(&f, LOG_2, "", 0, 0);
    fixture_open(&f);
    assert_int_equal(fixture_call(&f, "CA1"), 0);
    assert_int_equal(f.result.outcome, OUTCOME_OK);
    assert_int_equal(fixture_call(&f, "CA2"), 0);
    assert_int_equal(f.result.outcome, OUTCOME_NOT_FOUND);
    free(bytes);
    fixture_release(&f);
}

static void damaged_snapshot__is_refused_unless_the_log_is_still_there(void **state)
{
    struct fixture f;
    size_t len;
    char *bytes;

    (void)state;
    make_snapshot_2(&f);
    bytes = fixture_read_file(&f, SNAPSHOT_2, &len);
    for (size_t cut = 0; cut < len; cut += 41) {
        fixture_write_file(&f, SNAPSHOT_2, bytes, cut, 0);
        assert_int_equal(fixture_try_open(&f), -EBADMSG);
    }
    bytes[len / 2] ^= 1;
    fixture_write_file(&f, SNAPSHOT_2, bytes, len, 0);
    assert_int_equal(fixture_try_open(&f), -EBADMSG);
    assert_non_null(strstr(f.error, "snapshot"));
    bytes[len / 2] ^= 1;
    bytes[8] = 9;
    fixture_write_file(&f, SNAPSHOT_2, bytes, len, 0);
    assert_int_equal(fixture_try_open(&f), -EOPNOTSUPP);
    assert_non_null(strstr(f.error, "format 9"));
    free(bytes);
    fixture_release(&f);

    /* A crash after the snapshot was written and before the log was removed, and then damage. */
    fixture_start(&f, EMBEDDED_FSYNC_NO);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    fixture_close(&f);
    fixture_write_file(&f, SNAPSHOT_2, "rubbish", 7, 0);
    fixture_open(&f);
    assert_int_equal(f.report.calls, 1);
    fixture_release(&f);
}

static void newer_version__is_refused_with_its_number(void **state)
{
    struct history h;
    size_t len;
    char *bytes;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    h.bytes[8] = 7;
    history_restore(&h, h.ends[STEPS], 0);
    assert_int_equal(fixture_try_open(&h.f), -EOPNOTSUPP);
    assert_non_null(strstr(h.f.error, "newer version"));
    assert_non_null(strstr(h.f.error, "format 7"));
    assert_null(strstr(h.f.error, "truncate"));
    bytes = fixture_read_file(&h.f, LOG_1, &len);
    assert_memory_equal(bytes, h.bytes, h.ends[STEPS]);
    free(bytes);
    history_release(&h);
}

/* The header of a file, as an older program wrote it. */
static void set_format(char *bytes, uint32_t version)
{
    uint32_t version_le = htole32(version);
    uint32_t crc;

    memcpy(bytes + 8, &version_le, sizeof(version_le));
    crc = htole32(crc32c(0, bytes, FILE_HEADER_SIZE - sizeof(crc)));
    memcpy(bytes + FILE_HEADER_SIZE - sizeof(crc), &crc, sizeof(crc));
}

static void older_format__is_read_and_never_written_to(void **state)
{
    static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_NO, EMBEDDED_FSYNC_ALWAYS};

    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        struct history h;
        size_t len;
        char *bytes;

        history_init(&h, modes[m], 0);
        set_format(h.bytes, FILE_FORMAT_OLDEST);
        history_restore(&h, h.ends[STEPS], 0);
        fixture_open(&h.f);
        history_is(&h, STEPS);
        assert_int_equal(fixture_allocate(&h.f, "CA-new"), 0);
        fixture_close(&h.f);
        /* An older program reads the first file to its end, and refuses the second by its header. */
        bytes = fixture_read_file(&h.f, LOG_1, &len);
        assert_int_equal(len, h.ends[STEPS]);
        assert_memory_equal(bytes, h.bytes, len);
        free(bytes);
        bytes = fixture_read_file(&h.f, LOG_2, &len);
        assert_int_equal(bytes[8], FILE_FORMAT_VERSION);
        free(bytes);
        /* The next start goes on in the second file. */
        fixture_open(&h.f);
        assert_int_equal(fixture_call(&h.f, "CA-new"), 0);
        assert_int_equal(h.f.result.outcome, OUTCOME_OK);
        assert_false(fixture_has_file(&h.f, LOG_3));
        fixture_close(&h.f);
        /* A crash before the second file was begun. */
        history_restore(&h, h.ends[STEPS], 0);
        fixture_write_file(&h.f, LOG_2, "", 0, 4096);
        fixture_open(&h.f);
        history_is(&h, STEPS);
        assert_int_equal(embedded_of(h.f.store)->active.index, 2);
        fixture_close(&h.f);
        history_release(&h);
    }
}

static void segment_never_begun__is_how_a_crash_leaves_it(void **state)
{
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_ALWAYS, 0);
    for (size_t zeros = 0; zeros <= 100000; zeros += 100000) {
        history_restore(&h, h.ends[STEPS], 10000);
        fixture_write_file(&h.f, LOG_2, "", 0, zeros);
        fixture_open(&h.f);
        history_is(&h, STEPS);
        assert_int_equal(h.f.report.cut_bytes, 0);
        fixture_close(&h.f);
    }
    /* Rubbish in it is none. */
    history_restore(&h, h.ends[STEPS - 1] + 10, 0);
    fixture_write_file(&h.f, LOG_2, "rubbish", 7, 0);
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
    history_release(&h);
}

static void torn_tail__is_kept_aside(void **state)
{
    struct history h;
    size_t len;
    char *kept;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_ALWAYS, 0);
    history_restore(&h, h.ends[STEPS] - 5, 100);
    fixture_write_file(&h.f, "torn.0000000007", "older", 5, 0);
    fixture_open(&h.f);
    history_is(&h, STEPS - 1);
    kept = fixture_read_file(&h.f, TORN_1, &len);
    assert_int_equal(len, h.f.report.cut_bytes);
    assert_in_range(len, 1, h.ends[STEPS] - 5 - h.ends[STEPS - 1]);
    assert_memory_equal(kept, h.bytes + h.ends[STEPS - 1], len);
    free(kept);
    assert_false(fixture_has_file(&h.f, "torn.0000000007"));
    assert_false(fixture_has_file(&h.f, "torn.tmp"));
    fixture_close(&h.f);

    /* It stays until there is something to replace it. */
    fixture_open(&h.f);
    assert_int_equal(h.f.report.cut_bytes, 0);
    assert_true(fixture_has_file(&h.f, TORN_1));
    fixture_close(&h.f);

    /* What cannot be kept is cut all the same. */
    history_restore(&h, h.ends[STEPS] - 5, 100);
    {
        char path[128];

        snprintf(path, sizeof(path), "%s/torn.tmp", h.f.dir);
        assert_int_equal(mkdir(path, 0700), 0);
        fixture_open(&h.f);
        history_is(&h, STEPS - 1);
        assert_false(fixture_has_file(&h.f, TORN_1));
        assert_int_equal(rmdir(path), 0);
    }
    history_release(&h);
}

/* A file that is not ours must be neither cut nor removed, wherever it stands. */
static void foreign_file__is_refused_and_left_as_it_is(void **state)
{
    static const struct {
        const char *text;
        size_t zeros;
    } contents[] = {
        {"rubbish", 0},
        {"rubbish", 5000},
        {"This is a letter to somebody, and it is longer than the header of a file of the log.\n", 0},
        {"SROUTLOG, so it begins, but then it goes on quite differently and for much too long.\n", 0},
        {"SROUTSNP", 1000},
    };
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_ALWAYS, 0);
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        for (int place = 0; place < 2; place++) {
            const char *name = place ? LOG_2 : LOG_1;
            size_t len = strlen(contents[i].text);
            size_t after;
            char *bytes;
            int r;

            history_restore(&h, h.ends[STEPS], 0);
            fixture_write_file(&h.f, name, contents[i].text, len, contents[i].zeros);
            r = fixture_try_open(&h.f);
            assert_true(r == -EBADMSG || (r == -EOPNOTSUPP && strncmp(contents[i].text, "SROUTLOG", 8) == 0));
            assert_non_null(strstr(h.f.error, name));
            bytes = fixture_read_file(&h.f, name, &after);
            assert_int_equal(after, len + contents[i].zeros);
            assert_memory_equal(bytes, contents[i].text, len);
            free(bytes);
        }
    }
    /* What a crash can leave of a header is none of these. */
    for (size_t len = 0; len < FILE_HEADER_SIZE; len += 3) {
        history_restore(&h, len, 0);
        fixture_open(&h.f);
        assert_int_equal(h.f.report.pods, 0);
        fixture_close(&h.f);
    }
    history_release(&h);
}

/* Bytes that seem to begin a long frame at every twelfth place. */
static void hostile_tail__is_refused_without_being_checked_over_and_over(void **state)
{
    enum { UNITS = 400000 };

    char unit[12] = "\xf5\xc1SR\0\0\0\0\0\0\x20\0"; /* 2 MiB of payload */
    struct history h;
    size_t len;
    char *bytes;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    len = h.ends[STEPS] + UNITS * sizeof(unit);
    bytes = malloc(len);
    assert_non_null(bytes);
    memcpy(bytes, h.bytes, h.ends[STEPS]);
    for (size_t i = 0; i < UNITS; i++)
        memcpy(bytes + h.ends[STEPS] + i * sizeof(unit), unit, sizeof(unit));
    fixture_write_file(&h.f, LOG_1, bytes, len, 0);
    free(bytes);
    assert_int_equal(fixture_try_open(&h.f), -EBADMSG);
    assert_non_null(strstr(h.f.error, LOG_1));
    history_release(&h);
}

/* Opening a FIFO would wait for its other end for ever. */
static void no_regular_file__is_refused(void **state)
{
    static const char *const names[] = {LOG_1, LOG_2, SNAPSHOT_2};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        for (int kind = 0; kind < 3; kind++) {
            struct history h;
            char path[128];

            history_init(&h, EMBEDDED_FSYNC_NO, 0);
            snprintf(path, sizeof(path), "%s/%s", h.f.dir, names[i]);
            unlink(path);
            if (kind == 0)
                assert_int_equal(mkfifo(path, 0600), 0);
            else if (kind == 1)
                assert_int_equal(mkdir(path, 0700), 0);
            else
                assert_int_equal(symlink("/dev/zero", path), 0);
            assert_true(fixture_try_open(&h.f) < 0);
            assert_non_null(strstr(h.f.error, names[i]));
            assert_non_null(strstr(h.f.error, "not a regular file"));
            if (kind == 1)
                assert_int_equal(rmdir(path), 0);
            history_release(&h);
        }
    }
}

/* In a directory that others can write, somebody may have put a link there to a file that the router can
 * write. */
static void symlink__is_never_followed(void **state)
{
    static const char *const names[] = {"lock", LOG_1, SNAPSHOT_2};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct history h;
        char path[128];
        char *bytes;
        size_t len;

        history_init(&h, EMBEDDED_FSYNC_NO, 0);
        fixture_write_file(&h.f, "victim", "precious", 8, 0);
        snprintf(path, sizeof(path), "%s/%s", h.f.dir, names[i]);
        unlink(path);
        assert_int_equal(symlink("victim", path), 0);
        assert_int_equal(fixture_try_open(&h.f), -ENXIO);
        assert_non_null(strstr(h.f.error, names[i]));
        assert_non_null(strstr(h.f.error, "not a regular file"));
        bytes = fixture_read_file(&h.f, "victim", &len);
        assert_int_equal(len, 8);
        assert_memory_equal(bytes, "precious", 8);
        free(bytes);
        history_release(&h);
    }
}

static void hard_link__named_lock_is_not_written(void **state)
{
    struct history h;
    char from[128], to[128];
    char *bytes;
    size_t len;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    fixture_write_file(&h.f, "victim", "precious", 8, 0);
    snprintf(from, sizeof(from), "%s/victim", h.f.dir);
    snprintf(to, sizeof(to), "%s/lock", h.f.dir);
    unlink(to);
    assert_int_equal(link(from, to), 0);
    fixture_open(&h.f); /* the lock holds without the pid in it */
    bytes = fixture_read_file(&h.f, "victim", &len);
    assert_int_equal(len, 8);
    assert_memory_equal(bytes, "precious", 8);
    free(bytes);
    fixture_close(&h.f);
    history_release(&h);
}

static void unfinished_snapshot__is_replaced_and_not_written_through(void **state)
{
    struct fixture f;
    char path[128];
    char *bytes;
    size_t len;

    (void)state;
    fixture_init(&f, EMBEDDED_FSYNC_NO);
    f.settings.snapshot_after_bytes = 20000;
    fixture_open(&f);
    fixture_add_pods(&f);
    fixture_write_file(&f, "victim", "precious", 8, 0);
    snprintf(path, sizeof(path), "%s/" SNAPSHOT_2 ".tmp", f.dir);
    assert_int_equal(symlink("victim", path), 0);
    work_until_snapshots(&f, 1);
    bytes = fixture_read_file(&f, "victim", &len);
    assert_int_equal(len, 8);
    assert_memory_equal(bytes, "precious", 8);
    free(bytes);
    fixture_close(&f);
    fixture_release(&f);
}

/* Mutated files: refused or opened, and what is opened holds its invariants. */
static void hostile_files__never_crash(void **state)
{
    uint64_t seed = 42;
    int opened = 0;
    struct history h;

    (void)state;
    history_init(&h, EMBEDDED_FSYNC_NO, 0);
    for (int i = 0; i < 1500; i++) {
        size_t len = h.ends[STEPS];
        char *copy = malloc(len);
        size_t dump_len;

        assert_non_null(copy);
        memcpy(copy, h.bytes, len);
        for (int flips = 0; flips < 1 + i % 3; flips++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            copy[(seed >> 33) % len] ^= (char)(1 << (seed >> 20) % 8);
        }
        len -= i % 4 ? 0 : (seed >> 40) % len;
        fixture_remove_files(h.f.dir);
        fixture_write_file(&h.f, LOG_1, copy, len, (size_t)(i % 2) * 100);
        free(copy);
        if (fixture_try_open(&h.f) < 0) {
            assert_true(strlen(h.f.error) > 0);
            continue;
        }
        opened++;
        free(fixture_dump(&h.f, &dump_len));
        fixture_close(&h.f);
    }
    assert_true(opened > 10);
    history_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_tail__at_every_byte_gives_a_prefix),
        cmocka_unit_test(last_frame__with_a_wrong_byte_is_refused),
        cmocka_unit_test(last_frame__without_a_block_is_torn_after_a_power_cut_only),
        cmocka_unit_test(last_frame__that_ends_in_zeros_is_torn_in_any_boot),
        cmocka_unit_test(last_frame__of_an_older_program_is_judged_by_its_last_byte),
        cmocka_unit_test(damage__in_the_middle_is_refused),
        cmocka_unit_test(damage__the_advice_in_the_message_works),
        cmocka_unit_test(power_cut__loses_only_what_was_not_synced),
        cmocka_unit_test(clean_close__makes_all_damage_visible),
        cmocka_unit_test(snapshot__replaces_the_log_and_loads_again),
        cmocka_unit_test(snapshot__that_fails_loses_nothing),
        cmocka_unit_test(missing_segment__is_refused),
        cmocka_unit_test(damaged_snapshot__is_refused_unless_the_log_is_still_there),
        cmocka_unit_test(newer_version__is_refused_with_its_number),
        cmocka_unit_test(older_format__is_read_and_never_written_to),
        cmocka_unit_test(segment_never_begun__is_how_a_crash_leaves_it),
        cmocka_unit_test(torn_tail__is_kept_aside),
        cmocka_unit_test(foreign_file__is_refused_and_left_as_it_is),
        cmocka_unit_test(hostile_tail__is_refused_without_being_checked_over_and_over),
        cmocka_unit_test(no_regular_file__is_refused),
        cmocka_unit_test(symlink__is_never_followed),
        cmocka_unit_test(hard_link__named_lock_is_not_written),
        cmocka_unit_test(unfinished_snapshot__is_replaced_and_not_written_through),
        cmocka_unit_test(hostile_files__never_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
