/*
 * fuzz_log.c - a start of the embedded store on any files.
 *
 * An input writes the files of the directory, step by step: a letter and what belongs to it.
 *
 *     R bytes...        the rest, as it is, into the current file
 *     B n bytes         so many bytes as they are
 *     F n bytes         a frame whose checksum is right, with these bytes as its records
 *     G k b s n bytes   the same, of kind k and boot b, with s added to its sequence number
 *     S / P             a new segment, or a snapshot, with the next number
 *     E                 the end of a snapshot
 *     X a b             one byte, so far from the end of the current file, is another one
 *
 * The start gives either a state in which every invariant holds, and which is there again at the next start,
 * also after something was added to it, or an error with a sentence that names the directory.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../conformance/render.h"
#include "base/log.h"
#include "fuzz.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/frame.h"

enum {
    STEPS_MAX = 256,
    FILES_BYTES_MAX = 4 * 1024 * 1024,
    ARENA_MAX = 16 * 1024 * 1024,
    BOOT = 7,
    TIME_MS = 1000000,
};

static struct {
    uv_loop_t loop;
    char dir[64];
    bool is_ready;
} world;

static int no_sync(int fd UNUSED)
{
    return 0;
}

static int no_reserve(int fd UNUSED, off_t offset UNUSED, off_t len UNUSED)
{
    return 0;
}

static uint32_t one_boot(void)
{
    return BOOT;
}

static const struct disk quick_disk = {pwrite, no_sync, no_reserve, one_boot};

static void remove_files(void)
{
    DIR *dir = opendir(world.dir);
    struct dirent *entry;

    assert(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
}

static void world_release(void)
{
    remove_files();
    (void)unlinkat(AT_FDCWD, world.dir, AT_REMOVEDIR);
}

static void world_init(void)
{
    /* In memory, where there is such a place. */
    snprintf(world.dir, sizeof(world.dir), "%s/fuzz-log-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(world.dir))
        abort();
    atexit(world_release);
    log_set_fd(-1);
    uv_loop_init(&world.loop);
    world.is_ready = true;
}

/* The file that is being written. */
struct writer {
    struct strbuf bytes;
    enum file_kind kind;
    uint64_t index;
    uint64_t seq;
    uint64_t snapshot_seq;
};

static void writer_begin(struct writer *writer, enum file_kind kind)
{
    struct file_header header = {
        .kind = kind,
        .boot = BOOT,
        .index = writer->index,
        .first_seq = writer->seq,
        .durable_seq = writer->seq - 1,
        .time_ms = TIME_MS,
    };
    char data[FILE_HEADER_SIZE];

    writer->kind = kind;
    writer->snapshot_seq = 0;
    strbuf_reset(&writer->bytes);
    file_header_write(data, &header);
    strbuf_append(&writer->bytes, data, sizeof(data));
}

static void writer_end(struct writer *writer)
{
    char name[DIRECTORY_NAME_MAX];
    char path[128];
    FILE *file;

    directory_name(name, writer->kind, writer->index);
    snprintf(path, sizeof(path), "%s/%s", world.dir, name);
    file = fopen(path, "wb");
    assert(file);
    if (writer->bytes.len > 0)
        (void)!fwrite(writer->bytes.data, 1, writer->bytes.len, file);
    fclose(file);
}

static void writer_frame(struct writer *writer, struct frame frame, struct slice payload)
{
    char *data = strbuf_grow(&writer->bytes, FRAME_HEADER_SIZE + payload.len);

    if (!data)
        return;
    frame.payload_len = payload.len;
    frame.time_ms = TIME_MS;
    memcpy(data + FRAME_HEADER_SIZE, payload.data, payload.len);
    frame_seal(data, &frame);
    writer->bytes.len += FRAME_HEADER_SIZE + payload.len;
}

static struct slice take_bytes(struct input *input)
{
    size_t len = input_byte(input);

    return input_take(input, len);
}

static void writer_add(struct writer *writer, struct input *input, bool is_odd)
{
    bool is_snapshot = writer->kind == FILE_SNAPSHOT;
    struct frame frame = {
        .kind = is_snapshot ? FRAME_STATE : FRAME_BATCH,
        .boot = BOOT,
        .seq = is_snapshot ? writer->snapshot_seq++ : writer->seq++,
        .durable_seq = writer->seq - 2,
    };

    if (is_odd) {
        frame.kind = (enum frame_kind)(input_byte(input) % 8);
        frame.boot = input_byte(input);
        frame.seq += (uint64_t)(int8_t)input_byte(input);
    }
    writer_frame(writer, frame, take_bytes(input));
}

