/*
 * loader.c - rebuilds the state from snapshot and segments, and decides whether a bad place is a
 * torn tail or damage.
 */
#include "store/embedded/loader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/embedded/pace.h"
#include "store/embedded/reader.h"
#include "store/embedded/record_codec.h"
#include "store/embedded/torn_tail.h"

/* The largest number of a file or a frame. No store reaches it. */
#define LOADER_NUMBER_MAX (UINT64_MAX / 2)

struct loader {
    const struct directory *dir;
    const struct loader_options *options;
    struct core *core;
    struct loaded loaded;
    uint64_t *segments; /* numbers, ascending */
    size_t segment_count;
    bool may_start_anew; /* the segment of the snapshot may be missing */
    uint32_t boot;       /* of what was read last */
    struct pace pace;
    char *error;
    size_t error_size;
};

/* What stands behind a bad place. */
struct beyond {
    bool has_frames;
    bool is_damage;       /* it cannot come from a crash of the machine alone */
    bool is_unknown;      /* looking any further would take too long */
    uint64_t durable_seq; /* the highest that a frame claims */
    uint64_t budget;      /* of frame_find */
};

enum {
    LOOK_BUDGET = 64 * 1024 * 1024,
    LOOK_BUDGET_FACTOR = 4, /* and so many times the size of what is looked at */
};

static int loader_fail(struct loader *loader, int err, const char *name, const char *what)
{
    snprintf(loader->error, loader->error_size, "cannot read %s/%s: %s", loader->dir->path, name, what);
    return err;
}

/* Nothing is changed or cut: what an older program does not understand may be all of the calls. */
static int loader_fail_newer(struct loader *loader, const char *name, const char *what)
{
    snprintf(loader->error, loader->error_size,
             "%s/%s was written by a newer version of this program: %s. Nothing was changed. Start the newer "
             "version again; or start this one with a copy of the directory from before the upgrade "
             "(docs/UPGRADING.md, Downgrade)",
             loader->dir->path, name, what);
    return -EOPNOTSUPP;
}

static int loader_fail_version(struct loader *loader, const char *name, uint32_t version)
{
    char what[96];

    snprintf(what, sizeof(what), "it has format %lu, and this program reads formats %d to %d",
             (unsigned long)version, FILE_FORMAT_OLDEST, FILE_FORMAT_VERSION);
    return loader_fail_newer(loader, name, what);
}

static int loader_fail_damaged(struct loader *loader, const char *name, uint64_t offset, const char *what)
{
    snprintf(loader->error, loader->error_size,
             "%s/%s is damaged at offset %llu: %s. Restore the directory from a backup; or, to give up what "
             "was written after that place, run `truncate -s %llu %s/%s` and move log files with a higher "
             "number away",
             loader->dir->path, name, (unsigned long long)offset, what, (unsigned long long)offset,
             loader->dir->path, name);
    return -EBADMSG;
}

static int loader_fail_missing(struct loader *loader, uint64_t index)
{
    char name[DIRECTORY_NAME_MAX];

    directory_name(name, FILE_SEGMENT, index);
    snprintf(loader->error, loader->error_size,
             "%s/%s is missing%s. Restore the directory from a backup; or, to give up what was written in it "
             "and after it, run `touch %s/%s` and move log files with a higher number away",
             loader->dir->path, name,
             loader->loaded.damaged_snapshot ? " and the newest snapshot is damaged" : "", loader->dir->path,
             name);
    return -EBADMSG;
}

static int loader_open(struct loader *loader, struct reader *reader, enum file_kind kind, uint64_t index)
{
    int err = reader_open(reader, loader->dir, kind, index);

    if (err == -ENXIO)
        return loader_fail(loader, err, reader->name, "it is not a regular file; move it away");
    return err < 0 ? loader_fail(loader, err, reader->name, strerror(-err)) : 0;
}

static int loader_read_frame(struct loader *loader, struct reader *reader, struct frame *ret_frame)
{
    if (loader->options->is_background)
        pace_rest(&loader->pace);
    return reader_frame(reader, ret_frame);
}

