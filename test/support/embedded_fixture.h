/*
 * embedded_fixture.h - an embedded store in a directory of its own, driven step by step.
 *
 * Its disk is the real one, and can be told to refuse. Only for the tests of the embedded store.
 */
#ifndef TEST_SUPPORT_EMBEDDED_FIXTURE_H
#define TEST_SUPPORT_EMBEDDED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/record_codec.h"

enum {
    FIXTURE_PODS = 20,
    FIXTURE_STEPS_MAX = 2000000, /* turns of the loop before a wait is given up */
};

/* What the disk answers from now on; the number counts down, 0 stops. -1: until told otherwise. */
struct fixture_faults {
    int pwrite;
    int pwrite_errno;
    int sync;
    int reserve;
    int reserve_errno;
    uint32_t boot; /* 0: the real one */
};

static struct fixture_faults faults;

static inline bool fault_strikes(int *count)
{
    if (*count == 0)
        return false;
    if (*count > 0)
        --*count;
    return true;
}

static inline ssize_t faulty_pwrite(int fd, const void *data, size_t len, off_t offset)
{
    if (fault_strikes(&faults.pwrite)) {
        /* A part is written, as a disk that fails in the middle does. */
        (void)!pwrite(fd, data, len / 2, offset);
        errno = faults.pwrite_errno ? faults.pwrite_errno : EIO;
        return -1;
    }
    return pwrite(fd, data, len, offset);
}

