/*
 * journal.c - writes lines of JSON about what happened.
 */
#include "journal.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "options.h"

enum { LINE_MAX_BYTES = 64 * 1024 };

void journal_init(struct journal *journal, const char *path)
{
    *journal = (struct journal){.fd = -1};
    strbuf_init(&journal->buf, NULL, LINE_MAX_BYTES);
    if (!path)
        return;
    journal->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (journal->fd < 0)
        option_bad("journal", "the file cannot be written");
}

void journal_release(struct journal *journal)
{
    strbuf_release(&journal->buf);
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
}

struct json_writer *journal_begin(struct journal *journal, const char *event)
{
    if (journal->fd < 0)
        return NULL;
    strbuf_reset(&journal->buf);
    json_begin(&journal->json, &journal->buf);
    json_object_begin(&journal->json);
    json_put_string(&journal->json, "event", event);
    json_put_u64(&journal->json, "at_ns", clock_elapsed_ns());
    return &journal->json;
}

/* One write for a line, so that a process that is killed leaves whole ones. */
void journal_end(struct journal *journal)
{
    json_object_end(&journal->json);
    strbuf_append_char(&journal->buf, '\n');
    if (!strbuf_failed(&journal->buf))
        (void)!write(journal->fd, journal->buf.data, journal->buf.len);
}