static int loader_apply(struct loader *loader, const struct reader *reader, const struct frame *frame)
{
    uint64_t frame_at = reader->offset - frame->payload_len - FRAME_HEADER_SIZE;
    struct record record;
    size_t used;
    int err;

    for (size_t at = 0; at < frame->payload_len; at += used) {
        err = record_decode(frame->payload + at, frame->payload_len - at, &record, &used);
        if (err == -EOPNOTSUPP)
            return loader_fail_newer(loader, reader->name,
                                     "it has a record of a kind that this one does not know");
        if (err == 0)
            err = core_apply(loader->core, &record);
        if (err == -EBADMSG)
            return loader_fail_damaged(loader, reader->name, frame_at,
                                       "the checksum is right, but the content contradicts what came before");
        if (err < 0)
            return loader_fail(loader, err, reader->name, strerror(-err));
        loader->loaded.records++;
        loader->loaded.has_tiers |= record.type == RECORD_TIERS;
    }
    loader->loaded.time_ms = max_u64(loader->loaded.time_ms, frame->time_ms);
    if (loader->options->cancel && atomic_load(loader->options->cancel))
        return loader_fail(loader, -ECANCELED, reader->name, "stopped");
    return 0;
}

/* Walks a snapshot; with `apply` into core. -EBADMSG: it is not complete. */
static int loader_walk_snapshot(struct loader *loader, struct reader *reader, bool apply,
                                struct file_header *ret_header)
{
    struct frame frame;
    uint64_t seq = 0;
    bool is_foreign;
    int err;

    err = reader_header(reader, FILE_SNAPSHOT, ret_header, &is_foreign);
    if (err == -EOPNOTSUPP)
        return loader_fail_version(loader, reader->name, ret_header->version);
    while (err == 0) {
        err = loader_read_frame(loader, reader, &frame);
        if (err < 0)
            break;
        if (frame.seq != seq++)
            return -EBADMSG;
        if (frame.kind == FRAME_END)
            return 0;
        if (frame.kind != FRAME_STATE)
            return -EBADMSG;
        if (apply)
            err = loader_apply(loader, reader, &frame);
    }
    return err == -ENODATA ? -EBADMSG : err;
}

static int loader_take_snapshot(struct loader *loader, uint64_t index)
{
    struct file_header header;
    struct reader reader;
    int err;

    err = loader_open(loader, &reader, FILE_SNAPSHOT, index);
    if (err < 0)
        return err;
    err = loader_walk_snapshot(loader, &reader, false, &header);
    /* The numbers of our own files begin with 1, and count on. */
    if (err == 0 && (header.index != index || index > LOADER_NUMBER_MAX || header.first_seq == 0 ||
                     header.first_seq > LOADER_NUMBER_MAX))
        err = -EBADMSG;
    reader_release(&reader);
    if (err < 0)
        return err;
    err = loader_open(loader, &reader, FILE_SNAPSHOT, index);
    if (err < 0)
        return err;
    err = loader_walk_snapshot(loader, &reader, true, &header);
    loader->loaded.snapshot_bytes = reader.size;
    loader->loaded.index = loader->loaded.keep_from = index;
    loader->loaded.next_seq = header.first_seq;
    loader->loaded.time_ms = max_u64(loader->loaded.time_ms, header.time_ms);
    loader->loaded.format = header.version;
    loader->may_start_anew = header.may_stand_alone;
    reader_release(&reader);
    return err;
}

