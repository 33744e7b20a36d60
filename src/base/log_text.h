/*
 * log_text.h - shortens a text of a client for the log, and hides the tickets in it.
 */
#ifndef BASE_LOG_TEXT_H
#define BASE_LOG_TEXT_H

#include "base/base.h"

enum {
    LOG_CUT_MAX = 128, /* bytes that a line repeats of what a client sent */
    LOG_CUT_SIZE = LOG_CUT_MAX + 40,
};

/*
 * The beginning of every ticket of the gateway (gateway/ticket.h): base64url of its version, 2 or
 * 1, and of the upper bytes of its expiry, which are zero. A unit test of the tickets compares
 * both.
 */
#define LOG_TICKET_BEGINS "AgAAAA"
#define LOG_OLD_TICKET_BEGINS "AQAAAA"

/*
 * The text, or its beginning and its length: "/aaaa... (7000 bytes)". Tickets of the gateway in it
 * are written as stars. Returns `buf`.
 */
const char *log_cut(char buf[LOG_CUT_SIZE], struct slice text);

#endif
