/*
 * answer.h - reads the answer to a webhook as the provider does: a stream, a pause, the end.
 */
#ifndef TOOLS_ANSWER_H
#define TOOLS_ANSWER_H

#include "media.h"
#include "url.h"

enum answer_kind {
    ANSWER_STREAM, /* at `url`; when it has ended, `after` is asked */
    ANSWER_LATER,  /* `after` is asked in pause_ms */
    ANSWER_BUSY,   /* the caller hears something, or nothing, and is hung up on */
    ANSWER_BAD,    /* nothing that this provider would understand */
};

struct answer {
    enum answer_kind kind;
    struct url url;
    bool has_after;
    struct url after;
    uint64_t pause_ms;
};

/* TwiML, Plivo's XML or Exotel's JSON. */
void answer_read(enum media_dialect dialect, int status, struct slice body, struct answer *ret_answer);

#endif
