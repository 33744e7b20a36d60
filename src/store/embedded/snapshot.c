/*
 * snapshot.c - writes a core as a snapshot file, or into memory to be written later.
 */
#include "store/embedded/snapshot.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/embedded/pace.h"
#include "store/embedded/record_codec.h"

enum {
    SNAPSHOT_BUFFER = 4 * SNAPSHOT_FRAME_SIZE,
    WRITER_MAGIC = 0x77726974,
};

struct snapshot_writer {
    unsigned magic;
    struct strbuf *buf;
    size_t frame_at; /* in buf: where the frame begins that is being filled */
    uint64_t frames;
    uint64_t time_ms;
    uint32_t boot;
    const struct disk *disk;
    int fd; /* -1: all stays in buf */
    uint64_t offset;
    struct pace pace;
    int err;
};

static void writer_flush(struct snapshot_writer *writer)
{
    if (writer->err == 0 && strbuf_failed(writer->buf))
        writer->err = -ENOMEM;
    if (writer->fd < 0 || writer->err < 0)
        return;
    writer->err = disk_write(writer->disk, writer->fd, writer->buf->data, writer->buf->len, writer->offset);
    writer->offset += writer->buf->len;
    strbuf_reset(writer->buf);
}

static void writer_begin_frame(struct snapshot_writer *writer)
{
    static const char no_header[FRAME_HEADER_SIZE];

    writer->frame_at = writer->buf->len;
    strbuf_append(writer->buf, no_header, sizeof(no_header));
}

static void writer_end_frame(struct snapshot_writer *writer, enum frame_kind kind)
{
    struct strbuf *buf = writer->buf;

    if (strbuf_failed(buf))
        return;
    frame_seal(buf->data + writer->frame_at,
               &(struct frame){
                   .kind = kind,
                   .boot = writer->boot,
                   .seq = writer->frames++,
                   .time_ms = writer->time_ms,
                   .payload_len = buf->len - writer->frame_at - FRAME_HEADER_SIZE,
               });
    if (writer->fd >= 0 && buf->len >= SNAPSHOT_BUFFER)
        writer_flush(writer);
}

static void writer_add(void *arg, const struct record *record)
{
    struct snapshot_writer *writer = arg;

    MAGIC_CHECK(writer, WRITER_MAGIC);
    record_encode(writer->buf, record);
    if (writer->buf->len - writer->frame_at < SNAPSHOT_FRAME_SIZE)
        return;
    writer_end_frame(writer, FRAME_STATE);
    writer_begin_frame(writer);
    if (writer->fd >= 0)
        pace_rest(&writer->pace);
}

static void writer_run(struct snapshot_writer *writer, const struct file_header *header,
                       const struct core *core)
{
    char data[FILE_HEADER_SIZE];

    assert(header->kind == FILE_SNAPSHOT);
    writer->time_ms = header->time_ms;
    writer->boot = header->boot;
    file_header_write(data, header);
    strbuf_append(writer->buf, data, sizeof(data));
    writer_begin_frame(writer);
    core_dump(core, writer_add, writer);
    writer_end_frame(writer, FRAME_STATE);
    writer_begin_frame(writer);
    writer_end_frame(writer, FRAME_END);
    writer_flush(writer);
}

/* Takes over fd. */
static int snapshot_finish(const struct directory *dir, const struct disk *disk, uint64_t index, int fd,
                           int err)
{
    char name[DIRECTORY_NAME_MAX];
    char tmp_name[DIRECTORY_NAME_MAX];

    directory_name(name, FILE_SNAPSHOT, index);
    directory_tmp_name(tmp_name, FILE_SNAPSHOT, index);
    if (err == 0 && disk->sync(fd) < 0)
        err = -errno;
    close(fd);
    if (err == 0 && renameat(dir->fd, tmp_name, dir->fd, name) < 0)
        err = -errno;
    if (err < 0) {
        unlinkat(dir->fd, tmp_name, 0);
        return err;
    }
    return directory_sync(dir);
}

static int snapshot_create(const struct directory *dir, uint64_t index)
{
    char tmp_name[DIRECTORY_NAME_MAX];

    directory_tmp_name(tmp_name, FILE_SNAPSHOT, index);
    /* Always a new file: what is there is left from before, or was put there by somebody else. */
    unlinkat(dir->fd, tmp_name, 0);
    return directory_open_file(dir, tmp_name, O_WRONLY | O_CREAT | O_EXCL);
}

int snapshot_write(const struct directory *dir, const struct disk *disk, const struct file_header *header,
                   const struct core *core, uint64_t *ret_bytes)
{
    struct strbuf buf;
    struct snapshot_writer writer = {.magic = WRITER_MAGIC, .buf = &buf, .disk = disk};
    int err;

    writer.fd = snapshot_create(dir, header->index);
    if (writer.fd < 0)
        return writer.fd;
    strbuf_init(&buf, NULL, FRAME_PAYLOAD_MAX);
    writer_run(&writer, header, core);
    strbuf_release(&buf);
    err = snapshot_finish(dir, disk, header->index, writer.fd, writer.err);
    if (err == 0)
        *ret_bytes = writer.offset;
    return err;
}

int snapshot_encode(const struct file_header *header, const struct core *core, struct strbuf *buf)
{
    struct snapshot_writer writer = {.magic = WRITER_MAGIC, .buf = buf, .fd = -1};

    writer_run(&writer, header, core);
    return writer.err;
}

int snapshot_write_encoded(const struct directory *dir, const struct disk *disk, uint64_t index,
                           struct slice bytes)
{
    int fd = snapshot_create(dir, index);

    if (fd < 0)
        return fd;
    return snapshot_finish(dir, disk, index, fd, disk_write(disk, fd, bytes.data, bytes.len, 0));
}
