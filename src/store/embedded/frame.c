/*
 * frame.c - encodes and decodes frames and file headers, and judges what a crash left of a frame.
 */
#include "store/embedded/frame.h"

#include <endian.h>

#include "store/embedded/crc32c.h"

/* Not valid UTF-8 and unlikely as a varint, so that texts never look like a frame. */
static const char frame_magic[4] = {'\xf5', '\xc1', 'S', 'R'};

static const char file_magic[2][8] = {
    [FILE_SEGMENT] = {'S', 'R', 'O', 'U', 'T', 'L', 'O', 'G'},
    [FILE_SNAPSHOT] = {'S', 'R', 'O', 'U', 'T', 'S', 'N', 'P'},
};

/* Offsets in a frame's header. The checksum covers all that stands behind it. */
enum {
    FRAME_MAGIC = 0,
    FRAME_CRC = 4,
    FRAME_LEN = 8,
    FRAME_KIND = 12,
    FRAME_SEQ = 16,
    FRAME_DURABLE = 24,
    FRAME_TIME = 32,
    FRAME_BOOT = 40,
    FRAME_SHAPE = 44,
};

/*
 * FRAME_SHAPE tells a frame that was cut short from one that was damaged. It holds a checksum of
 * the header alone, so that the length can be trusted when the rest is bad; how many zeros the
 * payload ends with (at most 255), because zeros are also what stands behind a write that was cut
 * short; and a bit that is always set, so that no header ends with a zero. It is 0 in frames of
 * older programs, which did not write it.
 */
enum {
    SHAPE_ZEROS_MAX = 0xff,
    SHAPE_CRC_SHIFT = 8,
    SHAPE_CRC_MASK = 0x7fffff,
};
#define SHAPE_PRESENT UINT32_C(0x80000000)

/* Offsets in a file's header. The first two never change between versions. */
enum {
    FILE_MAGIC = 0,
    FILE_VERSION = 8,
    FILE_FLAGS = 12,
    FILE_INDEX = 16,
    FILE_FIRST_SEQ = 24,
    FILE_DURABLE = 32,
    FILE_TIME = 40,
    FILE_BOOT = 48,
    FILE_UNUSED = 52,
    FILE_CRC = 60,
};

enum { FILE_FLAG_ALONE = 1 };

static void put_u32(char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
}

static void put_u64(char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof(value));
}