static int loader_load_snapshot(struct loader *loader)
{
    uint64_t *snapshots = NULL;
    size_t count = 0;
    int err;

    err = directory_list(loader->dir, FILE_SNAPSHOT, &snapshots, &count);
    if (err < 0)
        return loader_fail(loader, err, "", strerror(-err));
    loader->loaded.index = loader->loaded.keep_from = 1;
    loader->loaded.next_seq = 1;
    loader->may_start_anew = count == 0 && loader->segment_count == 0;
    loader->loaded.is_empty = loader->may_start_anew;
    for (size_t i = count; i > 0; i--) {
        if (loader->options->upto && snapshots[i - 1] > loader->options->upto)
            continue;
        err = loader_take_snapshot(loader, snapshots[i - 1]);
        if (err == 0)
            break;
        /* A snapshot contradicts itself only if we wrote it so; an older one is not better. */
        if (err != -EBADMSG || loader->loaded.records)
            break;
        loader->loaded.damaged_snapshot = max_u64(loader->loaded.damaged_snapshot, snapshots[i - 1]);
        err = 0;
    }
    free(snapshots);
    return err;
}

static int loader_look_beyond(struct loader *loader, uint64_t index, uint64_t offset, struct beyond *beyond)
{
    uint32_t boot = loader->options->boot;
    struct reader reader;
    struct frame frame;
    const char *at;
    char *data;
    size_t len;
    int err;

    err = loader_open(loader, &reader, FILE_SEGMENT, index);
    if (err < 0)
        return err;
    err = reader_rest(&reader, offset, &data, &len);
    if (err < 0) {
        loader_fail(loader, err, reader.name, strerror(-err));
        reader_release(&reader);
        return err;
    }
    beyond->budget += LOOK_BUDGET_FACTOR * len;
    at = frame_find(data, len, 0, &beyond->budget, &frame);
    while (at) {
        beyond->has_frames = true;
        beyond->durable_seq = max_u64(beyond->durable_seq, frame.durable_seq);
        beyond->is_damage |= !boot || !frame.boot || frame.boot == boot;
        at = frame_find(data, len, (size_t)(at - data) + FRAME_HEADER_SIZE + frame.payload_len,
                        &beyond->budget, &frame);
    }
    beyond->is_unknown |= beyond->budget == 0;
    free(data);
    reader_release(&reader);
    return 0;
}

/*
 * A later segment that has a header counts like a frame; one that has anything else counts as
 * damage.
 */
static int loader_look_at_header(struct loader *loader, uint64_t index, struct beyond *beyond)
{
    uint32_t boot = loader->options->boot;
    struct file_header header;
    struct reader reader;
    bool is_foreign;
    int err;

    err = loader_open(loader, &reader, FILE_SEGMENT, index);
    if (err < 0)
        return err;
    err = reader_header(&reader, FILE_SEGMENT, &header, &is_foreign);
    reader_release(&reader);
    if (err == -ENODATA)
        return 0;
    beyond->has_frames = true;
    if (err < 0) {
        beyond->is_damage = true;
        return 0;
    }
    beyond->durable_seq = max_u64(beyond->durable_seq, header.durable_seq);
    beyond->is_damage |= !boot || !header.boot || header.boot == boot;
    return 0;
}

/* Cuts the log off at `offset` of segment i and removes the later ones. */
static int loader_cut(struct loader *loader, size_t i, uint64_t offset)
{
    char name[DIRECTORY_NAME_MAX];
    struct reader reader;
    uint64_t used = 0;
    int fd;
    int err;

    torn_tail_keep(loader->dir, loader->segments + i, loader->segment_count - i, offset, loader->loaded.torn);
    for (size_t last = loader->segment_count; last > i; last--) {
        uint64_t from = last - 1 == i ? offset : 0;

        err = reader_open(&reader, loader->dir, FILE_SEGMENT, loader->segments[last - 1]);
        if (err == 0)
            err = reader_used_after(&reader, from, &used);
        reader_release(&reader);
        if (err < 0)
            return loader_fail(loader, err, reader.name, strerror(-err));
        loader->loaded.cut_bytes += used;
        if (last - 1 != i && unlinkat(loader->dir->fd, reader.name, 0) < 0)
            return loader_fail(loader, -errno, reader.name, strerror(errno));
    }
    loader->segment_count = i + 1;
    directory_name(name, FILE_SEGMENT, loader->segments[i]);
    fd = directory_open_file(loader->dir, name, O_RDWR);
    err = fd < 0 ? fd : 0;
    if (err == 0 && ftruncate(fd, (off_t)offset) < 0)
        err = -errno;
    if (fd >= 0)
        close(fd);
    if (err < 0)
        return loader_fail(loader, err, name, strerror(-err));
    return 0;
}

