/*
 * tracker.c - follows the frames of one direction without touching their bytes.
 */
#include "ws/tracker.h"

enum { TRACKER_MAGIC = 0x77747263 };

void ws_tracker_init(struct ws_tracker *tracker, bool is_masked, size_t head_want)
{
    assert(head_want <= WS_HEAD_MAX);
    /* The buffers at its end need no value, and there is one tracker for each direction of each stream. */
    memset(tracker, 0, offsetof(struct ws_tracker, control));
    tracker->magic = TRACKER_MAGIC;
    tracker->is_masked = is_masked;
    tracker->head_want = (uint16_t)head_want;
}

bool ws_tracker_is_inside(const struct ws_tracker *tracker)
{
    MAGIC_CHECK(tracker, TRACKER_MAGIC);
    return tracker->is_in_frame || tracker->partial_len > 0 || tracker->opcode != WS_CONTINUATION;
}

/* Reads a header that may have begun in an earlier read. As ws_header_parse; *ret_used is of `data`. */
static int tracker_parse(struct ws_tracker *tracker, const char *data, size_t len, size_t *ret_used)
{
    size_t before = tracker->partial_len;
    size_t copied = 0;
    int r;

    if (before == 0) {
        r = ws_header_parse(data, len, &tracker->header);
        if (r > 0)
            *ret_used = tracker->header.size;
        if (r != 0)
            return r;
    }
    copied = min_u64(len, WS_HEADER_MAX - before);
    memcpy(tracker->partial + before, data, copied);
    r = ws_header_parse(tracker->partial, before + copied, &tracker->header);
    if (r < 0)
        return r;
    if (r == 0) {
        /* A header is never longer than the room for it, so all of `data` was copied. */
        assert(copied == len);
        tracker->partial_len = (uint8_t)(before + copied);
        *ret_used = len;
        return 0;
    }
    tracker->partial_len = 0;
    *ret_used = tracker->header.size - before;
    return 1;
}

static int tracker_open_frame(struct ws_tracker *tracker)
{
    const struct ws_header *header = &tracker->header;
    bool is_open = tracker->opcode != WS_CONTINUATION;

    if (header->is_masked != tracker->is_masked)
        return -EPROTO;
    tracker->is_in_frame = true;
    tracker->left = header->len;
    if (ws_is_control(header->opcode)) {
        tracker->control_len = 0;
        return 0;
    }
    if (is_open != (header->opcode == WS_CONTINUATION))
        return -EPROTO;
    if (!is_open) {
        tracker->opcode = header->opcode;
        tracker->message_len = 0;
        tracker->head_len = 0;
        tracker->head_max = header->opcode == WS_TEXT ? tracker->head_want : 0;
    }
    return 0;
}

/* Keeps what somebody may want to look at of these bytes of the open frame. */
static void tracker_look(struct ws_tracker *tracker, const char *data, size_t len)
{
    uint64_t offset = tracker->header.len - tracker->left;
    char *to;

    if (ws_is_control(tracker->header.opcode)) {
        to = tracker->control + tracker->control_len;
        tracker->control_len = (uint8_t)(tracker->control_len + len);
    } else {
        len = min_u64(len, (uint64_t)tracker->head_max - tracker->head_len);
        to = tracker->head + tracker->head_len;
        tracker->head_len = (uint16_t)(tracker->head_len + len);
    }
    if (len == 0)
        return;
    memcpy(to, data, len);
    if (tracker->is_masked)
        ws_mask(to, len, tracker->header.mask, offset);
}

/* The open frame is complete. True: that is an event. */
static bool tracker_close_frame(struct ws_tracker *tracker, struct ws_step *step)
{
    const struct ws_header *header = &tracker->header;

    tracker->is_in_frame = false;
    step->frame_size = header->size + header->len;
    if (ws_is_control(header->opcode)) {
        step->event = WS_EVENT_CONTROL;
        step->opcode = header->opcode;
        step->payload_len = header->len;
        step->head = (struct slice){tracker->control, tracker->control_len};
        step->is_boundary = tracker->opcode == WS_CONTINUATION;
        return true;
    }
    tracker->message_len += header->len;
    if (!header->is_final)
        return false;
    step->event = WS_EVENT_MESSAGE;
    step->opcode = tracker->opcode;
    step->payload_len = tracker->message_len;
    step->head = (struct slice){tracker->head, tracker->head_len};
    step->is_boundary = true;
    tracker->opcode = WS_CONTINUATION;
    return true;
}

static int tracker_break(struct ws_tracker *tracker)
{
    tracker->is_broken = true;
    return -EPROTO;
}

int ws_tracker_next(struct ws_tracker *tracker, const char *data, size_t len, struct ws_step *ret_step)
{
    struct ws_step step = {.event = WS_EVENT_NONE};
    size_t part;
    int r;

    MAGIC_CHECK(tracker, TRACKER_MAGIC);
    assert(len > 0);
    if (tracker->is_broken)
        return -EPROTO;
    while (step.used < len) {
        if (!tracker->is_in_frame) {
            r = tracker_parse(tracker, data + step.used, len - step.used, &part);
            if (r < 0)
                return tracker_break(tracker);
            step.used += part;
            if (r == 0)
                break;
            if (tracker_open_frame(tracker) < 0)
                return tracker_break(tracker);
        }
        part = min_u64(tracker->left, len - step.used);
        tracker_look(tracker, data + step.used, part);
        tracker->left -= part;
        step.used += part;
        if (tracker->left == 0 && tracker_close_frame(tracker, &step))
            break;
    }
    assert(step.event != WS_EVENT_NONE || step.used == len);
    *ret_step = step;
    return 0;
}
