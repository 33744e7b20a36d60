/*
 * journal.h - a file with a line of JSON for each thing that happened, for tests that compare.
 *
 * Every line has `at_ns`, the time of CLOCK_BOOTTIME, which all processes of a machine share.
 */
#ifndef TOOLS_JOURNAL_H
#define TOOLS_JOURNAL_H

#include "base/json.h"

struct journal {
    int fd; /* -1: nobody wants to know */
    struct strbuf buf;
    struct json_writer json;
};

/* `path` NULL: there is none. Ends the program where the file cannot be written. */
void journal_init(struct journal *journal, const char *path);
void journal_release(struct journal *journal);

static inline bool journal_is_wanted(const struct journal *journal)
{
    return journal->fd >= 0;
}

/* NULL: nobody wants to know. Else add members, then journal_end. */
struct json_writer *journal_begin(struct journal *journal, const char *event);
void journal_end(struct journal *journal);

#endif