/*
 * Nothing whole stands behind the bad place, so it is the last frame. May a crash have left it so?
 *
 * Answers go out after the write, so only a write that was cut short may be cut off. A process that
 * is killed leaves the beginning of its write, and behind it the zeros that were reserved, or the
 * end of the file. A machine that goes down may besides leave out blocks that were not synced yet,
 * first ones as well as last ones; they read as zeros, too. Anything else was written in full and
 * changed afterwards: clients may have been told of it, and nobody but the operator may give it up.
 * (A damage that turns the last byte of a frame into zero is taken for a cut, because it looks like
 * one.)
 */
static int loader_judge_tail(struct loader *loader, size_t i, uint64_t offset, const char *name)
{
    enum frame_remains remains;
    struct reader reader;
    uint32_t boot = 0;
    char *data;
    size_t len;
    int err;

    err = loader_open(loader, &reader, FILE_SEGMENT, loader->segments[i]);
    if (err < 0)
        return err;
    err = reader_rest(&reader, offset, &data, &len);
    reader_release(&reader);
    if (err < 0)
        return loader_fail(loader, err, name, strerror(-err));
    remains = frame_judge_remains(data, len, offset, &boot);
    free(data);
    boot = boot ? boot : loader->boot;
    if (remains == FRAME_REMAINS_HOLES && loader->options->boot && boot && boot != loader->options->boot)
        return 0;
    if (remains == FRAME_REMAINS_CUT)
        return 0;
    return loader_fail_damaged(loader, name, offset,
                               "the last frame was written in full, but its checksum is wrong: its bytes "
                               "changed afterwards, and clients may have been told of the changes in it");
}

/*
 * No whole frame stands at `offset` of segment i, and it is not the end of the log in good order.
 */
static int loader_bad_place(struct loader *loader, size_t i, uint64_t offset)
{
    uint64_t seq = loader->loaded.next_seq;
    struct beyond beyond = {.budget = LOOK_BUDGET};
    char name[DIRECTORY_NAME_MAX];
    int err;

    directory_name(name, FILE_SEGMENT, loader->segments[i]);
    if (!loader->options->may_repair)
        return loader_fail_damaged(loader, name, offset, "no whole frame is here");
    err = loader_look_beyond(loader, loader->segments[i], offset, &beyond);
    for (size_t later = i + 1; err == 0 && !beyond.is_unknown && later < loader->segment_count; later++) {
        err = loader_look_at_header(loader, loader->segments[later], &beyond);
        if (err == 0)
            err = loader_look_beyond(loader, loader->segments[later], 0, &beyond);
    }
    if (err < 0)
        return err;
    if (beyond.is_unknown)
        return loader_fail_damaged(loader, name, offset,
                                   "no whole frame is here, and what follows is no torn tail of ours");
    if (beyond.has_frames && (beyond.is_damage || beyond.durable_seq >= seq))
        return loader_fail_damaged(loader, name, offset, "no whole frame is here, but later ones are whole");
    if (!beyond.has_frames && offset > 0) {
        err = loader_judge_tail(loader, i, offset, name);
        if (err < 0)
            return err;
    }
    return loader_cut(loader, i, offset);
}

