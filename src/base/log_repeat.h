/*
 * log_repeat.h - log lines that may repeat: at most so many per interval, with the number left out.
 *
 * Zeroed, nothing has happened yet. The times are of whatever clock the owner uses, always the same
 * one.
 */
#ifndef BASE_LOG_REPEAT_H
#define BASE_LOG_REPEAT_H

#include "base/base.h"

/* At most a number of lines in an interval, counted from the first of them. */
struct log_burst {
    uint64_t begun_ms; /* when the interval began; 0: never */
    size_t passed;     /* lines since then */
};

bool log_burst_passes(struct log_burst *burst, size_t max, uint64_t interval_ms, uint64_t now_ms);

/* One line in an interval, which says how often the event has happened since the last one. */
struct log_repeat {
    size_t count; /* events that no line has told of */
    struct log_burst lines;
};

/*
 * The event happened `count` more times: is it time for a line about them? Then *ret_count is the
 * number that the line tells of. `ret_count` may be NULL.
 */
bool log_repeat_is_due(struct log_repeat *repeat, size_t count, uint64_t now_ms, uint64_t every_ms,
                       size_t *ret_count);

/* The event is another one from now on: its first line is due at once. */
void log_repeat_restart(struct log_repeat *repeat);

#endif