static inline int faulty_sync(int fd)
{
    if (fault_strikes(&faults.sync)) {
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}

static inline int faulty_reserve(int fd, off_t offset, off_t len)
{
    if (fault_strikes(&faults.reserve))
        return faults.reserve_errno ? faults.reserve_errno : ENOSPC;
    return posix_fallocate(fd, offset, len);
}

static inline uint32_t faulty_boot(void)
{
    return faults.boot ? faults.boot : disk_real.boot();
}

static const struct disk faulty_disk = {faulty_pwrite, faulty_sync, faulty_reserve, faulty_boot};

struct fixture {
    uv_loop_t loop;
    char dir[64];
    struct embedded_settings settings;
    struct store *store;
    struct embedded_report report;
    char error[1024];
    struct arena arena;
    /* of the last command */
    bool is_done;
    int err;
    struct result result;
    bool is_closed;
};

static inline void fixture_init(struct fixture *f, enum embedded_fsync fsync)
{
    memset(f, 0, sizeof(*f));
    memset(&faults, 0, sizeof(faults));
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    snprintf(f->dir, sizeof(f->dir), "/tmp/embedded-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(uv_loop_init(&f->loop), 0);
    arena_init(&f->arena, 64 * 1024 * 1024);
    f->settings = (struct embedded_settings){
        .data_dir = f->dir,
        .fsync = fsync,
        .core =
            {
                .lease_ttl_ms = 900000,
                .call_max_duration_ms = 4 * 3600000,
                .draining_ttl_ms = 360000,
                .heartbeat_ttl_ms = 90000,
            },
        .tier_config = "{\"standard\":{\"target\":20}}",
    };
}

static inline int fixture_try_open(struct fixture *f)
{
    f->error[0] = '\0';
    return embedded_open_on(&f->loop, &f->settings, &faulty_disk, &f->store, &f->report, f->error,
                            sizeof(f->error));
}

static inline void fixture_open(struct fixture *f)
{
    int r = fixture_try_open(f);

    if (r < 0)
        fail_msg("open: %s: %s", strerror(-r), f->error);
}

static inline void fixture_closed(void *arg)
{
    struct fixture *f = arg;

    f->is_closed = true;
}

static inline void fixture_close(struct fixture *f)
{
    f->is_closed = false;
    store_close(f->store, fixture_closed, f);
    assert_false(f->is_closed);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->is_closed);
    f->store = NULL;
}

static inline void fixture_remove_files(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
}

static inline void fixture_release(struct fixture *f)
{
    if (f->store)
        fixture_close(f);
    fixture_remove_files(f->dir);
    assert_int_equal(rmdir(f->dir), 0);
    arena_release(&f->arena);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

static inline void fixture_answered(void *arg, int err, const struct result *result)
{
    struct fixture *f = arg;

    assert_false(f->is_done);
    f->is_done = true;
    f->err = err;
    assert_int_equal(err == 0, result != NULL);
    if (result)
        f->result = *result;
}

/* Turns the loop until `*flag`. */
static inline void fixture_wait(struct fixture *f, const bool *flag)
{
    for (int i = 0; !*flag && i < FIXTURE_STEPS_MAX; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(*flag);
}

/* The answer's err, or what the refusal was. */
static inline int fixture_execute(struct fixture *f, const struct command *command)
{
    int r;

    f->is_done = false;
    r = store_execute(f->store, command, &f->arena, fixture_answered, f);
    assert_false(f->is_done);
    if (r < 0)
        return r;
    fixture_wait(f, &f->is_done);
    return f->err;
}

static inline int fixture_allocate(struct fixture *f, const char *sid)
{
    return fixture_execute(
        f, &(struct command){.type = COMMAND_ALLOCATE, .allocate = {sid, "merchant", "twilio"}});
}

static inline int fixture_release_call(struct fixture *f, const char *sid)
{
    return fixture_execute(f, &(struct command){.type = COMMAND_RELEASE, .release = {sid}});
}

static inline int fixture_call(struct fixture *f, const char *sid)
{
    return fixture_execute(f, &(struct command){.type = COMMAND_CALL, .call = {sid}});
}

static inline void fixture_add_pods(struct fixture *f)
{
    static char names[FIXTURE_PODS][32];
    static struct pod_seen pods[FIXTURE_PODS];

    for (size_t i = 0; i < FIXTURE_PODS; i++) {
        snprintf(names[i], sizeof(names[i]), "voice-agent-%zu", i);
        pods[i] = (struct pod_seen){
            .name = names[i],
            .address = "127.0.0.1:9000",
            .incarnation = "i-1",
            .source = POD_SOURCE_STATIC,
            .is_ready = true,
        };
    }
    assert_int_equal(fixture_execute(f, &(struct command){.type = COMMAND_SYNC,
                                                          .sync = {POD_SOURCE_STATIC, pods, FIXTURE_PODS}}),
                     0);
    assert_int_equal(f->result.outcome, OUTCOME_OK);
}

/* An open store with its pods. */
static inline void fixture_start(struct fixture *f, enum embedded_fsync fsync)
{
    fixture_init(f, fsync);
    fixture_open(f);
    fixture_add_pods(f);
}

/* The records of a core, one after the other in an order that depends on them alone. */
struct fixture_dump {
    struct slice *records;
    size_t count;
    struct arena arena;
};

static inline void fixture_dump_add(void *arg, const struct record *record)
{
    struct fixture_dump *dump = arg;
    struct strbuf buf;

    strbuf_init(&buf, &dump->arena, 1024 * 1024);
    record_encode(&buf, record);
    assert_false(strbuf_failed(&buf));
    dump->records = realloc(dump->records, (dump->count + 1) * sizeof(*dump->records));
    assert_non_null(dump->records);
    dump->records[dump->count++] = strbuf_slice(&buf);
}

static inline int fixture_dump_compare(const void *a, const void *b)
{
    const struct slice *x = a;
    const struct slice *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->data, y->data, len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* To be freed. */
static inline char *fixture_dump(struct fixture *f, size_t *ret_len)
{
    struct fixture_dump dump = {0};
    struct strbuf all;
    char error[256];

    if (!core_check(embedded_core(f->store), error, sizeof(error)))
        fail_msg("%s", error);
    arena_init(&dump.arena, 256 * 1024 * 1024);
    core_dump(embedded_core(f->store), fixture_dump_add, &dump);
    qsort(dump.records, dump.count, sizeof(*dump.records), fixture_dump_compare);
    strbuf_init(&all, NULL, 64 * 1024 * 1024);
    for (size_t i = 0; i < dump.count; i++)
        strbuf_append(&all, dump.records[i].data, dump.records[i].len);
    free(dump.records);
    arena_release(&dump.arena);
    *ret_len = all.len;
    return all.data;
}

/* The state is the one of an earlier dump, which this frees. */
static inline void fixture_assert_dump(struct fixture *f, char *before, size_t before_len)
{
    size_t after_len;
    char *after = fixture_dump(f, &after_len);

    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

/* The whole file, to be freed. */
static inline char *fixture_read_file(struct fixture *f, const char *name, size_t *ret_len)
{
    char path[128];
    struct stat st;
    char *data;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    data = malloc((size_t)st.st_size + 1);
    assert_non_null(data);
    assert_int_equal(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    *ret_len = (size_t)st.st_size;
    return data;
}

/* With `zeros` bytes of zeros behind it. */
static inline void fixture_write_file(struct fixture *f, const char *name, const char *data, size_t len,
                                      size_t zeros)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, len, 0), (ssize_t)len);
    assert_int_equal(ftruncate(fd, (off_t)(len + zeros)), 0);
    close(fd);
}

static inline bool fixture_has_file(struct fixture *f, const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    return access(path, F_OK) == 0;
}

#endif
