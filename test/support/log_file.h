/*
 * log_file.h - the log of a unit test, in a file, so that the test can count its lines.
 *
 * One at a time: the log has one descriptor.
 */
#ifndef TEST_SUPPORT_LOG_FILE_H
#define TEST_SUPPORT_LOG_FILE_H

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static inline FILE *log_file_open(void)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    log_set_fd(fileno(file));
    return file;
}

/* How often the log contains the text so far. */
static inline unsigned log_file_count(FILE *file, const char *text)
{
    static char lines[65536];
    unsigned count = 0;
    size_t len;

    log_flush();
    rewind(file);
    len = fread(lines, 1, sizeof(lines) - 1, file);
    lines[len] = '\0';
    for (const char *at = lines; (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* The log goes to stderr again. */
static inline void log_file_close(FILE *file)
{
    log_flush();
    log_set_fd(2);
    fclose(file);
}

#endif
