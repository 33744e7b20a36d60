/*
 * opening.c - opens the embedded store: loads the files, makes or reopens the segment, and stores
 * the first tiers.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/tiers.h"
#include "store/embedded/embedded_internal.h"
#include "store/embedded/loader.h"

enum { OPENING_ARENA_MAX = 4 * TIER_CONFIG_STORED_MAX };

static int opening_check_tiers(const struct embedded_settings *settings, char *error, size_t error_size)
{
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    char why[256] = "";
    int r;

    if (!settings->tier_config)
        return 0;
    r = tier_config_parse(settings->tier_config, strlen(settings->tier_config), &config, why, sizeof(why));
    if (r == -EINVAL)
        snprintf(error, error_size, "TIER_CONFIG is not valid: %s", why);
    else if (r < 0)
        snprintf(error, error_size, "TIER_CONFIG: %s", strerror(-r));
    return r;
}

/* What an earlier process wrote counts as durable from now on, so it has to be. */
static int opening_sync(struct embedded *embedded)
{
    uint64_t *indexes = NULL;
    size_t count = 0;
    int r;

    r = directory_list(&embedded->dir, FILE_SEGMENT, &indexes, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        char name[DIRECTORY_NAME_MAX];
        int fd;

        directory_name(name, FILE_SEGMENT, indexes[i]);
        fd = directory_open_file(&embedded->dir, name, O_RDONLY);
        if (fd < 0)
            r = fd;
        else if (embedded->disk->sync(fd) < 0)
            r = -errno;
        if (fd >= 0)
            close(fd);
    }
    free(indexes);
    return r < 0 ? r : directory_sync(&embedded->dir);
}

static int opening_new_segment(struct embedded *embedded, uint64_t index)
{
    struct file_header header = {
        .kind = FILE_SEGMENT,
        .boot = embedded->boot,
        .index = index,
        .first_seq = embedded->next_seq,
        .durable_seq = embedded->next_seq - 1,
        .time_ms = embedded_now(embedded),
    };
    int r;

    r = segment_create(&embedded->dir, embedded->disk, index, &embedded->active);
    if (r == 0)
        r = segment_begin(&embedded->active, &header);
    if (r == 0 && embedded->fsync != EMBEDDED_FSYNC_NO && embedded->disk->sync(embedded->active.fd) < 0)
        r = -errno;
    return r;
}

static int opening_segment(struct embedded *embedded, const struct loaded *loaded, char *error,
                           size_t error_size)
{
    int r;

    if (loaded->segment_exists) {
        r = segment_reopen(&embedded->dir, embedded->disk, loaded->index, loaded->end, &embedded->active);
        if (r == 0)
            r = segment_trim(&embedded->active);
        if (r == 0 && embedded->fsync != EMBEDDED_FSYNC_NO) {
            r = opening_sync(embedded);
            embedded->durable_seq = embedded->next_seq - 1;
        }
    } else {
        r = opening_new_segment(embedded, loaded->index);
        embedded->durable_seq = embedded->next_seq - 1;
    }
    if (r < 0)
        snprintf(error, error_size, "cannot write the log in %s: %s", embedded->dir.path, strerror(-r));
    return r;
}

static int opening_seed(struct embedded *embedded, const char *tier_config, char *error, size_t error_size)
{
    struct command command = {.type = COMMAND_TIERS_SET};
    struct frame frame = {.kind = FRAME_BATCH, .boot = embedded->boot, .seq = embedded->next_seq};
    struct result result;
    struct arena arena;
    struct slice bytes = {0};
    int r;

    command.tiers_set.text = tier_config ? tier_config : "";
    arena_init(&arena, OPENING_ARENA_MAX);
    r = core_execute(embedded->core, &command, embedded_now(embedded), &arena, &result);
    if (r == 0 && result.outcome != OUTCOME_OK) {
        snprintf(error, error_size, "TIER_CONFIG is not valid: %s", result.error ? result.error : "");
        arena_release(&arena);
        return -EINVAL;
    }
    arena_release(&arena);
    frame.durable_seq = embedded->durable_seq;
    frame.time_ms = embedded_now(embedded);
    if (r == 0)
        r = batch_seal(&embedded->gathering, &frame, &bytes);
    if (r == 0)
        r = segment_write(&embedded->active, bytes.data, bytes.len);
    if (r == 0 && embedded->fsync != EMBEDDED_FSYNC_NO && embedded->disk->sync(embedded->active.fd) < 0)
        r = -errno;
    if (r < 0) {
        snprintf(error, error_size, "cannot write the log in %s: %s", embedded->dir.path, strerror(-r));
        return r;
    }
    if (embedded->fsync != EMBEDDED_FSYNC_NO)
        embedded->durable_seq = embedded->next_seq;
    embedded->next_seq++;
    embedded->log_bytes += bytes.len;
    batch_reset(&embedded->gathering);
    return 0;
}

