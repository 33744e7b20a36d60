/*
 * open.c - opens the embedded store: loads the files, makes or reopens the segment, and stores
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
#include "store/seed.h"

enum { OPENING_ARENA_MAX = 4 * TIER_CONFIG_STORED_MAX };

static int opening_check_tiers(const struct embedded_settings *settings, char *error, size_t error_size)
{
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    char why[256] = "";
    int err;

    if (!settings->tier_config)
        return 0;
    err = tier_config_parse_seed(settings->tier_config, strlen(settings->tier_config), &config, why,
                                 sizeof(why));
    if (err == -EINVAL)
        snprintf(error, error_size, "TIER_CONFIG is not valid: %s", why);
    else if (err < 0)
        snprintf(error, error_size, "TIER_CONFIG: %s", strerror(-err));
    return err;
}

/* What an earlier process wrote counts as durable from now on, so it has to be. */
static int opening_sync(struct embedded *embedded)
{
    uint64_t *indexes = NULL;
    size_t count = 0;
    int err;

    err = directory_list(&embedded->dir, FILE_SEGMENT, &indexes, &count);
    for (size_t i = 0; err == 0 && i < count; i++) {
        char name[DIRECTORY_NAME_MAX];
        int fd;

        directory_name(name, FILE_SEGMENT, indexes[i]);
        fd = directory_open_file(&embedded->dir, name, O_RDONLY);
        if (fd < 0)
            err = fd;
        else if (embedded->disk->sync(fd) < 0)
            err = -errno;
        if (fd >= 0)
            close(fd);
    }
    free(indexes);
    return err < 0 ? err : directory_sync(&embedded->dir);
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
    int err;

    err = segment_create(&embedded->dir, embedded->disk, index, &embedded->active);
    if (err == 0)
        err = segment_begin(&embedded->active, &header);
    if (err == 0 && embedded->fsync != EMBEDDED_FSYNC_NO && embedded->disk->sync(embedded->active.fd) < 0)
        err = -errno;
    return err;
}

/*
 * The log goes on in a file of the present format. In the older one, an older program would meet
 * records that it does not know, take them for damage, and advise to cut them off.
 */
static int opening_change_format(struct embedded *embedded, const struct loaded *loaded)
{
    int err;

    segment_close(&embedded->active);
    err = opening_new_segment(embedded, loaded->index + 1);
    if (err == 0)
        log_info("the data is of an older version; from now on only this version or a newer one reads it",
                 log_str("directory", embedded->dir.path), log_num("older_format", loaded->format),
                 log_num("format", FILE_FORMAT_VERSION));
    return err;
}

static int opening_segment(struct embedded *embedded, const struct loaded *loaded, char *error,
                           size_t error_size)
{
    bool is_older = loaded->format != FILE_FORMAT_VERSION;
    int err;

    if (loaded->segment_exists) {
        err = segment_reopen(&embedded->dir, embedded->disk, loaded->index, loaded->end, &embedded->active);
        if (err == 0)
            err = segment_trim(&embedded->active);
        /* The header of a new segment says that what came before it is on the disk. */
        if (err == 0 && (embedded->fsync != EMBEDDED_FSYNC_NO || is_older)) {
            err = opening_sync(embedded);
            embedded->durable_seq = embedded->next_seq - 1;
        }
        if (err == 0 && is_older)
            err = opening_change_format(embedded, loaded);
    } else {
        err = opening_new_segment(embedded, loaded->index);
        embedded->durable_seq = embedded->next_seq - 1;
    }
    if (err < 0)
        snprintf(error, error_size, "cannot write the log in %s: %s", embedded->dir.path, strerror(-err));
    return err;
}

