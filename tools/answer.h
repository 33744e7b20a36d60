/*
 * answer.h - reads the WebSocket URL from a webhook's answer.
 */
#ifndef TOOLS_ANSWER_H
#define TOOLS_ANSWER_H

#include "media.h"
#include "url.h"

enum answer_kind {
    ANSWER_STREAM, /* *ret_url has it */
    ANSWER_BUSY,   /* the caller is told that nobody is free */
    ANSWER_BAD,    /* nothing that this provider would understand */
};

/* TwiML, Plivo's XML or Exotel's JSON, as the provider would read it. */
enum answer_kind answer_read(enum media_dialect dialect, int status, struct slice body, struct url *ret_url);

#endif