static uint32_t get_u32(const char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint64_t get_u64(const char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static uint32_t frame_shape(const char *data, uint32_t zeros)
{
    uint32_t crc = crc32c(zeros, data + FRAME_LEN, FRAME_SHAPE - FRAME_LEN);

    return SHAPE_PRESENT | (crc & SHAPE_CRC_MASK) << SHAPE_CRC_SHIFT | zeros;
}

static uint32_t zeros_at_end(const char *data, size_t len)
{
    uint32_t zeros = 0;

    while (zeros < SHAPE_ZEROS_MAX && zeros < len && !data[len - 1 - zeros])
        zeros++;
    return zeros;
}

void frame_seal(char *data, const struct frame *frame)
{
    assert(frame->payload_len <= FRAME_PAYLOAD_MAX);
    memcpy(data + FRAME_MAGIC, frame_magic, sizeof(frame_magic));
    put_u32(data + FRAME_LEN, (uint32_t)frame->payload_len);
    put_u32(data + FRAME_KIND, frame->kind);
    put_u64(data + FRAME_SEQ, frame->seq);
    put_u64(data + FRAME_DURABLE, frame->durable_seq);
    put_u64(data + FRAME_TIME, frame->time_ms);
    put_u32(data + FRAME_BOOT, frame->boot);
    put_u32(data + FRAME_SHAPE,
            frame_shape(data, zeros_at_end(data + FRAME_HEADER_SIZE, frame->payload_len)));
    put_u32(data + FRAME_CRC,
            crc32c(0, data + FRAME_LEN, FRAME_HEADER_SIZE - FRAME_LEN + frame->payload_len));
}

int frame_peek(const char *data, size_t *ret_size)
{
    uint32_t payload_len = get_u32(data + FRAME_LEN);

    if (memcmp(data + FRAME_MAGIC, frame_magic, sizeof(frame_magic)) != 0 || payload_len > FRAME_PAYLOAD_MAX)
        return -EBADMSG;
    *ret_size = FRAME_HEADER_SIZE + payload_len;
    return 0;
}

int frame_open(const char *data, size_t len, struct frame *ret_frame)
{
    uint32_t kind;
    size_t size;

    if (len < FRAME_HEADER_SIZE || frame_peek(data, &size) < 0 || size > len)
        return -EBADMSG;
    if (get_u32(data + FRAME_CRC) != crc32c(0, data + FRAME_LEN, size - FRAME_LEN))
        return -EBADMSG;
    kind = get_u32(data + FRAME_KIND);
    if (kind < FRAME_BATCH || kind > FRAME_END)
        return -EBADMSG;
    *ret_frame = (struct frame){
        .kind = (enum frame_kind)kind,
        .boot = get_u32(data + FRAME_BOOT),
        .seq = get_u64(data + FRAME_SEQ),
        .durable_seq = get_u64(data + FRAME_DURABLE),
        .time_ms = get_u64(data + FRAME_TIME),
        .payload = data + FRAME_HEADER_SIZE,
        .payload_len = size - FRAME_HEADER_SIZE,
    };
    return 0;
}

const char *frame_find(const char *data, size_t len, size_t from, uint64_t *budget, struct frame *ret_frame)
{
    while ((from < len) && (*budget > 0)) {
        const char *at = memmem(data + from, len - from, frame_magic, sizeof(frame_magic));
        size_t left;
        size_t size;

        if (!at)
            return NULL;
        left = len - (size_t)(at - data);
        if (frame_open(at, left, ret_frame) == 0)
            return at;
        if (left >= FRAME_HEADER_SIZE && frame_peek(at, &size) == 0 && size <= left)
            *budget -= min_u64(*budget, size);
        from = (size_t)(at - data) + 1;
    }
    return NULL;
}

/* How many of these bytes stand before the zeros at their end. */
static size_t used_of(const char *data, size_t len)
{
    while (len > 0 && !data[len - 1])
        len--;
    return len;
}

/*
 * Is a whole block of the frame zero? A block that never reached the disk reads as zeros, because
 * the space was reserved before; where the frame begins or ends inside a block, only its own bytes
 * in it count.
 */
static bool frame_has_holes(const char *data, size_t len, uint64_t offset)
{
    size_t at = 0;

    while (at < len) {
        size_t block = (size_t)min_u64(FRAME_BLOCK_SIZE - (offset + at) % FRAME_BLOCK_SIZE, len - at);

        if (used_of(data + at, block) == 0)
            return true;
        at += block;
    }
    return false;
}

enum frame_remains frame_judge_remains(const char *data, size_t len, uint64_t offset, uint32_t *ret_boot)
{
    size_t used = used_of(data, len);
    uint32_t shape;
    uint32_t zeros;
    size_t size;

    assert(used > 0);
    *ret_boot = 0;
    if (used < FRAME_HEADER_SIZE && memcmp(data, frame_magic, min_u64(used, sizeof(frame_magic))) == 0)
        return FRAME_REMAINS_CUT;
    if (len < FRAME_HEADER_SIZE || frame_peek(data, &size) < 0)
        return frame_has_holes(data, used, offset) ? FRAME_REMAINS_HOLES : FRAME_REMAINS_DAMAGED;
    shape = get_u32(data + FRAME_SHAPE);
    zeros = shape & SHAPE_ZEROS_MAX;
    if (shape && shape != frame_shape(data, zeros))
        return frame_has_holes(data, used, offset) ? FRAME_REMAINS_HOLES : FRAME_REMAINS_DAMAGED;
    *ret_boot = get_u32(data + FRAME_BOOT);
    /*
     * No shape: an older program wrote the frame, or the block with the end of the header is
     * missing.
     */
    if (!shape && frame_has_holes(data, used, offset))
        return FRAME_REMAINS_HOLES;
    if (len < size || used < size - zeros)
        return FRAME_REMAINS_CUT;
    return frame_has_holes(data, size - zeros, offset) ? FRAME_REMAINS_HOLES : FRAME_REMAINS_DAMAGED;
}

void file_header_write(char data[FILE_HEADER_SIZE], const struct file_header *header)
{
    memset(data, 0, FILE_HEADER_SIZE);
    memcpy(data + FILE_MAGIC, file_magic[header->kind], sizeof(file_magic[0]));
    put_u32(data + FILE_VERSION, FILE_FORMAT_VERSION);
    put_u32(data + FILE_FLAGS, header->may_stand_alone ? FILE_FLAG_ALONE : 0);
    put_u64(data + FILE_INDEX, header->index);
    put_u64(data + FILE_FIRST_SEQ, header->first_seq);
    put_u64(data + FILE_DURABLE, header->durable_seq);
    put_u64(data + FILE_TIME, header->time_ms);
    put_u32(data + FILE_BOOT, header->boot);
    put_u32(data + FILE_CRC, crc32c(0, data, FILE_CRC));
}

int file_header_read(const char data[FILE_HEADER_SIZE], enum file_kind kind, struct file_header *ret_header)
{
    uint32_t version = get_u32(data + FILE_VERSION);

    if (memcmp(data + FILE_MAGIC, file_magic[kind], sizeof(file_magic[0])) != 0)
        return -EBADMSG;
    if (version < FILE_FORMAT_OLDEST || version > FILE_FORMAT_VERSION) {
        *ret_header = (struct file_header){.kind = kind, .version = version};
        return -EOPNOTSUPP;
    }
    if (get_u32(data + FILE_CRC) != crc32c(0, data, FILE_CRC))
        return -EBADMSG;
    *ret_header = (struct file_header){
        .kind = kind,
        .version = version,
        .may_stand_alone = get_u32(data + FILE_FLAGS) & FILE_FLAG_ALONE,
        .boot = get_u32(data + FILE_BOOT),
        .index = get_u64(data + FILE_INDEX),
        .first_seq = get_u64(data + FILE_FIRST_SEQ),
        .durable_seq = get_u64(data + FILE_DURABLE),
        .time_ms = get_u64(data + FILE_TIME),
    };
    return 0;
}

bool file_header_begins(const char *data, size_t len, enum file_kind kind)
{
    return memcmp(data, file_magic[kind], (size_t)min_u64(len, sizeof(file_magic[0]))) == 0;
}
