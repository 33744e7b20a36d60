/*
 * log_limit.h - limits the log lines that anybody can cause without a key.
 *
 * Each kind of them may have LOG_LIMIT_BURST lines in LOG_LIMIT_INTERVAL_MS. What is beyond is left out and
 * counted. A line says how many, once in LOG_LIMIT_TELL_MS for each kind and at the end of the process, so
 * that nothing disappears silently. Global, as the log is.
 */
#ifndef BASE_LOG_LIMIT_H
#define BASE_LOG_LIMIT_H

#include "base/log.h"
#include "base/slice.h"

enum log_kind {
    LOG_OF_UNAUTHORIZED, /* requests without a key */
    LOG_OF_REFUSED,      /* requests that something else is wrong with, and that came without a key */
    LOG_OF_WEBHOOK,      /* webhooks that nobody has signed, or that need no signature */
    LOG_OF_PROVIDER,     /* webhooks with a good signature or token that are refused or ignored */
    LOG_OF_GATEWAY,      /* streams without a good ticket */
    LOG_KINDS,
};

enum {
    LOG_LIMIT_BURST = 20,
    LOG_LIMIT_INTERVAL_MS = 4 * 1000,
    LOG_LIMIT_TELL_MS = 10 * 1000,
};

const char *log_kind_name(enum log_kind kind);

/* May a line of that kind be written now? False: it is left out and counted, or nobody wants its level. */
bool log_limit_passes(enum log_kind kind, enum log_level level);

/* Lines left out since the start, for the metrics. */
uint64_t log_limit_left_out(enum log_kind kind);

/* Writes the lines about what was left out, where they are due; `is_end`: all of them. log_flush does it. */
void log_limit_tell(bool is_end);

#endif
