/*
 * log.h - writes one line per event to standard error, as JSON or as text for people.
 *
 * Lines gather in memory and go out once per turn of the loop (log_flush), at once for errors. Writing never
 * blocks the loop: when the reader of the log is stuck, lines are dropped and counted, and the count is
 * logged when the reader is back. The log is the one thing in the process that is global.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

enum log_format {
    LOG_JSON,
    LOG_CONSOLE,
};

struct log_field {
    const char *key;
    const char *text; /* NULL: the value is `number`, or the field is left out if `is_text` */
    int64_t number;
    bool is_text;
    bool is_json; /* the text is JSON already */
};

enum { LOG_JSON_MAX = 16 * 1024 }; /* a longer text is not for the log */

/* A text field that is NULL or empty is left out of the line. */
static inline struct log_field log_str(const char *key, const char *text)
{
    return (struct log_field){key, text, 0, true, false};
}

/* A text that is valid JSON, of one line (json_compact): a value of its own in the JSON form of the log. */
static inline struct log_field log_json(const char *key, const char *text)
{
    return (struct log_field){key, text, 0, true, true};
}

static inline struct log_field log_num(const char *key, int64_t number)
{
    return (struct log_field){key, NULL, number, false, false};
}

void log_configure(enum log_level level, enum log_format format);

/* Where lines go; standard error unless told otherwise. For tests. */
void log_set_fd(int fd);

bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *message, const struct log_field *fields, size_t count);
void log_flush(void);

/* Did the last flush leave something behind, because the reader is slow? */
bool log_is_waiting(void);

/* The last flush of a process: waits for a slow reader, but not for ever. */
void log_finish(uint64_t patience_ms);

/* Lines dropped since the start, for the metrics. */
uint64_t log_dropped(void);

/* log_info("pod drained", log_str("pod", name), log_num("ttl_ms", ttl)); the fields may be left out. */
#define LOG_AT(level, message, ...)                                                                          \
    do {                                                                                                     \
        if (log_enabled(level)) {                                                                            \
            const struct log_field fields_[] = {{0}, ##__VA_ARGS__};                                         \
            log_write(level, message, fields_ + 1, ARRAY_LEN(fields_) - 1);                                  \
        }                                                                                                    \
    } while (0)

#define log_debug(message, ...) LOG_AT(LOG_DEBUG, message, ##__VA_ARGS__)
#define log_info(message, ...) LOG_AT(LOG_INFO, message, ##__VA_ARGS__)
#define log_warn(message, ...) LOG_AT(LOG_WARN, message, ##__VA_ARGS__)
#define log_error(message, ...) LOG_AT(LOG_ERROR, message, ##__VA_ARGS__)

#endif