/* Do both mean the same, however each is written? */
static bool opening_is_same(const char *stored, const char *tier_config)
{
    CLEANUP(tier_config_freep) struct tier_config *in_force = NULL, *wanted = NULL;
    char error[256];
    struct strbuf buf;
    bool is_same;

    if (tier_config_parse_stored(stored, strlen(stored), &in_force, error, sizeof(error)) < 0 ||
        tier_config_parse(tier_config, strlen(tier_config), &wanted, error, sizeof(error)) < 0)
        return true; /* both have been read before, so memory is short: nothing depends on the answer */
    strbuf_init(&buf, NULL, TIER_CONFIG_STORED_MAX);
    tier_config_write(in_force, &buf);
    is_same = strbuf_failed(&buf) || strcmp(buf.data, wanted->text) == 0;
    strbuf_release(&buf);
    return is_same;
}

/* The stored tiers win over TIER_CONFIG; an operator who changed the variable should be told so. */
static void opening_compare_tiers(struct embedded *embedded, const char *tier_config)
{
    struct command command = {.type = COMMAND_TIERS};
    struct result result;
    struct arena arena;

    if (!tier_config)
        return;
    arena_init(&arena, OPENING_ARENA_MAX);
    if (core_execute(embedded->core, &command, embedded_now(embedded), &arena, &result) == 0 &&
        result.outcome == OUTCOME_OK && !opening_is_same(result.tiers.text, tier_config))
        log_warn("the stored tiers are in force, which differ from TIER_CONFIG; change them with PUT "
                 "/api/v1/tiers",
                 log_str("directory", embedded->dir.path));
    arena_release(&arena);
}

/* What an operator may want to know about the directory, and about how the last run ended. */
static void opening_tell(const struct embedded *embedded, const struct loaded *loaded)
{
    if (directory_is_exposed(&embedded->dir))
        log_warn(
            "others can write in the data directory: they can remove and replace the calls stored there; "
            "make it the router's own, with mode 0700",
            log_str("directory", embedded->dir.path));
    if (!loaded->is_empty && (!loaded->was_closed || loaded->cut_bytes))
        log_info("the last run did not end cleanly", log_str("directory", embedded->dir.path));
    if (loaded->cut_bytes)
        log_warn("a torn tail was cut off the log: the last write before the crash was not complete",
                 log_str("directory", embedded->dir.path), log_num("cut_bytes", (int64_t)loaded->cut_bytes),
                 log_str("kept_as", loaded->torn));
    if (loaded->damaged_snapshot)
        log_warn("the newest snapshot is damaged; an older one and the log were used instead",
                 log_str("directory", embedded->dir.path),
                 log_num("snapshot", (int64_t)loaded->damaged_snapshot));
}

static int opening_load(struct embedded *embedded, const struct embedded_settings *settings,
                        struct loaded *ret_loaded, char *error, size_t error_size)
{
    struct loader_options options = {.may_repair = true, .boot = embedded->boot};
    struct loaded loaded;
    int r;

    r = loader_load(&embedded->dir, &options, embedded->core, &loaded, error, error_size);
    if (r < 0)
        return r;
    opening_tell(embedded, &loaded);
    embedded->next_seq = loaded.next_seq;
    embedded->log_bytes = loaded.log_bytes;
    embedded->snapshot_bytes = loaded.snapshot_bytes;
    /* Neither a clock that was set back nor a restart makes the store's time go back. */
    embedded->clock_start_ms = max_u64(clock_wall_ms(), loaded.time_ms);
    embedded->clock_elapsed_ms = clock_elapsed_ms();
    core_loaded(embedded->core, embedded_now(embedded));
    core_on_record(embedded->core, embedded_add_record, embedded);