static void writer_step(struct writer *writer, struct input *input)
{
    struct slice bytes;
    size_t at;

    switch (input_byte(input)) {
    case 'R':
        bytes = input_rest(input);
        strbuf_append(&writer->bytes, bytes.data, bytes.len);
        break;
    case 'B':
        bytes = take_bytes(input);
        strbuf_append(&writer->bytes, bytes.data, bytes.len);
        break;
    case 'F':
        writer_add(writer, input, false);
        break;
    case 'G':
        writer_add(writer, input, true);
        break;
    case 'S':
    case 'P':
        writer_end(writer);
        writer->index += input->data[-1] == 'S' && writer->kind == FILE_SEGMENT;
        /* A snapshot and the segment that follows it have the same number. */
        writer->index += input->data[-1] == 'P';
        writer_begin(writer, input->data[-1] == 'S' ? FILE_SEGMENT : FILE_SNAPSHOT);
        break;
    case 'E':
        writer_frame(writer, (struct frame){.kind = FRAME_END, .boot = BOOT, .seq = writer->snapshot_seq},
                     (struct slice){"", 0});
        break;
    case 'X':
        at = input_byte(input);
        if (at < writer->bytes.len)
            writer->bytes.data[writer->bytes.len - 1 - at] = (char)input_byte(input);
        break;
    default:
        break;
    }
}

static void write_files(struct input *input)
{
    struct writer writer = {.index = 1, .seq = 1};

    strbuf_init(&writer.bytes, NULL, FILES_BYTES_MAX);
    if (input->size > 0 && input->data[0] != 'R')
        writer_begin(&writer, FILE_SEGMENT);
    for (int i = 0; i < STEPS_MAX && input->size > 0; i++)
        writer_step(&writer, input);
    writer_end(&writer);
    strbuf_release(&writer.bytes);
}

/* Everything that is in it can be shown. */
static void show(struct core *core)
{
    static const enum command_type looks[] = {COMMAND_STATUS,    COMMAND_PODS,  COMMAND_CALLS,
                                              COMMAND_MERCHANTS, COMMAND_TIERS, COMMAND_WAITING};
    struct result result;
    struct strbuf buf;
    struct arena arena;

    arena_init(&arena, ARENA_MAX);
    strbuf_init(&buf, &arena, ARENA_MAX);
    for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
        struct command look = {.type = looks[i]};
        int rc;

        if (looks[i] == COMMAND_PODS)
            look.pods.state = -1;
        rc = core_execute(core, &look, 0, &arena, &result);
        assert(rc == 0 && result.outcome == OUTCOME_OK);
        for (size_t j = 0; looks[i] == COMMAND_PODS && j < result.pods.count; j++)
            assert(result.pods.pods[j].source <= POD_SOURCE_KUBERNETES);
        render_result(&buf, &look, &result, &arena);
    }
    arena_release(&arena);
}

static struct store *start(void)
{
    static const struct embedded_settings settings = {
        .data_dir = world.dir,
        .fsync = EMBEDDED_FSYNC_NO,
        .core = {.lease_ttl_ms = 900000,
                 .call_max_duration_ms = 14400000,
                 .connect_timeout_ms = 300000,
                 .draining_ttl_ms = 360000,
                 .heartbeat_ttl_ms = 60000},
    };
    struct embedded_report report;
    char error[EMBEDDED_ERROR_MAX] = "";
    struct store *store = NULL;
    int rc = embedded_open_on(&world.loop, &settings, &quick_disk, &store, &report, error, sizeof(error));

    if (rc) {
        assert(!store && strstr(error, world.dir));
        return NULL;
    }
    if (!core_check(embedded_core(store), error, sizeof(error))) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    show(embedded_core(store));
    assert(report.calls == core_call_count(embedded_core(store)));
    assert(report.pods == core_pod_count(embedded_core(store)));
    return store;
}

static void closed(void *arg)
{
    *(bool *)arg = true;
}

static void stop(struct store *store)
{
    bool is_closed = false;

    store_close(store, closed, &is_closed);
    while (!is_closed)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
}

static void answered(void *arg, int err, const struct result *result)
{
    assert(err == 0 && result->outcome == OUTCOME_OK);
    *(bool *)arg = true;
}

/* As if life went on. */
static void change(struct store *store)
{
    struct command command = {
        .type = COMMAND_MERCHANT_SET,
        .merchant_set = {.merchant_id = "added", .text = "{\"tier\":\"gold\"}"},
    };
    struct arena arena;
    bool is_done = false;
    int rc;

    arena_init(&arena, ARENA_MAX);
    rc = store_execute(store, &command, &arena, answered, &is_done);
    assert(rc == 0);
    while (!is_done)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct store *store;

    if (!world.is_ready)
        world_init();
    write_files(&input);
    store = start();
    if (store) {
        /* A call that waits may get a pod meanwhile. */
        size_t calls = core_call_count(embedded_core(store)) + core_waiting_count(embedded_core(store));
        size_t pods = core_pod_count(embedded_core(store));

        change(store);
        stop(store);
        store = start();
        assert(store);
        assert(core_call_count(embedded_core(store)) + core_waiting_count(embedded_core(store)) == calls);
        assert(core_pod_count(embedded_core(store)) == pods);
        stop(store);
    }
    remove_files();
    log_flush();
    return 0;
}
