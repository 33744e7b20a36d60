/*
 * passage.h - one direction of a stream whose frames are followed: messages are passed on whole, or not at
 * all.
 *
 * Bytes are not changed. The beginning of a message is kept until its end has come, so that the direction
 * can be spliced at any time: nothing of a message that is not complete has been passed on. A message that
 * is longer than `tail_max` is passed on as it comes, or dropped. No I/O; inside the module only.
 */
#ifndef GATEWAY_PASSAGE_H
#define GATEWAY_PASSAGE_H

#include "base/strbuf.h"
#include "ws/tracker.h"

enum { PASSAGE_TAIL_MAX = 64 * 1024 };

/* A message or a control frame has ended. */
struct passage_unit {
    const struct ws_step *step;
    /*
     * All its frames, as they came: `before` in earlier reads, `now` in this one. Both are empty for a
     * control frame between the fragments of a message, and for a message that was too long to be kept.
     */
    struct slice before;
    struct slice now;
};

enum passage_verdict {
    PASSAGE_PASS,
    PASSAGE_DROP,
    PASSAGE_STOP, /* this and all that follows is dropped, and nothing is followed any more */
};

struct passage {
    struct ws_tracker tracker;
    struct strbuf tail; /* the beginning of the open message, which has not been passed on */
    size_t tail_max;    /* may be changed at any time */
    bool streams_large; /* what becomes of a longer message: it is passed on as it comes, or dropped */
    bool is_streaming;  /* the open message is being passed on */
    bool is_skipping;   /* the open message is being dropped */
    bool is_stopped;
};

struct passage_to {
    /* Passes bytes on. False: that is not possible any more, and nothing more is passed on. */
    bool (*pass)(void *arg, struct slice before, struct slice now);
    enum passage_verdict (*look)(void *arg, const struct passage_unit *unit);
    void *arg;
};

/* `is_masked`: the bytes come from a client. `head_want`: see ws/tracker.h. */
void passage_init(struct passage *passage, bool is_masked, size_t head_want);
void passage_release(struct passage *passage);

/*
 * Follows the bytes. 0; -EPROTO: this is no WebSocket of this direction: the messages before it were passed
 * on, the rest was not, and `*ret_used` says where it begins; -ENOMEM: likewise.
 */
int passage_feed(struct passage *passage, const char *data, size_t len, const struct passage_to *to,
                 size_t *ret_used) MUST_CHECK;

/* Is a message open of which a part was passed on already? Then the direction cannot be spliced here. */
bool passage_is_torn(const struct passage *passage);

/* Drops what is open: its rest, up to the next boundary, is not passed on either. */
void passage_drop_open(struct passage *passage);

#endif