/* 0: the segment was read to its end. 1: the log was cut off here. */
static int loader_load_frames(struct loader *loader, size_t i, struct reader *reader)
{
    struct frame frame;
    int err;

    while ((err = loader_read_frame(loader, reader, &frame)) == 0) {
        uint64_t frame_at = reader->offset - frame.payload_len - FRAME_HEADER_SIZE;

        if (frame.seq != loader->loaded.next_seq || (frame.kind != FRAME_BATCH && frame.kind != FRAME_CLOSED))
            return loader_fail_damaged(loader, reader->name, frame_at,
                                       "this frame belongs somewhere else: files were mixed up");
        err = loader_apply(loader, reader, &frame);
        if (err < 0)
            return err;
        loader->loaded.next_seq++;
        loader->boot = frame.boot;
        loader->loaded.was_closed = frame.kind == FRAME_CLOSED;
    }
    loader->loaded.end = reader->offset;
    loader->loaded.log_bytes += reader->offset;
    if (err == -ENODATA)
        return 0;
    if (err != -EBADMSG)
        return loader_fail(loader, err, reader->name, strerror(-err));
    err = loader_bad_place(loader, i, reader->offset);
    return err < 0 ? err : 1;
}

/* As loader_load_frames. */
static int loader_load_segment(struct loader *loader, size_t i)
{
    struct file_header header;
    struct reader reader;
    bool is_foreign;
    int err;

    err = loader_open(loader, &reader, FILE_SEGMENT, loader->segments[i]);
    if (err < 0)
        return err;
    err = reader_header(&reader, FILE_SEGMENT, &header, &is_foreign);
    if (err == -EOPNOTSUPP) {
        err = loader_fail_version(loader, reader.name, header.version);
    } else if (is_foreign) {
        err = loader_fail_damaged(loader, reader.name, 0, "it does not begin like a file of the log");
    } else if (err == -ENODATA || err == -EBADMSG) {
        /* Made but never begun is how a crash leaves the last one; the log goes on where it was. */
        err = loader_bad_place(loader, i, 0);
        err = err < 0 ? err : 1;
    } else if (err < 0) {
        loader_fail(loader, err, reader.name, strerror(-err));
    } else if (header.index != loader->segments[i] || header.first_seq < loader->loaded.next_seq) {
        err = loader_fail_damaged(loader, reader.name, 0, "it belongs somewhere else: files were mixed up");
    } else if (header.first_seq > loader->loaded.next_seq) {
        if (loader->loaded.segment_exists)
            err = loader_bad_place(loader, i - 1, loader->loaded.end);
        else
            err = loader_fail_damaged(loader, reader.name, 0, "it belongs to another snapshot");
        err = err < 0 ? err : 1;
    } else {
        loader->loaded.segment_exists = true;
        loader->loaded.index = loader->segments[i];
        loader->loaded.format = header.version;
        loader->boot = header.boot;
        loader->loaded.time_ms = max_u64(loader->loaded.time_ms, header.time_ms);
        err = loader_load_frames(loader, i, &reader);
    }
    reader_release(&reader);
    return err;
}

static int loader_load_segments(struct loader *loader)
{
    uint64_t expected = loader->loaded.index;
    int err = 0;

    for (size_t i = 0; i < loader->segment_count && err == 0; i++) {
        if (loader->segments[i] < loader->loaded.keep_from)
            continue;
        if (loader->options->upto && loader->segments[i] > loader->options->upto)
            break;
        if (loader->segments[i] != expected)
            return loader_fail_missing(loader, expected);
        loader->may_start_anew = true;
        expected++;
        err = loader_load_segment(loader, i);
    }
    if (err < 0)
        return err;
    if (!loader->may_start_anew)
        return loader_fail_missing(loader, expected);
    return 0;
}

int loader_load(const struct directory *dir, const struct loader_options *options, struct core *core,
                struct loaded *ret_loaded, char *error, size_t error_size)
{
    struct loader loader = {
        .dir = dir,
        .options = options,
        .core = core,
        .error = error,
        .error_size = error_size,
    };
    int err;

    err = directory_list(dir, FILE_SEGMENT, &loader.segments, &loader.segment_count);
    if (err < 0)
        return loader_fail(&loader, err, "", strerror(-err));
    err = loader_load_snapshot(&loader);
    if (err == 0)
        err = loader_load_segments(&loader);
    free(loader.segments);
    if (err < 0)
        return err;
    *ret_loaded = loader.loaded;
    return 0;
}