static int opening_seed(struct embedded *embedded, const char *tier_config, char *error, size_t error_size)
{
    struct command command = {.type = COMMAND_TIERS_SET};
    struct frame frame = {.kind = FRAME_BATCH, .boot = embedded->boot, .seq = embedded->next_seq};
    struct result result;
    struct arena arena;
    struct slice bytes = {0};
    int err;

    command.tiers_set.text = tier_config ? tier_config : "";
    command.tiers_set.is_seed = true;
    arena_init(&arena, OPENING_ARENA_MAX);
    err = core_execute(embedded->core, &command, embedded_now(embedded), &arena, &result);
    if (err == 0 && result.outcome != OUTCOME_OK) {
        snprintf(error, error_size, "TIER_CONFIG is not valid: %s", result.error ? result.error : "");
        arena_release(&arena);
        return -EINVAL;
    }
    arena_release(&arena);
    frame.durable_seq = embedded->durable_seq;
    frame.time_ms = embedded_now(embedded);
    if (err == 0)
        err = batch_seal(&embedded->gathering, &frame, &bytes);
    if (err == 0)
        err = segment_write(&embedded->active, bytes.data, bytes.len);
    if (err == 0 && embedded->fsync != EMBEDDED_FSYNC_NO && embedded->disk->sync(embedded->active.fd) < 0)
        err = -errno;
    if (err < 0) {
        snprintf(error, error_size, "cannot write the log in %s: %s", embedded->dir.path, strerror(-err));
        return err;
    }
    if (embedded->fsync != EMBEDDED_FSYNC_NO)
        embedded->durable_seq = embedded->next_seq;
    embedded->next_seq++;
    embedded->log_bytes += bytes.len;
    batch_reset(&embedded->gathering);
    return 0;
}

/* The stored tiers win over TIER_CONFIG; an operator who changed the variable should be told so. */
static void opening_compare_tiers(struct embedded *embedded, const char *tier_config)
{
    CLEANUP(tier_config_freep) struct tier_config *wanted = NULL;
    struct command command = {.type = COMMAND_TIERS};
    struct result result;
    struct arena arena;
    char error[256];

    if (!tier_config ||
        tier_config_parse_seed(tier_config, strlen(tier_config), &wanted, error, sizeof(error)) < 0)
        return;
    arena_init(&arena, OPENING_ARENA_MAX);
    if (core_execute(embedded->core, &command, embedded_now(embedded), &arena, &result) == 0)
        seed_compare(result.tiers.text, strlen(result.tiers.text), wanted);
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
    int err;

    err = loader_load(&embedded->dir, &options, embedded->core, &loaded, error, error_size);
    if (err < 0)
        return err;
    opening_tell(embedded, &loaded);
    embedded->next_seq = loaded.next_seq;
    embedded->log_bytes = loaded.log_bytes;
    embedded->snapshot_bytes = loaded.snapshot_bytes;
    /* Neither a clock that was set back nor a restart makes the store's time go back. */
    embedded->clock_start_ms = max_u64(clock_wall_ms(), loaded.time_ms);
    embedded->clock_elapsed_ms = clock_elapsed_ms();
    core_loaded(embedded->core, embedded_now(embedded));
    core_on_record(embedded->core, embedded_add_record, embedded);

    err = opening_segment(embedded, &loaded, error, error_size);
    if (err == 0 && !loaded.has_tiers)
        err = opening_seed(embedded, settings->tier_config, error, error_size);
    else if (err == 0)
        opening_compare_tiers(embedded, settings->tier_config);
    if (err < 0)
        return err;
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
    /*
     * What waits for an answer keeps the loop alive by the idle handle or by its job; nothing else
     * should.
     */
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
    int err;

    /* Beyond RLIMIT_FSIZE a write should fail like on any full disk, and not end the process. */
    signal(SIGXFSZ, SIG_IGN);
    err = opening_check_tiers(settings, error, error_size);
    if (err < 0)
        return err;
    embedded = calloc(1, sizeof(*embedded));
    if (!embedded) {
        snprintf(error, error_size, "out of memory");
        return -ENOMEM;
    }
    embedded->magic = EMBEDDED_MAGIC;
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

    err = directory_open(&embedded->dir, settings->data_dir, error, error_size);
    if (err == 0) {
        err = core_new(&settings->core, &embedded->core);
        if (err < 0)
            snprintf(error, error_size, "out of memory");
    }
    if (err == 0)
        err = opening_load(embedded, settings, &loaded, error, error_size);
    if (err < 0) {
        embedded_free(embedded);
        return err;
    }
    opening_start_handles(embedded);
    commit_reserve_ahead(embedded);
    *ret_report = (struct embedded_report){
        .replayed_records = loaded.records,
        .cut_bytes = loaded.cut_bytes,
        .calls = core_call_count(embedded->core),
        .waiting = core_waiting_count(embedded->core),
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