    r = opening_segment(embedded, &loaded, error, error_size);
    if (r == 0 && !loaded.has_tiers)
        r = opening_seed(embedded, settings->tier_config, error, error_size);
    else if (r == 0)
        opening_compare_tiers(embedded, settings->tier_config);
    if (r < 0)
        return r;
    directory_remove_before(&embedded->dir, loaded.keep_from);
    directory_remove_tmp(&embedded->dir);
    *ret_loaded = loaded;
    return 0;
}

static void opening_start_handles(struct embedded *embedded)
{
    uv_handle_t *handles[] = {
        (uv_handle_t *)&embedded->check,       (uv_handle_t *)&embedded->idle,
        (uv_handle_t *)&embedded->sync_timer,  (uv_handle_t *)&embedded->retry_timer,
        (uv_handle_t *)&embedded->awake_timer,
    };

    uv_check_init(embedded->loop, &embedded->check);
    uv_idle_init(embedded->loop, &embedded->idle);
    uv_timer_init(embedded->loop, &embedded->sync_timer);
    uv_timer_init(embedded->loop, &embedded->retry_timer);
    uv_timer_init(embedded->loop, &embedded->awake_timer);
    for (size_t i = 0; i < ARRAY_LEN(handles); i++)
        handles[i]->data = embedded;
    embedded->handles_open = ARRAY_LEN(handles);
    uv_check_start(&embedded->check, embedded_checked);
    embedded->awake_at_ms = embedded_now(embedded);
    uv_timer_start(&embedded->awake_timer, embedded_awake, EMBEDDED_AWAKE_EVERY_MS, EMBEDDED_AWAKE_EVERY_MS);
    /* What waits for an answer keeps the loop alive by the idle handle or by its job; nothing else should. */
    uv_unref((uv_handle_t *)&embedded->check);
    uv_unref((uv_handle_t *)&embedded->sync_timer);
    uv_unref((uv_handle_t *)&embedded->retry_timer);
    uv_unref((uv_handle_t *)&embedded->awake_timer);
}

int embedded_open_on(uv_loop_t *loop, const struct embedded_settings *settings, const struct disk *disk,
                     struct store **ret_store, struct embedded_report *ret_report, char *error,
                     size_t error_size)
{
    uint64_t started_ms = clock_elapsed_ms();
    struct embedded *embedded;
    struct loaded loaded = {0};
    int r;

    /* Beyond RLIMIT_FSIZE a write should fail like on any full disk, and not end the process. */
    signal(SIGXFSZ, SIG_IGN);
    r = opening_check_tiers(settings, error, error_size);
    if (r < 0)
        return r;
    embedded = calloc(1, sizeof(*embedded));
    if (!embedded) {
        snprintf(error, error_size, "out of memory");
        return -ENOMEM;
    }
    embedded->store.ops = &embedded_ops;
    embedded->loop = loop;
    embedded->disk = disk;
    embedded->fsync = settings->fsync;
    embedded->core_settings = settings->core;
    embedded->snapshot_after_bytes =
        settings->snapshot_after_bytes ? settings->snapshot_after_bytes : EMBEDDED_SNAPSHOT_AFTER;
    embedded->boot = disk->boot();
    embedded->active.fd = -1;
    embedded->dir.fd = embedded->dir.lock_fd = -1;
    pending_pool_init(&embedded->pool);
    batch_init(&embedded->gathering);
    batch_init(&embedded->in_flight);

    r = directory_open(&embedded->dir, settings->data_dir, error, error_size);
    if (r == 0) {
        r = core_new(&settings->core, &embedded->core);
        if (r < 0)
            snprintf(error, error_size, "out of memory");
    }
    if (r == 0)
        r = opening_load(embedded, settings, &loaded, error, error_size);
    if (r < 0) {
        embedded_free(embedded);
        return r;
    }
    opening_start_handles(embedded);
    commit_reserve_ahead(embedded);
    *ret_report = (struct embedded_report){
        .replayed_records = loaded.records,
        .cut_bytes = loaded.cut_bytes,
        .calls = core_call_count(embedded->core),
        .pods = core_pod_count(embedded->core),
        .load_ms = clock_elapsed_ms() - started_ms,
    };
    *ret_store = &embedded->store;
    return 0;
}

int embedded_open(uv_loop_t *loop, const struct embedded_settings *settings, struct store **ret_store,
                  struct embedded_report *ret_report, char *error, size_t error_size)
{
    return embedded_open_on(loop, settings, &disk_real, ret_store, ret_report, error, error_size);
}
